"""Migrating all primary instances of a node (doc/reference/drivers.md d.1, design 2.1)."""

from __future__ import annotations

from typing import Any

from ganeti import errors, locking, opcodes
from ganeti.cmdlib.base import HTYPE_NODE, Feedback, Filled, LogicalUnit, ResultWithJobs
from ganeti.cmdlib.common import ExpandNode, ExpandOtherNode
from ganeti.params import disk as disk_params
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
        op, snapshot = self.op, self.snapshot
        names = NiceSort(instance.name for instance in snapshot.PrimaryInstances(Filled(op.node_uuid)))
        return ResultWithJobs(
            [
                [
                    opcodes.OpInstanceMigrate(
                        instance_name=name,
                        mode=op.mode,
                        live=op.live,
                        iallocator=self._AllocatorFor(name),
                        target_node=op.target_node,
                        allow_runtime_changes=op.allow_runtime_changes,
                        ignore_ipolicy=op.ignore_ipolicy,
                    )
                ]
                for name in names
            ]
        )

    def _AllocatorFor(self, name: str) -> str | None:
        """Return the allocator for an instance; one whose disks are mirrored goes to its secondary node, with nothing to copy."""
        instance = self.snapshot.InstanceByName(name)
        assert instance is not None
        mirrored = self.snapshot.DiskTemplate(instance) in disk_params.With(mirror=disk_params.INTERNAL)
        return None if mirrored else self.op.iallocator
