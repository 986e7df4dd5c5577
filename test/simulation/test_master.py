"""Whole masters under faults, with everything people were told; and that the simulation would see it broken."""

from __future__ import annotations

from collections import Counter

import pytest
from simulation.harness.play import Describe
from simulation.harness.remembered import Remembered
from simulation.master import bugs, scenes
from simulation.master.parts import MasterParts
from simulation.master.run import Run

SEEDS = 500
_CHUNK = 5
# Within so many seeds each planted bug shows.
SEEDS_FOR_A_BUG = 300
_Plain = Remembered(Run, 100)
# A seed that shows it, for those that take long to be found; it is tried first.  The first four have a plot of their own.
SEEN = {
    "NothingIsPassedOn": 4,
    "DivergentRowsKept": 5,
    "OldEpochCounted": 11,
    "OldVoterSet": 37,
    "ReplayedTransaction": 10,
    "NoEpochCheck": 13,
    "EditTakenTwice": 66,
    "NoGate": 111,
}


@pytest.mark.req("D20-JOB-03", "D20-JOB-09", "D20-JOB-14", "D20-VOTE-07", "D20-VOTE-08", "D20-VOTE-10", "D20-CALL-01")
@pytest.mark.req("D20-JOB-16", "D20-CALL-02", "D20-CALL-03", "D22-JQ-08")
@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_no_promise_is_broken_under_faults(start: int) -> None:
    results = [_Plain(seed) for seed in range(start, start + _CHUNK)]
    broken = [result for result in results if result.problem]
    assert not broken, "\n".join(Describe("master", result, events=False) for result in broken)
    # Whatever died comes back by a restart alone.
    assert [result.seed for result in results if result.human] == []


def test_many_faults_at_once() -> None:
    broken = [result for seed in range(1, 21) if (result := Run(seed, faults=9, acts=40)).problem]
    assert not broken, "\n".join(Describe("master", result, events=False) for result in broken)


def test_there_is_something_to_see() -> None:
    results = [_Plain(seed) for seed in range(1, 61)]
    ends: Counter[str] = Counter()
    for result in results:
        ends.update(result.outcomes)
    assert set(ends) == {"success", "error", "canceled"}
    assert min(ends.values()) >= 10, ends
    assert sum(result.masters for result in results) > 50
    assert sum(result.changing for result in results) > 500


def test_a_seed_gives_the_same_run_again() -> None:
    for seed in (2, 9):
        first, second = Run(seed), Run(seed)
        assert (first.steps, first.events, first.outcomes) == (second.steps, second.events, second.outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.__name__)
def test_each_planted_bug_is_found(bug: type[MasterParts]) -> None:
    first = SEEN.get(bug.__name__, 1)
    assert first <= SEEDS_FOR_A_BUG
    assert any(Run(seed, bug).problem for seed in (first, *range(1, SEEDS_FOR_A_BUG + 1)))


def test_the_seeds_that_are_tried_first_are_of_bugs_there_are() -> None:
    assert set(SEEN) <= {bug.__name__ for bug in bugs.BUGS}
    assert max(SEEN.values()) <= SEEDS_FOR_A_BUG


def test_a_refused_master_changes_no_node() -> None:
    assert [problem for seed in range(1, 21) if (problem := scenes.TakeOverDuringJobs(seed))] == []


def test_it_would_be_seen_if_a_refused_master_did() -> None:
    broken = [scenes.TakeOverDuringJobs(seed, bugs.CallsWhenRefused) for seed in range(1, 21)]
    assert any("was refused calls" in problem for problem in broken)


def test_a_change_that_found_no_room_is_not_told_to_be_done() -> None:
    assert [problem for seed in range(1, 31) if (problem := scenes.FullDiskForMoments(seed))] == []


def test_it_would_be_seen_if_it_were() -> None:
    """The random runs find it, too: in one of some hundred."""
    broken = [scenes.FullDiskForMoments(seed, bugs.ConfigAnswersEarly) for seed in range(1, 21)]
    assert any("is missing" in problem for problem in broken)


def test_a_job_waits_while_the_quorum_is_missing() -> None:
    assert [problem for seed in range(1, 21) if (problem := scenes.SilenceDuringJobs(seed))] == []


def test_it_would_be_seen_if_it_did_not() -> None:
    broken = [scenes.SilenceDuringJobs(seed, bugs.ImpatientConfig) for seed in range(1, 21)]
    assert any("did not wait for a quorum" in problem for problem in broken)


@pytest.mark.parametrize("count", (2, 3, 4, 5))
def test_a_fail_over_that_was_cut_off_needs_nobody(count: int) -> None:
    """Files are written after the store: each of two nodes named itself, each of three another one, and none could start."""
    assert [problem for seed in range(1, 31) if (problem := scenes.FailOverCutOff(seed, count))] == []


@pytest.mark.slow
def test_an_old_master_that_returns_makes_no_second_one_and_is_taken_back() -> None:
    assert [problem for seed in range(1, 31) if (problem := scenes.OldMasterReturns(seed))] == []


def test_it_would_be_seen_if_a_forced_start_overlooked_who_is_running() -> None:
    broken = [scenes.OldMasterReturns(seed, bugs.RunningNodesGivenUp) for seed in range(1, 6)]
    assert any("without promises" in problem for problem in broken), broken


@pytest.mark.slow
def test_files_are_edited_by_hand_in_some_runs() -> None:
    """That an edit is taken over whenever a start can do so is what every run needs to come to rest."""
    assert sum(_Plain(seed).edits for seed in range(1, 101)) >= 3
