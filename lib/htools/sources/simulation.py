"""Made-up clusters: ``--simulate`` (doc/reference/htools.md 3.5)."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti.htools.model.entities import AllocPolicy, Group, NodeFacts
from ganeti.htools.sources.loading import LoadError, Raw
from ganeti.htools.units import BadSize, ParseSize

_POLICIES = {policy.word: policy for policy in AllocPolicy} | {
    "p": AllocPolicy.PREFERRED,
    "a": AllocPolicy.LAST_RESORT,
    "u": AllocPolicy.UNALLOCABLE,
}


def Parse(specs: Sequence[str]) -> Raw:
    """Return a cluster with one group for each specification, the last one first; raises LoadError."""
    groups: list[Group] = []
    nodes: list[NodeFacts] = []
    for number, spec in enumerate(reversed(specs), 1):
        group, members = _ParseGroup(number, spec, len(nodes) + 1)
        groups.append(group)
        nodes += members
    return Raw(groups, nodes, ())


def _ParseGroup(number: int, spec: str, first: int) -> tuple[Group, list[NodeFacts]]:
    parts = spec.split(",")
    if not 5 <= len(parts) <= 7:
        raise LoadError(f"Invalid cluster specification, expected 5 to 7 comma-separated fields in '{spec}'")
    word, count, disk, memory, cpus = parts[:5]
    if word not in _POLICIES:
        raise LoadError(f'Invalid string value for type AllocPolicy: "{word}"')
    spindles = _Number(parts[5]) if len(parts) > 5 else 1
    exclusive = parts[6] if len(parts) > 6 else "False"
    if exclusive not in ("True", "False"):
        raise LoadError(f"cannot parse string '{exclusive}'")
    total_disk, total_memory, total_cpus = _Size("disk", disk), _Size("memory", memory), _Number(cpus)
    group = Group(number, f"group-{number:02d}", f"fake-uuid-{number:02d}", _POLICIES[word])
    members = [
        NodeFacts(
            index,
            f"node-{number:02d}-{place:03d}",
            number,
            total_memory=float(total_memory),
            free_memory=total_memory,
            total_disk=float(total_disk),
            free_disk=total_disk,
            total_cpus=float(total_cpus),
            node_cpus=1,
            total_spindles=spindles,
            exclusive_storage=exclusive == "True",
            master=index == 1,
        )
        for place, index in enumerate(range(first, first + _Number(count)), 1)
    ]
    return group, members


def _Number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise LoadError(f"cannot parse string '{text}'") from None


def _Size(what: str, text: str) -> int:
    try:
        return ParseSize(text)
    except BadSize as err:
        raise LoadError(f"{what}: {err}") from None
