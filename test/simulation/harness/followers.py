"""Clients that follow the events of simulated masters: none may be lost, and none invented.

What a follower knows comes from events alone, after it has read everything once, as it does again when it is told that
events are missing.  In the end, when all is quiet, that must be what is stored.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from simulated import World
from simulation.harness.cluster import Cluster, Parts
from simulation.harness.faults import FAULTS
from simulation.harness.jobs import (
    JOBS_PER_RUN,
    MAX_STEPS,
    WORKERS,
    Executor,
    JobClients,
    JobLedger,
    JobsResult,
)
from simulation.harness.ledger import Violation
from simulation.harness.play import Judged, Length, Work
from simulation.harness.run import Heal, Settle
from support import configs

from ganeti import errors, objects, runtime, serializer
from ganeti.config import ConfigWriter
from ganeti.jqueue import JobQueue
from ganeti.jqueue import job as jobs
from ganeti.server.eventring import EventRing
from ganeti.store import Epoch, Row, Store

_LENGTH = Length(steps_with_faults=6000, seconds=120.0, max_steps=MAX_STEPS)
_SHOWN = frozenset(["instance", "cluster"])

# What a follower knows: a job's number -> statuses of its opcodes; an object's UUID -> its serial number.
Known = dict[Any, Any]


class EventLedger:
    """What was acknowledged, and what followers say."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self.versions: set[tuple[Any, Any]] = set()
        self.stored: Known = {}
        self.told: list[dict[str, Any]] = []
        self.newest: Known = {}
        self.last: str | None = None
        self._epoch: Epoch | None = None
        self.resumed = 0

    def Adopted(self, store: Store) -> None:
        """A master begins with these rows."""
        if self._epoch is None or store.Epoch() > self._epoch:
            self._epoch = store.Epoch()
            self.newest = {}
        kinds = ("job", "instance", "cluster")
        rows = [Row(kind, key, text) for kind in kinds for key, text in store.Rows(kind).items()]
        self.Acknowledged(store.Epoch(), rows)

    def Acknowledged(self, epoch: Epoch, rows: Sequence[Row]) -> None:
        """A master shows these rows; one that was paused may do so after another has gone on from them."""
        for row in rows:
            if row.value is None or row.kind not in ("job", "instance", "cluster"):
                continue
            value = serializer.Load(row.value)
            if row.kind == "job":
                key, version = int(row.id), tuple(op["status"] for op in value["ops"])
            else:
                key, version = value["uuid"], value["serial_no"]
            if epoch == self._epoch:
                self.stored[key] = version
            self.versions.add((key, version))

    def Knows(self, epoch: Epoch, last: str, known: Known) -> None:
        """Take down what a follower knows after an event."""
        if epoch == self._epoch:
            self.last, self.newest = last, dict(known)

    def Check(self, right: bool, text: str) -> None:
        if not right:
            self._cluster.Check(_Fail, text)

    def CheckEnd(self) -> None:
        for event in self.told:
            if event["kind"] == "job":
                version = (event["job"], tuple(event["opstatus"]))
            else:
                version = (event["uuid"], event["serial_no"])
            if version not in self.versions:
                raise Violation(f"an event was invented: {event}")
        if self.newest != self.stored:
            wrong = {key: (self.newest.get(key), seen) for key, seen in self.stored.items()}
            raise Violation(f"events were lost: {[k for k, (a, b) in wrong.items() if a != b]}")


def _Fail(text: str) -> None:
    raise Violation(text)


class Followers(JobClients):
    """Clients that submit jobs, one that changes the configuration, and one that follows everything."""

    def __init__(
        self, rng: random.Random, count: int, ring_class: type[EventRing], queue_class: type[JobQueue] = JobQueue
    ):
        super().__init__(rng, count, queue_class)
        self._ring_class = ring_class
        self._parts: dict[JobQueue, tuple[Epoch, EventRing, ConfigWriter]] = {}
        self.events: Any = None

    def FirstRows(self) -> list[Row]:
        return [Row(*row) for row in configs.Example().ToRows()]

    def _MakeQueue(self, store: Store, executor: Executor) -> JobQueue:
        ledger: EventLedger = self.events
        ledger.Adopted(store)
        epoch = store.Epoch()
        store.Listen(lambda _position, rows: ledger.Acknowledged(epoch, rows))
        cfg = ConfigWriter(store)
        ring = self._ring_class(store.Epoch(), cfg.Snapshot)
        ring.Start(store)
        queue = self._queue_class(store, executor, lambda: (WORKERS, {}), announce=ring.JobChanged)
        self._parts[queue] = (epoch, ring, cfg)
        return queue

    def _AlsoServe(self, queue: JobQueue, ended: Any) -> None:
        epoch, ring, cfg = self._parts.pop(queue)
        runtime.Thread(self._FollowAll, "follower", (epoch, ring, queue, cfg, ended)).start()
        runtime.Thread(self._ChangeConfig, "administrator", (cfg, ended)).start()

    def _ChangeConfig(self, cfg: ConfigWriter, ended: Any) -> None:
        rng = self._rng
        number = 0
        while self._left > 0 and not ended.is_set():
            runtime.Sleep(rng.uniform(0.1, 3.0))
            number += 1
            kind, uuid = rng.choice((("instance", configs.WEB), ("cluster", cfg.Snapshot().cluster.uuid)))
            try:
                cfg.AddTags(kind, uuid, [f"tag-{rng.randint(0, 9)}"])
            except errors.GenericError:
                return

    def _FollowAll(self, epoch: Epoch, ring: EventRing, queue: JobQueue, cfg: ConfigWriter, ended: Any) -> None:
        ledger: EventLedger = self.events
        last = ledger.last
        ledger.resumed += last is not None
        known: Known | None = None
        while not ended.is_set():
            answer = serializer.Load(ring.Wait(last, None, 20.0).Result(200).text)
            if last is None or answer["missed"]:
                last = answer["last"]
                known = _ReadAll(queue, cfg.Snapshot())
                ledger.Knows(epoch, last, known)
                continue
            ledger.Check(known is not None, f"an id of another master was accepted: {last}")
            for event in answer["events"]:
                ledger.Check(_Number(event["id"]) == _Number(str(last)) + 1, f"{event['id']} follows {last}")
                last = event["id"]
                ledger.told.append(event)
                _Learn(known or {}, event)
            ledger.Check(last == answer["last"], f"the answer ends at {answer['last']}, its events at {last}")
            ledger.Knows(epoch, last, known or {})
            runtime.Sleep(self._rng.choice((0.0, 0.0, 0.5)))


