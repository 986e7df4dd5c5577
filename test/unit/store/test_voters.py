"""Nodes come and go (rule 4): who is copied, who is taken out, who waits for it, and what a master makes of silence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from simulated import World

from ganeti import runtime
from ganeti.rpc.base import Failure
from ganeti.store import Epoch, Member, NodeStore, Position, Rows, StoreError, Voter
from ganeti.store.base import NOWHERE, Line, VoterSet
from ganeti.store.commit.peers import LONG_RETRY_SECONDS, LONG_SILENT, RETRY_SECONDS, Copy, LearnerNeeds, Peer, Sender
from ganeti.store.commit.tally import Tally
from ganeti.store.commit.voters import FAILING_FOR, READY_FOR, RECONCILE_SECONDS, CheckReach, VoterStep, VoterSteps

E1, E2 = Epoch(1, "a"), Epoch(2, "b")


def OnMachine(story: Callable[[], None]) -> Callable[[], None]:
    """A test whose time passes at once when it sleeps."""

    def test() -> None:
        with World(5) as world:
            world.AddMachine("one").Call(story)
            assert not world.failures

    test.__name__ = story.__name__
    test.__doc__ = story.__doc__
    return test


def member(number: int) -> Member:
    return Member(f"u{number}", f"n{number}", f"192.0.2.{number}")


def voters(*numbers: int) -> VoterSet:
    return VoterSet(Voter(member(number), f"s{number}") for number in numbers)


def at(seq: int, epoch: Epoch = E2) -> Position:
    return Position(epoch, seq)


def peer(number: int, confirmed: Position = NOWHERE, **more: Any) -> Peer:
    return Peer(member(number), store_id=f"s{number}", confirmed=confirmed, known=True, **more)


class Steps:
    """A master's steps, what it is told of the candidates, and how the steps ended."""

    def __init__(self, *peers: Peer, wanted: list[int] | None = None):
        self.wanted = wanted
        self.placed: list[str] = []
        self.ends: list[tuple[str, Any]] = []
        sender = Sender(NodeStore("/srv/store.db", "n1"), "c", E2, lambda *args: None, lambda *args: None)
        self.steps = VoterSteps(sender, member(1), self._Candidates, lambda found: self.placed.append(found.name))
        self.peers = sender.peers
        self.peers.update((each.member.uuid, each) for each in peers)

    def _Candidates(self) -> list[Member] | None:
        return None if self.wanted is None else [member(number) for number in self.wanted]

    def Want(self, add: int = 0, remove: int = 0, **more: Any) -> VoterStep:
        more.setdefault("deadline", runtime.Monotonic() + 60)
        name = f"add {add}" if add else f"remove {remove}"
        step = VoterStep(
            Rows(),
            lambda error: self.ends.append((name, error)),
            add=member(add) if add else None,
            remove=f"u{remove}" if remove else "",
            **more,
        )
        self.steps.Add(step)
        return step

    def Waiting(self) -> list[tuple[str, bool, bool]]:
        """Who comes or goes: (node, whether it comes, whether the master itself wants it)."""
        return [(step.uuid, step.add is not None, step.own_affair) for step in self.steps.waiting]


@OnMachine
def test_who_is_to_come_in_is_copied_and_becomes_a_voter_when_it_is_ready() -> None:
    made = Steps()
    step = made.Want(add=2)
    assert made.placed == ["n2"], "its address is known before it is called"
    made.steps.Look(voters(1), busy=False)
    learner = made.peers["u2"]
    assert learner.learner and not learner.known and made.steps.Ready(voters(1)) == []
    learner.Answered("s2", at(7), 0, E2)
    learner.told = at(7)
    made.steps.Look(voters(1), busy=False)
    assert made.peers["u2"] is learner, "it is not begun anew"
    assert made.steps.Ready(voters(1)) == [(step, voters(1, 2))]
    made.steps.Entered(voters(1, 2, 3))
    assert not learner.learner
    assert made.steps.Ready(voters(1, 2)) == [(step, voters(1, 2))], "one that is in already has nothing left to do"


