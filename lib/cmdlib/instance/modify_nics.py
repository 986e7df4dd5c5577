"""Changing the NICs of an instance: what they will be, what is told about it, what a running guest sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ganeti import constants, errors, objects, params
from ganeti.cmdlib.base import LogicalUnit
from ganeti.cmdlib.common import CheckNoProblems, ExpandNetwork
from ganeti.cmdlib.disk.generate import CheckDeviceNames, DeviceName, FindDevice
from ganeti.cmdlib.instance import nicgen
from ganeti.cmdlib.instance.changes import ADD, MODIFY, REMOVE, Change
from ganeti.params import nic as nic_params
from ganeti.params.types import GetUpdatedParams

HOT_ADD, HOT_REMOVE, HOT_MODIFY = "hotadd", "hotremove", "hotmod"


class HotChange(NamedTuple):
    """One change of a running guest: action, device, its index, and the entry that reports the outcome."""

    action: str
    device: Any
    position: int
    entry: str


class NicPlan:
    """The NICs as they will be after all changes, computed one after the other; nothing is stored yet.

    MAC and IP addresses are reserved for the job.
    """

    def __init__(self, lu: LogicalUnit, instance: objects.Instance, pnode_uuid: str):
        self._lu = lu
        self._owner = instance.name
        self._pnode = pnode_uuid
        self._others = [
            uuid
            for uuid in lu.snapshot.AllNodes(instance)
            if uuid not in (pnode_uuid, instance.primary_node) and not lu.snapshot.nodes[uuid].offline
        ]
        self.nics = list(instance.nics)
        self.entries: list[tuple[str, Any]] = []
        self.hot: list[tuple[int, HotChange]] = []

    def Apply(self, changes: list[Change]) -> None:
        for change in changes:
            if change.operation == ADD:
                self._Add(change)
            elif change.operation == REMOVE:
                self._Remove(change)
            elif change.operation == MODIFY:
                self._Modify(change)
            else:
                raise errors.OpPrereqError(f"NICs cannot be {change.operation}ed", errors.ECODE_INVAL)
        if len(self.nics) > constants.MAX_NICS:
            raise errors.OpPrereqError(
                f"Instance has too many network interfaces ({len(self.nics)}), cannot have more than"
                f" {constants.MAX_NICS}",
                errors.ECODE_STATE,
            )
        CheckDeviceNames([nic.name for nic in self.nics], [nic.uuid for nic in self.nics], "NIC")

    def _Hot(self, action: str, nic: objects.NIC, index: int) -> None:
        # The entry about it stands behind those about the change itself.
        self.hot.append((len(self.entries), HotChange(action, nic, index, f"nic.{index}")))

    def _Add(self, change: Change) -> None:
        index = change.InsertIndex(len(self.nics), "NIC")
        request = nicgen.NicRequest(self._lu, change.values, index, None)
        nic = request.Make(self._lu, self._pnode, self._lu.op.conflicts_check)
        filled = params.FillNIC(self._lu.snapshot, nic)
        self._CheckBridge(filled)
        self.nics.insert(index, nic)
        mode, link = filled[nic_params.NIC_MODE], filled[nic_params.NIC_LINK]
        network = self._NetworkName(nic)
        self.entries.append(
            (f"nic.{index}", f"add:mac={nic.mac},ip={nic.ip},mode={mode},link={link},network={network}")
        )
        self._Hot(HOT_ADD, nic, index)

    def _Remove(self, change: Change) -> None:
        index, nic = FindDevice(change.where, self.nics, "NIC", self._owner)
        del self.nics[index]
        if nic.network and nic.ip:
            self._lu.cfg.ReleaseIp(nic.network, nic.ip, self._lu.ec_id)
        self.entries.append((f"NIC/{index}", "remove"))
        self._Hot(HOT_REMOVE, nic, index)

    def _Modify(self, change: Change) -> None:
        index, old = FindDevice(change.where, self.nics, "NIC", self._owner)
        new = _NicChange(self._lu, old, change.values, self._pnode).new
        filled = params.FillNIC(self._lu.snapshot, new)
        self._CheckBridge(filled)
        self.nics[index] = new
        for name in ("mac", "ip", "name"):
            if getattr(new, name) != getattr(old, name):
                self.entries.append((f"nic.{name}/{index}", getattr(new, name)))
        if new.network != old.network:
            self.entries.append((f"nic.network/{index}", self._NetworkName(new)))
        for name in (nic_params.NIC_MODE, nic_params.NIC_LINK):
            self.entries.append((f"nic.{name}/{index}", filled[name]))
        self._Hot(HOT_MODIFY, new, index)

    def _NetworkName(self, nic: objects.NIC) -> str | None:
        return self._lu.snapshot.networks[nic.network].name if nic.network else None

    def _CheckBridge(self, filled: Mapping[str, Any]) -> None:
        if filled[nic_params.NIC_MODE] != constants.NIC_MODE_BRIDGED:
            return
        bridges = [filled[nic_params.NIC_LINK]]
        result = self._lu.rpc.call_bridges_exist(self._pnode, bridges)
        text = f"Error checking bridges on node '{result.node_name}'"
        if self._lu.op.force:
            result.Warn(text, self._lu.LogWarning)
        else:
            result.Raise(text, prereq=True)
        for uuid in self._others:
            result = self._lu.rpc.call_bridges_exist(uuid, bridges)
            text = f"Error checking bridges on '{result.node_name}', the secondary node of {self._owner}"
            result.Warn(text, self._lu.LogWarning)


class _NicChange:
    """One modified NIC: ``new`` is what it becomes."""

    def __init__(self, lu: LogicalUnit, old: objects.NIC, values: Mapping[str, Any], pnode_uuid: str):
        self._lu = lu
        self._pnode = pnode_uuid
        snapshot = lu.snapshot
        self._old_network = snapshot.networks.get(old.network) if old.network else None
        self._network = self._NewNetwork(values)
        own = self._OwnParams(old, values)
        filled = params.SimpleFillNIC(snapshot.cluster, own)
        CheckNoProblems(nic_params.SyntaxProblems(filled))
        ip = self._NewIp(old, values)
        routed = filled[nic_params.NIC_MODE] == constants.NIC_MODE_ROUTED
        if routed and ip is None and self._network is None:
            raise errors.OpPrereqError("Cannot set the NIC IP address to None on a routed NIC", errors.ECODE_INVAL)
        ip = self._TakeIp(old, ip)
        changes: dict[str, Any] = {
            "ip": ip,
            "network": self._network.uuid if self._network is not None else None,
            "nicparams": own,
            "mac": self._NewMac(old, values),
        }
        if "name" in values:
            changes["name"] = DeviceName(values["name"])
        self.new = old.Replace(**changes)

    def _NewNetwork(self, values: Mapping[str, Any]) -> objects.Network | None:
        if "network" not in values:
            return self._old_network
        wanted = values["network"]
        if wanted is None or wanted.lower() == nicgen.NONE:
            return None
        return ExpandNetwork(self._lu.snapshot, wanted)

    def _OwnParams(self, old: objects.NIC, values: Mapping[str, Any]) -> dict[str, Any]:
        given = nicgen.OwnParams({k: v for k, v in values.items() if v != nicgen.AUTO})
        if self._network is None:
            base = {} if self._old_network is not None else dict(old.nicparams)
            return GetUpdatedParams(base, given)
        if given:
            raise errors.OpPrereqError(
                f"Mode and link of a NIC in network {self._network.name} come from the network and cannot be given",
                errors.ECODE_INVAL,
            )
        if self._network == self._old_network:
            return dict(old.nicparams)
        return nicgen.ConnectedParams(self._lu, self._network, self._pnode)

    def _NewIp(self, old: objects.NIC, values: Mapping[str, Any]) -> str | None:
        if "ip" not in values:
            return old.ip
        wanted: str | None = values["ip"]
        if wanted is None or wanted.lower() == nicgen.NONE:
            return None
        if wanted.lower() == nicgen.POOL:
            if self._network is None:
                raise errors.OpPrereqError("An address of a pool needs a network", errors.ECODE_INVAL)
            return nicgen.POOL
        return nicgen.CheckAddress(wanted)

    def _TakeIp(self, old: objects.NIC, ip: str | None) -> str | None:
        """Give the old address back and take the new one, when either address or network has changed."""
        if ip == old.ip and self._network == self._old_network:
            return ip
        if old.ip and self._old_network is not None:
            self._lu.cfg.ReleaseIp(self._old_network.uuid, old.ip, self._lu.ec_id)
        return nicgen.TakeAddress(self._lu, ip, self._network, self._pnode, self._lu.op.conflicts_check)

    def _NewMac(self, old: objects.NIC, values: Mapping[str, Any]) -> str:
        wanted = values.get("mac")
        network_uuid = self._network.uuid if self._network is not None else None
        if wanted is not None:
            if wanted.lower() == nicgen.AUTO:
                raise errors.OpPrereqError("'auto' is not a valid MAC address when modifying a NIC", errors.ECODE_INVAL)
            if wanted.lower() == nicgen.GENERATE:
                return self._lu.cfg.GenerateMAC(network_uuid, self._lu.ec_id)
            if wanted.lower() != old.mac:
                try:
                    return self._lu.cfg.ReserveMAC(wanted, self._lu.ec_id)
                except errors.ReservationError as err:
                    raise errors.OpPrereqError(str(err), errors.ECODE_NOTUNIQUE) from err
            return old.mac
        prefix = self._network.mac_prefix if self._network is not None else None
        if self._network != self._old_network and prefix and not old.mac.startswith(f"{prefix}:"):
            return self._lu.cfg.GenerateMAC(network_uuid, self._lu.ec_id)
        return old.mac
