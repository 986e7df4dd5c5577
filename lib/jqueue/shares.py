"""How much of the queue each kind of client may fill.

Whoever may only read through the remote interface can still have jobs made (``/2/instances/NAME/info``); jobs count until they
are archived, and each takes memory of the master and disk space of every candidate.  So these clients have small shares, and
all clients of the remote interface leave room for the command line, the watcher and jobs that jobs submit.

Who had a job made is in its reason trail.  ganeti-rapi writes that there and lets no client do so; it is stored with the job,
so that the next master counts the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ganeti import constants, errors, runtime, serializer

STRANGER = ""
"""Stands for all readers without a login."""

# In the text of a job, as this release writes it; inside a string the quotes would be escaped.
_READER = re.compile(rf'\["{re.escape(constants.RAPI_READER_SOURCE)}",("(?:[^"\\]|\\.)*"),')
_HINT = "archive finished jobs: gnt-job autoarchive all"


def ReaderOf(trail: Iterable[Any]) -> str | None:
    """Return the name of the reader whose job has this reason trail; None for a job of anybody else."""
    for entry in trail:
        if isinstance(entry, (list, tuple)) and len(entry) > 1 and entry[0] == constants.RAPI_READER_SOURCE:
            return str(entry[1] or STRANGER)
    return None


def ReaderInText(text: str) -> str | None:
    """Return the same for the stored text of a job."""
    found = _READER.search(text)
    return None if found is None else str(serializer.Load(found[1]))


def IsRemote(trail: Iterable[Any]) -> bool:
    """Return whether a job with this reason trail was submitted through the remote interface."""
    return any(str(entry[0]).startswith(constants.RAPI_REASON_SOURCE) for entry in trail)


class Readers:
    """The live jobs of each reader; any thread may use it."""

    def __init__(self) -> None:
        self._lock = runtime.Lock()
        self._counts: dict[str, int] = {}
        self._total = 0

    def Add(self, reader: str | None, count: int = 1) -> None:
        if reader is None:
            return
        with self._lock:
            self._total += count
            self._counts[reader] = self._counts.get(reader, 0) + count
            if not self._counts[reader]:
                del self._counts[reader]

    def Remove(self, reader: str | None) -> None:
        self.Add(reader, -1)

    def Of(self, reader: str) -> int:
        return self._counts.get(reader, 0)

    @property
    def total(self) -> int:
        return self._total


class Shares:
    """The limits, in jobs that are not archived, of a queue that takes ``most``."""

    def __init__(self, most: int):
        self.strangers = max(1, most // 50)
        self.reader = max(1, most // 10)
        self.readers = max(1, most // 5)
        self.remote = most - most // 10

    def Check(self, trails: Sequence[Sequence[Any]], live: int, readers: Readers) -> None:
        """Raise JobQueueFull if jobs with these reason trails would exceed a share; ``live``: the jobs that there are."""
        asked: dict[str, int] = {}
        for trail in trails:
            reader = ReaderOf(trail)
            if reader is not None:
                asked[reader] = asked.get(reader, 0) + 1
        for reader, count in asked.items():
            self._CheckReader(reader, count, readers)
        if asked and readers.total + sum(asked.values()) > self.readers:
            raise errors.JobQueueFull(
                f"The queue has {readers.total} jobs of clients that may only read, {self.readers} are allowed for all of"
                " these clients together; the other places are kept for those that may operate instances",
                hint=_HINT,
            )
        if live + len(trails) > self.remote and any(IsRemote(trail) for trail in trails):
            raise errors.JobQueueFull(
                f"The queue has {live} jobs, {self.remote} are allowed for clients of the remote interface; the other"
                " places are kept for the command line",
                hint=_HINT,
            )

    def _CheckReader(self, reader: str, count: int, readers: Readers) -> None:
        there = readers.Of(reader)
        if reader == STRANGER and there + count > self.strangers:
            raise errors.JobQueueFull(
                f"The queue has {there} jobs of clients that have not logged in, {self.strangers} are allowed; the other"
                " places are kept for clients that log in, and for the command line",
                hint=_HINT,
            )
        if there + count > self.reader:
            raise errors.JobQueueFull(
                f"The queue has {there} jobs of {reader!r}, {self.reader} are allowed for a client that may only read",
                hint=_HINT,
            )
