"""Files beside the database: locks that daemons of several users share, and what was replaced.

What a full copy or an emptying replaces is kept as a file; rows that got lost are logged (rule 3).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ganeti import runtime, serializer
from ganeti.store.base import KIND_MASTER, KIND_VOTERS, Line, StoredRow

if TYPE_CHECKING:
    from ganeti.runtime import protocols
    from ganeti.store.database import State

PREFIX = "replaced-"
KEPT = 3
_NAMED = 50


Owner = tuple[int, int]
NO_OWNER: Owner = (-1, -1)


def LockOwned(path: str, exclusive: bool, timeout: float, owner: Owner) -> protocols.FileLock:
    """Locks a file that daemons of several users lock: whoever makes it gives it to ``owner``."""
    made = not runtime.Exists(path)
    lock = runtime.LockFile(path, exclusive, timeout, 0o660)
    if made and owner != NO_OWNER:
        try:
            runtime.Chown(path, *owner)
        except FileNotFoundError:
            pass  # a lock that its holder removes at the end
    return lock


def MakeOwned(path: str, mode: int, owner: Owner) -> None:
    """Makes a folder of ``owner``'s."""
    if not runtime.IsDir(path):
        runtime.MakeDirs(path, mode)
        if owner != NO_OWNER:
            runtime.Chown(path, *owner)


def LostRows(old: Sequence[StoredRow], line: Line, fresh: Sequence[StoredRow]) -> list[StoredRow]:
    """Rows of ``old`` that the new history never held."""
    values = {(row.kind, row.id): row.value for row in fresh}
    lost = []
    for row in old:
        if line.EpochAt(row.seq) == row.epoch or row.kind in (KIND_VOTERS, KIND_MASTER):
            continue
        if values.get((row.kind, row.id)) != row.value:
            lost.append(row)
    return lost


def KeepReplaced(
    folder: str,
    state: State,
    old: Sequence[StoredRow],
    line: Line,
    fresh: Sequence[StoredRow],
    owner: Owner = NO_OWNER,
) -> str:
    """Writes the old rows into a file of ``folder`` and returns its path; only the newest few such files stay."""
    path = f"{folder}/{PREFIX}{int(runtime.Time() * 1000)}"
    content = [serializer.Dump({"store": state.store_id, "cluster": state.cluster, "last": state.last.Wire()})]
    content += [serializer.Dump(row.Wire()) for row in old]
    runtime.WriteFile(path, "\n".join(content) + "\n", 0o640, *owner)
    names = [name for name in runtime.ListDir(folder) if name.startswith(PREFIX)]
    for name in names[:-KEPT]:
        runtime.RemoveFile(f"{folder}/{name}")
    # An emptied node is copied again: nothing is lost by that, and nothing is said.
    lost = LostRows(old, line, fresh) if line.entries else []
    if lost:
        named = ", ".join(f"{row.kind} {row.id}" for row in lost[:_NAMED])
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        logging.warning(
            "The copy of this node held %d changes that were never acknowledged and are not in the cluster's history;"
            " they are kept in %s: %s%s",
            len(lost),
            path,
            named,
            more,
        )
    return path
