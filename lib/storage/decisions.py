"""What this node was told last of each of its mirrors, so that a call that comes late changes nothing (doc/design-drbd.rst).

``RUN/ext/mirrors/MINOR`` has a line for each disk that had the minor, the last one at the end: its UUID and the number of the
decision that it obeys.  So a late call for a former disk changes nothing for the one that has the minor now.  The file is gone
with the node's power, and so are calls that hang.  It is also the lock under which the mirror is made to obey.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ganeti import errors, pathutils, runtime
from ganeti.storage import looks
from ganeti.utils import owndirs

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_held: contextvars.ContextVar[protocols.FileLock | None] = contextvars.ContextVar("held", default=None)
_LIMIT = 4096
# Disks that had a minor one after the other, and are remembered: as many lines are much shorter than the limit.
_DISKS = 32


@contextmanager
def Obeying(name: str, minor: int, uuid: str, number: int | None) -> Iterator[None]:
    """Keep other calls from the mirror for the block; raise BlockDeviceError if it has obeyed a later decision already.

    Within the block looks at the node are new ones: what decides there must be seen there.

    ``number``: of the decision that the call carries; None: from a master that does not count them.
    """
    busy = errors.BlockDeviceError(
        f"{name}: another call has been working on it for more than {owndirs.LOCK_SECONDS:g} s; if programs of DRBD hang on"
        " this node, 'dmesg' says why"
    )
    lock = owndirs.LockIn(pathutils.MIRRORS_DIR, f"{minor:d}", busy)
    path = lock.path
    # What was seen before may be otherwise now: another call may have had the lock in between.
    looks.Forget()
    with lock:
        if number is not None:
            known = _Read(path)
            last = known.pop(uuid, -1)
            if number < last:
                raise errors.BlockDeviceError(
                    f"{name}: this call is outdated: it follows decision {number} on which side counts, this node already follows"
                    f" decision {last}. Nothing was changed. If the configuration was restored from a backup,"
                    f" delete {path} on this node and repeat the command"
                )
            if number > last:
                lines = [*known.items(), (uuid, number)][-_DISKS:]
                lock.Write("".join(f"{disk} {obeyed}\n" for disk, obeyed in lines).encode())
        token = _held.set(lock)
        try:
            yield
        finally:
            _held.reset(token)


def Held() -> protocols.FileLock | None:
    """Return the lock of the block in which this is called.

    What is run there keeps it until it has ended: a program that hangs may act when others believe that it has failed.
    """
    return _held.get()


def _Read(path: str) -> dict[str, int]:
    """Return the number of the decision last obeyed by each disk; what cannot be understood is left out."""
    lines = [line.split() for line in runtime.ReadFile(path, limit=_LIMIT).decode(errors="replace").splitlines()]
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdecimal()}
