"""Nodes come and go: adding, taking back, removing, resetting (doc/reference/drivers.md d.7).

A node enters the configuration as a regular one and is promoted by a transaction of its own afterwards, once it has a
copy of the store: at no time counts a voter that holds nothing.  It is called by its address until it is configured,
and again when it no longer is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, hosts, locking, objects, opcodes, params, pathutils, renewal, ssconf, ssh, store
from ganeti.cmdlib import candidates
from ganeti.cmdlib.base import HTYPE_NODE, Feedback, Filled, LogicalUnit, NoHooksLU
from ganeti.cmdlib.common import ExpandGroup, ExpandNode, ForceNdParams, ForceNodeState, MergeNodeState
from ganeti.cmdlib.distribute import BringFiles, UploadFile
from ganeti.cmdlib.lvmchecks import PV_LIST, SHARED_PVS, PvProblems
from ganeti.cmdlib.node.switch import SetUpSwitch
from ganeti.params import nd
from ganeti.params.checks import AddressFamily
from ganeti.rpc.procedures import STORE_OWNS

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult

_NET_TEST, _SSH_TEST = "node-net-test", "nodelist"
_ADD, _REMOVE = "add", "remove"
_NODE_LEVELS = (locking.LEVEL_NODE, locking.LEVEL_NODE_RES)


# --- checks that adding and modifying share -------------------------------------------------------------------------------


def CheckSecondaryIp(address: str) -> None:
    if AddressFamily(address) != 4:
        raise errors.OpPrereqError(f"Secondary IP ({address}) needs to be a valid IPv4 address", errors.ECODE_INVAL)


def CheckAddressesFree(snapshot: objects.Snapshot, addresses: set[str], own_uuid: str) -> None:
    """Check that neither the cluster nor another node has any of the addresses."""
    cluster = snapshot.cluster
    if cluster.master_ip in addresses:
        raise errors.OpPrereqError(
            f"Address {cluster.master_ip} is that of the cluster, {cluster.cluster_name}", errors.ECODE_NOTUNIQUE
        )
    for other in snapshot.nodes.values():
        shared = addresses & {other.primary_ip, other.secondary_ip}
        if shared and other.uuid != own_uuid:
            raise errors.OpPrereqError(
                f"Address {', '.join(sorted(shared))} conflicts with existing node {other.name}", errors.ECODE_NOTUNIQUE
            )


def CheckReachable(lu: LogicalUnit, node: objects.Node, called: str) -> None:
    """Check that master and node have their addresses and reach each other's daemon over both networks.

    ``called`` is what the node is called by, its address while it is not configured.
    """
    cluster = lu.snapshot.cluster
    master = lu.snapshot.nodes[cluster.master_node]
    pair = {master.uuid: master, called: node}
    rows = [[one.name, one.primary_ip, one.secondary_ip] for one in pair.values()]
    request = {_NET_TEST: [rows, [one.name for one in pair.values()]]}
    for key, result in lu.rpc.call_node_verify_light(list(pair), request, cluster.cluster_name, {}).items():
        result.Raise(f"Can't check the network of node {pair[key].name}", prereq=True)
        for other, problem in sorted((_Payload(result).get(_NET_TEST) or {}).items()):
            raise errors.OpPrereqError(
                f"Node {pair[key].name} does not reach the node daemon of {other}: {problem}", errors.ECODE_ENVIRON
            )


def CheckVersion(lu: LogicalUnit, name: str, called: str, ecode: str, hint: str | None = None) -> None:
    """Check that the node's daemon answers and speaks our protocol; ``hint``: what to do if it does not answer."""
    result = lu.rpc.call_version([called])[called]
    if result.fail_msg:
        raise errors.OpPrereqError(
            f"Can't get version information from node {name}: {result.fail_msg}", ecode, hint=hint
        )
    if result.payload != constants.PROTOCOL_VERSION:
        raise errors.OpPrereqError(
            f"Version mismatch: the master speaks protocol {constants.PROTOCOL_VERSION}, node {name} {result.payload}",
            ecode,
            hint="install the same release on all nodes",
        )


def _Payload(result: RpcResult) -> Mapping[str, Any]:
    return result.payload if isinstance(result.payload, dict) else {}


# --- adding ---------------------------------------------------------------------------------------------------------------