@OnMachine
def test_who_goes_is_emptied_once_that_is_acknowledged() -> None:
    made = Steps(peer(2), peer(3, unfit="restored"))
    made.Want(remove=2)
    made.steps.Look(voters(1, 2, 3, 4), busy=False)
    ((_, after),) = [ready for ready in made.steps.Ready(voters(1, 2, 3, 4)) if ready[0].remove == "u2"]
    assert after == voters(1, 3, 4) and not made.peers["u2"].leaving
    made.steps.Left(voters(1, 2, 3, 4), voters(1))
    left = {uuid: (found.leaving, found.store_id, found.known) for uuid, found in made.peers.items()}
    # Whose database is not the one that was listed is asked for its id first.
    assert left == {"u2": (True, "s2", True), "u3": (True, "", False), "u4": (True, "s4", True)}
    assert made.placed == ["n2", "n3", "n4"]
    made.steps.Empty(Member("u5", "n5", ""), "s5")
    assert made.placed == ["n2", "n3", "n4"] and made.peers["u5"].leaving


@OnMachine
def test_a_change_of_the_configuration_comes_before_the_master_s_own_idea() -> None:
    made = Steps(peer(2, learner=True), peer(3, learner=True))
    for number in (2, 3):
        made.Want(add=number, own_affair=True)
    asked = made.Want(add=2)
    assert made.Waiting() == [("u3", True, True), ("u2", True, False)]
    assert made.steps.AskedFor("u2") == [asked] and made.steps.AskedFor("u3") == []
    # A second one is another administrator's, who waits, too.
    made.Want(remove=2)
    assert made.Waiting() == [("u3", True, True), ("u2", True, False), ("u2", False, False)]
    # The master's own idea replaces nobody's.
    made.Want(remove=2, own_affair=True)
    assert len(made.Waiting()) == 4


@OnMachine
def test_the_copy_made_for_a_step_that_was_given_up_is_removed_unless_the_node_may_soon_need_it() -> None:
    made = Steps(peer(2, learner=True), peer(3, learner=True), peer(4))
    asked, own, voter, leaver = (
        made.Want(add=2),
        made.Want(add=3, own_affair=True),
        made.Want(add=4),
        made.Want(remove=4),
    )
    for step in (asked, own, voter, leaver):
        made.steps.Drop(step)
    assert made.Waiting() == []
    assert made.peers["u2"].leaving and not made.peers["u2"].store_id, "it is emptied"
    assert "u3" not in made.peers, "what it holds saves a copy when it returns"
    assert not made.peers["u4"].leaving, "a voter stays what it is"
    never_seen = made.Want(add=5)
    made.steps.Drop(never_seen)
    assert "u5" not in made.peers


@OnMachine
def test_who_waits_for_a_node_that_gets_no_copy_is_told_why_in_time() -> None:
    made = Steps(peer(4))
    made.Want(add=2, deadline=runtime.Monotonic() + 5)
    made.Want(add=3, deadline=runtime.Monotonic() + 5)
    made.Want(remove=4, deadline=runtime.Monotonic() + 5)
    made.Want(remove=9, deadline=runtime.Monotonic() + 5)
    made.Want(add=5, own_affair=True, deadline=0.0)
    made.steps.Look(voters(1, 4), busy=False)
    made.peers["u2"].Failed(runtime.Monotonic(), "no route to host")
    assert made.ends == []
    runtime.Sleep(5)
    made.steps.Look(voters(1, 4), busy=False)
    assert made.Waiting() == [("u5", True, True)], "nobody waits for the master's own idea"
    told = {name: (str(error), error.hint) for name, error in made.ends if isinstance(error, StoreError)}
    assert "node n2 could not be given a copy of the store (no route to host); nothing was changed" in told["add 2"][0]
    assert told["add 2"][1] == "look at the node daemon of n2 and try again"
    assert "(it took too long)" in told["add 3"][0]
    assert told["remove 4"][0].startswith("node n4 is still a voter:") and told["remove 9"][0].startswith("node u9 is")
    assert made.peers["u2"].leaving


