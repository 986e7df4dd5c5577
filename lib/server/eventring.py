"""The numbered events of this master, and those who wait for them (LUXI's ``WaitForEvents``, doc/design-rapi.rst).

::

    committer's thread: a transaction was acknowledged
        --JobChanged, _Transaction--> backlog of (before, after): references only
                                        |  soon, on the events' own thread
                                        v
                                  ring of events --> waiters: each gets what follows the last id it saw

The number of an event belongs to this master's epoch, so an id of an older master is never taken for one of this.  Whoever
asks for what follows an id that is not in the ring gets ``missed``, and reads everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import objects, runtime, serializer
from ganeti.jqueue.ticker import Ticker, Timer
from ganeti.luxi import events
from ganeti.luxi.pending import Completed, Pending
from ganeti.luxi.pieces import Encoded
from ganeti.store.base import Epoch

if TYPE_CHECKING:
    from ganeti.jqueue.job import Job
    from ganeti.store import Position, Row, Store

MAX_EVENTS = 10_000
MAX_CHARACTERS = 8 * 1024 * 1024
"""Characters of JSON of all events that are kept."""

MAX_BACKLOG = 20_000
"""Changes that may wait to become events; what comes beyond that is missing in the ring, and clients get ``missed``."""

MAX_ANSWER = 1000
MAX_TIMEOUT = 89.0
HOLD_BACK = 0.005
"""Seconds between two deliveries: what happens meanwhile is delivered together."""

IDLE = 0.25
"""Seconds that changes may wait while nobody waits for them."""

# Kind of row -> kind of event; the row of the top level changes with every other one.
_ROW_KINDS = {
    "instance": "instance",
    "node": "node",
    "nodegroup": "group",
    "network": "network",
    "cluster": "cluster",
    "filter": "filter",
    "disk": "disk",
}


class _Found(NamedTuple):
    """What somebody is answered: events as (number, JSON text), None if some are missing, and the last one that is known."""

    last: int
    kept: list[tuple[int, bytes]] | None


class _Lines:
    """Lines in one piece of memory, the newest at the end.

    As objects of their own they would lie between all that comes and goes with jobs, and pin memory that is free
    otherwise.  A bytearray gives up its beginning and takes more at its end without being copied each time.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return len(self._data)

    def Append(self, line: bytes) -> None:
        self._data += line + b"\n"
        self._count += 1

    def DropOldest(self) -> None:
        del self._data[: self._data.index(b"\n") + 1]
        self._count -= 1

    def Clear(self) -> None:
        self._data = bytearray()
        self._count = 0

    def NewestFirst(self) -> Iterator[bytes]:
        end = len(self._data) - 1
        while end > 0:
            begin = self._data.rfind(b"\n", 0, end) + 1
            yield bytes(self._data[begin:end])
            end = begin - 1


class _Change(NamedTuple):
    """A change in the backlog: ``key`` is the job's number, or kind and uuid of an object."""

    time: float
    key: Any
    before: Any
    after: Any


class _Waiter:
    """Somebody who has seen everything up to the event ``seen``."""

    __slots__ = ("kinds", "pending", "seen", "timer")

    def __init__(self, seen: int, kinds: Collection[str] | None, pending: Pending):
        self.seen = seen
        self.kinds = kinds
        self.pending = pending
        self.timer: Timer | None = None


