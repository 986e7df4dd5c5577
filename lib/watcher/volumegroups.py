"""What the watcher remembers of volume groups that lost disks, and what follows from it (doc/design-lvm-repair.rst).

Functions of what was seen, which touch nothing.  ``Next`` is the table of the design; ``Obstacle`` has the conditions of a
repair that follow from the looks alone, ``ObstacleOnNode`` those that need a closer look at the node.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ganeti import watchedgroups
from ganeti.htools.choosing import repair
from ganeti.watchedgroups import BAD, FAILED, GONE, GOOD, REPAIRING, RETURNED, STATES
from ganeti.watcher.rows import Node

# Seconds for which the same disks must be missing before a group is repaired; between two looks that belong together;
# between two repairs of a node; after which a group that is gone no longer matters; between two reports of a repair that failed.
PATIENCE = 30 * 60.0
MAX_GAP = 15 * 60.0
REST = 24 * 3600.0
_FORGOTTEN = 24 * 3600.0
_REPORT_AGAIN = 24 * 3600.0

Missing = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """One volume group of one node.

    ``missing``: UUIDs of physical volumes, paths in the state RETURNED; ``since``: when they were first seen missing, ``seen``: when last; ``boot_id``: of
    the node all the while; ``job``: the repair, 0 if it was never submitted; ``reported``: when its failure was.
    """

    state: str
    missing: Missing = ()
    since: float = 0.0
    seen: float = 0.0
    boot_id: str = ""
    job: int = 0
    reported: float = 0.0

    def ToDict(self) -> dict[str, Any]:
        values = {**dataclasses.asdict(self), "missing": list(self.missing)}
        return {"state": self.state, **{name: value for name, value in values.items() if value}}


@dataclasses.dataclass(frozen=True)
class Known:
    """What is remembered of a node: its groups by name, and when one of them was last repaired, 0 if never."""

    groups: Mapping[str, Group] = dataclasses.field(default_factory=dict)
    repaired: float = 0.0


NOTHING = Known()


class Job(enum.Enum):
    """How far the job of a repair is; REJECTED: it changed nothing, as it looked first or was canceled."""

    UNFINISHED = "unfinished"
    DONE = "done"
    REJECTED = "rejected"
    FAILED = "failed"


class Event(enum.Enum):
    """What a look at a group means."""

    NOTHING = "nothing"
    LOST = "physical volumes are missing"
    GONE = "its node no longer shows it"
    RETURNED = "physical volumes that count as missing are there again"
    BACK = "it is complete again"
    DUE = "it may be repaired"
    NEEDLESS = "its repair has not begun, and it is complete again"
    WITHDRAWN = "its repair was canceled"
    REPAIRED = "its repair is done"
    REJECTED = "its repair changed nothing"
    UNMIRRORED = "it is complete again, and its repair failed"
    FAILURE = "its repair failed"
    STILL_FAILED = "its repair failed some time ago"


def Next(
    before: Group | None,
    seen: Missing | None,
    boot_id: str | None,
    now: float,
    job: Job = Job.FAILED,
    returned: Missing = (),
    gone: bool = False,
) -> tuple[Group | None, Event]:
    """Return what is remembered of a group after a look, and what the look means.

    ``seen``: the physical volumes that are missing, None if that is not known; ``returned``: the paths of those among them whose
    devices are there; ``gone``: the node answered and does not show the group; ``job``: how far the repair is, of a group in the state REPAIRING.
    """
    if seen is None or not boot_id:
        return _NotSeen(before, gone, now)
    good = Group(GOOD, seen=now)
    bad = Group(BAD, tuple(sorted(seen)), now, now, boot_id)
    if returned:
        bad = Group(RETURNED, tuple(sorted(returned)), now, now, boot_id)
    state = before.state if before is not None else ""
    if before is not None and state == REPAIRING:
        return _Repairing(before, bad if seen else good, now, job)
    if not seen:
        return good, (Event.BACK if state in (BAD, RETURNED, GONE, FAILED) else Event.NOTHING)
    if before is not None and state == FAILED:
        again = not 0 <= now - before.reported < _REPORT_AGAIN
        kept = dataclasses.replace(before, missing=bad.missing, seen=now, reported=now if again else before.reported)
        return kept, (Event.STILL_FAILED if again else Event.NOTHING)
    if before is None or not _SameAs(before, bad):
        return bad, (Event.RETURNED if returned else Event.LOST)
    if returned:
        return dataclasses.replace(before, seen=now), Event.NOTHING
    if not 0 <= now - before.seen <= MAX_GAP or now < before.since:
        return bad, Event.NOTHING  # what happened meanwhile is not known
    kept = dataclasses.replace(before, seen=now)
    return kept, (Event.DUE if now - before.since >= PATIENCE else Event.NOTHING)


def _NotSeen(before: Group | None, gone: bool, now: float) -> tuple[Group | None, Event]:
    """Return what is remembered of a group that was not seen, because it is gone or the node did not answer."""
    if before is None or before.state in (REPAIRING, FAILED):
        return before, Event.NOTHING  # what was done is remembered whatever happens
    if before.state == GONE:
        return (before if 0 <= now - before.since < _FORGOTTEN else None), Event.NOTHING
    if gone:
        return Group(GONE, since=now, seen=now), Event.GONE
    # That it was there is remembered, in case it is gone when the node answers; looks at missing disks must follow each other.
    return (before if before.state == GOOD else None), Event.NOTHING


def _SameAs(before: Group, bad: Group) -> bool:
    return (before.state, before.missing, before.boot_id) == (bad.state, bad.missing, bad.boot_id)


def _Repairing(before: Group, found: Group, now: float, job: Job) -> tuple[Group, Event]:
    """Return what becomes of a group whose repair was submitted."""
    if job is Job.UNFINISHED:
        return dataclasses.replace(before, seen=now), (Event.NEEDLESS if found.state == GOOD else Event.NOTHING)
    if found.state == GOOD:
        return found, {Job.DONE: Event.REPAIRED, Job.REJECTED: Event.REJECTED}.get(job, Event.UNMIRRORED)
    if job is Job.REJECTED:
        return found, Event.REJECTED
    if job is Job.DONE and not set(found.missing).intersection(before.missing):
        return found, (Event.RETURNED if found.state == RETURNED else Event.LOST)  # another disk, lost since
    failed = dataclasses.replace(before, state=FAILED, missing=found.missing, seen=now, reported=now)
    return failed, Event.FAILURE


# --- the conditions of a repair -----------------------------------------------------------------------------------------


def Obstacle(
    nodes: Sequence[Node],
    looks: Mapping[str, Mapping[str, Missing]],
    known: Mapping[str, Known],
    node: str,
    now: float,
) -> str:
    """Return why a group of ``node`` is not repaired, as far as the looks say; nothing if it may be.

    ``looks``: node -> group -> missing physical volumes, without the nodes of which nothing is known; ``known``: what is
    remembered after these looks.
    """
    repaired = known.get(node, NOTHING).repaired
    if repaired and now - repaired < REST:
        return "a volume group of this node was repaired within the last 24 hours"
    elsewhere = Elsewhere(nodes, looks, known, node)
    if elsewhere:
        return elsewhere
    silent = sorted(each.name for each in nodes if IsAsked(each) and not looks.get(each.name))
    if silent:
        return f"how the volume groups of node {silent[0]} are is not known"
    return ""


def Elsewhere(
    nodes: Sequence[Node], looks: Mapping[str, Mapping[str, Missing]], known: Mapping[str, Known], node: str
) -> str:
    """Return what else was lost than physical volumes of ``node``, if anything: it may have the same cause."""
    others = sorted(name for name, groups in looks.items() if name != node and any(groups.values()))
    if others:
        return f"node {others[0]} has a volume group with missing physical volumes too"
    gone = sorted(
        f"node {each.name} has lost volume group {name}"
        for each in nodes
        for name, group in known.get(each.name, NOTHING).groups.items()
        if group.state == GONE
    )
    return gone[0] if gone else ""


def IsAsked(node: Node) -> bool:
    """Return whether a node is asked for its volume groups: all are that are online and may have instances."""
    return not node.offline and node.vm_capable


@dataclasses.dataclass(frozen=True)
class Guest:
    """An instance with a volume on the node; ``lost``: the indices of its disks with a volume in the group that is away.

    ``tags``: of the nearest first: its own, those of the group of its primary node, those of the cluster.
    """

    name: str
    primary: str
    version: str
    tags: tuple[tuple[str, ...], ...]
    in_group: bool
    busy: str = ""
    lost: tuple[int, ...] = ()


def ObstacleOnNode(guests: Iterable[Guest], acting: int | None, now: float) -> str:
    """Return why a group is not repaired, as far as instances and jobs are concerned; nothing if it may be.

    ``acting``: a job that has not ended and names the node.
    """
    if acting is not None:
        return f"job {acting} acts on the node"
    guests = sorted(guests, key=lambda guest: guest.name)
    for guest in guests:
        if guest.busy:
            return f"instance {guest.name}: {guest.busy}"
    concerned = [guest for guest in guests if guest.in_group]
    if not concerned:
        return "no instance has a volume in it"
    for guest in concerned:
        why = _NotPermitted(guest, int(now))
        if why:
            return f"instance {guest.name}: {why}"
    return ""


def _NotPermitted(guest: Guest, now: int) -> str:
    """Return why the tags of harep do not permit this repair (``htools.choosing.repair``); nothing if they do."""
    try:
        condition = repair.StatusOf(guest.tags[0]).condition
    except repair.Contradiction as err:
        return f"its tags contradict each other, such as {err.tag}"
    if condition is not repair.Condition.HEALTHY:
        return f"its tags say '{condition.value}'"
    policy = next((found for tags in guest.tags if (found := repair.PolicyOf(tags, now)) is not None), repair.Policy())
    if policy.suspended:
        return "repairs are suspended by a tag"
    if policy.allowed is None:
        return f"no tag {repair.PREFIX}{repair.Kind.FIX_STORAGE.word} permits it"
    return ""


# --- what another master's watcher did ---------------------------------------------------------------------------------


def WithRecords(known: Known, tags: Iterable[str], now: float) -> Known:
    """Return what is remembered of a node when its tags count too: they say what the watcher of another master did.

    A look of this watcher after the record counts for more: what failed may have been repaired by hand since.
    """
    groups, repaired = dict(known.groups), known.repaired
    for name, record in watchedgroups.Repairs(tags).items():
        repaired = max(repaired, min(float(record.time), now))
        before = groups.get(name)
        if before is not None and (before.state in (REPAIRING, FAILED) or before.seen > record.time):
            continue
        if record.state != watchedgroups.DONE:
            state = FAILED if record.state == FAILED else REPAIRING
            groups[name] = Group(state, since=float(record.time), seen=float(record.time), job=record.job)
    return Known(groups, repaired)


# --- the file -----------------------------------------------------------------------------------------------------------


def Dump(known: Known) -> dict[str, Any]:
    """Return the keys of a node's record in the state file."""
    groups = {name: known.groups[name].ToDict() for name in sorted(known.groups)}
    return {**({"vgs": groups} if groups else {}), **({"repaired": known.repaired} if known.repaired else {})}


