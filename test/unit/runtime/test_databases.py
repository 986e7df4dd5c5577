"""Databases, on both sides."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from support.sides import Everywhere, Place

from ganeti import errors, runtime


def _Open(place: Place):
    database = runtime.OpenDatabase(place.Path("store.db"))
    with database.Transaction():
        database.Execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, value TEXT)")
    return database


@Everywhere
def test_committed_rows_are_there_and_others_are_not(place: Place) -> None:
    database = _Open(place)
    assert stat.S_IMODE(runtime.Stat(database.path).st_mode) == 0o640
    with database.Transaction() as inside:
        assert inside.Execute("INSERT INTO rows VALUES (?, ?)", (1, "one")) == 1
        assert inside.ExecuteMany("INSERT INTO rows VALUES (?, ?)", ((n, str(n)) for n in (2, 3))) == 2
        assert inside.Query("SELECT id FROM rows ORDER BY id") == [(1,), (2,), (3,)]
    with pytest.raises(KeyError), database.Transaction():
        database.Execute("DELETE FROM rows")
        assert database.Query("SELECT * FROM rows") == []
        raise KeyError
    assert database.Query("SELECT value FROM rows WHERE id > ? ORDER BY id", (1,)) == [("2",), ("3",)]
    database.Close()
    database.Close()
    again = _Open(place)
    assert again.Query("SELECT count(*) FROM rows") == [(3,)]


@Everywhere
def test_nobody_reads_what_is_not_committed(place: Place) -> None:
    database = _Open(place)
    second = runtime.OpenDatabase(place.Path("store.db"))
    inserted, looked = runtime.Event(), runtime.Event()

    def write() -> None:
        with database.Transaction():
            database.Execute("INSERT INTO rows VALUES (1, 'x')")
            inserted.set()
            looked.wait()

    thread = runtime.Thread(write, "writer")
    thread.start()
    inserted.wait()
    assert database.Query("SELECT * FROM rows") == []
    assert second.Query("SELECT * FROM rows") == []
    looked.set()
    thread.join()
    assert database.Query("SELECT * FROM rows") == [(1, "x")]
    assert second.Query("SELECT * FROM rows") == [(1, "x")]


@Everywhere
def test_transactions_of_threads_and_openings_take_turns(place: Place) -> None:
    first = _Open(place)
    second = runtime.OpenDatabase(place.Path("store.db"))
    with first.Transaction():
        first.Execute("INSERT INTO rows VALUES (0, '0')")

    def count(database) -> None:
        for _ in range(5):
            with database.Transaction():
                ((value,),) = database.Query("SELECT value FROM rows WHERE id = 0")
                runtime.Sleep(0.0002)
                database.Execute("UPDATE rows SET value = ? WHERE id = 0", (str(int(value) + 1),))

    threads = [runtime.Thread(count, f"counter {n}", (database,)) for n, database in enumerate([first, first, second])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert second.Query("SELECT value FROM rows") == [("15",)]


@Everywhere
def test_misuse_is_refused_in_words(place: Place) -> None:
    database = _Open(place)
    with pytest.raises(errors.ProgrammerError, match="inside a transaction only"):
        database.Execute("DELETE FROM rows")
    with database.Transaction(), pytest.raises(errors.ProgrammerError, match="open already"):
        with database.Transaction():
            pass
    with database.Transaction(), pytest.raises(errors.ProgrammerError, match="cannot be closed"):
        database.Close()
    with pytest.raises(errors.StorageError, match=r"store\.db rejected a statement: near .*: syntax error"):
        database.Query("SELECT FROM WHERE")
    with pytest.raises(errors.StorageError, match="UNIQUE"):
        with database.Transaction():
            database.ExecuteMany("INSERT INTO rows VALUES (?, '')", [(7,), (7,)])
    assert database.Query("SELECT * FROM rows") == []
    database.Close()
    with pytest.raises(errors.ProgrammerError, match="closed"):
        database.Query("SELECT 1")


@Everywhere
def test_a_file_that_lacks_a_table_or_holds_what_is_no_text_is_damaged(place: Place) -> None:
    database = _Open(place)
    with pytest.raises(errors.StorageError, match=r"store\.db is damaged: no such table: nowhere") as caught:
        database.Query("SELECT * FROM nowhere")
    assert "away" in str(caught.value.hint)
    with database.Transaction():
        database.Execute("INSERT INTO rows VALUES (1, CAST(X'7365637265ff' AS TEXT))")
    with pytest.raises(errors.StorageError, match=r"store\.db is damaged: Could not decode") as caught:
        database.Query("SELECT * FROM rows")
    assert "secre" not in str(caught.value)


@Everywhere
def test_what_a_failed_statement_did_before_stays_in_the_transaction(place: Place) -> None:
    database = _Open(place)
    with database.Transaction():
        with pytest.raises(errors.StorageError):
            database.ExecuteMany("INSERT INTO rows VALUES (?, '')", [(1,), (2,), (1,)])
        database.Execute("INSERT INTO rows VALUES (3, '')")
    entered, leave = runtime.Event(), runtime.Event()

    def hold() -> None:
        with database.Transaction():
            entered.set()
            leave.wait()

    thread = runtime.Thread(hold, "holder")
    thread.start()
    entered.wait()
    assert database.Query("SELECT id FROM rows ORDER BY id") == [(1,), (2,), (3,)]
    leave.set()
    thread.join()


@Everywhere
def test_a_damaged_file_names_itself_and_the_way_out(place: Place) -> None:
    path = place.Path("store.db")
    runtime.WriteFile(path, b"this was never a database " * 200)
    with pytest.raises(errors.StorageError) as caught:
        runtime.OpenDatabase(path)
    assert path in str(caught.value)
    assert "damaged" in str(caught.value)
    assert f"{path}-wal" in (caught.value.hint or "")
    assert runtime.ReadFile(path).startswith(b"this was never")
    runtime.Rename(path, path + ".damaged")
    assert _Open(place).Query("SELECT * FROM rows") == []


def test_a_damaged_schema_is_reported_as_damage(tmp_path: Path) -> None:
    """SQLite quotes the damaged text in its message, which Python then cannot decode."""
    path = str(tmp_path / "store.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE state (one INTEGER)")
    data = (tmp_path / "store.db").read_bytes()
    (tmp_path / "store.db").write_bytes(data.replace(b"CREATE TABLE state", b"CR\xff\xfeTE TABLE state"))
    with pytest.raises(errors.StorageError, match=r"store\.db is damaged"):
        runtime.OpenDatabase(path)


def test_an_opening_waits_for_the_process_that_prepares_the_file(tmp_path: Path) -> None:
    """SQLite reports a lock at once, without waiting, when two connections change the journal mode."""
    path = str(tmp_path / "store.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ends: list[object] = []

        def open_it() -> None:
            try:
                ends.append(runtime.OpenDatabase(path))
            except errors.StorageError as err:
                ends.append(err)

        thread = threading.Thread(target=open_it)
        thread.start()
        thread.join(0.5)  # ends within this time only if it fails
        other.execute("COMMIT")
        thread.join()
    (database,) = ends
    assert not isinstance(database, errors.StorageError)
    database.Close()  # type: ignore[attr-defined]


@Everywhere
def test_a_folder_is_no_database(place: Place) -> None:
    runtime.MakeDirs(place.Path("folder"))
    with pytest.raises(IsADirectoryError):
        runtime.OpenDatabase(place.Path("folder"))