class LUNodeAdd(LogicalUnit[opcodes.OpNodeAdd]):
    """Makes a machine whose node daemon runs a node, or takes one back that was repaired.

    A dry run asks neither the machine nor its daemon anything, so that it can come before the machine is set up.
    """

    HTYPE = HTYPE_NODE
    REQ_BGL = True

    def CheckArguments(self) -> None:
        cluster = self.snapshot.cluster
        self._ipv6 = cluster.primary_ip_family == constants.IP6_FAMILY
        host = hosts.Lookup(self.op.node_name, ipv6=self._ipv6)
        self.op.node_name, self.op.primary_ip = host
        if self.op.readd:
            if self.op.group:
                raise errors.OpPrereqError("Cannot pass a node group when a node is being readded", errors.ECODE_INVAL)
            if host.name == self.snapshot.nodes[cluster.master_node].name:
                raise errors.OpPrereqError(f"Cannot readd the master node {host.name}", errors.ECODE_STATE)
        if self.op.secondary_ip:
            CheckSecondaryIp(self.op.secondary_ip)
        if self.op.ndparams:
            self.op.ndparams = ForceNdParams(self.op.ndparams, f"node {host.name}", of_node=True)
        self.op.hv_state, self.op.disk_state = ForceNodeState(self.op.hv_state, self.op.disk_state)

    def NodesToConfirm(self) -> set[str]:
        # The node confirms once it is configured; the others are only told of it.
        return set()

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {
            "OP_TARGET": self.op.node_name,
            "NODE_NAME": self.op.node_name,
            "NODE_PIP": self._node.primary_ip,
            "NODE_SIP": self._node.secondary_ip,
            "MASTER_CAPABLE": str(self._node.master_capable),
            "VM_CAPABLE": str(self._node.vm_capable),
        }

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        others = [uuid for uuid in self.snapshot.nodes if uuid != self._node.uuid]
        return (others, [*others, self._node.uuid])

    # --- checks -----------------------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        snapshot = self.snapshot
        known = snapshot.NodeByName(self.op.node_name)
        if known is None and self.op.readd:
            raise errors.OpPrereqError(
                f"Node {self.op.node_name} is not in the configuration", errors.ECODE_NOENT, hint="leave out --readd"
            )
        if known is not None and not self.op.readd:
            raise errors.OpPrereqError(
                f"Node {known.name} is already in the configuration",
                errors.ECODE_EXISTS,
                hint=f"use 'gnt-node add --readd {known.name}' to add it again after a repair",
            )
        secondary_ip = self._SecondaryIp(known)
        capable = {
            name: bool(default if given is None else given)
            for name, given, default in (
                ("master_capable", self.op.master_capable, known is None or known.master_capable),
                ("vm_capable", self.op.vm_capable, known is None or known.vm_capable),
            )
        }
        self._CheckInstances(known, capable["vm_capable"])
        self._node = self._Planned(known, secondary_ip, capable)
        CheckAddressesFree(snapshot, {self._node.primary_ip, secondary_ip}, self._node.uuid)
        self._CheckElsewhere()
        self._CheckHomes(secondary_ip)
        # The machine may have been set up before the renewal began.
        renewal.CheckCompleted()
        if self.op.dry_run:
            return
        exceptions = [known.uuid] if known is not None else []
        self._becomes_candidate = self._node.master_capable and self.cfg.DecideSelfPromotion(exceptions)
        CheckVersion(self, self._node.name, self._node.primary_ip, errors.ECODE_ENVIRON)
        CheckReachable(self, self._node, self._node.primary_ip)
        if self._node.vm_capable:
            self._CheckPvs()

    def _SecondaryIp(self, known: objects.Node | None) -> str:
        primary_ip = Filled(self.op.primary_ip)
        given: str | None = self.op.secondary_ip
        if known is not None:
            if known.secondary_ip == known.primary_ip:
                # It stays on one network, also where it comes back with another address.
                if given in (None, known.primary_ip, primary_ip):
                    return primary_ip
            elif given in (None, known.secondary_ip):
                return known.secondary_ip
            raise errors.OpPrereqError(
                f"Readded node {known.name} doesn't have the same secondary IP address as before ({known.secondary_ip})",
                errors.ECODE_INVAL,
            )
        if given is None and self._ipv6:
            raise errors.OpPrereqError(
                "When using IPv6, a valid IPv4 address must be given as secondary", errors.ECODE_INVAL
            )
        return given or primary_ip

    def _CheckInstances(self, known: objects.Node | None, vm_capable: bool) -> None:
        if known is not None and not vm_capable and any(self.snapshot.NodeInstances(known.uuid)):
            raise errors.OpPrereqError(
                f"Node {known.name} being re-added with vm_capable set to false has instances", errors.ECODE_STATE
            )

    def _Planned(self, known: objects.Node | None, secondary_ip: str, capable: Mapping[str, bool]) -> objects.Node:
        """Return the node as it joins: regular, online."""
        hv_state = MergeNodeState(known.hv_state_static if known is not None else {}, self.op.hv_state)
        disk_state = MergeNodeState(known.disk_state_static if known is not None else {}, self.op.disk_state)
        values: dict[str, Any] = {
            "primary_ip": self.op.primary_ip,
            "secondary_ip": secondary_ip,
            "master_candidate": False,
            "offline": False,
            "drained": False,
            "powered": True,
            "ndparams": params.GetUpdatedParams(
                known.ndparams if known is not None else {}, self.op.ndparams or {}, use_none=True
            ),
            "hv_state_static": hv_state,
            "disk_state_static": disk_state,
            **capable,
        }
        if known is not None:
            return known.Replace(**values)
        group = ExpandGroup(self.snapshot, self.op.group) if self.op.group else self.cfg.LookupNodeGroup(None)
        return objects.Node(
            name=self.op.node_name, group=group.uuid, uuid=self.cfg.GenerateUniqueID(self.ec_id), **values
        )

    def _CheckElsewhere(self) -> None:
        """Check that the name does not lead to this machine, which has more addresses than the configuration knows."""
        # In a virtual cluster all nodes are one machine.
        if not pathutils.IsVirtual() and hosts.IsOwnAddress(self._node.primary_ip):
            master = self.snapshot.nodes[self.snapshot.cluster.master_node]
            raise errors.OpPrereqError(
                f"{self._node.name} has the address {self._node.primary_ip}, which is one of this machine, the master"
                f" {master.name}",
                errors.ECODE_NOTUNIQUE,
            )

    def _CheckHomes(self, secondary_ip: str) -> None:
        """Check that all nodes have one network, or all have two."""
        master = self.snapshot.nodes[self.snapshot.cluster.master_node]
        master_single = master.primary_ip == master.secondary_ip
        if master_single == (secondary_ip == self.op.primary_ip):
            return
        if master_single:
            raise errors.OpPrereqError(
                f"The master {master.name} has no secondary ip but the new node {self.op.node_name} has one, {secondary_ip}",
                errors.ECODE_INVAL,
            )
        raise errors.OpPrereqError(
            f"The master {master.name} has a secondary ip but the new node {self.op.node_name} doesn't have one",
            errors.ECODE_INVAL,
            hint="pass --secondary-ip",
        )

    def _CheckPvs(self) -> None:
        cluster = self.snapshot.cluster
        if not cluster.volume_group_name:
            return
        exclusive = bool(params.FillND(self.snapshot, self._node)[nd.ND_EXCLUSIVE_STORAGE])
        request: dict[str, Any] = {PV_LIST: [cluster.volume_group_name]}
        if exclusive:
            request[SHARED_PVS] = True
        called = self._node.primary_ip
        result = self.rpc.call_node_verify_light([called], request, cluster.cluster_name, cluster.hvparams)[called]
        result.Raise(f"Can't check the physical volumes of node {self._node.name}", prereq=True)
        problems = PvProblems(_Payload(result), exclusive)
        if problems:
            raise errors.OpPrereqError(
                f"Node {self._node.name} failed PV checks: {'; '.join(problems)}", errors.ECODE_ENVIRON
            )

    # --- doing it ---------------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> None:
        name = self._node.name
        if self.op.node_setup:
            self._CheckSsh()
        manages_hosts = self.snapshot.cluster.modify_etc_hosts
        if manages_hosts:
            self.rpc.call_etc_hosts_modify(self.snapshot.cluster.master_node, _ADD, name, self._node.primary_ip).Raise(
                f"Can't update the hosts file of the master with node {name}"
            )
        self._node = self._Readd() if self.op.readd else self._Enter()
        self.LogInfo(f"Node {name} is in the configuration, its uuid is {self._node.uuid}")
        self._Confirm()
        self._BringFiles(manages_hosts)
        self._ConfigureSwitch()
        if self._becomes_candidate:
            self._Promote()
        elif self.op.readd:
            candidates.Demoted(self, self._node)
        if self.op.node_setup:
            if self.op.readd:
                candidates.RemoveSshKeys(self, self._node, readd=True)
            candidates.AddSshKeys(self, self._node)

    def _Confirm(self) -> None:
        """Before anything is changed on the node it must know this master."""
        try:
            self.context.store.ConfirmNodes([self._node.uuid], self.context.confirm_timeout)
        except store.MasterEnded:
            raise
        except store.StoreError as err:
            raise errors.OpExecError(
                f"Node {self._node.name} is in the configuration now, but it is not set up: {err}",
                hint=f"repair it and use '{self._Again()}'",
            ) from err

    def _Again(self) -> str:
        """Return the command that goes on with a node that is in the configuration."""
        return f"gnt-node add --readd {self._node.name}"

    def _Enter(self) -> objects.Node:
        """Store the new node.  Its locks come first, so that nobody finds a node without."""
        uuid = self._node.uuid
        for level in _NODE_LEVELS:
            self.glm.add(level, uuid)
        try:
            return self.cfg.AddNode(self._node)
        except BaseException:
            for level in _NODE_LEVELS:
                self.glm.remove(level, uuid)
            raise

    def _Readd(self) -> objects.Node:
        """Store the node as a regular one, which it may not have been: its copy of the store no longer counts."""
        return self.cfg.Update(self._node, self.ec_id)

    def _CheckSsh(self) -> None:
        """Check that the master's root reaches the node by SSH, and that it has the right name."""
        cluster = self.snapshot.cluster
        master = self.snapshot.nodes[cluster.master_node]
        port = params.FillND(self.snapshot, self._node)[nd.ND_SSH_PORT]
        request = {_SSH_TEST: [[self._node.name], {}, [master.name], {self._node.name: port}]}
        result = self.rpc.call_node_verify([master.uuid], request, cluster.cluster_name, {})[master.uuid]
        result.Raise(f"Cannot communicate with node {master.name}")
        problems = _Payload(result).get(_SSH_TEST) or {}
        for problem in problems.values():
            self.LogWarning(f"ssh/hostname verification failed from node {master.name}: {problem}")
        if problems:
            raise errors.OpExecError(
                "ssh/hostname verification failed",
                hint=f"as root on {master.name}, this must print the node's name without a question:"
                f" {ssh.TrialCommand(self._node.name, cluster.cluster_name, port)}",
            )

    def _BringFiles(self, manages_hosts: bool) -> None:
        """Bring what every node has; one that lacks any of it would look healthy."""
        snapshot, uuid = self.snapshot, self._node.uuid
        what = (
            f"Node {self._node.name} is in the configuration now, but it did not get all files; repair it and use"
            f" '{self._Again()}'"
        )
        BringFiles(self, self._node, what)
        result = self.rpc.call_write_ssconf_files([uuid], ssconf.Writable(ssconf.Values(snapshot)))[uuid]
        # One that still has a copy of the store, where an earlier attempt ended, writes them itself.
        if result.fail_msg != STORE_OWNS:
            result.Raise(what)
        if manages_hosts:
            skipped = (uuid, snapshot.cluster.master_node)
            others = [n.uuid for n in snapshot.nodes.values() if not n.offline and n.uuid not in skipped]
            UploadFile(self, pathutils.ETC_HOSTS, others)

    def _ConfigureSwitch(self) -> None:
        trouble = f"Node {self._node.name} is added, but its Open vSwitch could not be set up; repair it and use '{self._Again()}'"
        SetUpSwitch(self, self._node, trouble)

    def _Promote(self) -> None:
        """Promote the new node if the pool needs it; without a copy it stays a regular node, which is in the cluster as well."""
        try:
            self._node = candidates.Promote(self, self._node.uuid, ssh=False)
        except store.MasterEnded:
            raise
        except (store.StoreError, errors.ConfigurationError, errors.OpExecError) as err:
            self.LogWarning(
                f"Node {self._node.name} could not be made a master candidate: {err}",
                hint=f"'{self._Again()}' tries again",
            )


