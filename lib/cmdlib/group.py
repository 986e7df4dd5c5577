"""Node groups (spec/drivers.md d.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti import constants, errors, ht, locking, objects
from ganeti.cmdlib.base import HTYPE_GROUP, Feedback, LogicalUnit, NoHooksLU
from ganeti.cmdlib.cluster_values import UpdatedDiskParams
from ganeti.cmdlib.common import ExpandGroup, ExpandNode, ForceNdParams, ForceNodeState, MergeNodeState
from ganeti.cmdlib.policy import CheckTemplates, NewViolations, UpdatedPolicy
from ganeti.params import disk as disk_params
from ganeti.params.types import GetUpdatedParams
from ganeti.utils.text import NiceSort


class _GroupLU(LogicalUnit):
    """One existing group, locked exclusively."""

    HTYPE = HTYPE_GROUP
    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        group = ExpandGroup(self.snapshot, self.op.group_name)
        self._uuid = group.uuid
        self.op.group_name = group.name
        self.needed_locks = {locking.LEVEL_NODEGROUP: [group.uuid]}

    @property
    def group(self) -> objects.NodeGroup:
        """The group as it is configured now."""
        group = self.snapshot.nodegroups.get(self._uuid)
        if group is None:
            raise errors.OpPrereqError(
                f"Group '{self.op.group_name}' was removed while this job waited for its lock", errors.ECODE_NOENT
            )
        return group

    def CheckPrereq(self) -> None:
        self._before = self.group

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"GROUP_NAME": self.op.group_name}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        master = [self.snapshot.cluster.master_node]
        return master, master


def CheckNewName(snapshot: objects.Snapshot, name: str) -> None:
    """A name that no group has and that cannot be taken for a uuid."""
    existing = snapshot.GroupByName(name)
    if existing is not None:
        raise errors.OpPrereqError(
            f"Desired group name '{name}' already exists as a node group (UUID: {existing.uuid})",
            errors.ECODE_EXISTS,
        )
    if ht.TUuid(name):
        raise errors.OpPrereqError(f"Desired group name '{name}' looks like a UUID", errors.ECODE_INVAL)


class LUGroupAdd(LogicalUnit):
    """Makes a group."""

    HPATH = "group-add"
    HTYPE = HTYPE_GROUP
    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        # The new group is locked until it stands in the configuration.
        self._uuid = self.cfg.GenerateUniqueID(self.ec_id)
        self.needed_locks = {}
        self.add_locks[locking.LEVEL_NODEGROUP] = self._uuid

    def CheckPrereq(self) -> None:
        op, snapshot = self.op, self.snapshot
        CheckNewName(snapshot, op.group_name)
        ndparams = ForceNdParams(op.ndparams or {}, f"group '{op.group_name}'", of_node=False)
        hv_state, disk_state = ForceNodeState(op.hv_state, op.disk_state)
        policy = UpdatedPolicy({}, op.ipolicy or {}, is_group=True)
        CheckTemplates(policy, snapshot.cluster.enabled_disk_templates)
        self._group = objects.NodeGroup(
            name=op.group_name,
            uuid=self._uuid,
            alloc_policy=op.alloc_policy or constants.ALLOC_POLICY_PREFERRED,
            ndparams=GetUpdatedParams({}, ndparams, use_none=True),
            diskparams=UpdatedDiskParams({}, op.diskparams or {}, defaults=True),
            ipolicy=policy,
            hv_state_static=hv_state or {},
            disk_state_static=disk_state or {},
        )

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"GROUP_NAME": self.op.group_name}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        master = [self.snapshot.cluster.master_node]
        return master, master

    def Exec(self, feedback: Feedback) -> None:
        self.cfg.AddNodeGroup(self._group)
        del self.remove_locks[locking.LEVEL_NODEGROUP]


class LUGroupRemove(_GroupLU):
    """Deletes an empty group, never the last one."""

    HPATH = "group-remove"

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        snapshot = self.snapshot
        members = NiceSort(snapshot.nodes[uuid].name for uuid in snapshot.GroupNodes(self._uuid))
        if members:
            raise errors.OpPrereqError(
                f"Group '{self.op.group_name}' not empty, has the following nodes: {', '.join(members)}",
                errors.ECODE_STATE,
                hint="move them with 'gnt-group assign-nodes'",
            )
        if len(snapshot.nodegroups) == 1:
            raise errors.OpPrereqError(
                f"Group '{self.op.group_name}' is the only group, cannot be removed", errors.ECODE_STATE
            )

    def Exec(self, feedback: Feedback) -> None:
        self.cfg.RemoveNodeGroup(self._uuid)
        self.remove_locks[locking.LEVEL_NODEGROUP] = self._uuid


class LUGroupRename(_GroupLU):
    """Gives a group another name."""

    HPATH = "group-rename"

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        CheckNewName(self.snapshot, self.op.new_name)

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"OLD_NAME": self.op.group_name, "NEW_NAME": self.op.new_name}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        snapshot = self.snapshot
        nodes = [snapshot.cluster.master_node, *snapshot.GroupNodes(self._uuid)]
        return nodes, nodes

    def Exec(self, feedback: Feedback) -> str:
        self.cfg.Update(self.group.Replace(name=self.op.new_name), self.ec_id)
        return str(self.op.new_name)


class LUGroupSetParams(_GroupLU):
    """Changes parameters of a group."""

    HPATH = "group-modify"

    def CheckArguments(self) -> None:
        op = self.op
        given = (op.alloc_policy, op.ndparams, op.diskparams, op.hv_state, op.disk_state, op.ipolicy)
        if all(value is None for value in given):
            raise errors.OpPrereqError("Please pass at least one modification", errors.ECODE_INVAL)

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        self.needed_locks[locking.LEVEL_INSTANCE] = self._InstanceNames()
        self.share_locks[locking.LEVEL_INSTANCE] = 1

    def _InstanceNames(self) -> list[str]:
        """Instances with a node in the group."""
        snapshot = self.snapshot
        members = set(snapshot.GroupNodes(self._uuid))
        return sorted(
            instance.name
            for instance in snapshot.instances.values()
            if not members.isdisjoint(snapshot.AllNodes(instance))
        )

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        if set(self._InstanceNames()) != self.owned_locks(locking.LEVEL_INSTANCE):
            raise errors.OpPrereqError(
                f"Instances in node group '{self.op.group_name}' changed since locks were acquired; try again",
                errors.ECODE_STATE,
            )
        op, group, snapshot = self.op, self._before, self.snapshot
        changes: dict[str, Any] = {}
        if op.alloc_policy is not None:
            changes["alloc_policy"] = op.alloc_policy
        if op.ndparams is not None:
            typed = ForceNdParams(op.ndparams, f"group '{group.name}'", of_node=False)
            changes["ndparams"] = GetUpdatedParams(group.ndparams, typed, use_none=True)
        if op.diskparams is not None:
            changes["diskparams"] = UpdatedDiskParams(group.diskparams, op.diskparams, defaults=True)
        hv_state, disk_state = ForceNodeState(op.hv_state, op.disk_state)
        if hv_state is not None:
            changes["hv_state_static"] = MergeNodeState(group.hv_state_static, hv_state)
        if disk_state is not None:
            changes["disk_state_static"] = MergeNodeState(group.disk_state_static, disk_state)
        if op.ipolicy is not None:
            changes["ipolicy"] = UpdatedPolicy(group.ipolicy, op.ipolicy, is_group=True)
            CheckTemplates(changes["ipolicy"], snapshot.cluster.enabled_disk_templates)
        self._changes = changes
        self._WarnOfPolicy(group.Replace(**changes))

    def _WarnOfPolicy(self, changed: objects.NodeGroup) -> None:
        snapshot = self.snapshot
        own = [instance for uuid in snapshot.GroupNodes(self._uuid) for instance in snapshot.PrimaryInstances(uuid)]
        violating = NewViolations(snapshot, snapshot.WithObject(changed), own)
        if violating:
            self.LogWarning(f"After the ipolicy change the following instances violate it: {', '.join(violating)}")

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"GROUP_NAME": self.op.group_name, "NEW_ALLOC_POLICY": self.op.alloc_policy}

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        changed = self.cfg.Update(self.group.Replace(**self._changes), self.ec_id)
        shown: dict[str, Mapping[str, Any]] = {"ndparams": changed.ndparams, "diskparams": changed.diskparams}
        return [[name, str(dict(value))] for name, value in shown.items() if name in self._changes]


class LUGroupAssignNodes(NoHooksLU):
    """Moves nodes into a group."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        snapshot = self.snapshot
        group = ExpandGroup(snapshot, self.op.group_name)
        self._uuid = group.uuid
        nodes = [ExpandNode(snapshot, name) for name in self.op.nodes]
        self.op.nodes = [node.name for node in nodes]
        self.op.node_uuids = [node.uuid for node in nodes]
        self.needed_locks = {
            locking.LEVEL_NODEGROUP: sorted({group.uuid, *(node.group for node in nodes)}),
            locking.LEVEL_NODE: list(dict.fromkeys(self.op.node_uuids)),
        }

    def CheckPrereq(self) -> None:
        snapshot = self.snapshot
        if self._uuid not in snapshot.nodegroups:
            raise errors.OpPrereqError(f"Group '{self.op.group_name}' was removed meanwhile", errors.ECODE_NOENT)
        actual = {self._uuid, *(snapshot.nodes[uuid].group for uuid in self.op.node_uuids)}
        if not actual <= self.owned_locks(locking.LEVEL_NODEGROUP):
            raise errors.OpPrereqError("Nodes changed groups since locks were acquired; try again", errors.ECODE_STATE)
        self._CheckSplits()

    def _CheckSplits(self) -> None:
        """Mirrors whose halves would lie in two groups."""
        snapshot = self.snapshot
        moved = dict.fromkeys(self.op.node_uuids, self._uuid)
        new, already = SplitInstances(snapshot, moved)
        if already:
            self.LogWarning(f"Already split instances (not fixed by this change): {', '.join(already)}")
        if not new:
            return
        names = ", ".join(new)
        if not self.op.force:
            raise errors.OpExecError(
                f"The following instances get split by this change and --force was not given: {names}"
            )
        self.LogWarning(f"This operation will split the following instances: {names}")

    def Exec(self, feedback: Feedback) -> None:
        self.cfg.AssignGroupNodes([(uuid, self._uuid) for uuid in self.op.node_uuids])


def SplitInstances(snapshot: objects.Snapshot, moved: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Names of mirrored instances over several groups once nodes are ``moved`` (node -> group): new ones, old ones."""
    new: list[str] = []
    already: list[str] = []
    for instance in snapshot.instances.values():
        if snapshot.DiskTemplate(instance) not in disk_params.With(mirror=disk_params.INTERNAL):
            continue
        nodes = snapshot.AllNodes(instance)
        before = {snapshot.nodes[uuid].group for uuid in nodes}
        after = {moved.get(uuid, snapshot.nodes[uuid].group) for uuid in nodes}
        if len(after) > 1:
            (already if len(before) > 1 else new).append(instance.name)
    return NiceSort(new), NiceSort(already)