@OnMachine
def test_who_waits_for_a_node_that_keeps_answering_with_an_error_is_told_soon() -> None:
    made = Steps(peer(2, learner=True), peer(3, learner=True), peer(4, learner=True), peer(5))
    for number in (2, 3, 4, 5):
        made.Want(add=number, patient=number == 2, deadline=runtime.Monotonic() + 300)
    made.Want(remove=5, deadline=runtime.Monotonic() + 300)
    for _ in range(4):
        now = runtime.Monotonic()
        for number in (2, 3, 5):
            made.peers[f"u{number}"].Failed(now, "database or disk is full")
        # One that is away may be starting, and then has to be given its time.
        made.peers["u4"].Failed(now, "no route to host", Failure.UNREACHABLE)
        made.steps.Look(voters(1, 5), busy=False)
        runtime.Sleep(FAILING_FOR / 4)
    assert made.ends == [], "a disk that is cleaned up within half a minute is early enough"
    made.peers["u3"].Failed(runtime.Monotonic(), "refused", Failure.REFUSED)
    made.peers["u3"].Failed(runtime.Monotonic(), "database or disk is full")
    runtime.Sleep(1)
    made.steps.Look(voters(1, 5), busy=False)
    [(name, error)] = made.ends
    assert name == "add 2" and "copy of the store (database or disk is full); nothing was changed" in str(error)
    assert made.peers["u2"].leaving


@OnMachine
def test_an_answer_that_makes_sense_ends_a_row_of_errors() -> None:
    failing = peer(2, learner=True)
    failing.Failed(1.0, "disk full")
    failing.Heard()
    failing.Failed(50.0, "disk full")
    assert failing.FailingFor(60.0) == pytest.approx(10.0)


@OnMachine
def test_a_patient_step_is_not_given_up_while_only_the_quorum_is_missing() -> None:
    made = Steps(peer(2, at(7), learner=True, told=at(7)), peer(3, at(7), learner=True, told=at(7)))
    patient, other = (made.Want(add=number, patient=number == 2, deadline=runtime.Monotonic() + 1) for number in (2, 3))
    for _ in range(3):
        runtime.Sleep(READY_FOR / 2)
        made.steps.Look(voters(1), busy=False)
    assert [name for name, _ in made.ends] == ["add 3"] and made.steps.waiting == [patient]
    assert other not in made.steps.waiting
    # Once the node itself falls behind, it has so long to come back.
    made.peers["u2"].told = at(8)
    runtime.Sleep(READY_FOR - 0.1)
    made.steps.Look(voters(1), busy=False)
    assert made.steps.waiting == [patient]
    runtime.Sleep(0.2)
    made.steps.Look(voters(1), busy=False)
    assert made.steps.waiting == []


@OnMachine
def test_a_voter_with_another_database_is_taken_out_by_the_master_itself_and_once() -> None:
    made = Steps(peer(2, unfit="the disk was replaced"), peer(3), peer(5, unfit="no voter"))
    for _ in range(2):
        made.steps.Look(voters(1, 2, 3, 4), busy=True)
        assert made.Waiting() == [("u2", False, True)]


@OnMachine
def test_the_voters_follow_the_candidates_whatever_an_earlier_master_left_unfinished() -> None:
    made = Steps(peer(2), wanted=[1, 2, 3])
    made.steps.Look(voters(1, 2, 4), busy=True)
    assert made.Waiting() == [], "a busy master looks later"
    runtime.Sleep(RECONCILE_SECONDS - 0.1)
    made.steps.Look(voters(1, 2, 4), busy=False)
    assert made.Waiting() == []
    runtime.Sleep(0.2)
    made.steps.Look(voters(1, 2, 4), busy=False)
    assert made.Waiting() == [("u3", True, True), ("u4", False, True)]
    assert made.placed == ["n3"]
    runtime.Sleep(RECONCILE_SECONDS)
    made.steps.Look(voters(1, 2, 4), busy=False)
    assert len(made.Waiting()) == 2 and made.peers["u3"].learner, "neither is begun twice"
    # The third is no candidate any more before it was copied.
    made.wanted = [1, 2]
    runtime.Sleep(RECONCILE_SECONDS)
    made.steps.Look(voters(1, 2, 4), busy=False)
    assert made.Waiting() == [("u4", False, True)] and "u3" not in made.peers


