"""What an allocator is asked: the cluster and the request in one JSON object (doc/reference/htools.md 3.4, 14)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ganeti import constants
from ganeti.htools.choosing.evacuate import Mode
from ganeti.htools.model.entities import DRBD, NO_NODE, PLAIN, TEMPLATES, Disk, Group, Instance, NodeFacts, Status
from ganeti.htools.sources import fields
from ganeti.htools.sources.fields import Fields
from ganeti.htools.sources.loading import LoadError, Raw
from ganeti.htools.sources.rapidata import FindNode, ReadFlags, ReadStorage

_MESSAGE = "invalid iallocator message"
_REQUEST = "invalid request dict"
_Template = fields.Word("DiskTemplate", {name: name for name in (*TEMPLATES, constants.DT_MIXED)})
CAPACITY_LIMIT = 1000
_ADMIN_STATES = {"up": Status.RUNNING, "down": Status.ADMIN_DOWN, "offline": Status.ADMIN_OFFLINE}


class Type(enum.Enum):
    ALLOCATE = "allocate"
    ALLOCATE_SECONDARY = "allocate-secondary"
    RELOCATE = "relocate"
    NODE_EVACUATE = "node-evacuate"
    CHANGE_GROUP = "change-group"
    MULTI_ALLOCATE = "multi-allocate"
    # Ours (doc/compatibility.rst).
    BALANCE = "balance"
    CAPACITY = "capacity"


@dataclass(frozen=True)
class New:
    """An instance to be allocated, on so many nodes, among those of ``restrict``; ``ignore_policy``: whatever policies say.

    ``group``: word that names the only group to use.
    """

    instance: Instance
    required: int
    restrict: tuple[str, ...] | None = None
    ignore_policy: bool = False
    group: str | None = None


@dataclass(frozen=True)
class Request:
    """One request; which fields count depends on the type.

    ``instances``: names of existing instances.  ``group``: word that names a group.  ``limit``: the most moves of a
    balance, the most instances that are counted for a capacity.
    """

    type: Type
    new: tuple[New, ...] = ()
    group: str | None = None
    instances: tuple[str, ...] = ()
    required: int = 1
    relocate_from: tuple[str, ...] = ()
    mode: Mode = Mode.ALL
    target_groups: tuple[str, ...] = ()
    limit: int = 0


@dataclass(frozen=True)
class Message:
    """All that an allocator is told."""

    raw: Raw
    request: Request


class BadMessage(Exception):
    """The message cannot be read."""


def Parse(text: str) -> Message:
    """Return the content of a message; raises BadMessage, and LoadError for what is wrong inside it."""
    try:
        value = fields.ParseJson(text, "Parsing input IAllocator message")
    except LoadError as err:
        raise BadMessage(str(err)) from None
    if not isinstance(value, (dict, list)):
        raise BadMessage("Parsing input IAllocator message: Invalid JSON: neither an object nor an array")
    if isinstance(value, list):
        raise BadMessage("Parsing input IAllocator message: Unable to read JSObject")
    try:
        return _ReadMessage(Fields(value, _MESSAGE))
    except LoadError as err:
        raise BadMessage(str(err)) from None


def _ReadMessage(message: Fields) -> Message:
    request = Fields(message.Get("request", fields.Object), _REQUEST)
    groups = [
        _ReadGroup(i, uuid, value) for i, (uuid, value) in enumerate(message.Get("nodegroups", fields.Object).items())
    ]
    node_values = message.Get("nodes", fields.Object)
    instance_values = message.Get("instances", fields.Object)
    tags = message.Get("cluster_tags", fields.List(fields.Text))
    hypervisors = message.Get("enabled_hypervisors", fields.List(fields.Text))
    by_uuid = {group.uuid: group.index for group in groups}
    hypervisor = hypervisors[0] if hypervisors else None
    nodes = [_ReadNode(i, name, value, by_uuid, hypervisor) for i, (name, value) in enumerate(node_values.items())]
    by_name = {node.name: node.index for node in nodes}
    instances = [_ReadExisting(i, name, value, by_name) for i, (name, value) in enumerate(instance_values.items())]
    raw = Raw(groups, nodes, instances, tags)
    return Message(raw, _ReadRequest(request, {inst.name for inst in instances}))


def _ReadGroup(index: int, uuid: str, value: Any) -> Group:
    group = Fields(value, f"invalid data for group '{uuid}'")
    return Group(
        index,
        group.Get("name", fields.Text),
        uuid,
        group.Get("alloc_policy", fields.AllocPolicyWord),
        group.Get("networks", fields.List(fields.Text)),
        group.Get("tags", fields.List(fields.Text)),
        fields.ReadPolicy(group.Inner("ipolicy")),
    )


def _ReadNode(index: int, name: str, value: Any, groups: Mapping[str, int], hypervisor: str | None) -> NodeFacts:
    node = Fields(value, f"invalid data for node '{name}'")
    live, flags = ReadFlags(node)
    uuid = node.Get("group", fields.Text)
    exclusive, spindles = ReadStorage(node.Inner("ndparams"))
    if uuid not in groups:
        raise LoadError(f"Unknown group '{uuid}' for node {name}")
    facts: dict[str, Any] = {}
    if live:
        facts = {
            "total_memory": node.Get("total_memory", fields.Real),
            "node_memory": node.Get("reserved_memory", fields.Int),
            "free_memory": node.Get("free_memory", fields.Int),
            "total_disk": node.Get("total_disk", fields.Real),
            "free_disk": node.Get("free_disk", fields.Int),
            "total_cpus": node.Get("total_cpus", fields.Real),
            "node_cpus": node.Get("reserved_cpus", fields.Int),
            "free_spindles": node.Get("free_spindles", fields.Int),
            "record": fields.ReadRecord(node, hypervisor, None),
        }
        if exclusive:
            spindles = node.Get("total_spindles", fields.Int)
    return NodeFacts(
        index,
        name,
        groups[uuid],
        exclusive_storage=exclusive,
        total_spindles=spindles,
        tags=node.Get("tags", fields.List(fields.Text), ()),
        hypervisor=hypervisor,
        **flags,
        **facts,
    )


def TemplateOf(word: str, nodes: int) -> str:
    """Return the template that an instance counts as; one with disks of several kinds as local, mirrored if on two nodes."""
    if word != constants.DT_MIXED:
        return word
    return PLAIN if nodes == 1 else DRBD


def _ReadInstance(index: int, name: str, inst: Fields, primary: int, secondary: int) -> Instance:
    """Return what requests say of existing and of new instances alike."""
    disks = [Fields(value, inst.context) for value in inst.Get("disks", fields.List(fields.Object))]
    nics = [Fields(value, inst.context) for value in inst.Get("nics", fields.List(fields.Object))]
    networks = [nic.Get("network", fields.Text, None) for nic in nics]
    state = inst.values.get("admin_state")
    return Instance(
        index,
        name,
        memory=inst.Get("memory", fields.Int),
        disk=inst.Get("disk_space_total", fields.Int),
        vcpus=inst.Get("vcpus", fields.Int),
        status=_ADMIN_STATES.get(state, Status.RUNNING) if isinstance(state, str) else Status.RUNNING,
        template=TemplateOf(inst.Get("disk_template", _Template), 1 if secondary == NO_NODE else 2),
        primary=primary,
        secondary=secondary,
        disks=tuple(
            Disk(disk.Get("size", fields.Int), disk.Get("spindles", fields.Maybe(fields.Int), None)) for disk in disks
        ),
        spindle_use=inst.Get("spindle_use", fields.Int),
        tags=inst.Get("tags", fields.List(fields.Text)),
        forthcoming=inst.Get("forthcoming", fields.Bool, False),
        networks=tuple(network for network in networks if network is not None),
        least_memory=inst.Get("minimum_memory", fields.Int, None),
    )


def _ReadExisting(index: int, name: str, value: Any, nodes: Mapping[str, int]) -> Instance:
    inst = Fields(value, f"invalid data for instance '{name}'")
    on = inst.Get("nodes", fields.List(fields.Text))
    if not on:
        raise LoadError(f"empty node list for instance {name}")
    primary, *others = (FindNode(node, name, nodes) for node in on)
    return _ReadInstance(index, name, inst, primary, others[0] if others else NO_NODE)


def ReadRequest(values: Mapping[str, Any], known: set[str]) -> Request:
    """Return a request as it stands in a message; ``known``: names of the existing instances.  Raises LoadError."""
    return _ReadRequest(Fields(values, _REQUEST), known)


# --- requests -------------------------------------------------------------------------------------------------------------


def _ReadRequest(request: Fields, known: set[str]) -> Request:
    word = request.Get("type", fields.Text)
    try:
        kind = Type(word)
    except ValueError:
        raise LoadError(f"Invalid request type '{word}'") from None
    return _READERS[kind](kind, request, known)


def _ReadNew(request: Fields) -> New:
    restrict = request.Get("restrict-to-nodes", fields.List(fields.Text), None)
    instance = _ReadInstance(NO_NODE, request.Get("name", fields.Text), request, NO_NODE, NO_NODE)
    return New(
        instance,
        request.Get("required_nodes", fields.Int),
        restrict,
        request.Get("ignore_ipolicy", fields.Bool, False),
        request.Get("group_name", fields.Text, None),
    )


def _Allocate(kind: Type, request: Fields, _known: set[str]) -> Request:
    return Request(kind, (_ReadNew(request),), request.Get("group_name", fields.Text, None))


def _MultiAllocate(kind: Type, request: Fields, _known: set[str]) -> Request:
    values = request.Get("instances", fields.List(fields.Object))
    return Request(
        kind,
        tuple(_ReadNew(Fields(value, _REQUEST)) for value in values),
        request.Get("group_name", fields.Text, None),
    )


def _Known(name: str, known: set[str]) -> str:
    if name not in known:
        raise LoadError(f"Unknown instance '{name}'")
    return name


def _AllocateSecondary(kind: Type, request: Fields, known: set[str]) -> Request:
    return Request(kind, instances=(_Known(request.Get("name", fields.Text), known),))


def _Relocate(kind: Type, request: Fields, known: set[str]) -> Request:
    return Request(
        kind,
        instances=(_Known(request.Get("name", fields.Text), known),),
        required=request.Get("required_nodes", fields.Int),
        relocate_from=request.Get("relocate_from", fields.List(fields.Text)),
    )


_EVAC_MODE = fields.Word("EvacMode", {mode.value: mode for mode in Mode})


def _Instances(request: Fields, known: set[str]) -> tuple[str, ...]:
    return tuple(_Known(name, known) for name in request.Get("instances", fields.List(fields.Text)))


def _NodeEvacuate(kind: Type, request: Fields, known: set[str]) -> Request:
    return Request(kind, instances=_Instances(request, known), mode=request.Get("evac_mode", _EVAC_MODE))


def _ChangeGroup(kind: Type, request: Fields, known: set[str]) -> Request:
    return Request(
        kind,
        instances=_Instances(request, known),
        target_groups=request.Get("target_groups", fields.List(fields.Text)),
    )


def _Balance(kind: Type, request: Fields, _known: set[str]) -> Request:
    return Request(kind, limit=request.Get("max_moves", fields.Int))


def _Capacity(kind: Type, request: Fields, known: set[str]) -> Request:
    return replace(_Allocate(kind, request, known), limit=request.Get("limit", fields.Int, CAPACITY_LIMIT))


_READERS = {
    Type.ALLOCATE: _Allocate,
    Type.ALLOCATE_SECONDARY: _AllocateSecondary,
    Type.RELOCATE: _Relocate,
    Type.NODE_EVACUATE: _NodeEvacuate,
    Type.CHANGE_GROUP: _ChangeGroup,
    Type.MULTI_ALLOCATE: _MultiAllocate,
    Type.BALANCE: _Balance,
    Type.CAPACITY: _Capacity,
}