class EventRing:
    """The newest events of one master.

    ``JobChanged`` and the store's transactions come on the committer's thread and cost the same however many jobs or
    waiters there are.
    """

    def __init__(self, epoch: Epoch, snapshot: Callable[[], objects.Snapshot]):
        self._epoch = str(epoch)
        self._snapshot = snapshot
        self._shown = snapshot()
        # Versions before and after the transaction that is being published, by the job's number.
        self._jobs: dict[int, tuple[Job | None, Job | None]] = {}
        self._ticker = Ticker("Events")
        # Held while changes become events, which takes time, so that these are numbered in their order; never by the committer.
        self._numbering = runtime.Lock()
        # Guards everything below; held for moments, and taken after the other.
        self._lock = runtime.Lock()
        self._backlog: list[_Change] = []
        self._overflow = False
        # Each line is a kind, a space and the JSON text without the id; the newest one is number _last.
        self._ring = _Lines()
        self._last = 0
        self._missing_to = 0
        """The newest event that is no longer in the ring, or never was."""
        self._waiters: list[_Waiter] = []
        self._delivery: Timer | None = None
        self._hurried = False
        self._delivered_at = 0.0
        self._stopped = False

    def Start(self, store: Store) -> None:
        self._shown = self._snapshot()
        store.Listen(self._Transaction)
        self._ticker.Start()

    def Stop(self) -> None:
        """Answer everybody with what there is."""
        with self._lock:
            self._stopped = True
        self._ticker.Stop()
        self._Deliver()
        with self._lock:
            answers = [(waiter, self._Now(waiter)) for waiter in self._waiters]
            self._waiters = []
        for waiter, found in answers:
            waiter.pending.Complete(self._Answer(found))

    # --- on the committer's thread ------------------------------------------------------------------------------------

    def JobChanged(self, job_id: int, before: Job | None, after: Job | None) -> None:
        """Take note of a version of a job; None stands for a job that is not live.  Its transaction is noted next.

        One transaction may hold several changes of a job, of which only the last one was ever stored.
        """
        first = self._jobs.get(job_id)
        self._jobs[job_id] = (before if first is None else first[0], after)

    def _Transaction(self, _position: Position, rows: Sequence[Row]) -> None:
        keys = {(row.kind, row.id) for row in rows if row.kind in _ROW_KINDS}
        if not keys and not self._jobs:
            return
        now = runtime.Time()
        changes: dict[Any, _Change] = {}
        for job_id, (old, new) in self._jobs.items():
            changes[job_id] = _Change(now, job_id, old, new)
        self._jobs = {}
        before, after = self._shown, self._snapshot()
        self._shown = after
        for kind, uuid in sorted(keys):
            key = _Belonging(kind, uuid, before, after)
            changes[key] = _Change(now, key, before.Find(*key), after.Find(*key))
        self._Note(list(changes.values()))

    def _Note(self, changes: list[_Change]) -> None:
        with self._lock:
            if len(self._backlog) + len(changes) > MAX_BACKLOG:
                self._overflow = True
            else:
                self._backlog.extend(changes)
            self._DeliverSoon()

    def _DeliverSoon(self) -> None:
        """Have changes delivered: at once if somebody waits, unless that was done just now."""
        hurry = bool(self._waiters)
        if self._stopped or (self._delivery is not None and (self._hurried or not hurry)):
            return
        if self._delivery is not None:
            self._delivery.Cancel()
        self._hurried = hurry
        delay = self._delivered_at + HOLD_BACK - runtime.Monotonic() if hurry else IDLE
        self._delivery = self._ticker.After(max(delay, 0.0), self._Deliver)

    # --- from changes to events ---------------------------------------------------------------------------------------

    def _Deliver(self) -> None:
        """Number what has changed, and answer those who have something new."""
        answers = []
        with self._lock:
            if self._delivery is not None:
                self._delivery.Cancel()
                self._delivery = None
            if self._waiters:
                self._delivered_at = runtime.Monotonic()
        self._Number()
        with self._lock:
            for waiter in list(self._waiters):
                found = self._Now(waiter)
                if found.kept is not None and not found.kept:
                    waiter.seen = self._last
                    continue
                self._waiters.remove(waiter)
                answers.append((waiter, found))
        for waiter, found in answers:
            if waiter.timer is not None:
                waiter.timer.Cancel()
            waiter.pending.Complete(self._Answer(found))

    def _Number(self) -> None:
        """Make events of the backlog."""
        with self._numbering:
            with self._lock:
                backlog, self._backlog = self._backlog, []
                overflow, self._overflow = self._overflow, False
            lines = [line for line in map(_Line, backlog) if line is not None]
            with self._lock:
                self._Keep(lines, overflow)

    def _Keep(self, lines: list[bytes], overflow: bool) -> None:
        """Put events into the ring; with ``overflow`` what came after them is missing."""
        for line in lines:
            self._last += 1
            self._ring.Append(line)
        if overflow:
            self._last += 1
            self._missing_to = self._last
            self._ring.Clear()
        while len(self._ring) > MAX_EVENTS or self._ring.size > MAX_CHARACTERS:
            self._ring.DropOldest()
            self._missing_to = self._last - len(self._ring)

    def _After(self, seen: int, kinds: Collection[str] | None) -> _Found:
        """Return the events after the one seen."""
        if not self._missing_to <= seen <= self._last:
            return _Found(self._last, None)
        kept: list[tuple[int, bytes]] = []
        # The ring has every event after _missing_to, so that the numbers end first.
        for number, line in zip(range(self._last, seen, -1), self._ring.NewestFirst(), strict=False):
            kind, _, text = line.partition(b" ")
            if kinds is None or kind.decode() in kinds:
                kept.append((number, text))
        kept.reverse()
        if len(kept) < MAX_ANSWER:
            return _Found(self._last, kept)
        return _Found(kept[MAX_ANSWER - 1][0], kept[:MAX_ANSWER])

    def _Now(self, waiter: _Waiter) -> _Found:
        """Return what follows the event that a waiter has seen: every one up to the last that it names."""
        return self._After(waiter.seen, waiter.kinds)

    def _Answer(self, found: _Found) -> Encoded:
        """Return the answer of ``WaitForEvents``.

        The texts are put together as they are: whoever asks for many old events again and again costs little.
        """
        head = serializer.DumpBytes({"last": f"{self._epoch}-{found.last}", "missed": found.kept is None})
        id_of_all = b'{"id":' + serializer.DumpBytes(f"{self._epoch}-")[:-1]
        events = b",".join(b'%b%d",%b' % (id_of_all, number, text[1:]) for number, text in found.kept or ())
        return Encoded.FromText(b'%b,"events":[%b]}' % (head[:-1], events))

    # --- waiting ------------------------------------------------------------------------------------------------------

    def Wait(self, last_id: str | None, kinds: Sequence[str] | None, timeout: float) -> Pending:
        """Return the answer of ``WaitForEvents``, given at once or later."""
        self._Number()
        with self._lock:
            seen = self._last if last_id is None else self._Seen(last_id)
            chosen = None if kinds is None else frozenset(kinds)
            found = self._After(seen, chosen)
            at_once = found.kept is None or found.kept or last_id is None or timeout <= 0 or self._stopped
            if not at_once:
                pending = Pending()
                waiter = _Waiter(self._last, chosen, pending)
                self._waiters.append(waiter)
                waiter.timer = self._ticker.After(min(timeout, MAX_TIMEOUT), lambda: self._Expire(waiter))
                if self._backlog or self._overflow:  # noted since the numbering, when nobody waited
                    self._DeliverSoon()
        if at_once:
            return Completed(self._Answer(found))
        pending.OnAbandon(lambda: self._Forget(waiter))
        return pending

    def _Seen(self, last_id: str) -> int:
        """Return the number in an id; -1 for one that is not of this master."""
        epoch, _, number = last_id.rpartition("-")
        if epoch != self._epoch or not (number.isascii() and number.isdigit() and len(number) < 20):
            return -1
        return int(number)

    def _Expire(self, waiter: _Waiter) -> None:
        """Answer with what there is: the time is over."""
        self._Deliver()
        with self._lock:
            if waiter not in self._waiters:
                return
            self._waiters.remove(waiter)
            found = self._Now(waiter)  # others may have numbered events since the delivery
        waiter.pending.Complete(self._Answer(found))

    def _Forget(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter not in self._waiters:
                return
            self._waiters.remove(waiter)
        if waiter.timer is not None:
            waiter.timer.Cancel()


def _Belonging(kind: str, uuid: str, before: objects.Snapshot, after: objects.Snapshot) -> tuple[str, str]:
    """Return kind and uuid of what has changed for people: a disk is part of its instance."""
    if kind == "disk":
        owner = after.DiskOwner(uuid) or before.DiskOwner(uuid)
        if owner is not None:
            return "instance", owner
    return kind, uuid


def _Line(change: _Change) -> bytes | None:
    """Return kind and JSON of the event that a change makes, without its number; None if nobody sees a difference."""
    made = _Describe(change)
    if made is None:
        return None
    return f"{made['kind']} ".encode() + serializer.DumpBytes({"time": change.time, **made})


def _Describe(change: _Change) -> events.Event | None:
    """Return what an event says of a change; None if nobody sees a difference."""
    if change.before is None and change.after is None:
        return None
    what = events.ADDED if change.before is None else events.REMOVED if change.after is None else events.CHANGED
    if isinstance(change.key, int):
        return _DescribeJob(what, change)
    kind = change.key[0]
    shown = (change.after or change.before).__dict__
    name = shown.get("cluster_name") if kind == "cluster" else shown.get("name")
    return {
        "kind": _ROW_KINDS[kind],
        "change": what,
        "uuid": shown["uuid"],
        "name": name,
        "serial_no": shown.get("serial_no"),
    }


def _DescribeJob(what: str, change: _Change) -> events.Event | None:
    job: Job = change.after or change.before
    if what == events.CHANGED and _States(change.before) == _States(job):
        return None
    shown = job.ops[: events.MAX_SHOWN_OPCODES]
    return {
        "kind": events.JOB,
        "change": what,
        "job": job.id,
        "status": job.status,
        "opstatus": [op.status for op in shown],
        "summary": [op.input.summary for op in shown],
        "opcodes": len(job.ops),
    }


def _States(job: Job) -> tuple[Any, ...]:
    return (job.status, *(op.status for op in job.ops))
