"""Memory for a guest on a node whose other guests can give some back (doc/design-resource-model.rst, Balloons)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, params, runtime
from ganeti.cmdlib import ratios
from ganeti.cmdlib.common import NodeFreeMemory
from ganeti.params import be, ipolicy, runstate

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import Feedback, LogicalUnit

# How long guests have to give memory back, after which time others are asked for what is missing still, and how often the
# node is asked.
WAIT_SECONDS = 30.0
_PATIENCE_SECONDS = 5.0
_PAUSE = 1.0
# MiB that are asked for besides: what a node reports as free changes all the time.
_SPARE = 32


@dataclass(frozen=True)
class _Guest:
    """A running guest that has more than its minimum."""

    instance: objects.Instance
    memory: int
    least: int

    @property
    def surplus(self) -> int:
        return self.memory - self.least


def IsShared(snapshot: objects.Snapshot, node_uuid: str) -> bool:
    """Return whether the policy of a node's group has a memory ratio, so that guests may have to give memory back."""
    group = snapshot.nodegroups[snapshot.nodes[node_uuid].group]
    return ipolicy.MEMORY_RATIO in params.FillIPolicy(snapshot, group)


def FreeMemory(lu: LogicalUnit, node_uuid: str, hypervisor: str, but: str | None = None) -> int:
    """Return how much of a node's memory, in MiB, may be given to a guest; less than nothing if too much was given already.

    Where memory is shared, what is given to guests is not free, although the node reports it as free until they touch it.
    ``but``: the uuid of the instance that needs memory: what a migration left of it here will be gone.
    """
    reported = NodeFreeMemory(lu, node_uuid, hypervisor)
    room = ratios.MemoryForInstances(lu, node_uuid, hypervisor) if IsShared(lu.snapshot, node_uuid) else None
    if room is None:
        return reported
    needy = lu.snapshot.instances.get(but) if but is not None else None
    own = needy.name if needy is not None else None
    rows = _Rows(lu, node_uuid).items()
    given = sum(
        int(row.get("memory") or 0)
        for name, row in rows
        if row.get("state") != constants.INST_USER_SHUTDOWN
        and not (name == own and runstate.Of(row) in runstate.NOT_THE_GUEST)
    )
    return min(reported, room - given)


def CheckFreeMemory(lu: LogicalUnit, node_uuid: str, reason: str, needed: int, hypervisor: str) -> int:
    """Return the node's free memory in MiB; raise OpPrereqError if it is less than ``needed``."""
    free = FreeMemory(lu, node_uuid, hypervisor)
    if needed > free:
        name = lu.snapshot.NodeName(node_uuid)
        raise errors.OpPrereqError(
            f"Not enough memory on node {name} for {reason}: needed {needed} MiB, {_Available(free)}",
            errors.ECODE_NORES,
        )
    return free


def _Available(free: int) -> str:
    return f"available {free} MiB" if free >= 0 else f"guests have {-free} MiB more than the node has for them"


def LimitStart(
    lu: LogicalUnit, instance: objects.Instance, free: int | None, own: Mapping[str, Any] | None = None
) -> None:
    """Have a guest that has just started use what was ``free``, and no more: its node gives it what others have not touched.

    ``free``: None where memory is not shared.  ``own``: backend parameters for this start.
    """
    filled = {**params.FillBE(lu.snapshot, instance), **(own or {})}
    if free is None or free >= filled[be.BE_MAXMEM] or _IsFixed(lu.snapshot, instance):
        return
    size = max(filled[be.BE_MINMEM], free)
    result = lu.rpc.call_instance_balloon_memory(instance.primary_node, instance, size)
    result.Warn(f"Could not limit the memory of instance {instance.name} to {size} MiB", lu.LogWarning)


