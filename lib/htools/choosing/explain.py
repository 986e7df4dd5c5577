"""Says why an instance did not go to other nodes: one line for each reason, or the names of failures in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from ganeti.htools.choosing.allocate import Rules, Unconnected
from ganeti.htools.model.entities import NO_NODE, AllocPolicy, Failure, Instance
from ganeti.htools.model.resources import AddPrimary, AddSecondary, CheckPolicy, Node
from ganeti.htools.model.state import Cluster

WORDS: Final[Mapping[Failure, str]] = {
    Failure.MEM: "not enough free memory",
    Failure.DISK: "not enough free disk space, or too many spindles in use already",
    Failure.CPU: "too few virtual CPUs left",
    Failure.N1: "not enough memory left for the failure of another node",
    Failure.TAGS: "an instance with the same exclusion tag",
    Failure.MIG: "migration tags that do not fit",
    Failure.DISK_COUNT: "another number of disks",
    Failure.SPINDLES: "too few spindles left",
    Failure.INTERNAL: "an internal error",
}
_POLICY: Final[Mapping[Failure, str]] = {
    Failure.MEM: "memory",
    Failure.DISK: "disk size or disk template",
    Failure.CPU: "virtual CPUs",
    Failure.DISK_COUNT: "number of disks",
    Failure.SPINDLES: "spindles",
}
_WORSE: Final = "suitable, but with a worse score, or with too little reserve afterwards"
_ELSEWHERE: Final = "suitable, but in another node group than the chosen one"
_ALONE: Final = "suitable alone, but without a partner"
_RESERVE: Final = "suitable, but with too little reserve afterwards"


def Reasons(
    cluster: Cluster, inst: Instance, required: int, rules: Rules, group: int | None, chosen: Collection[int]
) -> list[str]:
    """Return the reasons, the most frequent one first, each with the number of nodes and an example.

    ``group``: the only one asked for; ``chosen``: the nodes that were chosen, none if nothing fits.
    """
    found: dict[str, list[str]] = {}
    for node in cluster.state.nodes.values():
        if node.index not in chosen:
            reason = _Reason(cluster, node, inst, required, rules, group)
            reason = reason or _Suitable(cluster, node, inst, required, rules, chosen)
            found.setdefault(reason, []).append(node.facts.name)
    return [
        f"{len(names)} node{'s' if len(names) > 1 else ''}: {reason} (for example {names[0]})"
        for reason, names in sorted(found.items(), key=lambda item: -len(item[1]))
    ]


def InWords(text: str) -> str:
    """Return what the failures and policies that hail names in a text mean; "" if it names none."""
    named = set(re.findall(r"\w+", text))
    found = [f"{failure.value}: {_Meaning(failure)}" for failure in WORDS if failure.value in named]
    if f"({AllocPolicy.UNALLOCABLE.word})" in text:
        found.append(
            "unallocable: the node group gets no instances; 'gnt-group modify --alloc-policy=preferred GROUP' changes that"
        )
    return "; ".join(found)


def _Meaning(failure: Failure) -> str:
    if failure is Failure.N1:
        return (
            "afterwards some node of the cluster, in whichever group, could not be emptied; see 'gnt-cluster capacity'"
        )
    return WORDS[failure] + (", or not allowed by the policy of its node group" if failure in _POLICY else "")


def _Reason(
    cluster: Cluster, node: Node, inst: Instance, required: int, rules: Rules, wanted: int | None
) -> str | None:
    """Return why a node cannot take the instance in any role; None: it can."""
    facts = node.facts
    group = next(group for group in cluster.groups if group.index == facts.group)
    if wanted not in (None, group.index):
        return "in another node group than asked for"
    if facts.offline:
        return "offline, drained, not for instances, or no answer"
    if rules.restrict is not None and facts.name not in rules.restrict:
        return "not among the nodes that may be used"
    if wanted is None and group.alloc_policy is AllocPolicy.UNALLOCABLE:
        return f"in node group {group.name}, which gets no new instances"
    if Unconnected(group, inst):
        return f"in node group {group.name}, which lacks a network of the instance"
    broken = CheckPolicy(facts.policy, inst, facts.exclusive_storage)
    if broken is not None:
        return f"against the policy of node group {group.name} ({_POLICY.get(broken, broken.value)})"
    failure = AddPrimary(node, inst.On(node.index, NO_NODE, 0), rules.force)
    if not isinstance(failure, Failure):
        return None
    if required > 1 and _Seconds(node, inst):
        return None
    return WORDS[failure]


def _Suitable(
    cluster: Cluster, node: Node, inst: Instance, required: int, rules: Rules, chosen: Collection[int]
) -> str:
    """Return why a node that can take the instance was not chosen."""
    nodes = cluster.state.nodes
    if chosen:
        groups = {nodes[index].facts.group for index in chosen}
        return _WORSE if node.facts.group in groups else _ELSEWHERE
    partners = (
        other
        for other in nodes.values()
        if other.index != node.index
        and other.facts.group == node.facts.group
        and not other.facts.offline
        and (rules.restrict is None or other.facts.name in rules.restrict)
    )
    if required == 1 or any(_Fit(node, one, inst, rules) or _Fit(one, node, inst, rules) for one in partners):
        return _RESERVE
    return _ALONE


def _Fit(primary: Node, secondary: Node, inst: Instance, rules: Rules) -> bool:
    """Return whether two nodes can take the instance, one as its primary and one as its secondary node."""
    placed = inst.On(primary.index, secondary.index, 0)
    first = AddPrimary(primary, placed, rules.force)
    return not isinstance(first, Failure) and not isinstance(AddSecondary(secondary, placed, primary.index), Failure)


def _Seconds(node: Node, inst: Instance) -> bool:
    """Return whether a node could be the secondary of some primary."""
    return not isinstance(AddSecondary(node, inst.On(NO_NODE, node.index, 0), NO_NODE), Failure)
