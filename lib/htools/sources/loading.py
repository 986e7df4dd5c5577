"""From what a source delivers to the model (doc/reference/htools.md 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ganeti import constants, errors
from ganeti.htools.model import records
from ganeti.htools.model.entities import DEFAULT_POLICY, NO_LOAD, NO_NODE, Group, Instance, Load, NodeFacts, Policy
from ganeti.htools.model.resources import AttachPrimary, AttachSecondary, Node, ShareMemory
from ganeti.htools.model.state import Cluster, State
from ganeti.params import nodestate

STATIC_KVM_NODE_MEMORY = nodestate.STATIC_KVM_MEMORY
_MISSING_MEMORY = 512
_MISSING_DISK = 1024

EXCLUSION = "htools:iextags:"
_DESIRED_LOCATION = "htools:desiredlocation:"
_LOCATION = "htools:nlocation:"
_MIGRATION = "htools:migration:"
_ALLOW_MIGRATION = "htools:allowmigration:"


class LoadError(errors.GenericError):
    """The data of a source cannot be used."""


@dataclass(frozen=True)
class Raw:
    """What a source delivers; a node whose quantities are not KVM's measurements has no ``hypervisor``.

    ``silent``: names of nodes that count as offline because they did not answer.
    """

    groups: Sequence[Group]
    nodes: Sequence[NodeFacts]
    instances: Sequence[Instance]
    tags: Sequence[str] = ()
    policy: Policy = DEFAULT_POLICY
    silent: Sequence[str] = ()


@dataclass(frozen=True)
class Wishes:
    """What the command line says about loading.

    ``loads``: instance name -> utilisation; ``ignore_loads``: all of them are 0.  ``exclusion_tags``: values of the
    option, without colon.  ``selected``, ``excluded``: words that name instances.
    ``static_kvm_memory``: memory of a node under KVM; 0 takes it as reported.
    """

    loads: Mapping[str, Load] = field(default_factory=dict)
    ignore_loads: bool = False
    exclusion_tags: Sequence[str] = ()
    selected: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    static_kvm_memory: int = STATIC_KVM_NODE_MEMORY


def Suffixes(tags: Iterable[str], prefix: str) -> list[str]:
    """Return what follows a prefix in the cluster's tags; empty ones are left out."""
    return [tag[len(prefix) :] for tag in tags if tag.startswith(prefix) and len(tag) > len(prefix)]


def Starting(tags: Iterable[str], prefixes: Iterable[str]) -> list[str]:
    """Return the tags that begin with one of the prefixes."""
    wanted = tuple(prefixes)
    return [tag for tag in tags if wanted and tag.startswith(wanted)]


def FindName(word: str, names: Iterable[str]) -> str | None:
    """Return the name that a word stands for: itself, or one that continues with a dot; None unless there is just one."""
    found = []
    for name in names:
        if name == word:
            return name
        if name.startswith(f"{word}."):
            found.append(name)
    return found[0] if len(found) == 1 else None


def CommonSuffix(names: Sequence[str]) -> str:
    """Return the longest suffix beginning with a dot that all names have."""
    if not names:
        return ""
    first = names[0]
    for start in range(len(first)):
        if first[start] == "." and all(name.endswith(first[start:]) for name in names):
            return first[start:]
    return ""


def NewInstanceTags(inst: Instance, tags: Sequence[str], exclusion_tags: Sequence[str] = ()) -> Instance:
    """Return an instance with the exclusion tags and desired locations that follow from its tags."""
    return inst.With(**_PrefixesOf(tags, exclusion_tags).Of(inst))


_UNTAGGED: dict[str, Any] = {"exclusion_tags": (), "desired_locations": frozenset()}


class _Prefixes(NamedTuple):
    """How tags of instances begin that keep them apart, or draw them to locations."""

    exclusion: tuple[str, ...]
    location: tuple[str, ...]

    def Of(self, inst: Instance) -> dict[str, Any]:
        """Return the values of an instance that follow from its tags."""
        if not inst.tags:
            return _UNTAGGED
        return {
            "exclusion_tags": tuple(Starting(inst.tags, self.exclusion)),
            "desired_locations": frozenset(Starting(inst.tags, self.location)),
        }


def _PrefixesOf(tags: Sequence[str], exclusion_tags: Sequence[str]) -> _Prefixes:
    own = [f"{tag}:" for tag in exclusion_tags]
    return _Prefixes((*own, *Suffixes(tags, EXCLUSION)), tuple(Suffixes(tags, _DESIRED_LOCATION)))


