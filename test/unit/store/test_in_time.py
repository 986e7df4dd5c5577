"""A master does everything in its time: nothing waits for an event that does not come, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest
from support.store_nodes import CLUSTER, Cluster, Story, Until

from ganeti import runtime, serializer
from ganeti.store import Epoch, MasterLost, NotKnown, Row, Rows, StoreEnded, StoreError
from ganeti.store.base import KIND_ARCHIVED, MasterEnded
from ganeti.store.commit.committer import GATHER_SECONDS, KEEPING_SECONDS, STUCK_AFTER
from ganeti.store.commit.peers import ACK_WITHIN, RETRY_SECONDS

SOON = 0.3  # seconds that a call and the waking of a thread may take


def Job(number: int) -> Rows:
    return Rows(Row("job", str(number), "{}"))


def Took(what: Any) -> float:
    began = runtime.Monotonic()
    what()
    return runtime.Monotonic() - began


@Story
def test_a_node_that_is_back_is_found_and_caught_up_without_anything_else_happening(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    for rest in (0.0, 3.3, 6.6):
        cluster[2].up = False
        store.Commit(Job(1))
        Until(lambda: store.Silent() == ["node3.example.org"])
        runtime.Sleep(RETRY_SECONDS + rest)
        cluster[2].up = True
        assert Took(lambda: Until(lambda: store.Silent() == [])) <= RETRY_SECONDS + SOON
        assert Took(lambda: Until(store.IsSettled)) <= ACK_WITHIN + SOON


@Story
def test_a_silent_node_is_asked_now_and_then_and_not_all_the_time(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    asked: list[str] = []
    cluster[2].fault = lambda path, body: asked.append(path) or "lost call"  # type: ignore[func-returns-value]
    store.Commit(Job(1))
    for number in range(10):
        runtime.Sleep(2.0)
        store.Commit(Job(number))
    assert 20 / RETRY_SECONDS - 1 <= len(asked) <= 20 / RETRY_SECONDS + 2, asked
    assert len(cluster[1].served) < 40


@Story
def test_everybody_knows_soon_what_is_acknowledged_though_nothing_follows(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)

    def knowing() -> int:
        last = cluster[0].store.GetState().last
        return sum(node.store.GetState().acknowledged == last for node in cluster.nodes)

    for rest in (0.0, 3.3, 6.6):
        runtime.Sleep(rest)
        store.Commit(Job(1))
        assert knowing() == 0, "while work goes on the next transaction says it"
        assert ACK_WITHIN / 2 < Took(lambda: Until(lambda: knowing() == 3)) <= ACK_WITHIN + SOON
    # Then everybody rests.
    served = [len(node.served) for node in cluster.nodes]
    runtime.Sleep(3.0)
    assert [len(node.served) for node in cluster.nodes] == served


@Story
def test_a_client_hears_at_the_set_time_that_the_end_is_not_known(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    for rest in (0.0, 3.3, 6.6):
        Until(store.IsSettled)
        cluster[1].up = cluster[2].up = False
        runtime.Sleep(rest)

        def ask() -> None:
            with pytest.raises(NotKnown, match="stored on 1 of 3"):
                store.Commit(Job(1))

        assert STUCK_AFTER <= Took(ask) <= STUCK_AFTER + SOON
        cluster[1].up = cluster[2].up = True


@Story
def test_a_standstill_refuses_at_once_and_ends_with_the_first_node_that_is_back(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    assert not store.StandsStill()
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotKnown):
        store.Commit(Job(1))
    assert store.StandsStill() and store.Silent() == ["node2.example.org", "node3.example.org"]
    ends: list[Exception | None] = []
    store.Begin(Job(2), ends.append, patient=True)

    def refused() -> None:
        with pytest.raises(StoreError, match="too few of 3 master candidates"):
            store.Commit(Job(3))

    assert Took(refused) <= STUCK_AFTER + SOON
    assert ends == [], "whoever is patient waits"
    cluster[2].up = True
    assert Took(lambda: Until(lambda: ends == [None])) <= RETRY_SECONDS + SOON
    assert sorted(store.Rows("job")) == ["1", "2"] and not store.StandsStill()


@Story
def test_rows_of_archived_jobs_go_soon_after_every_node_has_their_files(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    store.Commit(Rows(Row(KIND_ARCHIVED, "1", "{}")))
    seq = store.Acknowledged().seq
    runtime.Sleep(3 * KEEPING_SECONDS)
    assert store.Rows(KIND_ARCHIVED) == {"1": "{}"}
    for node in cluster.nodes:
        with node.store.database.Transaction():
            node.store.database.SetExported(seq)
    store.SetExported(seq)
    waited = Took(lambda: Until(lambda: store.Rows(KIND_ARCHIVED) == {}, 60))
    assert waited <= 2 * KEEPING_SECONDS + SOON, "asked for at one look, and gone at the next"
    store.Commit(Job(1))
    seq = store.Acknowledged().seq
    runtime.Sleep(3 * KEEPING_SECONDS)
    assert store.Acknowledged().seq == seq, "nothing is deleted twice"


@Story
def test_a_replaced_master_whose_own_node_knows_it_ends_though_it_has_nothing_to_do(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[0].store.Promise(CLUSTER, Epoch(50, "other"), "node2.example.org")
    assert Took(lambda: Until(lambda: not store.IsRunning(), 30)) <= KEEPING_SECONDS + SOON
    assert isinstance(cluster.lost[0], MasterLost) and cluster.lost[0].master == "node2.example.org"
    for ask in (store.ActingEpoch, lambda: store.Commit(Job(1)), lambda: store.WaitReady(1)):
        with pytest.raises(MasterLost):
            ask()


@pytest.mark.parametrize("rest", [0.0, 3.3, 6.6])
def test_a_replaced_master_ends_in_time_though_a_change_waits_and_every_call_hangs(rest: float) -> None:
    @Story
    def play(make: Any) -> None:
        cluster = make(3)
        store = cluster.Found()
        Until(store.IsSettled)
        runtime.Sleep(rest)
        cluster[1].fault = cluster[2].fault = lambda path, body: runtime.Sleep(100.0)  # type: ignore[func-returns-value]
        ends: list[Exception | None] = []
        store.Begin(Job(1), ends.append, patient=True)
        runtime.Sleep(KEEPING_SECONDS + 1.0)
        cluster[0].store.Promise(CLUSTER, Epoch(50, "other"), "node2.example.org")
        assert Took(lambda: Until(lambda: not store.IsRunning(), 30)) <= KEEPING_SECONDS - 1.0 + SOON
        assert isinstance(ends[0], MasterLost) and ends[0].sent

    play()


@Story
def test_a_stop_is_quick_and_everybody_gets_one_answer(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    assert store.ActingEpoch() == store.Epoch()
    ends: list[tuple[int, Any]] = []
    for number in range(5):
        store.Begin(Job(number), lambda error, number=number: ends.append((number, error)))
    assert Took(lambda: store.Stop(5.0)) < 1.0
    assert sorted(ends) == [(number, None) for number in range(5)]
    store.Begin(Job(9), lambda error: ends.append((9, error)))
    assert isinstance(ends[-1][1], StoreEnded) and "has stopped" in str(ends[-1][1])
    with pytest.raises(StoreEnded):
        store.ActingEpoch()
    with pytest.raises(MasterEnded):
        store.AddVoter(cluster.members[1], Rows(), 1.0)
    assert not store.IsRunning() and not store.StandsStill() and cluster.lost == []
    # Another master may serve here now.
    assert cluster.Become(0).Rows("job") == {str(number): "{}" for number in range(5)}


@Story
def test_a_stop_waits_for_no_node_that_is_silent_unfit_or_on_its_way(make: Any) -> None:
    cluster = make(5)
    store = cluster.Found(candidates=4)
    Until(store.IsSettled)
    cluster[1].up = False
    cluster[4].up = False

    def add() -> None:
        with pytest.raises(MasterEnded):
            store.AddVoter(cluster.members[4], Rows())

    waiting = runtime.Thread(add, "add")
    waiting.start()
    store.Commit(Job(1))
    Until(lambda: store.Silent() == ["node2.example.org"])
    store.Commit(Job(2))
    stopped: list[bool] = []
    assert Took(lambda: stopped.append(store.Stop(30.0))) < 1.0
    assert stopped == [True] and cluster[2].store.GetState().acknowledged == store.Acknowledged()
    waiting.join(5.0)
    assert not waiting.is_alive()


@Story
def test_who_asks_again_as_soon_as_it_is_answered_waits_for_nobody(make: Any) -> None:
    store = make(3).Found()
    runtime.Sleep(1.0)
    times = [Took(lambda number=number: store.Commit(Job(number))) for number in range(8)]  # type: ignore[misc]
    assert max(times[1:]) < times[0] + GATHER_SECONDS / 2, times


@Story
def test_what_comes_while_a_master_stops_is_refused_and_what_came_before_is_done(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[1].fault = cluster[2].fault = lambda path, body: runtime.Sleep(1.0)  # type: ignore[func-returns-value]
    ends: dict[str, Any] = {}
    store.Begin(Job(1), lambda error: ends.update(first=error))
    stopped: list[bool] = []
    thread = runtime.Thread(lambda: stopped.append(store.Stop(30)), "stop")
    thread.start()
    runtime.Sleep(0.5)
    store.Begin(Job(2), lambda error: ends.update(second=error))
    thread.join(60)
    assert stopped == [True] and ends["first"] is None
    assert isinstance(ends["second"], StoreEnded) and "nothing was changed" in str(ends["second"])
    assert store.Rows("job") == {"1": "{}"}


@Story
def test_a_stop_that_takes_too_long_leaves_nobody_without_an_answer(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[1].up = cluster[2].up = False
    ends: dict[str, Any] = {}
    store.Begin(Job(1), lambda error: ends.update(hasty=error))
    store.Begin(Job(2), lambda error: ends.update(patient=error), patient=True)
    runtime.Sleep(0.1)
    assert store.Stop(1.0) is False
    assert isinstance(ends["hasty"], NotKnown) and isinstance(ends["patient"], StoreEnded)
    assert cluster.lost == [], "whoever stops it knows"


@Story
def test_a_master_that_ends_answers_what_is_under_way_otherwise_than_what_was_not_begun(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[1].fault = cluster[2].fault = lambda path, body: "lost answer"
    ends: dict[str, Any] = {}
    store.Begin(Job(1), lambda error: ends.update(sent=error))
    runtime.Sleep(0.2)
    store.Begin(Job(2), lambda error: ends.update(waiting=error))
    cluster[1].fault = lambda path, body: serializer.DumpBytes([True, {"refused": "99.x", "master": "node2"}])
    Until(lambda: len(ends) == 2, 30)
    assert all(isinstance(end, MasterLost) for end in ends.values())
    assert (ends["sent"].sent, ends["waiting"].sent) == (True, False)
    assert [type(error) for error in cluster.lost] == [MasterLost]
    assert ends["sent"].master == "node2"


@Story
def test_an_answer_to_a_role_that_a_node_no_longer_has_changes_nothing(make: Any) -> None:
    """A removed voter's late answer must not make it look like one that is there."""
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[2].fault = lambda path, body: runtime.Sleep(3.0)  # type: ignore[func-returns-value]
    store.Commit(Job(1))
    store.RemoveVoter(cluster.members[2].uuid, Rows())
    cluster[2].fault = lambda path, body: None
    Until(store.IsSettled, 60)
    assert cluster[2].store.GetState().last.seq == 0 and len(store.Voters()) == 2
    store.Commit(Job(2))
    assert sorted(store.Rows("job")) == ["1", "2"]


