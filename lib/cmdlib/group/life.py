"""Node groups (doc/reference/drivers.md d.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ganeti import errors, ht, locking, objects, opcodes, params
from ganeti.cmdlib import policy
from ganeti.cmdlib.base import HTYPE_GROUP, Feedback, Filled, LogicalUnit, NoHooksLU
from ganeti.cmdlib.cluster.values import CheckFilledDiskParams, UpdatedDiskParams
from ganeti.cmdlib.common import (
    CheckName,
    ExpandGroup,
    ExpandNode,
    ForceNdParams,
    ForceNodeState,
    MergeNodeState,
    StillThere,
    StoreNew,
)
from ganeti.params import disk
from ganeti.utils.text import NiceSort


def CheckNewName(snapshot: objects.Snapshot, name: str) -> None:
    """Raise OpPrereqError if the name is not valid, is taken, or looks like a UUID."""
    CheckName("node group", name)
    if ht.TUuid(name):
        raise errors.OpPrereqError(f"Group name '{name}' looks like a UUID", errors.ECODE_INVAL)
    taken = snapshot.GroupByName(name)
    if taken is not None:
        raise errors.OpPrereqError(
            f"Desired group name '{name}' already exists as a node group (UUID: {taken.uuid})", errors.ECODE_EXISTS
        )


_ParameterOp = TypeVar("_ParameterOp", opcodes.OpGroupAdd, opcodes.OpGroupSetParams)


class _ParameterLU(LogicalUnit[_ParameterOp]):
    """The common part of adding and changing a group."""

    HTYPE = HTYPE_GROUP
    REQ_BGL = False

    def CheckArguments(self) -> None:
        if self.op.ndparams:
            self.op.ndparams = ForceNdParams(self.op.ndparams, f"group {self.op.group_name}", of_node=False)
        self.op.hv_state, self.op.disk_state = ForceNodeState(self.op.hv_state, self.op.disk_state)

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        master = [self.snapshot.cluster.master_node]
        return (master, master)

    def _NewValues(self, group: objects.NodeGroup) -> dict[str, Any]:
        """Return the fields that the request names, with what they become."""
        values: dict[str, Any] = {}
        if self.op.alloc_policy is not None:
            values["alloc_policy"] = self.op.alloc_policy
        if self.op.ndparams is not None:
            values["ndparams"] = params.GetUpdatedParams(group.ndparams, self.op.ndparams, use_none=True)
        if self.op.diskparams is not None:
            values["diskparams"] = UpdatedDiskParams(group.diskparams, self.op.diskparams, defaults=True)
            after = group.Replace(diskparams=values["diskparams"])
            CheckFilledDiskParams(self.snapshot, after, self.op.diskparams)
        if self.op.hv_state is not None:
            values["hv_state_static"] = MergeNodeState(group.hv_state_static, self.op.hv_state)
        if self.op.disk_state is not None:
            values["disk_state_static"] = MergeNodeState(group.disk_state_static, self.op.disk_state)
        if self.op.ipolicy is not None:
            values["ipolicy"] = self._Policy(group.ipolicy)
        return values

    def _Policy(self, old: Mapping[str, Any]) -> dict[str, Any]:
        cluster = self.snapshot.cluster
        own = policy.UpdatedPolicy(old, self.op.ipolicy or {}, is_group=True)
        policy.CheckTemplates(own, cluster.enabled_disk_templates)
        return own


class LUGroupAdd(_ParameterLU[opcodes.OpGroupAdd]):
    """Makes a group without nodes."""

    def ExpandNames(self) -> None:
        self._uuid = self.cfg.GenerateUniqueID(self.ec_id)
        self.needed_locks = {}
        self.add_locks[locking.LEVEL_NODEGROUP] = self._uuid

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"GROUP_NAME": self.op.group_name}

    def CheckPrereq(self) -> None:
        CheckNewName(self.snapshot, self.op.group_name)
        empty = objects.NodeGroup(name=self.op.group_name, uuid=self._uuid)
        self._group = empty.Replace(**self._NewValues(empty))

    def Exec(self, feedback: Feedback) -> None:
        StoreNew(self, locking.LEVEL_NODEGROUP, lambda: self.cfg.AddNodeGroup(self._group))


class LUGroupSetParams(_ParameterLU[opcodes.OpGroupSetParams]):
    """Change a group's own parameters."""

    def CheckArguments(self) -> None:
        names = ("ndparams", "diskparams", "alloc_policy", "hv_state", "disk_state", "ipolicy")
        if all(getattr(self.op, name) is None for name in names):
            raise errors.OpPrereqError("Please pass at least one modification", errors.ECODE_INVAL)
        super().CheckArguments()

    def ExpandNames(self) -> None:
        self._uuid = ExpandGroup(self.snapshot, self.op.group_name).uuid
        self.needed_locks = {locking.LEVEL_NODEGROUP: [self._uuid], locking.LEVEL_INSTANCE: []}
        self.share_locks[locking.LEVEL_INSTANCE] = 1

    def DeclareLocks(self, level: int) -> None:
        if level == locking.LEVEL_INSTANCE:
            assert self.needed_locks is not None
            self.needed_locks[level] = sorted(GroupInstances(self.snapshot, self._uuid))

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"GROUP_NAME": self.op.group_name, "NEW_ALLOC_POLICY": self.op.alloc_policy}

    def CheckPrereq(self) -> None:
        self._group = LockedGroup(self, self._uuid)
        snapshot = self.snapshot
        if set(GroupInstances(snapshot, self._uuid)) != self.owned_locks(locking.LEVEL_INSTANCE):
            raise errors.OpPrereqError(
                f"Instances in node group '{self._group.name}' changed since locks were acquired; retry the operation",
                errors.ECODE_STATE,
            )
        self._values = self._NewValues(self._group)
        if self.op.ipolicy is not None:
            after = snapshot.WithObject(self._group.Replace(**self._values))
            held = [inst for inst in snapshot.WholeInstances() if _PrimaryGroup(snapshot, inst) == self._uuid]
            violating = policy.NewViolations(snapshot, after, held)
            if violating:
                self.LogWarning(
                    f"After the ipolicy change the following instances violate them: {', '.join(violating)}"
                )

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        self.cfg.Update(self._group.Replace(**self._values), self.ec_id)
        return [[name, str(self._values[name])] for name in ("ndparams", "diskparams") if name in self._values]