# --- removing and resetting -----------------------------------------------------------------------------------------------


class LUNodeRemove(LogicalUnit[opcodes.OpNodeRemove]):
    """Takes a node without instances out of the cluster."""

    HTYPE = HTYPE_NODE
    REQ_BGL = True

    def NodesToConfirm(self) -> set[str]:
        # It holds nothing of the cluster now, and may be dead.
        return set()

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"OP_TARGET": self.op.node_name, "NODE_NAME": self.op.node_name}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        others = [uuid for uuid in self.snapshot.nodes if uuid != self._node.uuid]
        return (others, others)

    def CheckPrereq(self) -> None:
        snapshot = self.snapshot
        self._node = ExpandNode(snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name = self._node.name
        if self._node.uuid == snapshot.cluster.master_node:
            raise errors.OpPrereqError(
                f"Node {self._node.name} is the master, failover to another node is required", errors.ECODE_INVAL
            )
        for uuid in [uuid for held in snapshot.NodeInstances(self._node.uuid) for uuid in held]:
            raise errors.OpPrereqError(
                f"Instance {snapshot.instances[uuid].known_as} is still running on the node, please remove first",
                errors.ECODE_INVAL,
                hint=f"'gnt-node migrate {self._node.name}' moves running instances, 'gnt-node failover {self._node.name}'"
                " stopped ones",
            )

    def Exec(self, feedback: Feedback) -> None:
        snapshot = self.snapshot
        cluster, node = snapshot.cluster, self._node
        if cluster.modify_ssh_setup:
            candidates.RemoveSshKeys(self, node, leaves=True)
        candidates.MaintainPool(self, [node.uuid])
        # While it is configured it can still be called by its name.
        self.proc.RunPostHooks([node.name])
        self.cfg.RemoveNode(node.uuid)
        for level in _NODE_LEVELS:
            self.glm.remove(level, node.uuid)
        result = self.rpc.call_node_leave_cluster(node.primary_ip, cluster.modify_ssh_setup)
        if result.fail_msg:
            self.LogWarning(
                f"Errors encountered on the remote node {node.name} while leaving the cluster: {result.fail_msg}",
                hint=f"run '{pathutils.NODE_CLEANUP} --yes-do-it' there before it is used again",
            )
        if cluster.modify_etc_hosts:
            self._ForgetAddress()
        if node.master_candidate:
            candidates.AwaitRevocation(self, node)

    def _ForgetAddress(self) -> None:
        master = self.snapshot.cluster.master_node
        result = self.rpc.call_etc_hosts_modify(master, _REMOVE, self._node.name, None)
        result.Raise(f"Can't take node {self._node.name} out of the hosts file of the master")
        # The line may be older than the cluster, and others may need it.
        self.LogInfo(
            f"Removed {self._node.name} from {pathutils.ETC_HOSTS} on all nodes; add it again by hand if anything but the"
            " cluster needs this name"
        )
        others = [node.uuid for node in self.snapshot.nodes.values() if not node.offline and node.uuid != master]
        UploadFile(self, pathutils.ETC_HOSTS, others)


class LUNodePowercycle(NoHooksLU[opcodes.OpNodePowercycle]):
    """Resets a node at once.  No locks: it must work while jobs hang on that very node."""

    REQ_BGL = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}
        self._node = ExpandNode(self.snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name, self.op.node_uuid = self._node.name, self._node.uuid

    def CheckPrereq(self) -> None:
        if self._node.uuid == self.snapshot.cluster.master_node and not self.op.force:
            raise errors.OpPrereqError(
                f"The node {self._node.name} is the master and the force parameter was not set", errors.ECODE_INVAL
            )

    def Exec(self, feedback: Feedback) -> str | None:
        cluster = self.snapshot.cluster
        hypervisor = cluster.enabled_hypervisors[0]
        result = self.rpc.call_node_powercycle(self._node.uuid, hypervisor, cluster.hvparams.get(hypervisor, {}))
        result.Raise(f"Failed to schedule the reboot of node {self._node.name}")
        answer: str | None = result.payload or None
        return answer