def CheckRoom(
    lu: LogicalUnit, node_uuid: str, reason: str, needed: int, hypervisor: str, but: str | None = None
) -> int:
    """Return the node's free memory in MiB; raise OpPrereqError if it is too little, with what guests can give back.

    ``but``: the uuid of the instance that needs it.
    """
    if not IsShared(lu.snapshot, node_uuid):
        return CheckFreeMemory(lu, node_uuid, reason, needed, hypervisor)
    free = FreeMemory(lu, node_uuid, hypervisor, but)
    if needed <= free:
        return free
    surplus = sum(guest.surplus for guest in _Guests(lu, node_uuid, but))
    if needed > free + surplus:
        raise errors.OpPrereqError(
            f"Not enough memory on node {lu.snapshot.NodeName(node_uuid)} for {reason}: needed {needed} MiB,"
            f" {_Available(free)}, and other guests can give back {surplus} MiB",
            errors.ECODE_NORES,
        )
    return free


def MakeRoom(
    lu: LogicalUnit,
    node_uuid: str,
    reason: str,
    needed: int,
    hypervisor: str,
    feedback: Feedback,
    but: str | None = None,
) -> int | None:
    """Have other guests give memory back until so much is free; return what is free then, None where memory is not shared.

    Raises OpExecError if they do not.  No guest is asked to go below its minimum.
    """
    if not IsShared(lu.snapshot, node_uuid):
        return None
    free = FreeMemory(lu, node_uuid, hypervisor, but)
    if needed <= free:
        return free
    start = runtime.Monotonic()
    asked: float | None = None
    # What guests had when they were first asked, and the sizes they were asked for.
    had: dict[str, int] = {}
    wanted: dict[str, int] = {}
    stubborn: set[str] = set()
    try:
        while runtime.Monotonic() - start < WAIT_SECONDS:
            if asked is None or runtime.Monotonic() - asked >= _PATIENCE_SECONDS:
                guests = _Guests(lu, node_uuid, but)
                # Others make up for whoever is still larger than asked.
                stubborn |= {
                    uuid for guest in guests if guest.memory > wanted.get(uuid := guest.instance.uuid, guest.memory)
                }
                willing = [guest for guest in guests if guest.instance.uuid not in stubborn]
                plan = _Wanted(willing, needed - free + _SPARE)
                _Ask(lu, node_uuid, willing, plan, feedback)
                wanted.update(plan)
                had = {**{guest.instance.uuid: guest.memory for guest in willing}, **had}
                asked = runtime.Monotonic()
            lu.Pause(_PAUSE)
            free = FreeMemory(lu, node_uuid, hypervisor, but)
            if needed <= free:
                _Settle(lu, node_uuid, had, wanted, but)
                return free
    except errors.GenericError:
        with contextlib.suppress(errors.GenericError):
            _Settle(lu, node_uuid, had, wanted, but)
        raise
    raise _Refused(lu, node_uuid, reason, needed, free, _Settle(lu, node_uuid, had, wanted, but))


def _Settle(
    lu: LogicalUnit, node_uuid: str, had: Mapping[str, int], wanted: Mapping[str, int], but: str | None
) -> list[_Guest]:
    """Let guests that are larger than asked keep what they have, also if their driver wakes up later; return them.

    So no wish outlives its job: the next one may ask for another size.  Whoever gave nothing is remembered as unwilling.
    """
    slow = [
        guest for guest in _Guests(lu, node_uuid, but) if guest.memory > wanted.get(guest.instance.uuid, guest.memory)
    ]
    lu.context.unwilling.difference_update(wanted)
    for guest in slow:
        uuid = guest.instance.uuid
        if guest.memory >= had[uuid]:
            lu.context.unwilling.add(uuid)
        result = lu.rpc.call_instance_balloon_memory(node_uuid, guest.instance, guest.memory)
        result.Warn(f"Could not let instance {guest.instance.name} keep its memory", lu.LogWarning)
    return slow


