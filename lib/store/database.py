"""One node's copy on disk: the tables, and reading and writing them.  It knows no rule: ``node`` does.

All writing happens inside ``with database.Transaction():``, reading of more than one thing too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.store.base import (
    ID_VOTERS,
    KIND_VOTERS,
    MAX_LINE,
    NO_EPOCH,
    NOWHERE,
    Epoch,
    Line,
    Position,
    Row,
    StoredRow,
    VoterSet,
)

if TYPE_CHECKING:
    from ganeti.runtime import protocols

SCHEMA_VERSION = 1

_SCHEMA = (
    "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, cluster TEXT NOT NULL,"
    " store_id TEXT NOT NULL, promised_number INTEGER NOT NULL, promised_run TEXT NOT NULL, promised_master TEXT NOT NULL,"
    " last_number INTEGER NOT NULL, last_run TEXT NOT NULL, last_seq INTEGER NOT NULL,"
    " ack_number INTEGER NOT NULL, ack_run TEXT NOT NULL, ack_seq INTEGER NOT NULL,"
    " pruned INTEGER NOT NULL, whole INTEGER NOT NULL, exported INTEGER NOT NULL)",
    "CREATE TABLE rows (kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT, seq INTEGER NOT NULL,"
    " number INTEGER NOT NULL, run TEXT NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID",
    "CREATE INDEX rows_by_seq ON rows (seq)",
    "CREATE TABLE line (first INTEGER PRIMARY KEY, number INTEGER NOT NULL, run TEXT NOT NULL)",
    "CREATE TABLE undo (kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT, seq INTEGER NOT NULL,"
    " number INTEGER NOT NULL, run TEXT NOT NULL, over INTEGER NOT NULL, PRIMARY KEY (kind, id, over)) WITHOUT ROWID",
    "CREATE TABLE aside (copy TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT, seq INTEGER NOT NULL,"
    " number INTEGER NOT NULL, run TEXT NOT NULL, PRIMARY KEY (copy, kind, id)) WITHOUT ROWID",
    "CREATE TABLE pieces (copy TEXT NOT NULL, piece INTEGER NOT NULL, PRIMARY KEY (copy, piece)) WITHOUT ROWID",
    "CREATE TABLE files (path TEXT PRIMARY KEY, seq INTEGER NOT NULL, number INTEGER NOT NULL, run TEXT NOT NULL,"
    " digest TEXT NOT NULL, placed TEXT NOT NULL) WITHOUT ROWID",
)

_GET_STATE = (
    "SELECT version, cluster, store_id, promised_number, promised_run, promised_master, last_number, last_run, last_seq,"
    " ack_number, ack_run, ack_seq, pruned, whole, exported FROM state"
)
_PUT_STATE = (
    "INSERT OR REPLACE INTO state (one, version, cluster, store_id, promised_number, promised_run, promised_master,"
    " last_number, last_run, last_seq, ack_number, ack_run, ack_seq, pruned, whole, exported)"
    " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_CLEAR = ("DELETE FROM rows", "DELETE FROM line", "DELETE FROM undo", "DELETE FROM aside", "DELETE FROM pieces")


@dataclass(frozen=True, slots=True)
class State:
    """Everything but the rows.  ``cluster`` is empty until a first call names it.

    ``whole``: from this seq on ``undo`` knows what unacknowledged transactions replaced; ``exported``: seq that all
    files of this node show.
    """

    cluster: str
    store_id: str
    promised: Epoch = NO_EPOCH
    promised_master: str = ""
    last: Position = NOWHERE
    acknowledged: Position = NOWHERE
    pruned: int = 0
    whole: int = 0
    exported: int = 0

    def With(self, **changes: Any) -> State:
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What a view file should be: digest, the position it shows, and the digest of what it replaces."""

    path: str
    shows: Position
    digest: str
    placed: str


