"""The job queue: takes jobs in, lets workers run them, shows them, archives them (spec/jobs.md, spec/luxi.md 4)."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, opcodes, runtime, serializer, store
from ganeti.jqueue import depends, filters, watch
from ganeti.jqueue import job as jobs
from ganeti.jqueue.archive import Archive
from ganeti.jqueue.changes import ArchiveChange, DrainChange, Portions, QueueState, RestartChange, SubmitChange
from ganeti.jqueue.entry import (
    ID_DRAIN,
    ID_SERIAL,
    KIND_JOB,
    KIND_QUEUE,
    MAX_INPUT,
    Cancel,
    ChangePriority,
    CheckPriority,
    Entry,
    InputSize,
    JobChange,
    Keeper,
)
from ganeti.jqueue.scheduler import DEFAULT_MAX_RUNNING, Scheduler
from ganeti.jqueue.ticker import Ticker
from ganeti.jqueue.worker import Execute, Worker
from ganeti.luxi.pending import Completed, Pending

if TYPE_CHECKING:
    from ganeti.objects import FilterRule

# Live jobs; more are refused.
MAX_LIVE_JOBS = 50_000
# Seconds between two looks at rules and limits if nothing else makes the queue look (spec/jobs.md 7.1).
LOOK_EVERY = 307.0
# Seconds a cancellation waits for a job that has to notice it; and one that kills.
CANCEL_WAIT = 44.0
KILL_WAIT = 10.0
KILL_EVERY = 0.3
# Jobs in one change of the store.
ARCHIVE_GROUP = 100
SUBMIT_GROUP = 500
RESTART_GROUP = 500

# (max_running_jobs, filter rules by UUID)
Settings = Callable[[], "tuple[int, Mapping[str, FilterRule]]"]
# Ends the node calls that a thread waits for, returns how many (rpc.RpcRunner.Abort).
Abort = Callable[[int], int]


def _NoSettings() -> tuple[int, Mapping[str, FilterRule]]:
    return DEFAULT_MAX_RUNNING, {}


def _NoAbort(_thread: int) -> int:
    return 0


class JobQueue(Keeper):
    """All live jobs of the cluster.

    Methods that change something return a Pending at once, which is completed when the change is acknowledged.  No
    lock is held while anything is waited for.
    """

    worker_class = Worker

    def __init__(
        self,
        the_store: store.Store,
        execute: Execute,
        settings: Settings = _NoSettings,
        abort: Abort = _NoAbort,
        max_live_jobs: int = MAX_LIVE_JOBS,
    ):
        self._store = the_store
        self._settings = settings
        self._abort = abort
        self._thread_of: dict[int, int] = {}
        self._max_live_jobs = max_live_jobs
        self._live: dict[int, Entry] = {}
        self._id_lock = runtime.Lock()
        self._last_id = 0
        self._drained = False
        # What the committer's next transaction builds on.
        self.state = QueueState()
        self._closed = True
        self._stopped = False
        self._seen_settings: tuple[int, Any] | None = None
        self._ticker = Ticker("JqTicker")
        self._watcher = watch.Watcher(self._ticker)
        self._archive = Archive(the_store)
        self._scheduler = Scheduler(self._Reject)
        self._worker = self.worker_class(
            self, the_store, self._ticker, execute, self._SubmitGenerated, self.StatusOf, self._watcher.Changed
        )
        self._threads: list[Any] = []

    # --- life ---------------------------------------------------------------------------------------------------------

    def Start(self) -> None:
        """Takes over the jobs of the store, judges those that were cut off, and begins to work."""
        self._Load()
        self._Restart()
        self._ticker.Start()
        self.Reconsider()
        self._ticker.After(LOOK_EVERY, self._LookAgain)
        waiting = [e for e in self._live.values() if not e.draft.final]
        self._scheduler.Add([(e, depends.Unfinished(e.draft, self._IsLiving)) for e in waiting])
        self._closed = False
        self._scheduler.SetActive(True)

    def _Load(self) -> None:
        for row_id, text in self._store.Rows(KIND_JOB).items():
            try:
                job, logs = jobs.ReadJob(text)
                if str(job.id) != row_id:
                    raise errors.JobFileCorrupted(f"it says that it is job {job.id}")
            except errors.JobFileCorrupted as err:
                logging.error("Job %s cannot be read and is left alone: %s", row_id, err)
                continue
            self._live[job.id] = Entry(job, logs, published=job)
        self._live = dict(sorted(self._live.items()))
        rows = self._store.Rows(KIND_QUEUE)
        serial = serializer.Load(rows.get(ID_SERIAL, "0"))
        self._last_id = max([serial, *self._live])
        self._drained = rows.get(ID_DRAIN) == "true"  # a file removed by hand has become "false"
        self.state.serial, self.state.drained = serial, self._drained

    def _Restart(self) -> None:
        """Queued and waiting jobs go on; what was running ends as an error (spec/jobs.md 8)."""
        entries = list(self._live.values())
        unclean = [e.id for e in entries if e.draft.status in (jobs.RUNNING, jobs.CANCELING)]
        if unclean:
            logging.warning("Jobs that the last master daemon left running are errors now: %s", unclean)
        for portion in Portions(entries, RESTART_GROUP):
            self._store.Commit(RestartChange(portion), patient=True)

    def Close(self) -> None:
        """Takes no jobs any more and starts none; jobs that wait for locks go back to the queue."""
        self._closed = True
        self._scheduler.SetActive(False)
        self._worker.shutting_down = True

    def Reopen(self) -> None:
        """Goes on after a Close that could not be brought to an end."""
        self._worker.shutting_down = False
        self._closed = False
        self._scheduler.SetActive(True)

    def WaitIdle(self, timeout: float) -> bool:
        """After Close: waits until no job runs."""
        return self._scheduler.WaitIdle(timeout)

    def RunningJobs(self) -> list[int]:
        """Jobs that a worker is at."""
        return self._scheduler.Busy()

    def Stop(self) -> None:
        """Ends workers and subscriptions; what still runs ends with the process."""
        self.Close()
        self._stopped = True
        self._scheduler.Stop()
        self._ticker.Stop()
        for entry in list(self._live.values()):
            self._watcher.EndAll(entry)

    def Shutdown(self, timeout: float = 20.0) -> bool:
        """Close, wait, Stop; False (and open again) if jobs still run after ``timeout`` seconds."""
        self.Close()
        if not self.WaitIdle(timeout):
            self.Reopen()
            return False
        self.Stop()
        return True

    # --- rules and workers --------------------------------------------------------------------------------------------

    def Reconsider(self) -> None:
        """Looks at limits and filter rules again."""
        wanted, rules = self._settings()
        max_running = min(wanted, constants.MAX_RUNNING_JOBS)
        before, self._seen_settings = self._seen_settings, (max_running, rules)
        if before is not None and before[0] == max_running and before[1] is rules:
            return
        changed = before is None or before[1] is not rules
        self._scheduler.SetRules(filters.RuleSet(rules.values()) if changed else None, max_running)
        while len(self._threads) < max_running:
            thread = runtime.Thread(self._RunWorker, f"Jq{len(self._threads) + 1}")
            self._threads.append(thread)
            thread.start()

    def ReconsiderSoon(self) -> None:
        """The same on the queue's own thread."""
        self._ticker.Soon(self.Reconsider)

    def _LookAgain(self) -> None:
        self.Reconsider()
        self._ticker.After(LOOK_EVERY, self._LookAgain)

    def _RunWorker(self) -> None:
        while (entry := self._scheduler.Next()) is not None:
            again = False
            self._thread_of[entry.id] = runtime.ThreadIdent()
            try:
                again = self._worker.Work(entry)
            except Exception:
                logging.exception("Job %d: its worker failed and takes the next job", entry.id)
            finally:
                self._thread_of.pop(entry.id, None)
                self._scheduler.Release(entry, again)

    def _Reject(self, entry: Entry) -> None:
        """A filter rule forbids the job."""
        reason = f"Job rejected by filter rule {entry.verdict.rule}"
        self._store.Begin(JobChange(self, entry, Cancel(reason)), lambda error: None, patient=True)

    # --- what the committer tells -------------------------------------------------------------------------------------

    def OnPublished(self, entry: Entry, before: jobs.Job | None) -> None:
        self._watcher.Changed(entry)
        job = entry.shown
        if job.final:
            entry.objects = {}
            with entry.lock:
                ended, entry.ended = entry.ended, []
            for call in ended:
                self._ticker.Soon(call)
            self._scheduler.Ended(entry.id)
            if self._settings() != self._seen_settings:
                self._ticker.Soon(self.Reconsider)
        elif before is not None and before.priority != job.priority:
            self._scheduler.Reprioritise(entry)

    def OnSubmitted(self, entries: Sequence[Entry]) -> None:
        """New jobs are acknowledged."""
        for entry in entries:
            entry.published = entry.draft
            self._live[entry.id] = entry
        self._scheduler.Add([(e, depends.Unfinished(e.draft, self._IsLiving)) for e in entries if not e.draft.final])

    def OnArchived(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            entry.archived = True
            self._live.pop(entry.id, None)
            self._watcher.Changed(entry)

    def OnDrained(self, flag: bool) -> None:
        self._drained = flag

    @property
    def drained(self) -> bool:
        return self._drained

    @property
    def last_id(self) -> int:
        """The highest job id given out."""
        return self._last_id

    def _IsLiving(self, job_id: int) -> bool:
        entry = self._live.get(job_id)
        return entry is not None and not entry.shown.final

    # --- submission ---------------------------------------------------------------------------------------------------

    def SubmitJob(self, ops: Sequence[Any], to_drained: bool = False) -> Pending:
        """Takes in one job; completes with its id.  Opcodes are objects or what clients send."""
        self._CheckOpen()
        result = Pending()
        many = self._Submit([ops], to_drained)

        def finish(pending: Pending) -> None:
            if pending.error is not None:
                result.Fail(pending.error)
                return
            success, value = pending.value[0]
            if success:
                result.Complete(value)
            else:
                result.Fail(value)

        many.Then(finish)
        return result

    def SubmitManyJobs(self, submitted: Sequence[Sequence[Any]], generated: bool = False) -> Pending:
        """Takes in several jobs in one step; completes with [true, id] or [false, text] for each."""
        result = Pending()

        def finish(pending: Pending) -> None:
            if pending.error is not None:
                result.Fail(pending.error)
            else:
                result.Complete([[ok, value if ok else str(value.args[0])] for ok, value in pending.value])

        if not generated:
            self._CheckOpen()
        self._Submit(submitted, False).Then(finish)
        return result

    def _CheckOpen(self) -> None:
        if self._closed:
            raise errors.JobQueueError("Job queue is shutting down, refusing job", hint="try again in a minute")

    def _SubmitGenerated(self, submitted: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """For jobs that submit jobs: waits for the answer.  While the queue closes they are taken in for the next start."""
        return self.SubmitManyJobs(submitted, generated=True).Result()

    def _Submit(self, submitted: Sequence[Sequence[Any]], to_drained: bool) -> Pending:
        """Completes with (true, id) or (false, error) for each job."""
        parsed = [_ParseOps(ops, number) for number, ops in enumerate(submitted)]
        if len(self._live) + len(parsed) > self._max_live_jobs:
            raise errors.JobQueueFull(hint="archive finished jobs: gnt-job autoarchive")
        with self._id_lock:
            first_id = self._last_id + 1
            self._last_id += len(parsed)
        results: dict[int, tuple[bool, Any]] = {}
        entries: list[Entry] = []
        failed: set[int] = set()
        for job_id, ops in enumerate(parsed, first_id):
            try:
                entries.append(_MakeEntry(job_id, ops, failed))
                results[job_id] = (True, job_id)
            except errors.OpPrereqError as err:
                failed.add(job_id)
                results[job_id] = (False, errors.OpPrereqError(f"Job rejected: {err.args[0]}", errors.ECODE_INVAL))
        return self._Store(list(Portions(entries, SUBMIT_GROUP)), results, to_drained)

    def _Store(
        self, portions: Sequence[Sequence[Entry]], results: dict[int, tuple[bool, Any]], to_drained: bool
    ) -> Pending:
        """Stores new jobs, a portion at a time; fails only if that is true of all of them."""
        pending = Pending()
        left = len(portions)
        failures: list[Exception] = []

        def finish(portion: Sequence[Entry], error: Exception | None) -> None:
            nonlocal left
            left -= 1  # always on the committer's thread
            if error is not None:
                failures.append(_SubmitError(portion, error))
                results.update((entry.id, (False, failures[-1])) for entry in portion)
            if left:
                return
            if len(failures) == len(portions):
                pending.Fail(failures[0])
            else:
                pending.Complete(list(results.values()))

        if not portions:
            pending.Complete(list(results.values()))
        for portion in portions:
            change = SubmitChange(self, portion, to_drained)
            self._store.Begin(change, functools.partial(finish, portion))
        return pending

    # --- looking ------------------------------------------------------------------------------------------------------

    def StatusOf(self, job_id: int) -> str | None:
        """The status of a job, archived ones too; None if there is none."""
        view = self._View(job_id)
        return view.FieldValue("status") if view.found else None

    def _View(self, job_id: int) -> jobs.View:
        entry = self._live.get(job_id)
        if entry is not None:
            return entry.View()
        return self._archive.Find(job_id) or jobs.View(job_id, None)

    def Views(self, ids: Sequence[int] | None, archived: bool) -> list[jobs.View]:
        """Jobs for queries: the live ones in ascending order (and all ``archived``), or those asked for by id."""
        if ids:
            return [self._View(job_id) for job_id in dict.fromkeys(ids)]
        live = {job_id: entry.View() for job_id, entry in list(self._live.items())}
        if not archived:
            return [live[job_id] for job_id in sorted(live)]
        found = [live.get(job_id) or self._archive.Find(job_id) for job_id in sorted({*live, *self._archive.Ids()})]
        return [view for view in found if view is not None]

    def QueryJobs(self, ids: Sequence[int] | None, fields: Sequence[str]) -> list[list[Any]]:
        """Bare field values; null for what is not set.  Raises OpPrereqError on an unknown field."""
        unknown = [name for name in fields if name not in jobs.FIELDS]
        if unknown:
            raise errors.OpPrereqError(f"Unknown job field: {', '.join(unknown)[:200]}", errors.ECODE_INVAL)
        views = self.Views(ids, "archived" in fields)
        return [[view.FieldValue(name) for name in fields] for view in views]

    def Wait(
        self, job_id: int, fields: Sequence[str], prev_info: Any, prev_serial: int | None, timeout: float
    ) -> Pending:
        """Completes with [values, log entries] once the job differs from what the caller saw, or at the time-out.

        Raises JobLost for a job that is not live.
        """
        entry = self._live.get(job_id)
        if entry is None:
            raise watch.LostError(job_id)
        return self._watcher.Wait(entry, fields, prev_info, prev_serial, 0 if self._stopped else timeout)

    # --- changes of one job -------------------------------------------------------------------------------------------

    def CancelJob(self, job_id: int, kill: bool = False) -> Pending:
        """Completes with [whether the job is canceled, text]."""
        entry = self._live.get(job_id)
        if entry is None:
            return Completed([False, f"Job {job_id} not found"])
        pending = Pending()
        cancel = Cancel()

        def done(error: Exception | None) -> None:
            if error is not None:
                pending.Fail(error)
            elif cancel.answer is None:
                self._WhenEnded(entry, CANCEL_WAIT, lambda: pending.Complete(_CancelOutcome(entry)))
            elif kill and entry.draft.status == jobs.RUNNING:
                self._ticker.Soon(lambda: self._KillJob(entry, pending))
            else:
                pending.Complete(list(cancel.answer))

        self._store.Begin(JobChange(self, entry, cancel), done)
        return pending

    def _KillJob(self, entry: Entry, pending: Pending) -> None:
        """Ends what the job waits for again and again, until it has ended or the time is over."""
        logging.warning("Job %d is killed", entry.id)
        aborted = 0

        def strike() -> None:
            nonlocal aborted
            if pending.done:
                return
            thread = self._thread_of.get(entry.id)
            if thread is not None:
                aborted += self._abort(thread)
            self._ticker.After(KILL_EVERY, strike)

        def answer() -> None:
            if entry.shown.final:
                pending.Complete([True, f"Job {entry.id} was killed; node calls ended: {aborted}"])
                return
            text = (
                f"Job {entry.id} still runs: {aborted} calls to nodes were ended, what it does on the master itself"
                " cannot be stopped, and what nodes began goes on there"
            )
            pending.Complete([False, text])

        self._WhenEnded(entry, KILL_WAIT, answer)
        strike()

    def _WhenEnded(self, entry: Entry, timeout: float, call: Callable[[], object]) -> None:
        """Calls once: when the job has ended, or at the time-out."""
        timer = self._ticker.After(timeout, call)

        def ended() -> None:
            timer.Cancel()
            call()

        with entry.lock:
            if not entry.shown.final:
                entry.ended.append(ended)
                return
        self._ticker.Soon(ended)

    def ChangePriority(self, job_id: int, priority: int) -> Pending:
        """Completes with [whether something was changed, text]."""
        CheckPriority(priority)
        entry = self._live.get(job_id)
        if entry is None:
            return Completed([False, f"Job {job_id} not found"])
        wish = ChangePriority(priority)
        return self._Begin(JobChange(self, entry, wish), lambda: list(wish.answer))

    # --- archive and flags --------------------------------------------------------------------------------------------

    def ArchiveJob(self, job_id: int) -> Pending:
        """Completes with whether the job went to the archive."""
        entry = self._live.get(job_id)
        if entry is None or not entry.shown.final:
            return Completed(False)
        change = ArchiveChange(self, [entry])
        return self._Begin(change, lambda: bool(change.taken))

    def AutoArchive(self, age: float, timeout: float) -> Pending:
        """Archives what ended more than ``age`` seconds ago (negative: all that ended); looks for ``timeout`` seconds.

        Completes with [number archived, number not looked at].
        """
        deadline = runtime.Monotonic() + timeout
        before = runtime.Time() - age
        ids = sorted(self._live)
        chosen: list[Entry] = []
        looked = 0
        for job_id in ids:
            if runtime.Monotonic() >= deadline:
                break
            looked += 1
            entry = self._live.get(job_id)
            if entry is not None and entry.shown.final and (age < 0 or _EndTime(entry.shown) < before):
                chosen.append(entry)
        changes = [ArchiveChange(self, portion) for portion in Portions(chosen, ARCHIVE_GROUP)]
        pending = Pending()
        left = [len(changes)]

        def done(error: Exception | None) -> None:
            left[0] -= 1  # always on the committer's thread
            if error is not None:
                pending.Fail(error)
            elif not left[0]:
                pending.Complete([sum(len(c.taken) for c in changes), len(ids) - looked])

        if not changes:
            pending.Complete([0, len(ids) - looked])
        for change in changes:
            self._store.Begin(change, done)
        return pending

    def SetDrainFlag(self, flag: bool) -> Pending:
        """Completes with true; a drained queue takes no new jobs."""
        return self._Begin(DrainChange(self, flag), lambda: True)

    def _Begin(self, change: store.Change, answer: Callable[[], Any]) -> Pending:
        pending = Pending()

        def done(error: Exception | None) -> None:
            if error is None:
                pending.Complete(answer())
            else:
                pending.Fail(error)

        self._store.Begin(change, done)
        return pending


def _SubmitError(entries: Sequence[Entry], error: Exception) -> Exception:
    """The answer for jobs that were not acknowledged; it has their ids where they may still turn up."""
    if not isinstance(error, store.NotKnown):
        return error
    ids = ", ".join(str(e.id) for e in entries[:20]) + (" ..." if len(entries) > 20 else "")
    # The next master may not find them, and then begins to count where they began.
    reuse = "another job may get the number if this master is lost meanwhile, so compare what 'gnt-job info' shows"
    return errors.JobQueueError(f"Job {ids}: {error}; {reuse}", hint=error.hint)


def _EndTime(job: jobs.Job) -> float:
    stamp = job.end or job.start or job.received or (0, 0)
    return stamp[0] + stamp[1] / 1_000_000


def _CancelOutcome(entry: Entry) -> list[Any]:
    status = entry.shown.status
    if status == jobs.CANCELED:
        return [True, f"Job {entry.id} canceled"]
    if status in jobs.FINAL:
        return [False, f"Job {entry.id} has ended meanwhile ({status})"]
    return [False, f"Job {entry.id} will be canceled when its wait for locks is over"]


def _ParseOps(ops: Sequence[Any], number: int) -> list[opcodes.OpCode]:
    """Opcode objects; raises OpPrereqError that names the job and opcode of the request."""
    parsed = []
    for index, op in enumerate(ops):
        try:
            if isinstance(op, opcodes.OpCode):
                op.Validate()
                parsed.append(op)
            else:
                parsed.append(opcodes.OpCode.FromDict(op))
        except errors.ParseError as err:
            text = f"Opcode {index} of job {number} of the request: {err}"
            raise errors.OpPrereqError(text, errors.ECODE_INVAL) from err
    return parsed


def _MakeEntry(job_id: int, ops: Sequence[opcodes.OpCode], failed: set[int]) -> Entry:
    """A new job; raises OpPrereqError on a dependency that cannot be."""
    received = jobs.Now()
    nanoseconds = received[0] * 1_000_000_000 + received[1] * 1_000
    states = []
    for index, op in enumerate(ops):
        op.depends = depends.Resolve(op.depends, job_id, failed)
        source = "gnt:opcode:" + op.OP_ID.removeprefix("OP_").lower()
        op.reason = [*op.reason, [source, f"job={job_id};index={index}", nanoseconds]]
        op_input = jobs.OpInput(op.ToDict(redact=True), op.Summary())
        states.append(jobs.OpState(op_input, priority=op.priority))
    job = jobs.Job(job_id, states, received).Finalized()
    size = InputSize(job)
    if size > MAX_INPUT:
        text = f"its opcodes take {size} bytes, {MAX_INPUT} are allowed"
        raise errors.OpPrereqError(text, errors.ECODE_INVAL)
    return Entry(job, [jobs.OpLog() for _ in ops], dict(enumerate(ops)))
