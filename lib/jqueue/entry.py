"""What the queue knows of one live job, and how it changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, opcodes, runtime, serializer, store
from ganeti.jqueue import filters, shares
from ganeti.jqueue import job as jobs
from ganeti.jqueue.attempts import LockAttempts
from ganeti.store.base import KIND_JOB

if TYPE_CHECKING:
    from ganeti.jqueue.job import Job, OpInput, OpLog
    from ganeti.jqueue.ticker import Timer
    from ganeti.jqueue.watch import Watch

# Characters of JSON.  A job is one row, and a row must fit into one call to a node (store.base.MAX_TRANSACTION).
MAX_INPUT = 4 * 1024 * 1024
MAX_LOG = 4 * 1024 * 1024
MAX_RESULTS = 6 * 1024 * 1024
# Reserved for each opcode beside its input: status, times, and the error of an opcode that follows a failed one.
OP_OVERHEAD = 500
# A longer log message or error is cut.
MAX_MESSAGE = 64 * 1024

Transform = Callable[["Job"], "Job"]

# A job that has been killed cleans up for so long without being disturbed by another kill.
_CLEANING_SECONDS = 600.0


class Entry:
    """One live job.

    ``draft`` is the newest version, changed by the committer's thread alone; ``published`` the acknowledged one, which
    everybody else shows.  ``lock`` guards the log's growth and the watches; it is a leaf lock, held for moments.
    """

    __slots__ = (
        "_log_size",
        "_serial",
        "attempts",
        "busy",
        "cleans_since",
        "deliver_timer",
        "delivered_at",
        "draft",
        "ended",
        "flush_timer",
        "id",
        "killed",
        "leaving",
        "limits",
        "lock",
        "logs",
        "objects",
        "published",
        "reader",
        "result_size",
        "size",
        "urgent",
        "verdict",
        "watches",
    )

    def __init__(
        self,
        draft: Job,
        logs: Sequence[OpLog],
        objects: dict[int, opcodes.OpCode] | None = None,
        published: Job | None = None,
    ):
        self.id = draft.id
        self.draft = draft
        self.published = published
        self.logs = list(logs)
        # Opcodes as they were submitted, secrets included; only in memory.
        self.objects = objects or {}
        self.limits = filters.AdHocLimits(draft)
        self.urgent = bool(draft.ops) and all(_IsUrgent(op.input) for op in draft.ops)
        self.reader = shares.ReaderOf(draft.ops[0].input.reason) if draft.ops else None
        self.verdict = filters.NO_VERDICT
        self.attempts = LockAttempts()
        self.lock = runtime.Lock()
        self.watches: list[Watch] = []
        # Called once the end of the job is acknowledged.
        self.ended: list[Callable[[], None]] = []
        # Its end is wanted though it runs; since when it knows that, and is cleaning up.
        self.killed = False
        self.cleans_since: float | None = None
        # It is at something short that must not be left half done.
        self.busy = False
        self.leaving = False  # on its way to the archive; of the committer's thread
        self.delivered_at = 0.0
        self.deliver_timer: Timer | None = None
        self.flush_timer: Timer | None = None
        self._log_size = sum(log.size for log in self.logs)
        self.result_size = sum(len(serializer.Dump(op.result)) for op in draft.ops if op.result is not None)
        self._serial = max((e[0] for log in self.logs for e in log.entries), default=0)

    @property
    def shown(self) -> Job:
        """Return the version readers see."""
        assert self.published is not None
        return self.published

    def View(self) -> jobs.View:
        return jobs.View(self.id, self.shown, self.logs)

    def OpCode(self, index: int) -> opcodes.OpCode:
        """Return the opcode to execute, always the same object; raises ParseError on one this release does not know."""
        if index not in self.objects:
            self.objects[index] = self.draft.ops[index].input.Parse()
        return self.objects[index]

    def Kill(self) -> None:
        """Have the job end; one that cleans up is left alone for a while, and then may hang, or have gone on."""
        if self.cleans_since is not None and runtime.Monotonic() - self.cleans_since > _CLEANING_SECONDS:
            self.cleans_since = None
        self.killed = True

    @property
    def cleaning_up(self) -> bool:
        """Whether a kill leaves its calls alone."""
        return self.busy or self.cleans_since is not None

    def CheckKilled(self) -> None:
        """Raise OpExecError if the job is to end; called where its work can be left in good order."""
        if self.killed and not self.cleaning_up:
            self.cleans_since = runtime.Monotonic()
            raise errors.OpExecError("The job was ended with 'gnt-job cancel --kill'")

    def AddLog(self, index: int, log_type: str, message: Any) -> None:
        """Add to the log of an opcode; nothing is added after the job's end or to a full log."""
        stamp = list(jobs.Now())
        messages = message if log_type == constants.ELOG_MESSAGE_LIST else [message]
        if log_type == constants.ELOG_MESSAGE_LIST:
            log_type = constants.ELOG_MESSAGE
        written = [_Loggable(each) for each in messages]
        with self.lock:
            if self.draft.final:
                return
            for each, text in written:
                if self._log_size > MAX_LOG:
                    return
                self._AddEntry(index, stamp, log_type, each, text)
                if self._log_size > MAX_LOG:
                    self._AddEntry(index, stamp, constants.ELOG_MESSAGE, *_Loggable("The log is full, no more is kept"))

    def _AddEntry(self, index: int, stamp: list[int], log_type: str, message: Any, message_text: str) -> None:
        self._serial += 1
        head = serializer.Dump([self._serial, stamp, log_type])
        text = f"{head[:-1]},{message_text}]"
        self.logs[index].Add([self._serial, stamp, log_type, message], text)
        self._log_size += len(text)

    def DropLogs(self) -> None:
        """Give up the log so that the job can be stored."""
        with self.lock:
            self.logs = [jobs.OpLog() for _ in self.logs]
            self._log_size = 0

    def TakeResult(self, result: Any) -> None:
        """Check that a result can be stored; raises OpResultError, or TypeError or ValueError if it is not JSON."""
        size = len(serializer.Dump(result))
        if self.result_size + size > MAX_RESULTS:
            raise errors.OpResultError(
                f"The result has {size} bytes, all results of a job may have {MAX_RESULTS}; the opcode was carried out"
            )
        self.result_size += size

    @property
    def row_size(self) -> int:
        """Return the approximate length of the job's row."""
        return InputSize(self.draft) + self.result_size + self._log_size

    def LogAfter(self, serial: int | None) -> list[Any]:
        """Return the log entries of all opcodes with a higher serial; all for None."""
        entries = [e for log in self.logs for e in log.entries if serial is None or e[0] > serial]
        entries.sort(key=lambda e: e[0])
        return entries


