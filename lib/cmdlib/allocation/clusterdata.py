"""The cluster as allocators see it: the configuration, and what the nodes report now (doc/reference/interfaces.md d.2, d.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ganeti import constants, params
from ganeti.cmdlib.allocation.requests import DiskSpace, SharesMemory
from ganeti.params import be, hv, nic, nodestate
from ganeti.params import disk as disk_params
from ganeti.params import units as unit_types

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import LogicalUnit

_MEMORY_AND_CPUS = {
    "total_memory": "memory_total",
    "reserved_memory": "memory_dom0",
    "free_memory": "memory_free",
    "total_cpus": "cpu_total",
    "reserved_cpus": "cpu_dom0",
}


@dataclass(frozen=True)
class Numbers:
    """What a node has, MiB for memory and disk; named as in the message."""

    total_memory: int
    reserved_memory: int
    free_memory: int
    total_disk: int
    free_disk: int
    total_spindles: int
    free_spindles: int
    total_cpus: int
    reserved_cpus: int
    i_pri_memory: int
    i_pri_up_memory: int


@dataclass(frozen=True)
class ClusterData:
    """The configuration, the numbers of the nodes that count, and why others do not (uuid -> reason)."""

    snapshot: objects.Snapshot
    numbers: Mapping[str, Numbers]
    silent: Mapping[str, str]

    def Offline(self, node: objects.Node) -> bool:
        """Return whether a node must be left out: marked so, or without usable numbers."""
        return node.offline or node.uuid in self.silent


class _Unusable(Exception):
    """A node's answer lacks something; the text says what."""


def Gather(
    lu: LogicalUnit, snapshot: objects.Snapshot, template: str | None = None, hypervisor: str | None = None
) -> ClusterData:
    """Ask the nodes, and say in the job's log which of them do not count.

    ``template``: whose storage is looked at, by default the first enabled one whose space nodes report; ``hypervisor`` likewise.
    """
    cluster = snapshot.cluster
    hypervisor = hypervisor or cluster.enabled_hypervisors[0]
    units = disk_params.StorageUnits(cluster, template)
    asked = [node.uuid for node in snapshot.nodes.values() if not node.offline and node.vm_capable]
    specs = [[hypervisor, dict(cluster.hvparams.get(hypervisor, {}))]]
    answers = lu.rpc.call_node_info(asked, units, specs)
    failed = {uuid: answer.fail_msg for uuid, answer in answers.items() if answer.fail_msg}
    payloads = {uuid: answer.payload for uuid, answer in answers.items() if uuid not in failed}
    data = FromAnswers(snapshot, payloads, failed, _AskForGuests(lu, snapshot, asked))
    for uuid, reason in data.silent.items():
        lu.LogWarning(f"Node {snapshot.NodeName(uuid)} counts as offline for the allocator: {reason}")
    _WarnOfUnknownSpace(lu, snapshot, {uuid: payloads[uuid][1] or () for uuid in data.numbers}, units)
    return data


def FromAnswers(
    snapshot: objects.Snapshot, info: Mapping[str, Any], failed: Mapping[str, str], guests: Mapping[str, Any]
) -> ClusterData:
    """Return what the answers of nodes come to, by their uuids.

    ``info``: to node_info; ``failed``: why that call failed; ``guests``: to all_instances_info.
    """
    running = _RunningMemory(snapshot, guests)
    numbers: dict[str, Numbers] = {}
    silent = dict(failed)
    for uuid, payload in info.items():
        try:
            numbers[uuid] = _Read(snapshot, uuid, payload, running)
        except _Unusable as err:
            silent[uuid] = str(err)
    return ClusterData(snapshot, numbers, silent)


