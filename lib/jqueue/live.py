"""The live jobs of the queue by id; those that had ended when this master started are read when somebody asks."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from ganeti import errors, runtime
from ganeti.daemon import memory
from ganeti.jqueue import job as jobs
from ganeti.jqueue import shares
from ganeti.jqueue.entry import Entry

# How the text of a job ends that has ended, as this release writes it.  Inside a string the quotes would be escaped.
_ENDED = re.compile(r'"end_timestamp":\[[0-9]{1,19},[0-9]{1,6}\]\}\Z')
_LONGEST_END = 60


def SaysEnded(text: str) -> bool:
    """Return whether a job has surely ended, by the end of its text; other programs may write one in another way."""
    return _ENDED.search(text, max(0, len(text) - _LONGEST_END)) is not None


class LiveJobs:
    """All jobs that are not archived.

    The committer's thread adds and removes them; every thread may look.
    """

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._unread: dict[int, str] = {}
        self.readers = shares.Readers()
        self._lock = runtime.Lock()

    def Load(self, rows: Mapping[str, str]) -> None:
        """Take over the jobs of the store; read those that may not have ended.  One that cannot be read is left alone."""
        for row_id, text in rows.items():
            if SaysEnded(text):
                self._unread[int(row_id)] = text
                self.readers.Add(shares.ReaderInText(text))
                continue
            entry = _Read(int(row_id), text)
            if entry is not None:
                self._entries[entry.id] = entry
                self.readers.Add(entry.reader)

    def __len__(self) -> int:
        return len(self._entries) + len(self._unread)

    def Get(self, job_id: int) -> Entry | None:
        if job_id in self._unread:
            with self._lock:
                text = self._unread.get(job_id)
                entry = None if text is None else _Read(job_id, text)
                if entry is not None:
                    self._entries[job_id] = entry
                self._unread.pop(job_id, None)
            if entry is None and text is not None:
                self.readers.Remove(shares.ReaderInText(text))  # without the mutex, which is a leaf
        # Whoever does not see it among the unread sees it here: it is here before it leaves them.
        return self._entries.get(job_id)

    def LastId(self) -> int:
        """Return the highest id; 0 if the queue is empty."""
        return max([0, *self._entries, *self._unread])

    def Read(self) -> list[Entry]:
        """Return those that have been read, by id: all but some of those that had ended at the start."""
        return [entry for _, entry in sorted(self._entries.items())]

    def All(self) -> list[Entry]:
        """Return all of them, by id; the first call reads what was not read yet."""
        if self._unread:
            with memory.MakingWhatStays():
                for job_id in list(self._unread):
                    self.Get(job_id)
        return self.Read()

    def Add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._entries[entry.id] = entry
            self.readers.Add(entry.reader)

    def Remove(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if self._entries.pop(entry.id, None) is not None:
                self.readers.Remove(entry.reader)


def _Read(job_id: int, text: str) -> Entry | None:
    """Return the job in a row of the store; None, and log why, if it cannot be read."""
    try:
        job, logs = jobs.ReadJob(text)
        if job.id != job_id:
            raise errors.JobFileCorrupted(f"it says that it is job {job.id}")
    except errors.JobFileCorrupted as err:
        logging.error("Job %d cannot be read and is left alone: %s", job_id, err)
        return None
    return Entry(job, logs, published=job)