def InputSize(job: Job) -> int:
    """Return the characters that the job's row has without results and log."""
    return sum(len(op.input.json) + OP_OVERHEAD for op in job.ops)


def _Loggable(message: Any) -> tuple[Any, str]:
    """Return the message as it is kept, and its JSON: cut if it is too long, as text if JSON has no form for it."""
    if isinstance(message, str):
        message = Cut(message)
    try:
        text = serializer.Dump(message)
    except (TypeError, ValueError, RecursionError):
        message = Cut(str(message))
        text = serializer.Dump(message)
    if len(text) > MAX_MESSAGE and not isinstance(message, str):
        message = f"A message of {len(text)} bytes is not kept: {MAX_MESSAGE} are allowed"
        text = serializer.Dump(message)
    return message, text


def Cut(text: str) -> str:
    """Return the text, or its beginning if it is too long to be kept."""
    return (
        text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}... ({len(text)} characters, the rest is not kept)"
    )


class Keeper:
    """The part of the queue that changes of jobs need; called on the committer's thread unless it says otherwise."""

    def OnPublished(self, entry: Entry, before: Job) -> None:
        """Show a version that was acknowledged."""
        raise NotImplementedError

    def SeveralRun(self) -> bool:
        """Return whether more than one job is worked on; from any thread."""
        raise NotImplementedError