def _WarnOfUnknownSpace(
    lu: LogicalUnit, snapshot: objects.Snapshot, storage: Mapping[str, Any], units: list[tuple[str, str]]
) -> None:
    for kind, name in units[:1]:
        unknown = [uuid for uuid, entries in storage.items() if _Entry(entries, kind).get("storage_free") is None]
        if unknown:
            lu.LogWarning(
                f"{len(unknown)} node(s), for example {snapshot.NodeName(unknown[0])}, do not report the space of"
                f" {kind} {name}; to the allocator they have none"
            )


def _AskForGuests(lu: LogicalUnit, snapshot: objects.Snapshot, asked: Iterable[str]) -> dict[str, Any]:
    """Return what nodes that should run some say of their guests; a node whose call failed is missing."""
    nodes = [
        uuid
        for uuid in asked
        if any(inst.admin_state == constants.ADMINST_UP for inst in snapshot.PrimaryInstances(uuid))
    ]
    cluster = snapshot.cluster
    answers = lu.rpc.call_all_instances_info(nodes, list(cluster.enabled_hypervisors), hv.OfCluster(cluster))
    return {uuid: answer.payload for uuid, answer in answers.items() if not answer.fail_msg}


def _RunningMemory(snapshot: objects.Snapshot, guests: Mapping[str, Any]) -> dict[str, int]:
    """Return the memory of running guests by instance.

    Of a node that is missing the numbers are, too, or all that its guests may need counts as needed still.
    """
    found: dict[str, int] = {}
    for uuid, payload in guests.items():
        own = {inst.name for inst in snapshot.PrimaryInstances(uuid)}
        found.update((name, int(info.get("memory") or 0)) for name, info in payload.items() if name in own)
    return found


def _Read(snapshot: objects.Snapshot, uuid: str, payload: Any, running: Mapping[str, int]) -> Numbers:
    _, storage, hypervisors = payload
    facts = (hypervisors or [None])[0]
    if facts is None:
        raise _Unusable("it reports no memory and no CPUs")
    values = {name: _Int(facts.get(key), key) for name, key in _MEMORY_AND_CPUS.items()}
    primaries = [
        (inst, params.FillBE(snapshot, inst)[be.BE_MAXMEM])
        for inst in snapshot.PrimaryInstances(uuid)
        if not inst.forthcoming
    ]
    up = [(inst, memory) for inst, memory in primaries if inst.admin_state == constants.ADMINST_UP]
    # What running guests may still claim is not free.
    values["free_memory"] -= sum(max(0, memory - running.get(inst.name, 0)) for inst, memory in up)
    return Numbers(
        **values,
        **_Space(storage),
        i_pri_memory=sum(memory for _, memory in primaries),
        i_pri_up_memory=sum(memory for _, memory in up),
    )


def _Entry(storage: Any, kind: str) -> Mapping[str, Any]:
    return next((entry for entry in storage or () if entry["type"] == kind), {})


def _Space(storage: Any) -> dict[str, int]:
    """Return disk space and spindles; 0 for what a node does not know."""
    values = dict.fromkeys(("total_disk", "free_disk", "total_spindles", "free_spindles"), 0)
    for entry in storage or ():
        what = "spindles" if unit_types.Of(entry["type"]).spindles else "disk"
        for key, part in (("storage_size", "total"), ("storage_free", "free")):
            values[f"{part}_{what}"] = int(entry[key] or 0)
    return values


