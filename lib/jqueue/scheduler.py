"""Which job a free worker takes next.

::

    Add --+--> blocked: a job it depends on has not ended
          |       |
          +-------+--> ready: heap by (priority, arrival) --Next()--> a worker
                          ^   |
                          |   +--> held: a rule or limit says not now
                          +--------- when something ended or rules changed

Everything happens in memory under one lock that is held for microseconds.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import runtime
from ganeti.jqueue import filters

if TYPE_CHECKING:
    from ganeti.jqueue.entry import Entry

DEFAULT_MAX_RUNNING = 20


class _Place:
    """Where the scheduler has a job; replaced when the job moves, so that an old place in the heap is void."""

    __slots__ = ("entry", "order")

    def __init__(self, entry: Entry, order: int):
        self.entry = entry
        self.order = order


class Scheduler:
    """Hands out jobs, each to one worker at a time."""

    def __init__(self, reject: Callable[[Entry], None]):
        self._reject = reject
        self._lock = runtime.Lock()
        self._work = runtime.Condition(self._lock)
        self._idle = runtime.Condition(self._lock)
        self._counter = itertools.count()
        self._pushes = itertools.count()
        self._heap: list[tuple[int, int, int, _Place]] = []
        self._places: dict[int, _Place] = {}
        self._held: set[int] = set()
        self._blocked: dict[int, set[int]] = {}
        self._dependants: dict[int, set[int]] = {}
        self._entries: dict[int, Entry] = {}
        self._started: dict[int, filters.Verdict] = {}
        self._taken: dict[Any, int] = {}
        self._busy: dict[int, Entry] = {}
        self._rules = filters.RuleSet()
        self._max_running = DEFAULT_MAX_RUNNING
        self._active = False
        self._stopped = False

    # --- life ---------------------------------------------------------------------------------------------------------

    def SetActive(self, active: bool) -> None:
        """Inactive: no worker gets anything, jobs are still taken in."""
        with self._lock:
            self._active = active
            self._work.notify_all()

    def Stop(self) -> None:
        """Sends all workers home."""
        with self._lock:
            self._stopped = True
            self._work.notify_all()

    def Busy(self) -> list[int]:
        """Jobs that workers are at."""
        with self._lock:
            return sorted(self._busy)

    def WaitIdle(self, timeout: float) -> bool:
        """Waits until no worker is at a job."""
        deadline = runtime.Monotonic() + timeout
        with self._lock:
            while self._busy:
                left = deadline - runtime.Monotonic()
                if left <= 0:
                    return False
                self._idle.wait(left)
        return True

    def SetRules(self, rules: filters.RuleSet | None, max_running: int) -> None:
        """Takes new rules (None: as they are) and the number of jobs that may run."""
        with self._lock:
            entries = list(self._entries.values()) if rules is not None else []
        verdicts = {e.id: rules.Judge(e.draft) for e in entries} if rules is not None else {}
        rejected = []
        with self._lock:
            self._max_running = max_running
            if rules is not None:
                self._rules = rules
                for entry in self._entries.values():
                    entry.verdict = verdicts.get(entry.id) or rules.Judge(entry.draft)
                rejected = self._RecountLimits()
            self._ReleaseHeld()
            self._work.notify_all()
        for entry in rejected:
            self._reject(entry)

    def _RecountLimits(self) -> list[Entry]:
        """Counts anew who runs under the new rules; returns those that must not."""
        self._taken.clear()
        for job_id in self._started:
            self._started[job_id] = self._entries[job_id].verdict
            self._Take(self._started[job_id], 1)
        return [self._entries[n] for n, verdict in self._started.items() if verdict.action == filters.REJECT]

    # --- jobs come and go ---------------------------------------------------------------------------------------------

    def Add(self, entries: Sequence[tuple[Entry, Iterable[int]]]) -> None:
        """Takes in queued jobs, each with the jobs it depends on that have not ended."""
        rules = self._rules
        verdicts = [rules.Judge(entry.draft) for entry, _ in entries]
        with self._lock:
            for (entry, unfinished), verdict in zip(entries, verdicts, strict=True):
                entry.verdict = verdict if rules is self._rules else self._rules.Judge(entry.draft)
                self._entries[entry.id] = entry
                blockers = set(unfinished)
                if not blockers:
                    self._MakeReady(entry)
                    continue
                self._blocked[entry.id] = blockers
                for job_id in blockers:
                    self._dependants.setdefault(job_id, set()).add(entry.id)

    def Release(self, entry: Entry, again: bool) -> None:
        """A worker is done with a job for now; ``again``: it goes on later."""
        with self._lock:
            self._busy.pop(entry.id, None)
            if again and entry.id in self._entries:
                self._MakeReady(entry)
            if not self._busy:
                self._idle.notify_all()
            self._work.notify()  # there may be one that waited for a slot

    def Ended(self, job_id: int) -> None:
        """A job is final: it is forgotten, what waits for it may go on."""
        with self._lock:
            entry = self._entries.pop(job_id, None)
            if entry is not None:
                self._places.pop(job_id, None)
                self._held.discard(job_id)
                for blocker in self._blocked.pop(job_id, ()):
                    self._dependants.get(blocker, set()).discard(job_id)
                verdict = self._started.pop(job_id, None)
                if verdict is not None and verdict.limits:
                    self._Take(verdict, -1)
                    self._ReleaseHeld()
            for dependant in self._dependants.pop(job_id, ()):
                blockers = self._blocked[dependant]
                blockers.discard(job_id)
                if not blockers:
                    del self._blocked[dependant]
                    self._MakeReady(self._entries[dependant])

    def Reprioritise(self, entry: Entry) -> None:
        """The job's priority has changed; it keeps its place among those of the new one."""
        with self._lock:
            place = self._places.get(entry.id)
            if place is not None and entry.id not in self._held:
                self._Push(entry, place.order)

    # --- workers ------------------------------------------------------------------------------------------------------

    def Next(self) -> Entry | None:
        """Waits for a job that may run now; None when it is over."""
        while True:
            with self._lock:
                rejected: Entry | None = None
                entry: Entry | None = None
                while not self._stopped:
                    if self._active and len(self._busy) < self._max_running:
                        entry, rejected = self._Pick()
                        if entry is not None or rejected is not None:
                            break
                    self._work.wait()
                if entry is not None:
                    return entry
                if rejected is None:
                    return None
            self._reject(rejected)

    def _Pick(self) -> tuple[Entry | None, Entry | None]:
        """The most urgent job that may run, or one that a rule rejects."""
        while self._heap:
            *_, place = heapq.heappop(self._heap)
            entry = place.entry
            if self._places.get(entry.id) is not place:
                continue
            if entry.id in self._started:
                return self._Hand(entry), None
            verdict = entry.verdict
            if verdict.action == filters.REJECT:
                self._held.add(entry.id)
                return None, entry
            full = any(self._taken.get(bucket, 0) >= limit for bucket, limit in verdict.limits)
            if verdict.action == filters.PAUSE or full:
                self._held.add(entry.id)
                continue
            self._started[entry.id] = verdict
            self._Take(verdict, 1)
            return self._Hand(entry), None
        return None, None

    def _Hand(self, entry: Entry) -> Entry:
        del self._places[entry.id]
        self._busy[entry.id] = entry
        return entry

    # --- with the lock held -------------------------------------------------------------------------------------------

    def _Take(self, verdict: filters.Verdict, number: int) -> None:
        for bucket, _limit in verdict.limits:
            self._taken[bucket] = self._taken.get(bucket, 0) + number
            if not self._taken[bucket]:
                del self._taken[bucket]

    def _MakeReady(self, entry: Entry) -> None:
        self._Push(entry, next(self._counter))

    def _Push(self, entry: Entry, order: int) -> None:
        place = _Place(entry, order)
        self._places[entry.id] = place
        # The last number keeps places apart that are equal otherwise: an old and a new one of the same job.
        heapq.heappush(self._heap, (entry.draft.priority, order, next(self._pushes), place))
        self._work.notify()

    def _ReleaseHeld(self) -> None:
        held, self._held = self._held, set()
        for job_id in sorted(held):
            self._Push(self._entries[job_id], self._places[job_id].order)