def _Refused(
    lu: LogicalUnit, node_uuid: str, reason: str, needed: int, free: int, slow: Sequence[_Guest]
) -> errors.OpExecError:
    """Return what is wrong, with the guests that have not given what they were asked for."""
    kept = ", ".join(f"{guest.instance.name} ({guest.memory} MiB)" for guest in slow) or "nobody more than asked"
    return errors.OpExecError(
        f"Node {lu.snapshot.NodeName(node_uuid)} has {free} MiB free after {WAIT_SECONDS:g} seconds, {needed} MiB are needed"
        f" for {reason}; memory was kept by: {kept}",
        hint="a guest needs a balloon driver to give memory back; 'gnt-instance list -o name,be/minmem,be/maxmem,oper_ram'"
        " shows the sizes; shut a guest down, or use another node",
    )


def _Rows(lu: LogicalUnit, node_uuid: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what a node reports of its guests, by name."""
    cluster = lu.snapshot.cluster
    hypervisors = list(cluster.enabled_hypervisors)
    hvparams = {name: dict(cluster.hvparams.get(name, {})) for name in hypervisors}
    answer = lu.rpc.call_all_instances_info([node_uuid], hypervisors, hvparams)[node_uuid]
    answer.Raise(f"Can't get the guests of node {answer.node_name}", prereq=True)
    rows: Mapping[str, Mapping[str, Any]] = answer.payload
    return rows


def _Guests(lu: LogicalUnit, node_uuid: str, but: str | None) -> list[_Guest]:
    """Return who can give memory back: those with the most first, but last those that gave none before."""
    found = _Giving(lu.snapshot, node_uuid, _Rows(lu, node_uuid), but)
    return sorted(found, key=lambda guest: guest.instance.uuid in lu.context.unwilling)


def Surplus(snapshot: objects.Snapshot, node_uuid: str, rows: Mapping[str, Mapping[str, Any]]) -> int:
    """Return how much memory, in MiB, guests of a node can give back if one needs it; ``rows``: what it reports of them."""
    if not IsShared(snapshot, node_uuid):
        return 0
    return sum(guest.surplus for guest in _Giving(snapshot, node_uuid, rows, None))


def _Giving(
    snapshot: objects.Snapshot, node_uuid: str, rows: Mapping[str, Mapping[str, Any]], but: str | None
) -> list[_Guest]:
    """Return the running guests of a node that can give memory back, those with the most first."""
    found = []
    for instance in snapshot.PrimaryInstances(node_uuid):
        info = rows.get(instance.name)
        if info is None or instance.uuid == but or not _Simply(info) or _IsFixed(snapshot, instance):
            continue
        guest = _Guest(instance, int(info.get("memory") or 0), params.FillBE(snapshot, instance)[be.BE_MINMEM])
        if guest.surplus > 0:
            found.append(guest)
    return sorted(found, key=lambda guest: (-guest.surplus, guest.instance.name))


def _IsFixed(snapshot: objects.Snapshot, instance: objects.Instance) -> bool:
    """Return whether a guest's memory comes from files (huge pages): what it gives back is free for nobody else."""
    return bool(params.FillHV(snapshot, instance).get("mem_path"))


def _Simply(info: Mapping[str, Any]) -> bool:
    """Return whether a guest simply runs, and is not paused, on its way to another node, or hung."""
    state = info.get("state", constants.INST_RUNNING)
    return state == constants.INST_RUNNING and runstate.Of(info) == runstate.RUNNING


def _Wanted(guests: Sequence[_Guest], missing: int) -> dict[str, int]:
    """Return the sizes to ask for, by uuid: those with the largest surplus give first, down to their minimum."""
    wanted = {}
    for guest in guests:
        if missing <= 0:
            break
        given = min(guest.surplus, missing)
        wanted[guest.instance.uuid] = guest.memory - given
        missing -= given
    return wanted


def _Ask(
    lu: LogicalUnit, node_uuid: str, guests: Sequence[_Guest], wanted: Mapping[str, int], feedback: Feedback
) -> None:
    for guest in guests:
        size = wanted.get(guest.instance.uuid)
        if size is None:
            continue
        feedback(f"* asking instance {guest.instance.name} to go from {guest.memory} to {size} MiB")
        result = lu.rpc.call_instance_balloon_memory(node_uuid, guest.instance, size)
        result.Warn(f"Could not ask instance {guest.instance.name} for memory", lu.LogWarning)
