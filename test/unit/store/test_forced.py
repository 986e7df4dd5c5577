"""A forced start that was made in error: the master of the quorum goes on, restarts, and takes the stray node back."""

from __future__ import annotations

from typing import Any

import pytest
from support.store_nodes import CLUSTER, Cluster, Live, Story, Until

from ganeti import runtime
from ganeti.rpc.base import Failure
from ganeti.store import Epoch, MasterLost, NoQuorum, Row, Rows, StoreError
from ganeti.store.election import NotElected, ParseForced
from ganeti.store.silence import Describe, NextStep, Silent

ROW = Rows(Row("job", "1", "{}"))


def Cut(cluster: Cluster, number: int) -> None:
    """Nothing passes between this node and the others, in either direction."""
    name = cluster[number].name
    for node in cluster.nodes:
        if node.name == name:
            node.fault = lambda path, body: None if f'"master":"{name}"' in _Text(body) else "lost call"
        else:
            node.fault = lambda path, body: "lost call" if f'"master":"{name}"' in _Text(body) else None


def Mend(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.fault = lambda path, body: None


def _Text(body: Any) -> str:
    return body.decode() if isinstance(body, bytes) else str(body)


def Stray(make: Any) -> tuple[Cluster, Any, Any]:
    """Three candidates; node1 is master and goes on with node3 while node2, cut off, is made master by force."""
    cluster = make(3)
    legit = cluster.Found()
    Until(legit.IsSettled)
    Cut(cluster, 1)
    legit.Commit(ROW)
    Until(lambda: cluster[2].store.GetState().acknowledged == legit.Acknowledged())
    stray = cluster.Become(1, vouch=lambda question: True)
    stray.Commit(Rows(Row("job", "2", "{}")))
    assert stray.Voters().Names() == ["node2.example.org"]
    return cluster, legit, stray


@Story
def test_the_master_of_the_quorum_goes_on_when_it_meets_a_stray_master(make: Any) -> None:
    cluster, legit, stray = Stray(make)
    assert stray.Epoch() > legit.Epoch()
    Mend(cluster)
    runtime.Sleep(10)
    legit.Commit(Rows(Row("job", "3", "{}")))
    assert legit.IsRunning() and cluster.lost == []
    assert legit.Silent() == ["node2.example.org"]
    # Nor does a job whose node follows the stray one end it; the job hears what to do.
    with pytest.raises(StoreError) as caught:
        legit.ConfirmNodes([cluster.members[1].uuid], 5.0)
    assert "node2.example.org follows another master, node2.example.org" in str(caught.value)
    assert "start-master" in str(caught.value.hint)
    legit.Refused(str(stray.Epoch()), "node2.example.org", cluster.members[1].uuid)
    runtime.Sleep(10)
    legit.Commit(Rows(Row("job", "4", "{}")))
    assert legit.IsRunning() and cluster.lost == []


@Story
def test_a_restart_of_the_master_of_the_quorum_ends_the_stray_one_and_takes_its_node_back(make: Any) -> None:
    cluster, legit, stray = Stray(make)
    Mend(cluster)
    legit.Stop()
    new = cluster.Become(0, vote=lambda: None)
    Until(lambda: not stray.IsRunning(), 30)
    assert [type(error) for error in cluster.lost] == [MasterLost]
    assert new.Epoch() > stray.Epoch()
    Until(lambda: new.IsSettled() and len(new.Voters()) == 3, 60)
    new.Commit(Rows(Row("job", "5", "{}")))
    Until(new.IsSettled)
    assert Live(cluster[1]) == Live(cluster[0])
    assert sorted(key for kind, key in Live(cluster[1]) if kind == "job") == ["1", "5"]


@Story
def test_another_candidate_of_the_quorum_may_take_over_beside_a_stray_master(make: Any) -> None:
    cluster, legit, stray = Stray(make)
    Mend(cluster)
    legit.Stop()
    stray.Stop()
    new = cluster.Become(2)
    assert "1" in new.Rows("job") and "2" not in new.Rows("job")


@Story
def test_the_stray_master_does_not_start_again_by_itself(make: Any) -> None:
    cluster, legit, stray = Stray(make)
    legit.Stop()
    stray.Stop()
    Mend(cluster)
    before = Live(cluster[1])
    with pytest.raises(NotElected) as caught:
        cluster.Become(1)
    assert "node1.example.org, node3.example.org answer with changes" in str(caught.value)
    assert "start the master daemon there" in str(caught.value.hint)
    assert Live(cluster[1]) == before
    new = cluster.Become(0)
    assert "1" in new.Rows("job") and "2" not in new.Rows("job")
    assert len(new.Voters()) == 3


@Story
def test_a_forced_start_that_was_right_gives_nothing_up_when_all_the_dead_return(make: Any) -> None:
    """Two of three were off; back together they look like a quorum, but the master beside them does not step back."""
    cluster = make(3)
    old = cluster.Found()
    Until(old.IsSettled)
    cluster[1].up = False
    old.Commit(ROW)
    Until(lambda: cluster[2].store.GetState().acknowledged == old.Acknowledged())
    old.Stop()
    cluster[0].up = cluster[2].up = False
    cluster[1].up = True
    forced = cluster.Become(1, vouch=lambda question: True)
    forced.Commit(Rows(Row("job", "2", "{}")))
    forced.Stop()
    cluster[0].up = cluster[2].up = True
    with pytest.raises(NotElected, match="only a person can know which"):
        cluster.Become(1)
    assert ("job", "2") in Live(cluster[1])
    # Both were cleaned up, as the message says: they do not answer for a store.
    cluster[0].up = cluster[2].up = False
    again = cluster.Become(1)
    assert "2" in again.Rows("job") and "1" not in again.Rows("job")


@Story
def test_a_master_that_had_gone_on_alone_does_not_overrule_the_one_that_was_forced(make: Any) -> None:
    """Two candidates: the dead one returns and starts by itself; what the survivor acknowledged since then stays."""
    cluster = make(2)
    old = cluster.Found()
    Until(old.IsSettled)
    cluster[1].up = False
    old.RemoveVoter(cluster.members[1].uuid, Rows(Row("node", "2", '"offline"')))
    old.Commit(ROW)
    old.Stop()
    cluster[0].up = False
    cluster[1].up = True
    forced = cluster.Become(1, vouch=lambda question: True)
    forced.Commit(Rows(Row("job", "2", "{}")))
    forced.Stop()
    cluster[0].up = True
    with pytest.raises(NotElected, match="does not count this node among its voters"):
        cluster.Become(0)
    again = cluster.Become(1)
    assert "2" in again.Rows("job") and "1" not in again.Rows("job")


@Story
def test_a_forced_start_that_was_right_stands_against_the_node_that_returns(make: Any) -> None:
    """What only dead nodes held was given up by the administrator: their return does not bring it back."""
    cluster = make(3)
    old = cluster.Found()
    Until(old.IsSettled)
    cluster[1].up = False
    old.Commit(ROW)
    Until(lambda: cluster[2].store.GetState().acknowledged == old.Acknowledged())
    old.Stop()
    cluster[0].up = cluster[2].up = False
    cluster[1].up = True
    forced = cluster.Become(1, vouch=lambda question: True)
    forced.Commit(Rows(Row("job", "2", "{}")))
    forced.Stop()
    # One of the two is repaired and switched on; the new master restarts before it has taken it in.
    cluster[0].up = True
    again = cluster.Become(1)
    assert "2" in again.Rows("job") and "1" not in again.Rows("job")
    assert [str(epoch) for epoch, _ in ParseForced(again.Value("master", "forced"))] == [str(forced.Epoch())]


@Story
def test_a_master_without_its_quorum_stops_when_a_forced_one_has_its_nodes(make: Any) -> None:
    cluster = make(3)
    old = cluster.Found()
    Until(old.IsSettled)
    cluster[1].up = False
    old.Commit(ROW)
    Until(lambda: cluster[2].store.GetState().acknowledged == old.Acknowledged())
    cluster[2].up = False
    cluster[1].up = True
    Cut(cluster, 1)
    cluster.Become(1, vouch=lambda question: True)
    Mend(cluster)
    Until(lambda: not old.IsRunning(), 60)
    assert [type(error) for error in cluster.lost] == [MasterLost]


@Story
def test_a_forced_start_that_is_not_confirmed_leaves_no_promise_behind(make: Any) -> None:
    cluster = make(3)
    cluster.Found().Stop()
    cluster[0].up = cluster[2].up = False
    before = cluster[1].store.GetState().promised
    with pytest.raises(NotElected, match="not confirmed"):
        cluster.Become(1, vouch=lambda question: False)
    assert cluster[1].store.GetState().promised == before


@Story
def test_what_a_node_says_that_is_no_voter_ends_no_master(make: Any) -> None:
    """A node in the wrong hands answers every call with a newer epoch; only the voters decide who is master."""
    cluster = make(4)
    store = cluster.Found(candidates=3)
    cluster[3].store.Promise(CLUSTER, Epoch(999999, "evil"), "node4.example.org")
    for _ in range(3):
        with pytest.raises(StoreError) as caught:
            store.ConfirmNodes([cluster.members[3].uuid], 3.0)
        assert not isinstance(caught.value, MasterLost)
        assert "node4.example.org follows another master, node4.example.org (epoch 999999.evil)" in str(caught.value)
        for named in (cluster.members[3].uuid, "node4.example.org"):
            store.Refused("999999.evil", "node4.example.org", named)
    runtime.Sleep(100)
    store.Commit(ROW)
    assert store.IsRunning() and cluster.lost == []


@Story
def test_those_that_do_not_confirm_are_named_for_whoever_can_do_without_them(make: Any) -> None:
    """One follows another master, one is silent; a voter that has a newer master still ends this one."""
    cluster = make(5)
    store = cluster.Found(candidates=3)
    uuids = [member.uuid for member in cluster.members]
    cluster[3].store.Promise(CLUSTER, Epoch(999999, "evil"), "node4.example.org")
    cluster[4].up = False
    missing = store.UnconfirmedNodes(uuids, 3.0)
    assert list(missing) == [uuids[4], uuids[3]]
    assert "follows another master" in missing[uuids[3]] and "start-master" in missing[uuids[3]]
    assert "node5.example.org does not answer" in missing[uuids[4]]
    cluster[4].up = True
    assert list(store.UnconfirmedNodes(uuids, 3.0)) == [uuids[3]]
    store.Stop()
    new = cluster.Become(0)
    for number in (1, 2):
        cluster[number].store.Promise(CLUSTER, Epoch(9999999, "other"), "node3.example.org")
    with pytest.raises(MasterLost):
        new.UnconfirmedNodes(uuids, 3.0)


@Story
def test_its_word_ends_one_that_no_quorum_follows(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    cluster[1].up = cluster[2].up = False
    with pytest.raises(StoreError):
        store.Commit(ROW)
    cluster[3].store.Promise(CLUSTER, Epoch(99, "other"), "node3.example.org")
    with pytest.raises(MasterLost):
        store.ConfirmNodes([cluster.members[3].uuid], 3.0)
    Until(lambda: cluster.lost)
    assert [type(error) for error in cluster.lost] == [MasterLost]


@Story
def test_its_word_makes_a_replaced_master_look_at_once(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    Until(store.IsSettled)
    for number in (1, 2, 3):
        cluster[number].store.Promise(CLUSTER, Epoch(99, "other"), "node3.example.org")
    store.Refused("99.other", "node3.example.org", cluster.members[3].uuid)
    Until(lambda: cluster.lost, 3.0)
    assert [type(error) for error in cluster.lost] == [MasterLost]


@Story
def test_a_voter_that_promised_a_newer_epoch_ends_the_master_at_once(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    cluster[2].store.Promise(CLUSTER, Epoch(99, "other"), "node3.example.org")
    with pytest.raises(MasterLost):
        store.ConfirmNodes([cluster.members[2].uuid], 3.0)
    Until(lambda: cluster.lost)
    assert [type(error) for error in cluster.lost] == [MasterLost]


@Story
def test_a_voter_that_refuses_a_call_made_by_its_name_ends_the_master(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    store.Refused("99.other", "node3.example.org", "node3.example.org")
    Until(lambda: cluster.lost, 3.0)


@Story
def test_a_node_that_is_taken_in_ends_no_master_whatever_it_promised(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    cluster[3].store.Promise(CLUSTER, Epoch(99, "own"), "node4.example.org")
    with pytest.raises(StoreError) as caught:
        store.ConfirmNodes([cluster.members[3].uuid], 60.0, joining=True)
    assert not isinstance(caught.value, MasterLost) and "epoch 99.own" in str(caught.value)
    with pytest.raises(StoreError) as refused:
        store.AddVoter(cluster.members[3], Rows(Row("node", "4", '"candidate"')))
    assert "follows another master" in str(refused.value) and "start-master" in str(refused.value.hint)
    runtime.Sleep(100)
    store.Commit(ROW)
    assert store.IsRunning() and cluster.lost == []
    # The next start of this master is above what that node promised.
    store.Stop()
    new = cluster.Become(0)
    new.ConfirmNodes([cluster.members[3].uuid], 3.0, joining=True)
    new.AddVoter(cluster.members[3], Rows(Row("node", "4", '"candidate"')))
    assert len(new.Voters()) == 4


def test_words_for_silence() -> None:
    rejecting = Silent("node1", Failure.REJECTED, "")
    refusing = Silent("node2", Failure.REFUSED, "")
    away = Silent("node3", Failure.UNREACHABLE, "")
    stuck = Silent("node4", Failure.SILENT, "")
    assert Describe([away, rejecting]) == "node1 rejected this node's certificate; node3 cannot be reached"
    step = NextStep([away, rejecting, refusing], "node9", "FORCE")
    assert "FORCE" not in step and "gnt-node modify --offline no node9" in step
    assert "FORCE" not in NextStep([away, stuck], "node9", "FORCE")
    step = NextStep([away, refusing], "node9", "FORCE")
    assert step.index("start ganeti-noded") < step.index("FORCE") and "on node2 run" in step
    assert NextStep([away], "node9", "FORCE") == "only if node3 are switched off and stay off: 'FORCE'"


def test_a_silent_node_is_named_once_with_address_and_reason() -> None:
    reason = "node node3 (192.0.2.3:1811): cannot connect: Connection refused"
    error = NoQuorum({"node3": Silent("node3", Failure.REFUSED, reason)}, 2)
    assert "no answer from node3 (192.0.2.3:1811: cannot connect: Connection refused);" in str(error)
