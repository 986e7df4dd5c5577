"""From what a request says of NICs to NIC objects: addresses, modes, networks (doc/reference/drivers.md d.1.3, d.4)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import constants, errors, objects, params
from ganeti.cmdlib.base import LogicalUnit
from ganeti.cmdlib.common import CheckNoProblems, ExpandNetwork, Invalid
from ganeti.cmdlib.disk.generate import CheckDeviceNames, DeviceName
from ganeti.params import nic as nic_params

AUTO, GENERATE, NONE, POOL = constants.VALUE_AUTO, constants.VALUE_GENERATE, constants.VALUE_NONE, "pool"


def OwnParams(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mode, link and vlan that a request names; the old key ``bridge`` is a link."""
    own: dict[str, Any] = {}
    if values.get("bridge"):
        if values.get("link"):
            raise Invalid("Cannot pass 'bridge' and 'link' at the same time")
        values = {**values, "link": values["bridge"]}
    for name in (nic_params.NIC_MODE, nic_params.NIC_LINK, nic_params.NIC_VLAN):
        value = values.get(name)
        if value is not None and value != AUTO:
            own[name] = nic_params.NormalizeVlan(value) if name == nic_params.NIC_VLAN else value
    return own


def NamedNetwork(snapshot: objects.Snapshot, values: Mapping[str, Any]) -> objects.Network | None:
    """Return the network that a request names for a NIC; None if the NIC is to be in none."""
    name = values.get("network")
    return None if name is None or name.lower() == NONE else ExpandNetwork(snapshot, name)


def AllocatorNic(
    snapshot: objects.Snapshot, own: Mapping[str, Any], mac: str, ip: str | None, network: objects.Network | None
) -> dict[str, Any]:
    """Return what an allocator gets to know of a new NIC; ``own`` are the parameters that the request names."""
    filled = params.SimpleFillNIC(snapshot.cluster, own)
    mode, link = filled[nic_params.NIC_MODE], filled[nic_params.NIC_LINK]
    bridge = {"bridge": link} if mode == constants.NIC_MODE_BRIDGED else {}
    needs = {} if network is None else {"network": network.uuid}
    return {"mac": mac, "ip": ip, "mode": mode, "link": link, **bridge, **needs}


