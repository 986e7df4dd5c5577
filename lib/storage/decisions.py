"""What this node was told last of each of its mirrors, so that a call that comes late changes nothing (doc/design-drbd.rst).

``RUN/ext/mirrors/MINOR`` has the disk and the number of the decision that the mirror obeys.  It is gone with the node's
power, and so are calls that hang.  The file is also the lock under which the mirror is made to obey.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime
from ganeti.storage import looks
from ganeti.utils import owndirs

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_LIMIT = 4096
_LOCK_SECONDS = 30.0


@contextmanager
def Obeying(name: str, minor: int, uuid: str, number: int | None) -> Iterator[None]:
    """Keep other calls from the mirror for the block; raise BlockDeviceError if it has obeyed a later decision already.

    Within the block looks at the node are new ones: what decides there must be seen there.

    ``number``: of the decision that the call carries; None: from a master that does not count them.
    """
    owndirs.MakeOwn(pathutils.MIRRORS_DIR, 0o700)
    path = f"{pathutils.MIRRORS_DIR}/{minor:d}"
    try:
        lock = runtime.LockFile(path, exclusive=True, timeout=0)
    except runtime.LockBusy:
        lock = _WaitFor(name, path)
    # What was seen before may be otherwise now: another call may have had the lock in between.
    looks.Forget()
    with lock:
        if number is not None:
            last = _Read(path, uuid)
            if number < last:
                raise errors.BlockDeviceError(
                    f"{name}: this call carries decision {number} on which side counts, and this node has obeyed decision"
                    f" {last} since: it came late and changes nothing. If the configuration was restored from a backup,"
                    f" delete {path} on this node and repeat the command"
                )
            if number > last:
                lock.Write(f"{uuid} {number}\n".encode())
        yield


def _WaitFor(name: str, path: str) -> protocols.FileLock:
    try:
        return runtime.LockFile(path, exclusive=True, timeout=_LOCK_SECONDS)
    except runtime.LockBusy as err:
        raise errors.BlockDeviceError(
            f"{name}: another call has been working on it for more than {_LOCK_SECONDS:g} s; if programs of DRBD hang on"
            " this node, 'dmesg' says why"
        ) from err


def _Read(path: str, uuid: str) -> int:
    """Return the number of the decision last obeyed; -1 if there was none on this disk."""
    words = runtime.ReadFile(path, limit=_LIMIT).split()
    return int(words[1]) if len(words) == 2 and words[0] == uuid.encode() and words[1].isdigit() else -1
