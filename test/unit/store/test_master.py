"""Stories of a master with some voters."""

from __future__ import annotations

from typing import Any

import pytest
from simulated import World
from support.store_nodes import Cluster, Live, Story, Until

from ganeti import errors, runtime
from ganeti.store import DiskRefused, MasterLost, NoQuorum, NotKnown, Row, Rows, StoreEnded, StoreError, TooLarge, base
from ganeti.store.commit import peers
from ganeti.store.commit.committer import GATHER_SECONDS, KEEPING_SECONDS
from ganeti.store.election import NotElected


@Story
def test_a_commit_is_on_a_quorum_before_it_returns(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    for number in range(20):
        store.Commit(Rows(Row("job", str(number), f'{{"id":{number}}}')))
        holders = [n for n in cluster.nodes if n.store.database.GetValue("job", str(number))]
        assert len(holders) >= 2
        assert store.Rows("job")[str(number)] == f'{{"id":{number}}}'
    Until(lambda: len({n.store.GetState().acknowledged for n in cluster.nodes}) == 1)
    assert Live(cluster[0]) == Live(cluster[1]) == Live(cluster[2])


@Story
def test_rows_that_were_handed_over_are_kept_on_disk_only(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    store.Commit(Rows(Row("job", "1", "{}"), Row("node", "a", "{}")))
    assert store.HandOver("job") == {"1": "{}"}
    store.Commit(Rows(Row("job", "1", "[]"), Row("job", "2", "{}"), Row("node", "b", "{}")))
    assert store.Rows("job") == store.HandOver("job") == {}
    assert sorted(store.Rows("node")) == ["a", "b"]
    assert cluster[0].store.database.GetValue("job", "1") == "[]"


@Story
def test_one_silent_voter_of_three_does_not_matter_and_is_caught_up(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[2].up = False
    for number in range(10):
        store.Commit(Rows(Row("job", str(number), "{}")))
    assert cluster[2].store.database.GetValue("job", "9") is None
    cluster[2].up = True
    Until(lambda: cluster[2].store.GetState().last == cluster[0].store.GetState().last)
    assert Live(cluster[2]) == Live(cluster[0])
    assert "store_catchup" in cluster[2].served
    assert "store_copy" not in cluster[2].served


@Story
def test_without_a_quorum_the_client_hears_not_known_then_refusals_then_it_is_done(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[1].up = cluster[2].up = False
    published: list[str] = []

    class Job(Rows):
        def Publish(self) -> None:
            published.append("job")

    with pytest.raises(NotKnown) as caught:
        store.Commit(Job(Row("job", "1", "{}")))
    assert "stored on 1 of 3" in str(caught.value)
    assert "node2.example.org (connection refused)" in str(caught.value)
    assert caught.value.hint is not None
    with pytest.raises(NoQuorum) as refused:
        store.Commit(Rows(Row("job", "2", "{}")))
    assert refused.value.silent == ["node2.example.org", "node3.example.org"]
    assert published == []
    assert store.Rows("job") == {}
    cluster[1].up = True
    Until(lambda: published == ["job"])
    assert store.Rows("job") == {"1": "{}"}


class Leisurely(Rows):
    leisurely = True


@Story
def test_a_change_that_is_in_no_hurry_shares_the_transaction_of_the_next(make: Any) -> None:
    store = make(3).Found()
    seq = store.Acknowledged().seq
    ends: list[Exception | None] = []
    store.Begin(Leisurely(Row("job", "1", "{}")), ends.append)
    runtime.Sleep(0.0005)
    assert ends == []
    store.Commit(Rows(Row("job", "2", "{}")))
    assert store.Acknowledged().seq == seq + 1
    assert ends == [None]
    assert sorted(store.Rows("job")) == ["1", "2"]


@Story
def test_an_ordinary_change_waits_for_no_other(make: Any) -> None:
    store = make(3).Found()
    times = []
    for number, change in enumerate((Rows, Leisurely, Rows)):
        runtime.Sleep(1.0)
        began = runtime.Monotonic()
        store.Commit(change(Row("job", str(number), "{}")))
        times.append(runtime.Monotonic() - began)
    assert max(times[0], times[2]) + GATHER_SECONDS / 2 < times[1], times


@Story
def test_a_row_that_was_deleted_is_not_shown_any_longer(make: Any) -> None:
    store = make(3).Found(0, Row("job", "1", "{}"), Row("job", "2", "{}"))
    store.Commit(Rows(Row("job", "1", None), Row("job", "3", None)))
    assert store.Rows("job") == {"2": "{}"}
    assert store.Value("job", "1") is None
    store.Commit(Rows(Row("job", "1", '"again"')))
    assert store.Rows("job") == {"1": '"again"', "2": "{}"}


@Story
def test_a_change_that_is_in_no_hurry_waits_a_moment_only(make: Any) -> None:
    store = make(3).Found()
    began = runtime.Monotonic()
    store.Commit(Leisurely(Row("job", "1", "{}")))
    assert 0.0005 < runtime.Monotonic() - began < 0.1
    # Neither does it wait when the master stops.
    ends: list[Exception | None] = []
    store.Begin(Leisurely(Row("job", "2", "{}")), ends.append)
    store.Stop()
    assert ends == [None]


@Story
def test_a_patient_change_waits_for_the_quorum(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotKnown):
        store.Commit(Rows(Row("job", "1", "{}")))
    ends: list[Any] = []
    store.Begin(Rows(Row("job", "2", "{}")), ends.append, patient=True)
    runtime.Sleep(0.1)
    assert ends == []
    cluster[1].up = True
    Until(lambda: ends == [None])
    assert sorted(store.Rows("job")) == ["1", "2"]


@Story
def test_a_new_master_adopts_what_was_acknowledged_and_the_old_one_stops(make: Any) -> None:
    cluster = make(3)
    old = cluster.Found()
    old.Commit(Rows(Row("job", "1", '"kept"')))
    new = cluster.Become(1)
    assert new.Rows("job") == {"1": '"kept"'}
    assert new.Epoch() > old.Epoch()
    with pytest.raises(MasterLost) as lost:
        old.Commit(Rows(Row("job", "2", "{}")))
    assert "node2.example.org" in str(lost.value)
    Until(lambda: cluster.lost)
    assert isinstance(cluster.lost[0], MasterLost)
    assert old.Rows("job") == {"1": '"kept"'}
    new.Commit(Rows(Row("job", "1", None), Row("job", "3", "{}")))
    Until(lambda: Live(cluster[0]) == Live(cluster[1]) == Live(cluster[2]))
    assert cluster[0].store.database.GetValue("job", "1") is None


@Story
def test_a_lost_disk_is_seen_emptied_and_copied_again(make: Any) -> None:
    cluster = make(3)
    cluster.wanted = cluster.members
    store = cluster.Found(0, Row("node", "a", "{}"))
    before = store.Voters().by_uuid[cluster.members[2].uuid].store_id
    cluster[2].LoseDisk()
    store.Commit(Rows(Row("job", "1", "{}")))
    Until(lambda: len(store.Voters()) == 3 and store.Voters().by_uuid[cluster.members[2].uuid].store_id != before, 30)
    Until(lambda: Live(cluster[2]) == Live(cluster[0]))
    assert cluster[2].store.GetState().store_id in store.Voters().ids


@Story
def test_a_restored_disk_is_seen_emptied_and_copied_again(make: Any) -> None:
    cluster = make(3)
    cluster.wanted = cluster.members
    store = cluster.Found()
    for number in range(5):
        store.Commit(Rows(Row("job", str(number), "{}")))
    Until(lambda: cluster[2].store.GetState().acknowledged == store.Acknowledged())
    with cluster[2].store.database.Transaction() as database:
        state = database.GetState()
        back = base.Position(state.last.epoch, 2)
        database.PutState(state.With(last=back, acknowledged=back))
        rows = [row for row in database.GetRows() if row.seq <= 2]
        database.ClearAside()
        database.FillAside(rows)
        database.SwapAside()
        database.DropRetired(None)
    before = state.store_id
    store.Commit(Rows(Row("job", "9", "{}")))
    Until(lambda: len(store.Voters()) == 3 and before not in store.Voters().ids, 60)
    Until(lambda: Live(cluster[2]) == Live(cluster[0]))


@Story
def test_a_node_that_could_not_be_taken_in_keeps_nothing(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found(candidates=2)
    store.Commit(Rows(Row("job", "1", "{}")))

    class Refuses(Rows):
        def Prepare(self) -> Any:
            raise errors.ConfigurationError("the node is drained")

    with pytest.raises(errors.ConfigurationError):
        store.AddVoter(cluster.members[2], Refuses())
    assert len(store.Voters()) == 2
    Until(lambda: cluster[2].store.GetState().last.seq == 0)


@Story
def test_a_node_that_leaves_is_emptied_once_however_long_that_takes(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    for number in range(5):
        store.Commit(Rows(Row("job", str(number), f'"{"x" * 400_000}"')))
    Until(store.IsSettled)
    before = cluster[2].store.GetState().store_id
    ids: list[str] = []

    def note(path: str, body: Any) -> None:
        del body
        state = cluster[2].store.GetState()
        if path == "/store_empty" and state.store_id not in (before, *ids):
            ids.append(state.store_id)

    cluster[2].fault = note
    store.RemoveVoter(cluster.members[2].uuid, Rows())
    Until(store.IsSettled, 60)
    assert cluster[2].served.count("store_empty") > 2, "it takes several calls"
    assert ids == [cluster[2].store.GetState().store_id]


@Story
def test_a_node_that_does_not_answer_is_not_taken_in(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found(candidates=2)
    cluster[2].up = False
    with pytest.raises(StoreError) as caught:
        store.AddVoter(cluster.members[2], Rows(), 5.0)
    assert "node3.example.org" in str(caught.value)
    assert "connection refused" in str(caught.value)


@Story
def test_the_master_is_always_a_voter(make: Any) -> None:
    cluster = make(2)
    store = cluster.Found()
    with pytest.raises(errors.OpPrereqError, match="fail over"):
        store.RemoveVoter(cluster.members[0].uuid, Rows())


@Story
def test_a_candidate_that_an_earlier_master_did_not_take_in_is_taken_in(make: Any) -> None:
    cluster = make(3)
    cluster.Found(candidates=2).Stop()
    cluster.wanted = cluster.members
    store = cluster.Become(0)
    Until(lambda: len(store.Voters()) == 3, 30)
    cluster.wanted = cluster.members[:2]
    Until(lambda: store.Voters().Names() == ["node1.example.org", "node2.example.org"], 30)
    Until(lambda: cluster[2].store.GetState().last.seq == 0)


@Story
def test_changes_of_one_batch_see_each_other_and_fail_alone(make: Any) -> None:
    cluster = make(1)
    store = cluster.Found()
    draft = {"n": 0}
    ends: list[Any] = []

    class Count(Rows):
        def Prepare(self) -> Any:
            draft["n"] += 1
            if draft["n"] == 2:
                raise errors.ConfigurationError("not the second one")
            return [Row("count", "n", str(draft["n"]))]

    for _ in range(3):
        store.Begin(Count(), ends.append)
    Until(lambda: len(ends) == 3)
    assert sorted(type(end).__name__ for end in ends) == ["ConfigurationError", "NoneType", "NoneType"]
    assert store.Rows("count") == {"n": "3"}


def test_what_the_own_disk_refused_was_sent_to_nobody_and_is_taken_back() -> None:
    with World(7) as world:
        machine = world.AddMachine("all")

        def story() -> None:
            cluster = Cluster("/srv", 3)
            store = cluster.Found()
            withdrawn: list[str] = []

            class Job(Rows):
                def Withdraw(self) -> None:
                    withdrawn.append("job")

            asked = len(cluster[1].served)
            machine.disk_full = True
            with pytest.raises(DiskRefused) as caught:
                store.Commit(Job(Row("job", "1", "{}")))
            assert "No space" in str(caught.value)
            assert (withdrawn, cluster[1].served[asked:].count("store_append")) == (["job"], 0)
            machine.disk_full = False
            store.Commit(Rows(Row("job", "2", "{}")))
            assert store.Rows("job") == {"2": "{}"}
            machine.disk_broken = True
            with pytest.raises(StoreEnded):
                store.Commit(Rows(Row("job", "3", "{}")))
            Until(lambda: cluster.lost)
            machine.disk_broken = False
            cluster.Close()

        machine.Call(story)
        assert not world.failures


@Story
def test_a_large_store_is_copied_in_pieces_while_work_goes_on(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found(candidates=2)
    for number in range(40):
        store.Commit(Rows(*(Row("job", f"{number}-{row}", '"' + "x" * 5000 + '"') for row in range(10))))
    ends: list[Any] = []
    for number in range(20):
        store.Begin(Rows(Row("during", str(number), "{}")), ends.append)
    store.AddVoter(cluster.members[2], Rows())
    Until(lambda: len(ends) == 20)
    assert cluster[2].served.count("store_copy") >= 4
    Until(lambda: Live(cluster[2]) == Live(cluster[0]))


@Story
def test_a_transaction_too_large_for_one_call_goes_in_pieces(make: Any) -> None:
    cluster = make(3)
    rows = [Row("job", str(number), '"' + "x" * 100_000 + '"') for number in range(60)]
    store = cluster.Found(0, *rows)
    assert len(store.Rows("job")) == 60
    Until(store.IsSettled)
    served = len(cluster[1].served)
    store.Commit(Rows(*(Row("job", row.id, '"' + "y" * 100_000 + '"') for row in rows)))
    Until(lambda: Live(cluster[0]) == Live(cluster[1]) == Live(cluster[2]))
    assert cluster[1].served.count("store_catchup") >= 10
    assert "store_copy" not in cluster[1].served[served:]


@Story
def test_what_waits_goes_in_transactions_that_one_call_can_take(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    for number in range(5):
        store.Commit(Rows(Row("job", str(number), "{}")))
    Until(store.IsSettled)
    served = [len(node.served) for node in cluster.nodes]
    ends: list[Any] = []
    for number in range(8):
        store.Begin(Rows(*(Row("job", f"{number}-{n}", '"' + "x" * 5000 + '"') for n in range(250))), ends.append)
    Until(lambda: len(ends) == 8, 60)
    Until(store.IsSettled, 60)
    assert ends == [None] * 8
    for node, before in zip(cluster.nodes[1:], served[1:], strict=True):
        assert not {"store_copy", "store_catchup"} & set(node.served[before:])


@Story
def test_a_master_that_was_overtaken_sends_nothing_of_what_another_wrote_here(make: Any) -> None:
    """Its own node took rows of a newer history; with its own positions they would be another history to others."""
    cluster = make(4)
    store = cluster.Found()
    cluster[3].up = False
    for number in range(6):
        store.Commit(Rows(Row("job", str(number), "{}")))
    # The master has just looked at its own node, which it does now and then.
    runtime.Sleep(KEEPING_SECONDS + 0.5)
    newer = base.Epoch(99, "zz")
    last = base.Position(newer, 7)
    row = base.StoredRow("job", "stranger", "{}", 7, newer)
    line = cluster[0].store.GetLine()
    cluster[0].store.Promise("", newer, "node9")
    entries = [(epoch, first) for epoch, first in line.entries if first < 7]
    cluster[0].store.Adopt(newer, [row], base.Line([*entries, (newer, 7)], last), 0, False, [])
    cluster[3].up = True
    Until(lambda: cluster.lost)
    assert cluster[3].store.database.GetValue("job", "stranger") is None
    assert not {"store_catchup", "store_copy"} & set(cluster[3].served)
    assert isinstance(cluster.lost[0], MasterLost)


@Story
def test_a_stop_says_what_was_acknowledged_last(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    store.Commit(Rows(Row("job", "1", "{}")))
    assert store.Stop() is True
    last = cluster[0].store.GetState().last
    assert [node.store.GetState().acknowledged for node in cluster.nodes] == [last] * 3
    with pytest.raises(StoreEnded):
        store.Commit(Rows(Row("job", "2", "{}")))


@Story
def test_a_stop_waits_for_a_slow_voter_to_know(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[1].fault = lambda path, body: runtime.Sleep(1.0) if path == "/store_append" else None
    store.Commit(Rows(Row("job", "1", "{}")))
    assert cluster[1].store.GetState().last.seq < store.Acknowledged().seq
    assert store.Stop() is True
    assert cluster[1].store.GetState().acknowledged == store.Acknowledged()


@Story
def test_the_stop_of_a_master_that_has_ended_waits_for_nothing(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster.Become(1)
    Until(lambda: not store.IsRunning(), 30)
    for _ in range(2):
        began = runtime.Monotonic()
        assert store.Stop() is False
        assert runtime.Monotonic() - began < 1.0


@Story
def test_a_stop_without_a_quorum_is_not_clean(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[1].up = cluster[2].up = False
    ends: list[Any] = []
    store.Begin(Rows(Row("job", "1", "{}")), ends.append)
    assert store.Stop(2.0) is False
    assert isinstance(ends[0], NotKnown)
    assert not store.IsRunning()


@Story
def test_deletions_are_pruned_once_everybody_has_them(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    store.Commit(Rows(Row("job", "1", "{}")))
    store.Commit(Rows(Row("job", "1", None)))
    for _ in range(3):
        store.Commit(Rows(Row("job", "2", "{}")))
    Until(lambda: all(not [r for r in n.store.database.GetRows() if r.value is None] for n in cluster.nodes), 5)
    assert all(n.store.GetState().pruned >= 3 for n in cluster.nodes)


@Story
def test_a_new_voter_knows_how_far_deletions_were_pruned(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    for value in ("{}", None, "{}", "{}", "{}", "{}"):
        store.Commit(Rows(Row("job", "1", value)))
    Until(lambda: cluster[0].store.GetState().pruned)
    store.AddVoter(cluster.members[3], Rows())
    assert cluster[3].served.count("store_copy") == 1
    assert cluster[3].store.GetState().pruned == cluster[0].store.GetState().pruned


@Story
def test_a_deletion_during_a_copy_does_not_make_it_begin_again(make: Any) -> None:
    """Deletions that a node under copy lacks are kept, or it would never catch up while work goes on."""
    cluster = make(4)
    store = cluster.Found(candidates=3)
    for number in range(20):
        store.Commit(Rows(Row("job", str(number), '"' + "x" * 300_000 + '"')))
    cluster[3].fault = lambda path, body: runtime.Sleep(0.5) if path == "/store_copy" else None
    copying = [True]

    def work() -> None:
        number = 0
        while copying:
            number += 1
            store.Commit(Rows(Row("tmp", str(number), "{}")))
            store.Commit(Rows(Row("tmp", str(number), None)))
            runtime.Sleep(0.3)

    runtime.Thread(work, "work").start()
    store.AddVoter(cluster.members[3], Rows(Row("node", "n4", "{}")))
    pieces = cluster[3].served.count("store_copy")
    copying.clear()
    assert pieces < 25
    Until(lambda: Live(cluster[3]) == Live(cluster[0]))
    store.Commit(Rows(Row("job", "0", None)))
    store.Commit(Rows(Row("job", "1", None)))
    Until(lambda: all(not [r for r in n.store.database.GetRows() if r.value is None] for n in cluster.nodes), 5)


@Story
def test_a_learner_on_a_slow_disk_comes_in_while_work_goes_on(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    for number in range(5):
        store.Commit(Rows(Row("job", str(number), "{}")))
    cluster[3].fault = lambda path, body: runtime.Sleep(0.5) if path.startswith("/store_") else None
    copying = [True]

    def work() -> None:
        while copying:
            store.Commit(Rows(Row("tmp", "1", "{}")))
            runtime.Sleep(0.01)

    runtime.Thread(work, "work").start()
    store.AddVoter(cluster.members[3], Rows(Row("node", "n4", "{}")), 30.0)
    copying.clear()
    assert len(store.Voters()) == 4


@Story
def test_a_node_that_is_being_taken_in_is_not_emptied_because_it_holds_rows(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    calls: list[str] = []

    def lose_second(path: str, body: Any) -> str | None:
        """The first call shows where it stands, the second brings the rows: it has them before the master knows."""
        del body
        calls.append(path)
        return "lost answer" if len(calls) == 2 else None

    cluster[3].fault = lose_second
    confirming, asked = [True], []

    def confirm() -> None:
        """Does what a job does that confirms the epoch there and finds rows at a node that is no voter."""
        while confirming:
            state = cluster[3].store.GetState()
            if state.last.seq and cluster.members[3].uuid not in store.Voters():
                asked.append(state.last)
                store.EmptyNode(cluster.members[3], state.store_id)
            runtime.Sleep(0.1)

    runtime.Thread(confirm, "confirm").start()
    store.AddVoter(cluster.members[3], Rows(Row("node", "n4", "{}")), 30.0)
    confirming.clear()
    assert len(store.Voters()) == 4
    Until(lambda: Live(cluster[3]) == Live(cluster[0]))
    assert asked and "store_empty" not in cluster[3].served


def test_deletions_are_kept_for_a_learner_but_not_for_one_that_is_silent_for_long() -> None:
    epoch = base.Epoch(2, "bb")
    line = base.Line([(base.Epoch(1, "aa"), 1), (epoch, 5)], base.Position(epoch, 9))
    peer = peers.Peer(base.Member("u", "node4", "127.0.0.4"), learner=True)
    needs: list[int | None] = [peers.LearnerNeeds(peer, line, 1000.0)]
    peer.confirmed = base.Position(epoch, 7)
    needs.append(peers.LearnerNeeds(peer, line, 1000.0))
    peer.copy = peers.Copy("c", None, 6, (0, "", ""))
    needs.append(peers.LearnerNeeds(peer, line, 1000.0))
    peer.copy = None
    peer.Failed(1000.0, "timed out")
    needs += [peers.LearnerNeeds(peer, line, now) for now in (1000.0 + peers.LONG_SILENT, 1000.1 + peers.LONG_SILENT)]
    # Of another history, or no learner at all: it is copied as a whole, or counts as a voter.
    peer.Heard()
    peer.confirmed = base.Position(base.Epoch(1, "aa"), 7)
    needs.append(peers.LearnerNeeds(peer, line, 1000.0))
    peer.confirmed, peer.learner = base.Position(epoch, 7), False
    needs.append(peers.LearnerNeeds(peer, line, 1000.0))
    assert needs == [None, 7, 6, 7, None, None, None]


@Story
def test_voters_come_and_go_one_at_a_time(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found(candidates=1)
    assert store.Voters().Names() == ["node1.example.org"]
    store.Commit(Rows(Row("job", "1", "{}")))
    for number in (1, 2):
        store.AddVoter(cluster.members[number], Rows(Row("node", str(number), '"candidate"')))
        assert cluster[number].store.database.GetValue("job", "1") == "{}"
    assert len(store.Voters()) == 3
    store.RemoveVoter(cluster.members[1].uuid, Rows(Row("node", "1", '"regular"')))
    assert store.Voters().Names() == ["node1.example.org", "node3.example.org"]
    Until(lambda: cluster[1].store.GetState().last.seq == 0)
    assert [name for name in runtime.ListDir(f"{cluster[1].folder}/ext") if name.startswith("replaced-")]


@Story
def test_offline_of_the_dead_one_of_two_ends_the_standstill(make: Any) -> None:
    cluster = make(2)
    store = cluster.Found()
    cluster[1].up = False
    with pytest.raises(NotKnown):
        store.Commit(Rows(Row("job", "1", "{}")))
    store.RemoveVoter(cluster.members[1].uuid, Rows(Row("node", "2", '"offline"')))
    assert store.Rows("job") == {"1": "{}"}
    store.Commit(Rows(Row("job", "2", "{}")))
    assert len(store.Voters()) == 1


@Story
def test_taking_out_a_node_is_refused_where_the_rest_has_no_quorum_either(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found()
    for node in cluster.nodes[1:]:
        node.up = False
    with pytest.raises(NotKnown):
        store.Commit(Rows(Row("job", "1", "{}")))
    with pytest.raises(NoQuorum) as refused:
        store.RemoveVoter(cluster.members[1].uuid, Rows(Row("node", "2", '"offline"')))
    assert "--no-voting" in str(refused.value.hint)
    assert len(store.Voters()) == 4


@Story
def test_the_next_step_names_a_node_only_where_taking_it_out_helps(make: Any) -> None:
    """With two of three silent, taking out one is refused, and then nobody is told to take out the other one."""
    cluster = make(3)
    store = cluster.Found()
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotKnown):
        store.Commit(Rows(Row("job", "1", "{}")))
    with pytest.raises(NoQuorum) as refused:
        store.RemoveVoter(cluster.members[2].uuid, Rows(Row("node", "3", '"offline"')))
    hint = str(refused.value.hint)
    assert hint.startswith("bring one of node2.example.org, node3.example.org back; only if all nodes")
    assert "--no-voting" in hint
    assert "--offline" not in hint


@Story
def test_no_start_without_a_quorum_but_a_forced_one(make: Any) -> None:
    cluster = make(2)
    store = cluster.Found()
    store.Commit(Rows(Row("job", "1", "{}")))
    store.Stop()
    cluster[0].up = False
    with pytest.raises(NotElected) as caught:
        cluster.Become(1)
    assert "node1.example.org" in str(caught.value)
    asked: list[Any] = []

    def vouch(question: Any) -> bool:
        asked.append(question)
        return True

    new = cluster.Become(1, vouch=vouch)
    assert asked[0].silent == ["node1.example.org"]
    assert new.Voters().Names() == ["node2.example.org"]
    assert new.Rows("job") == {"1": "{}"}
    new.Commit(Rows(Row("job", "2", "{}")))
    # The old one comes back: it is no voter, and may not become master by its own copy.
    cluster[0].up = True
    with pytest.raises(NotElected):
        cluster.Become(0)


@Story
def test_a_forced_start_is_refused_while_a_master_answers(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(3, candidates=3)
    Until(lambda: cluster[0].store.GetState().acknowledged == store.Acknowledged())
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotElected) as caught:
        cluster.Become(0, vouch=lambda question: True)
    assert "node4.example.org runs a master daemon" in str(caught.value)
    assert not cluster.lost


@Story
def test_a_lost_acknowledged_change_is_seen(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[2].up = False
    store.Commit(Rows(Row("job", "1", "{}")))
    Until(lambda: cluster[1].store.GetState().acknowledged == store.Acknowledged())
    store.Stop()
    # A restored backup: the node's copy goes back, what it knew of acknowledged changes stays known elsewhere.
    with cluster[1].store.database.Transaction() as database:
        state = database.GetState()
        back = base.Position(state.last.epoch, 1)
        database.PutState(state.With(last=back))
    cluster[0].up = False
    cluster[2].up = True
    with pytest.raises(NotElected) as caught:
        cluster.Become(2)
    assert "node2.example.org" in str(caught.value)
    assert "restored" in str(caught.value)


@Story
def test_what_is_too_much_for_one_call_is_refused_or_waits_for_the_next_transaction(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    with pytest.raises(TooLarge):
        store.Commit(Rows(Row("job", "0", f'"{"x" * base.MAX_TRANSACTION}"')))
    third = f'"{"x" * (base.MAX_TRANSACTION // 3)}"'
    done: list[Any] = []
    for number in range(1, 8):
        store.Begin(Rows(Row("job", str(number), third)), done.append, patient=True)
    Until(lambda: len(done) == 7, 30)
    assert done == [None] * 7
    assert sorted(store.Rows("job")) == [str(n) for n in range(1, 8)]
    Until(lambda: cluster[1].store.database.GetValue("job", "7") or cluster[2].store.database.GetValue("job", "7"))


@Story
def test_those_whose_copies_were_removed_begin_no_store_of_their_own(make: Any) -> None:
    """Two of three nodes are no candidates any more; the files of one of them still name it as master."""
    cluster = make(3)
    store = cluster.Found()
    for member in cluster.members[1:]:
        store.RemoveVoter(member.uuid, Rows(Row("job", member.uuid, "{}")))
        Until(store.IsSettled)
    cluster[0].fault = lambda path, body: "lost call"
    for vouch in (None, lambda question: True):
        with pytest.raises(NotElected, match="was a master candidate") as caught:
            cluster.Found(1, vouch=vouch)
        assert "the files of this node may be old" in str(caught.value)
        assert "a candidate that has a copy" in str(caught.value.hint)


@Story
def test_a_change_that_waits_keeps_no_master_that_its_own_node_has_left(make: Any) -> None:
    """The others do not even talk to a node that is no candidate any more; its own node has heard of the next master."""
    cluster = make(3)
    store = cluster.Found()
    Until(store.IsSettled)
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotKnown):
        store.Commit(Rows(Row("job", "1", "{}")))
    cluster[0].store.Promise("", base.Epoch(99, "zz"), "node9")
    Until(lambda: cluster.lost, 2 * KEEPING_SECONDS)
    assert isinstance(cluster.lost[0], MasterLost) and "node9" in str(cluster.lost[0])
