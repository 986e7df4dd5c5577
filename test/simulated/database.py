"""Simulated databases: SQLite in memory; what is committed is durable, what is open dies with its process.

A file's content is one database in memory, shared by all who open it.  A transaction works on it directly; whoever
reads meanwhile is sent to a mirror, which follows by repeating the statements of the committed transactions.
"""

from __future__ import annotations

import posixpath
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors
from ganeti.runtime.contract import BusyDatabase
from ganeti.runtime.sqlite import BUSY_SECONDS, Translate
from simulated.disk import File
from simulated.locks import Waiters

if TYPE_CHECKING:
    from simulated.machine import Process
    from simulated.world import SimThread, World

_Statement = tuple[str, tuple[Any, ...]]


def _Connect(image: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous=OFF")
    if image:
        connection.deserialize(image)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    return connection


class Content:
    """What a database file holds."""

    def __init__(self, world: World, image: bytes):
        self._main = _Connect(image)
        self._image = image
        self._mirror: sqlite3.Connection | None = None
        self._backlog: list[_Statement] = []  # committed, not yet repeated in the mirror
        self.log: list[_Statement] = []  # of the open transaction
        self.holder: Database | None = None
        self.thread: SimThread | None = None  # the one inside the transaction
        self.waiters = Waiters(world)

    def Reader(self, thread: SimThread | None) -> sqlite3.Connection:
        """Where a thread may read: never what another has not committed yet."""
        if self.holder is None or (thread is not None and thread is self.thread):
            return self._main
        if self._mirror is None:
            self._mirror = _Connect(self._image)
        for text, values in self._backlog:
            self._mirror.execute(text, values)
        self._backlog.clear()
        return self._mirror

    def Look(self, text: str) -> list[tuple[Any, ...]]:
        """Read from outside, what is committed; nobody notices."""
        return self.Reader(None).execute(text).fetchall()

    def Begin(self, holder: Database, thread: SimThread | None) -> None:
        self._main.execute("BEGIN IMMEDIATE")
        self.holder = holder
        self.thread = thread
        self.log = []

    def Execute(self, text: str, values: Sequence[Any]) -> int:
        values = tuple(values)
        count = self._main.execute(text, values).rowcount
        self.log.append((text, values))
        return count

    def End(self, commit: bool) -> None:
        if self.holder is None:
            return
        if commit:
            self._main.execute("COMMIT")
            self._backlog.extend(self.log)
        elif self._main.in_transaction:
            self._main.execute("ROLLBACK")
        self.holder = None
        self.thread = None
        self.log = []
        self.waiters.WakeAll()

    def Bytes(self) -> bytes:
        """The file, as committed."""
        return self.Reader(None).serialize()

    def Size(self) -> int:
        connection = self.Reader(None)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        return int(pages * connection.execute("PRAGMA page_size").fetchone()[0])

    def LosePower(self) -> None:
        """Committed is durable; what was open was rolled back when its process died."""

    def Close(self) -> None:
        self._main.close()
        if self._mirror is not None:
            self._mirror.close()


class _Transaction:
    """``with database.Transaction():``"""

    __slots__ = ("_database",)

    def __init__(self, database: Database):
        self._database = database

    def __enter__(self) -> Database:
        self._database.Begin()
        return self._database

    def __exit__(self, kind: Any, *exc: object) -> None:
        if kind is None:
            self._database.Commit()
        else:
            self._database.Rollback()


class Database:
    """An open database of one process."""

    def __init__(self, process: Process, path: str, content: Content):
        self.path = path
        self._process = process
        self._world = process.world
        self._content = content
        self._closed = False
        process.resources[self] = None

    def _Reach(self, what: str, sql: str = "") -> SimThread | None:
        thread = self._world.Reach(what, f"{self.path} {sql}")
        if self._closed:
            raise errors.ProgrammerError(f"database {self.path} is closed")
        return thread

    def _Mine(self, thread: SimThread | None) -> bool:
        return self._content.holder is self and self._content.thread is thread

    def Query(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        thread = self._Reach("Database.Query", sql)
        self._process.side.NeedDisk(self.path)
        try:
            return self._content.Reader(thread).execute(sql, args).fetchall()
        except sqlite3.Error as err:
            raise Translate(self.path, err) from err

    def _Change(self, what: str, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        thread = self._Reach(what, sql)
        if not self._Mine(thread):
            raise errors.ProgrammerError(f"database {self.path}: changes are made inside a transaction only")
        try:
            # One by one: what a statement did before a later row failed stays, and the mirror must know.
            return sum(self._content.Execute(sql, row) for row in rows)
        except sqlite3.Error as err:
            raise Translate(self.path, err) from err

    def Execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        return self._Change("Database.Execute", sql, [args])

    def ExecuteMany(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        return self._Change("Database.ExecuteMany", sql, rows)

    def Transaction(self) -> _Transaction:
        return _Transaction(self)

    def Begin(self) -> None:
        content = self._content
        thread = self._Reach("Database.Begin")
        if self._Mine(thread):
            raise errors.ProgrammerError(f"database {self.path}: a transaction is open already")
        self._process.side.NeedDisk(self.path)
        while content.holder is not None:
            # Our own threads take turns; SQLite waits for another process only so long.
            limit = None if content.holder is self else BUSY_SECONDS
            if not content.waiters.WaitUntil(lambda: content.holder is None, limit):
                raise BusyDatabase(self.path, BUSY_SECONDS)
        if self._closed:
            content.waiters.WakeAll()
            raise errors.ProgrammerError(f"database {self.path} is closed")
        content.Begin(self, thread)

    def Commit(self) -> None:
        self._world.Reach("Database.Commit", self.path)
        content = self._content
        if not content.log:
            # Nothing was changed: nothing goes to the disk.
            content.End(True)
            return
        try:
            # On a slow disk the end may come before or after it is down there: nobody can tell.
            late = self._process.machine.slow_disk > 0 and self._world.RandomBelow(2)
            if late:
                self._process.side.NeedDisk(self.path, room=True)
                self._CommitContent()
                self._world.Block(self._process.machine.slow_disk)
            else:
                self._process.side.Durable(self.path)
                self._CommitContent()
        except Exception:
            content.End(False)
            raise

    def _CommitContent(self) -> None:
        try:
            self._content.End(True)
        except sqlite3.Error as err:
            raise Translate(self.path, err) from err
        if self._process.machine.committed is not None:
            self._process.machine.committed(self.path, self._content.Look)

    def Rollback(self) -> None:
        self._world.Reach("Database.Rollback", self.path)
        if self._content.holder is self:
            self._content.End(False)

    def Abandon(self) -> None:
        """Its process is gone."""
        self._closed = True
        if self._content.holder is self:
            self._content.End(False)

    def Close(self) -> None:
        thread = self._world.Reach("Database.Close", self.path)
        if self._closed:
            return
        if self._Mine(thread):
            raise errors.ProgrammerError(f"database {self.path}: a transaction is open, it cannot be closed")
        while self._content.holder is self:
            self._content.waiters.WaitUntil(lambda: self._content.holder is not self, None)
        self._closed = True
        self._process.resources.pop(self, None)


def Open(process: Process, path: str, mode: int) -> Database:
    """The database in a file; an empty or missing one begins empty."""
    disk = process.machine.disk
    inode = disk.Lookup(path)
    if inode is None:
        disk.NeedRoom(path)
        inode = File(disk, mode)
        disk.Insert(path, inode)
        inode.Sync()
        disk.SyncFolder(posixpath.dirname(path))
    inode = disk.FindFile(path)
    if inode.database is None:
        try:
            inode.database = Content(process.world, inode.Read())
        except sqlite3.Error as err:
            raise Translate(path, err) from err
    return Database(process, path, inode.database)