def _PrimaryGroup(snapshot: objects.Snapshot, inst: objects.Instance) -> str | None:
    node = snapshot.nodes.get(inst.primary_node) if inst.primary_node is not None else None
    return node.group if node is not None else None


def GroupInstances(snapshot: objects.Snapshot, group_uuid: str) -> set[str]:
    """Return the names of the instances that have any node in a group, as far as jobs can act on them."""
    uuids = {uuid for node in snapshot.GroupNodes(group_uuid) for held in snapshot.NodeInstances(node) for uuid in held}
    found = (snapshot.instances[uuid] for uuid in uuids)
    return {instance.name for instance in found if not snapshot.IsBare(instance)}


def LockedGroup(lu: LogicalUnit, uuid: str) -> objects.NodeGroup:
    """Return a group as it is now, under its lock."""
    return StillThere(lu.snapshot.nodegroups.get(uuid), "Group", lu.op.group_name)


class LUGroupAssignNodes(NoHooksLU[opcodes.OpGroupAssignNodes]):
    """Moves nodes into a group."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        snapshot = self.snapshot
        self._uuid = ExpandGroup(snapshot, self.op.group_name).uuid
        nodes = [ExpandNode(snapshot, name) for name in self.op.nodes]
        self.op.nodes = [node.name for node in nodes]
        self.op.node_uuids = list(dict.fromkeys(node.uuid for node in nodes))
        self.needed_locks = {
            # Which groups the nodes are in now may change until they are locked.
            locking.LEVEL_NODEGROUP: sorted(self._Groups()),
            locking.LEVEL_NODE: list(self.op.node_uuids),
        }

    def _Groups(self) -> set[str]:
        snapshot = self.snapshot
        return {
            self._uuid,
            *(snapshot.nodes[uuid].group for uuid in Filled(self.op.node_uuids) if uuid in snapshot.nodes),
        }

    def CheckPrereq(self) -> None:
        self._group = LockedGroup(self, self._uuid)
        if self._Groups() != self.owned_locks(locking.LEVEL_NODEGROUP):
            raise errors.OpExecError("Nodes changed groups since locks were acquired; nothing was changed, try again")
        new, old = SplitInstances(self.snapshot, dict.fromkeys(Filled(self.op.node_uuids), self._uuid))
        if not new:
            return
        shown = ", ".join(new)
        if not self.op.force:
            raise errors.OpExecError(
                f"The following instances get split by this change and --force was not given: {shown}"
            )
        self.LogWarning(f"This operation will split the following instances: {shown}")
        if old:
            self.LogWarning(
                f"In addition, these already-split instances continue to be split across groups: {', '.join(old)}"
            )

    def Exec(self, feedback: Feedback) -> None:
        self.cfg.AssignGroupNodes([(uuid, self._uuid) for uuid in Filled(self.op.node_uuids)])


def SplitInstances(snapshot: objects.Snapshot, moves: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the names of mirrored instances that these moves (node -> group) split, and of those that stay split."""
    internal = disk.With(mirror=disk.INTERNAL)
    new: list[str] = []
    old: list[str] = []
    for inst in snapshot.instances.values():
        if not any(dev.dev_type in internal for dev in snapshot.InstanceDisks(inst)):
            continue
        nodes = snapshot.AllNodes(inst)
        if not _IsSplit(moves.get(uuid, snapshot.nodes[uuid].group) for uuid in nodes):
            continue
        before = _IsSplit(snapshot.nodes[uuid].group for uuid in nodes)
        (old if before else new).append(inst.known_as)
    return NiceSort(new), NiceSort(old)


