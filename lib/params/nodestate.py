"""The recorded state of nodes: what they have and keep for themselves, as far as an administrator recorded it.

Own values of a node are stored as ``hv_state_static`` and ``disk_state_static`` (doc/reference/parameters.md 7).  A value of 0 or
less is not recorded.  What a node keeps for itself is inherited: cluster < group < node; what it has in all is a fact of one
machine and counts only where it was recorded for that node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganeti import objects

CPU_NODE, CPU_TOTAL = "cpu_node", "cpu_total"
MEM_HV, MEM_NODE, MEM_TOTAL = "mem_hv", "mem_node", "mem_total"
DISK_OVERHEAD, DISK_RESERVED, DISK_TOTAL = "disk_overhead", "disk_reserved", "disk_total"
# MiB that a node under KVM keeps for itself, as far as nobody recorded it: what it reports includes its guests.
STATIC_KVM_MEMORY = 4096
_TOTALS = frozenset([CPU_TOTAL, MEM_TOTAL, DISK_TOTAL])


def HVState(snapshot: objects.Snapshot, node: objects.Node) -> dict[str, dict[str, int]]:
    """Return the recorded memory and CPUs: {hypervisor: {name: value}}; empty if nothing is recorded."""
    merged: dict[str, dict[str, int]] = {}
    for level in _Levels(snapshot, node):
        _Merge(merged, level.hv_state_static, level is node)
    return _WithoutEmpty(merged)


def DiskState(snapshot: objects.Snapshot, node: objects.Node) -> dict[str, dict[str, dict[str, int]]]:
    """Return the recorded disk space: {storage type: {name: {name: value}}}; empty if nothing is recorded."""
    merged: dict[str, dict[str, dict[str, int]]] = {}
    for level in _Levels(snapshot, node):
        for kind, units in level.disk_state_static.items():
            _Merge(merged.setdefault(kind, {}), units, level is node)
    return _WithoutEmpty({kind: _WithoutEmpty(units) for kind, units in merged.items()})


def _Levels(snapshot: objects.Snapshot, node: objects.Node) -> Iterator[Any]:
    yield snapshot.cluster
    group = snapshot.nodegroups.get(node.group)
    if group is not None:
        yield group
    yield node


def _Merge(merged: dict[str, dict[str, int]], sets: Mapping[str, Mapping[str, Any]], own: bool) -> None:
    for name, values in sets.items():
        counting = {key: value for key, value in values.items() if own or key not in _TOTALS}
        known = {**merged.get(name, {}), **counting}
        merged[name] = {key: value for key, value in known.items() if isinstance(value, int) and value > 0}


def _WithoutEmpty(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