def CheckAddress(text: str) -> str:
    """Return an IP address in its normal form; raise OpPrereqError if it is not one."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise Invalid(f"Invalid IP address '{text}'") from None


class NicRequest:
    """One NIC as asked for, checked as far as it stands alone."""

    def __init__(self, lu: LogicalUnit, values: Mapping[str, Any], index: int, resolved_ip: str | None):
        snapshot = lu.snapshot
        where = f"NIC {index}"
        self.name = DeviceName(values.get("name"))
        self.network = NamedNetwork(snapshot, values)
        self.own = OwnParams(values)
        if self.network is not None and self.own:
            raise Invalid(f"{where}: mode and link come from the network and cannot be given with it")
        if self.own.get(nic_params.NIC_MODE) == constants.NIC_MODE_POOL:
            raise Invalid(f"{where}: mode {constants.NIC_MODE_POOL} needs a network")
        filled = params.SimpleFillNIC(snapshot.cluster, self.own)
        CheckNoProblems(nic_params.SyntaxProblems(filled))
        self.ip = self._Ip(values.get("ip"), where, resolved_ip)
        routed = self.network is None and filled[nic_params.NIC_MODE] == constants.NIC_MODE_ROUTED
        if routed and self.ip is None:
            raise Invalid(f"{where}: routed NICs must have an IP address")
        mac = values.get("mac") or AUTO
        self.mac: str | None = None
        if mac.lower() not in (AUTO, GENERATE):
            try:
                self.mac = lu.cfg.ReserveMAC(mac, lu.ec_id)
            except errors.ReservationError as err:
                raise errors.OpPrereqError(f"{where}: {err}", errors.ECODE_NOTUNIQUE) from err

    def _Ip(self, ip: str | None, where: str, resolved_ip: str | None) -> str | None:
        if ip is None or ip.lower() == NONE:
            return None
        if ip.lower() == AUTO:
            if resolved_ip is None:
                raise Invalid(f"{where}: IP address set to auto but name checks have been skipped")
            return resolved_ip
        if ip.lower() == POOL:
            if self.network is None:
                raise Invalid(f"{where}: an address of a pool needs a network")
            return POOL
        return CheckAddress(ip)

    def ForAllocator(self, lu: LogicalUnit) -> dict[str, Any]:
        """Return what an allocator gets to know; the MAC is made now."""
        self.mac = self.mac or lu.cfg.GenerateMAC(self.network.uuid if self.network else None, lu.ec_id)
        return AllocatorNic(lu.snapshot, self.own, self.mac, self.ip, self.network)

    def Make(self, lu: LogicalUnit, node_uuid: str, conflicts_check: bool) -> objects.NIC:
        """Return the object for an instance on this node; reserve MAC and address for the job."""
        own = dict(self.own)
        network_uuid = None
        if self.network is not None:
            network_uuid = self.network.uuid
            own = ConnectedParams(lu, self.network, node_uuid)
        ip = TakeAddress(lu, self.ip, self.network, node_uuid, conflicts_check)
        mac = self.mac or lu.cfg.GenerateMAC(network_uuid, lu.ec_id)
        return objects.NIC(
            mac=mac,
            ip=ip,
            name=self.name,
            network=network_uuid,
            nicparams=own,
            uuid=lu.cfg.GenerateUniqueID(lu.ec_id),
        )


def ConnectedParams(lu: LogicalUnit, network: objects.Network, node_uuid: str) -> dict[str, Any]:
    """Return the complete NIC parameters of a network for instances on a node."""
    found = lu.cfg.GetGroupNetParams(network.uuid, node_uuid)
    if found is None:
        snapshot = lu.snapshot
        group = snapshot.nodegroups[snapshot.nodes[node_uuid].group]
        raise errors.OpPrereqError(
            f"Network {network.name} is not connected to node group {group.name}",
            errors.ECODE_INVAL,
            hint=f"'gnt-network connect -N mode=MODE,link=LINK {network.name} {group.name}' connects it",
        )
    return found


def TakeAddress(
    lu: LogicalUnit, ip: str | None, network: objects.Network | None, node_uuid: str, conflicts_check: bool
) -> str | None:
    """Reserve the address of a NIC for the job: a free one of the pool, or the one given."""
    if ip is None:
        return None
    if network is None:
        if conflicts_check:
            found = lu.cfg.CheckIPInNodeGroup(ip, node_uuid)
            if found is not None:
                raise errors.OpPrereqError(
                    f"Conflicting IP address found: '{ip}' lies in network '{found.name}' of the node's group",
                    errors.ECODE_STATE,
                    hint=f"put the NIC into it (network={found.name}), or use --no-conflicts-check",
                )
        return ip
    try:
        if ip == POOL:
            ip = lu.cfg.GenerateIp(network.uuid, lu.ec_id)
            lu.LogInfo(f"Chose IP {ip} from network {network.name}")
        else:
            lu.cfg.ReserveIp(network.uuid, ip, lu.ec_id, conflicts_check)
    except errors.ReservationError as err:
        code = errors.ECODE_STATE if ip == POOL else errors.ECODE_NOTUNIQUE
        raise errors.OpPrereqError(f"Network {network.name}: {err}", code) from err
    except errors.AddressPoolError as err:
        raise Invalid(f"Network {network.name}: {err}") from err
    return ip


def ParseNics(lu: LogicalUnit, requests: Sequence[Mapping[str, Any]], resolved_ip: str | None) -> list[NicRequest]:
    """Return all NICs of a request."""
    if len(requests) > constants.MAX_NICS:
        raise Invalid(f"Too many NICs: {len(requests)}, at most {constants.MAX_NICS}")
    nics = [NicRequest(lu, values, index, resolved_ip) for index, values in enumerate(requests)]
    CheckDeviceNames([nic.name for nic in nics], (), "NIC")
    return nics