def _IsSplit(groups: Iterable[str]) -> bool:
    return len(set(groups)) > 1


_NamedGroupOp = TypeVar("_NamedGroupOp", opcodes.OpGroupRemove, opcodes.OpGroupRename)


class _NamedGroupLU(LogicalUnit[_NamedGroupOp]):
    """A unit that locks one existing group."""

    HTYPE = HTYPE_GROUP
    REQ_BGL = False

    def ExpandNames(self) -> None:
        group = ExpandGroup(self.snapshot, self.op.group_name)
        self._uuid, self._name = group.uuid, group.name
        self.needed_locks = {locking.LEVEL_NODEGROUP: [group.uuid]}

    def CheckPrereq(self) -> None:
        self._group = LockedGroup(self, self._uuid)


class LUGroupRemove(_NamedGroupLU[opcodes.OpGroupRemove]):
    """Removes a group without nodes; never the last one."""

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"GROUP_NAME": self._name}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        master = [self.snapshot.cluster.master_node]
        return (master, master)

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        snapshot = self.snapshot
        members = NiceSort(snapshot.nodes[uuid].name for uuid in snapshot.GroupNodes(self._uuid))
        if members:
            raise errors.OpPrereqError(
                f"Group '{self._name}' not empty, has the following nodes: {', '.join(members)}",
                errors.ECODE_STATE,
                hint="'gnt-group assign-nodes GROUP NODE...' moves nodes to another group",
            )
        if len(snapshot.nodegroups) == 1:
            raise errors.OpPrereqError(f"Group '{self._name}' is the only group, cannot be removed", errors.ECODE_STATE)

    def Exec(self, feedback: Feedback) -> None:
        self.cfg.RemoveNodeGroup(self._uuid)
        self.remove_locks[locking.LEVEL_NODEGROUP] = self._uuid


class LUGroupRename(_NamedGroupLU[opcodes.OpGroupRename]):
    """Gives a group another name."""

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"OLD_NAME": self._name, "NEW_NAME": self.op.new_name}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        nodes = [self.snapshot.cluster.master_node, *self.snapshot.GroupNodes(self._uuid)]
        return (nodes, nodes)

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        CheckNewName(self.snapshot, self.op.new_name)

    def Exec(self, feedback: Feedback) -> str:
        renamed = self.cfg.Update(self._group.Replace(name=self.op.new_name), self.ec_id)
        return renamed.name
