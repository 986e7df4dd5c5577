"""Migrating all primary instances of a node (doc/reference/drivers.md d.1, design 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib import evacuation
from ganeti.cmdlib.allocation import DEFAULT_SHORTCUT
from ganeti.cmdlib.allocation.ask import Ask
from ganeti.cmdlib.allocation.requests import PRIMARY_ONLY, NodeEvacuate
from ganeti.cmdlib.base import HTYPE_NODE, Feedback, Filled, LogicalUnit, ResultWithJobs
from ganeti.cmdlib.common import ExpandNode, ExpandOtherNode
from ganeti.utils.text import NiceSort


class LUNodeMigrate(LogicalUnit[opcodes.OpNodeMigrate]):
    """Submits a migration for each primary instance.

    Those on shared storage go where an allocator says, which is asked once about all of them: asked by each job, it
    would not know of the others that are on their way.  If it does not answer that question, or finds no place for one,
    the job asks for itself when its turn comes.
    """

    HTYPE = HTYPE_NODE
    REQ_BGL = False
    CHANGES_NODES = False  # its jobs do

    _allocator: str | None
    _targets: Mapping[str, str]

    def CheckArguments(self) -> None:
        if self.op.live is not None and self.op.mode is not None:
            raise errors.OpPrereqError("Only one of the 'live' and 'mode' parameters is accepted", errors.ECODE_INVAL)
        if self.op.iallocator is not None and self.op.target_node is not None:
            raise errors.OpPrereqError("Do not specify both iallocator and node", errors.ECODE_INVAL)
        self._allocator = self.op.iallocator
        if self.op.target_node is None and self._allocator in (None, DEFAULT_SHORTCUT):
            self._allocator = self.snapshot.cluster.default_iallocator or None

    # --- locks --------------------------------------------------------------------------------------------------------

    def ExpandNames(self) -> None:
        node = ExpandNode(self.snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name, self.op.node_uuid = node.name, node.uuid
        target = ExpandOtherNode(self, "target_node")
        if target is not None and target.uuid == node.uuid:
            raise errors.OpPrereqError(f"Node {node.name} cannot be migrated to itself", errors.ECODE_INVAL)
        shared = self._Shared()
        self._asks = bool(shared) and self._allocator is not None
        if self._asks:
            evacuation.DeclareChoice(self, shared)
            return
        # No instance is locked: whatever happens to them meanwhile, the jobs are about one moment.
        self.needed_locks = {locking.LEVEL_NODE: [node.uuid]}
        self.share_locks[locking.LEVEL_NODE] = self.share_locks[locking.LEVEL_NODE_ALLOC] = 1

    def DeclareLocks(self, level: int) -> None:
        if self._asks and level == locking.LEVEL_NODEGROUP:
            assert self.needed_locks is not None
            self.needed_locks[level] = sorted(evacuation.GroupsOf(self.snapshot, [Filled(self.op.node_uuid)]))

    def LostLock(self, level: int, err: errors.LockError) -> errors.GenericError:
        return evacuation.Changed(self._What(level)) if self._asks else super().LostLock(level, err)

    def _What(self, level: int) -> str:
        what = "The instances" if level == locking.LEVEL_INSTANCE else "The node group"
        return f"{what} of node {self.op.node_name}"

    def _Shared(self) -> list[objects.Instance]:
        """Return the instances that an allocator is asked about."""
        snapshot = self.snapshot
        found = snapshot.PrimaryInstances(Filled(self.op.node_uuid))
        return [one for one in found if evacuation.IsShared(snapshot, one) and not one.forthcoming]

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        self._targets = {}
        if not self._asks:
            return
        snapshot, names = self.snapshot, evacuation.Names(self._Shared())
        groups = evacuation.GroupsOf(snapshot, [Filled(self.op.node_uuid)])
        for level, needed in ((locking.LEVEL_INSTANCE, names), (locking.LEVEL_NODEGROUP, groups)):
            evacuation.CheckSameLocks(self, level, needed, self._What(level))
        if names:
            self._targets = self._Choose(tuple(NiceSort(names)))

    def _Choose(self, names: tuple[str, ...]) -> Mapping[str, str]:
        """Return instance -> the node to which the allocator sends it, for those that it finds a place for."""
        request = NodeEvacuate(names, PRIMARY_ONLY, bool(self.op.ignore_ipolicy))
        each = "the job of each instance asks for itself"
        try:
            answer = Ask(self, Filled(self._allocator), request)
        except (errors.OpPrereqError, errors.OpExecError) as err:
            self.LogWarning(f"{err.args[0]}; {each}")
            return {}
        for name, reason in answer.failed:
            self.LogWarning(f"No place was found for instance {name} ({reason}); its job asks again")
        targets = {op.instance_name: op.target_node for job in answer.jobs for op in job if op.target_node}
        for name in NiceSort(targets):
            self.LogInfo(f"Instance {name} will be migrated to {targets[name]}")
        return targets

    # --- does it ------------------------------------------------------------------------------------------------------

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"NODE_NAME": self.op.node_name, "ALLOW_RUNTIME_CHANGES": self.op.allow_runtime_changes}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        nodes = [self.snapshot.cluster.master_node]
        return (nodes, nodes)

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        snapshot = self.snapshot
        instances = {instance.name: instance for instance in snapshot.PrimaryInstances(Filled(self.op.node_uuid))}
        return ResultWithJobs([[self._Migration(snapshot, instances[name])] for name in NiceSort(instances)])

    def _Migration(self, snapshot: objects.Snapshot, instance: objects.Instance) -> opcodes.OpInstanceMigrate:
        """Return the opcode for one instance; a mirrored one goes to its secondary node, with nothing to copy.

        That node is named, or else the one to leave, because an instance that has left the node meanwhile must not be moved
        again.
        """
        op = self.op
        pair = evacuation.MirrorNodes(snapshot, instance)
        target = op.target_node or self._targets.get(instance.name) or (None if pair is None else pair[1])
        return opcodes.OpInstanceMigrate(
            instance_name=instance.name,
            mode=op.mode,
            live=op.live,
            iallocator=op.iallocator if target is None else None,
            target_node=target,
            if_primary=op.node_name if pair is None else None,
            allow_runtime_changes=op.allow_runtime_changes,
            ignore_ipolicy=op.ignore_ipolicy,
        )