def _Int(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Unusable(f"it reports no usable value for {what}: {value!r}")
    return int(value)


# --- the message ----------------------------------------------------------------------------------------------------------


def Message(data: ClusterData, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that an allocator is told."""
    snapshot, cluster = data.snapshot, data.snapshot.cluster
    return {
        "version": constants.IALLOCATOR_VERSION,
        "cluster_name": cluster.cluster_name,
        "cluster_tags": list(cluster.tags),
        "enabled_hypervisors": list(cluster.enabled_hypervisors),
        "ipolicy": params.FillIPolicy(snapshot, None),
        "nodegroups": {group.uuid: _Group(snapshot, group) for group in snapshot.nodegroups.values()},
        "nodes": {node.name: _Node(data, node) for node in snapshot.nodes.values()},
        "instances": {inst.name: _Instance(snapshot, inst) for inst in Placed(snapshot)},
        "request": dict(request),
    }


def Placed(snapshot: objects.Snapshot) -> Iterable[objects.Instance]:
    """Return the instances that have a place; a forthcoming one may have none yet, or lack what is needed here."""
    return (inst for inst in snapshot.WholeInstances() if inst.primary_node in snapshot.nodes)


def _Group(snapshot: objects.Snapshot, group: objects.NodeGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "alloc_policy": group.alloc_policy,
        "networks": list(group.networks),
        "ipolicy": params.FillIPolicy(snapshot, group),
        "tags": list(group.tags),
    }


def _Node(data: ClusterData, node: objects.Node) -> dict[str, Any]:
    entry = {
        "tags": list(node.tags),
        "primary_ip": node.primary_ip,
        "secondary_ip": node.secondary_ip,
        "offline": data.Offline(node),
        "drained": node.drained,
        "master_candidate": node.master_candidate,
        "group": node.group,
        "master_capable": node.master_capable,
        "vm_capable": node.vm_capable,
        "ndparams": params.FillND(data.snapshot, node),
    }
    entry.update(Recorded(data.snapshot, node))
    numbers = data.numbers.get(node.uuid)
    return entry if numbers is None else {**entry, **asdict(numbers)}


def Recorded(snapshot: objects.Snapshot, node: objects.Node) -> dict[str, Any]:
    """Return what an administrator recorded of a node, which 3.1 does not send; of disks, the cluster's volume group."""
    group = snapshot.cluster.volume_group_name
    disks = {
        kind: {name: values for name, values in units.items() if name == group}
        for kind, units in nodestate.DiskState(snapshot, node).items()
        if group in units
    }
    entries = {"hv_state": nodestate.HVState(snapshot, node), "disk_state": disks}
    return {key: value for key, value in entries.items() if value}


def _Instance(snapshot: objects.Snapshot, inst: objects.Instance) -> dict[str, Any]:
    filled = params.FillBE(snapshot, inst)
    disks = snapshot.InstanceDisks(inst)
    template = snapshot.DiskTemplate(inst)
    entry = {
        "tags": list(inst.tags),
        "admin_state": inst.admin_state,
        "vcpus": filled[be.BE_VCPUS],
        "memory": filled[be.BE_MAXMEM],
        "spindle_use": filled[be.BE_SPINDLE_USE],
        "os": inst.os,
        "nodes": [snapshot.NodeName(uuid) for uuid in snapshot.AllNodes(inst)],
        "nics": [Nic(snapshot, interface) for interface in inst.nics],
        "disks": [
            {"size": disk.size, "mode": disk.mode, "spindles": disk.spindles, "dev_type": disk.dev_type}
            for disk in disks
        ],
        "disk_template": template,
        "disks_active": inst.disks_active,
        "hypervisor": inst.hypervisor,
        "disk_space_total": SpaceOf(disks),
    }
    if inst.forthcoming:
        entry["forthcoming"] = True
    if SharesMemory(snapshot):
        entry["minimum_memory"] = filled[be.BE_MINMEM]
    return entry


def SpaceOf(disks: Iterable[objects.Disk]) -> int:
    """Return the MiB that an instance takes on each of its nodes."""
    return sum(DiskSpace(disk.dev_type, [disk.size]) for disk in disks)


def Nic(snapshot: objects.Snapshot, interface: objects.NIC) -> dict[str, Any]:
    """Return an interface as messages describe it."""
    filled = params.FillNIC(snapshot, interface)
    mode, link = filled[nic.NIC_MODE], filled[nic.NIC_LINK]
    entry = {"mac": interface.mac, "ip": interface.ip, "mode": mode, "link": link, "network": interface.network}
    return {**entry, "bridge": link} if mode == constants.NIC_MODE_BRIDGED else entry
