"""Migrating all primary instances of a node (doc/reference/drivers.md d.1, design 2.1)."""

from __future__ import annotations

from typing import Any

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.base import HTYPE_NODE, Feedback, Filled, LogicalUnit, ResultWithJobs
from ganeti.cmdlib.common import ExpandNode, ExpandOtherNode
from ganeti.cmdlib.evacuation import MirrorNodes
from ganeti.utils.text import NiceSort


class LUNodeMigrate(LogicalUnit[opcodes.OpNodeMigrate]):
    """Submits a migration for each primary instance."""

    HTYPE = HTYPE_NODE
    REQ_BGL = False
    CHANGES_NODES = False  # its jobs do

    def CheckArguments(self) -> None:
        if self.op.live is not None and self.op.mode is not None:
            raise errors.OpPrereqError("Only one of the 'live' and 'mode' parameters is accepted", errors.ECODE_INVAL)
        if self.op.iallocator is not None and self.op.target_node is not None:
            raise errors.OpPrereqError("Do not specify both iallocator and node", errors.ECODE_INVAL)

    def ExpandNames(self) -> None:
        node = ExpandNode(self.snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name, self.op.node_uuid = node.name, node.uuid
        target = ExpandOtherNode(self, "target_node")
        if target is not None and target.uuid == node.uuid:
            raise errors.OpPrereqError(f"Node {node.name} cannot be migrated to itself", errors.ECODE_INVAL)
        self.needed_locks = {locking.LEVEL_NODE: [node.uuid]}
        self.share_locks[locking.LEVEL_NODE] = self.share_locks[locking.LEVEL_NODE_ALLOC] = 1

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"NODE_NAME": self.op.node_name, "ALLOW_RUNTIME_CHANGES": self.op.allow_runtime_changes}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        nodes = [self.snapshot.cluster.master_node]
        return (nodes, nodes)

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        # No instance is locked: whatever happens to them meanwhile, the jobs are about one moment.
        snapshot = self.snapshot
        instances = {instance.name: instance for instance in snapshot.PrimaryInstances(Filled(self.op.node_uuid))}
        return ResultWithJobs([[self._Migration(snapshot, instances[name])] for name in NiceSort(instances)])

    def _Migration(self, snapshot: objects.Snapshot, instance: objects.Instance) -> opcodes.OpInstanceMigrate:
        """Return the opcode for one instance; a mirrored one goes to its secondary node, with nothing to copy.

        That node is named, because an instance that has left the node meanwhile must not come back.
        """
        op = self.op
        pair = MirrorNodes(snapshot, instance)
        return opcodes.OpInstanceMigrate(
            instance_name=instance.name,
            mode=op.mode,
            live=op.live,
            iallocator=op.iallocator if pair is None else None,
            target_node=op.target_node or (None if pair is None else pair[1]),
            allow_runtime_changes=op.allow_runtime_changes,
            ignore_ipolicy=op.ignore_ipolicy,
        )