def Build(raw: Raw, wishes: Wishes) -> Cluster:
    """Return the model; raises LoadError."""
    suffix = CommonSuffix([node.name for node in raw.nodes] + [inst.name for inst in raw.instances])
    facts = {node.index: _PrepareNode(node, raw, suffix) for node in raw.nodes}
    group_of = {index: node.group for index, node in facts.items()}
    immovable = _Immovable(raw.instances, wishes)
    prefixes = _PrefixesOf(raw.tags, wishes.exclusion_tags)
    instances = {}
    split = []
    for inst in raw.instances:
        across = inst.secondary != NO_NODE and group_of[inst.primary] != group_of[inst.secondary]
        if across:
            split.append(inst.index)
        fixed = across or inst.index in immovable
        instances[inst.index] = _PrepareInstance(inst, wishes, prefixes, facts, suffix, fixed)
    nodes = {index: Node(node) for index, node in _WithRecords(facts, instances.values(), wishes).items()}
    for inst in instances.values():
        AttachPrimary(nodes[inst.primary], inst)
        if inst.secondary != NO_NODE:
            AttachSecondary(nodes[inst.secondary], inst)
    nodes = {index: _Complete(node, wishes.static_kvm_memory) for index, node in nodes.items()}
    for index, node in nodes.items():
        if node.facts.policy.memory_ratio is not None:
            ShareMemory(node, (inst for inst in instances.values() if inst.primary == index))
    state = State(nodes, instances)
    warnings = tuple(_Inconsistencies(state, {node.index: node.free_memory for node in raw.nodes}))
    return Cluster(raw.groups, state, tuple(raw.tags), raw.policy, suffix, tuple(split), warnings, raw.silent)


def _WithRecords(
    facts: Mapping[int, NodeFacts], instances: Iterable[Instance], wishes: Wishes
) -> Mapping[int, NodeFacts]:
    """Return the nodes with what is recorded of them in force."""
    on: dict[int, list[Instance]] = {index: [] for index, node in facts.items() if node.record is not None}
    if not on:
        return facts
    for inst in instances:
        for index in {inst.primary, inst.secondary} & on.keys():
            on[index].append(inst)
    changed = {index: records.Apply(facts[index], found, wishes.static_kvm_memory) for index, found in on.items()}
    return {**facts, **changed}


def _PrepareNode(node: NodeFacts, raw: Raw, suffix: str) -> NodeFacts:
    policy = next(group.policy for group in raw.groups if group.index == node.group)
    migration = Starting(node.tags, [f"{word}:" for word in Suffixes(raw.tags, _MIGRATION)])
    receivable = set(migration)
    for word in Suffixes(raw.tags, _ALLOW_MIGRATION):
        source, found, target = word.partition("::")
        if found and "::" not in target and target in migration:
            receivable.add(source)
    return replace(
        node,
        alias=node.name.removesuffix(suffix) if suffix else node.name,
        policy=policy,
        vcpu_ratio=policy.vcpu_ratio,
        location_tags=frozenset(Starting(node.tags, [f"{word}:" for word in Suffixes(raw.tags, _LOCATION)])),
        migration_tags=frozenset(migration),
        receivable_tags=frozenset(receivable),
    )


def _PrepareInstance(
    inst: Instance, wishes: Wishes, prefixes: _Prefixes, facts: Mapping[int, NodeFacts], suffix: str, fixed: bool
) -> Instance:
    return inst.With(
        alias=inst.name.removesuffix(suffix) if suffix else inst.name,
        load=NO_LOAD if wishes.ignore_loads else wishes.loads.get(inst.name, inst.load),
        movable=inst.initially_movable and not fixed,
        location_score=SharedLocations(facts.get(inst.primary), facts.get(inst.secondary)),
        **prefixes.Of(inst),
    )


def SharedLocations(primary: NodeFacts | None, secondary: NodeFacts | None) -> int:
    """Return how many location tags two nodes share; 0 where one of them is none."""
    if primary is None or secondary is None:
        return 0
    return len(primary.location_tags & secondary.location_tags)


def _Immovable(instances: Sequence[Instance], wishes: Wishes) -> frozenset[int]:
    """Return the instances that are excluded, or not among those selected; raises LoadError for unknown ones."""
    names = [inst.name for inst in instances]
    unknown = [word for word in (*(wishes.selected or ()), *wishes.excluded) if FindName(word, names) is None]
    if unknown:
        quoted = ",".join(f'"{word}"' for word in unknown)
        raise LoadError(f"Unknown instance(s): [{quoted}]")
    excluded = {FindName(word, names) for word in wishes.excluded}
    selected = None if wishes.selected is None else {FindName(word, names) for word in wishes.selected}
    return frozenset(
        inst.index
        for inst in instances
        if inst.name in excluded or (selected is not None and inst.name not in selected)
    )


def _Complete(node: Node, static_kvm_memory: int) -> Node:
    """Work out what depends on all instances of a node."""
    facts = node.facts
    # The rule of release 3.0, before the memory of instances counts (24.1).
    failing = facts.free_memory < node.reserved
    if facts.hypervisor == constants.HT_KVM and static_kvm_memory > 0:
        facts = replace(facts, node_memory=static_kvm_memory)
        node = node.WithFacts(facts)
    complete = node.WithFacts(replace(facts, missing_memory=node.record_free - facts.free_memory))
    complete.Settle()
    complete.failing = failing
    return complete


def _Inconsistencies(state: State, reported: Mapping[int, int]) -> list[str]:
    """Return a line for each node whose records and reports differ, the last node first; ``reported``: free memory."""
    lines = []
    for node in reversed(state.Ordered()):
        facts = node.facts
        taken = sum(state.instances[i].disk for i in (*node.primaries, *node.secondaries))
        gap = int(facts.total_disk) - facts.free_disk - taken
        missing = node.record_free - reported[node.index]
        if missing > _MISSING_MEMORY or gap > _MISSING_DISK:
            lines.append(f"  - node {facts.name} is missing {missing} MB ram and {gap // 1024} GB disk")
    return lines
