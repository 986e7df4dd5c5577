"""What a master makes of the answers of its nodes, and how soon those who wait for it hear something."""

from __future__ import annotations

from typing import Any

import pytest
from support.store_nodes import CLUSTER, Story, Until

from ganeti import runtime, serializer
from ganeti.store import Epoch, MasterLost, NoQuorum, NotKnown, Row, Rows, StoreError
from ganeti.store.base import HintSilent
from ganeti.store.commit.committer import STUCK_AFTER
from ganeti.store.commit.peers import ACK_WITHIN, RETRY_SECONDS
from ganeti.store.election import NotElected
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


@pytest.mark.parametrize("answer", [7, [], {}, {"last": 1}, {"promised": "x"}, {"voters": "{"}, {"refused": 7}])
def test_a_start_takes_an_answer_without_sense_for_none(answer: Any) -> None:
    @Story
    def play(make: Any) -> None:
        cluster = make(3)
        cluster.Found().Stop()
        good = serializer.Load(serializer.Dump(cluster[2].store.Describe()))
        changed = {**good, **answer} if isinstance(answer, dict) and answer else answer
        cluster[2].fault = lambda path, body: serializer.DumpBytes([True, changed])
        store = cluster.Become(0)
        store.Commit(Job(1))
        assert store.Silent() == ["node3.example.org"]
        store.Stop()
        cluster[1].up = False
        with pytest.raises(NotElected, match="only 1 of 3"):
            cluster.Become(0)

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
def test_a_candidate_that_promised_another_is_not_taken_in_and_ends_no_master(make: Any) -> None:
    """It is not a voter yet: the quorum that follows this master decides."""
    cluster, store = Overtaken(make, 3)
    cluster.wanted = cluster.members
    cluster[3].up = True
    runtime.Sleep(100)
    store.Commit(Job(1))
    assert store.IsRunning() and cluster.lost == []
    assert cluster.members[3].uuid not in store.Voters()


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


@pytest.mark.parametrize("epoch", [7, "", "x", "99", "0.a", None, ["99.other"], "9" * 100 + ".a"])
def test_a_refusal_that_names_no_newer_epoch_ends_no_master(epoch: Any) -> None:
    """Whoever needs a node that answers so hears of it; the others follow this master as before."""

    @Story
    def play(make: Any) -> None:
        cluster = make(4)
        store = cluster.Found(candidates=3)
        Until(store.IsSettled)
        for node in cluster.nodes[2:]:
            node.fault = lambda path, body: serializer.DumpBytes([True, {"refused": epoch, "master": "node9"}])
        store.Commit(Job(1))
        with pytest.raises(StoreError, match=r"node4.example.org follows another master, node9") as caught:
            store.ConfirmNodes([cluster.members[3].uuid], 3.0)
        assert not isinstance(caught.value, MasterLost)
        store.Refused(str(epoch), "node9", cluster.members[3].uuid)
        runtime.Sleep(10.0)
        store.Commit(Job(2))
        assert store.IsRunning() and not cluster.lost
        assert store.Silent() == ["node3.example.org"]

    play()


@Story
def test_a_forced_start_ends_when_a_node_refuses_its_promise(make: Any) -> None:
    """It was asked once more, and has promised another epoch since."""
    cluster = make(5)
    cluster.Found().Stop()
    for node in cluster.nodes[:3]:
        node.up = False

    def overtake(path: str, body: Any) -> None:
        if path == "/store_promise":
            cluster[4].store.Promise(CLUSTER, NEWER, "node9.example.org")

    cluster[4].fault = overtake
    before = cluster[3].store.GetState().last
    with pytest.raises(NotElected, match=r"99.other of node9.example.org came in between"):
        cluster.Become(3, vouch=lambda question: True)
    assert cluster[3].store.GetState().last == before


@Story
def test_a_node_that_was_not_taken_in_is_not_taken_in_later(make: Any) -> None:
    """Its command has failed, and said that nothing was changed."""
    cluster = make(3)
    store = cluster.Found(candidates=2)
    cluster[2].up = False
    with pytest.raises(StoreError, match="nothing was changed"):
        store.AddVoter(cluster.members[2], Rows(Row("node", "3", '"candidate"')), 5.0)
    cluster[2].up = True
    runtime.Sleep(120.0)
    Until(store.IsSettled, 60.0)
    assert store.Voters().Names() == ["node1.example.org", "node2.example.org"]
    assert store.Value("node", "3") is None
    assert cluster[2].store.GetState().last.seq == 0


