"""What a node remembers of a guest: its migration, or what runs in its place; and the lock under which its calls look and act.

``DATA/ext/migrations/NAME`` is written durably: after a crash of everything it still says where the guest may be
(doc/design-migration.rst).
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ganeti import errors, pathutils, runtime, serializer
from ganeti.hypervisor.names import CheckInstanceName
from ganeti.utils import owndirs

_LIMIT = 4096


@dataclasses.dataclass(frozen=True)
class Note:
    """``sent_to``: the address to which the guest was sent from here, as ``attempt``; ``arrival``: of params.runstate.

    ``helper``: what runs here is not the guest, but a helper that works on its disks (doc/design-install.rst).
    """

    sent_to: str | None = None
    attempt: str | None = None
    arrival: str | None = None
    helper: bool = False

    def ToDict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


NOTHING = Note()


def _Path(name: str) -> str:
    return posixpath.join(pathutils.MIGRATIONS_DIR, CheckInstanceName(name))


def Read(name: str) -> Note:
    """Return the note about a guest; HypervisorError for one that cannot be read, as it may say where the guest is."""
    path = _Path(name)
    try:
        value = serializer.Load(runtime.ReadFile(path, limit=_LIMIT))
        note = Note(**value)
    except FileNotFoundError:
        return NOTHING
    except (OSError, errors.ParseError, TypeError) as err:
        raise errors.HypervisorError(
            f"Instance {name}: the note about it, {path}, cannot be read ({err}); look where the instance"
            " runs, then delete that file"
        ) from err
    return note


def Write(name: str, note: Note) -> None:
    if note == NOTHING:
        runtime.RemoveFile(_Path(name), sync=True)
        return
    runtime.MakeDirs(pathutils.MIGRATIONS_DIR, mode=0o700)
    runtime.WriteFile(_Path(name), serializer.DumpBytes(note.ToDict()))


def Clear(name: str) -> None:
    """Drop the record: the guest is here, or is no longer relevant."""
    if runtime.Exists(_Path(name)):
        Write(name, NOTHING)


@contextmanager
def Locked(name: str) -> Iterator[None]:
    """Lock the guest for the block, so that no other call looks and acts meanwhile."""
    busy = errors.RpcCallError(f"Instance {name}: another operation on it is under way on this node")
    with owndirs.LockIn(pathutils.GUEST_LOCKS_DIR, CheckInstanceName(name), busy):
        yield
