"""The pid file of a daemon: its lock tells whether the daemon lives, its content who it is."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

# A look by ``Running`` holds the lock for an instant; a starting daemon outwaits it.
_PATIENCE = 0.5


def Lock(name: str) -> protocols.FileLock:
    """Takes RUN/NAME.pid for the life of this process; raises PidFileLockError."""
    path = pathutils.DaemonPidFile(name)
    try:
        lock = runtime.LockFile(path, timeout=_PATIENCE, mode=0o644)
        lock.Write(b"%d\n" % runtime.ProcessId())
    except runtime.LockBusy as err:
        text = f"PID file {path} is locked by process {err.holder}" if err.holder else f"PID file {path} is locked"
        raise errors.PidFileLockError(f"Error while locking PID file:\n{text}") from err
    except OSError as err:
        raise errors.PidFileLockError(f"Error while locking PID file:\n{path}: {err.strerror}") from err
    return lock


def Running(name: str) -> int | None:
    """The process id of the running daemon; None if it does not run, whatever stands in a left-over file."""
    try:
        with open(pathutils.DaemonPidFile(name), "rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                for _ in range(20):
                    stream.seek(0)
                    text = stream.read(32).strip()
                    if text.isdigit():
                        return int(text)
                    runtime.Sleep(0.05)  # locked, its number not written yet
    except OSError:
        pass
    return None
