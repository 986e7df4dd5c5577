"""Repairs of instances on nodes that are offline, and the tags that permit and record them (doc/reference/htools.md 21)."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ganeti.htools.choosing import solution
from ganeti.htools.model.entities import DRBD, PLAIN, Instance
from ganeti.htools.model.state import Cluster
from ganeti.htools.sources.loading import Suffixes

PREFIX: Final = "ganeti:watcher:autorepair:"
_SUSPEND, _PENDING, _RESULT = "suspend", "pending", "result"
_SEPARATOR: Final = "+"
_TIME: Final = re.compile(r"\d{1,12}", re.ASCII)
_JOB: Final = re.compile(r"\d{1,18}", re.ASCII)
ALLOCATOR: Final = "hail"


class Kind(enum.IntEnum):
    """A repair, in the order of what it may cost: each permits the ones before it."""

    FIX_STORAGE = 0
    MIGRATE = 1
    FAILOVER = 2
    REINSTALL = 3

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")

    @property
    def title(self) -> str:
        return "Ar" + self.name.title().replace("_", "")


_KINDS: Final = {kind.word: kind for kind in Kind}


class Outcome(enum.IntEnum):
    """How a repair ended; the order decides which of several records of one repair counts."""

    ENOPERM = 1
    SUCCESS = 2
    FAILURE = 3

    @property
    def word(self) -> str:
        return self.name.lower()


_OUTCOMES: Final = {outcome.word: outcome for outcome in Outcome}


# --- what is permitted --------------------------------------------------------------------------------------------------


class Policy(NamedTuple):
    """What the tags of an object permit.

    ``allowed``: the largest repair.  ``suspended_until``: seconds since the epoch; None without end.  Nothing is permitted
    where both are None and ``suspended`` is false.
    """

    allowed: Kind | None = None
    suspended: bool = False
    suspended_until: int | None = None


_NOTHING: Final = Policy()


def PolicyOf(tags: Iterable[str], now: int) -> Policy | None:
    """Return the policy that an object's own tags make; None if they make none."""
    allowed: list[Kind] = []
    ends: list[int] = []
    for rest in Suffixes(tags, PREFIX):
        word, colon, stamp = rest.partition(":")
        if word == _SUSPEND and not stamp:
            return Policy(suspended=True)
        if word == _SUSPEND and _TIME.fullmatch(stamp):
            ends.append(int(stamp))
        elif word in _KINDS and not colon:
            allowed.append(_KINDS[word])
    latest = max(ends, default=now)
    if latest > now:
        return Policy(suspended=True, suspended_until=latest)
    return Policy(allowed=min(allowed)) if allowed else None


def EffectivePolicy(cluster: Cluster, inst: Instance, now: int) -> Policy:
    """Return the policy of the nearest that has one: instance, group of the primary node, cluster."""
    index = cluster.state.nodes[inst.primary].facts.group
    group = next(group for group in cluster.groups if group.index == index)
    for tags in (inst.tags, group.tags, cluster.tags):
        policy = PolicyOf(tags, now)
        if policy is not None:
            return policy
    return _NOTHING


# --- what is recorded ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """A tag that says how far a repair is; ``outcome`` is None while its jobs run."""

    kind: Kind
    id: str
    time: int
    jobs: tuple[int, ...] = ()
    outcome: Outcome | None = None

    @property
    def tag(self) -> str:
        jobs = _SEPARATOR.join(map(str, self.jobs))
        if self.outcome is None:
            return f"{PREFIX}{_PENDING}:{self.kind.word}:{self.id}:{self.time}:{jobs}"
        return f"{PREFIX}{_RESULT}:{self.kind.word}:{self.id}:{self.time}:{self.outcome.word}:{jobs}"

    @property
    def rank(self) -> tuple[int, int]:
        """Return what orders the records of one repair, the newest last."""
        return (0 if self.outcome is None else self.outcome, self.time)


