"""The words of the store: what nodes may write to each other, and how a master tells an administrator where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ganeti import errors
from ganeti.rpc.base import Failure
from ganeti.store import silence
from ganeti.store.base import (
    MAX_LINE,
    NOWHERE,
    Epoch,
    EpochTooOld,
    HintSilent,
    Line,
    MasterLost,
    Member,
    NoQuorum,
    NotKnown,
    ParseRows,
    ParseStoredRows,
    Position,
    Row,
    RowsByKind,
    StoredRow,
    Voter,
    VoterSet,
)
from ganeti.store.election import ParseForced
from ganeti.store.messages import Final, Message, ParseCursor
from ganeti.store.refusal import Refusal
from ganeti.store.silence import Silent

A, B, C = Epoch(1, "aa"), Epoch(2, "bb"), Epoch(3, "cc")


def rejected(parse: Any, *values: Any) -> None:
    for value in values:
        try:
            parse(value)
        except errors.ParseError:
            continue
        pytest.fail(f"{value!r} was taken for something with a meaning")


# Epochs, positions, lines


def test_an_epoch_is_a_number_and_a_run() -> None:
    assert Epoch.Parse("12.ab3") == Epoch(12, "ab3") > Epoch(12, "ab") > Epoch(9, "zz")
    assert Epoch.Parse("0.") == Epoch(0, "") and str(Epoch.Parse("7.x")) == "7.x"
    assert Epoch.Parse("1." + "a" * 38).number == 1
    rejected(Epoch.Parse, "", "1", ".a", "a.a", "-1.a", "1.a.b", "1.\u00e4", "\u0661.a", "1.a b", "1." + "a" * 39)
    rejected(Epoch.Parse, None, 1, 1.5, ["1.a"], b"1.a")


def test_a_position_is_an_epoch_and_a_number_that_counts_transactions() -> None:
    assert Position.Parse(["2.bb", 5]) == Position(B, 5)
    assert Position.Parse(Position(B, 2**62 - 1).Wire()).seq == 2**62 - 1
    assert Position.Parse(["0.", 0]) == NOWHERE
    rejected(Position.Parse, ["2.bb", -1], ["2.bb", 2**62], ["2.bb", True], ["2.bb", 1.0], ["2.bb", "1"])
    rejected(Position.Parse, ["2.bb"], ["2.bb", 1, 2], "2.bb/1", {"a": 1, "b": 2}, None, [1, 2])


def test_a_line_says_which_epoch_wrote_what() -> None:
    line = Line([(A, 1), (B, 5), (C, 6)], Position(C, 9))
    assert [line.EpochAt(seq) for seq in (0, 1, 4, 5, 6, 9, 10)] == [None, A, A, B, C, C, None]
    assert all(line.Holds(position) for position in (NOWHERE, Position(A, 4), Position(B, 5), Position(C, 9)))
    assert not any(
        line.Holds(position) for position in (Position(A, 5), Position(B, 4), Position(B, 6), Position(C, 10))
    )
    assert Line.Parse(line.Wire(), line.last).entries == line.entries
    assert line.With(Position(C, 10)).entries == line.entries
    assert line.With(Position(Epoch(4, "d"), 10)).entries[-1] == (Epoch(4, "d"), 10)


def test_two_lines_are_the_same_up_to_where_one_left_the_other() -> None:
    ours = Line([(A, 1), (B, 5)], Position(B, 9))
    assert ours.Common(Line([(A, 1)], Position(A, 3))) == 3
    assert ours.Common(Line([(A, 1), (C, 5)], Position(C, 20))) == 4
    assert ours.Common(Line([(A, 1), (B, 5), (C, 8)], Position(C, 8))) == 7
    assert ours.Common(ours) == 9
    assert ours.Common(Line([(C, 1)], Position(C, 5))) == ours.Common(Line((), NOWHERE)) == 0


def test_of_a_line_that_is_too_long_the_oldest_entries_are_forgotten() -> None:
    entries = [(Epoch(number, "a"), number) for number in range(1, MAX_LINE + 2)]
    line = Line(entries, Position(*entries[-1]))
    assert len(line.entries) == MAX_LINE and line.EpochAt(1) is None
    assert line.OlderThanKept(Position(*entries[0])) and not line.OlderThanKept(Position(*entries[1]))
    assert not Line(entries[1:-1], line.last).OlderThanKept(Position(*entries[0]))
    assert Line.Parse(line.Wire(), line.last).entries == line.entries
    rejected(lambda value: Line.Parse(value, line.last), [[str(epoch), first] for epoch, first in entries])


def test_a_line_without_sense_is_rejected() -> None:
    last = Position(B, 9)
    assert Line.Parse([["1.aa", 1], ["2.bb", 5]], last).EpochAt(5) == B
    assert Line.Parse([], NOWHERE).entries == ()
    rejected(
        lambda value: Line.Parse(value, last),
        [["2.bb", 1], ["2.bb", 5]],
        [["1.aa", 5], ["2.bb", 5]],
        [["2.bb", 1], ["1.aa", 5]],
        [["1.aa", 5], ["2.bb", 1]],
        # It does not lead to the last transaction.
        [["1.aa", 1]],
        [["2.bb", 10]],
        [],
        "line",
        None,
        {"1.aa": 1},
    )


# Rows


def test_rows_are_taken_as_they_are_or_not_at_all() -> None:
    assert ParseRows([["job", "1", "{}"], ("job", "", None)]) == [Row("job", "1", "{}"), Row("job", "", None)]
    rejected(ParseRows, None, {}, "rows", ["row"], [["job", "1"]], [["job", "1", "{}", 5]], [{"a": 1, "b": 2, "c": 3}])
    rejected(ParseRows, [["", "1", "{}"]], [[1, "1", "{}"]], [["job", 1, "{}"]], [["job", "1", 5]], [["job", "1", {}]])


def test_rows_of_a_copy_say_who_wrote_them() -> None:
    rows = ParseStoredRows([["job", "1", "{}", 5, "2.bb"], ["job", "2", None, 6, "2.bb"], ["job", "3", "", 7, "3.cc"]])
    assert rows == [
        StoredRow("job", "1", "{}", 5, B),
        StoredRow("job", "2", None, 6, B),
        StoredRow("job", "3", "", 7, C),
    ]
    assert ParseStoredRows([row.Wire() for row in rows]) == rows
    good = ["job", "1", "{}", 5, "2.bb"]
    rejected(ParseStoredRows, None, "rows", [good[:-1]], [[*good, 1]], [{}], ["12345"])
    for place, wrong in ((0, ""), (0, 1), (1, 1), (2, 1), (3, -1), (3, "5"), (3, True), (4, "x"), (4, None), (4, 2)):
        rejected(ParseStoredRows, [good, [*good[:place], wrong, *good[place + 1 :]]])


def test_what_somebody_else_keeps_is_not_kept_twice() -> None:
    kept = RowsByKind()
    kept.Take([Row("job", "1", "a"), Row("queue", "drain", "true"), Row("job", "2", "b")])
    kept.Take([Row("job", "1", None), Row("job", "9", None)])
    assert kept.by_kind == {"job": {"2": "b"}, "queue": {"drain": "true"}}
    assert kept.HandOver("job") == {"2": "b"} and kept.HandOver("other") == {}
    kept.Take([Row("job", "3", "c"), Row("other", "1", "x"), Row("queue", "drain", "false")])
    assert kept.by_kind == {"queue": {"drain": "false"}}


# Voters


def voter(number: int, store: str = "", name: str = "") -> Voter:
    return Voter(Member(f"u{number}", name or f"node{number}", f"192.0.2.{number}"), store or f"s{number}")


def test_a_set_of_voters_is_its_nodes_and_their_databases() -> None:
    three = VoterSet(map(voter, (3, 1, 2)))
    assert list(three.by_uuid) == ["u1", "u2", "u3"] and three.Names() == ["node1", "node2", "node3"]
    assert three == VoterSet(map(voter, (1, 2, 3))) and hash(three) == hash(VoterSet(map(voter, (1, 2, 3))))
    # What a node is called changes nothing; a new database does.
    assert three == three.With(voter(2, name="renamed")) and three != three.With(voter(2, "new"))
    assert three != three.Without("u2") and three.With(voter(4)).Without("u4") == three
    assert three.__eq__(5) is False
    assert "u2" in three and "u2" not in three.Without("u2") and three.ids == {"s1", "s2", "s3"}
    assert [VoterSet(map(voter, range(count))).quorum for count in range(1, 6)] == [1, 2, 2, 3, 3]


def test_the_row_of_a_set_reads_as_that_set() -> None:
    three = VoterSet(map(voter, (1, 2, 3)))
    kind, row_id, text = three.Row()
    assert (kind, row_id) == ("voters", "voters")
    read = VoterSet.FromText(text)
    assert read == three and read.by_uuid["u2"] == voter(2)
    assert len(VoterSet.FromText(None)) == len(VoterSet.FromText("")) == 0
    whole = {"store": "s", "name": "n", "address": "a"}
    rejected(VoterSet.FromText, "[]", "5", '"x"', "{", json.dumps({"u": []}), json.dumps({"u": "x"}))
    for key in whole:
        less = {name: value for name, value in whole.items() if name != key}
        rejected(VoterSet.FromText, json.dumps({"u": less}), json.dumps({"u": {**whole, key: 5}}))


# Messages


def message(**more: Any) -> Message:
    return Message({"cluster": "c", "epoch": "2.bb", "master": "m", **more})


def test_a_message_names_its_cluster_its_epoch_and_its_master() -> None:
    assert (message().cluster, message().epoch, message().master) == ("c", B, "m")
    for key in ("cluster", "epoch", "master"):
        rejected(lambda value, key=key: message(**{key: value}), None, 5, [], "x" * 301)
    found = message(text="x" * 300, number=2**62 - 1, zero=0, place=["2.bb", 5])
    assert (len(found.Text("text")), found.Number("number"), found.Number("zero")) == (300, 2**62 - 1, 0)
    assert found.Place("place") == Position(B, 5) and found["missing"] is None
    for wrong in (None, -1, 2**62, True, 1.5, "1"):
        rejected(lambda value: message(number=value).Number("number"), wrong)


def test_the_end_of_a_copy_says_where_it_leads() -> None:
    whole = {"last": ["2.bb", 5], "line": [["2.bb", 1]], "acknowledged": ["2.bb", 4], "pieces": 2, "pruned": 1}
    final = Final(message(final=whole), whole=True)
    assert (final.last, final.acknowledged, final.pieces, final.pruned) == (Position(B, 5), Position(B, 4), 2, 1)
    assert final.before is None and final.line.EpochAt(3) == B
    part = {**whole, "before": ["1.aa", 3], "pruned": None}
    assert Final(message(final=part), whole=False).before == Position(A, 3)
    # A catch-up says where it begins, a copy how far deletions are pruned.
    rejected(lambda value: Final(message(final=value), whole=False), whole)
    rejected(lambda value: Final(message(final=value), whole=True), {**whole, "pruned": None}, {**whole, "pruned": -1})
    for is_whole, base in ((True, whole), (False, part)):
        for key in ("last", "line", "acknowledged", "pieces"):
            rejected(lambda value, w=is_whole: Final(message(final=value), whole=w), {**base, key: None})
        rejected(lambda value, w=is_whole: Final(message(final=value), whole=w), {**base, "pieces": -1}, None, [], "x")
        # Not of the epoch of the master that sends it.
        other = {**base, "last": ["1.aa", 5], "line": [["1.aa", 1]]}
        rejected(lambda value, w=is_whole: Final(message(final=value), whole=w), other)


def test_a_page_begins_after_a_row() -> None:
    assert ParseCursor([5, "job", "1"]) == (5, "job", "1") and ParseCursor((0, "", "")) == (0, "", "")
    rejected(ParseCursor, None, "abc", [5, "job"], [5, "job", "1", 2], [-1, "job", "1"], [True, "a", "b"])
    rejected(ParseCursor, ["5", "job", "1"], [5, 1, "1"], [5, "job", 1], {"a": 1, "b": 2, "c": 3})


def test_the_forced_starts_of_a_history_are_pairs() -> None:
    assert ParseForced(None) == ParseForced("[]") == []
    assert ParseForced('[["2.bb",["1.aa",5]],["3.cc",["2.bb",9]]]') == [(B, Position(A, 5)), (C, Position(B, 9))]
    rejected(ParseForced, "{}", "5", '[["2.bb"]]', '[["2.bb",["1.aa",5],1]]', '["ab"]', '[["x",["1.aa",5]]]', "[")
    rejected(ParseForced, '[["2.bb",5]]', '[["2.bb",["1.aa",5]],"ab"]')


def test_a_refusal_that_lacks_something_still_refuses() -> None:
    whole = {"refused": "3.cc", "master": "node2", "last": ["2.bb", 5], "line": [["2.bb", 1]]}
    refusal = Refusal.Parse(whole)
    assert (refusal.epoch, refusal.master, refusal.line.last) == (C, "node2", Position(B, 5))
    assert refusal.IsLate(C) and refusal.IsLate(Epoch(4, "")) and not refusal.IsLate(B)
    assert refusal.Reason("node3") == "node node3 follows another master, node2 (epoch 3.cc)"
    for less in ({"last": None}, {"line": None}, {"line": [["1.aa", 1]]}):
        assert Refusal.Parse({**whole, **less}).line.last == NOWHERE
    bare = Refusal.Parse({"refused": "nonsense"})
    assert bare.IsLate(Epoch(0, "")) and bare.Reason("node3").startswith("node node3 follows another master, unknown (")


# Words for an administrator

NAMES = {
    "a": Silent("a", Failure.REJECTED, "node a (192.0.2.1:1811): rejected this node's certificate"),
    "b": Silent("b", Failure.SILENT, "node b does not answer"),
    "c": Silent("c", Failure.REFUSED, "node c (192.0.2.3:1811): cannot connect: Connection refused"),
    "d": Silent("d", Failure.UNREACHABLE, ""),
    "e": Silent("e", Failure.NOT_SENT, "the call was aborted"),
}


def silent(names: str) -> dict[str, Silent]:
    return {name: NAMES[name] for name in names}


def test_the_nodes_that_do_not_answer_are_told_apart_by_how_they_do_not() -> None:
    assert silence.Names([]) == "none" and silence.Names(silent("cab").values()) == "a, b, c"
    told = silence.Describe([*silent("edcba").values(), Silent("f", Failure.SILENT, "")])
    assert told == (
        "a rejected this node's certificate; b, f accepted the connection and did not answer; c refused the connection;"
        " d cannot be reached; e was not called"
    )
    assert silence.Describe([]) == ""
    assert silence.Accepting(silent("edcba").values()) == ["a", "b"]
    text = str(NoQuorum(silent("bcd"), 5))
    assert "no answer from b (does not answer), c (192.0.2.3:1811: cannot connect: Connection refused), d;" in text
    assert "too few of 5 master candidates" in text and "no answer from none" in str(NoQuorum({}, 5))
    waiting = NotKnown(2, 5, silent("b"))
    assert "stored on 2 of 5 master candidates, 3 are needed; no answer from b (does not answer);" in str(waiting)
    assert "no answer from the others yet" in str(NotKnown(1, 2, {})) and (waiting.stored, waiting.silent) == (2, ["b"])


@pytest.mark.parametrize(
    ("names", "voters", "words"),
    [
        ("", 3, "wait, or look at the log"),
        ("ab", 3, "a accept no calls of this node"),
        # Without one of them, the rest is a quorum of what remains.
        ("d", 2, "bring d back; if d is switched off for good: 'gnt-node modify --offline yes d'"),
        ("cd", 4, "bring one of c, d back; if c is switched off for good"),
        # Nobody may be given up who runs.
        ("bcd", 4, "look at the node daemon of b: it accepts connections and does not answer"),
        ("cd", 3, "bring one of c, d back; only if all nodes that do not answer are switched off and stay off"),
        ("cde", 5, "bring one of c, d, e back; only if all"),
    ],
)
def test_the_next_step_depends_on_who_is_silent_and_how(names: str, voters: int, words: str) -> None:
    hint = HintSilent(silent(names), voters)
    assert hint.startswith(words), hint
    # Where one of them is certainly running, no second master is ever advised.
    assert ("--no-voting" in hint) is words.endswith(("stay off", "only if all"))


def test_a_start_without_quorum_says_what_to_do_with_the_silent_nodes() -> None:
    forced = "COMMAND"
    assert "gnt-node modify --offline no me" in silence.NextStep(silent("abcd").values(), "me", forced)
    stuck = silence.NextStep(silent("bcd").values(), "me", forced)
    assert stuck.startswith("look at the node daemon of b:") and forced not in stuck
    mixed = silence.NextStep(silent("cd").values(), "me", forced)
    assert mixed.startswith("on c run '") and mixed.endswith("; only if c, d are switched off and stay off: 'COMMAND'")
    assert silence.NextStep(silent("d").values(), "me", forced) == "only if d are switched off and stay off: 'COMMAND'"
    assert "getmaster' on a;" in silence.HintRejected("a, b", "me")


def test_whoever_asked_an_old_master_is_told_whom_to_ask() -> None:
    lost = MasterLost("3.cc", "node2", sent=False)
    assert str(lost) == "this node is no longer the master: nothing was changed, ask node2"
    assert lost.hint == "run the command on node2"
    unknown = MasterLost("3.cc", "", sent=True)
    assert str(unknown).endswith("what became of this change is not known, ask of epoch 3.cc")
    assert str(EpochTooOld(C, "")) == "epoch 3.cc of master (unknown) is newer"
    assert str(EpochTooOld(C, "node2")) == "epoch 3.cc of master node2 is newer"
