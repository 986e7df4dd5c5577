"""Archived jobs: rows of the store until every voter has synced the file, then files only (doc/reference/jobs.md 1).

Nothing is read before somebody asks for it by id, or for all of them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence

from ganeti import errors, pathutils, runtime, store
from ganeti.jqueue import job as jobs
from ganeti.jqueue.changes import ArchiveChange, Portions
from ganeti.jqueue.entry import Entry
from ganeti.luxi.pending import Begun, Completed, Pending
from ganeti.store.base import KIND_ARCHIVED

MAX_FILE = 64 * 1024 * 1024
# Jobs in one change of the store.
ARCHIVE_GROUP = 100

_NAME = re.compile(r"job-([0-9]{1,18})")
_DIRECTORY = re.compile(r"[0-9]{1,14}")


class Archive:
    """Find archived jobs."""

    def __init__(self, the_store: store.Store):
        self._store = the_store

    def Find(self, job_id: int) -> jobs.View | None:
        """Return the job, or None if it is not in the archive or cannot be read."""
        text: str | bytes | None = self._store.Value(KIND_ARCHIVED, str(job_id))
        if text is None:
            try:
                text = runtime.ReadFile(pathutils.ArchivedJobFile(job_id), MAX_FILE)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as err:
                logging.warning("Archived job %d cannot be read: %s", job_id, err)
                return None
        try:
            job, logs = jobs.ReadJob(text)
        except errors.JobFileCorrupted as err:
            logging.warning("Archived job %d cannot be read: %s", job_id, err)
            return None
        return jobs.View(job_id, job, logs, archived=True)

    def Ids(self) -> list[int]:
        """Return all ids, ascending; lists the archive's directories."""
        found = {int(row_id) for row_id in self._store.Rows(KIND_ARCHIVED)}
        for directory in self._Names(pathutils.JOB_QUEUE_ARCHIVE_DIR):
            if not _DIRECTORY.fullmatch(directory):
                continue
            for name in self._Names(f"{pathutils.JOB_QUEUE_ARCHIVE_DIR}/{directory}"):
                match = _NAME.fullmatch(name)
                if match:
                    found.add(int(match[1]))
        return sorted(found)

    @staticmethod
    def _Names(path: str) -> list[str]:
        try:
            return runtime.ListDir(path)
        except (FileNotFoundError, NotADirectoryError):
            return []


class Archiver:
    """Move jobs that have ended to the archive.

    ``make_change(entries)`` is the change of the store that moves them.
    """

    def __init__(self, the_store: store.Store, make_change: Callable[[Sequence[Entry]], ArchiveChange]):
        self._store = the_store
        self._make_change = make_change

    def _Archive(self, entries: Sequence[Entry]) -> Pending:
        """Complete with the number of jobs that were moved."""
        change = self._make_change(entries)
        return Begun(lambda done: self._store.Begin(change, done)).Map(lambda _: len(change.taken))

    def One(self, entry: Entry | None) -> Pending:
        """Complete with whether the job was moved."""
        if entry is None or not entry.shown.final:
            return Completed(False)
        return self._Archive([entry]).Map(bool)

    def Old(self, entries: Sequence[Entry], age: float, timeout: float) -> Pending:
        """Archive what ended more than ``age`` seconds ago (negative: all that ended); look for ``timeout`` seconds.

        Completes with [number archived, number not looked at].
        """
        deadline = runtime.Monotonic() + timeout
        before = runtime.Time() - age
        chosen: list[Entry] = []
        looked = 0
        for entry in entries:
            if runtime.Monotonic() >= deadline:
                break
            looked += 1
            if entry.shown.final and (age < 0 or _EndTime(entry.shown) < before):
                chosen.append(entry)
        archived = self._InTurn(Portions(chosen, ARCHIVE_GROUP))
        return archived.Map(lambda moved: [moved, len(entries) - looked])

    def _InTurn(self, portions: Iterator[list[Entry]]) -> Pending:
        """Archive one portion after the other; complete with the number of jobs that were moved.

        All at once would fill transactions of megabytes: others would wait for them, and so much memory would be left with
        holes.
        """
        result = Pending()
        moved = 0

        def archive_next() -> None:
            portion = next(portions, None)
            if portion is None:
                result.Complete(moved)
            else:
                self._Archive(portion).Then(take)

        def take(done: Pending) -> None:
            nonlocal moved
            if done.error is not None:
                result.Fail(done.error)
                return
            moved += done.value
            archive_next()

        archive_next()
        return result


def _EndTime(job: jobs.Job) -> float:
    stamp = job.end or job.start or job.received or (0, 0)
    return stamp[0] + stamp[1] / 1_000_000
