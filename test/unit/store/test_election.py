"""Becoming master, or not (rules 5, 8 and 11)."""

from __future__ import annotations

from typing import Any

import pytest
from simulated import World
from support.store_nodes import Cluster, Live, Story, Until

from ganeti import errors, runtime, serializer
from ganeti.store import Epoch, NotKnown, Row, Rows, StoreError, Voter, election
from ganeti.store.base import ID_MASTER, KIND_MASTER
from ganeti.store.copy.database import Database
from ganeti.store.election import Adopted, NotElected


def NamesAnother() -> None:
    raise errors.NotMasterError("node2 is the master")


@pytest.mark.req("D20-VOTE-07", "D20-VOTE-10")
@Story
def test_a_lost_vote_disturbs_nobody(make: Any) -> None:
    """An old master that is started again after a fail-over only asks; the new one goes on."""
    cluster = make(3)
    cluster.Found().Stop()
    store = cluster.Become(1)
    with pytest.raises(errors.NotMasterError):
        cluster.Become(0, vote=NamesAnother)
    store.Commit(Rows(Row("job", "1", "{}")))
    assert cluster[0].store.GetState().promised == store.Epoch()
    assert not cluster.lost


@pytest.mark.req("D20-VOTE-02", "D20-VOTE-04", "D20-VOTE-05")
@Story
def test_every_node_is_asked_and_the_newest_copy_wins(make: Any) -> None:
    cluster = make(5)
    store = cluster.Found(candidates=3)
    cluster[1].up = False
    for number in range(3):
        store.Commit(Rows(Row("job", str(number), "{}")))
    store.Stop()
    cluster[1].up = True
    asked = [node.served.count("store_promise") for node in cluster.nodes]
    # node2 is behind; what it lacks is fetched before it opens.
    new = cluster.Become(1)
    assert sorted(new.Rows("job")) == ["0", "1", "2"]
    assert [node.served.count("store_promise") - before for node, before in zip(cluster.nodes, asked, strict=True)] == [
        1,
        0,
        1,
        1,
        1,
    ]
    assert "store_fetch" in cluster[0].served + cluster[2].served


