"""The pid file of a daemon: its lock shows whether the daemon lives, its content which process it is.

Only the daemon's own user may open the file: whoever can open a file can lock it, and a lock held by a stranger would
look like a daemon that runs.  What the file says is believed of a process of the file's owner only, and a signal is sent
to nothing but the daemon's program: the number may be old, or a lie.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime
from ganeti.daemon import users

if TYPE_CHECKING:
    from ganeti.runtime import protocols

# A look by ``Running`` holds the lock for an instant; a starting daemon waits for longer.
_PATIENCE = 0.5
_MODE = 0o600
_PROC_LIMIT = 1024 * 1024


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
    except PermissionError as err:
        raise errors.PidFileLockError(
            f"Error while locking PID file:\n{_WhoseItIs(path, name)}",
            hint=f"run '{pathutils.ENSURE_DIRS}' as root, then start {name} again",
        ) from err
    except OSError as err:
        raise errors.PidFileLockError(f"Error while locking PID file:\n{path}: {err.strerror}") from err
    return lock


def _WhoseItIs(path: str, name: str) -> str:
    """Return why this process's user can neither use nor replace a pid file."""
    user = users.UserText(os.geteuid())
    try:
        owner = users.UserText(runtime.Stat(path, follow=False).st_uid)
    except FileNotFoundError:
        path = pathutils.RUN_DIR
        return f"user {user}, as whom {name} runs, may not make files in {path} ({users.OwnerText(runtime.Stat(path))})"
    return f"{path} belongs to user {owner}; user {user}, as whom {name} runs, can neither open nor replace it"


def Clear(name: str) -> None:
    """As root: remove a pid file that the daemon's user could neither use nor replace, as the directory is sticky.

    It was left by a daemon that ran as another user and was killed, or somebody else made it.  The file of a daemon that runs stays,
    as root's too: whoever starts it again is told that it runs.
    """
    path = pathutils.DaemonPidFile(name)
    try:
        info = runtime.Stat(path, follow=False)
    except FileNotFoundError:
        return
    user, _ = users.DAEMON_USERS[name]
    if _HasOwner(info, name, (users.UserId(user),)) or Running(name) is not None:
        return
    if stat.S_ISDIR(info.st_mode):
        raise errors.StorageError(f"{path} is a directory; move it away, then run '{pathutils.ENSURE_DIRS}'")
    holder = _Holder(path, lambda found: found.st_uid == info.st_uid)
    owner = users.UserText(info.st_uid)
    if holder is not None and IsProgram(holder, name):
        logging.error(
            "Process %d of user %s is %s, too, which is to run as user %s; end that one with 'kill %d'",
            holder, owner, name, user, holder,
        )  # fmt: skip
    logging.info("%s: removed, it belonged to user %s and not to %s", path, owner, user)
    runtime.RemoveFile(path)


def _IsOurs(path: str, name: str) -> bool:
    """Return whether nobody but the daemon's user and root can have the file open, as far as it exists."""
    try:
        info = runtime.Stat(path, follow=False)
    except FileNotFoundError:
        return True
    return _HasOwner(info, name) and not info.st_mode & 0o077


def _HasOwner(info: os.stat_result, name: str, owners: Sequence[int] | None = None) -> bool:
    """Return whether this is a file that only these users can have made, by default the daemon's and root."""
    wanted = OwnUsers(name) if owners is None else owners
    return stat.S_ISREG(info.st_mode) and info.st_nlink == 1 and info.st_uid in wanted


def OwnUsers(name: str) -> tuple[int, ...]:
    """Return the users as whom a daemon may run, and whose word about it counts."""
    user, _ = users.DAEMON_USERS.get(name, ("root", ""))
    # A daemon that was started without user checks runs as whoever started it.
    return (0, os.geteuid(), users.UserId(user))


def Running(name: str) -> int | None:
    """Return the process id of the running daemon; None if it does not run, whatever a left-over file says.

    The file belongs to the daemon's user or root, and the process to the same user.
    """
    return _Holder(pathutils.DaemonPidFile(name), lambda info: _HasOwner(info, name))


def _Holder(path: str, accept: Callable[[os.stat_result], bool]) -> int | None:
    """Return the process that a locked pid file names, if ``accept`` is true of the file and its owner is the process's."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)  # noqa: TID251 - only locked
    except OSError:
        return None
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode):
        os.close(handle)
        return None
    with open(handle, "rb") as stream:
        if not accept(info):
            return None
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            for _ in range(20):
                stream.seek(0)
                text = stream.read(32).strip()
                if text.isdigit():
                    return int(text) if UserOf(int(text)) == info.st_uid else None
                runtime.Sleep(0.05)  # locked, its number not written yet
        except OSError:
            pass
    return None


def UserOf(pid: int) -> int | None:
    """Return whose process it is; None if it is gone, or has the rights of more than one user.

    The owner of /proc/PID does not say it: it is root for a daemon that gave up root.
    """
    try:
        status = runtime.ReadFile(f"/proc/{pid}/status", _PROC_LIMIT)
    except (OSError, runtime.FileTooLarge):
        return None
    found = {word for line in status.splitlines() if line.startswith(b"Uid:") for word in line.split()[1:]}
    return int(found.pop()) if len(found) == 1 else None


def Signal(name: str, pid: int, number: int) -> bool:
    """Send a signal to the daemon; return False if it is gone.

    ``pid`` was returned by ``Running``; raises PidFileLockError if that process is not the daemon's program, which then gets
    no signal.
    """
    user = UserOf(pid)
    if user is None and not runtime.ProcessAlive(pid):
        return False
    if user not in OwnUsers(name) or not IsProgram(pid, name):
        raise errors.PidFileLockError(
            f"{pathutils.DaemonPidFile(name)} names process {pid}, which is not {name}, so it gets no signal; see what it is"
            f" with 'ps -fp {pid}', and which process holds the file with 'fuser -v {pathutils.DaemonPidFile(name)}'"
        )
    return runtime.KillProcess(pid, number)


def IsProgram(pid: int, name: str) -> bool:
    """Return whether a process executes a program of ours, itself or by a Python; a name among its arguments says nothing."""
    try:
        words = runtime.ReadFile(f"/proc/{pid}/cmdline", _PROC_LIMIT).decode("utf-8", "replace").split("\0")
    except (OSError, runtime.FileTooLarge):
        return False
    if os.path.basename(words[0]).startswith("python"):
        words = [word for word in words[1:] if not word.startswith("-")]
    return bool(words) and os.path.basename(words[0]) == name
