"""Waiting for a job to change: a subscription; no thread waits (doc/reference/luxi.md 4.2, doc/reference/locking.md 13).

::

    Wait --> changed already? --> answer at once
               | no
               v
         Watch in entry.watches <--Changed()-- committer: a version was acknowledged; worker: a log entry
               |                                 (they only wake the ticker)
               v
         ticker thread: compares, completes the answers of those who have something new

What happens within HOLD_BACK seconds after an answer is told together; the end of a job is told at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, runtime, serializer
from ganeti.luxi.pending import Completed, Pending

if TYPE_CHECKING:
    from ganeti.jqueue.entry import Entry
    from ganeti.jqueue.ticker import Ticker, Timer

HOLD_BACK = 0.1
MAX_TIMEOUT = 89.0

_LIVING = frozenset([constants.JOB_STATUS_QUEUED, constants.JOB_STATUS_WAITING, constants.JOB_STATUS_RUNNING])


class Watch:
    """One subscription."""

    __slots__ = ("fields", "pending", "prev_info", "prev_serial", "timer")

    def __init__(self, fields: Sequence[str], prev_info: Any, prev_serial: int | None, pending: Pending):
        self.fields = tuple(fields)
        self.prev_info = prev_info
        self.prev_serial = prev_serial
        self.pending = pending
        self.timer: Timer | None = None


def _Same(values: list[Any], previous: Any) -> bool:
    """Compare values as the client sees them: after a trip through JSON."""
    return values == previous or serializer.Load(serializer.Dump(values)) == previous


def _Look(entry: Entry, watch: Watch) -> tuple[list[Any], list[Any]]:
    view = entry.View()
    values = [view.FieldValue(name) for name in watch.fields]
    return values, entry.LogAfter(watch.prev_serial)


def _IsNews(entry: Entry, watch: Watch, values: list[Any], log: list[Any]) -> bool:
    return bool(log) or entry.shown.status not in _LIVING or not _Same(values, watch.prev_info)


class Watcher:
    """All subscriptions of the queue."""

    def __init__(self, ticker: Ticker):
        self._ticker = ticker

    def Wait(
        self, entry: Entry, fields: Sequence[str], prev_info: Any, prev_serial: int | None, timeout: float
    ) -> Pending:
        """Return the answer [values, log entries], given at once or later."""
        pending = Pending()
        watch = Watch(fields, prev_info, prev_serial, pending)
        values, log = _Look(entry, watch)
        if _IsNews(entry, watch, values, log) or timeout <= 0:
            return Completed([values, log])
        with entry.lock:
            entry.watches.append(watch)
        watch.timer = self._ticker.After(min(timeout, MAX_TIMEOUT), lambda: self._Expire(entry, watch))
        pending.OnAbandon(lambda: self._Remove(entry, watch))
        # What happened between the look and the subscription woke nobody.
        values, log = _Look(entry, watch)
        if _IsNews(entry, watch, values, log):
            self.Changed(entry)
        return pending

    def Changed(self, entry: Entry) -> None:
        """Look for news soon; from any thread, cheap."""
        if not entry.watches:
            return
        with entry.lock:
            if not entry.watches or (entry.deliver_timer is not None and not entry.shown.final):
                return
            delay = 0.0 if entry.shown.final else entry.delivered_at + HOLD_BACK - runtime.Monotonic()
            if entry.deliver_timer is not None:
                entry.deliver_timer.Cancel()
            entry.deliver_timer = self._ticker.After(max(delay, 0.0), lambda: self._Deliver(entry))

    def _Deliver(self, entry: Entry) -> None:
        with entry.lock:
            entry.deliver_timer = None
            watches = list(entry.watches)
        told = False
        for watch in watches:
            values, log = _Look(entry, watch)
            if _IsNews(entry, watch, values, log):
                told = True
                self._Finish(entry, watch)
                watch.pending.Complete([values, log])
        if told:
            entry.delivered_at = runtime.Monotonic()

    def _Expire(self, entry: Entry, watch: Watch) -> None:
        """Answer with what there is: the time is over."""
        values, log = _Look(entry, watch)
        self._Remove(entry, watch)
        watch.pending.Complete([values, log])

    def _Finish(self, entry: Entry, watch: Watch) -> None:
        self._Remove(entry, watch)
        if watch.timer is not None:
            watch.timer.Cancel()

    def _Remove(self, entry: Entry, watch: Watch) -> None:
        with entry.lock:
            if watch in entry.watches:
                entry.watches.remove(watch)

    def EndAll(self, entry: Entry) -> None:
        """Answer everybody with what there is: the queue stops."""
        with entry.lock:
            watches = list(entry.watches)
        for watch in watches:
            self._Finish(entry, watch)
            watch.pending.Complete(list(_Look(entry, watch)))


def LostError(job_id: int) -> errors.JobLost:
    return errors.JobLost(
        f"Job {job_id} is not in the queue",
        hint=f"it may be archived: 'gnt-job info {job_id}' also shows archived jobs",
    )
