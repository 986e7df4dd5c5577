"""Changing a node: its role, capabilities, parameters, secondary address (doc/reference/drivers.md d.7).

::

                 +--> candidate <--+
                 |        |        |        one flag at most is true; setting one clears the others,
    master    regular <---+---> drained     unsetting the one that is true makes the node regular
                 ^                 |
                 +---- offline <---+
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti import errors, locking, objects, opcodes, params, pathutils, store
from ganeti.cmdlib import candidates
from ganeti.cmdlib.base import HTYPE_NODE, Feedback, Filled, LogicalUnit
from ganeti.cmdlib.common import (
    STATE_DOWN,
    Briefly,
    CheckInstanceState,
    ExpandNode,
    ForceNdParams,
    ForceNodeState,
    MergeNodeState,
    StillThere,
)
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.distribute import RedistributeAncillaryFiles
from ganeti.cmdlib.node.life import CheckAddressesFree, CheckReachable, CheckSecondaryIp, CheckVersion
from ganeti.params import disk, nd
from ganeti.utils.text import JoinFirst, NiceSort

# A role is called by the flag that makes it.
CANDIDATE, DRAINED, OFFLINE, REGULAR = "master_candidate", "drained", "offline", "regular"
FLAGS = (CANDIDATE, DRAINED, OFFLINE)
CAPABILITIES = ("master_capable", "vm_capable")
_CHANGES = (OFFLINE, CANDIDATE, DRAINED, *CAPABILITIES, "secondary_ip", "ndparams", "hv_state", "disk_state")
_LISTED = 20


def RoleOf(node: objects.Node) -> str:
    return next((flag for flag in FLAGS if getattr(node, flag)), REGULAR)


def NewRole(old: str, wanted: dict[str, bool | None]) -> str:
    """Return the role after the flags asked for (None: not asked for)."""
    for flag in FLAGS:
        if wanted[flag]:
            return flag
    return REGULAR if False in wanted.values() else old


class LUNodeSetParams(LogicalUnit[opcodes.OpNodeSetParams]):
    """Changes a node."""

    HTYPE = HTYPE_NODE
    REQ_BGL = False

    def CheckArguments(self) -> None:
        given = [getattr(self.op, name) for name in _CHANGES]
        if all(value is None for value in given):
            raise errors.OpPrereqError("Please pass at least one modification", errors.ECODE_INVAL)
        if sum(value is True for value in given) > 1:
            raise errors.OpPrereqError(
                "Can't set the node into more than one state at the same time", errors.ECODE_INVAL
            )
        self._might_demote = (
            self.op.master_candidate is False
            or self.op.offline is True
            or self.op.drained is True
            or self.op.master_capable is False
        )
        self._locks_all = self.op.auto_promote and self._might_demote
        if self.op.secondary_ip:
            CheckSecondaryIp(self.op.secondary_ip)
        if self.op.ndparams:
            self.op.ndparams = ForceNdParams(self.op.ndparams, f"node {self.op.node_name}", of_node=True)
        self.op.hv_state, self.op.disk_state = ForceNodeState(self.op.hv_state, self.op.disk_state)

    def ExpandNames(self) -> None:
        node = ExpandNode(self.snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name, self.op.node_uuid = node.name, node.uuid
        self.needed_locks = {}
        if self._locks_all:
            for level in (locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODE, locking.LEVEL_NODE_RES):
                self.needed_locks[level] = locking.ALL_SET
        else:
            self.needed_locks[locking.LEVEL_NODE] = [node.uuid]
            self.needed_locks[locking.LEVEL_NODE_RES] = [node.uuid]
        if self.op.secondary_ip is not None:
            affected = [instance.name for instance in self._Mirrored(node.uuid)]
            if affected:
                self.needed_locks[locking.LEVEL_INSTANCE] = affected
                self.share_locks[locking.LEVEL_INSTANCE] = 1

    def _Mirrored(self, node_uuid: str) -> list[objects.Instance]:
        """Return the instances whose mirrors use the node's secondary address."""
        snapshot = self.snapshot
        held = {inst.uuid: inst for inst in snapshot.PrimaryInstances(node_uuid)}
        held.update({inst.uuid: inst for inst in snapshot.SecondaryInstances(node_uuid)})
        internal = disk.With(mirror=disk.INTERNAL)
        return [inst for inst in held.values() if any(d.dev_type in internal for d in snapshot.InstanceDisks(inst))]

    def NodesToConfirm(self) -> set[str]:
        # Flags are the master's own affair, and a node that is to be marked offline is mostly dead.
        return set()

    def BuildHooksEnv(self) -> dict[str, Any]:
        env = {name.upper(): str(getattr(self.op, name)) for name in (CANDIDATE, OFFLINE, DRAINED, *CAPABILITIES)}
        return {"OP_TARGET": self.op.node_name, **env}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        master, node = self.snapshot.cluster.master_node, Filled(self.op.node_uuid)
        return ([master] if self._IsSilent() else [master, node], [master, node])

    def _IsSilent(self) -> bool:
        """Return whether the node is to be marked offline and does not answer: then nobody shall wait for its hooks."""
        node = self._node
        if not self.op.offline or node.offline or node.uuid == self.snapshot.cluster.master_node:
            return False
        result = Briefly(self, "version", node.uuid, [])
        if result.fail_msg:
            self.LogWarning(f"Node {node.name} does not answer, its hooks are left out: {result.fail_msg}")
        return bool(result.fail_msg)

    # --- checks -----------------------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        node = StillThere(self.snapshot.nodes.get(Filled(self.op.node_uuid)), "Node", self.op.node_name)
        self._node = node
        self._is_master = node.uuid == self.snapshot.cluster.master_node
        self._implied = False
        self._CheckRoles()
        self._CheckPool()
        self._DropIdle()
        self._CheckPower()
        self._FollowUp()
        self._role = NewRole(RoleOf(node), {flag: getattr(self.op, flag) for flag in FLAGS})
        if RoleOf(node) == OFFLINE != self._role:
            CheckVersion(
                self,
                node.name,
                node.uuid,
                errors.ECODE_STATE,
                "if certificates were renewed while the node was offline, run"
                f" '{pathutils.NODE_CLEANUP} --yes-do-it' there, then 'gnt-node add --readd {node.name}' here",
            )
            self._CheckFollows(node)
            self.LogWarning(
                f"Transitioning node {node.name} from offline to online state without using re-add",
                hint="make sure the node is healthy; if its disk was replaced or restored, or it was installed anew, use"
                f" 'gnt-node add --readd {node.name}'",
            )
        if self.op.secondary_ip:
            self._CheckSecondaryIp()

    def _CheckFollows(self, node: objects.Node) -> None:
        """Check that the node does not follow another master, which would end this one once the node is online."""
        try:
            self.context.store.ConfirmNodes([node.uuid], 0.0, joining=True)
        except store.FollowsOther as err:
            raise errors.OpPrereqError(f"{err}; {err.hint}", errors.ECODE_STATE) from err
        except store.MasterEnded:
            raise
        except store.StoreError as err:
            # What else keeps it from confirming is a warning when its files are brought up to date.
            self.LogInfo(f"Node {node.name} has not confirmed this master yet: {err}")

    def _CheckRoles(self) -> None:
        node = self._node
        if self._is_master and (
            any(getattr(self.op, flag) is not None for flag in FLAGS) or self.op.master_capable is False
        ):
            raise errors.OpPrereqError(
                f"Node {node.name} is the master: its role can be changed only via master-failover",
                errors.ECODE_INVAL,
                hint="run 'gnt-cluster master-failover' on another candidate first",
            )
        if self.op.master_candidate and not node.master_capable:
            raise errors.OpPrereqError(
                f"Node {node.name} is not master capable, cannot make it a master candidate", errors.ECODE_STATE
            )
        if self.op.vm_capable is False:
            held = [uuid for uuids in self.snapshot.NodeInstances(node.uuid) for uuid in uuids]
            if held:
                raise errors.OpPrereqError(
                    f"Node {node.name} hosts instances ({self._Names(held)}), cannot unset the vm_capable flag",
                    errors.ECODE_STATE,
                )

    def _Names(self, uuids: list[str]) -> str:
        return JoinFirst(NiceSort({self.snapshot.instances[uuid].known_as for uuid in uuids}), _LISTED)

    def _CheckPool(self) -> None:
        """Check that enough candidates are left, unless others may be promoted."""
        if not (self._node.master_candidate and self._might_demote and not self._locks_all):
            return
        now, should, _ = self.cfg.GetMasterCandidateStats([self._node.uuid])
        if now < should:
            raise errors.OpPrereqError(
                f"Not enough master candidates would be left ({now} of {should})",
                errors.ECODE_STATE,
                hint="pass --auto-promote (RAPI: auto_promote) to promote another node in its place",
            )

    def _DropIdle(self) -> None:
        for flag in FLAGS:
            if getattr(self.op, flag) is False and not getattr(self._node, flag):
                self.LogInfo(f"Ignoring request to unset flag {flag}, already unset")
                setattr(self.op, flag, None)

    def _CheckPower(self) -> None:
        node = self._node
        if params.FillND(self.snapshot, node)[nd.ND_OOB_PROGRAM]:
            if self.op.offline is False and not (node.powered or self.op.powered is True):
                raise errors.OpPrereqError(
                    f"Node {node.name} needs to be turned on before its offline status can be reset",
                    errors.ECODE_STATE,
                    hint=f"'gnt-node power on {node.name}' switches it on; if it is on, give --node-powered=yes too",
                )
        elif self.op.powered is not None:
            raise errors.OpPrereqError(
                f"Unable to change powered state for node {node.name} as it does not support out-of-band handling",
                errors.ECODE_STATE,
            )

    def _FollowUp(self) -> None:
        """Set flags that follow from others: a node that returns fills the pool, one without the capability leaves it."""
        node = self._node
        capable = node.master_capable if self.op.master_capable is None else self.op.master_capable
        gains = self.op.master_capable and not node.master_capable
        if self.op.drained is False or self.op.offline is False or gains:
            back = {flag: getattr(node, flag) and getattr(self.op, flag) is not False for flag in (DRAINED, OFFLINE)}
            if capable and not any(back.values()) and self.cfg.DecideSelfPromotion():
                self.LogInfo(f"Auto-promoting node {node.name} to master candidate")
                self.op.master_candidate = self._implied = True
        if self.op.master_capable is False and node.master_candidate:
            self.LogInfo(f"Demoting node {node.name} from master candidate")
            self.op.master_candidate = False

    # --- secondary address ------------------------------------------------------------------------------------------------

    def _CheckSecondaryIp(self) -> None:
        node, address = self._node, Filled(self.op.secondary_ip)
        snapshot = self.snapshot
        affected = self._Mirrored(node.uuid)
        if not {inst.name for inst in affected} <= self.owned_locks(locking.LEVEL_INSTANCE):
            raise errors.OpPrereqError(
                f"The instances on node {node.name} have changed since their locks were acquired; try again",
                errors.ECODE_STATE,
            )
        master = snapshot.nodes[snapshot.cluster.master_node]
        self._CheckHomes(master, address)
        CheckAddressesFree(snapshot, {address}, node.uuid)
        if node.offline:
            if affected:
                raise errors.OpPrereqError(
                    f"Cannot change secondary IP address: offline node {node.name} has instances"
                    f" ({', '.join(NiceSort(inst.name for inst in affected))}) configured to use it",
                    errors.ECODE_STATE,
                )
            return
        for inst in affected:
            CheckInstanceState(self, inst, STATE_DOWN)
        result = self.rpc.call_node_has_ip_address(node.uuid, address)
        result.Raise(f"Failure checking secondary ip on node {node.name}", prereq=True)
        if not result.payload:
            raise errors.OpPrereqError(
                f"Node {node.name} claims it doesn't have the secondary ip {address}",
                errors.ECODE_ENVIRON,
                hint="configure it on the node and try again",
            )
        if not self._is_master and address != node.primary_ip:
            CheckReachable(self, node.Replace(secondary_ip=address), node.uuid)

    def _CheckHomes(self, master: objects.Node, address: str) -> None:
        """Check that all nodes have one network, or all have two; only --force on the master begins a change."""
        single = master.primary_ip == master.secondary_ip
        if single == (address == self._node.primary_ip):
            return
        kind, wanted = ("single", "multi") if single else ("multi", "single")
        if not (self.op.force and self._is_master):
            raise errors.OpPrereqError(
                f"Changing the secondary ip to {address} would make node {self._node.name} {wanted}-homed in a"
                f" {kind}-homed cluster",
                errors.ECODE_INVAL,
                hint="begin with the master and --force, then change the other nodes",
            )
        what = "need a secondary ip of their own" if single else "have to use their primary ip as secondary ip"
        self.LogWarning(f"Transitioning from {kind}-homed to {wanted}-homed cluster; all nodes will {what}")

    # --- doing it ---------------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        before, old_role = self._node, RoleOf(self._node)
        if self._locks_all:
            # The others first: at no time there are fewer than there should be.
            candidates.MaintainPool(self, [before.uuid])
        promotes = self._role == CANDIDATE != old_role
        flags = {flag: flag == self._role and not promotes for flag in FLAGS}
        node = self.cfg.Update(before.Replace(**self._Values(), **flags), self.ec_id)
        if old_role == CANDIDATE != self._role:
            if not node.offline:
                candidates.Demoted(self, node)
            if self.snapshot.cluster.modify_ssh_setup:
                candidates.RemoveSshKeys(self, before)
            candidates.AwaitRevocation(self, node)
        if old_role == OFFLINE != self._role and not promotes:
            self._Welcome(node)
        if promotes:
            node = self._Promote(node)
        if self._role == OFFLINE != old_role:
            self._TellInstances(node)
        return self._Result(before, node)

    def _Values(self) -> dict[str, Any]:
        """Return the values to store besides the role."""
        node = self._node
        values = {
            name: getattr(self.op, name)
            for name in (*CAPABILITIES, "secondary_ip", "powered")
            if getattr(self.op, name) is not None
        }
        if self.op.ndparams is not None:
            values["ndparams"] = params.GetUpdatedParams(node.ndparams, self.op.ndparams, use_none=True)
        if self.op.hv_state is not None:
            values["hv_state_static"] = MergeNodeState(node.hv_state_static, self.op.hv_state)
        if self.op.disk_state is not None:
            values["disk_state_static"] = MergeNodeState(node.disk_state_static, self.op.disk_state)
        return values

    def _Promote(self, node: objects.Node) -> objects.Node:
        """Promote a node; a promotion that nobody asked for may fail, since the node is back without it."""
        try:
            return candidates.Promote(self, node.uuid)
        except store.MasterEnded:
            raise
        except (store.StoreError, errors.ConfigurationError, errors.OpExecError) as err:
            if not self._implied:
                raise
            self.LogWarning(
                f"Node {node.name} could not be made a master candidate: {err}",
                hint=f"'gnt-node modify --master-candidate yes {node.name}' tries again",
            )
            return self.snapshot.nodes[node.uuid]

    def _Welcome(self, node: objects.Node) -> None:
        """Send a node that was away the files that changed meanwhile."""
        try:
            self.context.store.ConfirmNodes([node.uuid], self.context.confirm_timeout)
        except store.MasterEnded:
            raise
        except store.StoreError as err:
            self.LogWarning(
                f"Node {node.name} is online again, but its files could not be brought up to date: {err}",
                hint="'gnt-cluster redist-conf' does it once the node answers",
            )
            return
        RedistributeAncillaryFiles(self, only=[node.uuid])

    def _TellInstances(self, node: objects.Node) -> None:
        """Report what stands still now, and how to continue."""
        primary, secondary = self.snapshot.NodeInstances(node.uuid)
        needed = self._Needing(node, [*primary, *secondary])
        if primary:
            others = [uuid for uuid in primary if uuid not in needed]
            hint = None
            if any(map(self._IsMirrored, others)):
                hint = f"when the node is surely off, 'gnt-node failover {node.name}' starts those with mirrored disks elsewhere"
            elif others:
                hint = "their disks are on this node only: they wait for it, or are made anew from a backup"
            self.LogWarning(
                f"Node {node.name} is the primary node of {len(primary)} instance(s): {self._Names(list(primary))}",
                hint=hint,
            )
        self._TellNeeding(node, needed)
        replaceable = [uuid for uuid in secondary if uuid not in needed]
        if replaceable:
            self.LogWarning(
                f"Node {node.name} holds the second copy of {len(replaceable)} instance(s): {self._Names(replaceable)}",
                hint="'gnt-instance replace-disks -n NODE INSTANCE' makes a new copy on another node",
            )

    def _Needing(self, node: objects.Node, instances: Iterable[str]) -> dict[str, list[objects.Disk]]:
        """Return the instances of which the node alone has the newest data, with the disks that are older elsewhere."""
        needing = {}
        for uuid in instances:
            disks = self.snapshot.InstanceDisks(self.snapshot.instances[uuid])
            behind = [dev for dev in disks if dev.behind is not None and not mirrors.Names(dev, node.uuid)]
            if behind:
                needing[uuid] = behind
        return needing

    def _TellNeeding(self, node: objects.Node, needing: Mapping[str, list[objects.Disk]]) -> None:
        for uuid, behind in needing.items():
            instance = self.snapshot.instances[uuid]
            other = mirrors.OtherNode(self.snapshot, instance, node.uuid)
            self.LogWarning(
                f"Instance {instance.name}: {mirrors.Describe(self.snapshot, behind)}; what was written after that is on"
                f" {node.name} alone, and is used again when that node is back",
                hint=mirrors.HintIfLost(self.snapshot, instance, other),
            )

    def _IsMirrored(self, uuid: str) -> bool:
        return self.snapshot.DiskTemplate(self.snapshot.instances[uuid]) in disk.Mirrored()

    def _Result(self, before: objects.Node, after: objects.Node) -> list[list[Any]]:
        """Return [field, new value as text] of every change, asked for or implied, except parameters and states."""
        asked = [name for name in ("powered", *CAPABILITIES) if getattr(self.op, name) is not None]
        changed = [flag for flag in FLAGS if getattr(before, flag) != getattr(after, flag)]
        result: list[list[Any]] = [[name, str(getattr(after, name))] for name in (*asked, *changed)]
        if self.op.secondary_ip:
            result.append(["secondary_ip", after.secondary_ip])
        return result
