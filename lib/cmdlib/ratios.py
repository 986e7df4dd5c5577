"""Ratios of a group's instance policy: virtual CPUs for each CPU, spindle use for each spindle (doc/reference/htools.md 5.3, 5.4),
and promised memory for each MiB (doc/design-resource-model.rst).

Allocators keep them when they choose nodes; here they are checked, in the same way, for what a person names or lets grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, params
from ganeti.params import be, ipolicy, nd, nodestate
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import LogicalUnit

_ON_SPINDLES = disk_params.With(lvm=True)


def TakesSpindles(template: str) -> bool:
    """Return whether disks of a template count for the spindles of their nodes."""
    return template in _ON_SPINDLES


def CpuViolations(lu: LogicalUnit, node_uuid: str, vcpus: int, hypervisor: str, but: str | None = None) -> list[str]:
    """Return what is wrong if an instance with so many virtual CPUs has the node as primary; nothing if all is well.

    ``but``: the uuid of that instance, if it exists.  A node whose number of CPUs is not known is a warning only.
    """
    snapshot = lu.snapshot
    node = snapshot.nodes[node_uuid]
    counts = _Cpus(lu, node, hypervisor)
    if counts is None:
        return []
    total, kept = counts
    others = (inst for inst in snapshot.PrimaryInstances(node_uuid) if inst.admin_state != constants.ADMINST_OFFLINE)
    used = kept + vcpus + _Sum(snapshot, others, be.BE_VCPUS, but)
    ratio = _Ratio(snapshot, node, ipolicy.VCPU_RATIO)
    limit = int(ratio * total)
    # A negative ratio means no limit, as in the htools.
    if ratio < 0 or used <= limit:
        return []
    return [
        f"node {node.name} would have {used} virtual CPUs in use ({kept} by itself) on {total} CPUs;"
        f" {ipolicy.VCPU_RATIO} {ratio:g} allows {limit}"
    ]


def MemoryViolations(
    lu: LogicalUnit,
    node_uuid: str,
    filled: Mapping[str, Any],
    hypervisor: str,
    but: str | None = None,
    promises: bool = True,
) -> list[str]:
    """Return what is wrong if an instance with these backend parameters has the node as primary; nothing without a ratio.

    ``promises``: the maxima count, not only the minima.  A node whose memory is not known is a warning only.
    """
    snapshot = lu.snapshot
    node = snapshot.nodes[node_uuid]
    ratio = params.FillIPolicy(snapshot, snapshot.nodegroups[node.group]).get(ipolicy.MEMORY_RATIO)
    room = None if ratio is None else MemoryForInstances(lu, node_uuid, hypervisor)
    if ratio is None or room is None:
        return []
    others = [inst for inst in snapshot.PrimaryInstances(node_uuid) if inst.admin_state != constants.ADMINST_OFFLINE]
    most = filled[be.BE_MAXMEM] + _Sum(snapshot, others, be.BE_MAXMEM, but)
    least = filled[be.BE_MINMEM] + _Sum(snapshot, others, be.BE_MINMEM, but)
    found = []
    if promises and most > ratio * room:
        found.append(
            f"the instances of node {node.name} could have {most} MiB of memory together, it has {room} MiB for them;"
            f" {ipolicy.MEMORY_RATIO} {ratio:g} allows {int(ratio * room)}"
        )
    if least > room:
        found.append(
            f"the instances of node {node.name} would have minima of {least} MiB of memory together, it has {room} MiB for them"
        )
    return found


def SpindleViolations(lu: LogicalUnit, node_uuid: str, spindle_use: int, but: str | None = None) -> list[str]:
    """Return what is wrong if an instance with disks on the node's spindles uses them so much; nothing if all is well."""
    snapshot = lu.snapshot
    node = snapshot.nodes[node_uuid]
    filled = params.FillND(snapshot, node)
    if filled[nd.ND_EXCLUSIVE_STORAGE]:
        return []  # spindles belong to single disks
    on_node = (*snapshot.PrimaryInstances(node_uuid), *snapshot.SecondaryInstances(node_uuid))
    others = (inst for inst in on_node if TakesSpindles(snapshot.DiskTemplate(inst)))
    used = spindle_use + _Sum(snapshot, others, be.BE_SPINDLE_USE, but)
    ratio, spindles = _Ratio(snapshot, node, ipolicy.SPINDLE_RATIO), filled[nd.ND_SPINDLE_COUNT]
    if used <= ratio * spindles:
        return []
    return [
        f"the spindle use of node {node.name} would be {used} on {spindles} spindle(s);"
        f" {ipolicy.SPINDLE_RATIO} {ratio:g} allows {int(ratio * spindles)}"
    ]


def _Ratio(snapshot: objects.Snapshot, node: objects.Node, name: str) -> float:
    return float(params.FillIPolicy(snapshot, snapshot.nodegroups[node.group])[name])


def _Sum(snapshot: objects.Snapshot, instances: Iterable[objects.Instance], name: str, but: str | None) -> int:
    return sum(int(params.FillBE(snapshot, inst)[name]) for inst in instances if inst.uuid != but)


def _Cpus(lu: LogicalUnit, node: objects.Node, hypervisor: str) -> tuple[int, int] | None:
    """Return how many CPUs a node has, and how many of them it keeps; recorded values before reported ones."""
    record = nodestate.HVState(lu.snapshot, node).get(hypervisor, {})
    total, kept = record.get(nodestate.CPU_TOTAL), record.get(nodestate.CPU_NODE)
    if total is not None and kept is not None:
        return total, kept
    reported = _Reported(lu, node, hypervisor)
    found: tuple[Any, Any] = (total or reported.get("cpu_total"), kept or reported.get("cpu_dom0"))
    if not all(isinstance(value, int) for value in found):
        lu.LogWarning(f"Node {node.name} did not report its CPUs: whether it has too many virtual ones is not known")
        return None
    return found[0], found[1]


def MemoryForInstances(lu: LogicalUnit, node_uuid: str, hypervisor: str) -> int | None:
    """Return the memory that a node has for instances: the one the htools count, with what no record explains."""
    node = lu.snapshot.nodes[node_uuid]
    record = nodestate.HVState(lu.snapshot, node).get(hypervisor, {})
    reported = _Reported(lu, node, hypervisor)
    total = record.get(nodestate.MEM_TOTAL) or reported.get("memory_total")
    own = nodestate.STATIC_KVM_MEMORY if hypervisor == constants.HT_KVM else reported.get("memory_dom0")
    kept = record.get(nodestate.MEM_NODE) or own
    if not isinstance(total, int) or not isinstance(kept, int):
        lu.LogWarning(f"Node {node.name} did not report its memory: whether too much is promised is not known")
        return None
    return max(0, total - kept - record.get(nodestate.MEM_HV, 0))


def _Reported(lu: LogicalUnit, node: objects.Node, hypervisor: str) -> dict[str, Any]:
    """Return what a node reports of its memory and CPUs; nothing if it does not answer."""
    hvparams = lu.snapshot.cluster.hvparams.get(hypervisor, {})
    answer = lu.rpc.call_node_info([node.uuid], None, [[hypervisor, hvparams]])[node.uuid]
    return {} if answer.fail_msg else (answer.payload[2] or [None])[0] or {}
