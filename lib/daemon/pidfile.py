"""The pid file of a daemon: its lock shows whether the daemon lives, its content which process it is.

Only the daemon's own user may open the file: whoever can open a file can lock it, and a lock held by a stranger would
look like a daemon that runs.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime
from ganeti.daemon import users

if TYPE_CHECKING:
    from ganeti.runtime import protocols

# A look by ``Running`` holds the lock for an instant; a starting daemon waits for longer.
_PATIENCE = 0.5
_MODE = 0o600


def Lock(name: str) -> protocols.FileLock:
    """Take RUN/NAME.pid for the life of this process; raises PidFileLockError."""
    path = pathutils.DaemonPidFile(name)
    try:
        if not _IsOurs(path, name) and Running(name) is None:
            logging.warning("%s could be opened by others than the daemon's user; it is replaced", path)
            runtime.RemoveFile(path)
        lock = runtime.LockFile(path, timeout=_PATIENCE, mode=_MODE)
        lock.Write(b"%d\n" % runtime.ProcessId())
    except runtime.LockBusy as err:
        text = f"PID file {path} is locked by process {err.holder}" if err.holder else f"PID file {path} is locked"
        raise errors.PidFileLockError(f"Error while locking PID file:\n{text}") from err
    except OSError as err:
        raise errors.PidFileLockError(f"Error while locking PID file:\n{path}: {err.strerror}") from err
    return lock


def _IsOurs(path: str, name: str) -> bool:
    """Return whether nobody but the daemon's user and root can have the file open, as far as it exists."""
    try:
        info = runtime.Stat(path, follow=False)
    except FileNotFoundError:
        return True
    return info.st_uid in OwnUsers(name) and stat.S_ISREG(info.st_mode) and not info.st_mode & 0o077


def OwnUsers(name: str) -> tuple[int, ...]:
    """Return the users as whom a daemon may run, and whose word about it counts."""
    user, _ = users.DAEMON_USERS.get(name, ("root", ""))
    # A daemon that was started without user checks runs as whoever started it.
    return (0, os.geteuid(), users.UserId(user))


def Running(name: str) -> int | None:
    """Return the process id of the running daemon; None if it does not run, whatever a left-over file says."""
    path = pathutils.DaemonPidFile(name)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)  # noqa: TID251 - only locked
    except OSError:
        return None
    with open(handle, "rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            for _ in range(20):
                stream.seek(0)
                text = stream.read(32).strip()
                if text.isdigit():
                    return int(text) if _IsOurs(path, name) or _IsDaemon(int(text), name) else None
                runtime.Sleep(0.05)  # locked, its number not written yet
        except OSError:
            pass
    return None


def _IsDaemon(pid: int, name: str) -> bool:
    """Return whether a process is of the daemon's user: the number in a file that others can lock proves nothing."""
    try:
        return runtime.Stat(f"/proc/{pid}").st_uid in OwnUsers(name)
    except OSError:
        return False