@Story
def test_a_list_of_candidates_without_the_master_changes_nothing(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster.wanted = cluster.members[1:2]
    runtime.Sleep(30.0)
    store.Commit(Job(1))
    assert len(store.Voters()) == 3


# Fetching


def Behind(make: Any) -> Any:
    """Four candidates; node2 lacks the deletion of a job, which node3 has pruned and node1 has not."""
    cluster = make(4)
    store = cluster.Found(0, Row("job", "gone", "{}"))
    Until(store.IsSettled)
    cluster[1].up = False
    store.Commit(Rows(Row("job", "gone", None)))
    store.Commit(Job(1))
    Until(lambda: len({cluster[n].store.GetState().acknowledged for n in (0, 2, 3)}) == 1)
    store.Stop()
    cluster[1].up = True
    last = cluster[2].store.GetState().last
    with cluster[2].store.Writing(last.epoch) as (database, state):
        database.PruneDeletions(last.seq)
        database.PutState(state.With(pruned=last.seq))
    cluster[3].up = False
    return cluster


@Story
def test_only_what_is_missing_is_fetched_from_a_node_that_has_all_of_it(make: Any) -> None:
    cluster = Behind(make)
    cluster[2].fault = lambda path, body: "lost call" if path == "/store_fetch" else None
    assert cluster.Become(1).Rows("job") == {"1": "{}"}


@pytest.mark.parametrize("answer", ["lost call", b"[true, 7]", b'[true, {"store": "other", "last": ["0.", 0]}]'])
def test_a_node_that_lacks_the_deletions_gives_no_rows(answer: Any) -> None:
    @Story
    def play(make: Any) -> None:
        cluster = Behind(make)
        cluster[0].fault = lambda path, body: answer if path == "/store_fetch" else None
        with pytest.raises(NotElected, match="could not be fetched"):
            cluster.Become(1)
        assert cluster[1].store.database.GetValue("job", "gone") == "{}", "the own copy is as it was"
        cluster[0].fault = lambda path, body: None
        assert cluster.Become(1).Rows("job") == {"1": "{}"}

    play()


@Story
def test_a_node_that_follows_another_since_gives_no_rows(make: Any) -> None:
    cluster = Behind(make)

    def overtake(path: str, body: Any) -> None:
        if path == "/store_fetch":
            cluster[0].store.Promise(CLUSTER, NEWER, "node9.example.org")

    cluster[0].fault = overtake
    with pytest.raises(NotElected, match=r"node1.example.org has promised a newer epoch meanwhile"):
        cluster.Become(1)


@pytest.mark.parametrize("mute", [0, 2])
def test_rows_come_from_any_node_that_holds_the_newest_copy(mute: int) -> None:
    @Story
    def play(make: Any) -> None:
        cluster = make(4)
        store = cluster.Found()
        Until(store.IsSettled)
        cluster[1].up = False
        store.Commit(Job(1))
        Until(lambda: len({cluster[n].store.GetState().acknowledged for n in (0, 2, 3)}) == 1)
        store.Stop()
        cluster[1].up, cluster[3].up = True, False
        cluster[mute].fault = lambda path, body: "lost call" if path == "/store_fetch" else None
        assert cluster.Become(1).Rows("job") == {"1": "{}"}

    play()


@Story
def test_a_copy_of_which_a_page_is_empty_is_not_adopted(make: Any) -> None:
    cluster = Behind(make)
    state = cluster[0].store.GetState()
    page = {"store": state.store_id, "last": state.last.Wire(), "rows": [], "more": True}
    cluster[0].fault = lambda path, body: serializer.DumpBytes([True, page]) if path == "/store_fetch" else None
    with pytest.raises(NotElected, match=r"node1\.example\.org has more rows and sent none"):
        cluster.Become(1)
    assert cluster[1].store.database.GetValue("job", "gone") == "{}", "the own copy is as it was"


# Who waits, and for how long


@Story
def test_everybody_is_answered_before_an_overtaken_master_is_told_to_stop(make: Any) -> None:
    """What is told may end the process."""
    cluster = make(3)
    story: list[str] = []

    class Told(list[Exception]):
        def append(self, error: Exception) -> None:
            story.append("lost")
            super().append(error)

    cluster.lost = Told()
    store = cluster.Found()
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotKnown):
        store.Commit(Job(1))
    store.Begin(Job(2), lambda error: story.append("answered"), patient=True)
    cluster[1].store.Promise(CLUSTER, NEWER, "node9.example.org")
    cluster[1].up = True
    Until(lambda: cluster.lost)
    assert story == ["answered", "lost"]


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
    assert runtime.Monotonic() - began < ACK_WITHIN / 2, "the last word is not held back"
    assert not store.IsRunning()


# Next steps


@pytest.mark.parametrize(
    ("silent", "voters", "text"),
    [
        (["n2"], 3, "bring n2 back; if n2 is switched off for good: 'gnt-node modify --offline yes n2'"),
        (
            ["n2", "n3"],
            5,
            "bring one of n2, n3 back; if n2 is switched off for good: 'gnt-node modify --offline yes n2'",
        ),
        ([], 3, "wait, or look at the log of the master daemon"),
    ],
)
def test_the_next_step_names_one_node_after_the_other(silent: list[str], voters: int, text: str) -> None:
    assert HintSilent({name: Silent(name, Failure.UNREACHABLE, "") for name in silent}, voters) == text


def test_the_next_step_depends_on_how_the_nodes_are_silent() -> None:
    away = Silent("n2", Failure.UNREACHABLE, "")
    both = HintSilent({"n2": away, "n3": Silent("n3", Failure.UNREACHABLE, "")}, 3)
    assert both.startswith("bring one of n2, n3 back; only if all nodes that do not answer are switched off")
    assert "--no-voting" in both
    stuck = HintSilent({"n2": away, "n3": Silent("n3", Failure.SILENT, "")}, 3)
    assert stuck == "look at the node daemon of n3: it accepts connections and does not answer"
    rejecting = HintSilent({"n2": away, "n3": Silent("n3", Failure.REJECTED, "")}, 3)
    assert rejecting.startswith("n3 accept no calls of this node") and "stop-master" in rejecting
