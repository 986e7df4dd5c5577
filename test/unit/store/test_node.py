"""What a node's copy takes, from whom, and what it answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import World
from support.store_nodes import CLUSTER
from support.store_wire import At, Wire

from ganeti import errors, runtime, serializer
from ganeti.store import Epoch, Member, NodeStore, Position, Row, Voter, VoterSet
from ganeti.store.base import MAX_LINE, NOWHERE, Line, StoredRow
from ganeti.store.copy.database import Database, State
from ganeti.store.files.export import VisiblePosition

E1, E2, E3 = Epoch(1, "aa"), Epoch(2, "bb"), Epoch(3, "cc")


def Kept(path: str) -> dict[str, str | None]:
    """The rows in a file that keeps what was replaced."""
    with Database(path) as database:
        return {row.id: row.value for row in database.GetRows()}


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    found = Wire(str(tmp_path))
    yield found
    found.store.Close()


def test_a_promise_outlives_the_process_and_excludes_older_ones(wire: Wire) -> None:
    assert wire.Call("promise", E2)["promised"] == "2.bb"
    assert wire.Call("promise", E1) == {"refused": "2.bb", "master": "m", "last": ["0.", 0], "line": []}
    assert wire.Call("promise", E2)["promised"] == "2.bb"
    wire.store.Close()
    assert wire.store.GetState().promised == E2
    assert wire.Append(E1, NOWHERE, [["job", "1", "{}"]])["refused"] == "2.bb"
    assert wire.store.GetState().last == NOWHERE


def test_another_clusters_database_is_refused(wire: Wire) -> None:
    wire.Call("promise", E1)
    answer = wire.Raw("store_promise", {"cluster": CLUSTER.replace("1", "2"), "epoch": "9.z", "master": "m"})
    assert answer[0] is False
    assert "another cluster" in answer[1]
    assert wire.store.GetState().promised == E1


def test_any_call_of_a_newer_epoch_promises_it(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", "{}"]])
    wire.Append(E3, NOWHERE, None)
    assert wire.store.GetState().promised == E3
    assert wire.Append(E2, At(E1, 1), [["job", "2", "{}"]])["refused"] == "3.cc"


def test_a_repeated_append_changes_nothing(wire: Wire) -> None:
    first = wire.Append(E1, NOWHERE, [["job", "1", '"a"']])
    assert first["stored"] is True
    wire.Append(E1, At(E1, 1), [["job", "1", '"b"']])
    assert wire.Append(E1, NOWHERE, [["job", "1", '"a"']])["stored"] is True
    assert wire.Live() == {"1": '"b"'}
    assert wire.store.GetState().last == At(E1, 2)
    # But for the news that what is here is acknowledged.
    wire.Append(E1, At(E1, 1), [["job", "1", '"c"']], At(E1, 2))
    assert (wire.store.GetState().acknowledged, wire.Live()) == (At(E1, 2), {"1": '"b"'})


def test_an_append_that_does_not_follow_is_answered_with_the_own_last(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", "{}"]])
    answer = wire.Append(E1, At(E1, 5), [["job", "2", "{}"]])
    assert (answer["stored"], answer["last"]) == (False, ["1.aa", 1])
    answer = wire.Append(E2, At(E2, 1), [["job", "2", "{}"]])
    assert (answer["stored"], answer["last"]) == (False, ["1.aa", 1])
    assert wire.Live() == {"1": "{}"}


def test_what_is_meant_for_another_store_is_not_taken(wire: Wire) -> None:
    assert wire.Append(E1, NOWHERE, [["job", "1", "{}"]], stores=["other"])["stored"] is False
    copied = wire.Copy(E1, [StoredRow("job", "1", "{}", 1, E1)], At(E1, 1), Line([(E1, 1)], At(E1, 1)), store="other")
    assert copied["stored"] is False
    assert wire.Live() == {}


def test_a_catch_up_brings_all_rows_behind_the_nodes_last(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", '"old"'], ["job", "2", '"old"']])
    last = At(E2, 4)
    line = Line([(E1, 1), (E2, 3)], last)
    rows = [StoredRow("job", "1", '"new"', 4, E2), StoredRow("job", "2", None, 2, E1)]
    assert wire.CatchUp(E2, At(E1, 1), rows, last, line)["stored"] is True
    assert wire.Live() == {"1": '"new"', "2": None}
    assert wire.store.GetLine().entries == line.entries
    # Late or twice: it has that already.
    assert wire.CatchUp(E2, At(E1, 1), rows, last, line)["stored"] is True
    assert wire.CatchUp(E2, At(E1, 1), rows, At(E1, 4), line)[0] is False


def test_a_full_copy_replaces_everything_and_keeps_what_was_there(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", '"mine"'], ["job", "2", '"same"']])
    last = At(E2, 1)
    fresh = [StoredRow("job", "2", '"same"', 1, E2), StoredRow("job", "3", '"theirs"', 1, E2)]
    with caplog.at_level(logging.WARNING):
        assert wire.Copy(E2, fresh, last, Line([(E2, 1)], last))["stored"] is True
    assert wire.Live() == {"2": '"same"', "3": '"theirs"'}
    folder = wire.store.path.rpartition("/")[0]
    (kept,) = [name for name in runtime.ListDir(folder) if name.startswith("replaced-")]
    assert Kept(f"{folder}/{kept}") == {"1": '"mine"', "2": '"same"'}
    assert "job 1" in caplog.text
    assert "job 2" not in caplog.text


def test_a_copy_with_a_missing_piece_is_not_taken(wire: Wire) -> None:
    last = At(E1, 3)
    line = Line([(E1, 1)], last)
    rows = [StoredRow("job", "1", "{}", 1, E1)]
    assert wire.Copy(E1, rows, last, line, piece=0, final=None)["stored"] is True
    final = {"pieces": 3, "last": last.Wire(), "line": line.Wire(), "pruned": 0, "acknowledged": NOWHERE.Wire()}
    assert wire.Copy(E1, rows, last, line, piece=2, final=final)["stored"] is False
    assert wire.store.GetState().last == NOWHERE
    # A later copy is not mixed with the leftovers.
    assert wire.Copy(E1, [StoredRow("job", "9", "{}", 3, E1)], last, line, copy="d")["stored"] is True
    assert wire.Live() == {"9": "{}"}


def test_a_row_that_changed_during_a_copy_is_taken_as_it_was_last(wire: Wire) -> None:
    """Pieces come in the order of transactions, but the network may deliver one of them late and twice."""
    last = At(E1, 9)
    line = Line([(E1, 1)], last)
    old, new = StoredRow("job", "1", '"old"', 2, E1), StoredRow("job", "1", '"new"', 8, E1)
    wire.Copy(E1, [old], last, line, piece=0, final=None)
    wire.Copy(E1, [new], last, line, piece=1, final=None)
    wire.Copy(E1, [old], last, line, piece=0, final=None)
    final = {"pieces": 3, "last": last.Wire(), "line": line.Wire(), "pruned": 0, "acknowledged": NOWHERE.Wire()}
    assert wire.Copy(E1, [], last, line, piece=2, final=final)["stored"] is True
    assert wire.Live() == {"1": '"new"'}


def test_a_catch_up_in_pieces_is_put_in_place_with_the_last_one(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", '"old"'], ["job", "2", '"old"']])
    last = At(E1, 3)
    line = Line([(E1, 1)], last)
    rows = [StoredRow("job", "1", '"new"', 2, E1), StoredRow("job", "3", '"new"', 3, E1)]
    assert wire.CatchUp(E1, At(E1, 1), rows[:1], last, line, final=None)["stored"] is True
    assert (wire.Live(), wire.store.GetState().last) == ({"1": '"old"', "2": '"old"'}, At(E1, 1))
    final = {"pieces": 2, "before": At(E1, 1).Wire(), "last": last.Wire(), "line": line.Wire()}
    final["acknowledged"] = At(E1, 2).Wire()
    assert wire.CatchUp(E1, At(E1, 1), rows[1:], last, line, piece=1, final=final)["stored"] is True
    assert wire.Live() == {"1": '"new"', "2": '"old"', "3": '"new"'}
    assert wire.store.GetState().acknowledged == At(E1, 2)


def test_a_catch_up_elsewhere_than_the_nodes_last_is_not_taken(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", '"old"']])
    last = At(E2, 3)
    rows = [StoredRow("job", "1", '"new"', 3, E2)]
    # Not where this node is; and where it is, but on another line.
    answer = wire.CatchUp(E2, At(E1, 2), rows, last, Line([(E1, 1), (E2, 3)], last))
    assert (answer["stored"], answer["last"]) == (False, ["1.aa", 1])
    assert wire.CatchUp(E2, At(E1, 1), rows, last, Line([(E2, 1)], last))["stored"] is False
    # Rows that the node had already cannot be part of it, nor rows behind its end.
    line = Line([(E1, 1), (E2, 2)], last)
    for seq in (1, 4):
        assert wire.CatchUp(E2, At(E1, 1), [StoredRow("job", "1", '"new"', seq, E2)], last, line)[0] is False
    assert wire.Live() == {"1": '"old"'}
    assert wire.CatchUp(E2, At(E1, 1), rows, last, line)["stored"] is True


_BIG = '"' + "x" * 60_000 + '"'


def _Fill(wire: Wire) -> dict[str, str | None]:
    """Give the node several pages of rows."""
    wire.Append(E1, NOWHERE, [["job", str(number), _BIG] for number in range(40)])
    return wire.Live()


def _KeptFiles(wire: Wire) -> list[str]:
    folder = wire.store.path.rpartition("/")[0]
    return sorted(f"{folder}/{name}" for name in runtime.ListDir(folder) if name.startswith("replaced-"))


def test_a_large_store_is_emptied_at_once_and_kept_in_steps(wire: Wire) -> None:
    before, old = _Fill(wire), wire.id
    answers = [wire.Call("empty", E2, store=old, acknowledged=At(E1, 1).Wire())]
    assert (answers[0]["stored"], wire.Live(), wire.id != old) == (False, {}, True)
    new = wire.id
    # A process that dies meanwhile loses nothing.
    wire.store.Close()
    while not answers[-1]["stored"]:
        answers.append(wire.Call("empty", E2, store=old, acknowledged=At(E1, 1).Wire()))
    assert 3 <= len(answers) <= 10
    (kept,) = _KeptFiles(wire)
    with Database(kept) as database:
        assert {row.id: row.value for row in database.GetRows()} == before
        assert (database.GetState().store_id, database.GetState().last) == (old, At(E1, 1))
        assert database.GetLine(At(E1, 1)).entries == ((E1, 1),)
    assert wire.id == new


def test_what_a_full_copy_replaced_is_kept_by_the_calls_that_follow(wire: Wire) -> None:
    before = _Fill(wire)
    last = At(E2, 1)
    assert wire.Copy(E2, [StoredRow("job", "1", "{}", 1, E2)], last, Line([(E2, 1)], last))["stored"] is True
    assert wire.store.GetState().replaced
    for seq in range(1, 10):
        wire.Append(E2, At(E2, seq), [["job", "2", "{}"]])
    assert not wire.store.GetState().replaced
    assert Kept(_KeptFiles(wire)[0]) == before
    assert wire.Live() == {"1": "{}", "2": "{}"}


def test_a_second_replacement_waits_for_the_first_to_be_kept(wire: Wire) -> None:
    before = _Fill(wire)
    for epoch in (E2, E3):
        last = At(epoch, 1)
        copied = wire.Copy(epoch, [StoredRow("job", "1", "{}", 1, epoch)], last, Line([(epoch, 1)], last))
        assert copied["stored"] is True
    wire.Append(E3, At(E3, 1), None)
    assert [Kept(path) for path in _KeptFiles(wire)] == [before, {"1": "{}"}]


def test_what_was_replaced_is_kept_though_the_clock_was_set_back() -> None:
    with World(1) as world:
        machine = world.AddMachine("one")

        def play() -> dict[str, str | None]:
            wire = Wire("/srv")
            for number in range(1, 8):
                epoch = Epoch(number, "x")
                row = StoredRow("job", "1", str(number), 1, epoch)
                wire.Copy(epoch, [row], At(epoch, 1), Line([(epoch, 1)], At(epoch, 1)))
                machine.clock_offset -= 86400.0
            return Kept(_KeptFiles(wire)[-1])

        assert machine.Call(play) == {"1": "6"}


def test_only_the_newest_replaced_copies_are_kept(tmp_path: Path) -> None:
    with World(1) as world:

        def play() -> list[str]:
            wire = Wire("/srv")
            for number in range(1, 8):
                epoch = Epoch(number, "x")
                wire.Copy(
                    epoch, [StoredRow("job", "1", "{}", 1, epoch)], At(epoch, 1), Line([(epoch, 1)], At(epoch, 1))
                )
                runtime.Sleep(1)
            return [name for name in runtime.ListDir("/srv/ext") if name.startswith("replaced-")]

        assert len(world.AddMachine("one").Call(play)) == 3


def test_emptying_makes_another_store_and_keeps_the_promise(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", "{}"]], At(E1, 1))
    old = wire.id
    assert wire.Call("empty", E2, store=old, acknowledged=At(E2, 5).Wire())["stored"] is True
    state = wire.store.GetState()
    assert (state.last, state.acknowledged, state.promised) == (NOWHERE, At(E2, 5), E2)
    assert state.store_id != old
    new = wire.id
    assert wire.Call("empty", E2, store=old, acknowledged=At(E2, 6).Wire())["stored"] is True
    assert wire.id == new
    # Nothing late fills it, and it learns nothing.
    assert wire.Append(E2, NOWHERE, [["job", "1", "{}"]], stores=[old])["stored"] is False
    wire.Append(E2, NOWHERE, None, At(E2, 7))
    assert wire.store.GetState().acknowledged == At(E2, 5)


def test_rows_are_given_to_the_promised_master_only_and_in_pages(wire: Wire) -> None:
    rows = [["job", f"{number:04}", "x" * 2000] for number in range(700)]
    wire.Append(E1, NOWHERE, rows)
    assert (
        wire.Raw("store_fetch", {"cluster": CLUSTER, "epoch": "2.bb", "master": "m", "after": [0, "", ""]})[0] is False
    )
    wire.Call("promise", E2)
    assert wire.Call("fetch", E1, after=[0, "", ""])["refused"] == "2.bb"
    got: list[Any] = []
    after = [0, "", ""]
    for _ in range(20):
        answer = wire.Call("fetch", E2, after=after)
        got += answer["rows"]
        if not answer["more"]:
            break
        assert sum(len(row[2]) for row in answer["rows"]) < 700_000
        after = [got[-1][3], *got[-1][:2]]
    assert [row[1] for row in got] == [row[1] for row in rows]


def test_pruning_drops_deletions_only_where_the_history_is_the_masters(wire: Wire) -> None:
    wire.Append(E1, NOWHERE, [["job", "1", "{}"]])
    wire.Append(E1, At(E1, 1), [["job", "1", None]])
    wire.Append(E2, NOWHERE, None, prune=2)
    assert wire.Live() == {"1": None}
    wire.Append(E2, At(E1, 2), [["job", "2", "{}"]], prune=2)
    assert wire.Live() == {"2": "{}"}
    assert wire.store.GetState().pruned == 2


def _Founded(wire: Wire, last: int, pruned: int) -> None:
    """Give the node a history of E1 up to ``last``, pruned up to ``pruned``."""
    wire.Append(E1, NOWHERE, [["job", "1", "{}"]])
    for seq in range(1, last):
        wire.Append(E1, At(E1, seq), [["job", "1", None]], prune=pruned if seq + 1 == last else 0)
    assert wire.store.GetState().pruned == pruned


def _Adopt(wire: Wire, fetched: list[StoredRow] | None, last: Position, pruned: int, partial: bool) -> State:
    wire.Call("promise", E2)
    line = Line([(E1, 1)], last)
    wire.store.Adopt(E2, fetched, line, pruned, partial, [Row("master", "master", "{}")])
    return wire.store.GetState()


def test_a_partial_fetch_leaves_how_far_the_own_copy_is_pruned(wire: Wire) -> None:
    """Whoever is caught up from here must know of the deletions that are missing in the own rows."""
    _Founded(wire, 5, 4)
    state = _Adopt(wire, [StoredRow("job", "2", "{}", 6, E1)], At(E1, 6), 1, partial=True)
    assert (state.last, state.pruned) == (At(E2, 7), 4)


def test_a_full_fetch_is_pruned_as_far_as_its_source(wire: Wire) -> None:
    _Founded(wire, 5, 4)
    with wire.store.database.Transaction() as database:
        database.SetExported(5)
    state = _Adopt(wire, [StoredRow("job", "2", "{}", 6, E1)], At(E1, 6), 1, partial=False)
    assert state.pruned == 1
    # And no file shows it yet, nor can anything be shown below it.
    assert (state.exported, state.whole) == (0, 6)


def test_a_history_of_the_own_is_pruned_as_before(wire: Wire) -> None:
    _Founded(wire, 5, 4)
    assert _Adopt(wire, None, At(E1, 5), 4, partial=True).pruned == 4


def test_a_start_waits_for_whoever_just_looks(tmp_path: Path) -> None:
    """Every look at whether this node serves takes the lock for a moment."""
    with World(1) as world:

        def play() -> bool:
            store = NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls")
            store.Serve().release()
            look = runtime.LockFile("/srv/run/master.lock", exclusive=False)
            runtime.Thread(lambda: (runtime.Sleep(1.0), look.release()), "look").start()
            serving = store.Serve()
            assert NodeStore("/srv/ext/store.db", "node1", "/srv/run/calls").IsServing()
            with pytest.raises(errors.LockError):
                store.Serve()
            serving.release()
            return store.IsServing()

        assert world.AddMachine("one").Call(play) is False


def test_a_full_disk_is_said_in_words() -> None:
    with World(1) as world:
        machine = world.AddMachine("one")

        def play() -> Any:
            wire = Wire("/srv")
            wire.Append(E1, NOWHERE, [["job", "1", "{}"]])
            machine.disk_full = True
            return wire.Append(E1, At(E1, 1), [["job", "2", "{}"]]), wire.store.GetState().last

        answer, last = machine.Call(play)
        assert answer[0] is False
        assert "node1 cannot store" in answer[1]
        assert last == At(E1, 1)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=8) | st.sampled_from(["1.aa", "job"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
_KEYS = (
    "store",
    "stores",
    "before",
    "seq",
    "rows",
    "acknowledged",
    "prune",
    "last",
    "line",
    "copy",
    "piece",
    "final",
    "after",
    "from",
)


@settings(max_examples=60)
@given(st.sampled_from(sorted(NodeStore("/x", "n").Handlers())), st.dictionaries(st.sampled_from(_KEYS), _JSON), _JSON)
def test_nonsense_is_answered_with_words(name: str, message: dict[str, Any], other: Any) -> None:
    with World(1) as world:

        def play() -> list[Any]:
            wire = Wire("/srv")
            good = {"cluster": CLUSTER, "epoch": "1.aa", "master": "m"}
            answers = [wire.Raw(name, {**good, **message})]
            if isinstance(other, dict):
                answers.append(wire.Raw(name, other))
            answers.append(wire.Raw(name, {**good, "epoch": other}))
            return answers

        for answer in world.AddMachine("one").Call(play):
            assert isinstance(answer, list) and len(answer) == 2
            if answer[0] is False:
                assert answer[1]
                assert "Error while executing" not in answer[1]


# What may be shown of a copy: the state as of what is acknowledged, whatever is stored on top of it.

_CHANGES = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9), min_size=1), st.integers(0, 3)),
    max_size=12,
)


@settings(max_examples=80)
@given(_CHANGES)
def test_the_acknowledged_state_can_be_read_beneath_newer_transactions(
    changes: list[tuple[dict[str, Any], int]],
) -> None:
    with World(1) as world:
        world.AddMachine("one").Call(_PlayView, changes)


def _PlayView(changes: list[tuple[dict[str, Any], int]]) -> None:
    wire = Wire("/srv")
    states: list[dict[str, str]] = [{}]
    acked = 0
    for seq, (rows, behind) in enumerate(changes, 1):
        acked = max(acked, seq - 1 - behind)
        values = [["job", key, None if value is None else str(value)] for key, value in rows.items()]
        before = NOWHERE if seq == 1 else At(E1, seq - 1)
        assert wire.Append(E1, before, values, At(E1, acked) if acked else NOWHERE)["stored"] is True
        state = dict(states[-1])
        for _, key, value in values:
            state.pop(key, None)
            if value is not None:
                state[key] = value
        states.append(state)
        found = wire.store.GetState()
        visible = VisiblePosition(found, wire.store.GetLine())
        assert (visible.seq if visible else 0) == acked
        if visible is not None:
            shown = wire.store.database.GetRowsAt(visible.seq)
            assert {row.id: row.value for row in shown if row.value is not None} == states[visible.seq]


def test_two_lines_have_in_common_what_both_histories_hold() -> None:
    line = Line([(E1, 1), (E3, 4)], At(E3, 6))
    assert line.Common(Line([(E1, 1), (E2, 3)], At(E2, 9))) == 2
    assert line.Common(Line([(E1, 1), (E2, 8)], At(E2, 9))) == 3
    assert line.Common(Line([(E1, 1), (E3, 4)], At(E3, 5))) == 5
    assert line.Common(Line([(E1, 1), (E3, 4)], At(E3, 9))) == 6
    assert line.Common(Line([(E2, 1)], At(E2, 9))) == 0
    assert line.Common(Line((), NOWHERE)) == Line((), NOWHERE).Common(line) == 0


def test_lines_tell_which_histories_hold_which() -> None:
    line = Line([(E1, 1), (E3, 4)], At(E3, 6))
    assert line.Holds(NOWHERE)
    assert line.Holds(At(E1, 3))
    assert not line.Holds(At(E1, 4))
    assert not line.Holds(At(E2, 3))
    assert not line.Holds(At(E3, 7))
    assert line.With(At(E3, 7)).entries == line.entries
    newer = line.With(At(Epoch(9, "zz"), 7))
    assert (
        newer.entries == (*line.entries, (Epoch(9, "zz"), 7)) and newer.Holds(At(E3, 6)) and not newer.Holds(At(E3, 7))
    )
    assert Line((), NOWHERE).With(At(E1, 1)).entries == ((E1, 1),)
    twice = [["1.aa", 1], ["1.aa", 2]]
    too_long = [[f"{number}.aa", number] for number in range(1, MAX_LINE + 2)]
    for bad in (
        [["1.aa", 4], ["2.bb", 2]],
        [["2.bb", 1], ["1.aa", 2]],
        twice,
        "x",
        None,
        7,
        {},
        [[1, 2]],
        [["1.aa", 9]],
        too_long,
    ):
        with pytest.raises(errors.ParseError):
            Line.Parse(bad, At(E1, 6))


@given(st.integers(0, 10**6), st.text("0123456789abcdef", max_size=12))
def test_epochs_read_back(number: int, run: str) -> None:
    epoch = Epoch(number, run)
    assert Epoch.Parse(str(epoch)) == epoch


def test_voter_sets_are_compared_by_nodes_and_ids() -> None:
    def voter(number: int, store: str) -> Voter:
        return Voter(Member(f"u{number}", f"n{number}", "127.0.0.1"), store)

    one = VoterSet([voter(1, "a"), voter(2, "b")])
    assert VoterSet.FromText(one.Row().value) == one
    assert one.With(voter(3, "c")).Without("u3") == one
    assert one.Without("u2").With(voter(2, "other")) != one
    assert [len(one), one.quorum, one.Without("u1").quorum] == [2, 2, 1]
    assert len(VoterSet.FromText(None)) == 0
    good = {"store": "a", "name": "n1", "address": "127.0.0.1"}
    for bad in ([], {"u1": []}, {"u1": "a"}, {"u1": {}}, *({"u1": {**good, key: 7}} for key in good)):
        with pytest.raises(errors.ParseError):
            VoterSet.FromText(serializer.Dump(bad))


class Explained:
    """A database that says how it would carry a statement out."""

    def __init__(self, inner: Any):
        self._inner = inner
        self.plans: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def Execute(self, sql: str, args: Any = ()) -> int:
        self.plans += [row[3] for row in self._inner.Query("EXPLAIN QUERY PLAN " + sql, args)]
        return int(self._inner.Execute(sql, args))


@pytest.mark.parametrize("copied", [False, True], ids=["own rows", "rows of a full copy"])
def test_pruning_looks_at_nothing_but_deletions(tmp_path: Path, copied: bool) -> None:
    """With any other plan it costs as much as there are rows, and it is done in every second transaction or so."""
    with Database(str(tmp_path / "db")) as database:
        if copied:
            with database.Transaction():
                database.SwapAside()
        database._db = explained = Explained(database._db)  # type: ignore[assignment]
        with database.Transaction():
            database.PruneDeletions(5)
    (plan,) = explained.plans
    assert plan.startswith("SEARCH rows USING") and "INDEX deletions_" in plan and plan.endswith("(seq<?)"), plan
