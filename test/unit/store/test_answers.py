"""What a master makes of the answers of its nodes, and how soon those who wait for it hear something."""

from __future__ import annotations

from typing import Any

import pytest
from support.store_nodes import CLUSTER, Story, Until

from ganeti import runtime, serializer
from ganeti.store import Epoch, MasterLost, NoQuorum, NotKnown, Row, Rows
from ganeti.store.base import HintSilent
from ganeti.store.committer import STUCK_AFTER
from ganeti.store.peers import RETRY_SECONDS
from ganeti.store.silence import Failure, Silent

NEWER = Epoch(99, "other")


def Job(number: int) -> Rows:
    return Rows(Row("job", str(number), "{}"))


# Answers without sense


@pytest.mark.parametrize(
    "answer",
    [
        7,
        {},
        {"store": "s"},
        {"store": "s", "last": "1.a/1"},
        {"store": "s", "last": ["1.a", -1]},
        {"store": "s", "last": ["1.a", 1], "exported": "many"},
        {"store": "s", "last": ["1.a", 1], "exported": None},
    ],
)
def test_a_voter_that_answers_without_sense_counts_as_silent(answer: Any) -> None:
    @Story
    def play(make: Any) -> None:
        cluster = make(3)
        store = cluster.Found()
        Until(store.IsSettled)
        cluster[2].fault = lambda path, body: serializer.DumpBytes([True, answer])
        store.Commit(Job(1))
        Until(lambda: store.Silent() == ["node3.example.org"])
        store.Commit(Job(2))
        assert store.IsRunning() and not store.StandsStill()
        cluster[2].fault = lambda path, body: None
        Until(store.IsSettled)
        assert len(store.Voters()) == 3

    play()


# Refusals


def Overtaken(make: Any, number: int) -> tuple[Any, Any]:
    """A master of three of four nodes; node NUMBER, which it cannot reach, has promised a newer epoch to another."""
    cluster = make(4)
    store = cluster.Found(candidates=3)
    Until(store.IsSettled)
    cluster[number].up = False
    cluster[number].store.Promise(CLUSTER, NEWER, "node9.example.org")
    return cluster, store


@Story
def test_a_candidate_that_promised_another_ends_the_master_that_copies_it_on_its_own(make: Any) -> None:
    """Nobody asked to take it in: it is in service, and whom it follows is the master."""
    cluster, store = Overtaken(make, 3)
    cluster.wanted = cluster.members
    cluster[3].up = True
    Until(lambda: cluster.lost, 30)
    assert isinstance(cluster.lost[0], MasterLost)
    assert not store.IsRunning()


@Story
def test_a_voter_that_promised_another_ends_the_master_though_it_is_to_be_taken_out(make: Any) -> None:
    cluster, store = Overtaken(make, 2)
    cluster[1].up = False
    with pytest.raises(NotKnown):
        store.Commit(Job(1))
    ends: list[Any] = []

    def remove() -> None:
        try:
            store.RemoveVoter(cluster.members[1].uuid, Job(2), patient=True)
        except MasterLost as err:
            ends.append(err)

    runtime.Thread(remove, "remove").start()
    cluster[1].store.Promise(CLUSTER, NEWER, "node9.example.org")
    cluster[1].up = True
    Until(lambda: ends)
    assert cluster.lost


# Who waits, and for how long


@Story
def test_a_client_hears_in_time_though_every_call_hangs(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    began = runtime.Monotonic()

    def hang(path: str, body: Any) -> str:
        # The first call fails at once; when that is tried again nobody answers for long.
        if runtime.Monotonic() > began + RETRY_SECONDS / 2:
            runtime.Sleep(10.0)
        return "lost call"

    for node in cluster.nodes[1:]:
        node.fault = hang
    with pytest.raises(NotKnown):
        store.Commit(Job(1))
    assert STUCK_AFTER <= runtime.Monotonic() - began < STUCK_AFTER + 1


@Story
def test_a_patient_removal_waits_for_the_rest_to_have_a_quorum(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found()
    for node in cluster.nodes[1:]:
        node.up = False
    with pytest.raises(NotKnown):
        store.Commit(Job(1))
    ends: list[Any] = []

    def remove() -> None:
        store.RemoveVoter(cluster.members[1].uuid, Rows(Row("node", "2", '"offline"')), patient=True)
        ends.append(store.Voters().Names())

    runtime.Thread(remove, "remove").start()
    runtime.Sleep(20.0)
    assert ends == [] and len(store.Voters()) == 4
    with pytest.raises(NoQuorum):
        store.Commit(Job(2))
    cluster[2].up = True
    Until(lambda: ends)
    assert ends == [["node1.example.org", "node3.example.org", "node4.example.org"]]
    assert store.Value("node", "2") == '"offline"'


@Story
def test_a_stop_ends_with_the_last_answer(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    store.Commit(Job(1))
    began = runtime.Monotonic()
    assert store.Stop() is True
    assert runtime.Monotonic() - began < 1.0
    assert not store.IsRunning()


# Next steps


@pytest.mark.parametrize(
    ("silent", "voters", "text"),
    [
        (["n2"], 3, "bring n2 back, or, if it is off for good: gnt-node modify --offline yes n2"),
        (["n2", "n3"], 5, "bring n2 back, or, if it is off for good: gnt-node modify --offline yes n2 (then one more)"),
        ([], 3, "wait, or look at the log of the master daemon"),
    ],
)
def test_the_next_step_names_one_node_after_the_other(silent: list[str], voters: int, text: str) -> None:
    assert HintSilent({name: Silent(name, Failure.UNREACHABLE, "") for name in silent}, voters) == text


def test_the_next_step_depends_on_how_the_nodes_are_silent() -> None:
    away = Silent("n2", Failure.UNREACHABLE, "")
    both = HintSilent({"n2": away, "n3": Silent("n3", Failure.UNREACHABLE, "")}, 3)
    assert both.startswith("bring one of them back; only if they are switched off") and "--no-voting" in both
    stuck = HintSilent({"n2": away, "n3": Silent("n3", Failure.SILENT, "")}, 3)
    assert stuck == "look at the node daemon of n3: it accepts connections and does not answer"
    rejecting = HintSilent({"n2": away, "n3": Silent("n3", Failure.REJECTED, "")}, 3)
    assert rejecting.startswith("n3 accept no calls of this node") and "stop-master" in rejecting
