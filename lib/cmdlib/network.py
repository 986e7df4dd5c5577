"""Networks: their addresses, and the node groups they are connected to (doc/reference/drivers.md d.9)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, TypeVar

from ganeti import constants, errors, locking, network, objects, opcodes
from ganeti.cmdlib.base import HTYPE_NETWORK, Feedback, LogicalUnit
from ganeti.cmdlib.common import (
    CheckName,
    CheckNoProblems,
    ExpandGroup,
    ExpandNetwork,
    Invalid,
    Removed,
    StillThere,
    StoreNew,
)
from ganeti.cmdlib.group.life import GroupInstances, LockedGroup
from ganeti.cmdlib.hookenv import NetworkEnv
from ganeti.config.values import NormalizeMACPrefix
from ganeti.config.writer import CheckTags
from ganeti.params import nic
from ganeti.utils.text import NiceSort

# --- what a request names -------------------------------------------------------------------------------------------------


def _CheckIPv4(text: str, what: str) -> None:
    if network.ParseIPv4(text) is None:
        raise Invalid(f"{what} '{text[:60]}' is not a valid IPv4 address")


def _CheckIPv6(text: str, what: str, is_net: bool) -> None:
    kind: Any = ipaddress.IPv6Network if is_net else ipaddress.IPv6Address
    try:
        # What follows a "%" may be any text, and this one travels to hooks and scripts.
        if "%" in text:
            raise ValueError
        kind(text)
    except ValueError:
        raise Invalid(f"{what} '{text[:60]}' is not a valid IPv6 {'network' if is_net else 'address'}") from None


def _CheckValues(op: Any, clears: bool) -> dict[str, Any]:
    """Return the fields of a network that a request names, each checked alone; with ``clears``, none empties one."""
    values: dict[str, Any] = {}
    for name in ("gateway", "gateway6", "network6", "mac_prefix"):
        given = getattr(op, name)
        if given is None:
            continue
        if clears and given.lower() == constants.VALUE_NONE:
            values[name] = None
        elif name == "gateway":
            _CheckIPv4(given, name)
            values[name] = given
        elif name == "mac_prefix":
            values[name] = NormalizeMACPrefix(given)
        else:
            _CheckIPv6(given, name, is_net=name == "network6")
            values[name] = given
    return values


def _CheckNewName(snapshot: objects.Snapshot, name: str) -> None:
    CheckName("network", name)
    taken = snapshot.NetworkByName(name)
    if taken is not None:
        raise Invalid(
            f"Desired network name '{name}' already exists as a network (UUID: {taken.uuid})", ecode=errors.ECODE_EXISTS
        )


# --- adding ---------------------------------------------------------------------------------------------------------------


class LUNetworkAdd(LogicalUnit[opcodes.OpNetworkAdd]):
    """Defines a network and the pool of its addresses."""

    HTYPE = HTYPE_NETWORK
    REQ_BGL = False

    def CheckArguments(self) -> None:
        self._values = _CheckValues(self.op, clears=False)
        for address in self.op.add_reserved_ips or ():
            _CheckIPv4(address, "Reserved address")
        try:
            CheckTags(self.op.tags)
        except errors.TagError as err:
            raise Invalid(str(err)) from err

    def ExpandNames(self) -> None:
        self._uuid = self.cfg.GenerateUniqueID(self.ec_id)
        self.needed_locks = {}
        self.add_locks[locking.LEVEL_NETWORK] = self._uuid
        if self.op.conflicts_check:
            # Their addresses may lie in the network.
            for level in (locking.LEVEL_NODE, locking.LEVEL_NODE_ALLOC):
                self.needed_locks[level] = locking.ALL_SET
                self.share_locks[level] = 1

    def BuildHooksEnv(self) -> dict[str, Any]:
        return NetworkEnv(self._network)

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        master = [self.snapshot.cluster.master_node]
        return (master, master)

    def CheckPrereq(self) -> None:
        _CheckNewName(self.snapshot, self.op.network_name)
        self._network = objects.Network(
            name=self.op.network_name,
            network=self.op.network,
            uuid=self._uuid,
            tags=tuple(sorted(set(self.op.tags))),
            **self._values,
        )

    def Exec(self, feedback: Feedback) -> None:
        try:
            pool = network.AddressPool.Initialize(self._network)
            if self.op.conflicts_check:
                self._ReserveOwn(pool)
            for address in dict.fromkeys(self.op.add_reserved_ips or ()):
                pool.Reserve(address, external=True)
        except errors.AddressPoolError as err:
            raise errors.OpExecError(
                f"Cannot create IP address pool for network '{self.op.network_name}': {err}"
            ) from err
        StoreNew(self, locking.LEVEL_NETWORK, lambda: self.cfg.AddNetwork(pool.Network()))

    def _ReserveOwn(self, pool: network.AddressPool) -> None:
        """Reserve the addresses of the nodes and of the cluster."""
        snapshot = self.snapshot
        owners = [(snapshot.cluster.master_ip, f"cluster {snapshot.cluster.cluster_name}")]
        for node in snapshot.nodes.values():
            owners += [(address, f"node {node.name}") for address in {node.primary_ip, node.secondary_ip}]
        for address, owner in owners:
            if not pool.Contains(address):
                continue
            try:
                pool.Reserve(address)
            except errors.AddressPoolError as err:
                self.LogWarning(f"Cannot reserve IP address {address} of {owner}: {err}")
            else:
                self.LogInfo(f"Reserved IP address {address} of {owner}")


# --- one existing network -------------------------------------------------------------------------------------------------


_NetworkOp = TypeVar("_NetworkOp", opcodes.OpNetworkRemove, opcodes.OpNetworkRename, opcodes.OpNetworkSetParams)


class _NetworkLU(LogicalUnit[_NetworkOp]):
    """A unit that locks one network."""

    HTYPE = HTYPE_NETWORK
    REQ_BGL = False

    def ExpandNames(self) -> None:
        found = ExpandNetwork(self.snapshot, self.op.network_name)
        self._uuid, self._name = found.uuid, found.name
        self.needed_locks = {locking.LEVEL_NETWORK: [found.uuid]}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        master = [self.snapshot.cluster.master_node]
        return (master, master)

    def LostLock(self, level: int, err: errors.LockError) -> errors.GenericError:
        return Removed("Network", self._name)

    def CheckPrereq(self) -> None:
        # Under its lock nobody can have removed it.
        self._network = self.snapshot.networks[self._uuid]

    def _Groups(self) -> list[objects.NodeGroup]:
        """Return the groups it is connected to."""
        return [group for group in self.snapshot.nodegroups.values() if self._uuid in group.networks]


class LUNetworkRemove(_NetworkLU[opcodes.OpNetworkRemove]):
    """Removes a network that no group is connected to."""

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        self.needed_locks[locking.LEVEL_NODEGROUP] = locking.ALL_SET
        self.share_locks[locking.LEVEL_NODEGROUP] = 1

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"NETWORK_NAME": self._name}

    def CheckPrereq(self) -> None:
        groups = NiceSort(group.name for group in self._Groups())
        if groups:
            raise errors.OpPrereqError(
                f"Cannot remove network '{self._name}' as it is connected to the following node groups:"
                f" {', '.join(groups)}",
                errors.ECODE_STATE,
                hint=f"'gnt-network disconnect {self._name}' disconnects it from all of them",
            )

    def Exec(self, feedback: Feedback) -> None:
        self.cfg.RemoveNetwork(self._uuid)
        self.remove_locks[locking.LEVEL_NETWORK] = self._uuid


class LUNetworkRename(_NetworkLU[opcodes.OpNetworkRename]):
    """Gives a network another name."""

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {"OLD_NAME": self._name, "NEW_NAME": self.op.new_name}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        snapshot = self.snapshot
        members = [uuid for group in self._Groups() for uuid in snapshot.GroupNodes(group.uuid)]
        nodes = [snapshot.cluster.master_node, *members]
        return (nodes, nodes)

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        _CheckNewName(self.snapshot, self.op.new_name)

    def Exec(self, feedback: Feedback) -> str:
        return self.cfg.Update(self._network.Replace(name=self.op.new_name), self.ec_id).name


class LUNetworkSetParams(_NetworkLU[opcodes.OpNetworkSetParams]):
    """Changes everything of a network but its IPv4 addresses."""

    def CheckArguments(self) -> None:
        if self.op.gateway and (self.op.add_reserved_ips or self.op.remove_reserved_ips):
            raise Invalid("Cannot modify gateway and reserved ips at once")
        self._values = _CheckValues(self.op, clears=True)
        for address in [*(self.op.add_reserved_ips or ()), *(self.op.remove_reserved_ips or ())]:
            _CheckIPv4(address, "Reserved address")

    def BuildHooksEnv(self) -> dict[str, Any]:
        return NetworkEnv(self._network.Replace(**self._values))

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        try:
            self._CheckAddresses(network.AddressPool(self._network))
        except errors.AddressPoolError as err:
            raise Invalid(str(err)) from err

    def _CheckAddresses(self, pool: network.AddressPool) -> None:
        for address in [*(self.op.add_reserved_ips or ()), *(self.op.remove_reserved_ips or ())]:
            if not pool.Contains(address):
                raise Invalid(f"Address {address} is not in network {self._name} ({self._network.network})")
        for address in set(pool.Ends()).intersection(self.op.remove_reserved_ips or ()):
            raise Invalid(
                f"Address {address} is the first or last of network {self._name} ({self._network.network}): it stays"
                " reserved, no instance can have it"
            )
        gateway = self._values.get("gateway")
        if gateway is not None and gateway != self._network.gateway:
            if pool.IsReserved(gateway):
                raise Invalid(f"{gateway} is already reserved", ecode=errors.ECODE_STATE)
            self._Hold(gateway)

    def _Hold(self, address: str) -> None:
        """Keep other jobs from being given an address until this one ends; OpPrereqError if one has been given it."""
        try:
            self.cfg.ReserveIp(self._uuid, address, self.ec_id)
        except errors.ReservationError as err:
            raise errors.OpPrereqError(
                f"Network {self._name}: {err}",
                errors.ECODE_NOTUNIQUE,
                hint=f"name another address, or look with 'gnt-network info {self._name}' who has it when that job has ended",
            ) from err

    def Exec(self, feedback: Feedback) -> None:
        # The bits that instances hold change without this lock: the configuration keeps its own of them.
        pool = network.AddressPool(self._network)
        if "gateway" in self._values:
            self._MoveGateway(pool, self._values["gateway"])
        for address in self.op.add_reserved_ips or ():
            self._Reserve(pool, address)
        for address in self.op.remove_reserved_ips or ():
            self._Unreserve(pool, address)
        try:
            self.cfg.Update(pool.Network().Replace(**self._values), self.ec_id)
        except errors.AddressPoolError as err:
            raise errors.OpExecError(f"Network {self._name} cannot be changed like that: {err}") from err

    def _MoveGateway(self, pool: network.AddressPool, gateway: str | None) -> None:
        old = self._network.gateway
        if gateway == old:
            return
        if gateway is not None:
            pool.Reserve(gateway, external=True)
        if old is not None and pool.IsReserved(old, external=True):
            pool.Release(old, external=True)

    def _Reserve(self, pool: network.AddressPool, address: str) -> None:
        try:
            pool.Reserve(address, external=True)
            self._Hold(address)
        except errors.AddressPoolError as err:
            self.LogWarning(f"Cannot reserve IP address {address}: {err}")
        except errors.OpPrereqError as err:
            pool.Release(address, external=True)
            self.LogWarning(f"Cannot reserve IP address {address}: {err.args[0]}", hint=err.hint)

    def _Unreserve(self, pool: network.AddressPool, address: str) -> None:
        if address == self._network.gateway:
            self.LogWarning(f"Cannot unreserve the gateway's IP address {address}")
            return
        try:
            pool.Release(address, external=True)
        except errors.AddressPoolError as err:
            self.LogWarning(f"Cannot unreserve IP address {address}: {err}")


# --- network and group ----------------------------------------------------------------------------------------------------


_ConnectionOp = TypeVar("_ConnectionOp", opcodes.OpNetworkConnect, opcodes.OpNetworkDisconnect)


class _ConnectionLU(LogicalUnit[_ConnectionOp]):
    """A unit that changes whether a group is connected to a network."""

    HTYPE = HTYPE_NETWORK
    REQ_BGL = False

    def ExpandNames(self) -> None:
        snapshot = self.snapshot
        found = ExpandNetwork(snapshot, self.op.network_name)
        self._uuid, self._name = found.uuid, found.name
        self._group_uuid = ExpandGroup(snapshot, self.op.group_name).uuid
        self.needed_locks = {locking.LEVEL_NODEGROUP: [self._group_uuid]}
        if self._LooksAtInstances():
            self.needed_locks[locking.LEVEL_INSTANCE] = sorted(GroupInstances(snapshot, self._group_uuid))
            self.share_locks[locking.LEVEL_INSTANCE] = 1

    def _LooksAtInstances(self) -> bool:
        return True

    def LostLock(self, level: int, err: errors.LockError) -> errors.GenericError:
        if level == locking.LEVEL_INSTANCE:
            return self._InstancesChanged()
        return (
            Removed("Group", self.op.group_name) if level == locking.LEVEL_NODEGROUP else Removed("Network", self._name)
        )

    def _InstancesChanged(self) -> errors.OpPrereqError:
        return Invalid(
            f"Instances in node group '{self.op.group_name}' changed since locks were acquired; retry the operation",
            ecode=errors.ECODE_STATE,
        )

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        nodes = list(self.snapshot.GroupNodes(self._group_uuid))
        return (nodes, nodes)

    def CheckPrereq(self) -> None:
        self._group = LockedGroup(self, self._group_uuid)
        # Without a look at conflicts its own lock is not held; that of the group keeps it from being removed from here on.
        self._network = StillThere(self.snapshot.networks.get(self._uuid), "Network", self._name)
        names = GroupInstances(self.snapshot, self._group_uuid)
        if self._LooksAtInstances() and names != self.owned_locks(locking.LEVEL_INSTANCE):
            raise self._InstancesChanged()
        self._instances = [inst for inst in self.snapshot.instances.values() if inst.name in names]

    def _Env(self, params: Mapping[str, Any]) -> dict[str, Any]:
        keys = (nic.NIC_MODE, nic.NIC_LINK, nic.NIC_VLAN)
        return {
            "GROUP_NAME": self.op.group_name,
            **{f"GROUP_NETWORK_{key.upper()}": params.get(key, "") for key in keys if params},
        }


class LUNetworkConnect(_ConnectionLU[opcodes.OpNetworkConnect]):
    """Says how NICs of a group's instances are connected to a network."""

    def CheckArguments(self) -> None:
        self._params = {
            nic.NIC_MODE: self.op.network_mode,
            nic.NIC_LINK: self.op.network_link,
            nic.NIC_VLAN: nic.NormalizeVlan(self.op.network_vlan),
        }
        CheckNoProblems(nic.SyntaxProblems(self._params))

    def _LooksAtInstances(self) -> bool:
        return bool(self.op.conflicts_check)

    def ExpandNames(self) -> None:
        super().ExpandNames()
        if self.op.conflicts_check:
            assert self.needed_locks is not None
            self.needed_locks[locking.LEVEL_NETWORK] = [self._uuid]
            self.share_locks[locking.LEVEL_NETWORK] = 1

    def BuildHooksEnv(self) -> dict[str, Any]:
        return self._Env(self._params)

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        self._connected = self._uuid in self._group.networks
        if self._connected:
            self._WarnConnected()
            return
        if not self.op.conflicts_check:
            return
        pool = network.AddressPool(self._network)
        conflicts = [
            f"{inst.name} (NIC {index}: {item.ip})"
            for inst in self._instances
            for index, item in enumerate(inst.nics)
            if item.ip and pool.Contains(item.ip)
        ]
        if conflicts:
            raise errors.OpPrereqError(
                f"Addresses of network '{self._name}' are used by instances of group '{self._group.name}':"
                f" {', '.join(NiceSort(conflicts)[:20])}",
                errors.ECODE_STATE,
                hint="change these NICs first, or connect with --no-conflicts-check",
            )

    def _WarnConnected(self) -> None:
        """Say that nothing is changed, and what stays where other parameters were given."""
        network_name, group = self._name, self._group
        text = f"Network '{network_name}' is already mapped to group '{group.name}'"
        present = group.networks[self._uuid]
        # What was left out is None.
        stays = {key: present.get(key) for key, value in self._params.items() if value and value != present.get(key)}
        if not stays:
            self.LogWarning(text)
            return
        self.LogWarning(
            f"{text}, with other parameters, which are kept:"
            f" {', '.join(f'{key}={value}' for key, value in sorted(present.items()) if value)}",
            hint=f"to change them, run 'gnt-network disconnect {network_name} {group.name}' first",
        )

    def Exec(self, feedback: Feedback) -> None:
        if not self._connected:
            self.cfg.Update(
                self._group.Replace(networks={**self._group.networks, self._uuid: self._params}), self.ec_id
            )


class LUNetworkDisconnect(_ConnectionLU[opcodes.OpNetworkDisconnect]):
    """Ends the connection of a group to a network that none of its instances uses."""

    def BuildHooksEnv(self) -> dict[str, Any]:
        return self._Env(self._before)

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        self._before = self._group.networks.get(self._uuid, {})
        if not self._before:
            self.LogWarning(f"Network '{self._name}' is not mapped to group '{self._group.name}'")
            return
        users = [inst.name for inst in self._instances if any(item.network == self._uuid for item in inst.nics)]
        if users:
            raise errors.OpPrereqError(
                f"Network '{self._name}' is used by instances of group '{self._group.name}':"
                f" {', '.join(NiceSort(users)[:20])}",
                errors.ECODE_STATE,
                hint="'gnt-instance modify --net N:network=none INSTANCE' takes a NIC out of its network",
            )

    def Exec(self, feedback: Feedback) -> None:
        if self._before:
            left = {uuid: own for uuid, own in self._group.networks.items() if uuid != self._uuid}
            self.cfg.Update(self._group.Replace(networks=left), self.ec_id)