def _Number(event_id: str) -> int:
    return int(event_id.rpartition("-")[2])


def _ReadAll(queue: JobQueue, root: objects.Snapshot) -> Known:
    known: Known = {root.cluster.uuid: root.cluster.serial_no}
    known.update({inst.uuid: inst.serial_no for inst in root.instances.values()})
    known.update({number: tuple(statuses) for number, statuses in queue.QueryJobs(None, ["id", "opstatus"])})
    return known


def _Learn(known: Known, event: dict[str, Any]) -> None:
    if event["kind"] == "job":
        known[event["job"]] = tuple(event["opstatus"])
    elif event["kind"] in _SHOWN:
        known[event["uuid"]] = event["serial_no"]


def RunEvents(seed: int, parts: Any = EventRing, faults: int = 3, count: int = JOBS_PER_RUN) -> JobsResult:
    """One seed; ``parts``: the class of the ring, or of the queue, with a bug perhaps."""
    result = JobsResult(seed)
    ring, queue = (parts, JobQueue) if issubclass(parts, EventRing) else (EventRing, parts)
    with World(seed) as world:
        rng = random.Random(f"events {seed}")
        nodes = rng.choice((1, 2, 3, 3))
        workload = Followers(rng, count, ring, queue)
        cluster = Cluster(world, nodes, nodes, workload, Parts)
        workload.ledger = JobLedger(cluster)
        workload.events = events = EventLedger(cluster)
        with Judged(cluster, result):
            cluster.Found()
            cluster.Supervise()
            Work(cluster, rng, FAULTS, faults, _LENGTH, result)
            Heal(cluster)
            _Finish(world, cluster, workload)
            Settle(cluster)
            events.CheckEnd()
        result.executed = len(events.told)
        result.outcomes = {"events": len(events.told), "resumed": events.resumed}
    return result


def _Finish(world: World, cluster: Cluster, workload: Followers) -> None:
    """The follower must hear of everything without anybody's help."""
    deadline = world.elapsed + 300.0
    events = workload.events

    def over() -> bool:
        return cluster.violation is not None or world.elapsed > deadline

    world.Run(
        until=lambda: (workload.ledger.IsQuiet() and events.newest == events.stored) or over(), max_steps=MAX_STEPS
    )


# --- bugs planted on purpose ------------------------------------------------------------------------------------------


class TakesAnyEpoch(EventRing):
    """Takes the number of an older master's id for one of its own."""

    def _Seen(self, last_id: str) -> int:
        return min(int(last_id.rpartition("-")[2]), self._last)


class ForgetsWhileNobodyWaits(EventRing):
    """Drops what happens while nobody waits."""

    def _Note(self, changes: list[Any]) -> None:
        if self._waiters:
            super()._Note(changes)


class AnswersTooFar(EventRing):
    """Says that a waiter has seen what came while its answer was made."""

    def _Answer(self, found: Any) -> Any:
        return super()._Answer(found._replace(kept=found.kept and found.kept[:2]))


class AnnouncesUnstored(JobQueue):
    """Announces a job before it is stored."""

    def SubmitJob(self, ops: Sequence[Any], to_drained: bool = False) -> Any:
        pending = super().SubmitJob(ops, to_drained)
        number = self._submitter.last_id
        self._announce(number, None, jobs.Job(number, [jobs.OpState(jobs.OpInput(op)) for op in ops], None))
        return pending


BUGS: tuple[type, ...] = (TakesAnyEpoch, ForgetsWhileNobodyWaits, AnswersTooFar, AnnouncesUnstored)
