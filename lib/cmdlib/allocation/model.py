"""The model of the cluster that the allocator in the master's process works on, made without a message in between.

It is what ``htools.sources.request`` reads from ``clusterdata.Message``; what depends on the configuration alone is kept from one
request to the next, for each object that is still the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, params
from ganeti.cmdlib.allocation.clusterdata import ClusterData, Placed, Recorded, SpaceOf
from ganeti.cmdlib.allocation.requests import SharesMemory
from ganeti.htools.model.entities import NO_NODE, Disk, Group, Instance, NodeFacts, Status
from ganeti.htools.sources import fields
from ganeti.htools.sources.loading import Raw
from ganeti.htools.sources.request import TemplateOf
from ganeti.params import be, nd

if TYPE_CHECKING:
    from ganeti import objects

_STATES = {
    constants.ADMINST_UP: Status.RUNNING,
    constants.ADMINST_DOWN: Status.ADMIN_DOWN,
    constants.ADMINST_OFFLINE: Status.ADMIN_OFFLINE,
}


class Memory:
    """What was made of the instances of the last snapshot.

    ``order``: the nodes, whose places in it are their indices; ``instances``: uuid -> (what it depends on, the instance in
    the model).  Both are exchanged together, so that threads may ask at the same time.
    """

    def __init__(self) -> None:
        self.last: tuple[tuple[str, ...], Mapping[str, tuple[tuple[Any, ...], Instance]]] = ((), {})


def MakeRaw(data: ClusterData, memory: Memory) -> Raw:
    """Return the cluster as a source of the htools would deliver it."""
    snapshot = data.snapshot
    groups = [
        Group(
            index,
            group.name,
            group.uuid,
            fields.AllocPolicyWord(group.alloc_policy),
            tuple(group.networks),
            tuple(group.tags),
            fields.ReadPolicy(fields.Fields(params.FillIPolicy(snapshot, group), f"node group {group.name}")),
        )
        for index, group in enumerate(snapshot.nodegroups.values())
    ]
    by_uuid = {group.uuid: group.index for group in groups}
    nodes = [_Node(data, node, index, by_uuid[node.group]) for index, node in enumerate(snapshot.nodes.values())]
    return Raw(groups, nodes, list(_Instances(snapshot, memory)), tuple(snapshot.cluster.tags))


def _Node(data: ClusterData, node: objects.Node, index: int, group: int) -> NodeFacts:
    filled = params.FillND(data.snapshot, node)
    exclusive = bool(filled[nd.ND_EXCLUSIVE_STORAGE])
    numbers = data.numbers.get(node.uuid)
    hypervisor = next(iter(data.snapshot.cluster.enabled_hypervisors), None)
    spindles = 0 if exclusive else filled[nd.ND_SPINDLE_COUNT]
    facts: dict[str, Any] = {"total_spindles": spindles}
    if numbers is not None:
        facts = {
            "total_memory": float(numbers.total_memory),
            "node_memory": numbers.reserved_memory,
            "free_memory": numbers.free_memory,
            "total_disk": float(numbers.total_disk),
            "free_disk": numbers.free_disk,
            "total_cpus": float(numbers.total_cpus),
            "node_cpus": numbers.reserved_cpus,
            "free_spindles": numbers.free_spindles,
            "total_spindles": numbers.total_spindles if exclusive else spindles,
        }
        recorded = Recorded(data.snapshot, node)
        if recorded:
            facts["record"] = fields.ReadRecord(fields.Fields(recorded, f"node {node.name}"), hypervisor, None)
    return NodeFacts(
        index,
        node.name,
        group,
        exclusive_storage=exclusive,
        offline=data.Offline(node) or node.drained or not node.vm_capable,
        drained=node.drained and node.vm_capable and not data.Offline(node),
        tags=tuple(node.tags),
        hypervisor=hypervisor,
        **facts,
    )


def _Instances(snapshot: objects.Snapshot, memory: Memory) -> Iterator[Instance]:
    """Yield the instances in order; what did not change since the last request is not made again."""
    order = tuple(snapshot.nodes)
    nodes = {uuid: index for index, uuid in enumerate(order)}
    defaults, shares = snapshot.cluster.beparams, SharesMemory(snapshot)
    known_order, known = memory.last
    before = known if known_order == order else {}
    after = {}
    for index, inst in enumerate(Placed(snapshot)):
        disks = snapshot.InstanceDisks(inst)
        basis = (index, inst, defaults, shares, *disks)
        entry = before.get(inst.uuid)
        if entry is None or entry[0] != basis:
            places = tuple(nodes[uuid] for uuid in snapshot.AllNodes(inst))
            entry = (basis, _Instance(snapshot, inst, index, places, disks, shares))
        after[inst.uuid] = entry
        yield entry[1]
    memory.last = (order, after)


def _Instance(
    snapshot: objects.Snapshot,
    inst: objects.Instance,
    index: int,
    places: tuple[int, ...],
    disks: tuple[objects.Disk, ...],
    shares: bool,
) -> Instance:
    """Return one instance; ``shares``: some group gives memory that guests can give back."""
    filled = params.FillBE(snapshot, inst)
    return Instance(
        index,
        inst.name,
        memory=filled[be.BE_MAXMEM],
        least_memory=filled[be.BE_MINMEM] if shares else None,
        disk=SpaceOf(disks),
        vcpus=filled[be.BE_VCPUS],
        status=_STATES[inst.admin_state],
        template=TemplateOf(snapshot.DiskTemplate(inst), len(places)),
        primary=places[0],
        secondary=places[1] if len(places) > 1 else NO_NODE,
        disks=tuple(Disk(disk.size, disk.spindles) for disk in disks),
        spindle_use=filled[be.BE_SPINDLE_USE],
        tags=tuple(inst.tags),
        forthcoming=bool(inst.forthcoming),
        networks=tuple(interface.network for interface in inst.nics if interface.network is not None),
    )
