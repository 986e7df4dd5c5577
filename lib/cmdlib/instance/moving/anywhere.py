"""Moving a mirrored instance to a node that has no copy of it yet (design 2.0, "failover to any node")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti import constants, errors
from ganeti.cmdlib.common import CheckTarget
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.devices import ShutdownDisks, StartDisks
from ganeti.cmdlib.disk.replace import NewSecondary
from ganeti.cmdlib.instance.moving.looking import EndLeftovers
from ganeti.cmdlib.instance.moving.migration import TLMigrateInstance
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti import objects


class TLMoveAnywhere(TLMigrateInstance):
    """Fail an instance over, or migrate it, to a third node.

    The copy of the old primary stays, or that of the old secondary if the primary's node is offline; the other one is replaced
    by one on the target.  After a fail-over the instance runs there while its copy is being filled.
    """

    _old_secondary: str

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        # Before the guest is stopped for nothing.
        needed: dict[str, int] = {}
        for disk in self._disks:
            for volume in disk.children:
                group = disk_params.Of(volume).Source(volume)
                needed[group] = needed.get(group, 0) + volume.size
        diskgen.CheckFreeSpace(self.lu, [self.target_uuid], needed)

    def _ChooseMirrored(self, instance: objects.Instance) -> None:
        self._old_secondary, self.target_uuid = self.target_uuid, self.lu.op.target_node_uuid
        if self.target_uuid == self._old_secondary:
            raise errors.OpPrereqError(
                f"Node {self._Name(self.target_uuid)} became the secondary node of instance {instance.name} while this job"
                " waited; nothing was moved, try again",
                errors.ECODE_STATE,
            )
        CheckTarget(self.snapshot.nodes[self.target_uuid])
        if self.snapshot.nodes[self.source_uuid].offline and not self.failover:
            raise errors.OpPrereqError(
                f"Instance {instance.name} cannot be migrated: its node {self._Name(self.source_uuid)} is offline",
                errors.ECODE_STATE,
                hint=f"use 'gnt-instance failover -n {self._Name(self.target_uuid)} {instance.name}'",
            )

    @property
    def _kept(self) -> str:
        """The node whose copy stays."""
        return self._old_secondary if self.snapshot.nodes[self.source_uuid].offline else self.source_uuid

    @property
    def _left(self) -> str:
        return self.source_uuid if self._kept == self._old_secondary else self._old_secondary

    @property
    def secondaries(self) -> tuple[str, str]:
        return self._old_secondary, self._kept

    def _CheckCounts(self) -> None:
        mirrors.CheckCounts(self.snapshot, self._instance, self._kept, "cannot be moved")

    def _ExecMigration(self) -> None:
        # Before the copy is made for nothing; there is time for others to take memory until the guest follows.
        self._MakeRoom()
        self._feedback(f"* moving the secondary to {self._Name(self.target_uuid)}")
        replacement = NewSecondary(self.lu, False, self.source_uuid, self._old_secondary, self.target_uuid)  # type: ignore[arg-type]
        replacement.Move()
        replacement.Complete()
        super()._ExecMigration()

    def _ExecFailover(self) -> None:
        source, kept, left = self.snapshot.nodes[self.source_uuid], self._kept, self._left
        situation = self._Look([*self._pair, self._old_secondary])
        if not self._MayFailOver(situation):
            raise situation.Error("cannot be failed over")
        EndLeftovers(self, self._instance, situation, keep=source.uuid)
        self._CheckSourceIsOff(self._old_secondary)
        if kept != self.source_uuid:
            self._CheckCopies(kept, situation, excused=True)
        self._MakeRoom()
        silent = self._StopGuest(self._instance, source)
        if silent and not source.offline:
            raise errors.OpExecError(
                f"It is not known whether instance {self._instance.name} still runs on {source.name}"
            )
        if kept != self.source_uuid:
            self.cfg.SetInstancePrimaryNode(self._instance.uuid, kept, alone=True)
        self._feedback(f"* replacing the copy on {self._Name(left)} by one on {self._Name(self.target_uuid)}")
        StartDisks(self, self._instance, force=False)
        replacement = NewSecondary(self.lu, False, kept, left, self.target_uuid)  # type: ignore[arg-type]
        replacement.Move()
        # With what shows that an instance may be started from them there.
        self._Close(kept)
        ShutdownDisks(self, self._instance)
        instance = self.cfg.SetInstancePrimaryNode(self._instance.uuid, self.target_uuid)
        started = instance.admin_state == constants.ADMINST_UP
        try:
            if started:
                self._StartOnTarget(stays=False, ignore_secondaries=False)
            else:
                StartDisks(self, self._instance, force=False)
        except errors.OpExecError as err:
            self._TryClose(self.target_uuid)
            self.cfg.SetInstancePrimaryNode(instance.uuid, kept, as_recorded=True)
            raise errors.OpExecError(
                f"{err}; the instance is down, and its complete copy is on {self._Name(kept)}",
                hint=f"use 'gnt-instance startup {instance.name}' to run it there",
            ) from err
        try:
            replacement.Complete()
        finally:
            if not started:
                ShutdownDisks(self, self._instance)