@OnMachine
def test_a_configuration_that_names_nobody_or_not_this_node_changes_no_voter() -> None:
    for wanted in (None, [], [2, 3]):
        made = Steps(wanted=wanted)
        made.Want(add=9, own_affair=True)
        runtime.Sleep(RECONCILE_SECONDS)
        made.steps.Look(voters(1, 2, 4), busy=False)
        assert made.Waiting() == [("u9", True, True)]


@OnMachine
def test_a_step_that_somebody_asked_for_is_left_alone_by_the_look_at_the_candidates() -> None:
    made = Steps(wanted=[1, 2])
    made.Want(add=3)
    made.Want(remove=2)
    made.steps.Look(voters(1, 2), busy=False)
    assert made.Waiting() == [("u3", True, False), ("u2", False, False)]


@OnMachine
def test_the_master_looks_again_when_the_first_of_those_who_wait_runs_out_of_time() -> None:
    made = Steps()
    now = runtime.Monotonic()
    made.steps.Look(voters(1), busy=False)
    assert made.steps.Deadline() == pytest.approx(now + RECONCILE_SECONDS)
    made.Want(add=2, deadline=now + 7)
    made.Want(add=3, deadline=now + 3)
    made.Want(add=4, deadline=now + 1, own_affair=True)
    assert made.steps.Deadline() == now + 3


def tally(*peers: Peer, of: VoterSet) -> Tally:
    line = Line([(E2, 1)], at(9))
    return Tally("u1", E2, {each.member.uuid: each for each in peers}, line, of, 0, [])


def test_a_set_that_would_have_no_quorum_is_refused_with_the_node_to_bring_back() -> None:
    now = tally(peer(2), peer(3, silent=True, failure=Failure.UNREACHABLE, last_error="no route"), of=voters(1, 2, 3))
    assert CheckReach(now, voters(1, 2, 3)) is None and CheckReach(now, voters(1, 2)) is None
    refused = CheckReach(now, voters(1, 3))
    assert refused is not None and (refused.silent, refused.voters) == (["n3"], 2)
    assert str(refused.hint).startswith("bring n3 back; if n3 is switched off for good")
    assert now.IsVoter("u2") and now.IsVoter("n3") and not now.IsVoter("n4") and not now.IsVoter("s2")


# What a master knows of one node


def test_a_node_that_falls_silent_is_asked_again_soon_and_a_learner_seldom_after_a_while() -> None:
    voter, learner, leaver = peer(2), peer(3, learner=True), peer(4, leaving=True)
    for each in (voter, learner, leaver):
        each.copy = Copy("c", None, 0, (0, "", ""))
        each.busy = True
    began = 100.0
    for now in (began, began + LONG_SILENT, began + LONG_SILENT + 1):
        for each in (voter, learner, leaver):
            each.Failed(now, "no route")
            assert (each.silent, each.busy, each.known, each.copy) == (True, False, False, None)
            assert each.silent_since == began and each.SilentFor(now) == now - began
        pauses = [each.retry_at - now for each in (voter, learner, leaver)]
        long = LONG_RETRY_SECONDS if now > began + LONG_SILENT else RETRY_SECONDS
        assert pauses == pytest.approx([RETRY_SECONDS, long, long])
    assert voter.failure is Failure.SILENT and voter.last_error == "no route"
    voter.Failed(now, "refused", Failure.REFUSED)
    assert voter.failure is Failure.REFUSED
    voter.Heard()
    assert (voter.silent, voter.known, voter.retry_at, voter.last_error, voter.SilentFor(now)) == (
        False,
        True,
        0.0,
        "",
        0.0,
    )