class Database:
    """The tables of one node."""

    def __init__(self, path: str):
        self.path = path
        self._db: protocols.Database = runtime.OpenDatabase(path)
        try:
            self._Prepare()
        except BaseException:
            self._db.Close()
            raise

    def _Prepare(self) -> None:
        if not self._db.Query("SELECT 1 FROM sqlite_master WHERE name = 'state'"):
            with self._db.Transaction():
                if not self._db.Query("SELECT 1 FROM sqlite_master WHERE name = 'state'"):
                    for statement in _SCHEMA:
                        self._db.Execute(statement)
                    self.PutState(State("", runtime.NewUuid()))
        found = self._db.Query("SELECT version FROM state")
        if not found or found[0][0] != SCHEMA_VERSION:
            shown = found[0][0] if found else "none"
            raise errors.StorageError(
                f"database {self.path} has format {shown}, this release reads {SCHEMA_VERSION}",
                hint="start the release that wrote it, or move the file away: the node is then copied from the others",
            )

    @contextmanager
    def Transaction(self) -> Iterator[Database]:
        with self._db.Transaction():
            yield self

    def Close(self) -> None:
        self._db.Close()

    # State and line

    def GetState(self) -> State:
        (
            _,
            cluster,
            store_id,
            promised_number,
            promised_run,
            master,
            last_number,
            last_run,
            last_seq,
            ack_number,
            ack_run,
            ack_seq,
            pruned,
            whole,
            exported,
        ) = self._db.Query(_GET_STATE)[0]
        return State(
            cluster,
            store_id,
            Epoch(promised_number, promised_run),
            master,
            Position(Epoch(last_number, last_run), last_seq),
            Position(Epoch(ack_number, ack_run), ack_seq),
            pruned,
            whole,
            exported,
        )

    def PutState(self, state: State) -> None:
        self._db.Execute(
            _PUT_STATE,
            (
                SCHEMA_VERSION,
                state.cluster,
                state.store_id,
                *state.promised,
                state.promised_master,
                *state.last.epoch,
                state.last.seq,
                *state.acknowledged.epoch,
                state.acknowledged.seq,
                state.pruned,
                state.whole,
                state.exported,
            ),
        )

    def SetExported(self, seq: int) -> None:
        self._db.Execute("UPDATE state SET exported = ?", (seq,))

    def GetLine(self, last: Position) -> Line:
        found = self._db.Query("SELECT number, run, first FROM line ORDER BY first")
        return Line(((Epoch(number, run), first) for number, run, first in found), last)

    def AddToLine(self, epoch: Epoch, first: int) -> None:
        self._db.Execute("INSERT INTO line (first, number, run) VALUES (?, ?, ?)", (first, *epoch))
        self._db.Execute(
            "DELETE FROM line WHERE first NOT IN (SELECT first FROM line ORDER BY first DESC LIMIT ?)", (MAX_LINE,)
        )

    def PutLine(self, line: Line) -> None:
        self._db.Execute("DELETE FROM line")
        self._db.ExecuteMany(
            "INSERT INTO line (first, number, run) VALUES (?, ?, ?)",
            [(first, *epoch) for epoch, first in line.entries],
        )

    # Rows

    def GetValue(self, kind: str, row_id: str) -> str | None:
        found = self._db.Query("SELECT value FROM rows WHERE kind = ? AND id = ?", (kind, row_id))
        return found[0][0] if found else None

    def GetVoters(self) -> VoterSet:
        return VoterSet.FromText(self.GetValue(KIND_VOTERS, ID_VOTERS))

    def GetRows(self, after_seq: int = 0) -> list[StoredRow]:
        """Rows, deletions too, that a transaction after ``after_seq`` wrote."""
        return _Stored(
            self._db.Query(
                "SELECT kind, id, value, seq, number, run FROM rows WHERE seq > ? ORDER BY kind, id", (after_seq,)
            )
        )

    def GetPage(self, after_seq: int, after_key: tuple[str, str] | None, limit: int) -> list[StoredRow]:
        """At most ``limit`` rows as GetRows gives, those behind ``after_key``."""
        kind, row_id = after_key or ("", "")
        return _Stored(
            self._db.Query(
                "SELECT kind, id, value, seq, number, run FROM rows WHERE (kind, id) > (?, ?) AND seq > ? ORDER BY kind, id LIMIT ?",
                (kind, row_id, after_seq, limit),
            )
        )

    def PutTransaction(self, position: Position, rows: Sequence[Row]) -> None:
        """Writes the rows of one transaction; what they replace goes to ``undo``."""
        keys = [(position.seq, row.kind, row.id) for row in rows]
        self._db.ExecuteMany(
            "INSERT OR REPLACE INTO undo (kind, id, value, seq, number, run, over) SELECT kind, id, value, seq, number, run, ? FROM rows WHERE kind = ? AND id = ?",
            keys,
        )
        self._PutRows(StoredRow(row.kind, row.id, row.value, position.seq, position.epoch) for row in rows)

    def _PutRows(self, rows: Iterable[StoredRow]) -> None:
        self._db.ExecuteMany(
            "INSERT OR REPLACE INTO rows (kind, id, value, seq, number, run) VALUES (?, ?, ?, ?, ?, ?)",
            [(row.kind, row.id, row.value, row.seq, *row.epoch) for row in rows],
        )

    def MergeRows(self, rows: Iterable[StoredRow]) -> None:
        """Rows of a catch-up; nothing is known any more of what unacknowledged ones replaced."""
        self._db.Execute("DELETE FROM undo")
        self._PutRows(rows)

    def ClearRows(self) -> None:
        for statement in _CLEAR:
            self._db.Execute(statement)

    def ReplaceRows(self, rows: Iterable[StoredRow]) -> None:
        self._db.Execute("DELETE FROM rows")
        self.MergeRows(rows)

    def DropUndo(self, up_to: int) -> None:
        self._db.Execute("DELETE FROM undo WHERE over <= ?", (up_to,))

    def PruneDeletions(self, up_to: int) -> None:
        self._db.Execute("DELETE FROM rows WHERE value IS NULL AND seq <= ?", (up_to,))

    def GetRowsAt(self, seq: int, after_seq: int = 0) -> list[StoredRow]:
        """The rows as they stood after transaction ``seq``, those written or taken back after ``after_seq``.

        ``seq`` must not be below ``whole``.  A row that a later transaction made is not there.
        """
        return _Stored(
            self._db.Query(
                "SELECT kind, id, value, seq, number, run FROM rows WHERE seq <= ? AND seq > ? UNION ALL"
                " SELECT kind, id, value, seq, number, run FROM undo WHERE seq <= ? AND over > ? AND seq > ?",
                (seq, after_seq, seq, seq, after_seq),
            )
        )

    # A full copy before it is complete

    def PutPiece(self, copy: str, piece: int, rows: Iterable[StoredRow]) -> None:
        """Gathers one piece; rows of another copy go."""
        self._db.Execute("DELETE FROM aside WHERE copy <> ?", (copy,))
        self._db.Execute("DELETE FROM pieces WHERE copy <> ?", (copy,))
        self._db.Execute("INSERT OR REPLACE INTO pieces (copy, piece) VALUES (?, ?)", (copy, piece))
        self._db.ExecuteMany(
            "INSERT OR REPLACE INTO aside (copy, kind, id, value, seq, number, run) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(copy, row.kind, row.id, row.value, row.seq, *row.epoch) for row in rows],
        )

    def CountPieces(self, copy: str) -> int:
        return self._db.Query("SELECT count(*) FROM pieces WHERE copy = ?", (copy,))[0][0]

    def GetAside(self, copy: str) -> list[StoredRow]:
        return _Stored(self._db.Query("SELECT kind, id, value, seq, number, run FROM aside WHERE copy = ?", (copy,)))

    def ClearAside(self) -> None:
        self._db.Execute("DELETE FROM aside")
        self._db.Execute("DELETE FROM pieces")

    # The view

    def GetFiles(self) -> dict[str, FileRecord]:
        found = self._db.Query("SELECT path, seq, number, run, digest, placed FROM files")
        return {
            path: FileRecord(path, Position(Epoch(number, run), seq), digest, placed)
            for path, seq, number, run, digest, placed in found
        }

    def PutFiles(self, records: Iterable[FileRecord]) -> None:
        self._db.ExecuteMany(
            "INSERT OR REPLACE INTO files (path, seq, number, run, digest, placed) VALUES (?, ?, ?, ?, ?, ?)",
            [(r.path, r.shows.seq, *r.shows.epoch, r.digest, r.placed) for r in records],
        )

    def ForgetFiles(self, paths: Iterable[str]) -> None:
        self._db.ExecuteMany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])


def _Stored(found: list[tuple[Any, ...]]) -> list[StoredRow]:
    epochs: dict[tuple[int, str], Epoch] = {}
    rows = []
    for kind, row_id, value, seq, number, run in found:
        key = (number, run)
        epoch = epochs.get(key)
        if epoch is None:
            epoch = epochs[key] = Epoch(number, run)
        rows.append(StoredRow(kind, row_id, value, seq, epoch))
    return rows
