"""Files and folders that daemons of several users share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganeti import runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

Owner = tuple[int, int]
NO_OWNER: Owner = (-1, -1)


def LockOwned(path: str, exclusive: bool, timeout: float, owner: Owner) -> protocols.FileLock:
    """Lock a file that daemons of several users lock: the one that makes it gives it to ``owner``."""
    made = not runtime.Exists(path)
    lock = runtime.LockFile(path, exclusive, timeout, 0o660)
    if made and owner != NO_OWNER:
        try:
            runtime.Chown(path, *owner)
        except FileNotFoundError:
            pass  # a lock that its holder removes at the end
    return lock


def MakeOwned(path: str, mode: int, owner: Owner) -> None:
    """Make a folder that belongs to ``owner``."""
    if not runtime.IsDir(path):
        runtime.MakeDirs(path, mode)
        if owner != NO_OWNER:
            runtime.Chown(path, *owner)
