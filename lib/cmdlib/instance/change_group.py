"""Moving an instance to another node group (doc/reference/drivers.md d.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ganeti import objects, opcodes
from ganeti.cmdlib.base import HTYPE_INSTANCE, Filled
from ganeti.cmdlib.common import ExpandInstance, LockedInstance
from ganeti.cmdlib.evacuation import GroupsOf, ToOtherGroups
from ganeti.cmdlib.hookenv import InstanceEnv


class LUInstanceChangeGroup(ToOtherGroups[opcodes.OpInstanceChangeGroup]):
    """Submit the jobs that move an instance, as the allocator proposes them."""

    HTYPE = HTYPE_INSTANCE

    def ExpandNames(self) -> None:
        instance = ExpandInstance(self.snapshot, self.op.instance_name, self.op.instance_uuid)
        self.op.instance_name, self.op.instance_uuid = instance.name, instance.uuid
        super().ExpandNames()

    def Instances(self) -> list[objects.Instance]:
        found = self.snapshot.instances.get(Filled(self.op.instance_uuid))
        return [] if found is None else [found]

    def Left(self) -> set[str]:
        snapshot = self.snapshot
        return {group for instance in self.Instances() for group in GroupsOf(snapshot, snapshot.AllNodes(instance))}

    def ClashText(self, names: str) -> str:
        return f"Node group {names} cannot be a target: instance {self.op.instance_name} uses it already"

    def CheckPrereq(self) -> None:
        self._instance = LockedInstance(self)
        super().CheckPrereq()

    def BuildHooksEnv(self) -> dict[str, Any]:
        current = self.snapshot.instances.get(self._instance.uuid, self._instance)
        return {"TARGET_GROUPS": " ".join(self.targets), **InstanceEnv(self.snapshot, current)}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes = [self.snapshot.cluster.master_node]
        return nodes, nodes