class JobChange(store.Change):
    """Changes one job by ``transform``, which runs on the newest draft, however long that took to come about.

    ``transform`` returns the job itself if there is nothing to do, or raises: then the change fails with that error.
    The end of a job (``last``) waits a moment while other jobs are worked on: that of one which frees a lock is stored
    together with the start of the one that got it.
    """

    def __init__(self, keeper: Keeper, entry: Entry, transform: Transform, with_log: bool = False, last: bool = False):
        self.leisurely = last and keeper.SeveralRun()
        self._keeper = keeper
        self._entry = entry
        self._transform = transform
        self._with_log = with_log
        self._before: Job | None = None
        self._after: Job | None = None

    @property
    def job(self) -> Job:
        """Return the version this change made."""
        assert self._after is not None
        return self._after

    def Prepare(self) -> list[store.Row]:
        entry = self._entry
        self._before = entry.draft
        self._after = self._transform(entry.draft)
        if self._after is self._before and not (self._with_log and not self._before.final):
            return []
        with entry.lock:
            row = JobRow(entry, self._after)
            entry.draft = self._after
        return [row]

    def Publish(self) -> None:
        entry, before = self._entry, self._entry.shown
        if self._after is not self._before:
            entry.published = self._after
            self._keeper.OnPublished(entry, before)

    def Withdraw(self) -> None:
        assert self._before is not None
        self._entry.draft = self._before


def JobRow(entry: Entry, job: Job) -> store.Row:
    """Return the row of ``job``, a version of the entry's."""
    return store.Row(KIND_JOB, str(entry.id), job.Json(entry.logs))


# --- transforms that judge --------------------------------------------------------------------------------------------


class CancelJob(Exception):
    """The job is to be canceled: it must not execute."""


class QueueShutdown(Exception):
    """The queue is about to stop: a job that only waits goes back to it."""


def BeginExecution(index: int, start: jobs.Timestamp) -> Transform:
    """Raise CancelJob if the job was canceled meanwhile."""

    def transform(job: Job) -> Job:
        if job.ops[index].status not in (jobs.QUEUED, jobs.WAITING):
            raise CancelJob
        return jobs.MarkRunning(job, index, start)

    return transform


def BeginWaiting(index: int, start: jobs.Timestamp) -> Transform:
    def transform(job: Job) -> Job:
        return jobs.MarkWaiting(job, index, start) if job.ops[index].status == jobs.QUEUED else job

    return transform


def EndCanceling(job: Job) -> Job:
    return job if job.final else jobs.MarkCanceled(job)


class Cancel:
    """A client's request; ``answer`` is (whether it worked, text), None while the job is still canceling."""

    def __init__(self, reason: str = jobs.CANCELED_TEXT) -> None:
        self._reason = reason
        self.answer: tuple[bool, str] | None = None

    def __call__(self, job: Job) -> Job:
        if job.status == jobs.QUEUED:
            self.answer = (True, f"Job {job.id} canceled")
            return jobs.MarkCanceled(job, self._reason)
        if job.status == jobs.WAITING:
            self.answer = None
            return jobs.MarkCanceling(job)
        if job.status == jobs.CANCELING:
            self.answer = None
            return job
        self.answer = (False, f"Job {job.id} is no longer waiting in the queue")
        return job


class ChangePriority:
    """A client's request; ``answer`` as in Cancel."""

    def __init__(self, priority: int):
        self._priority = priority
        self.answer: tuple[bool, str] = (False, "")

    def __call__(self, job: Job) -> Job:
        if job.final:
            self.answer = (False, f"Job {job.id} is finished")
            return job
        if job.status == jobs.CANCELING:
            self.answer = (False, f"Job {job.id} is cancelling")
            return job
        changed = jobs.WithPriority(job, self._priority)
        if changed is job:
            self.answer = (False, f"Job {job.id} had no pending opcodes")
        else:
            text = f"Priorities of pending opcodes for job {job.id} have been changed to {self._priority}"
            self.answer = (True, text)
        return changed


def CheckPriority(priority: int) -> None:
    """Raise GenericError if the number is not a priority."""
    if not constants.OP_PRIO_HIGHEST <= priority <= constants.OP_PRIO_LOWEST:
        raise errors.GenericError(
            f"{priority} is not a valid priority: use a number from {constants.OP_PRIO_HIGHEST} (most urgent)"
            f" to {constants.OP_PRIO_LOWEST}"
        )


def _IsUrgent(op: OpInput) -> bool:
    known = opcodes.OP_MAPPING.get(op.op_id)
    return known is not None and known.URGENT
