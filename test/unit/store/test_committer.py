"""The parts of the committer by themselves: batches, who holds what, archived rows, steps of the voters."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.store_nodes import Story

from ganeti import errors, runtime
from ganeti.store import Epoch, Member, NodeStore, Position, Row, Rows, StoreEnded, TooLarge, Voter, VoterSet
from ganeti.store.base import KIND_ARCHIVED, MAX_TRANSACTION, NOWHERE, Line, StoredRow
from ganeti.store.commit.peers import (
    MAX_APPEND,
    MAX_CATCHUP_ROWS,
    ConfirmedSeq,
    Copy,
    Directory,
    Peer,
    Sender,
    Transaction,
)
from ganeti.store.commit.pending import Batch, Entry
from ganeti.store.commit.tally import Tally
from ganeti.store.commit.voters import VoterStep, VoterSteps
from ganeti.store.copy.image import Image
from ganeti.store.files.archived import ArchivedRows

E1, E2 = Epoch(1, "aa"), Epoch(2, "bb")


class Noted(Rows):
    """A change that notes what becomes of it."""

    def __init__(self, notes: list[str], name: str, *rows: Row, fails: Exception | None = None):
        super().__init__(*rows)
        self._notes = notes
        self._name = name
        self._fails = fails

    def Prepare(self) -> Sequence[Row]:
        self._notes.append(f"prepare {self._name}")
        if self._fails is not None:
            raise self._fails
        return super().Prepare()

    def Publish(self) -> None:
        self._notes.append(f"publish {self._name}")

    def Withdraw(self) -> None:
        self._notes.append(f"withdraw {self._name}")


def _Text(size: int) -> str:
    return "x" * size


class Bench:
    """Entries whose ends are noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ends: dict[str, Any] = {}

    def Entry(self, name: str, *rows: Row, fails: Exception | None = None) -> Entry:
        def done(error: Exception | None) -> None:
            assert name not in self.ends, "answered twice"
            self.ends[name] = error

        return Entry(Noted(self.notes, name, *rows, fails=fails), done, False)


def test_refused_changes_are_taken_back_newest_first() -> None:
    bench = Bench()
    batch = Batch([bench.Entry(name, Row("job", name, "{}")) for name in ("a", "b", "c")], [])
    error = StoreEnded("it ended")
    batch.TakeBack(error)
    assert bench.notes[3:] == ["withdraw c", "withdraw b", "withdraw a"]
    assert bench.ends == {"a": error, "b": error, "c": error}


