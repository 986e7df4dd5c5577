"""Changes of the store that concern more than one job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ganeti import errors, serializer, store
from ganeti.jqueue import job as jobs
from ganeti.jqueue.entry import Entry, JobRow
from ganeti.store.base import ID_DRAIN, ID_SERIAL, KIND_ARCHIVED, KIND_JOB, KIND_QUEUE

if TYPE_CHECKING:
    from ganeti.jqueue.job import Job
    from ganeti.jqueue.queue import JobQueue


class QueueState:
    """The newest draft of the queue's own rows; of the committer's thread."""

    def __init__(self) -> None:
        self.serial = 0
        self.drained = False


def Portions(entries: Iterable[Entry], count: int, size: int = 4 * 1024 * 1024) -> Iterator[list[Entry]]:
    """Yield at most so many jobs, and about so many bytes, at once."""
    portion: list[Entry] = []
    total = 0
    for entry in entries:
        row_size = entry.row_size
        if portion and (len(portion) >= count or total + row_size > size):
            yield portion
            portion, total = [], 0
        portion.append(entry)
        total += row_size
    if portion:
        yield portion


class SubmitChange(store.Change):
    """New jobs, and the highest id handed out."""

    def __init__(self, queue: JobQueue, entries: Sequence[Entry], to_drained: bool):
        self._queue = queue
        self._entries = entries
        self._to_drained = to_drained
        self._serial_before = 0

    def Prepare(self) -> list[store.Row]:
        if self._queue.state.drained and not self._to_drained:
            raise errors.JobQueueDrainError(
                "Job queue is drained, refusing job", hint="an administrator drained it: gnt-cluster queue info"
            )
        state = self._queue.state
        self._serial_before = state.serial
        # Ids are given out before their order in the store is known.
        state.serial = max(state.serial, self._entries[-1].id)
        rows = [JobRow(entry, entry.draft) for entry in self._entries]
        rows.append(store.Row(KIND_QUEUE, ID_SERIAL, serializer.Dump(state.serial)))
        return rows

    def Publish(self) -> None:
        self._queue.OnSubmitted(self._entries)

    def Withdraw(self) -> None:
        self._queue.state.serial = self._serial_before


class DrainChange(store.Change):
    """The drain flag."""

    def __init__(self, queue: JobQueue, flag: bool):
        self._queue = queue
        self._flag = flag
        self._before = False

    def Prepare(self) -> list[store.Row]:
        self._before = self._queue.state.drained
        self._queue.state.drained = self._flag
        return [store.Row(KIND_QUEUE, ID_DRAIN, "true" if self._flag else None)]

    def Publish(self) -> None:
        self._queue.OnDrained(self._flag)

    def Withdraw(self) -> None:
        self._queue.state.drained = self._before


class ArchiveChange(store.Change):
    """Jobs that go to the archive; ``taken`` are those that really went."""

    def __init__(self, queue: JobQueue, entries: Iterable[Entry]):
        self._queue = queue
        self._entries = list(entries)
        self.taken: list[Entry] = []

    def Prepare(self) -> list[store.Row]:
        rows = []
        for entry in self._entries:
            if entry.leaving or not entry.draft.final:
                continue
            entry.leaving = True
            self.taken.append(entry)
            row = JobRow(entry, entry.draft)
            rows += [store.Row(KIND_JOB, row.id, None), store.Row(KIND_ARCHIVED, row.id, row.value)]
        return rows

    def Publish(self) -> None:
        self._queue.OnArchived(self.taken)

    def Withdraw(self) -> None:
        for entry in self.taken:
            entry.leaving = False
        self.taken = []


def AfterRestart(job: Job) -> Job:
    """Return what a job becomes that another master daemon left behind (doc/reference/jobs.md 8)."""
    if job.status in (jobs.RUNNING, jobs.CANCELING):
        return jobs.MarkUnclean(job)
    return jobs.MarkQueued(job).Finalized()


class RestartChange(store.Change):
    """The judgement over the jobs found at the start, when nothing else runs yet."""

    def __init__(self, entries: Sequence[Entry]):
        self._entries = entries
        self._before: list[Job] = []

    def Prepare(self) -> list[store.Row]:
        self._before = [entry.draft for entry in self._entries]
        rows = []
        for entry in self._entries:
            judged = AfterRestart(entry.draft)
            if judged is not entry.draft:
                entry.draft = judged
                rows.append(JobRow(entry, entry.draft))
        return rows

    def Publish(self) -> None:
        for entry in self._entries:
            entry.published = entry.draft

    def Withdraw(self) -> None:
        for entry, before in zip(self._entries, self._before, strict=True):
            entry.draft = before
