"""What both sides of mirrors say of each other, and which side does not count (doc/design-drbd.rst)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ganeti import constants, objects, params
from ganeti.cmdlib.cluster.verify_report import INSTANCE, Report
from ganeti.cmdlib.disk import mirrors
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti.rpc import RpcRunner

_CODE = "EINSTANCEFAULTYDISK"
# A write is done when both sides have it on their disks.
_SAFE = "C"

# Node uuid -> what it says of the mirrors by disk; without the nodes that gave no answer.
Answers = dict[str, mirrors.View]


def Ask(
    rpc: RpcRunner, snapshot: objects.Snapshot, instances: Iterable[objects.Instance], usable: Iterable[str]
) -> Answers:
    """Ask the usable nodes that hold mirrors, in use or not."""
    usable = set(usable)
    asked: dict[str, list[tuple[tuple[objects.Disk, ...], objects.Instance]]] = {}
    for instance, disk in _Mirrors(snapshot, instances):
        for uuid in usable.intersection(disk.nodes):
            asked.setdefault(uuid, []).append(((disk,), instance))
    if not asked:
        return {}
    results = rpc.call_drbd_views(sorted(asked), asked)
    return {uuid: result.payload for uuid, result in results.items() if not result.fail_msg}


def _Mirrors(
    snapshot: objects.Snapshot, instances: Iterable[objects.Instance]
) -> list[tuple[objects.Instance, objects.Disk]]:
    return [(instance, disk) for instance in instances for disk in mirrors.Mirrors(snapshot.InstanceDisks(instance))]


def _InUse(
    snapshot: objects.Snapshot, instances: Iterable[objects.Instance]
) -> list[tuple[objects.Instance, objects.Disk]]:
    return [
        (instance, disk)
        for instance, disk in _Mirrors(snapshot, instances)
        if instance.disks_active or instance.admin_state == constants.ADMINST_UP
    ]


def _CheckStrangers(
    report: Report, snapshot: objects.Snapshot, instances: Iterable[objects.Instance], answers: Answers
) -> None:
    for instance, disk in _Mirrors(snapshot, instances):
        for uuid in disk.nodes:
            state = answers.get(uuid, {}).get(disk.uuid)
            if state is not None and state.get("stranger"):
                report.Error(
                    _CODE,
                    INSTANCE,
                    instance.name,
                    f"{disk.iv_name} on node {snapshot.NodeName(uuid)}: {state['stranger']}",
                )


def _CheckIdle(report: Report, snapshot: objects.Snapshot, instances: Iterable[objects.Instance]) -> None:
    """Report sides of mirrors not in use that do not count: whoever loses the other one should know it before."""
    used = {disk.uuid for _, disk in _InUse(snapshot, instances)}
    for instance, disk in _Mirrors(snapshot, instances):
        if disk.behind is None or disk.uuid in used:
            continue
        node = disk.behind["node"]
        fill = mirrors.HowToFill(snapshot, instance, node)
        lost = mirrors.HintIfLost(snapshot, instance, node)
        report.Warning(
            _CODE, INSTANCE, instance.name, f"{mirrors.Describe(snapshot, [disk])}; to fill it, {fill}; {lost}"
        )


def Check(report: Report, snapshot: objects.Snapshot, instances: Iterable[objects.Instance], answers: Answers) -> None:
    """Report mirrors with a side that does not count, is frozen, parted from the other one, or without its data."""
    _CheckStrangers(report, snapshot, instances, answers)
    _CheckIdle(report, snapshot, instances)
    protocols: dict[tuple[str | None, str], str] = {}
    bound, stuck = _Dependent(snapshot, instances, answers)
    for instance, disk in _InUse(snapshot, instances):
        name = instance.name
        primary, other = instance.primary_node, disk_params.OtherSide(disk, instance.primary_node)
        if other is None:
            continue
        here, there = (_StateOn(disk, uuid, answers) for uuid in (primary, other))
        names = snapshot.NodeName(primary), snapshot.NodeName(other)
        filled = here is not None and here["in_resync"]
        behind = None if disk.behind is None else snapshot.NodeName(disk.behind["node"])
        problems = _Problems(str(name), str(disk.iv_name), names, here, there, behind)
        if here is not None and _IsFrozen(here):
            needs = instance.uuid in bound
            wait = _Wait(str(name), names, here, behind == names[1], needs, needs and instance.uuid not in stuck)
            problems.insert(0, f"{disk.iv_name} is frozen on node {names[0]}, {wait}")
        for text in problems:
            report.Error(_CODE, INSTANCE, name, text)
        known = snapshot.nodes[primary].group, disk.dev_type
        if known not in protocols:
            protocols[known] = params.AnnotateDisk(snapshot, disk, primary).params.get("protocol", _SAFE)
        protocol = protocols[known]
        if protocol != _SAFE:
            report.Warning(
                _CODE,
                INSTANCE,
                name,
                f"{disk.iv_name} uses protocol {protocol}: a write counts as done before the other side has it, and is lost"
                f" if node {names[0]} dies at that moment; set the disk parameter 'protocol' to {_SAFE}",
            )
        if _Mib(here) not in (0, disk.size) and not problems:
            report.Warning(
                _CODE,
                INSTANCE,
                name,
                f"{disk.iv_name} has {_Mib(here)} MiB, {disk.size} MiB are recorded: its growth was cut off;"
                f" 'gnt-cluster repair-disk-sizes {name}' records its size",
            )
        if disk.behind is not None:
            text = mirrors.Describe(snapshot, [disk])
            if filled:
                report.Warning(_CODE, INSTANCE, name, f"{text} and is being filled again")
            else:
                report.Error(
                    _CODE, INSTANCE, name, f"{text}: {_Remedy(snapshot, instance, disk, (primary, other), here, there)}"
                )


def _Remedy(
    snapshot: objects.Snapshot,
    instance: objects.Instance,
    disk: objects.Disk,
    nodes: tuple[str, str],
    here: dict[str, Any] | None,
    there: dict[str, Any] | None,
) -> str:
    """Return what to do about a mirror that is recorded to have one good side only: this may be gone, too."""
    name, activate = instance.name, f"'gnt-instance activate-disks {instance.name}'"
    here_is_behind = mirrors.Names(disk, nodes[0])
    behind, newer = nodes if here_is_behind else reversed(nodes)
    good = there if here_is_behind else here
    lost = mirrors.HintIfLost(snapshot, instance, behind)
    if mirrors.LacksData(good):
        return (
            f"the newer one, on node {snapshot.NodeName(newer)}, has no complete data; if its disk can be read again, use"
            f" {activate}; {lost}"
        )
    elsewhere = f"'gnt-instance replace-disks -n NODE {name}' to have the copy on another node"
    if here_is_behind:
        # All that is written is on the other node.
        elsewhere = (
            f"'gnt-instance replace-disks -a {name}' to have it made again there, or 'gnt-instance failover {name}'"
            f" to run the instance where the good copy is; {lost}"
        )
    old = here if here_is_behind else there
    where = snapshot.NodeName(behind)
    if old is None:
        return f"only one copy is good; bring node {where} back and use {activate}, or {elsewhere}"
    if old.get("incomplete"):
        return (
            f"only one copy is good; if the disk of node {where} can be read again, use {activate}, if not"
            f" 'gnt-instance replace-disks -a {name}', or {elsewhere}"
        )
    return f"only one copy is good; if nodes cannot reach each other, repair their link; use {activate}, or {elsewhere}"


def _StateOn(disk: objects.Disk, node_uuid: str | None, answers: Answers) -> dict[str, Any] | None:
    """Return what a node says of its side; None if it says nothing, or has something else in its place."""
    state = answers.get(node_uuid or "", {}).get(disk.uuid)
    return None if state is None or state.get("stranger") else state


def _Mib(state: dict[str, Any] | None) -> int:
    """Return the size of a side; 0 if it is not known, or the side has no data of any kind."""
    return 0 if state is None else int(state.get("size") or 0) >> 20


def _Problems(
    name: str,
    disk: str,
    nodes: tuple[str, str],
    here: dict[str, Any] | None,
    there: dict[str, Any] | None,
    behind: str | None,
) -> list[str]:
    """``nodes``: primary and other one; ``behind``: the one whose side does not count."""
    primary, other = nodes
    activate = f"use 'gnt-instance activate-disks {name}'"
    problems = []
    sizes = [_Mib(state) for state in (here, there)]
    if all(sizes) and sizes[0] != sizes[1] and any(state and state["standalone"] for state in (here, there)):
        problems.append(
            f"the sides of {disk} do not connect, because they have {sizes[0]} MiB on node {primary} and {sizes[1]} MiB on"
            f" node {other}: its growth was cut off. 'gnt-cluster repair-disk-sizes {name}' records what node {primary}"
            f" has; then {activate}"
        )
        return problems
    if here is not None and there is not None and here["standalone"] and there["standalone"]:
        problems.append(f"the sides of {disk} do not connect, {_Choice(name, nodes, here, there)}")
        return problems
    for node, peer, state in ((primary, other, here), (other, primary, there)):
        if state is None:
            continue
        if state["standalone"]:
            problems.append(f"{disk} is standalone on node {node}: {activate}")
        elif not state["local_uptodate"] and not state["in_resync"] and state["connected"]:
            again = f": 'gnt-instance replace-disks -a {name}' makes it again from the other side"
            problems.append(f"{disk} has no complete data of its own on node {node}{'' if behind == peer else again}")
    return problems


def _IsFrozen(state: dict[str, Any] | None) -> bool:
    return state is not None and bool(state["primary"] and state["frozen"])


def _Dependent(
    snapshot: objects.Snapshot, instances: Iterable[objects.Instance], answers: Answers
) -> tuple[set[str], set[str]]:
    """Return the instances that need their other node for a disk, and those with a frozen disk that cannot simply fail over."""
    bound, stuck = set(), set()
    for instance, disk in _InUse(snapshot, instances):
        primary = instance.primary_node
        here, there = (_StateOn(disk, uuid, answers) for uuid in (primary, disk_params.OtherSide(disk, primary)))
        if mirrors.NeedsOther(here):
            bound.add(instance.uuid)
        if _IsFrozen(here) and not _OtherHasAll(disk, primary, here, there):
            stuck.add(instance.uuid)
    return bound, stuck


def _OtherHasAll(disk: objects.Disk, primary: str, here: dict[str, Any] | None, there: dict[str, Any] | None) -> bool:
    """Return whether a fail-over takes the other side of a frozen disk without an option (``copies.CheckActive``)."""
    if here is None or there is None or here["standalone"] or there["standalone"] or not there["local_uptodate"]:
        return False
    served = mirrors.Names(disk, primary) and mirrors.NeedsOther(here)
    return served or mirrors.Proves(disk, here, there)


def _Wait(
    name: str,
    nodes: tuple[str, str],
    here: dict[str, Any],
    other_is_behind: bool,
    needs_other: bool,
    may_go: bool,
) -> str:
    """Return what a guest waits for whose side is frozen, and what to do.

    ``needs_other``: for a disk of which only that has all; ``may_go``: it has all of each disk that is frozen.
    """
    primary, other = nodes
    activate = f"use 'gnt-instance activate-disks {name}'"
    if may_go:
        return (
            f"the guest waits for the connection to node {other}, on which it depends: repair that, or use 'gnt-instance failover"
            f" {name}', as node {other} has every write that was acknowledged"
        )
    if here["local_uptodate"] and needs_other:
        return f"the guest waits for node {other}, on which it depends for another disk"
    if here["local_uptodate"]:
        return (
            f"the guest waits for the connection to node {other}; the master decides within a minute, its job"
            " 'INSTANCE_SETTLE_MIRRORS' in 'gnt-job list' says what it did"
        )
    if other_is_behind:
        return (
            f"where its data cannot be used, and the copy on node {other} is older: if the disk of node {primary} can be read"
            f" again, {activate}. If not, 'gnt-instance failover --ignore-consistency {name}' ends the guest and starts it there with"
            " the older data"
        )
    return (
        f"the guest waits for node {other}, as the data on node {primary} is not complete by itself: bring node {other} back,"
        f" then {activate}. If its copy is lost for good, 'gnt-instance shutdown --timeout 0 {name}' ends the guest, and"
        f" 'gnt-instance startup {name}' says what is left then"
    )


def _Choice(name: str, nodes: tuple[str, str], here: dict[str, Any], there: dict[str, Any]) -> str:
    """Return which sides of a mirror that was split may be kept, with the commands; one that lacks data cannot be."""
    primary, other = nodes
    keep_primary = f"'gnt-instance activate-disks --behind {other} {name}' keeps"
    keep_other = f"'gnt-instance failover --ignore-consistency {name}'"
    if here.get("incomplete") and there.get("incomplete"):
        return f"and neither is complete: restore instance {name} from a backup"
    if here.get("incomplete"):
        return f"and that on node {primary} is not complete: {keep_other} uses that on node {other}"
    if there.get("incomplete"):
        return f"and that on node {other} is not complete: {keep_primary} that on node {primary}"
    return (
        f"each may have writes of its own: {keep_primary} those on node {primary}, {keep_other} those on node {other}"
    )
