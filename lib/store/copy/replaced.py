"""What a full copy or an emptying replaced: it is kept as a database of its own (rule 3), written in steps.

The rows that were replaced are set aside at once, by renaming their table; later calls of the store move them into the
file, a page each, so that no call takes long however large the store is.
"""

from __future__ import annotations

import logging

from ganeti import runtime
from ganeti.store.base import PIECE_BYTES, Line
from ganeti.store.copy.database import Database, MakeFile, State
from ganeti.store.files.owned import Owner

PREFIX = "replaced-"
KEPT = 3
_NAMED = 50


class Replaced:
    """The files ``replaced-NUMBER`` beside one node's database; the number is the time in milliseconds."""

    def __init__(self, folder: str, owner: Owner):
        self._folder = folder
        self._owner = owner

    def Retire(self, database: Database, state: State, line: Line | None) -> State:
        """Make the gathered rows the only ones, inside a transaction of ``database``; return the state with the name of
        the file for what was there, which must be finished before the next.

        ``line``: that of the gathered rows, to log what they do not hold; None when the node is emptied.
        """
        old_line = database.GetLine(state.last)
        had_rows = database.HasRows()
        lost, count = database.LostRows(old_line.Common(line), _NAMED) if line is not None else ([], 0)
        database.SwapAside()
        if not had_rows:
            database.DropRetired(None)
            return state
        name = f"{PREFIX}{max(int(runtime.Time() * 1000), *(number + 1 for number in self._Numbers()), 0)}"
        path = f"{self._folder}/{name}"
        MakeFile(path, self._owner)
        with Database(path) as kept, kept.Transaction():
            kept.PutState(state.With(replaced=""))
            kept.PutLine(old_line)
        if count:
            logging.warning(
                "The copy of this node held %d changes that were never acknowledged and are not in the cluster's history;"
                " they are kept in the database %s: %s%s",
                count,
                path,
                ", ".join(f"{kind} {row_id}" for kind, row_id in lost),
                f" and {count - len(lost)} more" if count > len(lost) else "",
            )
        return state.With(replaced=name)

    def Step(self, database: Database) -> bool:
        """Move one page of what was replaced into its file; return whether nothing is left to be moved."""
        if not database.GetState().replaced:
            return True
        with database.Transaction():
            state = database.GetState()
            if not state.replaced:
                return True
            page, more = database.GetRetired(PIECE_BYTES)
            # Should this process die before its own transaction ends, the page is written once more.
            with Database(f"{self._folder}/{state.replaced}") as kept, kept.Transaction():
                kept.MergeRows(page)
            database.DropRetired(page[-1] if more else None)
            if more:
                return False
            database.PutState(state.With(replaced=""))
        self._RemoveOld()
        return True

    def Finish(self, database: Database) -> None:
        while not self.Step(database):
            pass

    def _Numbers(self) -> list[int]:
        texts = [name.removeprefix(PREFIX) for name in runtime.ListDir(self._folder) if name.startswith(PREFIX)]
        return sorted(int(text) for text in texts if text.isascii() and text.isdigit())

    def _RemoveOld(self) -> None:
        for number in self._Numbers()[:-KEPT]:
            for suffix in ("", "-wal", "-shm"):
                runtime.RemoveFile(f"{self._folder}/{PREFIX}{number}{suffix}")
