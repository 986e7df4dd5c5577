"""A worker: takes a job's next opcode from its locks to its result (doc/reference/locking.md 12.4).

::

    Step --> ended, canceled, waits for a dependency --> Release
      |
      +--> execute(op, ...) --NotifyStart--> "running" is acknowledged --> the logical unit works
                |
                +--> result or error is acknowledged --> next opcode: another round, so that more urgent jobs may go first
                +--> no locks in time: waits, tries again with more patience or more priority

Commits of one opcode: one when it begins to execute, one at its end.  "Waiting" is stored only when the locks take
longer than a moment: after a crash a job that waited is the same as one that was queued.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, runtime, serializer, store
from ganeti.jqueue import depends
from ganeti.jqueue import job as jobs
from ganeti.jqueue.attempts import LockAttempts
from ganeti.jqueue.entry import (
    MAX_MESSAGE,
    BeginExecution,
    BeginWaiting,
    CancelJob,
    Cut,
    EndCanceling,
    Entry,
    JobChange,
    Keeper,
    QueueShutdown,
    Transform,
)
from ganeti.utils.trouble import Trouble

if TYPE_CHECKING:
    from ganeti.jqueue.job import Job
    from ganeti.jqueue.ticker import Ticker

# Seconds after which an opcode that waits for its locks is shown as waiting.
WAITING_SHOWN_AFTER = 0.25
# Seconds before a change that the master's own disk rejected is tried again.
DISK_RETRY = 2.0
# Seconds after which a log entry that no state change took along is stored.
FLUSH_AFTER = 0.5

Execute = Callable[..., Any]
Submit = Callable[[Sequence[Sequence[Any]]], list[list[Any]]]


class MasterGone(Exception):
    """The store has ended: nothing more can be acknowledged, the job is left as it stands."""


def Encoded(err: BaseException) -> list[Any]:
    """Return the error as job files keep it (errors.EncodeException), whatever it consists of."""
    try:
        encoded = errors.EncodeException(err)
        if len(serializer.Dump(encoded)) <= MAX_MESSAGE:
            return encoded
    except Exception:
        logging.exception("An error of type %s cannot be written as JSON", type(err).__name__)
    try:
        text = str(err)
    except Exception:  # noqa: BLE001 (an error without a text is still an error)
        text = f"{type(err).__name__} (its text cannot be shown)"
    return errors.EncodeException(errors.OpExecError(Cut(text)))


class Callbacks:
    """The processor's side of one opcode: what it reports and asks while it executes."""

    def __init__(self, worker: Worker, entry: Entry, index: int, start: jobs.Timestamp):
        self._worker = worker
        self._entry = entry
        self._index = index
        self._start = start

    def NotifyStart(self) -> None:
        """Begin to execute, with all locks held; returns when it is stored that the opcode runs.

        Raises CancelJob or QueueShutdown: then nothing may be executed.
        """
        self._worker.CheckShutdown()
        self._worker.Commit(self._entry, BeginExecution(self._index, self._start))

    def NotifyRetry(self) -> None:
        """Let the opcode wait again, because resources are short for the moment."""
        self._worker.Commit(self._entry, lambda job: job.WithOp(self._index, status=jobs.WAITING, exec_=None))

    def Feedback(self, log_type: str, message: Any) -> None:
        self._entry.AddLog(self._index, log_type, message)
        self._worker.LogAdded(self._entry)

    @contextmanager
    def Undisturbed(self) -> Iterator[None]:
        """A kill waits until the block is over."""
        self._entry.busy = True
        try:
            yield
        finally:
            self._entry.busy = False

    def Pause(self, seconds: float) -> None:
        """Wait between two looks at something that takes long; raise OpExecError, a second later at most, if the job is to end."""
        end = runtime.Monotonic() + seconds
        left = seconds
        while left > 0:
            runtime.Sleep(min(left, 1.0))
            self._entry.CheckKilled()
            left = end - runtime.Monotonic()

    def CurrentPriority(self) -> int:
        """Return the priority for the next lock; called before every level, so a cancellation is noticed here too."""
        self._worker.CheckShutdown()
        op = self._entry.draft.ops[self._index]
        if op.status in (jobs.CANCELING, jobs.CANCELED):
            raise CancelJob
        return op.priority

    def SubmitManyJobs(self, submitted: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Submit generated jobs and return the answer of the LUXI call of this name."""
        return self._worker.submit(submitted)


class Worker:
    """Works on one job at a time; one object serves all worker threads."""

    def __init__(
        self,
        keeper: Keeper,
        the_store: store.Store,
        ticker: Ticker,
        execute: Execute,
        submit: Submit,
        find: depends.Find,
        log_added: Callable[[Entry], None],
    ):
        self._keeper = keeper
        self._store = the_store
        self._ticker = ticker
        self._execute = execute
        self._find = find
        self.submit = submit
        self._log_added = log_added
        self._disk = Trouble("Jobs wait for room on the master's disk")
        self.shutting_down = False

    def CheckShutdown(self) -> None:
        if self.shutting_down:
            raise QueueShutdown

    def Commit(self, entry: Entry, transform: Transform, last: bool = False) -> Job:
        """Make a change durable and return the version it made.

        Without a quorum, or with a full disk, it waits: a job must not go on with what is not stored.
        """
        while True:
            change = JobChange(self._keeper, entry, transform, last=last)
            try:
                self._store.Commit(change, patient=True)
            except store.TooLarge:
                raise
            except store.DiskRefused as err:
                self._disk.Log(f"job {entry.id}: {err}")
                runtime.Sleep(DISK_RETRY)
            except store.StoreError as err:
                raise MasterGone from err
            else:
                self._disk.Over()
                return change.job

    def LogAdded(self, entry: Entry) -> None:
        """Send a log entry to subscribers at once, and to the store with the next change, or soon."""
        self._log_added(entry)
        with entry.lock:
            if entry.flush_timer is None:
                entry.flush_timer = self._ticker.After(FLUSH_AFTER, lambda: self._Flush(entry))

    def _Flush(self, entry: Entry) -> None:
        with entry.lock:
            entry.flush_timer = None
        change = JobChange(self._keeper, entry, lambda job: job, with_log=True)
        # Only log entries: should this fail, the next change takes them along.
        self._store.Begin(change, lambda error: None, patient=True)

    # --- one round ----------------------------------------------------------------------------------------------------

    def Work(self, entry: Entry) -> bool:
        """Do one round of a job; return whether there is more to do."""
        try:
            return self._Step(entry)
        except MasterGone:
            logging.info("Job %d is left as it stands: this master has ended", entry.id)
            return False
        except Exception as err:
            logging.exception("Job %d: the queue could not process it", entry.id)
            return self._GiveUp(entry, err)

    def _GiveUp(self, entry: Entry, err: Exception) -> bool:
        """End a job that the queue itself failed on: none may be left running without a worker."""
        index = entry.draft.NextOp()
        if index is None:
            return False
        try:
            self._EndOp(entry, index, Encoded(err))
        except store.TooLarge as too_large:
            entry.DropLogs()
            text = f"Job file too long, its log and results are dropped: {too_large}"
            self.Commit(entry, lambda job: job if job.final else jobs.MarkLost(job, text))
        except MasterGone:
            pass
        return False

    def _Step(self, entry: Entry) -> bool:
        job = entry.draft
        index = job.NextOp()
        if index is None:
            return False
        if job.status == jobs.CANCELING:
            self.Commit(entry, EndCanceling)
            return False
        outcome, text = depends.Check(job, index, self._find)
        if outcome == depends.CANCEL:
            self.Commit(entry, lambda job: job if job.final else jobs.MarkCanceled(job, text))
            return False
        if outcome == depends.FAIL:
            self._EndOp(entry, index, Encoded(errors.OpExecError(text)))
            return False
        try:
            op = entry.OpCode(index)
        except errors.ParseError as err:
            self._EndOp(entry, index, Encoded(errors.OpCodeUnknown(str(err))))
            return False
        return self._ExecuteOp(entry, index, op)

    def _ExecuteOp(self, entry: Entry, index: int, op: Any) -> bool:
        start = jobs.Now()
        timeout = entry.attempts.Next()
        show = self._ticker.After(WAITING_SHOWN_AFTER, lambda: self._ShowWaiting(entry, index, start))
        callbacks = Callbacks(self, entry, index, start)
        priority = entry.draft.ops[index].priority
        try:
            result = self._execute(op, entry.id, callbacks, timeout, priority)
            entry.TakeResult(result)
        except CancelJob:
            self.Commit(entry, EndCanceling)
            return False
        except QueueShutdown:
            # It starts again if the stop is rejected; the scheduler hands out nothing before that.
            return not self.Commit(entry, jobs.MarkQueued).final
        except errors.LockAcquireTimeout:
            return self._TryAgain(entry, index, start)
        except MasterGone:
            raise
        except (Exception, SystemExit) as err:
            if not isinstance(err, errors.GenericError):
                logging.exception("Job %d, opcode %s failed", entry.id, op.OP_ID)
            self._EndOp(entry, index, Encoded(err), start)
            return False
        finally:
            show.Cancel()
        last = index + 1 == len(entry.draft.ops)
        ended = self.Commit(entry, lambda job: jobs.MarkSuccess(job, index, result), last)
        entry.attempts = LockAttempts()
        return not ended.final

    def _EndOp(self, entry: Entry, index: int, error: Any, start: jobs.Timestamp | None = None) -> None:
        def transform(job: Job) -> Job:
            if job.status == jobs.CANCELING:
                return jobs.MarkCanceled(job)  # it did not begin to execute
            if job.final:
                return job
            if start is not None and job.ops[index].status == jobs.QUEUED:
                job = jobs.MarkWaiting(job, index, start)  # it failed so early that nothing of it was stored
            return jobs.MarkError(job, index, error)

        self.Commit(entry, transform)

    def _ShowWaiting(self, entry: Entry, index: int, start: jobs.Timestamp) -> None:
        change = JobChange(self._keeper, entry, BeginWaiting(index, start))
        self._store.Begin(change, lambda error: None, patient=True)

    def _TryAgain(self, entry: Entry, index: int, start: jobs.Timestamp) -> bool:
        """Prepare the next try after the time for locks was over; return whether there is one."""

        def transform(job: Job) -> Job:
            op = job.ops[index]
            if op.status == jobs.CANCELING:
                return jobs.MarkCanceled(job)
            if op.status == jobs.CANCELED:
                return job
            if op.status in (jobs.QUEUED, jobs.RUNNING):
                job = jobs.MarkWaiting(job, index, op.start or start)
            if entry.attempts.Peek() is None and op.priority > constants.OP_PRIO_HIGHEST:
                return job.WithOp(index, priority=op.priority - 1)
            return job

        before = entry.draft.ops[index].priority
        job = self.Commit(entry, transform)
        if job.ops[index].priority < before:
            entry.attempts = LockAttempts()
        return not job.final
