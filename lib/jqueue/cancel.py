"""Cancel jobs (doc/reference/luxi.md 4.3).

::

    queued           --> canceled, in one step
    waiting          --> canceling --> canceled: its wait for locks, or for an allocator, is ended at once
      (no worker at it)  canceling --> canceled: by the queue
    running          --> only by a kill, which ends its calls to nodes until it has ended, or until it has noticed between two
                         looks at something that takes long, and cleans up

Of many jobs the queued ones come first: what a canceled job gives back must not start one that is to be canceled too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import store
from ganeti.jqueue import job as jobs
from ganeti.jqueue.entry import Cancel, EndCanceling, Entry, JobChange, Keeper
from ganeti.luxi.pending import Pending

if TYPE_CHECKING:
    from ganeti.jqueue.ticker import Ticker

# Seconds a cancellation waits for a job that has to notice it; and one that kills.
CANCEL_WAIT = 44.0
KILL_WAIT = 10.0
KILL_EVERY = 0.3

# Ends the node calls that a thread waits for, returns how many (rpc.RpcRunner.Abort), unless it turns out, by the second
# argument, that the thread has gone on to another job.  ``end_asking`` does so for calls of allocators only: a job that has not
# begun to execute may be left without their answer.
Abort = Callable[[int, Callable[[], bool]], int]
# Ends the waits for locks of a job (locking.LockManager.EndWaits).
EndWaits = Callable[[int], object]


class Canceler:
    """Cancels jobs; ``thread_of(job id)`` is the thread of the worker at a job, if there is one."""

    def __init__(
        self,
        keeper: Keeper,
        the_store: store.Store,
        ticker: Ticker,
        thread_of: Callable[[int], int | None],
        abort: Abort,
        end_waits: EndWaits,
        end_asking: Abort,
    ):
        self._keeper = keeper
        self._store = the_store
        self._ticker = ticker
        self._thread_of = thread_of
        self._abort = abort
        self._end_waits = end_waits
        self._end_asking = end_asking

    def Cancel(self, entries: Sequence[Entry], kill: bool) -> list[Pending]:
        """Return one answer per job: [whether it is canceled, text]."""
        answers = {entry.id: Pending() for entry in entries}
        for entry in sorted(entries, key=lambda entry: entry.shown.status != jobs.QUEUED):
            self._Begin(entry, kill, answers[entry.id])
        return list(answers.values())

    def _Begin(self, entry: Entry, kill: bool, answer: Pending) -> None:
        cancel = Cancel()

        def done(error: Exception | None) -> None:
            if error is not None:
                answer.Fail(error)
            elif cancel.answer is None:
                self._WhenEnded(entry, CANCEL_WAIT, lambda: answer.Complete(_Outcome(entry)))
            elif kill and entry.draft.status == jobs.RUNNING:
                self._ticker.Soon(lambda: self._Kill(entry, answer))
            else:
                answer.Complete(list(cancel.answer))

        self._store.Begin(JobChange(self._keeper, entry, cancel), done)

    def Reject(self, entry: Entry, reason: str) -> None:
        """Cancel a job that a filter rule forbids."""
        self._store.Begin(JobChange(self._keeper, entry, Cancel(reason)), lambda error: None, patient=True)

    def Hurry(self, entry: Entry) -> None:
        """Make a job that is canceling notice it; called when it begins to, and when its worker leaves it."""
        if self._thread_of(entry.id) is not None:
            self._end_waits(entry.id)
            self._ticker.Soon(lambda: self.EndAsking(entry))
        else:
            self._store.Begin(JobChange(self._keeper, entry, EndCanceling), lambda error: None, patient=True)

    def EndAsking(self, entry: Entry) -> None:
        """End the calls of allocators until the worker leaves a job that is canceled: a list of them is asked one by one."""
        if self._Strike(entry, self._end_asking) is not None:
            self._ticker.After(KILL_EVERY, lambda: self.EndAsking(entry))

    def _Strike(self, entry: Entry, abort: Abort) -> int | None:
        """End calls of a job's worker and return their number, or None if the job has none.

        A job that cleans up is not disturbed: that is seen when its call has been found, as it may have begun to just now.
        """
        thread = self._thread_of(entry.id)
        if thread is None:
            return None
        return abort(thread, lambda: self._thread_of(entry.id) == thread and not entry.cleaning_up)

    def _Kill(self, entry: Entry, answer: Pending) -> None:
        """End what the job waits for again and again, until it has ended or the time is over."""
        logging.warning("Job %d is killed", entry.id)
        entry.Kill()
        aborted = 0

        def strike() -> None:
            nonlocal aborted
            if answer.done:
                return
            if not entry.cleaning_up:
                aborted += self._Strike(entry, self._abort) or 0
            self._ticker.After(KILL_EVERY, strike)

        def finish() -> None:
            if entry.shown.final:
                answer.Complete([True, f"Job {entry.id} was killed; node calls ended: {aborted}"])
            elif entry.cleaning_up:
                answer.Complete([True, f"Job {entry.id} is being ended and still cleans up"])
            else:
                text = (
                    f"Job {entry.id} still runs: {aborted} calls to nodes were ended; what it does on the master itself"
                    " cannot be stopped, and what nodes began continues there"
                )
                answer.Complete([False, text])

        self._WhenEnded(entry, KILL_WAIT, finish)
        strike()

    def _WhenEnded(self, entry: Entry, timeout: float, call: Callable[[], object]) -> None:
        """Call once: when the job has ended, or at the time-out."""
        timer = self._ticker.After(timeout, call)

        def ended() -> None:
            timer.Cancel()
            call()

        with entry.lock:
            if not entry.shown.final:
                entry.ended.append(ended)
                return
        self._ticker.Soon(ended)


def _Outcome(entry: Entry) -> list[Any]:
    status = entry.shown.status
    if status == jobs.CANCELED:
        return [True, f"Job {entry.id} canceled"]
    if status in jobs.FINAL:
        return [False, f"Job {entry.id} has ended meanwhile ({status})"]
    return [False, f"Job {entry.id} will be canceled when its wait, for locks or for an allocator, is over"]
