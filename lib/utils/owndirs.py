"""Directories of our own where users of other daemons can make names too, such as RUN."""

from __future__ import annotations

import os
import pwd
import stat
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

# How long a call waits for what another one has locked.
LOCK_SECONDS = 30.0


def MakeOwn(path: str, mode: int = 0o755) -> None:
    """Make a directory unless it is there; raises StorageError for one of another user than root and our own.

    Whoever owns a directory can exchange what lies in it at any time, so it is not used, whatever its mode.
    """
    runtime.MakeDirs(path, mode)
    info = runtime.Stat(path, follow=False)
    if not stat.S_ISDIR(info.st_mode):
        raise errors.StorageError(NotADirectory(path))
    if info.st_uid not in (0, os.geteuid()):
        raise errors.StorageError(Foreign(path, info.st_uid))


def LockIn(folder: str, name: str, busy: errors.GenericError) -> protocols.FileLock:
    """Lock a file in a directory of our own, both made if they are missing; raise ``busy`` if others have it for too long."""
    MakeOwn(folder, 0o700)
    try:
        return runtime.LockFile(f"{folder}/{name}", exclusive=True, timeout=LOCK_SECONDS)
    except runtime.LockBusy as err:
        raise busy from err


def NotADirectory(path: str) -> str:
    return f"{path} is not a directory; move it away and make it anew: {_Repair(path)}"


def Foreign(path: str, uid: int) -> str:
    """Return the message about a directory whose owner could have put anything into it."""
    return (
        f"{path} belongs to {UserName(uid)}, who could have put anything into it, so it is not used; move it away and make"
        f" it anew: {_Repair(path)}"
    )


def _Repair(path: str) -> str:
    return f"mv -T {path} {path}.foreign && {pathutils.ENSURE_DIRS}"


def UserName(uid: int) -> str:
    """Return how a message names a user of this machine."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
