"""Instance policy: bounds, ratios, allowed disk templates (doc/reference/parameters.md 6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ganeti import constants
from ganeti.params.types import FLOAT, INT, Between, MakeTable, Param, TypeProblems, ValueProblems

MINMAX = "minmax"
MIN, MAX = "min", "max"
STD = "std"
VCPU_RATIO = "vcpu-ratio"
SPINDLE_RATIO = "spindle-ratio"
DISK_TEMPLATES = "disk-templates"
MEMORY_RATIO = "memory-ratio"
MAX_NODE_FAILURES = "max-node-failures"
KEYS = (MINMAX, STD, VCPU_RATIO, SPINDLE_RATIO, DISK_TEMPLATES)

SPEC_TABLE = MakeTable(
    Param("memory-size", INT, 128, "MiB", since="2.6"),
    Param("cpu-count", INT, 1, "virtual CPUs", since="2.6"),
    Param("disk-count", INT, 1, "disks", since="2.6"),
    Param("disk-size", INT, 1024, "MiB, each disk", since="2.6"),
    Param("nic-count", INT, 1, "NICs", since="2.6"),
    Param("spindle-use", INT, 1, "spindles", since="2.6"),
)
RATIO_TABLE = MakeTable(
    Param(VCPU_RATIO, FLOAT, 4.0, "virtual CPUs for each of the node's", since="2.6"),
    Param(SPINDLE_RATIO, FLOAT, 32.0, "instances' spindles for each of the node's", since="2.6"),
)
# What 3.1 does not have: absent unless it is set (doc/design-resource-model.rst).
OPTIONAL_TABLE = MakeTable(
    Param(
        MEMORY_RATIO, FLOAT, None, "memory promised to instances for each MiB that the node has for them", Between(1, 16),
        required=True,
    ),
    Param(
        MAX_NODE_FAILURES, INT, None, "nodes of a group that may fail, one after the other", Between(1, 3), required=True
    ),
)  # fmt: skip
LIFTED = 0
"""The memory ratio of a group in which the cluster's does not count."""
ALL_KEYS = (*KEYS, *OPTIONAL_TABLE)
GROUP_KEYS = tuple(key for key in ALL_KEYS if key != STD)
_SPEC_MIN = {name: param.default for name, param in SPEC_TABLE.items()}
_SPEC_MAX = {
    "memory-size": 32768,
    "cpu-count": 8,
    "disk-count": 16,
    "disk-size": 1048576,
    "nic-count": 8,
    "spindle-use": 12,
}
DEFAULTS: dict[str, Any] = {
    MINMAX: [{MIN: _SPEC_MIN, MAX: _SPEC_MAX}],
    STD: _SPEC_MIN,
    VCPU_RATIO: RATIO_TABLE[VCPU_RATIO].default,
    SPINDLE_RATIO: RATIO_TABLE[SPINDLE_RATIO].default,
    DISK_TEMPLATES: list(constants.DISK_TEMPLATES),
}


