"""Variables of hooks that describe instances and networks (doc/reference/interfaces.md c.4, c.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, params
from ganeti.params import disk as disk_params
from ganeti.params.nic import NIC_LINK, NIC_MODE, NIC_VLAN

if TYPE_CHECKING:
    from ganeti import objects

_BRIDGE_MODES = (constants.NIC_MODE_BRIDGED, constants.NIC_MODE_OVS)


class InstanceFacts:
    """The facts about an instance for hooks; made from the configuration, or from a request before the instance exists.

    ``disks``: disk objects, or what has their uuid, size, mode, name and an empty logical_id.
    """

    def __init__(self, snapshot: objects.Snapshot, instance: objects.Instance, disks: Sequence[Any]):
        self.snapshot = snapshot
        self.instance = instance
        self.disks = list(disks)
        self.nics: Sequence[objects.NIC] = instance.nics
        self.beparams = params.FillBE(snapshot, instance)
        self.hvparams = params.FillHV(snapshot, instance)
        self.status: Any = instance.admin_state
        self.disk_template = ""
        self.secondaries: Iterable[str] = ()

    @classmethod
    def Existing(cls, snapshot: objects.Snapshot, instance: objects.Instance) -> InstanceFacts:
        facts = cls(snapshot, instance, snapshot.InstanceDisks(instance))
        facts.disk_template = snapshot.DiskTemplate(instance)
        facts.secondaries = snapshot.SecondaryNodes(instance)
        return facts

    def Env(self) -> dict[str, Any]:
        instance = self.instance
        primary = self.snapshot.nodes.get(instance.primary_node)
        env: dict[str, Any] = {
            "OP_TARGET": instance.name,
            "INSTANCE_NAME": instance.name,
            "INSTANCE_PRIMARY": primary.name if primary is not None else instance.primary_node,
            "INSTANCE_SECONDARIES": " ".join(self.snapshot.nodes[uuid].name for uuid in self.secondaries),
            "INSTANCE_OS_TYPE": instance.os,
            "INSTANCE_STATUS": self.status,
            "INSTANCE_MINMEM": self.beparams["minmem"],
            "INSTANCE_MAXMEM": self.beparams["maxmem"],
            "INSTANCE_MEMORY": self.beparams["maxmem"],
            "INSTANCE_VCPUS": self.beparams["vcpus"],
            "INSTANCE_DISK_TEMPLATE": self.disk_template,
            "INSTANCE_HYPERVISOR": instance.hypervisor,
            "INSTANCE_NIC_COUNT": len(self.nics),
            "INSTANCE_DISK_COUNT": len(self.disks),
            "INSTANCE_TAGS": " ".join(instance.tags),
        }
        for index, nic in enumerate(self.nics):
            env.update(_Numbered(f"INSTANCE_NIC{index}_", _NicEnv(self.snapshot, nic)))
        for index, disk in enumerate(self.disks):
            env.update(_Numbered(f"INSTANCE_DISK{index}_", _DiskEnv(self.snapshot, disk)))
        env.update(_Numbered("INSTANCE_BE_", self.beparams))
        env.update(_Numbered("INSTANCE_HV_", self.hvparams))
        return env


def InstanceEnv(snapshot: objects.Snapshot, instance: objects.Instance) -> dict[str, Any]:
    """Return the variables of an instance as it is configured."""
    return InstanceFacts.Existing(snapshot, instance).Env()


def _Numbered(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}{name}": value for name, value in values.items()}


def _NicEnv(snapshot: objects.Snapshot, nic: objects.NIC) -> dict[str, Any]:
    filled = params.FillNIC(snapshot, nic)
    env: dict[str, Any] = {
        "UUID": nic.uuid,
        "IP": nic.ip or "",
        "MAC": nic.mac,
        "MODE": filled[NIC_MODE],
        "LINK": filled[NIC_LINK],
        "VLAN": filled.get(NIC_VLAN, ""),
    }
    if nic.name:
        env["NAME"] = nic.name
    if filled[NIC_MODE] in _BRIDGE_MODES:
        env["BRIDGE"] = filled[NIC_LINK]
    network = snapshot.networks.get(nic.network) if nic.network else None
    if network is not None:
        env.update(NetworkEnv(network))
        env["NETWORK_UUID"] = network.uuid
    return env


def _DiskEnv(snapshot: objects.Snapshot, disk: Any) -> dict[str, Any]:
    env: dict[str, Any] = {"UUID": disk.uuid, "SIZE": disk.size, "MODE": disk.mode}
    if disk.name:
        env["NAME"] = disk.name
    if not disk.logical_id:
        return env
    env["DEV_TYPE"] = disk.dev_type
    env.update(disk_params.Of(disk).HookEnv(disk, snapshot.NodeName))
    return env


def NetworkEnv(network: objects.Network) -> dict[str, Any]:
    """Return the variables of a network that are set."""
    values = {
        "NETWORK_NAME": network.name,
        "NETWORK_SUBNET": network.network,
        "NETWORK_GATEWAY": network.gateway,
        "NETWORK_SUBNET6": network.network6,
        "NETWORK_GATEWAY6": network.gateway6,
        "NETWORK_MAC_PREFIX": network.mac_prefix,
        "NETWORK_TAGS": " ".join(network.tags),
    }
    return {name: value for name, value in values.items() if value}
