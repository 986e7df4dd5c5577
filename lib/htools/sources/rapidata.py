"""Clusters as RAPI describes them (doc/reference/htools.md 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ganeti.htools.model.entities import NO_NODE, Disk, Group, Instance, NodeFacts, Status
from ganeti.htools.sources import fields
from ganeti.htools.sources.fields import Fields
from ganeti.htools.sources.loading import LoadError, Raw

NO_GROUP = "00000000-0000-0000-0000-000000000000"
_STATUS = fields.Word("InstanceStatus", {status.value: status for status in Status})


@dataclass(frozen=True)
class Answers:
    """The JSON of ``/2/groups?bulk=1``, ``/2/nodes?bulk=1``, ``/2/instances?bulk=1`` and ``/2/info``."""

    groups: Any
    nodes: Any
    instances: Any
    info: Any


def Parse(answers: Answers, used: Mapping[str, Any] | None = None) -> Raw:
    """Return the cluster; raises LoadError.

    ``used``: the memory that guests use now, by their names, where the answers do not say it.
    """
    info = Fields(answers.info, "Parsing cluster info")
    master = info.Get("master", fields.Text)
    hypervisor = info.Get("default_hypervisor", fields.Text, None)
    groups = [_ReadGroup(i, item) for i, item in enumerate(_Items(answers.groups, "group"))]
    by_uuid = {group.uuid: group.index for group in groups}
    volumes = info.Get("volume_group_name", fields.Text, "")
    nodes = [
        _ReadNode(i, item, by_uuid, master, hypervisor, volumes) for i, item in enumerate(_Items(answers.nodes, "node"))
    ]
    by_name = {node.name: node.index for node in nodes}
    shared = any(group.policy.memory_ratio is not None for group in groups)
    # Release 3.1 stores reservations of which hardly anything is known.
    whole = [item for item in _Items(answers.instances, "instance") if not _IsBare(item)]
    instances = [_ReadInstance(i, item, by_name, shared) for i, item in enumerate(whole)]
    if shared:
        if used is None:
            used = {item["name"]: item.get("oper_ram") for item in whole}
        nodes = _WithoutClaims(nodes, groups, instances, used)
    policy = fields.ReadPolicy(info.Inner("ipolicy"))
    return Raw(groups, nodes, instances, info.Get("tags", fields.List(fields.Text)), policy)


def _WithoutClaims(
    nodes: Sequence[NodeFacts], groups: Sequence[Group], instances: Sequence[Instance], used: Mapping[str, Any]
) -> list[NodeFacts]:
    """Return the nodes where what guests may still claim is not free, as allocators are told, if they share memory.

    In other groups free memory is what nodes report, as in 3.1.
    """
    sharing = {group.index for group in groups if group.policy.memory_ratio is not None}
    claims: Counter[int] = Counter()
    for inst in instances:
        if inst.uses_memory:
            now = used.get(inst.name)
            claims[inst.primary] += max(0, inst.memory - (now if isinstance(now, int) else 0))
    return [
        replace(node, free_memory=node.free_memory - claims[node.index]) if node.group in sharing else node
        for node in nodes
    ]


def _Items(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise LoadError(f"Parsing {what} data: Unable to read List")
    return value


def _IsBare(value: Any) -> bool:
    """Return whether this is a reservation without a name, a place, or the sizes of its disks."""
    if not isinstance(value, dict) or value.get("forthcoming") is not True:
        return False
    sizes = value.get("disk.sizes")
    return not value.get("name") or not value.get("pnode") or not isinstance(sizes, list) or None in sizes


def _Named(value: Any, what: str) -> tuple[str, Fields]:
    name = Fields(value, f"Parsing new {what}").Get("name", fields.Text)
    return name, Fields(value, f"Parsing {what} '{name}'")


def _ReadGroup(index: int, value: Any) -> Group:
    name, group = _Named(value, "group")
    return Group(
        index,
        name,
        group.Get("uuid", fields.Text),
        group.Get("alloc_policy", fields.AllocPolicyWord),
        tags=group.Get("tags", fields.List(fields.Text)),
        policy=fields.ReadPolicy(group.Inner("ipolicy")),
    )


def _ReadNode(
    index: int, value: Any, groups: Mapping[str, int], master: str, hypervisor: str | None, volume_group: str
) -> NodeFacts:
    name, node = _Named(value, "node")
    uuid = node.Get("group.uuid", fields.Text, NO_GROUP)
    if uuid not in groups:
        raise LoadError(f"Unknown group '{uuid}' for node {name}")
    live, flags = ReadFlags(node)
    exclusive, spindles = ReadStorage(node.Inner("ndparams"))
    facts: dict[str, Any] = {}
    if live:
        facts = {
            "total_memory": node.Get("mtotal", fields.Real),
            "node_memory": node.Get("mnode", fields.Int),
            "free_memory": node.Get("mfree", fields.Int),
            "total_disk": node.Get("dtotal", fields.Real, 0.0),
            "free_disk": node.Get("dfree", fields.Int, 0),
            "total_cpus": node.Get("ctotal", fields.Real),
            "node_cpus": node.Get("cnos", fields.Int),
            "free_spindles": node.Get("spfree", fields.Int, 0),
            "record": fields.ReadRecord(node, hypervisor, volume_group),
        }
        if exclusive:
            spindles = node.Get("sptotal", fields.Int)
    return NodeFacts(
        index,
        name,
        groups[uuid],
        exclusive_storage=exclusive,
        total_spindles=spindles,
        master=name == master,
        tags=node.Get("tags", fields.List(fields.Text)),
        hypervisor=hypervisor,
        speed=node.Get("cpu_speed", fields.Real, 1.0),
        **flags,
        **facts,
    )


def ReadFlags(node: Fields) -> tuple[bool, dict[str, Any]]:
    """Return whether a node reports what it has, and what ``NodeFacts`` says of its flags."""
    offline = node.Get("offline", fields.Bool)
    drained = node.Get("drained", fields.Bool)
    capable = node.Get("vm_capable", fields.Bool, True)
    live = not offline and capable
    return live, {"offline": drained or not live, "drained": drained and live}


def ReadStorage(ndparams: Fields) -> tuple[bool, int]:
    """Return whether storage is exclusive, and the spindle count where it is not."""
    exclusive = ndparams.Get("exclusive_storage", fields.Bool)
    return exclusive, 0 if exclusive else ndparams.Get("spindle_count", fields.Int)


def _ReadInstance(index: int, value: Any, nodes: Mapping[str, int], shared: bool) -> Instance:
    """Return an instance; ``shared``: minimum and maximum of its memory count, not what it uses at the moment."""
    name, inst = _Named(value, "instance")
    beparams = inst.Inner("beparams")
    memory = inst.values.get("oper_ram")
    if shared or not isinstance(memory, int) or isinstance(memory, bool):
        memory = beparams.Get("memory" if beparams.values.get("memory") is not None else "maxmem", fields.Int)
    secondaries = inst.Get("snodes", fields.List(fields.Text))
    sizes = inst.Get("disk.sizes", fields.List(fields.Int))
    spindles = inst.Get("disk.spindles", fields.List(fields.Maybe(fields.Int)))
    return Instance(
        index,
        name,
        memory=memory,
        disk=inst.Get("disk_usage", fields.Int),
        vcpus=beparams.Get("vcpus", fields.Int),
        status=inst.Get("status", _STATUS),
        template=inst.Get("disk_template", fields.Template),
        primary=FindNode(inst.Get("pnode", fields.Text), name, nodes),
        secondary=FindNode(secondaries[0], name, nodes) if secondaries else NO_NODE,
        disks=tuple(Disk(size, count) for size, count in zip(sizes, spindles, strict=False)),
        auto_balance=beparams.Get("auto_balance", fields.Bool),
        spindle_use=beparams.Get("spindle_use", fields.Int),
        tags=inst.Get("tags", fields.List(fields.Text)),
        forthcoming=inst.Get("forthcoming", fields.Bool, False),
        least_memory=beparams.Get("minmem", fields.Int, None),
    )


def FindNode(node: str, instance: str, nodes: Mapping[str, int]) -> int:
    """Return the index of a node that an instance names; raises LoadError."""
    if node not in nodes:
        raise LoadError(f"Unknown node '{node}' for instance {instance}")
    return nodes[node]
