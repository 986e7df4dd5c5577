"""Moving the instances of a node group to other groups (doc/reference/drivers.md d.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ganeti import objects, opcodes
from ganeti.cmdlib.base import HTYPE_GROUP, Feedback, ResultWithJobs
from ganeti.cmdlib.common import ExpandGroup
from ganeti.cmdlib.evacuation import InSequence, ToOtherGroups
from ganeti.cmdlib.group.life import GroupInstances, LockedGroup


class LUGroupEvacuate(ToOtherGroups[opcodes.OpGroupEvacuate]):
    """Submit the jobs that move all instances of a group, as the allocator proposes them."""

    HTYPE = HTYPE_GROUP

    def ExpandNames(self) -> None:
        group = ExpandGroup(self.snapshot, self.op.group_name)
        self._uuid, self.op.group_name = group.uuid, group.name
        super().ExpandNames()

    def Instances(self) -> list[objects.Instance]:
        found = (self.snapshot.InstanceByName(name) for name in GroupInstances(self.snapshot, self._uuid))
        return [instance for instance in found if instance is not None]

    def Left(self) -> set[str]:
        return {self._uuid}

    def ClashText(self, names: str) -> str:
        return f"Node group {names} cannot be evacuated to itself"

    def CheckPrereq(self) -> None:
        LockedGroup(self, self._uuid)
        super().CheckPrereq()

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        jobs = super().Exec(feedback).jobs
        if self.op.force_failover:
            jobs = [[_Failover(op) for op in job] for job in jobs]
        if self.op.sequential:
            InSequence(jobs)
        return ResultWithJobs(jobs)

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"GROUP_NAME": self.op.group_name, "TARGET_GROUPS": " ".join(self.targets)}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        snapshot = self.snapshot
        nodes = [snapshot.cluster.master_node, *snapshot.GroupNodes(self._uuid)]
        return nodes, nodes


def _Failover(op: opcodes.OpCode) -> opcodes.OpCode:
    """Return a failover in the place of a migration, any other opcode as it is."""
    if not isinstance(op, opcodes.OpInstanceMigrate):
        return op
    return opcodes.OpInstanceFailover(
        instance_name=op.instance_name,
        target_node=op.target_node,
        iallocator=op.iallocator,
        if_primary=op.if_primary,
        ignore_ipolicy=op.ignore_ipolicy,
    )
