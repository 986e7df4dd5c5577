"""The text format of clusters (doc/reference/htools.md 3.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ganeti.htools.model.entities import (
    DEFAULT_POLICY,
    NO_NODE,
    TEMPLATES,
    AllocPolicy,
    Disk,
    Group,
    Instance,
    NodeFacts,
    Policy,
    Spec,
    Status,
)
from ganeti.htools.model.state import Cluster
from ganeti.htools.numbers import Shown
from ganeti.htools.sources.loading import LoadError, Raw

_T = TypeVar("_T")

_SECTIONS = 4
_INTEGER = re.compile(r"\s*(-?\d+)", re.ASCII)
_REAL = re.compile(r"\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)", re.ASCII)
_UNKNOWN = "?"


def _Number(name: str, text: str, shape: re.Pattern[str], make: Callable[[str], Any]) -> Any:
    match = shape.match(text)
    if match is None:
        raise LoadError(f"{name}: cannot parse string '{text}'")
    rest = text[match.end() :]
    if rest:
        if rest[0] in ".eE":
            raise LoadError(f"{name}: cannot parse string '{text}'")
        raise LoadError(f"{name}: leftover characters when parsing '{text}': '{rest}'")
    return make(match.group(1))


def _Int(name: str, text: str) -> int:
    return int(_Number(name, text, _INTEGER, int))


def ReadReal(name: str, text: str) -> float:
    """Return a number; raises LoadError, which begins with ``name``."""
    return float(_Number(name, text, _REAL, float))


def _Maybe(name: str, text: str, read: Callable[[str, str], _T]) -> _T | None:
    return read(name, text) if text else None


def _List(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _YesNo(name: str, text: str, what: str) -> bool:
    if text not in ("Y", "N"):
        raise LoadError(f"Invalid {what} value '{text}' for {name}")
    return text == "Y"


def _Columns(line: str, least: int, kind: str) -> list[str]:
    columns = line.split("|")
    if len(columns) < least:
        raise LoadError(f"Invalid/incomplete {kind} data: '{columns}'")
    return columns


def _Column(columns: Sequence[str], place: int, default: str) -> str:
    """Return the column with this number, counted from 1; short lines have the default."""
    return columns[place - 1] if len(columns) >= place else default


def _Word(kind: str, word: str, find: Callable[[str], Any]) -> Any:
    try:
        return find(word)
    except (KeyError, ValueError):
        raise LoadError(f'Invalid string value for type {kind}: "{word}"') from None


def _AllocPolicyOf(word: str) -> AllocPolicy:
    return {policy.word: policy for policy in AllocPolicy}[word]


def TemplateOf(word: str) -> str:
    """Return the disk template of this name; raises ValueError."""
    if word not in TEMPLATES:
        raise ValueError(word)
    return word


# --- reading ------------------------------------------------------------------------------------------------------------


def Parse(text: str) -> Raw:
    """Return the cluster of a file; raises LoadError."""
    sections = _Sections(text)
    if len(sections) < _SECTIONS:
        raise LoadError(f"Invalid format of the input file: {len(sections)} sections instead of {_SECTIONS} or more")
    groups = [_ReadGroup(i, line) for i, line in enumerate(sections[0])]
    nodes = [_ReadNode(i, line, groups) for i, line in enumerate(sections[1])]
    by_name = {node.name: node.index for node in nodes}
    instances = [_ReadInstance(i, line, by_name) for i, line in enumerate(sections[2])]
    policy = DEFAULT_POLICY
    for line in sections[4] if len(sections) > _SECTIONS else ():
        owner, found = _ReadPolicy(line)
        if not owner:
            policy = found
            continue
        group = next((group for group in groups if owner in (group.name, group.uuid)), None)
        if group is None:
            raise LoadError(f"Invalid group name or UUID '{owner}'")
        groups[group.index] = replace(group, policy=found)
    return Raw(groups, nodes, instances, tuple(sections[3]), policy)


def _Sections(text: str) -> list[list[str]]:
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    sections: list[list[str]] = [[]]
    for line in lines:
        if line:
            sections[-1].append(line)
        else:
            sections.append([])
    return sections


def _ReadGroup(index: int, line: str) -> Group:
    columns = _Columns(line, 4, "group")
    name, uuid, policy, tags = columns[:4]
    return Group(
        index,
        name,
        uuid,
        _Word("AllocPolicy", policy, _AllocPolicyOf),
        _List(_Column(columns, 5, "")),
        _List(tags),
    )


def _ReadNode(index: int, line: str, groups: Sequence[Group]) -> NodeFacts:
    columns = _Columns(line, 9, "node")
    name, uuid = columns[0], columns[8]
    group = next((group.index for group in groups if group.uuid == uuid), None)
    if group is None:
        raise LoadError(f"Unknown group '{uuid}' for node {name}")
    if _UNKNOWN in columns[1:7]:
        return NodeFacts(index, name, group, offline=True)
    return NodeFacts(
        index,
        name,
        group,
        total_memory=ReadReal(name, columns[1]),
        node_memory=_Int(name, columns[2]),
        free_memory=_Int(name, columns[3]),
        total_disk=ReadReal(name, columns[4]),
        free_disk=_Int(name, columns[5]),
        total_cpus=ReadReal(name, columns[6]),
        offline=columns[7] == "Y",
        master=columns[7] == "M",
        total_spindles=_Int(name, _Column(columns, 10, "1")),
        tags=_List(_Column(columns, 11, "")),
        exclusive_storage=_YesNo(name, _Column(columns, 12, "N"), "exclusive storage"),
        free_spindles=_Int(name, _Column(columns, 13, "0")),
        node_cpus=_Int(name, _Column(columns, 14, "1")),
        speed=ReadReal(name, _Column(columns, 15, "1.0")),
    )


def _ReadInstance(index: int, line: str, nodes: Mapping[str, int]) -> Instance:
    columns = _Columns(line, 10, "instance")
    name, primary, secondary = columns[0], columns[6], columns[7]
    for node in (primary, secondary):
        if node not in nodes and (node or node == primary):
            raise LoadError(f"Unknown node '{node}' for instance {name}")
    template = _Word("DiskTemplate", columns[8], TemplateOf)
    if primary == secondary:
        raise LoadError(f"Instance {name} has same primary and secondary node - {primary}")
    spindles = _Column(columns, 12, "-")
    size = _Int(name, columns[2])
    return Instance(
        index,
        name,
        memory=_Int(name, columns[1]),
        disk=size,
        vcpus=_Int(name, columns[3]),
        status=_Word("InstanceStatus", columns[4], Status),
        template=template,
        primary=nodes[primary],
        secondary=nodes[secondary] if secondary else NO_NODE,
        disks=(Disk(size, None if spindles == "-" else _Int(name, spindles)),),
        auto_balance=_YesNo(name, columns[5], "auto_balance"),
        tags=_List(columns[9]),
        spindle_use=_Int(name, _Column(columns, 11, "1")),
        forthcoming=_YesNo(name, _Column(columns, 13, "N"), "forthcoming"),
        least_memory=_Maybe(name, _Column(columns, 14, ""), _Int),
    )


def _ReadSpec(owner: str, text: str) -> Spec:
    columns = text.split(",")
    if len(columns) != len(Spec.__dataclass_fields__):
        raise LoadError(f"Invalid instance specification data: '{text}' for group {owner}")
    return Spec(*(_Int(owner, column) for column in columns))


def _ReadPolicy(line: str) -> tuple[str, Policy]:
    columns = _Columns(line, 6, "policy")
    owner = columns[0]
    bounds = [_ReadSpec(owner, text) for text in columns[2].split(";")] if columns[2] else []
    if len(bounds) % 2:
        raise LoadError(f"Invalid min/max specifications for group {owner}: a maximum is missing")
    return owner, Policy(
        _ReadSpec(owner, columns[1]),
        tuple(zip(bounds[::2], bounds[1::2], strict=True)),
        tuple(_Word("DiskTemplate", word, TemplateOf) for word in _List(columns[3])),
        ReadReal(owner, columns[4]),
        ReadReal(owner, columns[5]),
        _Maybe(owner, _Column(columns, 7, ""), ReadReal),
        _Int(owner, _Column(columns, 8, "1")),
    )


# --- writing ------------------------------------------------------------------------------------------------------------


def Write(cluster: Cluster) -> str:
    """Return a cluster in the text format; free memory as it was reported, free disk as simulated."""
    groups = {group.index: group for group in cluster.groups}
    nodes = cluster.state.nodes
    shared = any(group.policy.memory_ratio is not None for group in cluster.groups)
    sections = [
        [_GroupLine(group) for group in cluster.groups],
        [_NodeLine(node.facts, node.free_disk, node.free_spindles, groups) for node in nodes.values()],
        [_InstanceLine(inst, cluster, shared) for inst in cluster.state.instances.values()],
        list(cluster.tags),
        [_PolicyLine("", cluster.policy), *(_PolicyLine(group.name, group.policy) for group in cluster.groups)],
    ]
    return "\n".join("".join(f"{line}\n" for line in section) for section in sections)


def _GroupLine(group: Group) -> str:
    return "|".join((group.name, group.uuid, group.alloc_policy.word, ",".join(group.tags), ",".join(group.networks)))


def _NodeLine(facts: NodeFacts, free_disk: int, free_spindles: int, groups: Mapping[int, Group]) -> str:
    role = "Y" if facts.offline else "M" if facts.master else "N"
    return "|".join(
        str(value)
        for value in (
            facts.name,
            round(facts.total_memory),
            facts.node_memory,
            facts.free_memory,
            round(facts.total_disk),
            free_disk,
            round(facts.total_cpus),
            role,
            groups[facts.group].uuid,
            facts.total_spindles,
            ",".join(facts.tags),
            "Y" if facts.exclusive_storage else "N",
            free_spindles,
            facts.node_cpus,
            Shown(facts.speed),
        )
    )


def _InstanceLine(inst: Instance, cluster: Cluster, shared: bool) -> str:
    nodes = cluster.state.nodes
    spindles = inst.spindles
    return "|".join(
        str(value)
        for value in (
            inst.name,
            inst.memory,
            inst.disk,
            inst.vcpus,
            inst.status.value,
            "Y" if inst.auto_balance else "N",
            nodes[inst.primary].facts.name,
            nodes[inst.secondary].facts.name if inst.secondary != NO_NODE else "",
            inst.template,
            ",".join(inst.tags),
            inst.spindle_use,
            "-" if spindles is None else spindles,
            "Y" if inst.forthcoming else "N",
            *(() if inst.least_memory in (None, inst.memory) or not shared else (inst.least_memory,)),
        )
    )


def _SpecText(spec: Spec) -> str:
    return ",".join(str(getattr(spec, name)) for name in Spec.__dataclass_fields__)


def _PolicyLine(owner: str, policy: Policy) -> str:
    bounds = ";".join(_SpecText(spec) for pair in policy.minmax for spec in pair)
    return "|".join(
        (
            owner,
            _SpecText(policy.standard),
            bounds,
            ",".join(policy.templates),
            Shown(policy.vcpu_ratio),
            Shown(policy.spindle_ratio),
            *_OwnColumns(policy),
        )
    )


def _OwnColumns(policy: Policy) -> tuple[str, ...]:
    """Return the columns that 3.1 does not have; none if they say nothing."""
    if policy.memory_ratio is None and policy.max_failures == 1:
        return ()
    ratio = "" if policy.memory_ratio is None else Shown(policy.memory_ratio)
    return (ratio, str(policy.max_failures))
