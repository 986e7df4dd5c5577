"""The queue's directory: its lock, held for the life of the queue's owner, and its version (doc/reference/jobs.md 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti import constants, errors, pathutils, runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_SMALL = 100


def CheckVersion() -> None:
    """Raise JobQueueError if the files are those of a queue that this release does not know."""
    path = pathutils.JOB_QUEUE_VERSION_FILE
    try:
        text = runtime.ReadText(path, _SMALL).strip()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as err:
        raise errors.JobQueueError(f"{path} cannot be read: {err}") from err
    if text != str(constants.JOB_QUEUE_VERSION):
        raise errors.JobQueueError(
            f"{path} says '{text}', this release knows version {constants.JOB_QUEUE_VERSION} of the job queue",
            hint="upgrade with an empty queue, or start the release that wrote it",
        )


def Own(uid: int = -1, gid: int = -1) -> protocols.FileLock:
    """Make this process the owner of the queue until the lock is released; raises JobQueueError if another is."""
    if not runtime.IsDir(pathutils.QUEUE_DIR):
        runtime.MakeDirs(pathutils.QUEUE_DIR, 0o750)
        if (uid, gid) != (-1, -1):
            runtime.Chown(pathutils.QUEUE_DIR, uid, gid)
    CheckVersion()
    try:
        return runtime.LockFile(pathutils.JOB_QUEUE_LOCK_FILE, timeout=0)
    except runtime.LockBusy as err:
        raise errors.JobQueueError(
            f"Another process owns the job queue: {pathutils.JOB_QUEUE_LOCK_FILE} is locked", hint=err.hint
        ) from err