@Story
def test_listeners_hear_each_acknowledged_transaction_once_and_in_order(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    heard: list[tuple[int, list[str]]] = []
    store.Listen(lambda position, rows: heard.append((position.seq, [row.id for row in rows])))
    first = store.Acknowledged().seq
    for number in range(3):
        store.Commit(Job(number))
    assert heard == [(first + 1 + number, [str(number)]) for number in range(3)]


@Story
def test_a_change_of_no_rows_is_done_at_once_and_makes_no_transaction(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    seq = store.Acknowledged().seq
    shown: list[str] = []

    class Nothing(Rows):
        def Publish(self) -> None:
            shown.append("published")

    store.Commit(Nothing())
    assert (shown, store.Acknowledged().seq) == (["published"], seq)
    # A step without rows of its own still changes the set.
    store.RemoveVoter(cluster.members[2].uuid, Nothing())
    assert len(store.Voters()) == 2 and shown == ["published"] * 2
    assert store.Acknowledged().seq == seq + 1


@Story
def test_nothing_is_left_to_do_means_just_that(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    Until(store.IsSettled)
    for fault in ("lost call", "lost answer"):
        cluster[2].fault = lambda path, body, fault=fault: fault
        store.Commit(Job(1))
        assert not store.IsSettled(), "a voter lacks something"
        runtime.Sleep(4.0)
        assert not store.IsSettled()
        cluster[2].fault = lambda path, body: None
        Until(store.IsSettled)
    cluster[2].up = False
    store.RemoveVoter(cluster.members[2].uuid, Rows())
    runtime.Sleep(4.0)
    assert not store.IsSettled(), "a node is still to be emptied"
    cluster[2].up = True
    Until(store.IsSettled, 60)
    cluster[3].up = False
    thread = runtime.Thread(lambda: store.AddVoter(cluster.members[3], Rows()), "add")
    thread.start()
    runtime.Sleep(4.0)
    assert not store.IsSettled(), "somebody waits for a node to come in"
    cluster[3].up = True
    thread.join(60.0)
    Until(store.IsSettled)
    store.Commit(Job(5))
    assert not store.IsSettled(), "not all know yet that it is acknowledged"
    Until(store.IsSettled)


@Story
def test_confirming_a_node_again_after_it_was_offline_asks_it_again(make: Any) -> None:
    cluster: Cluster = make(4)
    store = cluster.Found(candidates=3)
    other = cluster[3]

    def asked() -> int:
        return other.served.count("store_promise")

    store.ConfirmNodes([other.member.uuid], 5.0)
    before = asked()
    store._confirmer.Forget(other.member.uuid)
    store._confirmer.Forget("nobody")
    store.ConfirmNodes([other.member.uuid], 5.0)
    assert asked() == before + 1
    # One that answers at last within the time is enough.
    store._confirmer.Forget(other.member.uuid)
    other.up = False
    runtime.Thread(lambda: (runtime.Sleep(2.5), setattr(other, "up", True)), "back").start()
    assert 2.0 < Took(lambda: store.ConfirmNodes([other.member.uuid], 10.0)) < 4.5
    store._confirmer.Forget(other.member.uuid)
    other.up = False

    def fails() -> None:
        with pytest.raises(StoreError, match=r"node node4\.example\.org does not answer"):
            store.ConfirmNodes([other.member.uuid], 2.5)

    assert 2.5 <= Took(fails) < 3.0
    other.up = True
    for odd in (7, {}, {"running": [], "store": "s"}, {"running": 5, "store": "s", "last": ["1.a", 1]}):
        other.fault = lambda path, body, odd=odd: serializer.DumpBytes([True, odd])
        with pytest.raises(StoreError, match=r"sent an invalid answer|does not answer"):
            store.ConfirmNodes([other.member.uuid], 0.0)
