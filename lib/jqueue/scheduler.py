"""Decide which job a free worker takes next.

::

    Add --+--> blocked: a job it depends on has not ended, or no filter rule has judged it yet
          |       |
          +-------+--> ready: heap by (priority, arrival) --Next()--> a worker
                          ^   |
                          |   +--> paused: until other rules come
                          |   +--> waiting: until a slot of its rate limits is free
                          +--------- as many as may start now

Everything happens in memory under one lock that is held for microseconds, however many jobs there are: the end of a job
releases only as many waiting ones as there are slots, a worker looks at a few jobs before it gives the lock back, and
filter rules are judged outside the lock, on a thread of the queue's.

Urgent jobs (of opcodes that say so) have workers of their own: neither the limit of running jobs nor a rule holds them.
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
# Jobs that are looked at, and judged, in one go.
_SLICE = 100


class _Place:
    """Where the scheduler has a job; replaced when the job moves, so that an old place in a heap is void."""

    __slots__ = ("entry", "order")

    def __init__(self, entry: Entry, order: int):
        self.entry = entry
        self.order = order


class _Heap:
    """Places by priority and arrival."""

    __slots__ = ("_items",)

    # Keeps items apart that are equal otherwise: an old and a new place of the same job.
    _pushes = itertools.count()

    def __init__(self) -> None:
        self._items: list[tuple[int, int, int, _Place]] = []

    def __len__(self) -> int:
        return len(self._items)

    def Push(self, place: _Place) -> None:
        heapq.heappush(self._items, (place.entry.draft.priority, place.order, next(self._pushes), place))

    def Pop(self) -> _Place:
        return heapq.heappop(self._items)[3]


class _RateLimits:
    """The slots of rate limits, and the jobs that wait for one.

    Jobs with the same limits wait together: if the first of them cannot start, none can.
    """

    def __init__(self, is_valid: Callable[[_Place], bool]):
        self._is_valid = is_valid
        self._taken: dict[Any, int] = {}
        self._waiting: dict[filters.Limits, _Heap] = {}
        self._by_bucket: dict[Any, set[filters.Limits]] = {}

    def Free(self, limits: filters.Limits) -> int:
        """Return how many more jobs with these limits may start."""
        return min(limit - self._taken.get(bucket, 0) for bucket, limit in limits)

    def Take(self, limits: filters.Limits, number: int) -> None:
        for bucket, _limit in limits:
            self._taken[bucket] = self._taken.get(bucket, 0) + number
            if not self._taken[bucket]:
                del self._taken[bucket]

    def Wait(self, place: _Place, limits: filters.Limits) -> None:
        if limits not in self._waiting:
            self._waiting[limits] = _Heap()
            for bucket, _limit in limits:
                self._by_bucket.setdefault(bucket, set()).add(limits)
        self._waiting[limits].Push(place)

    def Release(self, limits: filters.Limits) -> list[_Place]:
        """Return the waiting jobs that may start now that slots of these limits may have become free."""
        released = []
        for bucket, _limit in limits:
            for waiting in list(self._by_bucket.get(bucket, ())):
                released += self._ReleaseSome(waiting, self.Free(waiting))
        return released

    def _ReleaseSome(self, limits: filters.Limits, number: int) -> list[_Place]:
        heap = self._waiting[limits]
        released: list[_Place] = []
        while heap and len(released) < number:
            place = heap.Pop()
            if self._is_valid(place):
                released.append(place)
        if not heap:
            del self._waiting[limits]
            for bucket, _limit in limits:
                self._by_bucket[bucket].discard(limits)
                if not self._by_bucket[bucket]:
                    del self._by_bucket[bucket]
        return released


class Scheduler:
    """Hand out jobs, each to one worker at a time.

    ``reject(entry)`` ends a job that a rule forbids; ``judge_soon()`` makes another thread call ``Judge``.
    """

    def __init__(self, reject: Callable[[Entry], None], judge_soon: Callable[[], object]):
        self._reject = reject
        self._judge_soon = judge_soon
        self._lock = runtime.Lock()
        self._work = runtime.Condition(self._lock)
        self._urgent_work = runtime.Condition(self._lock)
        self._idle = runtime.Condition(self._lock)
        self._counter = itertools.count()
        self._ready = _Heap()
        self._urgent = _Heap()
        self._limits = _RateLimits(self._IsValid)
        self._places: dict[int, _Place] = {}
        self._waiting: dict[int, filters.Limits] = {}
        self._paused: set[int] = set()
        self._blocked: dict[int, set[int]] = {}
        self._dependants: dict[int, set[int]] = {}
        self._entries: dict[int, Entry] = {}
        self._urgent_jobs: set[int] = set()
        self._started: dict[int, filters.Verdict] = {}
        self._busy: dict[int, Entry] = {}
        self._rules = filters.RuleSet()
        # Jobs that cannot start before they are judged, and those whose verdict is of former rules.
        self._unjudged: dict[int, Entry] = {}
        self._outdated: dict[int, Entry] = {}
        self._max_running = DEFAULT_MAX_RUNNING
        self._active = False
        self._stopped = False

    # --- life ---------------------------------------------------------------------------------------------------------

    def SetActive(self, active: bool) -> None:
        """Start or stop giving jobs to workers; jobs are taken in in any case."""
        with self._lock:
            self._active = active
            self._work.notify_all()
            self._urgent_work.notify_all()

    def Stop(self) -> None:
        """End ``Next`` for all workers."""
        with self._lock:
            self._stopped = True
            self._work.notify_all()
            self._urgent_work.notify_all()

    def Busy(self) -> list[int]:
        """Return the jobs that workers are at."""
        with self._lock:
            return sorted(self._busy)

    def Urgent(self) -> int:
        """Return how many urgent jobs have not ended."""
        with self._lock:
            return len(self._urgent_jobs)

    def WaitIdle(self, timeout: float) -> bool:
        """Wait until no worker is at a job."""
        deadline = runtime.Monotonic() + timeout
        with self._lock:
            while self._busy:
                left = deadline - runtime.Monotonic()
                if left <= 0:
                    return False
                self._idle.wait(left)
        return True

    # --- rules --------------------------------------------------------------------------------------------------------

    def SetMaxRunning(self, number: int) -> None:
        with self._lock:
            self._max_running = number
            self._work.notify_all()

    def SetRules(self, rules: filters.RuleSet) -> None:
        """Use these rules from now on; jobs that are here keep their verdict until they are judged again."""
        with self._lock:
            self._rules = rules
            self._outdated = {job_id: entry for job_id, entry in self._entries.items() if not entry.urgent}
        self._judge_soon()

    def Judge(self) -> None:
        """Judge the jobs that have no verdict of the rules in force, those first that cannot start without."""
        while True:
            with self._lock:
                rules = self._rules
                source = self._unjudged or self._outdated
                chosen = list(itertools.islice(source.values(), _SLICE))
                if not chosen or self._stopped:
                    return
            for entry in chosen:
                verdict = rules.Judge(entry.draft, entry.limits)
                with self._lock:
                    if rules is not self._rules:
                        break
                    known = self._TakeVerdict(entry, verdict)
                if known and verdict.action == filters.REJECT:
                    self._reject(entry)

    def _TakeVerdict(self, entry: Entry, verdict: filters.Verdict) -> bool:
        """Return False if the job has ended meanwhile."""
        self._outdated.pop(entry.id, None)
        if entry.id not in self._entries:
            return False
        before, entry.verdict = entry.verdict, verdict
        if self._unjudged.pop(entry.id, None) is not None:
            if entry.id not in self._blocked:
                self._MakeReady(entry)
        elif before != verdict:
            if entry.id in self._started:
                self._started[entry.id] = verdict
                self._limits.Take(before.limits, -1)
                self._limits.Take(verdict.limits, 1)
            elif entry.id in self._places:
                self._Push(entry, self._places[entry.id].order)
            self._ReleaseWaiting(before.limits)
        return True

    # --- jobs come and go ---------------------------------------------------------------------------------------------

    def Add(self, entries: Sequence[tuple[Entry, Iterable[int]]]) -> None:
        """Take in queued jobs, each with the jobs it depends on that have not ended."""
        with self._lock:
            judging = bool(self._rules)
            for entry, unfinished in entries:
                entry.verdict = filters.NO_VERDICT._replace(limits=() if entry.urgent else entry.limits)
                self._entries[entry.id] = entry
                if entry.urgent:
                    self._urgent_jobs.add(entry.id)
                unjudged = judging and not entry.urgent
                if unjudged:
                    self._unjudged[entry.id] = entry
                blockers = set(unfinished)
                if blockers:
                    self._blocked[entry.id] = blockers
                elif not unjudged:
                    self._MakeReady(entry)
                for job_id in blockers:
                    self._dependants.setdefault(job_id, set()).add(entry.id)
        if judging:
            self._judge_soon()

    def Release(self, entry: Entry, again: bool) -> None:
        """Take a job back from a worker; ``again``: it has not ended."""
        with self._lock:
            self._busy.pop(entry.id, None)
            if again and entry.id in self._entries:
                self._MakeReady(entry)
            if not self._busy:
                self._idle.notify_all()

    def Ended(self, job_id: int) -> None:
        """Forget a job that is final, and start what waited for it."""
        with self._lock:
            entry = self._entries.pop(job_id, None)
            self._urgent_jobs.discard(job_id)
            if entry is not None:
                self._Forget(job_id)
                verdict = self._started.pop(job_id, None)
                if verdict is not None:
                    self._limits.Take(verdict.limits, -1)
                self._ReleaseWaiting(entry.verdict.limits)
            for dependant in self._dependants.pop(job_id, ()):
                blockers = self._blocked[dependant]
                blockers.discard(job_id)
                if not blockers:
                    del self._blocked[dependant]
                    if dependant not in self._unjudged:
                        self._MakeReady(self._entries[dependant])

    def _Forget(self, job_id: int) -> None:
        self._places.pop(job_id, None)
        self._waiting.pop(job_id, None)
        self._paused.discard(job_id)
        self._unjudged.pop(job_id, None)
        self._outdated.pop(job_id, None)
        for blocker in self._blocked.pop(job_id, ()):
            self._dependants.get(blocker, set()).discard(job_id)

    def Reprioritise(self, entry: Entry) -> None:
        """Move a job whose priority has changed; it keeps its place among those of the new one."""
        with self._lock:
            place = self._places.get(entry.id)
            if place is None or entry.id in self._paused:
                return
            if entry.id in self._waiting:
                self._Wait(entry, place.order)
            else:
                self._Push(entry, place.order)

    # --- workers ------------------------------------------------------------------------------------------------------

    def Next(self, urgent: bool = False) -> Entry | None:
        """Wait for a job that may run now, for an ``urgent`` one; None when the scheduler was stopped."""
        heap, work = (self._urgent, self._urgent_work) if urgent else (self._ready, self._work)
        while True:
            with self._lock:
                while not (self._stopped or (self._active and heap and (urgent or self._HasRoom()))):
                    work.wait()
                if self._stopped:
                    return None
                entry = self._Pick(heap)
            if entry is not None:
                return entry

    def _HasRoom(self) -> bool:
        if len(self._busy) < self._max_running:
            return True
        return sum(not entry.urgent for entry in self._busy.values()) < self._max_running

    def _Pick(self, heap: _Heap) -> Entry | None:
        """Return the first job of a heap that may run; None if there is none among the next few."""
        for _ in range(min(_SLICE, len(heap))):
            place = heap.Pop()
            entry = place.entry
            if not self._IsValid(place):
                continue
            if entry.id in self._started:
                return self._Hand(entry)
            action, limits = entry.verdict.action, entry.verdict.limits
            if action in (filters.PAUSE, filters.REJECT):
                self._paused.add(entry.id)
            elif limits and self._limits.Free(limits) <= 0:
                self._Wait(entry, place.order)
            else:
                self._started[entry.id] = entry.verdict
                self._limits.Take(limits, 1)
                return self._Hand(entry)
        return None

    def _Hand(self, entry: Entry) -> Entry:
        del self._places[entry.id]
        self._busy[entry.id] = entry
        return entry

    # --- with the lock held -------------------------------------------------------------------------------------------

    def _IsValid(self, place: _Place) -> bool:
        return self._places.get(place.entry.id) is place

    def _MakeReady(self, entry: Entry) -> None:
        self._Push(entry, next(self._counter))

    def _Push(self, entry: Entry, order: int) -> None:
        self._paused.discard(entry.id)
        self._waiting.pop(entry.id, None)
        place = self._places[entry.id] = _Place(entry, order)
        heap, work = (self._urgent, self._urgent_work) if entry.urgent else (self._ready, self._work)
        heap.Push(place)
        work.notify()

    def _Wait(self, entry: Entry, order: int) -> None:
        limits = self._waiting[entry.id] = entry.verdict.limits
        place = self._places[entry.id] = _Place(entry, order)
        self._limits.Wait(place, limits)

    def _ReleaseWaiting(self, limits: filters.Limits) -> None:
        for place in self._limits.Release(limits):
            self._Push(place.entry, place.order)