def ParseRecord(tag: str) -> Record | None:
    """Return the record in a tag; None if the tag is not a record, or a malformed one."""
    if not tag.startswith(PREFIX):
        return None
    sort, *parts = tag.removeprefix(PREFIX).split(":")
    outcome = None
    if sort == _RESULT and len(parts) == 5:
        outcome = _OUTCOMES.get(parts.pop(3))
        if outcome is None:
            return None
    elif sort != _PENDING or len(parts) != 4:
        return None
    word, ident, time, text = parts
    jobs = text.split(_SEPARATOR) if text else []
    if word not in _KINDS or not ident or not _TIME.fullmatch(time) or not all(map(_JOB.fullmatch, jobs)):
        return None
    return Record(_KINDS[word], ident, int(time), tuple(map(int, jobs)), outcome)


class Condition(enum.Enum):
    """How an instance is, in the words of messages."""

    FAILED = "Failure"
    HEALTHY = "Healthy"
    NEEDS_REPAIR = "Needs repair"
    PENDING = "Pending repair"


class Status(NamedTuple):
    """The condition of an instance, and the tags that the next record replaces, the newest first."""

    condition: Condition
    record: Record | None = None
    obsolete: tuple[str, ...] = ()


class Contradiction(Exception):
    """The tags of an instance record a repair beside one whose jobs may still run; ``tag`` is the latter's."""

    def __init__(self, tag: str):
        super().__init__(tag)
        self.tag = tag


_CONDITIONS: Final = {
    None: Condition.PENDING,
    Outcome.ENOPERM: Condition.HEALTHY,
    Outcome.SUCCESS: Condition.HEALTHY,
    Outcome.FAILURE: Condition.FAILED,
}


def StatusOf(tags: Iterable[str]) -> Status:
    """Return what the tags of an instance say of its repairs; raises Contradiction."""
    repairs: dict[str, list[tuple[Record, str]]] = {}
    for tag in tags:
        record = ParseRecord(tag)
        if record is not None:
            repairs.setdefault(record.id, []).append((record, tag))
    status = Status(Condition.HEALTHY)
    for repair in sorted(repairs.values(), key=lambda repair: min(record.time for record, _ in repair)):
        if status.condition is Condition.FAILED:
            break
        if status.condition is Condition.PENDING:
            raise Contradiction(status.obsolete[0])
        repair.sort(key=lambda pair: pair[0].rank, reverse=True)
        newest = repair[0][0]
        status = Status(_CONDITIONS[newest.outcome], newest, (*(tag for _, tag in repair), *status.obsolete))
    return status


# --- what is wrong, and what is done about it ---------------------------------------------------------------------------


class Repair(NamedTuple):
    kind: Kind
    opcodes: Sequence[dict[str, Any]]


def Needed(cluster: Cluster, inst: Instance) -> Repair | None:
    """Return the repair that an instance needs because nodes are offline or drained; None for those that run well."""
    nodes = cluster.state.nodes
    primary_lost = nodes[inst.primary].offline
    if inst.template == PLAIN:
        return _Reinstall(inst) if primary_lost else None
    if inst.template != DRBD:
        return None
    secondary_lost = nodes[inst.secondary].offline if inst.secondary in nodes else False
    if primary_lost and secondary_lost:
        return _Reinstall(inst)
    if primary_lost:
        return Repair(Kind.FAILOVER, [solution.FailoverOpcode(inst.name)])
    if secondary_lost:
        return Repair(Kind.FIX_STORAGE, [solution.ReplaceOpcode(inst.name, iallocator=ALLOCATOR)])
    return None


def _Reinstall(inst: Instance) -> Repair:
    disks = {
        "OP_ID": "OP_INSTANCE_RECREATE_DISKS",
        "instance_name": inst.name,
        "disks": [],
        "nodes": [],
        "iallocator": ALLOCATOR,
    }
    system = {"OP_ID": "OP_INSTANCE_REINSTALL", "instance_name": inst.name, "force_variant": False}
    return Repair(Kind.REINSTALL, [disks, system])


def Delay(seconds: float) -> dict[str, Any]:
    """Return the opcode that goes before a repair, so that its record is written before the instance is locked."""
    return {
        "OP_ID": "OP_TEST_DELAY",
        "duration": seconds,
        "on_master": True,
        "on_nodes": [],
        "repeat": 0,
        "interruptible": False,
        "no_locks": False,
    }
