"""Moving an instance to another node group (doc/reference/drivers.md d.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ganeti import errors, objects, opcodes
from ganeti.cmdlib.allocation.requests import SECONDARY_ONLY, ChangeGroup, NodeEvacuate
from ganeti.cmdlib.base import HTYPE_INSTANCE, Filled
from ganeti.cmdlib.common import ExpandInstance, LockedInstance
from ganeti.cmdlib.evacuation import GroupsOf, ToOtherGroups
from ganeti.cmdlib.hookenv import InstanceEnv
from ganeti.utils.text import NiceSort


class LUInstanceChangeGroup(ToOtherGroups[opcodes.OpInstanceChangeGroup]):
    """Submit the jobs that move an instance, as the allocator proposes them.

    The nodes of an instance are in two groups if an earlier change of its group was cut off.  With the wanted group named the
    unit then does what is left: the primary is there already and gets a secondary of its group, or both nodes are changed.
    """

    HTYPE = HTYPE_INSTANCE

    def ExpandNames(self) -> None:
        instance = ExpandInstance(self.snapshot, self.op.instance_name, self.op.instance_uuid)
        self.op.instance_name, self.op.instance_uuid = instance.name, instance.uuid
        super().ExpandNames()

    def Instances(self) -> list[objects.Instance]:
        found = self.snapshot.instances.get(Filled(self.op.instance_uuid))
        return [] if found is None else [found]

    def Left(self) -> set[str]:
        groups, primary = self._UsedGroups()
        if len(groups) < 2 or not self._wanted:
            return groups
        return set() if primary in self._wanted else {primary}

    def _UsedGroups(self) -> tuple[set[str], str]:
        """Return the groups of the instance's nodes, and that of its primary node."""
        snapshot = self.snapshot
        for instance in self.Instances():
            primary = snapshot.nodes[instance.primary_node].group
            return GroupsOf(snapshot, snapshot.AllNodes(instance)), primary
        return set(), ""

    def ClashText(self, names: str) -> str:
        return f"Node group {names} cannot be a target: instance {self.op.instance_name} uses it already"

    def CheckPrereq(self) -> None:
        self._instance = LockedInstance(self)
        groups, _ = self._UsedGroups()
        if len(groups) > 1 and not self._wanted:
            names = NiceSort(self.snapshot.nodegroups[uuid].name for uuid in groups)
            raise errors.OpPrereqError(
                f"The nodes of instance {self.op.instance_name} are in several node groups ({', '.join(names)}), probably"
                " because an earlier change was cut off: name the group that it should be in",
                errors.ECODE_INVAL,
                hint=f"'gnt-instance change-group --to {names[0]} {self.op.instance_name}', or --to another group",
            )
        super().CheckPrereq()

    def Request(self, names: tuple[str, ...]) -> ChangeGroup | NodeEvacuate:
        groups, primary = self._UsedGroups()
        if len(groups) > 1 and primary in self.targets:
            # An allocator gives an instance a secondary node in the group of its primary node.
            return NodeEvacuate(names, SECONDARY_ONLY)
        return super().Request(names)

    def BuildHooksEnv(self) -> dict[str, Any]:
        current = self.snapshot.instances.get(self._instance.uuid, self._instance)
        return {"TARGET_GROUPS": " ".join(self.targets), **InstanceEnv(self.snapshot, current)}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes = [self.snapshot.cluster.master_node]
        return nodes, nodes