@pytest.mark.req("D20-VOTE-03", "D20-VOTE-07", "D20-VOTE-11")
@Story
def test_a_stale_node_does_not_become_master_when_the_newest_copies_are_silent(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[1].up = False
    store.Commit(Rows(Row("job", "1", "{}")))
    store.Stop()
    cluster[0].up = cluster[2].up = False
    cluster[1].up = True
    with pytest.raises(NotElected) as caught:
        cluster.Become(1)
    assert "node1.example.org, node3.example.org" in str(caught.value)
    assert "--no-voting" in str(caught.value.hint)
    # Nothing is left that would keep another start from being made.
    cluster[2].up = True
    assert cluster.Become(2).Rows("job") == {"1": "{}"}


@pytest.mark.req("D20-VOTE-11")
@Story
def test_a_node_without_a_copy_does_not_become_master(make: Any) -> None:
    cluster = make(3)
    cluster.Found(candidates=2)
    with pytest.raises(NotElected, match="no copy"):
        cluster.Become(2)
    assert not cluster.lost


@Story
def test_a_node_that_was_taken_out_does_not_become_master(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found()
    cluster[3].up = False
    store.RemoveVoter(cluster.members[3].uuid, Rows())
    store.Stop()
    cluster[3].up = True
    with pytest.raises(NotElected) as caught:
        cluster.Become(3)
    assert "does not count this node among its voters: node1.example.org, node2.example.org" in str(caught.value)


@Story
def test_members_that_the_own_copy_does_not_know_are_asked(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=2)
    cluster[1].up = False
    store.RemoveVoter(cluster.members[1].uuid, Rows())
    for number in (2, 3):
        store.AddVoter(cluster.members[number], Rows())
    cluster[1].up = True
    store.AddVoter(cluster.members[1], Rows())
    store.Stop()
    # It is told of two nodes only, and finds the others by what those say.
    cluster.members = cluster.members[:2]
    new = cluster.Become(1)
    assert len(new.Voters()) == 4


@Story
def test_members_that_turn_up_in_an_answer_are_asked_in_the_same_round(make: Any) -> None:
    """A voter that was away while others joined finds them through those it knows, and needs them for its quorum."""
    cluster = make(5)
    store = cluster.Found(candidates=2)
    store.AddVoter(cluster.members[2], Rows())
    cluster[1].up = False
    for number in (3, 4):
        store.AddVoter(cluster.members[number], Rows())
    store.Stop()
    cluster[0].up, cluster[1].up = False, True
    assert len(cluster[1].store.GetVoters()) == 3
    cluster.members = cluster.members[:3]
    new = cluster.Become(1)
    assert len(new.Voters()) == 5
    assert "store_promise" in cluster[3].served and "store_promise" in cluster[4].served


def _Lead(cluster: Any, number: int, epoch: Epoch, count: int) -> None:
    """Have a node store transactions of an epoch on top of what it holds, which nobody else gets."""
    own = cluster[number].store
    own.Promise("", epoch, cluster[number].name)
    own.Adopt(epoch, None, own.GetLine(), 0, True, [Row("job", "who", f'"{epoch}"')])
    for turn in range(1, count):
        own.Store(epoch, [Row("job", str(turn), f'"{epoch}"')], own.GetState().acknowledged)


@pytest.mark.parametrize("starter", [0, 1, 2])
def test_the_newest_history_is_not_the_longest(starter: int) -> None:
    """An old master may have stored more alone than its successor together with others."""

    @Story
    def play(make: Any) -> None:
        cluster = make(3)
        cluster.Found().Stop()
        _Lead(cluster, 0, Epoch(5, "aa"), 6)
        for number in (1, 2):
            _Lead(cluster, number, Epoch(6, "bb"), 2)
        cluster.members = cluster.members[:]
        new = cluster.Become(starter)
        assert new.Value("job", "who") == '"6.bb"'
        Until(lambda: Live(cluster[0]) == Live(cluster[1]) == Live(cluster[2]))

    play()


@Story
def test_a_node_behind_pruned_deletions_fetches_everything(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    store.Commit(Rows(Row("job", "gone", "{}")))
    Until(store.IsSettled)
    cluster[1].up = False
    store.RemoveVoter(cluster.members[1].uuid, Rows())
    store.Commit(Rows(Row("job", "gone", None)))
    store.Commit(Rows(Row("job", "1", "{}")))
    Until(lambda: cluster[0].store.GetState().pruned and cluster[2].store.GetState().pruned)
    store.Stop()
    # It counts again, by a copy that it got from nobody yet.
    voters = cluster[0].store.GetVoters()
    mine = Voter(cluster.members[1], cluster[1].store.GetState().store_id)
    epoch = Epoch(50, "aa")
    for number in (0, 2):
        own = cluster[number].store
        own.Promise("", epoch, "node1")
        own.Adopt(epoch, None, own.GetLine(), own.GetState().pruned, True, [voters.With(mine).Row()])
    cluster[1].up = True
    new = cluster.Become(1)
    assert new.Rows("job") == {"1": "{}"}
    assert cluster[1].store.database.GetValue("job", "gone") is None


@Story
def test_the_voters_do_not_change_before_the_first_transaction_is_acknowledged(make: Any) -> None:
    """A lost disk is seen by the election already; what it adopted may still be unacknowledged."""
    cluster = make(3)
    cluster.Found().Stop()
    cluster[2].LoseDisk()
    lasts: list[int] = []

    def slow(path: str, body: Any) -> None:
        if path == "/store_append":
            runtime.Sleep(1.0)
            lasts.append(cluster[0].store.GetState().last.seq)

    cluster[1].fault = slow
    before = cluster[0].store.GetState().last.seq
    store = cluster.Become(0)
    assert lasts[0] == before + 1
    Until(lambda: len(store.Voters()) == 2, 60)


@Story
def test_what_was_not_known_may_turn_up_as_a_change_like_any_other(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotKnown):
        store.Commit(Rows(Row("job", "1", "{}")))
    cluster[1].up = cluster[2].up = True
    store.Stop(0)
    new = cluster.Become(0)
    assert new.Rows("job") == {"1": "{}"}
    Until(lambda: Live(cluster[0]) == Live(cluster[1]) == Live(cluster[2]))


@Story
def test_or_it_may_be_gone_where_a_newer_master_never_heard_of_it(make: Any) -> None:
    cluster = make(3)
    store = cluster.Found()
    cluster[1].up = cluster[2].up = False
    with pytest.raises(NotKnown):
        store.Commit(Rows(Row("job", "1", '"alone"')))
    store.Stop(0)
    cluster[0].up = False
    cluster[1].up = cluster[2].up = True
    new = cluster.Become(1)
    new.Commit(Rows(Row("job", "2", "{}")))
    cluster[0].up = True
    Until(lambda: Live(cluster[0]) == Live(cluster[1]))
    assert new.Rows("job") == {"2": "{}"}
    kept = [name for name in runtime.ListDir(f"{cluster[0].folder}/ext") if name.startswith("replaced-")]
    with Database(f"{cluster[0].folder}/ext/{kept[0]}") as database:
        assert database.GetValue("job", "1") == '"alone"'


@Story
def test_the_first_transaction_takes_along_what_the_caller_adds(make: Any) -> None:
    cluster = make(3)
    cluster.Found(0, Row("cluster", "cluster", '{"master":"node1"}')).Stop()
    seen: list[tuple[dict[str, str], tuple[str, ...]]] = []

    def first(adopted: Adopted) -> list[Row]:
        seen.append((dict(adopted.values["cluster"]), adopted.without))
        return [Row("cluster", "cluster", '{"master":"node2"}')]

    new = cluster.Become(1, first=first)
    assert seen == [({"cluster": '{"master":"node1"}'}, ())]
    assert new.Rows("cluster") == {"cluster": '{"master":"node2"}'}
    record = serializer.Load(new.Rows(KIND_MASTER)[ID_MASTER])
    assert (record["name"], record["epoch"]) == ("node2.example.org", str(new.Epoch()))


@Story
def test_a_refusal_by_the_caller_touches_nothing(make: Any) -> None:
    cluster = make(3)
    cluster.Found(0, Row("job", "1", "{}")).Stop()
    before = cluster[1].store.GetState().last

    def refuse(adopted: Adopted) -> list[Row]:
        raise errors.ConfigurationError("config.data was edited")

    with pytest.raises(errors.ConfigurationError):
        cluster.Become(1, first=refuse)
    assert cluster[1].store.GetState().last == before
    assert cluster.Become(1).Rows("job") == {"1": "{}"}


@Story
def test_two_daemons_on_one_node_do_not_open_the_store_together(make: Any) -> None:
    cluster = make(1)
    cluster.Found()
    with pytest.raises(errors.LockError):
        cluster.Become(0)


# Forced starts


@Story
def test_a_forced_start_asks_for_everything_the_administrator_vouches_for(make: Any) -> None:
    cluster = make(4)
    store = cluster.Found(candidates=3)
    store.Commit(Rows(Row("job", "1", "{}")))
    store.Stop()
    cluster[0].up = cluster[1].up = False
    questions: list[Any] = []

    def vouch(question: Any) -> bool:
        questions.append(question)
        return len(questions) > 1

    with pytest.raises(NotElected, match="not confirmed"):
        cluster.Become(2, vouch=vouch)
    seen: list[Adopted] = []

    def first(adopted: Adopted) -> list[Row]:
        seen.append(adopted)
        return []

    new = cluster.Become(2, vouch=vouch, first=first)
    assert questions[1].silent == ["node1.example.org", "node2.example.org"]
    assert [name for name, _ in questions[1].answers] == ["node3.example.org", "node4.example.org"]
    text = "\n".join(questions[1].Lines())
    assert "node1.example.org, node2.example.org" in text and "must be off" in text
    assert sorted(seen[0].without) == sorted(member.uuid for member in cluster.members[:2])
    assert new.Voters().Names() == ["node3.example.org"]
    assert serializer.Load(new.Rows(KIND_MASTER)[ID_MASTER])["forced"]["without"] == questions[1].silent


@Story
def test_no_voting_with_a_quorum_is_no_forced_start(make: Any) -> None:
    cluster = make(3)
    old = cluster.Found()
    cluster[2].up = False

    def vouch(question: Any) -> bool:
        raise AssertionError("there is nothing to vouch for")

    new = cluster.Become(1, vouch=vouch)
    assert len(new.Voters()) == 3
    assert new.Epoch() > old.Epoch()


@Story
def test_a_forced_start_ends_when_somebody_answers_after_the_question(make: Any) -> None:
    cluster = make(3)
    cluster.Found().Stop()
    cluster[0].up = cluster[1].up = False

    def vouch(question: Any) -> bool:
        cluster[0].up = True
        return True

    with pytest.raises(NotElected, match="answers now"):
        cluster.Become(2, vouch=vouch)
    assert len(cluster.Become(2).Voters()) == 3


@Story
def test_a_forced_start_ends_when_another_master_starts_after_the_question(make: Any) -> None:
    cluster = make(4)
    cluster.Found().Stop()
    cluster[0].up = cluster[1].up = False

    def vouch(question: Any) -> bool:
        with pytest.raises(NotElected):
            cluster.Become(3)
        return True

    with pytest.raises(NotElected, match="came in between"):
        cluster.Become(2, vouch=vouch)


# The first history


@Story
def test_files_are_not_read_where_somebody_has_a_store(make: Any) -> None:
    cluster = make(3)
    cluster.Found(candidates=2).Stop()
    with pytest.raises(NotElected) as caught:
        cluster.Found(2)
    assert "node1.example.org has a copy" in str(caught.value)


@Story
def test_the_first_history_needs_half_plus_one_of_all_nodes(make: Any) -> None:
    cluster = make(5)
    cluster[1].up = cluster[2].up = cluster[3].up = False
    with pytest.raises(NotElected) as caught:
        cluster.Found(0, candidates=3)
    assert "only 2 nodes answer, 3 are needed" in str(caught.value)
    assert cluster[0].store.GetState().last.seq == 0
    cluster[3].up = True
    store = cluster.Found(0, Row("job", "1", "{}"), candidates=3)
    # The candidates that answered are the first voters.
    assert store.Voters().Names() == ["node1.example.org"]


@Story
def test_the_first_history_may_be_forced(make: Any) -> None:
    cluster = make(3)
    cluster[1].up = cluster[2].up = False
    store = cluster.Found(0, Row("job", "1", "{}"), vouch=lambda question: True)
    assert store.Rows("job") == {"1": "{}"}


@pytest.mark.parametrize("start", range(1, 61, 20))
def test_of_several_nodes_that_try_to_begin_one_can(start: int) -> None:
    for seed in range(start, start + 20):
        with World(seed) as world:
            world.AddMachine("all").Call(_BeginTogether)
            assert not world.failures


def _BeginTogether() -> None:
    cluster = Cluster("/srv", 3)
    opened: list[Any] = []
    ends: list[Any] = []

    def begin(number: int) -> None:
        try:
            opened.append(cluster.Found(number, Row("job", "who", str(number)), ready_timeout=30))
        except StoreError as err:
            ends.append(err)
        else:
            ends.append(None)

    for number in range(3):
        runtime.Thread(begin, f"begin-{number}", (number,)).start()
    Until(lambda: len(ends) == 3, 300)
    assert len([store for store in opened if store.IsRunning()]) <= 1
    if not any(store.IsRunning() for store in opened):
        # They stood in each other's way: the next start finds a store, or none at all.
        with_rows = [number for number, node in enumerate(cluster.nodes) if node.store.GetState().last.seq]
        opened.append(cluster.Become(with_rows[0]) if with_rows else cluster.Found(0, Row("job", "who", "0")))
    (winner,) = {store.Rows("job")["who"] for store in opened}
    Until(lambda: all(Live(node).get(("job", "who")) == winner for node in cluster.nodes), 100)
    cluster.Close()


def test_a_question_can_be_read() -> None:
    question = election.ForcedStart(Epoch(3, "x"), [], [], "node1", ["node1"])
    assert "none" in "\n".join(question.Lines())
