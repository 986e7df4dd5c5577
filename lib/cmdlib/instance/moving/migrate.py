"""Failing an instance over, and migrating it while it runs (doc/reference/drivers.md d.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ganeti import errors, locking, opcodes, params
from ganeti.cmdlib.allocation.placement import Placement
from ganeti.cmdlib.allocation.requests import Relocate
from ganeti.cmdlib.base import Feedback, Filled
from ganeti.cmdlib.common import CheckNodeGroupsUnchanged, ExpandOtherNode, LockedInstance, LockInstancesNodesAnd
from ganeti.cmdlib.instance.base import CheckNotForthcoming, CheckStillThere, GroupsOf, InstanceLU
from ganeti.cmdlib.instance.moving.anywhere import TLMoveAnywhere
from ganeti.cmdlib.instance.moving.cleanup import TLCleanupMigration
from ganeti.cmdlib.instance.moving.migration import TLMigrateInstance
from ganeti.cmdlib.instance.reservation import TLMoveReservation
from ganeti.locking.lockset import AllSet
from ganeti.params import disk as disk_params

LIVE, NON_LIVE = "live", "non-live"


_MovingOp = TypeVar("_MovingOp", opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate)


class _MovingLU(InstanceLU[_MovingOp]):
    """The common part of failing over and migrating: the nodes involved."""

    LOCKS_NODES = True
    LOCKS_RES = True

    _tasklet: TLMigrateInstance | TLCleanupMigration
    _mover: type[TLMigrateInstance]

    def ExpandNames(self) -> None:
        super().ExpandNames()
        ExpandOtherNode(self, "target_node")
        instance = self.snapshot.instances[Filled(self.op.instance_uuid)]
        template = self.snapshot.DiskTemplate(instance)
        others: tuple[str, ...] = self.snapshot.SecondaryNodes(instance)
        mirrored = template in disk_params.With(mirror=disk_params.INTERNAL)
        self._placement: Placement | None = None
        if template in disk_params.With(mirror=disk_params.EXTERNAL) and self.op.cleanup:
            # The instance may be on any of them.
            assert self.needed_locks is not None
            self.needed_locks[locking.LEVEL_NODE] = self.needed_locks[locking.LEVEL_NODE_ALLOC] = locking.ALL_SET
        elif not self.op.cleanup:
            self._DecideWhoChooses(template)
        third = self._placement is not None or self.op.target_node_uuid not in (None, *others)
        self._mover = TLMoveAnywhere if mirrored and third else TLMigrateInstance
        self._tasklet = self._MakeTasklet()
        self.tasklets = [self._tasklet]

    def _DecideWhoChooses(self, template: str) -> None:
        """Let an allocator choose the node: for shared disks unless one is named, for mirrors on request only."""
        external = template in disk_params.With(mirror=disk_params.EXTERNAL)
        if not external and not (template in disk_params.With(mirror=disk_params.INTERNAL) and self.op.iallocator):
            return
        placement = Placement(self, node_slot="target_node")
        if placement.allocator:
            self._placement = placement
            placement.Declare(
                self._Request,
                lambda: GroupsOf(self.snapshot, LockedInstance(self)),
                lambda: self.snapshot.AllNodes(LockedInstance(self)),
            )

    def _Request(self) -> Relocate:
        """Ask for a node instead of the primary, or instead of the secondary of a mirror."""
        instance, snapshot = LockedInstance(self), self.snapshot
        CheckStillThere(self, instance)
        if not issubclass(self._mover, TLMoveReservation):
            CheckNotForthcoming(instance)
        (leave,) = snapshot.SecondaryNodes(instance)[:1] or (instance.primary_node,)
        return Relocate(instance.name, (snapshot.NodeName(leave),))

    def DeclareLocks(self, level: int) -> None:
        if self._placement is not None:
            self._placement.DeclareLocks(level)
        elif level == locking.LEVEL_NODE:
            assert self.needed_locks is not None
            if not isinstance(self.needed_locks[level], AllSet):
                LockInstancesNodesAnd(self, self.op.target_node_uuid)
        else:
            super().DeclareLocks(level)

    def NodesToConfirm(self) -> set[str]:
        if isinstance(self._tasklet, TLCleanupMigration):
            return self.OnlineNodes(self._tasklet.NodesToConfirm())
        return super().NodesToConfirm()

    def _MakeTasklet(self) -> TLMigrateInstance | TLCleanupMigration:
        raise NotImplementedError

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        CheckStillThere(self, self.instance)
        if self._placement is not None:
            CheckNodeGroupsUnchanged(self, self.instance)
            (self.op.target_node_uuid,) = self._placement.Chosen()
        self._tasklet.CheckPrereq()

    def Exec(self, feedback: Feedback) -> None:
        self._tasklet.Exec(feedback)

    def _Ends(self) -> tuple[str, str]:
        """Return the names of the node the instance leaves and of the one it goes to."""
        nodes = self.snapshot.nodes
        return nodes[self._tasklet.source_uuid].name, nodes[self._tasklet.target_uuid].name

    def MovedEnv(self) -> dict[str, Any]:
        source, target = self._Ends()
        internal = self._tasklet.mirror == disk_params.INTERNAL
        old, new = target, source
        if isinstance(self._tasklet, TLMigrateInstance):
            old, new = (self.snapshot.nodes[uuid].name for uuid in self._tasklet.secondaries)
        return {
            "OLD_PRIMARY": source,
            "NEW_PRIMARY": target,
            "OLD_SECONDARY": old if internal else "",
            "NEW_SECONDARY": new if internal else "",
        }


class LUInstanceFailover(_MovingLU[opcodes.OpInstanceFailover]):
    """Stops an instance where it is and starts it on another node."""

    def _MakeTasklet(self) -> TLMigrateInstance | TLCleanupMigration:
        if self.op.cleanup:
            return TLCleanupMigration(self, Filled(self.op.instance_uuid))
        if self.snapshot.instances[Filled(self.op.instance_uuid)].forthcoming:
            if self._mover is TLMoveAnywhere and self._placement is not None:
                name = self.op.instance_name
                raise TLMoveReservation.OnlyToSecondary(
                    name, "alone, not to one that an allocator chooses", f"'gnt-instance replace-disks -n NODE {name}'"
                )
            self._mover = TLMoveReservation
        return self._mover(
            self,
            Filled(self.op.instance_uuid),
            failover=True,
            ignore_consistency=self.op.ignore_consistency,
            shutdown_timeout=self.op.shutdown_timeout,
            ignore_ipolicy=self.op.ignore_ipolicy,
        )

    def OwnEnv(self) -> dict[str, Any]:
        return {
            "IGNORE_CONSISTENCY": self.op.ignore_consistency,
            "SHUTDOWN_TIMEOUT": self.op.shutdown_timeout,
            "FAILOVER_CLEANUP": self.op.cleanup,
            **self.MovedEnv(),
        }

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        snapshot = self.snapshot
        pre = [snapshot.cluster.master_node, *snapshot.SecondaryNodes(self.instance), self._tasklet.target_uuid]
        return pre, [*pre, self.instance.primary_node]


class LUInstanceMigrate(_MovingLU[opcodes.OpInstanceMigrate]):
    """Moves a running instance to another node."""

    def CheckArguments(self) -> None:
        if self.op.live is not None and self.op.mode is not None:
            raise errors.OpPrereqError("Only one of the 'live' and 'mode' parameters is accepted", errors.ECODE_INVAL)
        if self.op.live is not None:
            self.op.mode = LIVE if self.op.live else NON_LIVE
            # The old parameter is not sent on.
            self.op.live = None
        if self.op.keep_node is not None and not self.op.cleanup:
            raise errors.OpPrereqError("A node to keep can only be named together with 'cleanup'", errors.ECODE_INVAL)

    def ExpandNames(self) -> None:
        ExpandOtherNode(self, "keep_node")
        super().ExpandNames()

    def _MakeTasklet(self) -> TLMigrateInstance | TLCleanupMigration:
        if self.op.cleanup:
            return TLCleanupMigration(self, Filled(self.op.instance_uuid), self.op.keep_node_uuid)
        return self._mover(
            self,
            Filled(self.op.instance_uuid),
            fallback=self.op.allow_failover,
            allow_runtime_changes=self.op.allow_runtime_changes,
            ignore_ipolicy=self.op.ignore_ipolicy,
            ignore_hvversions=self.op.ignore_hvversions,
        )

    def CheckPrereq(self) -> None:
        instance = self.snapshot.instances.get(Filled(self.op.instance_uuid))
        if instance is not None:
            mode = self.op.mode or params.FillHV(self.snapshot, instance).get("migration_mode", LIVE)
            self._tasklet.live = mode == LIVE
        super().CheckPrereq()

    def OwnEnv(self) -> dict[str, Any]:
        return {
            "MIGRATE_LIVE": self._tasklet.live,
            "MIGRATE_CLEANUP": self.op.cleanup,
            "ALLOW_RUNTIME_CHANGES": self.op.allow_runtime_changes,
            **self.MovedEnv(),
        }

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes, _ = super().BuildHooksNodes()
        nodes = [*nodes, self._tasklet.target_uuid]
        return nodes, nodes
