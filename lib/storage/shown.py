"""Up to where guests of this node have seen a disk, so that a call to wipe it that comes late harms nothing.

``RUN/ext/shown/UUID`` has the MiB.  The file is gone with the node's power, and so are calls that hang.  It is also the lock
under which the disk is wiped.  Not known here: a guest on another node, with shared storage, and a program that goes on
wiping after its node daemon was killed.
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


def Note(what: str, uuid: str, mib: int) -> None:
    """A guest sees the disk up to ``mib`` from now on; raise BlockDeviceError if that may be being wiped."""
    with _Lock(what, uuid) as lock:
        if mib > _Read(lock):
            lock.Write(str(mib).encode())


@contextmanager
def Unseen(what: str, uuid: str, mib: int) -> Iterator[None]:
    """Show no guest anything new for the block; raise BlockDeviceError if one has seen more than ``mib``."""
    with _Lock(what, uuid) as lock:
        seen = _Read(lock)
        if seen > mib:
            raise errors.BlockDeviceError(
                f"{what}: a guest has seen its first {seen} MiB, so it is not wiped from {mib} MiB on; this call came late and"
                " changes nothing"
            )
        yield


def Forget(uuid: str) -> None:
    """The disk is made anew, or is gone."""
    runtime.RemoveFile(f"{pathutils.DISKS_SHOWN_DIR}/{uuid}")


def _Lock(what: str, uuid: str) -> protocols.FileLock:
    busy = errors.BlockDeviceError(
        f"{what}: is being wiped by a call that its job may have given up; when 'pgrep -ax dd' shows nothing on this node any"
        " longer, try again"
    )
    return owndirs.LockIn(pathutils.DISKS_SHOWN_DIR, uuid, busy)


def _Read(lock: protocols.FileLock) -> int:
    text = runtime.ReadFile(lock.path, limit=_LIMIT).decode(errors="replace")
    return int(text) if text.isdecimal() else 0