def Fill(weaker: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``weaker`` with the keys of ``own`` replacing; ``std`` is merged value by value (doc/reference/config.md 15)."""
    result = {**weaker, **own}
    if STD in weaker and STD in own:
        result[STD] = {**weaker[STD], **own[STD]}
    if result.get(MEMORY_RATIO) == LIFTED:
        del result[MEMORY_RATIO]
    return result


def SyntaxProblems(policy: Mapping[str, Any], is_group: bool) -> list[str]:
    """Return what is wrong with a policy: the full one of a cluster, or the own keys of a group."""
    return list(_Problems(policy, is_group))


def _Problems(policy: Mapping[str, Any], is_group: bool) -> Iterator[str]:
    allowed = GROUP_KEYS if is_group else ALL_KEYS
    for key in policy:
        if key not in allowed:
            yield f"unknown instance policy key '{key}'"
    if not is_group:
        for key in KEYS:
            if key not in policy:
                yield f"instance policy key '{key}' is missing"
    for key in RATIO_TABLE:
        if key in policy:
            yield from (f"instance policy: {text}" for text in TypeProblems({key: policy[key]}, RATIO_TABLE))
    for key in OPTIONAL_TABLE:
        if key in policy and not (is_group and key == MEMORY_RATIO and policy[key] == LIFTED):
            own = {key: policy[key]}
            found = TypeProblems(own, OPTIONAL_TABLE) or ValueProblems(own, OPTIONAL_TABLE)
            yield from (f"instance policy: {text}" for text in found)
    if DISK_TEMPLATES in policy:
        yield from _TemplateProblems(policy[DISK_TEMPLATES])
    if MINMAX in policy:
        yield from _MinMaxProblems(policy[MINMAX])
    if STD in policy and not is_group:
        found = list(_SpecProblems(STD, policy[STD]))
        yield from found
        if not found and MINMAX in policy and not list(_MinMaxProblems(policy[MINMAX])):
            yield from _StdProblems(policy)


def _TemplateProblems(templates: Any) -> Iterator[str]:
    if not isinstance(templates, (list, tuple)) or not templates:
        yield f"instance policy: {DISK_TEMPLATES} must be a list that is not empty"
        return
    for name in templates:
        if name not in constants.DISK_TEMPLATES:
            yield f"instance policy: unknown disk template '{name}'"


def _SpecProblems(where: str, spec: Any) -> Iterator[str]:
    if not isinstance(spec, Mapping):
        yield f"instance policy: {where} must be an object"
        return
    yield from (f"instance policy, {where}: {text}" for text in TypeProblems(spec, SPEC_TABLE))
    missing = [name for name in SPEC_TABLE if name not in spec]
    if missing:
        yield f"instance policy, {where}: missing {', '.join(missing)}"


def _MinMaxProblems(pairs: Any) -> Iterator[str]:
    if not isinstance(pairs, (list, tuple)) or not pairs:
        yield f"instance policy: {MINMAX} must be a list that is not empty"
        return
    for number, pair in enumerate(pairs):
        if not isinstance(pair, Mapping) or set(pair) != {MIN, MAX}:
            yield f"instance policy: {MINMAX} number {number} must have exactly the keys min and max"
            continue
        found = [text for key in (MIN, MAX) for text in _SpecProblems(f"{MINMAX} number {number}, {key}", pair[key])]
        yield from found
        if not found:
            for name in SPEC_TABLE:
                if pair[MIN][name] > pair[MAX][name]:
                    yield (
                        f"instance policy: {name} of {MINMAX} number {number} has min {pair[MIN][name]} "
                        f"above max {pair[MAX][name]}"
                    )


def _StdProblems(policy: Mapping[str, Any]) -> Iterator[str]:
    std = policy[STD]
    outside = [_Outside(std, pair) for pair in policy[MINMAX]]
    if all(outside):
        fewest = min(len(found) for found in outside)
        nearest = next(found for found in outside if len(found) == fewest)
        yield f"instance policy: std lies within none of the min/max pairs: {', '.join(nearest)}"


def _Outside(spec: Mapping[str, Any], pair: Mapping[str, Any]) -> list[str]:
    """Return the sizes that are not within a pair."""
    return [
        f"{name} {spec[name]} is not in {pair[MIN][name]} to {pair[MAX][name]}"
        for name in SPEC_TABLE
        if not pair[MIN][name] <= spec[name] <= pair[MAX][name]
    ]


def Violations(
    policy: Mapping[str, Any],
    memory: int | None,
    cpus: int | None,
    nics: int,
    disk_sizes: Sequence[int],
    spindles: int | None,
    templates: Sequence[str],
) -> list[str]:
    """Return where an instance breaks a full policy: nothing if it fits one of the pairs, else for the nearest pair.

    None leaves a measure out.  ``templates``: the type of each disk; none at all stands for ``diskless``.
    """
    problems = []
    for template in sorted(set(templates) or {constants.DT_DISKLESS}):
        if template not in policy[DISK_TEMPLATES]:
            allowed = ", ".join(policy[DISK_TEMPLATES])
            problems.append(f"Disk template {template} is not allowed (allowed templates: {allowed})")
    measures: list[tuple[str, str, int | None]] = [
        ("memory-size", "", memory),
        ("cpu-count", "", cpus),
        ("disk-count", "", len(disk_sizes) if disk_sizes else None),
        ("nic-count", "", nics),
        ("spindle-use", "", spindles),
    ]
    measures += [("disk-size", f"/{index}", size) for index, size in enumerate(disk_sizes)]
    nearest: list[str] | None = None
    for pair in policy[MINMAX]:
        found = [
            f"{name}{suffix} value {value} is not in range [{pair[MIN][name]}, {pair[MAX][name]}]"
            for name, suffix, value in measures
            if value is not None and not pair[MIN][name] <= value <= pair[MAX][name]
        ]
        if nearest is None or len(found) < len(nearest):
            nearest = found
    return problems + (nearest or [])
