"""The rules of a node's copy at their edges: equal epoch numbers, late calls, other stores, how far deletions are pruned."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulated import World
from support.store_nodes import CLUSTER
from support.store_wire import At, Wire

from ganeti import errors, runtime
from ganeti.rpc import base as rpc_base
from ganeti.rpc.procedures import PROCEDURES
from ganeti.store import Epoch, NodeStore, Position, Row
from ganeti.store.base import MAX_LINE, NOWHERE, EpochTooOld, Line, StoredRow
from ganeti.store.files.export import VisiblePosition

E1, E2, E3 = Epoch(1, "aa"), Epoch(2, "bb"), Epoch(3, "cc")
# The same number, another run: another master, before E2 and after it.
E2_BEFORE, E2_AFTER = Epoch(2, "ba"), Epoch(2, "bc")


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    found = Wire(str(tmp_path))
    yield found
    found.store.Close()


def _History(wire: Wire, epoch: Epoch, last: int, acked: int = 0) -> None:
    """Give the node transactions 1 to ``last`` of an epoch; each writes row ``job N``."""
    for seq in range(1, last + 1):
        before = NOWHERE if seq == 1 else At(epoch, seq - 1)
        known = At(epoch, acked) if acked and seq > acked else NOWHERE
        assert wire.Append(epoch, before, [["job", str(seq), f'"{epoch}"']], known)["stored"] is True


# Epochs


def test_epochs_of_one_number_are_told_apart_by_their_run(wire: Wire) -> None:
    wire.Call("promise", E2)
    assert wire.Call("promise", E2_BEFORE)["refused"] == "2.bb"
    with pytest.raises(EpochTooOld):
        wire.store.Promise(CLUSTER, E2_BEFORE, "m")
    assert wire.Append(E2_BEFORE, NOWHERE, [["job", "1", "{}"]])["refused"] == "2.bb"
    assert wire.Call("promise", E2_AFTER)["promised"] == "2.bc"
    assert wire.Call("promise", E2)["refused"] == "2.bc"


@pytest.mark.parametrize("epoch", [E1, E2_BEFORE, E2_AFTER, E3])
def test_only_the_promised_master_writes(wire: Wire, epoch: Epoch) -> None:
    """The master's own copy checks this in the transaction itself, whatever was looked at before."""
    _History(wire, E2, 1)
    with pytest.raises(EpochTooOld), wire.store.Writing(epoch):
        pass
    with pytest.raises(EpochTooOld):
        wire.store.Store(epoch, [Row("job", "1", "{}")], NOWHERE)
    with pytest.raises(EpochTooOld):
        wire.store.Acknowledge(epoch, At(epoch, 1), 0)
    with pytest.raises(EpochTooOld):
        wire.store.Adopt(epoch, None, wire.store.GetLine(), 0, True, [])
    with pytest.raises(EpochTooOld):
        wire.store.ReadPage(epoch, (0, "", ""))
    state = wire.store.GetState()
    assert (state.last, state.acknowledged) == (At(E2, 1), NOWHERE)


def test_the_gate_tells_masters_of_one_number_apart(wire: Wire) -> None:
    wire.Call("promise", E2)
    procedure = PROCEDURES["set_watcher_pause"]
    headers = {rpc_base.HEADER_EPOCH.lower(): str(E2_BEFORE)}
    with pytest.raises(rpc_base.EpochRefused), wire.store.Enter(procedure, headers):
        pass
    with wire.store.Enter(procedure, {rpc_base.HEADER_EPOCH.lower(): str(E2_AFTER)}):
        assert wire.store.GetState().promised == E2_AFTER


def test_of_two_promises_that_race_the_higher_one_stands() -> None:
    """Both have looked at what is promised before either writes."""
    for seed in range(40):
        with World(seed, switch=1.0) as world:
            machine = world.AddMachine("one")
            store = NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls")
            machine.Call(lambda store=store: store.Promise(CLUSTER, E1, "m"))
            ends: list[Any] = []

            def promise(epoch: Epoch, ends: list[Any] = ends) -> None:
                try:
                    NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls").Promise(CLUSTER, epoch, "m")
                    ends.append(epoch)
                except EpochTooOld:
                    ends.append(None)

            for epoch in (E3, E2):
                machine.StartProcess(lambda epoch=epoch: promise(epoch), "noded-child")
            world.Run(until=lambda ends=ends: len(ends) == 2)
            assert machine.Call(lambda store=store: store.GetState().promised) == E3
            assert E3 in ends


