"""The job queue: takes jobs in, lets workers run them, shows them, archives them (doc/reference/jobs.md, doc/reference/luxi.md 4)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, runtime, serializer, store
from ganeti.jqueue import depends, filters, watch
from ganeti.jqueue import job as jobs
from ganeti.jqueue.archive import Archive, Archiver
from ganeti.jqueue.cancel import Abort, Canceler, EndWaits
from ganeti.jqueue.changes import (
    AfterRestart,
    ArchiveChange,
    DrainChange,
    Portions,
    QueueState,
    RestartChange,
    SubmitChange,
)
from ganeti.jqueue.entry import ChangePriority, CheckPriority, Entry, JobChange, Keeper
from ganeti.jqueue.live import LiveJobs
from ganeti.jqueue.scheduler import DEFAULT_MAX_RUNNING, Scheduler
from ganeti.jqueue.submit import MAX_LIVE_JOBS, Outcomes, Submitter
from ganeti.jqueue.ticker import Ticker
from ganeti.jqueue.worker import Execute, Worker
from ganeti.luxi.pending import All, Begun, Completed, Pending
from ganeti.store.base import ID_DRAIN, ID_SERIAL, KIND_JOB, KIND_QUEUE

if TYPE_CHECKING:
    from ganeti.objects import FilterRule

# Seconds between two looks at rules and limits if nothing else makes the queue look (doc/reference/jobs.md 7.1).
LOOK_EVERY = 307.0
# Jobs in one change of the store.
RESTART_GROUP = 500
# At most so many threads that take urgent jobs alone: one for each such job, as some may hang for as long as their node.
URGENT_WORKERS = 128

# (max_running_jobs, filter rules by UUID)
Settings = Callable[[], "tuple[int, Mapping[str, FilterRule]]"]

# (job id, version before, version after), on the committer's thread; None stands for a job that is not live.
Announce = Callable[[int, "jobs.Job | None", "jobs.Job | None"], None]


def _NoSettings() -> tuple[int, Mapping[str, FilterRule]]:
    return DEFAULT_MAX_RUNNING, {}


class JobQueue(Keeper):
    """All live jobs of the cluster.

    Methods that change something return a Pending at once, which is completed when the change is acknowledged.  No
    lock is held while anything is waited for.  ``abort``, ``end_waits`` and ``end_asking`` are described in ``cancel``.
    ``announce`` is called for each version of a job that is acknowledged after the start.
    """

    worker_class = Worker

    def __init__(
        self,
        the_store: store.Store,
        execute: Execute,
        settings: Settings = _NoSettings,
        abort: Abort = lambda thread, still: 0,
        end_waits: EndWaits = lambda job_id: None,
        max_live_jobs: int = MAX_LIVE_JOBS,
        announce: Announce = lambda job_id, before, after: None,
        end_asking: Abort = lambda thread, still: 0,
    ):
        self._store = the_store
        self._announce = announce
        self._settings = settings
        self._thread_of: dict[int, int] = {}
        self._live = LiveJobs()
        self._drained = False
        # What the committer's next transaction builds on.
        self.state = QueueState()
        self._closed = True
        self._stopped = False
        self._seen_settings: tuple[int, Any] | None = None
        self._ticker = Ticker("JqTicker")
        # Filter rules may take long; nothing else is done on this thread.
        self._judge = Ticker("JqRules")
        self._watcher = watch.Watcher(self._ticker)
        self._archive = Archive(the_store)
        self._archiver = Archiver(the_store, lambda entries: ArchiveChange(self, entries))
        self._submitter = Submitter(
            the_store,
            lambda entries, to_drained: SubmitChange(self, entries, to_drained),
            self._live,
            max_live_jobs,
        )
        self._canceler = Canceler(self, the_store, self._ticker, self._thread_of.get, abort, end_waits, end_asking)
        self._scheduler = Scheduler(self._Reject, lambda: self._judge.Soon(self._scheduler.Judge))
        self._worker = self.worker_class(
            self, the_store, self._ticker, execute, self._SubmitGenerated, self.StatusOf, self._watcher.Changed
        )
        self._threads: list[Any] = []
        self._urgent_threads: list[Any] = []

    # --- life ---------------------------------------------------------------------------------------------------------

    def Start(self) -> None:
        """Take over the jobs of the store, judge those that were cut off, and begin to work."""
        self._Load()
        self._Restart()
        self._ticker.Start()
        self._judge.Start()
        self.Reconsider()
        self._ticker.After(LOOK_EVERY, self._LookAgain)
        self._Schedule(self._live.Read())
        self._closed = False
        self._scheduler.SetActive(True)

    def _Load(self) -> None:
        self._live.Load(self._store.HandOver(KIND_JOB))
        rows = self._store.Rows(KIND_QUEUE)
        serial = serializer.Load(rows.get(ID_SERIAL, "0"))
        self._submitter.last_id = max(serial, self._live.LastId())
        self._drained = rows.get(ID_DRAIN) == "true"  # a file removed by hand has become "false"
        self.state.serial, self.state.drained = serial, self._drained

    def _Restart(self) -> None:
        """Requeue jobs that waited, end those that ran as errors (doc/reference/jobs.md 8)."""
        entries = [entry for entry in self._live.Read() if AfterRestart(entry.draft) is not entry.draft]
        unclean = [e.id for e in entries if e.draft.status in (jobs.RUNNING, jobs.CANCELING)]
        if unclean:
            logging.warning("Jobs that the last master daemon left running end as errors: %s", unclean)
        for portion in Portions(entries, RESTART_GROUP):
            self._store.Commit(RestartChange(portion), patient=True)

    def Close(self) -> None:
        """Reject new jobs and start none; jobs that wait for locks go back to the queue."""
        self._closed = True
        self._scheduler.SetActive(False)
        self._worker.shutting_down = True

    def Reopen(self) -> None:
        """Take and start jobs again after a Close."""
        self._worker.shutting_down = False
        self._closed = False
        self._scheduler.SetActive(True)

    def WaitIdle(self, timeout: float) -> bool:
        """After Close: wait until no job runs."""
        return self._scheduler.WaitIdle(timeout)

    def RunningJobs(self) -> list[int]:
        """Return the jobs that workers are at."""
        return self._scheduler.Busy()

    def Stop(self) -> None:
        """End workers and subscriptions; what still runs ends with the process."""
        self.Close()
        self._stopped = True
        self._scheduler.Stop()
        self._judge.Stop()
        self._ticker.Stop()
        for entry in self._live.Read():
            self._watcher.EndAll(entry)

    def Shutdown(self, timeout: float = 20.0) -> bool:
        """Close, wait and stop; return False, and reopen, if jobs still run after ``timeout`` seconds."""
        self.Close()
        if not self.WaitIdle(timeout):
            self.Reopen()
            return False
        self.Stop()
        return True

    # --- rules and workers --------------------------------------------------------------------------------------------

    def Reconsider(self) -> None:
        """Look at limits and filter rules again."""
        wanted, rules = self._settings()
        max_running = min(wanted, constants.MAX_RUNNING_JOBS)
        before, self._seen_settings = self._seen_settings, (max_running, rules)
        if before is None or before[0] != max_running:
            self._scheduler.SetMaxRunning(max_running)
        if before is None or before[1] is not rules:
            self._scheduler.SetRules(filters.RuleSet(rules.values()))
        while len(self._threads) < max_running:
            self._threads.append(self._StartWorker(f"Jq{len(self._threads) + 1}", urgent=False))

    def _StartUrgent(self) -> None:
        """Have a worker for each urgent job, so that none waits for one that hangs."""
        while len(self._urgent_threads) < min(self._scheduler.Urgent(), URGENT_WORKERS):
            self._urgent_threads.append(self._StartWorker(f"JqUrgent{len(self._urgent_threads) + 1}", urgent=True))

    def _StartWorker(self, name: str, urgent: bool) -> Any:
        thread = runtime.Thread(lambda: self._RunWorker(urgent), name)
        thread.start()
        return thread

    def ReconsiderSoon(self, done: Callable[[], object]) -> None:
        """Do the same on the queue's own thread, then call ``done``: jobs submitted from now on follow the new rules."""

        def reconsider() -> None:
            try:
                self.Reconsider()
            finally:
                done()

        self._ticker.Soon(reconsider)

    def _LookAgain(self) -> None:
        self.Reconsider()
        self._ticker.After(LOOK_EVERY, self._LookAgain)

    def _RunWorker(self, urgent: bool) -> None:
        while self._RunNext(urgent):
            pass

    def _RunNext(self, urgent: bool) -> bool:
        """Do one round of the next job; return False when the queue has stopped.

        A function of its own, so that a worker that waits does not hold its last job in memory.
        """
        entry = self._scheduler.Next(urgent)
        if entry is None:
            return False
        again = False
        self._thread_of[entry.id] = runtime.ThreadIdent()
        try:
            again = self._worker.Work(entry)
        except Exception:
            logging.exception("Job %d: its worker failed and takes the next job", entry.id)
        finally:
            self._thread_of.pop(entry.id, None)
            self._scheduler.Release(entry, again)
        if entry.draft.status == jobs.CANCELING:
            self._canceler.Hurry(entry)  # it began to cancel after its worker had looked
        return True

    def _Reject(self, entry: Entry) -> None:
        rule, reason = entry.verdict.rule, entry.verdict.reason
        self._canceler.Reject(entry, f"Job rejected by filter rule {rule}{f': {reason}' if reason else ''}")

    def _Schedule(self, entries: Iterable[Entry]) -> None:
        waiting = [e for e in entries if not e.draft.final]
        self._scheduler.Add([(e, depends.Unfinished(e.draft, self._IsLiving)) for e in waiting])
        if any(entry.urgent for entry in waiting):
            self._ticker.Soon(self._StartUrgent)

    # --- called by changes that were acknowledged ---------------------------------------------------------------------

    def SeveralRun(self) -> bool:
        return len(self._thread_of) > 1

    def OnPublished(self, entry: Entry, before: jobs.Job) -> None:
        self._watcher.Changed(entry)
        job = entry.shown
        self._announce(entry.id, before, job)
        if job.final:
            entry.objects = {}
            job.Pack()
            with entry.lock:
                ended, entry.ended = entry.ended, []
            for call in ended:
                self._ticker.Soon(call)
            self._scheduler.Ended(entry.id)
            if job.status == jobs.CANCELED:
                self._ticker.Soon(lambda: self._canceler.EndAsking(entry))  # it was not shown as waiting yet
            if self._settings() != self._seen_settings:
                self._ticker.Soon(self.Reconsider)
            return
        if job.status == jobs.CANCELING and before.status != jobs.CANCELING:
            self._canceler.Hurry(entry)
        if before.priority != job.priority:
            self._scheduler.Reprioritise(entry)

    def OnSubmitted(self, entries: Sequence[Entry]) -> None:
        """Schedule new jobs."""
        for entry in entries:
            entry.published = entry.draft
        self._live.Add(entries)
        for entry in entries:
            self._announce(entry.id, None, entry.shown)
        self._Schedule(entries)

    def OnArchived(self, entries: Sequence[Entry]) -> None:
        self._live.Remove(entries)
        for entry in entries:
            self._announce(entry.id, entry.shown, None)

    def OnDrained(self, flag: bool) -> None:
        self._drained = flag

    @property
    def drained(self) -> bool:
        return self._drained

    @property
    def last_id(self) -> int:
        """Return the highest job id given out."""
        return self._submitter.last_id

    def _IsLiving(self, job_id: int) -> bool:
        entry = self._live.Get(job_id)
        return entry is not None and not entry.shown.final

    # --- submission ---------------------------------------------------------------------------------------------------

    def SubmitJob(self, ops: Sequence[Any], to_drained: bool = False) -> Pending:
        """Take in one job; completes with its id.  Opcodes are objects or what clients send."""
        self._CheckOpen()

        def job_id(outcomes: Outcomes) -> int:
            [(success, value)] = outcomes
            if not success:
                raise value
            return int(value)

        return self._submitter.Submit([ops], to_drained).Map(job_id)

    def SubmitManyJobs(self, submitted: Sequence[Sequence[Any]], generated: bool = False) -> Pending:
        """Take in several jobs in one step; completes with [true, id] or [false, text] for each.

        Jobs ``generated`` by a job are taken in for the next start while the queue closes.
        """
        if not generated:
            self._CheckOpen()

        def answer(outcomes: Outcomes) -> list[list[Any]]:
            return [[ok, value if ok else str(value.args[0])] for ok, value in outcomes]

        return self._submitter.Submit(submitted, False).Map(answer)

    def _CheckOpen(self) -> None:
        if self._closed:
            raise errors.JobQueueError("Job queue is shutting down, refusing job", hint="try again in a minute")

    def _SubmitGenerated(self, submitted: Sequence[Sequence[Any]]) -> list[list[Any]]:
        answer: list[list[Any]] = self.SubmitManyJobs(submitted, generated=True).Result()
        return answer

    # --- looking ------------------------------------------------------------------------------------------------------

    def StatusOf(self, job_id: int) -> str | None:
        """Return the status of a job, archived ones too; None if it does not exist."""
        view = self._View(job_id)
        return view.FieldValue("status") if view.found else None

    def Statuses(self) -> Iterator[tuple[str, float | None]]:
        """Yield the status of each live job and the time when it was submitted."""
        for entry in self._live.All():
            received = entry.shown.received
            yield entry.shown.status, None if received is None else received[0] + received[1] / 1e6

    def _View(self, job_id: int) -> jobs.View:
        entry = self._live.Get(job_id)
        if entry is not None:
            return entry.View()
        return self._archive.Find(job_id) or jobs.View(job_id, None)

    def Views(self, ids: Sequence[int] | None, archived: bool) -> list[jobs.View]:
        """Return jobs for queries: the live ones in ascending order (and all ``archived``), or those asked for by id."""
        if ids:
            return [self._View(job_id) for job_id in dict.fromkeys(ids)]
        live = {entry.id: entry.View() for entry in self._live.All()}
        if not archived:
            return list(live.values())
        found = [live.get(job_id) or self._archive.Find(job_id) for job_id in sorted({*live, *self._archive.Ids()})]
        return [view for view in found if view is not None]

    def QueryJobs(self, ids: Sequence[int] | None, fields: Sequence[str]) -> list[list[Any]]:
        """Return bare field values; null for what is not set.  Raises OpPrereqError on an unknown field."""
        unknown = [name for name in fields if name not in jobs.FIELDS]
        if unknown:
            raise errors.OpPrereqError(f"Unknown job field: {', '.join(unknown)[:200]}", errors.ECODE_INVAL)
        views = self.Views(ids, "archived" in fields)
        return [[view.FieldValue(name) for name in fields] for view in views]

    def Wait(
        self, job_id: int, fields: Sequence[str], prev_info: Any, prev_serial: int | None, timeout: float
    ) -> Pending:
        """Complete with [values, log entries] once the job differs from what the caller saw, or at the time-out.

        Raises JobLost for a job that is not live.
        """
        entry = self._live.Get(job_id)
        if entry is None:
            raise watch.LostError(job_id)
        return self._watcher.Wait(entry, fields, prev_info, prev_serial, 0 if self._stopped else timeout)

    # --- changes ------------------------------------------------------------------------------------------------------

    def CancelJob(self, job_id: int, kill: bool = False) -> Pending:
        """Complete with [whether the job is canceled, text]."""
        return self.CancelManyJobs([job_id], kill).Map(lambda answers: answers[0])

    def CancelManyJobs(self, job_ids: Sequence[int], kill: bool = False) -> Pending:
        """Cancel several jobs in one step; completes with the answer of ``CancelJob`` for each."""
        entries = {n: entry for n in job_ids if (entry := self._live.Get(n)) is not None}
        answers = dict(zip(entries, self._canceler.Cancel(list(entries.values()), kill), strict=True))
        in_order = [answers.get(n) or Completed([False, f"Job {n} not found"]) for n in job_ids]
        return All(in_order).Map(lambda ended: [one.Result(0) for one in ended])

    def ChangePriority(self, job_id: int, priority: int) -> Pending:
        """Complete with [whether something was changed, text]."""
        CheckPriority(priority)
        entry = self._live.Get(job_id)
        if entry is None:
            return Completed([False, f"Job {job_id} not found"])
        wish = ChangePriority(priority)
        return self._Begin(JobChange(self, entry, wish)).Map(lambda _: list(wish.answer))

    def ArchiveJob(self, job_id: int) -> Pending:
        """Complete with whether the job was moved to the archive."""
        return self._archiver.One(self._live.Get(job_id))

    def AutoArchive(self, age: float, timeout: float) -> Pending:
        """Archive what ended long ago (Archiver.Old)."""
        return self._archiver.Old(self._live.All(), age, timeout)

    def SetDrainFlag(self, flag: bool) -> Pending:
        """Complete with true; a drained queue takes no new jobs."""
        return self._Begin(DrainChange(self, flag)).Map(lambda _: True)

    def _Begin(self, change: store.Change) -> Pending:
        return Begun(lambda done: self._store.Begin(change, done))