def test_what_waits_for_the_next_transaction_is_withdrawn_and_prepared_again() -> None:
    bench = Bench()
    half = _Text(MAX_APPEND // 2)
    entries = [bench.Entry(name, Row("job", name, half)) for name in ("a", "b", "c", "d")]
    batch = Batch(entries, [Row("x", "x", "{}")])
    assert [row.id for row in batch.rows] == ["a", "b", "x"]
    assert batch.rest == entries[2:]
    assert bench.notes == ["prepare a", "prepare b", "prepare c", "withdraw c"]
    assert bench.ends == {}
    assert [row.id for row in Batch(batch.rest, []).rows] == ["c", "d"]


def test_one_change_may_be_larger_than_a_batch() -> None:
    bench = Bench()
    entries = [bench.Entry("a", Row("job", "a", _Text(MAX_TRANSACTION))), bench.Entry("b", Row("job", "b", "{}"))]
    batch = Batch(entries, [])
    assert ([row.id for row in batch.rows], batch.rest) == (["a"], entries[1:])


def test_a_change_that_is_too_large_or_fails_is_answered_alone() -> None:
    bench = Bench()
    error = KeyError("no such instance")
    entries = [
        bench.Entry("large", Row("job", "1", _Text(MAX_TRANSACTION)), Row("job", "2", "x")),
        bench.Entry("fails", fails=error),
        bench.Entry("good", Row("job", "3", None), Row("job", "4", "{}")),
    ]
    batch = Batch(entries, [])
    assert [row.id for row in batch.rows] == ["3", "4"]
    assert isinstance(bench.ends["large"], TooLarge)
    assert bench.ends["fails"] is error
    assert "good" not in bench.ends
    assert "withdraw large" in bench.notes
    assert "withdraw fails" not in bench.notes
    batch.Publish()
    assert (bench.ends["good"], bench.notes[-1]) == (None, "publish good")


def test_later_rows_of_a_batch_replace_earlier_ones() -> None:
    bench = Bench()
    entries = [bench.Entry(str(number), Row("job", "1", str(number))) for number in range(3)]
    assert Batch(entries, [Row("voters", "voters", "{}")]).rows == [Row("job", "1", "2"), Row("voters", "voters", "{}")]


def test_a_client_that_cannot_be_told_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def done(error: Exception | None) -> None:
        raise ValueError("gone")

    entry = Entry(Rows(), done, False)
    entry.Tell(None)
    assert "could not be told" in caplog.text
    caplog.clear()
    entry.Tell(None)
    assert caplog.text == ""


# Who holds what


def _Voter(number: int, store_id: str = "") -> Voter:
    return Voter(Member(f"u{number}", f"n{number}", f"127.0.0.{number}"), store_id or f"s{number}")


def _Peer(number: int, confirmed: Position = NOWHERE, **more: Any) -> Peer:
    return Peer(_Voter(number).member, store_id=f"s{number}", confirmed=confirmed, known=True, **more)


def _Tally(count: int, *peers: Peer, deletions: Sequence[int] = ()) -> Tally:
    """A master of epoch 2 at seq 9, whose own epoch began with seq 5; the first of ``count`` voters is the master."""
    line = Line([(E1, 1), (E2, 5)], Position(E2, 9))
    voters = VoterSet(_Voter(number) for number in range(1, count + 1))
    return Tally("u1", E2, {peer.member.uuid: peer for peer in peers}, line, voters, 0, list(deletions))


def _At(seq: int, epoch: Epoch = E2) -> Position:
    return Position(epoch, seq)


@pytest.mark.parametrize(
    ("count", "seqs", "quorum"),
    [
        (1, [], 9),
        (2, [7], 7),
        (3, [7, 0], 7),
        (3, [8, 7], 8),
        (4, [8, 7, 0], 7),
        (5, [8, 7, 6, 0], 7),
        (5, [8, 0, 0, 0], 0),
    ],
)
def test_a_quorum_is_half_of_the_voters_plus_one(count: int, seqs: list[int], quorum: int) -> None:
    peers = [_Peer(number, _At(seq) if seq else NOWHERE) for number, seq in enumerate(seqs, 2)]
    assert _Tally(count, *peers).QuorumSeq() == quorum


def test_only_the_listed_store_and_the_own_epoch_count() -> None:
    listed = _Peer(2, _At(7))
    assert ConfirmedSeq(listed, "s2", E2) == 7
    assert ConfirmedSeq(listed, "other", E2) == 0
    assert ConfirmedSeq(_Peer(2, _At(7, E1)), "s2", E2) == 0
    assert ConfirmedSeq(_Peer(2, _At(7), unfit="restored"), "s2", E2) == 0
    assert ConfirmedSeq(None, "s2", E2) == 0


def test_deletions_are_pruned_when_all_have_them_and_they_are_acknowledged() -> None:
    peers = [_Peer(2, _At(9)), _Peer(3, _At(8))]
    tally = _Tally(3, *peers, deletions=[4, 8, 9])
    tally.acked = _At(7)
    tally.Prune()
    assert tally.pruned == 7
    tally.acked = _At(9)
    tally.Prune()
    assert tally.pruned == 8
    # What nobody deleted needs no pruning.
    peers[1].confirmed = _At(9)
    tally.Prune()
    assert tally.pruned == 9
    tally.Began(_At(10), deletes=False)
    tally.acked = peers[0].confirmed = peers[1].confirmed = _At(10)
    tally.Prune()
    assert tally.pruned == 9
    tally.Began(_At(11), deletes=True)
    tally.acked = peers[0].confirmed = peers[1].confirmed = _At(11)
    tally.Prune()
    assert tally.pruned == 11


def test_a_learner_keeps_deletions_that_its_copy_needs() -> None:
    tally = _Tally(1, _Peer(2, _At(6), learner=True), deletions=[6, 7])
    tally.acked = _At(9)
    assert tally.EverywhereSeq() == 6
    tally.Prune()
    assert tally.pruned == 6


def test_silent_and_unfit_voters_do_not_reach() -> None:
    tally = _Tally(4, _Peer(2), _Peer(3, silent=True, last_error="timed out"))
    reach, silent = tally.Reach(tally.voters)
    assert (reach, sorted(silent), tally.HasQuorum()) == (2, ["n3", "n4"], False)
    assert silent["n3"].reason == "timed out"
    assert _Tally(3, _Peer(2), _Peer(3, unfit="another id")).Reach(tally.voters)[1]["n3"].reason == "another id"
    assert _Tally(3, _Peer(2), _Peer(3, silent=True)).HasQuorum()


def test_not_known_counts_who_has_stored_it() -> None:
    tally = _Tally(3, _Peer(2, _At(9)), _Peer(3, _At(8), silent=True))
    assert tally.NotKnown(_At(9)).stored == 2
    assert tally.NotKnown(_At(8)).stored == 3


# What a node lacks


def test_a_node_the_store_does_not_know_is_where_others_say() -> None:
    def others(node: str) -> tuple[Any, ...]:
        return ("n8", "127.0.0.8", 4711, True, "u8") if node == "u8" else ("n9", "127.0.0.9", 4711, True)

    directory = Directory(others)
    directory.Add(_Voter(2).member)
    name, host, _, offline, uuid = directory.Resolve("u2")
    assert (name, host, offline, uuid) == ("n2", "127.0.0.2", False, "u2")
    assert directory.Resolve("u8") == ("n8", "127.0.0.8", 4711, False, "u8")
    assert directory.Resolve("n9") == ("n9", "127.0.0.9", 4711, False, "")
    with pytest.raises(errors.GenericError, match="u7 is not known"):
        Directory().Resolve("u7")


def test_what_is_a_small_difference(tmp_path: Path) -> None:
    own = NodeStore(str(tmp_path / "store.db"), "n1", str(tmp_path / "calls"))
    own.Promise("c", E2, "n1")
    own.Adopt(E2, None, Line((), NOWHERE), 0, False, [Row("job", "0", "12345")])
    own.Store(E2, [Row("job", "1", "12345"), Row("job", "2", None), Row("job", "3", "67890")], NOWHERE)
    database = own.database
    assert database.IsSmall(1, 3, 10)
    assert not database.IsSmall(1, 2, 10)
    assert not database.IsSmall(1, 3, 9)
    assert not database.IsSmall(0, 3, 100)
    assert database.IsSmall(2, 0, 0)
    own.Close()


class Wired(NamedTuple):
    """A master's sender whose calls are noted, and the one node that it sends to."""

    own: NodeStore
    sender: Sender
    peer: Peer
    sent: list[tuple[str, Any]]

    def Drive(self) -> tuple[str, Any]:
        """Let the sender do what it can; return the call that it made."""
        state, line = self.own.GetState(), self.own.GetLine()
        self.sent.clear()
        self.peer.busy = False
        self.sender.Drive(line, state.last, state.pruned, 0.0)
        return self.sent[-1] if self.sent else ("", None)


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    own = NodeStore(str(tmp_path / "store.db"), "n1", str(tmp_path / "calls"))
    own.Promise("c", E2, "n1")
    own.Adopt(E2, None, Line((), NOWHERE), 0, False, [Row("job", "0", "{}")])
    for number in range(1, 6):
        own.Store(E2, [Row("job", str(number), "{}")], NOWHERE)
    sent: list[tuple[str, Any]] = []
    sender = Sender(own, "c", E2, lambda kind, nodes, args, done: sent.append((kind, args[0])), lambda *args: None)
    peer = sender.peers["u2"] = _Peer(2, _At(3))
    yield Wired(own, sender, peer, sent)
    own.Close()


def test_a_node_behind_is_caught_up(wired: Wired) -> None:
    kind, message = wired.Drive()
    assert kind == "store_catchup"
    assert [row[1] for row in message["rows"]] == ["3", "4", "5"]
    assert (message["final"]["before"], message["final"]["last"]) == (_At(3).Wire(), _At(6).Wire())


@pytest.mark.parametrize(
    ("confirmed", "prune"),
    [(NOWHERE, 0), (_At(3, E1), 0), (_At(3), 4), (_At(3), 6), (_At(9), 0)],
    ids=["empty", "another line", "pruned just behind", "pruned", "further"],
)
def test_a_node_that_cannot_be_caught_up_is_copied(wired: Wired, confirmed: Position, prune: int) -> None:
    wired.peer.confirmed = confirmed
    wired.own.Acknowledge(E2, NOWHERE, prune)
    kind, message = wired.Drive()
    assert kind == "store_copy"
    assert len(message["rows"]) == 6
    assert (message["final"]["before"], message["final"]["pruned"]) == (None, prune)


def test_a_node_at_the_seq_that_was_pruned_is_caught_up(wired: Wired) -> None:
    wired.own.Acknowledge(E2, NOWHERE, 3)
    assert wired.Drive()[0] == "store_catchup"


def test_a_difference_that_is_not_small_is_copied(wired: Wired) -> None:
    wired.own.Store(E2, [Row("many", str(number), "{}") for number in range(MAX_CATCHUP_ROWS)], NOWHERE)
    assert wired.Drive()[0] == "store_copy"


def test_a_copy_that_lost_deletions_begins_again(wired: Wired, caplog: pytest.LogCaptureFixture) -> None:
    wired.peer.copy = Copy("c", _At(3), 3, (4, "", ""))
    wired.own.Acknowledge(E2, NOWHERE, 4)
    assert wired.Drive() == ("", None)
    assert "begins again" in caplog.text
    assert wired.Drive()[0] == "store_copy"


def test_a_busy_unfit_or_resting_node_gets_nothing(wired: Wired) -> None:
    wired.peer.unfit = "restored"
    assert wired.Drive() == ("", None)
    wired.peer.unfit = ""
    wired.peer.retry_at = runtime.Monotonic() + 100
    assert wired.Drive() == ("", None)
    wired.peer.retry_at = 0.0
    assert wired.Drive()[0] == "store_catchup"
    wired.sender.Drive(wired.own.GetLine(), _At(6), 0, 0.0)
    assert len(wired.sent) == 1


def test_a_transaction_is_kept_until_every_node_has_it(wired: Wired) -> None:
    rows = [Row("job", "5", "{}")]
    wired.sender.peers["u3"] = other = _Peer(3, _At(6))
    wired.peer.confirmed = _At(5)
    wired.sender.Keep(Transaction(_At(6), _At(5), rows))
    assert wired.Drive()[0] == "store_append"
    assert list(wired.sender.recent) == [_At(5)], "one of the two lacks it"
    wired.peer.confirmed = _At(6)
    wired.Drive()
    assert wired.sender.recent == {}
    # Neither an answer of an older epoch nor a node that has not answered yet says that it is there.
    for confirmed in (_At(9, E1), NOWHERE):
        other.confirmed = confirmed
        wired.sender.Keep(Transaction(_At(6), _At(5), rows))
        wired.Drive()
        assert list(wired.sender.recent) == [_At(5)]


def test_a_master_alone_keeps_no_transaction(wired: Wired) -> None:
    wired.sender.peers.clear()
    wired.sender.Keep(Transaction(_At(6), _At(5), [Row("job", "5", "{}")]))
    wired.Drive()
    assert wired.sender.recent == {}


def test_few_transactions_are_kept_for_a_node_that_is_silent(wired: Wired) -> None:
    for number in range(3, 20):
        wired.sender.Keep(Transaction(_At(number + 1), _At(number), []))
        wired.Drive()
    assert list(wired.sender.recent) == [_At(number) for number in range(16, 20)]


# Steps of the voters


def _Steps() -> tuple[VoterSteps, Peer, VoterSet]:
    """A master alone that waits for a second node to be copied."""
    sender = Sender(NodeStore("/x/store.db", "n1"), "c", E2, lambda *args: None, lambda *args: None)
    steps = VoterSteps(sender, _Voter(1).member, None, lambda member: None)
    voters = VoterSet([_Voter(1)])
    steps.Add(VoterStep(Rows(), lambda error: None, add=_Voter(2).member, deadline=1e9))
    peer = sender.peers["u2"] = _Peer(2, _At(7), learner=True, told=_At(7))
    return steps, peer, voters


def test_a_learner_is_ready_with_all_that_was_acknowledged_when_it_was_last_sent_something() -> None:
    steps, peer, voters = _Steps()
    ((_, after),) = steps.Ready(voters)
    assert after == voters.With(_Voter(2))
    peer.told = _At(8)
    assert steps.Ready(voters) == []
    peer.confirmed = _At(8)
    assert len(steps.Ready(voters)) == 1


@pytest.mark.parametrize(
    "change",
    [{"confirmed": _At(7, E1)}, {"learner": False}, {"leaving": True}, {"known": False}, {"store_id": ""}],
    ids=lambda change: next(iter(change)),
)
def test_a_learner_that_is_not_ready(change: dict[str, Any]) -> None:
    steps, peer, voters = _Steps()
    for key, value in change.items():
        setattr(peer, key, value)
    assert steps.Ready(voters) == []


# The own disk


class FullAfterwards(NodeStore):
    """A copy on a disk that reports at the end of a transaction that it is full, though the transaction is stored."""

    full = False

    def Store(self, epoch: Epoch, rows: Sequence[Row], acknowledged: Position, prune: int = 0) -> Position:
        position = super().Store(epoch, rows, acknowledged, prune)
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return position


def test_a_full_disk_that_has_stored_the_change_ends_the_master() -> None:
    """Nothing was sent, but the change is in the own copy: it cannot be called failed."""

    @Story
    def play(make: Any) -> None:
        cluster = make(1)
        own = cluster[0].store = FullAfterwards("/srv/node1/ext/store.db", "node1", "/srv/node1/run/calls")
        store = cluster.Found()
        own.full = True
        with pytest.raises(StoreEnded, match="not known"):
            store.Commit(Rows(Row("job", "1", "{}")))
        assert own.database.GetValue("job", "1") == "{}"

    play()


# Archived rows


def test_archived_rows_go_when_every_voter_has_synced_their_files() -> None:
    image = Image()
    image.Take([StoredRow(KIND_ARCHIVED, "1", "{}", 3, E1), StoredRow(KIND_ARCHIVED, "2", None, 4, E1)])
    rows = ArchivedRows(image)
    rows.Note(Transaction(_At(6), _At(5), [Row(KIND_ARCHIVED, "3", "{}"), Row("job", "3", None)]))
    rows.exported = 6
    peers = {"u2": _Peer(2, exported=6), "u3": _Peer(3, exported=2)}
    assert rows.Synced(["u2", "u3"], peers) == []
    peers["u3"].exported = 3
    assert rows.Synced(["u2", "u3"], peers) == [Row(KIND_ARCHIVED, "1", None)]
    peers["u3"].exported = 6
    assert [row.id for row in rows.Synced(["u2", "u3"], peers)] == ["1", "3"]
    rows.exported = 5
    assert [row.id for row in rows.Synced(["u2", "u3"], peers)] == ["1"]
    # One that is not known, or that must be copied anew, has synced nothing.
    assert rows.Synced(["u2", "u4"], peers) == []
    peers["u3"].unfit = "restored"
    assert rows.Synced(["u2", "u3"], peers) == []
    assert rows
    rows.Note(Transaction(_At(7), _At(6), [Row(KIND_ARCHIVED, "1", None), Row(KIND_ARCHIVED, "3", None)]))
    assert not rows


def test_an_image_knows_what_was_deleted() -> None:
    image = Image()
    image.Take(
        [StoredRow("job", "1", "{}", 2, E1), StoredRow("job", "2", None, 7, E1), StoredRow("node", "3", None, 5, E1)]
    )
    image.Take([StoredRow("job", "2", "{}", 8, E2), StoredRow("job", "1", None, 9, E2)])
    assert image.values == {"job": {"2": "{}"}, "node": {}}
    assert image.seqs == {"job": {"1": 9, "2": 8}, "node": {"3": 5}}
    assert image.Deletions() == [5, 9]