def test_of_two_clusters_that_take_a_new_node_at_once_one_gets_it() -> None:
    """Both have looked to which cluster it belongs, to none, before either writes."""
    clusters = (CLUSTER, CLUSTER.replace("1", "2"))
    for seed in range(40):
        with World(seed, switch=1.0) as world:
            machine = world.AddMachine("one")
            ends: list[str | None] = []

            def promise(cluster: str, epoch: Epoch, ends: list[str | None] = ends) -> None:
                try:
                    NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls").Promise(cluster, epoch, "m")
                    ends.append(cluster)
                except errors.StorageError:
                    ends.append(None)
                except EpochTooOld:
                    ends.append("refused")

            for cluster, epoch in zip(clusters, (E2, E3), strict=True):
                machine.StartProcess(lambda cluster=cluster, epoch=epoch: promise(cluster, epoch), "noded-child")
            world.Run(until=lambda ends=ends: len(ends) == 2)
            found = machine.Call(lambda: NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls").GetState().cluster)
            assert sorted(ends, key=str) == sorted([None, found], key=str), seed


def test_a_promise_waits_while_calls_enter() -> None:
    with World(3) as world:
        machine = world.AddMachine("one")

        def play() -> float:
            store = NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls")
            store.Promise(CLUSTER, E1, "m")
            entering = runtime.LockFile("/srv/run/calls.lock", exclusive=False)
            runtime.Thread(lambda: (runtime.Sleep(3.0), entering.release()), "enter").start()
            began = runtime.Monotonic()
            store.Promise(CLUSTER, E2, "m")
            return runtime.Monotonic() - began

        assert machine.Call(play) >= 3.0


def test_a_call_waits_while_a_promise_is_made() -> None:
    with World(3) as world:
        machine = world.AddMachine("one")

        def play() -> float:
            store = NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls")
            store.Promise(CLUSTER, E1, "m")
            promising = runtime.LockFile("/srv/run/calls.lock", exclusive=True)
            runtime.Thread(lambda: (runtime.Sleep(3.0), promising.release()), "promise").start()
            began = runtime.Monotonic()
            with store.Enter(PROCEDURES["set_watcher_pause"], {rpc_base.HEADER_EPOCH.lower(): str(E1)}):
                return runtime.Monotonic() - began

        assert machine.Call(play) >= 3.0


def test_another_clusters_master_gets_no_rows(wire: Wire) -> None:
    _History(wire, E1, 1)
    other = CLUSTER.replace("1", "2")
    for name, more in (("promise", {}), ("fetch", {"after": [0, "", ""]})):
        answer = wire.Raw(f"store_{name}", {"cluster": other, "epoch": "9.z", "master": "m", **more})
        assert answer[0] is False
        assert "another cluster" in answer[1]
    with pytest.raises(errors.StorageError, match="another cluster"):
        wire.store.Promise(other, E1, "m")


def test_a_promise_that_was_overtaken_while_it_was_answered_is_refused() -> None:
    """Whoever asked would count a promise that was given to another master."""
    for seed in range(60):
        with World(seed, switch=1.0) as world:
            machine = world.AddMachine("one")
            machine.Call(lambda: Wire("/srv").Call("promise", E1))
            answers: list[tuple[Epoch, Any]] = []

            def promise(epoch: Epoch, answers: list[tuple[Epoch, Any]] = answers) -> None:
                answers.append((epoch, Wire("/srv").Call("promise", epoch)))

            for epoch in (E2, E3):
                machine.StartProcess(lambda epoch=epoch: promise(epoch), "noded-child")
            world.Run(until=lambda answers=answers: len(answers) == 2)
            for epoch, answer in answers:
                assert answer.get("promised", str(epoch)) == str(epoch)
                assert "promised" in answer or answer["refused"] == str(E3)


def test_two_that_look_at_once_do_not_take_each_other_for_the_master(tmp_path: Path) -> None:
    store = NodeStore(str(tmp_path / "ext/store.db"), "node1", str(tmp_path / "run/calls"))
    store.Serve().release()
    look = runtime.LockFile(str(tmp_path / "run/master.lock"), exclusive=False, timeout=0)
    assert store.IsServing() is False
    look.release()


# Late calls, and calls for another store


def test_a_late_copy_leaves_what_its_master_stored_since(wire: Wire) -> None:
    last = At(E2, 1)
    rows = [StoredRow("job", "1", '"copied"', 1, E2)]
    line = Line([(E2, 1)], last)
    assert wire.Copy(E2, rows, last, line)["stored"] is True
    wire.Append(E2, last, [["job", "1", '"newer"']])
    assert wire.Copy(E2, rows, last, line)["stored"] is True
    assert (wire.Live(), wire.store.GetState().last) == ({"1": '"newer"'}, At(E2, 2))
    # It had its pieces in one call; they are not left over.
    assert wire.store.database.CountPieces("c") == 0


def test_a_late_copy_still_says_what_is_acknowledged(wire: Wire) -> None:
    last = At(E2, 1)
    wire.Append(E2, NOWHERE, [["job", "1", "{}"]])
    final = {"pieces": 1, "last": last.Wire(), "line": [["2.bb", 1]], "pruned": 0, "acknowledged": last.Wire()}
    wire.Copy(E2, [], last, Line([(E2, 1)], last), final=final)
    assert wire.store.GetState().acknowledged == last


def test_a_catch_up_for_another_store_is_not_taken(wire: Wire) -> None:
    _History(wire, E1, 1)
    last = At(E1, 2)
    rows = [StoredRow("job", "2", "{}", 2, E1)]
    answer = wire.CatchUp(E1, At(E1, 1), rows, last, Line([(E1, 1)], last), store="other")
    assert (answer["stored"], answer["last"]) == (False, ["1.aa", 1])
    assert wire.store.database.CountPieces("c") == 0


def test_pieces_of_two_copies_are_not_mixed(wire: Wire) -> None:
    last = At(E1, 3)
    line = Line([(E1, 1)], last)
    rows = [StoredRow("job", str(number), "{}", number, E1) for number in (1, 2, 3)]
    wire.Copy(E1, rows[:1], last, line, copy="c", final=None)
    wire.Copy(E1, rows[1:2], last, line, copy="d", final=None)
    final = {"pieces": 2, "last": last.Wire(), "line": line.Wire(), "pruned": 0, "acknowledged": NOWHERE.Wire()}
    assert wire.Copy(E1, rows[2:], last, line, copy="c", piece=1, final=final)["stored"] is False
    assert wire.Live() == {}
    final["pieces"] = 1
    assert wire.Copy(E1, rows[2:], last, line, copy="e", final=final)["stored"] is True
    assert wire.Live() == {"3": "{}"}


def test_the_pieces_of_an_unfinished_copy_do_not_get_into_a_history_that_is_fetched(wire: Wire) -> None:
    last = At(E1, 9)
    wire.Copy(E1, [StoredRow("job", "9", '"left over"', 9, E1)], last, Line([(E1, 1)], last), final=None)
    wire.Call("promise", E2)
    fetched = [StoredRow("job", "1", "{}", 2, E1)]
    wire.store.Adopt(E2, fetched, Line([(E1, 1)], At(E1, 2)), 0, False, [Row("master", "master", "{}")])
    assert wire.Live() == {"1": "{}", "master": "{}"}


@pytest.mark.parametrize("seq", [1, 3, 4])
def test_a_transaction_follows_the_one_before(wire: Wire, seq: int) -> None:
    _History(wire, E1, 1)
    answer = wire.Append(E1, At(E1, 1), [["job", "2", "{}"]], seq=seq)
    assert answer[0] is False and "must follow the last one" in answer[1]
    assert wire.store.GetState().last == At(E1, 1)


@pytest.mark.parametrize(
    "after", [None, 7, [], [0, ""], [0, "", "", ""], ["0", "", ""], [0, 1, ""], [0, "", 1], [-1, "", ""]]
)
def test_rows_are_asked_for_with_a_place_to_begin_at(wire: Wire, after: Any) -> None:
    _History(wire, E1, 1)
    answer = wire.Call("fetch", E1, after=after)
    assert answer[0] is False and "after must be" in answer[1]


def test_a_copy_whose_voters_make_no_sense_is_called_damaged(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", "{}"], ["voters", "voters", "{}"]])
    assert [row.id for row in wire.store.ReadChecked(["job"])] == ["1"]
    wire.Append(E1, At(E1, 1), [["voters", "voters", "[]"]])
    with pytest.raises(errors.StorageError) as caught:
        wire.store.ReadChecked(["job"])
    assert wire.store.path in str(caught.value)


def test_what_ends_in_another_epoch_is_not_taken(wire: Wire) -> None:
    """A master that was overtaken on its own node would send the newer master's history under its own epoch."""
    last = At(E3, 1)
    row = [StoredRow("job", "1", "{}", 1, E3)]
    answer = wire.Copy(E2, row, last, Line([(E3, 1)], last))
    assert answer[0] is False and "own epoch" in answer[1]
    assert wire.store.GetState().last == NOWHERE


@pytest.mark.parametrize(
    "final",
    [
        "x",
        {},
        {"pieces": True},
        {"pieces": 1, "pruned": -1},
        {"pieces": 1, "pruned": None},
        {"pieces": "1", "pruned": 0},
        {"pieces": 1, "pruned": 0, "acknowledged": 7},
    ],
)
def test_a_last_piece_without_sense_is_rejected_in_words(wire: Wire, final: Any) -> None:
    last = At(E1, 1)
    good = {"pieces": 1, "last": last.Wire(), "line": [["1.aa", 1]], "pruned": 0, "acknowledged": NOWHERE.Wire()}
    if isinstance(final, dict):
        final = {**good, **final} if final else {}
    answer = wire.Copy(E1, [], last, Line([(E1, 1)], last), final=final)
    assert (answer[0] is False and "must be" in answer[1]) or "not a" in answer[1]
    assert wire.store.GetState().last == NOWHERE


@pytest.mark.parametrize(
    ("key", "value"),
    [("copy", "c" * 301), ("copy", 3), ("piece", -1), ("piece", 2**62), ("piece", True), ("piece", 1.5)],
)
def test_limits_of_a_message(wire: Wire, key: str, value: Any) -> None:
    last = At(E1, 1)
    answer = wire.Copy(E1, [], last, Line([(E1, 1)], last), **{key: value})
    assert answer[0] is False
    assert f"{key} must be" in answer[1]


def test_a_message_may_be_as_long_as_the_limit(wire: Wire) -> None:
    last = At(E1, 1)
    answer = wire.Copy(E1, [], last, Line([(E1, 1)], last), copy="c" * 300, piece=2**62 - 1)
    assert answer["stored"] is True


def test_two_copies_that_end_together_do_not_harm_each_other() -> None:
    """Each replaces what is there, which is still being kept from the other."""
    for seed in range(20):
        with World(seed, switch=1.0) as world:
            machine = world.AddMachine("one")
            machine.Call(lambda: Wire("/srv").Append(E1, NOWHERE, [["job", "0", "{}"]]))
            answers: list[Any] = []

            def copy(name: str, seq: int, answers: list[Any] = answers) -> None:
                last = At(E2, seq)
                row = StoredRow("job", str(seq), "{}", seq, E2)
                answers.append(Wire("/srv").Copy(E2, [row], last, Line([(E2, 1)], last), copy=name))

            for name, seq in (("c", 5), ("d", 7)):
                machine.StartProcess(lambda name=name, seq=seq: copy(name, seq), "noded-child")
            world.Run(until=lambda answers=answers: len(answers) == 2)
            assert all(isinstance(answer, dict) for answer in answers), answers
            assert machine.Call(lambda: Wire("/srv").store.GetState().last.seq) in (5, 7)


# Deletions


def test_nothing_is_pruned_that_the_node_does_not_hold(wire: Wire) -> None:
    _History(wire, E1, 2)
    wire.Append(E1, At(E1, 2), [["job", "1", None]], prune=4)
    state = wire.store.GetState()
    assert (state.pruned, wire.Live()) == (0, {"1": None, "2": f'"{E1}"'})
    wire.Append(E1, At(E1, 3), [["job", "3", "{}"]], prune=3)
    assert (wire.store.GetState().pruned, "1" in wire.Live()) == (3, False)
    # A late call says less: nothing comes back.
    wire.Append(E1, At(E1, 4), None, prune=2)
    assert wire.store.GetState().pruned == 3


def test_a_deletion_is_pruned_from_its_own_seq_on(wire: Wire) -> None:
    _History(wire, E1, 1)
    wire.Append(E1, At(E1, 1), [["job", "1", None]])
    wire.Append(E1, At(E1, 2), [["job", "2", "{}"]], prune=1)
    assert wire.Live() == {"1": None, "2": "{}"}
    wire.Append(E1, At(E1, 3), [["job", "2", "{}"]], prune=2)
    assert wire.Live() == {"2": "{}"}


def test_a_full_copy_takes_over_how_far_its_source_is_pruned(wire: Wire) -> None:
    _History(wire, E1, 2)
    last = At(E2, 9)
    line = Line([(E2, 1)], last)
    with wire.store.database.Transaction() as database:
        database.SetExported(2)
    final = {"pieces": 1, "last": last.Wire(), "line": line.Wire(), "pruned": 5, "acknowledged": NOWHERE.Wire()}
    assert wire.Copy(E2, [StoredRow("job", "9", "{}", 9, E2)], last, line, final=final)["stored"] is True
    state = wire.store.GetState()
    assert (state.pruned, state.exported, state.whole) == (5, 0, 9)


def test_a_catch_up_leaves_how_far_the_node_is_pruned(wire: Wire) -> None:
    _History(wire, E1, 2)
    wire.Append(E1, At(E1, 2), None, prune=2)
    with wire.store.database.Transaction() as database:
        database.SetExported(2)
    last = At(E1, 5)
    assert wire.CatchUp(E1, At(E1, 2), [StoredRow("job", "9", "{}", 5, E1)], last, Line([(E1, 1)], last))["stored"]
    state = wire.store.GetState()
    assert (state.pruned, state.exported, state.whole) == (2, 2, 5)


# What may be shown


def test_nothing_is_shown_beneath_a_catch_up(wire: Wire) -> None:
    """It brings rows without what they replaced: the state before its end can no longer be told."""
    _History(wire, E1, 3, acked=2)
    last = At(E1, 6)
    rows = [StoredRow("job", "1", '"new"', 6, E1)]
    assert wire.CatchUp(E1, At(E1, 3), rows, last, Line([(E1, 1)], last))["stored"] is True
    state = wire.store.GetState()
    assert state.acknowledged < last
    assert VisiblePosition(state, wire.store.GetLine()) is None
    wire.Append(E1, last, None, last)
    assert VisiblePosition(wire.store.GetState(), wire.store.GetLine()) == last


def test_what_another_epoch_acknowledges_drops_no_memory_of_this_one(wire: Wire) -> None:
    _History(wire, E1, 3, acked=1)
    wire.Append(E1, At(E1, 3), [["job", "1", '"later"']])
    wire.Append(E2, At(E2, 9), None, At(E2, 9))
    shown = {row.id: row.value for row in wire.store.database.GetRowsAt(1)}
    assert shown == {"1": f'"{E1}"'}


def test_an_emptied_node_that_hears_of_acknowledged_changes_keeps_nothing(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, None, At(E1, 3))
    assert wire.store.GetState().acknowledged == NOWHERE


# The database file


def test_the_file_is_made_once_by_whoever_comes_first(tmp_path: Path) -> None:
    folder = tmp_path / "ext"
    stores = [NodeStore(str(folder / "store.db"), "node1", str(tmp_path / "run/calls")) for _ in range(2)]
    first = stores[0].GetState().store_id
    assert stores[1].GetState().store_id == first
    assert sorted(path.name for path in folder.iterdir() if "store.db-" not in path.name) == ["store.db"]
    assert (folder / "store.db").stat().st_mode & 0o777 == 0o640
    for store in stores:
        store.Close()
        store.Close()
    assert sorted(path.name for path in folder.iterdir()) == ["store.db"]
    assert stores[0].GetState().store_id == first
    stores[0].Close()


def test_the_files_belong_to_whom_they_are_made_for() -> None:
    with World(3) as world:

        def play() -> list[tuple[int, int, int]]:
            store = NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls", uid=77, gid=78)
            store.Promise(CLUSTER, E1, "m")
            store.Adopt(E1, None, Line((), NOWHERE), 0, False, [Row("job", "1", "{}")])
            store.Promise(CLUSTER, E2, "m")
            row = StoredRow("job", "2", "{}", 1, E1)
            store.Adopt(E2, [row], Line([(E1, 1)], At(E1, 1)), 0, False, [])
            found = [f"/srv/ext/{name}" for name in runtime.ListDir("/srv/ext")]
            kept = [path for path in found if path.startswith("/srv/ext/replaced-") and "-wal" not in path]
            stats = [runtime.Stat(path) for path in ("/srv/ext", "/srv/ext/store.db", kept[0])]
            return [(info.st_uid, info.st_gid, info.st_mode & 0o777) for info in stats]

        assert world.AddMachine("one").Call(play) == [(77, 78, 0o750), (77, 78, 0o640), (77, 78, 0o640)]


def test_a_database_of_another_format_is_left_alone(wire: Wire) -> None:
    _History(wire, E1, 1)
    connection = sqlite3.connect(wire.store.path)
    connection.execute("UPDATE state SET version = 99")
    connection.commit()
    wire.store.Close()
    with pytest.raises(errors.StorageError, match="has format 99, this release reads 1") as caught:
        wire.store.GetState()
    assert "move the file away" in str(caught.value.hint)
    connection.execute("DELETE FROM state")
    connection.commit()
    connection.close()
    with pytest.raises(errors.StorageError, match="has format none"):
        wire.store.GetState()


def test_a_store_nobody_serves_makes_no_file_by_being_looked_at(tmp_path: Path) -> None:
    store = NodeStore(str(tmp_path / "ext/store.db"), "node1", str(tmp_path / "run/calls"))
    assert store.IsServing() is False
    assert not (tmp_path / "run").exists()


def test_of_what_lies_before_the_kept_line_nothing_is_known() -> None:
    entries = [(Epoch(number, "x"), 5 + number) for number in range(MAX_LINE)]
    last = Position(entries[-1][0], entries[-1][1] + 3)
    full, short = Line(entries, last), Line(entries[1:], last)
    assert full.OlderThanKept(Position(E1, 4)) and not full.OlderThanKept(Position(entries[0][0], 5))
    assert not short.OlderThanKept(Position(E1, 4))


def test_the_database_keeps_no_more_of_the_line_than_the_newest(wire: Wire) -> None:
    with wire.store.database.Transaction() as database:
        for number in range(1, MAX_LINE + 4):
            database.AddToLine(Epoch(number, "x"), number)
    found = sqlite3.connect(wire.store.path).execute("SELECT count(*), min(first), max(first) FROM line").fetchall()
    assert found == [(MAX_LINE, 4, MAX_LINE + 3)]


@pytest.mark.parametrize(
    "rows",
    [7, ["x"], [["job", "1"]], [["job", "1", "{}", 1]], [["", "1", "{}"]], [["job", 1, "{}"]], [["job", "1", 1]]],
)
def test_rows_without_sense_are_rejected_whole(wire: Wire, rows: Any) -> None:
    answer = wire.Append(E1, NOWHERE, [["job", "9", "{}"], *rows] if isinstance(rows, list) else rows)
    assert answer[0] is False and "must be" in answer[1]
    assert wire.Live() == {}


def test_a_position_of_nowhere_is_held_by_every_history() -> None:
    assert Line((), NOWHERE).Holds(NOWHERE)
    assert not Line((), NOWHERE).Holds(Position(E1, 1))


def test_the_threads_of_a_process_share_one_connection() -> None:
    for seed in range(20):
        with World(seed, switch=1.0) as world:
            machine = world.AddMachine("one")

            def story() -> None:
                store = NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls")
                found: list[Any] = []
                threads = [runtime.Thread(lambda: found.append(store.database), f"t{number}") for number in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert found[0] is found[1] is found[2]
                store.Close()

            machine.Call(story)
            assert not world.failures