def Parse(record: Mapping[str, Any], now: float) -> Known:
    """Return what a node's record in the state file says.

    Wrong parts are left out, unless that could lead to a repair: a time of a repair that cannot be read counts as ``now``.
    """
    groups = record.get("vgs")
    found = {
        name: group
        for name, values in (groups.items() if isinstance(groups, dict) else ())
        if (group := _ParseGroup(values)) is not None
    }
    return Known(found, StoredNumber(record.get("repaired", 0), otherwise=now))


def _ParseGroup(values: Any) -> Group | None:
    if not isinstance(values, dict) or values.get("state") not in STATES:
        return None
    state, missing, boot_id = values["state"], values.get("missing", []), values.get("boot_id", "")
    if not isinstance(missing, list) or not all(isinstance(uuid, str) for uuid in missing):
        missing = []
    since, seen, reported, job = (StoredNumber(values.get(name)) for name in ("since", "seen", "reported", "job"))
    boot_id = boot_id if isinstance(boot_id, str) else ""
    if state == BAD and not (missing and since and seen and boot_id):
        return None  # since when the disks are missing is not known; what was done, however, is never forgotten
    return Group(state, tuple(missing), since, seen, boot_id, int(job), reported)


def StoredNumber(value: Any, otherwise: float = 0) -> float:
    """Return a number of a state file, ``otherwise`` if it cannot be one."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12
    return value if good else otherwise
