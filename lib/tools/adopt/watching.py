"""Whether a run of the watcher is at work on this node.

Everybody can make files where its lock is, and lock those that he can open.  So the lock says that there is somebody to look for, and the
users and programs of the processes that have it open say whether one is the watcher: it runs as root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ganeti import errors, pathutils, runtime
from ganeti.daemon import pidfile, users
from ganeti.utils.text import Printable, Shortened

_PROGRAM = "ganeti-watcher"
_POLL = 0.5
_LIMIT = 1024 * 1024
_SHOWN = 60


def AwaitFree(timeout: float) -> list[str]:
    """Wait until no run of the watcher is at work; return who else has locked its file, a line for each.

    ``timeout``: seconds; OpExecError, with the process, if one is at work for longer.
    """
    deadline = runtime.Monotonic() + timeout
    while not _Lockable():
        holders = {pid: pidfile.UserOf(pid) for pid in _Holders(pathutils.WATCHER_LOCK_FILE)}
        watchers = [
            pid for pid, user in holders.items() if user in (0, os.geteuid()) and pidfile.IsProgram(pid, _PROGRAM)
        ]
        if not watchers:
            return [_Note(pid, user) for pid, user in holders.items()]
        if runtime.Monotonic() > deadline:
            raise errors.OpExecError(
                f"Process {watchers[0]} ({_Command(watchers[0])}), which holds {pathutils.WATCHER_LOCK_FILE}, has not ended within"
                f" {timeout:g} seconds; {pathutils.LOG_WATCHER} shows what it does"
            )
        runtime.Sleep(_POLL)
    return []


def _Lockable() -> bool:
    try:
        runtime.LockFile(pathutils.WATCHER_LOCK_FILE, exclusive=True, timeout=0).release()
    except (runtime.LockBusy, OSError):  # the kernel may keep root from a stranger's file in a directory for all
        return False
    return True


def _Holders(path: str) -> Iterator[int]:
    """Yield the processes that have a file open, but for this one."""
    real = os.path.realpath(path)
    for name in runtime.ListDir("/proc"):
        if name.isdigit() and int(name) != runtime.ProcessId() and real in _OpenFiles(name):
            yield int(name)


def _OpenFiles(pid: str) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = runtime.ListDir(folder)
    except OSError:  # it has ended
        return
    for number in numbers:
        try:
            yield runtime.ReadLink(f"{folder}/{number}")
        except OSError:
            continue


def _Note(pid: int, user: int | None) -> str:
    owner = "several users" if user is None else f"user {users.UserText(user)}"
    return (
        f"process {pid} ({_Command(pid)}) of {owner} holds {pathutils.WATCHER_LOCK_FILE} and is not the watcher; it is not waited for,"
        f" 'kill {pid}' ends it"
    )


def _Command(pid: int) -> str:
    try:
        words = runtime.ReadFile(f"/proc/{pid}/cmdline", _LIMIT).decode("utf-8", "replace")
    except (OSError, runtime.FileTooLarge):
        return "ended"
    return Shortened(Printable(words.replace("\0", " ").strip()), _SHOWN)
