"""One node's copy on disk: the tables, and reading and writing them.  The rules are in ``node``.

All writing happens inside ``with database.Transaction():``, reading of more than one thing too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import errors, runtime
from ganeti.store.base import (
    ID_VOTERS,
    KIND_MASTER,
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
from ganeti.store.files import owned

if TYPE_CHECKING:
    from ganeti.runtime import protocols

SCHEMA_VERSION = 1

_FEW_ROWS = 64

Cursor = tuple[int, str, str]
"""Where reading in the order of transactions has come to: seq, kind and id of a row."""

_SCHEMA = (
    "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, cluster TEXT NOT NULL,"
    " store_id TEXT NOT NULL, promised_number INTEGER NOT NULL, promised_run TEXT NOT NULL, promised_master TEXT NOT NULL,"
    " last_number INTEGER NOT NULL, last_run TEXT NOT NULL, last_seq INTEGER NOT NULL,"
    " ack_number INTEGER NOT NULL, ack_run TEXT NOT NULL, ack_seq INTEGER NOT NULL,"
    " pruned INTEGER NOT NULL, whole INTEGER NOT NULL, exported INTEGER NOT NULL, replaced TEXT NOT NULL)",
    "CREATE TABLE line (first INTEGER PRIMARY KEY, number INTEGER NOT NULL, run TEXT NOT NULL)",
    "CREATE TABLE undo (kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT, seq INTEGER NOT NULL,"
    " number INTEGER NOT NULL, run TEXT NOT NULL, over INTEGER NOT NULL, PRIMARY KEY (kind, id, over)) WITHOUT ROWID",
    "CREATE TABLE pieces (copy TEXT NOT NULL, piece INTEGER NOT NULL, PRIMARY KEY (copy, piece)) WITHOUT ROWID",
    "CREATE TABLE files (path TEXT PRIMARY KEY, seq INTEGER NOT NULL, number INTEGER NOT NULL, run TEXT NOT NULL,"
    " digest TEXT NOT NULL, placed TEXT NOT NULL, stamp TEXT NOT NULL) WITHOUT ROWID",
)

_GET_STATE = (
    "SELECT version, cluster, store_id, promised_number, promised_run, promised_master, last_number, last_run, last_seq,"
    " ack_number, ack_run, ack_seq, pruned, whole, exported, replaced FROM state"
)
_PUT_STATE = (
    "INSERT OR REPLACE INTO state (one, version, cluster, store_id, promised_number, promised_run, promised_master,"
    " last_number, last_run, last_seq, ack_number, ack_run, ack_seq, pruned, whole, exported, replaced)"
    " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SELECT = "SELECT kind, id, value, seq, number, run "
_LOST = (
    "FROM rows LEFT JOIN aside ON aside.kind = rows.kind AND aside.id = rows.id"
    " WHERE rows.seq > ? AND rows.kind NOT IN (?, ?) AND aside.value IS NOT rows.value"
)
_PUT_ROW = "(kind, id, value, seq, number, run) VALUES (?, ?, ?, ?, ?, ?)"


def _RowTable(name: str) -> tuple[str, ...]:
    """Return the statements that make an empty table of rows.

    A full copy becomes the rows by renaming its table, so all such tables look alike, and names of indexes are random.
    """
    tag = runtime.RandomBytes(4).hex()
    return (
        f"CREATE TABLE {name} (kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT, seq INTEGER NOT NULL,"
        " number INTEGER NOT NULL, run TEXT NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID",
        f"CREATE INDEX by_seq_{tag} ON {name} (seq, kind, id)",
        f"CREATE INDEX deletions_{tag} ON {name} (seq) WHERE value IS NULL",
    )


@dataclass(frozen=True, slots=True)
class State:
    """Everything but the rows.  ``cluster`` is empty until a first call names it.

    ``whole``: from this seq on ``undo`` knows what unacknowledged transactions replaced; ``exported``: seq that all
    files of this node show; ``replaced``: name of the file that what was replaced is still being written into.
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
    replaced: str = ""

    def With(self, **changes: Any) -> State:
        return replace(self, **changes)


class FileRecord(NamedTuple):
    """A view file as it should be: digest, the position it shows, and the digest of the file it replaces."""

    path: str
    shows: Position
    digest: str
    placed: str
    stamp: str = ""


