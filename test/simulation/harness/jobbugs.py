"""Bugs of the job queue planted on purpose: the simulation must find every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti.jqueue import JobQueue
from ganeti.jqueue import job as jobs
from ganeti.jqueue.changes import RestartChange
from ganeti.jqueue.entry import Entry, JobChange, Transform
from ganeti.jqueue.worker import Worker
from ganeti.luxi.pending import Completed, Pending
from ganeti.store import Row


class RunsAgain(JobQueue):
    """After a restart what was running is executed anew."""

    def _Restart(self) -> None:
        class Again(RestartChange):
            def Prepare(self) -> list[Row]:
                for entry in self._entries:
                    if not entry.draft.final:
                        entry.draft = entry.draft.Map(lambda op: op.Replace(status=jobs.QUEUED))
                return super().Prepare()

        self._store.Commit(Again(self._live.Read()))


class Hasty(Worker):
    def Commit(self, entry: Entry, transform: Transform, last: bool = False) -> Any:
        """Goes on before the beginning of an opcode is acknowledged."""
        if transform.__qualname__.startswith("BeginExecution"):
            self._store.Begin(JobChange(self._keeper, entry, transform), lambda error: None, patient=True)
            return entry.draft
        return super().Commit(entry, transform, last)


class StartsUnstored(JobQueue):
    worker_class = Hasty


class AnswersEarly(JobQueue):
    """Tells the id of a job that is not stored yet."""

    def SubmitJob(self, ops: Sequence[Any], to_drained: bool = False) -> Pending:
        super().SubmitJob(ops, to_drained)
        return Completed(self._submitter.last_id)


class PromisesToCancel(JobQueue):
    """Says that a job is canceled, whatever became of it."""

    def CancelJob(self, job_id: int, kill: bool = False) -> Pending:
        super().CancelJob(job_id, kill)
        return Completed([True, "certainly"])


class CountsFromTheWrongEnd(JobQueue):
    """Relative dependencies point one job too far back."""

    def SubmitManyJobs(self, submitted: Sequence[Sequence[Any]], generated: bool = False) -> Pending:
        for ops in submitted:
            for op in ops:
                for depend in op["depends"] or []:
                    depend[0] -= depend[0] < 0
        return super().SubmitManyJobs(submitted, generated)


BUGS: tuple[type[JobQueue], ...] = (RunsAgain, StartsUnstored, AnswersEarly, PromisesToCancel, CountsFromTheWrongEnd)