def test_the_log_says_once_that_a_node_fell_silent_and_once_that_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = peer(2)
    for _ in range(3):
        found.Failed(runtime.Monotonic(), "no route")
    for _ in range(3):
        found.Heard()
    assert [record.getMessage() for record in caplog.records] == [
        "The store of node n2 cannot be reached: no route",
        "The store of node n2 answers again",
    ]


def test_an_answer_is_taken_over_and_shows_a_database_that_is_not_the_listed_one() -> None:
    found = peer(2, at(5), busy=True, follows_other=True)
    found.Answered("s2", at(7), 3, E2)
    assert (found.confirmed, found.exported, found.unfit, found.busy, found.follows_other) == (
        at(7),
        3,
        "",
        False,
        False,
    )
    found.Answered("s2", at(7), 4, E2)
    assert (found.exported, found.unfit) == (4, "")
    # A master's first answers may go back: the node had what another epoch did not get acknowledged.
    other = peer(2, at(9, E1))
    other.Answered("s2", at(3, E1), 0, E2)
    assert (other.confirmed, other.unfit) == (at(3, E1), "")
    found.Answered("s2", at(6), 9, E2)
    assert found.unfit.startswith("it is at 2.b/6, behind 2.b/7") and (found.confirmed, found.exported) == (at(7), 4)
    replaced = peer(2, at(5))
    replaced.Answered("new", at(9), 9, E2)
    assert replaced.unfit.startswith("its copy is another one than was listed")
    assert (replaced.store_id, replaced.confirmed, replaced.exported) == ("s2", at(5), 0)


def test_a_node_that_is_no_voter_may_change_its_database_and_begins_anew() -> None:
    for state in ({"learner": True}, {"leaving": True}, {"store_id": ""}):
        found = peer(2, at(5))
        found.copy = Copy("c", None, 0, (0, "", ""))
        for name, value in state.items():
            setattr(found, name, value)
        found.Answered("new", NOWHERE, 0, E2)
        assert (found.store_id, found.confirmed, found.copy, found.unfit) == ("new", NOWHERE, None, "")
    # With the same database its copy goes on, and begins anew only where it went back.
    learner = peer(2, at(5), learner=True)
    learner.copy = copy = Copy("c", None, 0, (0, "", ""))
    learner.Answered("s2", at(6), 0, E2)
    assert learner.copy is copy
    learner.Answered("s2", at(4), 0, E2)
    assert (learner.copy, learner.confirmed, learner.unfit) == (None, at(4), "")


def test_what_an_answer_says_is_news_or_not() -> None:
    found = peer(2, at(5))
    assert found.HasSaid("s2", at(5))
    assert not found.HasSaid("s2", at(6)) and not found.HasSaid("new", at(5))
    found.known = False
    assert not found.HasSaid("s2", at(5))


def test_deletions_are_kept_for_a_node_that_is_being_copied_as_long_as_it_may_come_back() -> None:
    line = Line([(E1, 1), (E2, 5)], at(9))
    found = peer(2, at(7), learner=True)
    assert LearnerNeeds(found, line, 0.0) == 7
    found.copy = Copy("c", None, 6, (0, "", ""))
    assert LearnerNeeds(found, line, 0.0) == 6
    assert LearnerNeeds(peer(2, at(7)), line, 0.0) is None, "a voter is counted otherwise"
    assert LearnerNeeds(peer(2, at(7), learner=True, leaving=True), line, 0.0) is None
    # It needs a full copy anyway.
    assert LearnerNeeds(peer(2, learner=True), line, 0.0) is None
    assert LearnerNeeds(peer(2, at(7, E1), learner=True), line, 0.0) is None
    found.Failed(100.0, "no route")
    assert LearnerNeeds(found, line, 100.0 + LONG_SILENT) == 7
    assert LearnerNeeds(found, line, 100.1 + LONG_SILENT) is None
