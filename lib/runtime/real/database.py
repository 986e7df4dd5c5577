"""SQLite databases of the real machine."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ganeti import errors
from ganeti.runtime.real.files import SyncDir
from ganeti.runtime.sqlite import BUSY_SECONDS, FAILURES, IsBusy, Translate

_SETTINGS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA temp_store=MEMORY",
    # KiB for each connection; the system keeps the file's pages anyway.
    "PRAGMA cache_size=-1024",
)
_OPEN_PAUSE = 0.005


class Database:
    """Two connections: one for transactions, one for everybody else's reading.

    Reading never sees what is not committed and never waits for a transaction.  Each connection is guarded by a lock, and has
    one cursor: Python's module remembers hundreds of former ones, which lie all over the memory.
    """

    def __init__(self, path: str, mode: int):
        self.path = path
        self._pid = os.getpid()
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._writer_thread: int | None = None
        self._closed = False
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            pass
        else:
            try:
                os.fchmod(handle, mode)
            finally:
                os.close(handle)
            SyncDir(os.path.dirname(path))
        self._writer = self._Connect()
        try:
            self._reader = self._Connect()
        except BaseException:
            self._writer.close()
            raise
        self._write = self._writer.cursor()
        self._read = self._reader.cursor()
        _opened.add(self)

    def _Connect(self) -> sqlite3.Connection:
        """Open a connection; wait while another process prepares the same fresh file."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._TryConnect()
            except FAILURES as err:
                # SQLite does not wait by itself when two connections change the journal mode: one must let go.
                if not IsBusy(err) or time.monotonic() >= deadline:
                    raise self._OpenError(err) from err
            time.sleep(_OPEN_PAUSE)

    def _TryConnect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            for statement in _SETTINGS:
                connection.execute(statement).fetchall()
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _OpenError(self, err: sqlite3.Error | UnicodeDecodeError) -> Exception:
        """Return the reason of a failed opening: SQLite says only "unable to open", the system knows why."""
        try:
            # Not opened for real: closing a descriptor would release all locks this process holds on the file.
            handle = os.open(self.path, os.O_PATH | os.O_CLOEXEC)
            try:
                folder = stat.S_ISDIR(os.fstat(handle).st_mode)
            finally:
                os.close(handle)
        except OSError as cause:
            return cause
        if folder:
            return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        if not os.access(self.path, os.R_OK | os.W_OK, effective_ids=True):
            return PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.path)
        return Translate(self.path, err)

    def _Check(self) -> None:
        if self._pid != os.getpid():
            raise errors.ProgrammerError(f"database {self.path} was opened before a fork: the child must open it anew")
        if self._closed:
            raise errors.ProgrammerError(f"database {self.path} is closed")

    def Query(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows, with the changes of this thread's own transaction."""
        self._Check()
        try:
            if self._writer_thread == threading.get_ident():
                return self._write.execute(sql, args).fetchall()
            with self._read_lock:
                return self._read.execute(sql, args).fetchall()
        except FAILURES as err:
            raise Translate(self.path, err) from err

    def _Writing(self) -> sqlite3.Cursor:
        self._Check()
        if self._writer_thread != threading.get_ident():
            raise errors.ProgrammerError(f"database {self.path}: changes are made inside a transaction only")
        return self._write

    def Execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        cursor = self._Writing()
        try:
            return cursor.execute(sql, args).rowcount
        except FAILURES as err:
            raise Translate(self.path, err) from err

    def ExecuteMany(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        cursor = self._Writing()
        try:
            return cursor.executemany(sql, rows).rowcount
        except FAILURES as err:
            raise Translate(self.path, err) from err

    def _Statement(self, sql: str) -> None:
        try:
            self._write.execute(sql)
        except FAILURES as err:
            raise Translate(self.path, err) from err

    @contextmanager
    def Transaction(self) -> Iterator[Database]:
        """Not nested.  A commit that fails is rolled back and raised."""
        self._Check()
        if self._writer_thread == threading.get_ident():
            raise errors.ProgrammerError(f"database {self.path}: a transaction is open already")
        with self._write_lock:
            self._Check()
            self._Statement("BEGIN IMMEDIATE")
            self._writer_thread = threading.get_ident()
            try:
                yield self
                self._Check()
                self._Statement("COMMIT")
            finally:
                self._writer_thread = None
                if self._pid == os.getpid() and self._writer.in_transaction:
                    try:
                        self._write.execute("ROLLBACK")
                    except sqlite3.Error:
                        pass  # the first error is the one that matters; an error here means SQLite rolled back itself

    def Close(self) -> None:
        """Close the connection after another thread's transaction; in a forked child only forget it."""
        if self._closed:
            return
        if self._writer_thread == threading.get_ident():
            raise errors.ProgrammerError(f"database {self.path}: a transaction is open, it cannot be closed")
        if self._pid != os.getpid():
            self._closed = True
            return
        with self._write_lock, self._read_lock:
            self._closed = True
            _opened.discard(self)
            self._reader.close()
            self._writer.close()


_opened: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Any] = []


def _AfterForkInChild() -> None:
    """Keep a parent's connections from ever being closed by its child, which would harm the parent's locks."""
    _inherited.extend((database, *database.__dict__.values()) for database in list(_opened))
    _opened.clear()


os.register_at_fork(after_in_child=_AfterForkInChild)


def OpenDatabase(path: str, mode: int = 0o640) -> Database:
    return Database(path, mode)
