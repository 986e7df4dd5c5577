"""Every version of every job, archived ones too, and every execution (doc/reference/locking.md 14.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simulation.harness.cluster import Cluster
from simulation.harness.jobs import FINAL, JobLedger

from ganeti import serializer
from ganeti.jqueue import job as jobs
from ganeti.store import Row, Store
from ganeti.store.base import KIND_ARCHIVED

KIND_JOB = "job"
# How the store answers those who do not wait: a running job never ends by it (doc/design-store.rst, 7).
_NOT_FOR_JOBS = ("no change is accepted", "not acknowledged yet: stored on")


class JobBook(JobLedger):
    """What is known of all jobs of all masters."""

    def __init__(self, cluster: Cluster):
        super().__init__(cluster)
        # Ids of jobs that went to the archive, acknowledged.
        self.archived: set[int] = set()
        # Comments of opcodes whose submission was refused: nothing of them may ever be seen.
        self.refused: set[str] = set()

    def Acknowledged(self, seq: int, rows: Sequence[Row]) -> None:
        super().Acknowledged(seq, rows)
        if seq <= self._adopted:
            return
        for row in rows:
            if row.kind == KIND_ARCHIVED and row.value is not None:
                self._Archived(int(row.id), serializer.Load(row.value))

    def _CheckVersion(self, job_id: int, new: dict[str, Any]) -> None:
        super()._CheckVersion(job_id, new)
        for op in new["ops"]:
            text = str(op["result"]) if op["status"] == "error" else ""
            self.Check(
                not any(words in text for words in _NOT_FOR_JOBS),
                f"rule 7: {op['input']['comment']} of job {job_id} did not wait for a quorum: {text}",
            )

    def _Archived(self, job_id: int, job: dict[str, Any]) -> None:
        known = self.rows.get(job_id)
        if known != job:
            self._CheckVersion(job_id, job)
        self.Check(jobs.JobStatus(op["status"] for op in job["ops"]) in FINAL, f"job {job_id} was archived alive")
        self.archived.add(job_id)

    def AdoptedFrom(self, store: Store) -> None:
        """A master begins with what this store holds."""
        epoch = store.Epoch()
        if self._epoch is not None and epoch < self._epoch:
            return  # it was paused and does not know yet that there is a newer one
        live, archived = store.Rows(KIND_JOB), store.Rows(KIND_ARCHIVED)
        for job_id in self.archived:
            self.Check(str(job_id) not in live, f"job {job_id} was archived and is a live one again")
        for row_id, value in archived.items():
            if int(row_id) not in self.archived:
                self._Archived(int(row_id), serializer.Load(value))
        # Rows of the archive go when all voters have the file.
        gone = {str(job_id): serializer.Dump(self.rows[job_id]) for job_id in self.archived}
        self.Adopted(epoch, store.Acknowledged().seq, {**gone, **archived, **live})

    def Counted(self, execute: Callable[..., Any], process: Any) -> Callable[..., Any]:
        """``execute`` of a master's queue, with every execution noted."""

        def run(op: Any, ec_id: int, cbs: Any, timeout: float | None = None, priority: int | None = None) -> Any:
            callbacks = _Callbacks(self, cbs, (process, ec_id), op.comment)
            try:
                return execute(op, ec_id, callbacks, timeout, priority)
            finally:
                self.running.discard((process, ec_id))

        return run

    def Began(self, key: tuple[Any, int], tag: str) -> None:
        """An opcode is about to be executed: everybody can know that it is running."""
        self.Check(key not in self.running, f"Q1: two workers execute job {key[1]}")
        self.executed[tag] = self.executed.get(tag, 0) + 1
        self.Check(self.executed[tag] == 1, f"Q6: {tag} of job {key[1]} is executed again")
        self.running.add(key)

    def CheckEnd(self) -> None:
        super().CheckEnd()
        for job_id, row in self.rows.items():
            for op in row["ops"]:
                tag = op["input"]["comment"]
                # Where two masters serve for a moment, one may accept what the other one refuses.
                told = tag in self.told.accepted.get(job_id, ())
                self.Check(
                    told or tag not in self.refused, f"job {job_id} was refused ({tag}) and is there all the same"
                )


class _Callbacks:
    """The queue's callbacks; tells when an execution begins."""

    def __init__(self, book: JobBook, inner: Any, key: tuple[Any, int], tag: str):
        self._book = book
        self._inner = inner
        self._key = key
        self._tag = tag

    def NotifyStart(self) -> None:
        self._inner.NotifyStart()
        self._book.Began(self._key, self._tag)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
