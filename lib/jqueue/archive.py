"""Archived jobs: rows of the store until every voter has synced the file, then files only (spec/jobs.md 1).

Nothing is read before somebody asks for it by id, or for all of them.
"""

from __future__ import annotations

import logging
import re

from ganeti import errors, pathutils, runtime, store
from ganeti.jqueue import job as jobs
from ganeti.jqueue.entry import KIND_ARCHIVED

MAX_FILE = 64 * 1024 * 1024

_NAME = re.compile(r"job-([0-9]{1,18})")
_DIRECTORY = re.compile(r"[0-9]{1,14}")


class Archive:
    """Finds archived jobs."""

    def __init__(self, the_store: store.Store):
        self._store = the_store

    def Find(self, job_id: int) -> jobs.View | None:
        """The job, or None if it is not in the archive or cannot be read."""
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
        """All there are, ascending; looks through the archive's directories."""
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
