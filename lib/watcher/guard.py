"""May the watcher work on this node now?"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime, watcherpause

if TYPE_CHECKING:
    import optparse

    from ganeti.runtime import protocols

Action = Callable[[], int]

# Seconds after its end for which the pause file stays, for those who look what happened.
_KEEP_PAUSE = 3600.0


def Paused() -> bool:
    """Return whether an administrator has paused the watcher; remove a file that ended long ago."""
    try:
        until = watcherpause.Read()
    except errors.ParseError as err:
        logging.warning("%s", err)
        return False
    if until is None:
        return False
    if until > runtime.Time():
        logging.info("Nothing is done: the watcher is paused until %s", time.ctime(until))
        return True
    if until + _KEEP_PAUSE < runtime.Time():
        watcherpause.Write(None)
    return False


def MayWork(options: optparse.Values) -> bool:
    """Return whether the watcher is not paused; ask before each step, as a pause may begin while a run waits."""
    return bool(options.ignore_pause) or not Paused()


def TakeLock() -> protocols.FileLock:
    """Take the watcher's lock for the life of the process, shared; raise LockBusy while somebody stops daemons.

    Everybody can make files in its directory.  One that others could have open is replaced: whoever can open a file can
    lock it, and so could keep the watcher from its work.
    """
    path = pathutils.WATCHER_LOCK_FILE
    if not _IsOurs(path):
        logging.warning("%s could be opened by others than root; it is replaced", path)
        runtime.RemoveFile(path)
    return runtime.LockFile(path, exclusive=False, timeout=0)


def _IsOurs(path: str) -> bool:
    try:
        info = runtime.Stat(path, follow=False)
    except FileNotFoundError:
        return True
    return info.st_uid in (0, os.geteuid()) and stat.S_ISREG(info.st_mode) and not info.st_mode & 0o077