def MakeFile(path: str, owner: owned.Owner) -> None:
    """Make an empty file of ``owner``'s, so that SQLite's side files become that owner's, too."""
    runtime.WriteFile(path, b"", 0o640, *owner)


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
                    for statement in (*_SCHEMA, *_RowTable("rows"), *_RowTable("aside")):
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

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.Close()

    # State and line

    def GetState(self) -> State:
        found = self._db.Query(_GET_STATE)[0]
        cluster, store_id, number, run, master = found[1:6]
        return State(
            cluster,
            store_id,
            Epoch(number, run),
            master,
            Position(Epoch(*found[6:8]), found[8]),
            Position(Epoch(*found[9:11]), found[11]),
            *found[12:],
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
                state.replaced,
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

    def GetRows(self, kinds: Collection[str] | None = None) -> list[StoredRow]:
        """Return all rows, or those of some kinds, deletions too."""
        if kinds is None:
            return _Stored(self._db.Query(_SELECT + "FROM rows ORDER BY kind, id"))
        found = [self._db.Query(_SELECT + "FROM rows WHERE kind = ? ORDER BY id", (kind,)) for kind in kinds]
        return _Stored(list(itertools.chain.from_iterable(found)))

    def GetIds(self, kind: str) -> list[str]:
        """Return the ids of the rows of a kind that are not deleted."""
        return [row_id for (row_id,) in self._db.Query("SELECT id FROM rows WHERE kind = ? AND value NOTNULL", (kind,))]

    def HasRows(self) -> bool:
        return bool(self._db.Query("SELECT 1 FROM rows LIMIT 1"))

    def GetPage(self, after: Cursor, size: int) -> tuple[list[StoredRow], bool]:
        """Return the next rows in the order of transactions, deletions too, and whether there are more.

        The values of a page have about ``size`` characters, or there is only one.
        """
        return self._Page("FROM rows WHERE (seq, kind, id) > (?, ?, ?) ORDER BY seq, kind, id", after, CursorOf, size)

    def _Page(
        self, where: str, after: tuple[Any, ...], cursor: Callable[[StoredRow], tuple[Any, ...]], size: int
    ) -> tuple[list[StoredRow], bool]:
        page: list[StoredRow] = []
        while True:
            found = _Stored(self._db.Query(_SELECT + where + " LIMIT ?", (*after, _FEW_ROWS)))
            for row in found:
                if page and size <= 0:
                    return page, True
                page.append(row)
                size -= Size(row)
            if len(found) < _FEW_ROWS:
                return page, False
            after = cursor(page[-1])

    def IsSmall(self, after_seq: int, rows: int, size: int) -> bool:
        """Return whether what was written after ``after_seq`` is at most so many rows and characters of values."""
        found = self._db.Query(
            "SELECT count(*), sum(length(value)) FROM (SELECT value FROM rows WHERE seq > ? LIMIT ?)",
            (after_seq, rows + 1),
        )
        count, length = found[0]
        return count <= rows and (length or 0) <= size

    def PutTransaction(self, position: Position, rows: Sequence[Row]) -> None:
        """Write the rows of one transaction; what they replace goes to ``undo``."""
        keys = [(position.seq, row.kind, row.id) for row in rows]
        self._db.ExecuteMany(
            "INSERT OR REPLACE INTO undo (kind, id, value, seq, number, run, over)"
            " SELECT kind, id, value, seq, number, run, ? FROM rows WHERE kind = ? AND id = ?",
            keys,
        )
        self._PutRows(StoredRow(row.kind, row.id, row.value, position.seq, position.epoch) for row in rows)

    def _PutRows(self, rows: Iterable[StoredRow]) -> None:
        self._db.ExecuteMany("INSERT OR REPLACE INTO rows " + _PUT_ROW, [_Columns(row) for row in rows])

    def MergeRows(self, rows: Iterable[StoredRow]) -> None:
        """Put rows that were written elsewhere; what unacknowledged ones replaced is no longer known."""
        self._db.Execute("DELETE FROM undo")
        self._PutRows(rows)

    def DropUndo(self, up_to: int) -> None:
        self._db.Execute("DELETE FROM undo WHERE over <= ?", (up_to,))

    def PruneDeletions(self, up_to: int) -> None:
        self._db.Execute("DELETE FROM rows WHERE value IS NULL AND seq <= ?", (up_to,))

    def GetRowsAt(self, seq: int, after_seq: int = 0, kinds: Collection[str] = ()) -> list[StoredRow]:
        """Return the rows as they stood after transaction ``seq``, those written or taken back after ``after_seq``.

        ``seq`` must not be below ``whole``.  A row that a later transaction made is not there.  ``kinds``: only these.
        """
        only = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        return _Stored(
            self._db.Query(
                _SELECT
                + f"FROM rows WHERE seq <= ? AND seq > ?{only} UNION ALL "
                + _SELECT
                + f"FROM undo WHERE seq <= ? AND over > ? AND seq > ?{only}",
                (seq, after_seq, *kinds, seq, seq, after_seq, *kinds),
            )
        )

    # A copy before it is complete, and what it replaced

    def PutPiece(self, copy: str, piece: int, rows: Iterable[StoredRow]) -> None:
        """Gather one piece; rows of another copy go.

        A row that changed while the copy was made comes again: the newest counts, whatever comes late.
        """
        if self._db.Query("SELECT 1 FROM pieces WHERE copy <> ? LIMIT 1", (copy,)):
            self.ClearAside()
        self._db.Execute("INSERT OR REPLACE INTO pieces (copy, piece) VALUES (?, ?)", (copy, piece))
        self.FillAside(rows)

    def FillAside(self, rows: Iterable[StoredRow]) -> None:
        self._db.ExecuteMany(
            "INSERT INTO aside " + _PUT_ROW + " ON CONFLICT (kind, id) DO UPDATE SET"
            " value = excluded.value, seq = excluded.seq, number = excluded.number, run = excluded.run"
            " WHERE excluded.seq > seq",
            [_Columns(row) for row in rows],
        )

    def CountPieces(self, copy: str) -> int:
        return int(self._db.Query("SELECT count(*) FROM pieces WHERE copy = ?", (copy,))[0][0])

    def AsideSeqs(self) -> tuple[int, int]:
        """Return the lowest and the highest seq of the rows that were gathered; zeros if there are none."""
        low, high = self._db.Query("SELECT min(seq), max(seq) FROM aside")[0]
        return low or 0, high or 0

    def ClearAside(self) -> None:
        self._db.Execute("DELETE FROM aside")
        self._db.Execute("DELETE FROM pieces")

    def MergeAside(self) -> None:
        """Put the rows that were gathered over those that are there."""
        self._db.Execute("DELETE FROM undo")
        self._db.Execute("INSERT OR REPLACE INTO rows (kind, id, value, seq, number, run) " + _SELECT + "FROM aside")
        self.ClearAside()

    def SwapAside(self) -> None:
        """Make the gathered rows the only ones; the others become ``retired``.  Takes no time, however many there are."""
        for statement in (
            "ALTER TABLE rows RENAME TO retired",
            "ALTER TABLE aside RENAME TO rows",
            *_RowTable("aside"),
            "DELETE FROM undo",
            "DELETE FROM line",
        ):
            self._db.Execute(statement)
        self._db.Execute("DELETE FROM pieces")

    def LostRows(self, after_seq: int, limit: int) -> tuple[list[tuple[str, str]], int]:
        """Return rows after ``after_seq`` that the gathered ones do not hold: kind and id of some, and how many there are."""
        args = (after_seq, KIND_VOTERS, KIND_MASTER)
        some = self._db.Query(
            "SELECT rows.kind, rows.id " + _LOST + " ORDER BY rows.kind, rows.id LIMIT ?", (*args, limit)
        )
        count = self._db.Query("SELECT count(*) " + _LOST, args)[0][0]
        return [(kind, row_id) for kind, row_id in some], int(count)

    def GetRetired(self, size: int) -> tuple[list[StoredRow], bool]:
        """Return the first retired rows, with values of about ``size`` characters, and whether there are more."""
        return self._Page(
            "FROM retired WHERE (kind, id) > (?, ?) ORDER BY kind, id", ("", ""), lambda row: (row.kind, row.id), size
        )

    def DropRetired(self, up_to: StoredRow | None) -> None:
        """Drop the retired rows up to this one; without one all, and their table."""
        if up_to is None:
            self._db.Execute("DROP TABLE retired")
        else:
            self._db.Execute("DELETE FROM retired WHERE (kind, id) <= (?, ?)", (up_to.kind, up_to.id))

    # The view

    def GetFiles(self) -> dict[str, FileRecord]:
        found = self._db.Query("SELECT path, seq, number, run, digest, placed, stamp FROM files")
        shows = {key: Position(Epoch(*key[1:]), key[0]) for key in {row[1:4] for row in found}}
        return {row[0]: FileRecord(row[0], shows[row[1:4]], *row[4:]) for row in found}

    def PutFiles(self, records: Iterable[FileRecord]) -> None:
        self._db.ExecuteMany(
            "INSERT OR REPLACE INTO files (path, seq, number, run, digest, placed, stamp) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(r.path, r.shows.seq, *r.shows.epoch, r.digest, r.placed, r.stamp) for r in records],
        )

    def StampFiles(self, stamps: Mapping[str, str]) -> None:
        """Note what the system says of files that are in place and durable."""
        self._db.ExecuteMany("UPDATE files SET stamp = ? WHERE path = ?", [(s, path) for path, s in stamps.items()])

    def ForgetFiles(self, paths: Iterable[str]) -> None:
        self._db.ExecuteMany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])


def Size(row: StoredRow) -> int:
    """Return about how many characters a row has on the wire."""
    return len(row.value or "") + 40


def CursorOf(row: StoredRow) -> Cursor:
    return row.seq, row.kind, row.id


def AfterAll(seq: int) -> Cursor:
    """Return the place behind everything that transaction ``seq`` wrote."""
    return seq + 1, "", ""


def _Columns(row: StoredRow) -> tuple[Any, ...]:
    return (row.kind, row.id, row.value, row.seq, *row.epoch)


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
