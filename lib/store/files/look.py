"""What lies in place of the files that the store wrote (rules 10 and 11), seen by listing folders, without reading."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ganeti import pathutils, runtime

if TYPE_CHECKING:
    import os

    from ganeti.store.copy.database import FileRecord


class Look:
    """One look at all files of which the database has a record.

    ``changed``: those that differ from when their stamp was noted, or have none: written by somebody else, or removed.
    ``unknown``: files of live jobs without a record.
    """

    def __init__(self, records: Mapping[str, FileRecord]):
        self.records = records
        stamps: dict[str, str] = {}
        for folder in {pathutils.QUEUE_DIR, *(path.rpartition("/")[0] for path in records)}:
            stamps.update((f"{folder}/{name}", Stamp(info)) for name, info in _Listed(folder).items())
        self.changed = {path for path, record in records.items() if record.stamp != stamps.get(path)}
        self.unknown = {path for path in stamps.keys() - records.keys() if LiveJobOf(path) is not None}


def _Listed(folder: str) -> dict[str, os.stat_result]:
    try:
        return runtime.ListStats(folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}


def Digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def StampOf(path: str) -> str:
    """Return a stamp that changes whenever a file is written, made without reading it; empty if it is missing."""
    try:
        return Stamp(runtime.Stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return ""


def Stamp(info: os.stat_result) -> str:
    return f"{info.st_ino}:{info.st_size}:{info.st_mtime_ns}"


def JobFiles() -> dict[int, str]:
    """Live job files that lie in the queue's folder, by job id."""
    try:
        names = runtime.ListDir(pathutils.QUEUE_DIR)
    except FileNotFoundError:
        return {}
    paths = [f"{pathutils.QUEUE_DIR}/{name}" for name in names]
    return {job_id: path for path in paths if (job_id := LiveJobOf(path)) is not None}


def LiveJobOf(path: str) -> int | None:
    """Return the id of the job whose file this is; None if it is no file of a live job."""
    folder, _, name = path.rpartition("/")
    if folder != pathutils.QUEUE_DIR or not name.startswith("job-") or not IsJobId(name[4:]):
        return None
    return int(name[4:])


def IsJobId(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and str(int(text)) == text


def IsArchived(path: str) -> bool:
    return path.startswith(pathutils.JOB_QUEUE_ARCHIVE_DIR + "/")


def IsOfJob(path: str) -> bool:
    """Return whether the file is a job's, of which there may be very many."""
    return path.rpartition("/")[2].startswith("job-")


def IsSsconf(path: str) -> bool:
    return path.startswith(pathutils.SsconfFile(""))
