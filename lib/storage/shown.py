"""Up to where guests of this node have seen a disk, so that a call to wipe it that comes late harms nothing.

``RUN/ext/shown/UUID`` has the MiB.  The file is gone with the node's power, and so are calls that hang.  It is also the lock
under which the disk is wiped.  A guest on another node, with shared storage, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime
from ganeti.utils import owndirs

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_LIMIT = 64
_LOCK_SECONDS = 30.0


def Note(what: str, uuid: str, mib: int) -> None:
    """A guest sees the disk up to ``mib`` from now on; raise BlockDeviceError if that may be being wiped."""
    with _Lock(what, uuid) as lock:
        if mib > _Read(lock):
            lock.Write(str(mib).encode())


@contextmanager
def Unseen(what: str, uuid: str, mib: int) -> Iterator[None]:
    """Show no guest anything new for the block; raise BlockDeviceError if one has seen what lies behind ``mib``."""
    with _Lock(what, uuid) as lock:
        seen = _Read(lock)
        if seen > mib:
            raise errors.BlockDeviceError(
                f"{what}: a guest has seen the first {seen} MiB, so nothing from {mib} MiB on is wiped; this call came late and"
                " changes nothing"
            )
        yield


def Forget(uuid: str) -> None:
    """The disk is made anew, or is gone."""
    runtime.RemoveFile(_Path(uuid))


def _Path(uuid: str) -> str:
    if not uuid or "/" in uuid or uuid[0] == ".":
        raise errors.BlockDeviceError(f"Disk UUID {uuid[:80]!r} cannot be used in file names")
    return f"{pathutils.DISKS_SHOWN_DIR}/{uuid}"


def _Lock(what: str, uuid: str) -> protocols.FileLock:
    path = _Path(uuid)
    owndirs.MakeOwn(pathutils.DISKS_SHOWN_DIR, 0o700)
    try:
        return runtime.LockFile(path, exclusive=True, timeout=_LOCK_SECONDS)
    except runtime.LockBusy as err:
        raise errors.BlockDeviceError(
            f"{what}: is being wiped by a call that its job may have given up; when 'pgrep dd' shows no program of that kind on"
            " this node any longer, try again"
        ) from err


def _Read(lock: protocols.FileLock) -> int:
    text = runtime.ReadFile(lock.path, limit=_LIMIT).decode(errors="replace")
    return int(text) if text.isdecimal() else 0
