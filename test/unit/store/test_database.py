"""The tables of one node's copy: what is kept of each transaction, of copies under way, of what was replaced, and of calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from simulated import World

from ganeti import errors, runtime
from ganeti.store import Epoch, Position, Row
from ganeti.store.base import KIND_MASTER, KIND_VOTERS, NOWHERE, StoredRow
from ganeti.store.copy.calls import OlderCallRuns, RunningCalls
from ganeti.store.copy.database import AfterAll, CursorOf, Database, FileRecord, Size
from ganeti.store.files.owned import NO_OWNER

E1, E2 = Epoch(1, "aa"), Epoch(2, "bb")


def at(seq: int, epoch: Epoch = E1) -> Position:
    return Position(epoch, seq)


def stored(row_id: str, value: str | None, seq: int, kind: str = "job", epoch: Epoch = E1) -> StoredRow:
    return StoredRow(kind, row_id, value, seq, epoch)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    (tmp_path / "store.db").touch()
    with Database(str(tmp_path / "store.db")) as made, made.Transaction():
        yield made


def shown(rows: list[StoredRow]) -> dict[str, tuple[str | None, int]]:
    return {row.id: (row.value, row.seq) for row in rows}


def test_the_newest_of_each_row_is_kept_and_deletions_until_they_are_pruned(database: Database) -> None:
    assert not database.HasRows() and database.GetRows() == [] and database.GetValue("job", "1") is None
    database.PutTransaction(at(1), [Row("job", "1", "a"), Row("job", "2", "b"), Row("node", "1", "n")])
    database.PutTransaction(at(2), [Row("job", "1", None), Row("job", "2", "c")])
    assert database.HasRows() and database.GetValue("job", "2") == "c" and database.GetValue("job", "1") is None
    assert [(row.kind, row.id) for row in database.GetRows()] == [("job", "1"), ("job", "2"), ("node", "1")]
    assert [row.kind for row in database.GetRows(["node"])] == ["node"] and database.GetRows([]) == []
    assert database.GetIds("job") == ["2"]
    database.PruneDeletions(1)
    assert shown(database.GetRows(["job"])) == {"1": (None, 2), "2": ("c", 2)}
    database.PruneDeletions(2)
    assert shown(database.GetRows(["job"])) == {"2": ("c", 2)}


def test_the_rows_of_an_earlier_moment_are_known_until_it_is_acknowledged(database: Database) -> None:
    database.PutTransaction(at(1), [Row("job", "1", "a"), Row("job", "2", "b"), Row("node", "x", "n")])
    database.PutTransaction(at(2), [Row("job", "1", "c"), Row("job", "3", "new")])
    database.PutTransaction(at(3), [Row("job", "1", None), Row("node", "x", None)])
    assert shown(database.GetRowsAt(1)) == {"1": ("a", 1), "2": ("b", 1), "x": ("n", 1)}
    assert shown(database.GetRowsAt(2)) == {"1": ("c", 2), "2": ("b", 1), "3": ("new", 2), "x": ("n", 1)}
    assert shown(database.GetRowsAt(3)) == {"1": (None, 3), "2": ("b", 1), "3": ("new", 2), "x": (None, 3)}
    assert shown(database.GetRowsAt(2, 1)) == {"1": ("c", 2), "3": ("new", 2)}
    assert shown(database.GetRowsAt(2, 1, ["node"])) == {} and shown(database.GetRowsAt(1, 0, ["node"])) == {
        "x": ("n", 1)
    }
    database.DropUndo(2)
    # What the third replaced is still known, what the second did is not.
    assert shown(database.GetRowsAt(2)) == {"1": ("c", 2), "2": ("b", 1), "3": ("new", 2), "x": ("n", 1)}
    assert shown(database.GetRowsAt(1)) == {"2": ("b", 1), "x": ("n", 1)}
    database.MergeRows([stored("9", "other", 4, epoch=E2)])
    assert shown(database.GetRowsAt(2)) == {"2": ("b", 1), "3": ("new", 2)}
    assert database.GetRows(["job"])[-1].epoch == E2


def test_pages_hold_about_so_much_in_the_order_of_transactions(database: Database) -> None:
    for seq in range(1, 200):
        database.PutTransaction(at(seq), [Row("job", str(seq), "x" * 60)])
    found: list[StoredRow] = []
    pages = 0
    cursor, more = (0, "", ""), True
    while more:
        page, more = database.GetPage(cursor, 10 * Size(found[0]) if found else 1)
        assert page and (not found or len(page) <= 10)
        found += page
        pages += 1
        cursor = CursorOf(page[-1])
    assert [row.seq for row in found] == list(range(1, 200)) and pages == 21
    assert Size(found[0]) == 100 and Size(stored("1", None, 1)) == 40
    assert [row.seq for row in database.GetPage(AfterAll(197), 10**6)[0]] == [198, 199]
    assert database.GetPage(AfterAll(199), 10**6) == ([], False)
    for count in (99, 100, 101, 199):
        # One that ends exactly where the rows end says so.
        assert database.GetPage(AfterAll(199 - count), count * 100)[1] is False
        assert database.GetPage(AfterAll(199 - count), (count - 1) * 100)[1] is True


def test_pieces_of_a_copy_are_gathered_and_those_of_another_go(database: Database) -> None:
    assert (database.AsideSeqs(), database.CountPieces("c")) == ((0, 0), 0)
    database.PutPiece("c", 0, [stored("1", "old", 3), stored("2", "b", 4)])
    database.PutPiece("c", 1, [stored("1", "new", 7)])
    database.PutPiece("c", 1, [stored("1", "late", 5)])
    assert (database.AsideSeqs(), database.CountPieces("c"), database.CountPieces("d")) == ((4, 7), 2, 0)
    database.PutTransaction(at(1), [Row("job", "1", "mine"), Row("job", "9", "mine")])
    database.MergeAside()
    assert shown(database.GetRows()) == {"1": ("new", 7), "2": ("b", 4), "9": ("mine", 1)}
    assert (database.AsideSeqs(), database.CountPieces("c")) == ((0, 0), 0)
    assert shown(database.GetRowsAt(1)) == {"9": ("mine", 1)}, "what was replaced is forgotten"
    database.PutPiece("c", 0, [stored("1", "x", 3)])
    database.PutPiece("d", 0, [stored("2", "y", 4)])
    assert (database.AsideSeqs(), database.CountPieces("c"), database.CountPieces("d")) == ((4, 4), 0, 1)
    database.ClearAside()
    assert (database.AsideSeqs(), database.CountPieces("d")) == ((0, 0), 0)


def test_what_a_copy_replaced_is_set_aside_and_leaves_page_by_page(database: Database) -> None:
    rows = [Row("job", f"{number:03}", "x" * 60) for number in range(150)]
    database.PutTransaction(at(1), [*rows, Row(KIND_VOTERS, "v", "{}"), Row(KIND_MASTER, "m", "{}")])
    database.PutTransaction(at(2), [Row("job", "000", "newer"), Row("job", "zzz", None)])
    database.AddToLine(E1, 1)
    database.PutPiece("c", 0, [stored("000", "other", 2, epoch=E2), stored("001", "x" * 60, 1)])
    # Beside voters and master, which every start writes anew, these are not in the gathered rows.
    lost, count = database.LostRows(1, 50)
    assert ("job", "000") in lost and count == len(lost)
    some, many = database.LostRows(0, 5)
    assert len(some) == 5 and many > 100 and not {kind for kind, _ in some} & {KIND_VOTERS, KIND_MASTER}
    database.SwapAside()
    assert shown(database.GetRows()) == {"000": ("other", 2), "001": ("x" * 60, 1)}
    assert database.GetLine(NOWHERE).entries == () and database.CountPieces("c") == 0
    moved: list[StoredRow] = []
    more = True
    while more:
        page, more = database.GetRetired(2000)
        moved += page
        database.DropRetired(page[-1] if more else None)
    assert len(moved) == 153 and len({(row.kind, row.id) for row in moved}) == 153
    # The next one finds room for its own.
    database.PutPiece("e", 0, [stored("5", "e", 9)])
    database.SwapAside()
    assert shown(database.GetRows()) == {"5": ("e", 9)}
    assert shown(database.GetRetired(10**6)[0]) == {"000": ("other", 2), "001": ("x" * 60, 1)}


def test_of_files_it_is_known_what_they_show_and_how_they_lay_there(database: Database) -> None:
    one, two = FileRecord("/a", at(3), "d1", "p1"), FileRecord("/b", at(4, E2), "d2", "p2", "old")
    database.PutFiles([one, two])
    assert database.GetFiles() == {"/a": one, "/b": two}
    database.StampFiles({"/a": "new", "/none": "x"})
    database.PutFiles([two._replace(digest="d3")])
    database.ForgetFiles(["/none"])
    assert database.GetFiles() == {"/a": one._replace(stamp="new"), "/b": two._replace(digest="d3")}
    database.ForgetFiles(["/a"])
    assert list(database.GetFiles()) == ["/b"]
    database.SetExported(7)
    assert database.GetState().exported == 7


def test_a_file_that_is_no_database_or_of_another_format_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "odd.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(errors.GenericError):
        Database(str(tmp_path / "odd.db"))
    path = str(tmp_path / "store.db")
    (tmp_path / "store.db").touch()
    with Database(path) as made:
        first = made.GetState().store_id
    with Database(path) as again:
        assert again.GetState().store_id == first, "its identity is its file's"
        with again.Transaction():
            again._db.Execute("UPDATE state SET version = 99")
    with pytest.raises(errors.StorageError, match="has format 99"):
        Database(path)


# Calls that run


def test_calls_of_an_older_epoch_are_seen_waited_for_and_forgotten_with_their_process() -> None:
    with World(4) as world:

        def story() -> None:
            calls = RunningCalls("/srv/run/calls", NO_OWNER)
            assert calls.Older(E2) == []
            with calls.Admit():
                old = calls.Book(E1, "instance-with-dash")
                own = calls.Book(E2, "import_start")
            runtime.WriteFile("/srv/run/calls/note", b"", 0o640)
            runtime.WriteFile("/srv/run/calls/1.aa-short", b"", 0o640)
            dead = "/srv/run/calls/1.aa-gone-abc"
            runtime.WriteFile(dead, b"", 0o640)
            assert [(call.epoch, call.name) for call in calls.Older(E2)] == [(E1, "instance-with-dash")]
            assert not runtime.Exists(dead) and runtime.Exists("/srv/run/calls/note")
            calls.WaitForOlder(E1, 0.0)
            began = runtime.Monotonic()
            with pytest.raises(
                OlderCallRuns, match=r"instance-with-dash of the former master \(epoch 1\.aa\) still runs"
            ):
                calls.WaitForOlder(E2, 3.0)
            assert 3.0 <= runtime.Monotonic() - began < 3.5
            runtime.Thread(lambda: (runtime.Sleep(2.0), calls.Leave(old)), "end").start()
            began = runtime.Monotonic()
            calls.WaitForOlder(E2, 10.0)
            assert 1.9 <= runtime.Monotonic() - began < 2.5
            assert calls.Older(E2) == [] and len(calls.Older(Epoch(3, ""))) == 1
            calls.Leave(own)
            assert calls.Older(Epoch(3, "")) == []

        world.AddMachine("one").Call(story)
        assert not world.failures
