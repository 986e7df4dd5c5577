"""The store's promises under faults, and that the simulation would see them broken."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from simulation.harness import bugs, scenes
from simulation.harness.cluster import Parts
from simulation.harness.main import Describe
from simulation.harness.run import Run

SEEDS = 500
_CHUNK = 50
# Within so many seeds each planted bug shows; the rarest took about a third of it.
SEEDS_FOR_A_BUG = 500


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The daemons of thousands of runs log a lot."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.req("D20-JOB-03", "D20-JOB-09", "D20-VOTE-03", "D20-VOTE-07", "D20-VOTE-11")
@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_no_promise_is_broken_under_faults(start: int) -> None:
    broken = [result for result in map(Run, range(start, start + _CHUNK)) if result.problem]
    assert not broken, "\n".join(Describe(result, events=False) for result in broken)


@pytest.mark.req("D20-JOB-13", "D20-JOB-14", "D20-JOB-16", "D20-JOB-17")
@pytest.mark.parametrize("start", (1, 31, 61))
def test_files_show_what_is_acknowledged(start: int) -> None:
    broken = [result for seed in range(start, start + 30) if (result := Run(seed, exporting=True)).problem]
    assert not broken, "\n".join(Describe(result, events=False) for result in broken)


def test_many_faults_at_once() -> None:
    broken = [result for seed in range(1, 41) if (result := Run(seed, faults=9, changes=80)).problem]
    assert not broken, "\n".join(Describe(result, events=False) for result in broken)


def test_faults_really_strike_and_masters_change() -> None:
    results = [Run(seed) for seed in range(1, 41)]
    assert sum(result.masters for result in results) > 60
    assert sum(result.outcomes.get("not known", 0) for result in results) > 5
    assert sum(result.outcomes.get("acknowledged", 0) for result in results) > 400


def test_a_seed_gives_the_same_run_again() -> None:
    for seed in (3, 11):
        first, second = Run(seed), Run(seed)
        assert (first.steps, first.events) == (second.steps, second.events)


@pytest.mark.parametrize("bug", [bug for bug in bugs.BUGS if bug is not bugs.OldEpochCounted])
def test_each_planted_bug_is_found(bug: type[Parts]) -> None:
    assert any(Run(seed, bug).problem for seed in range(1, SEEDS_FOR_A_BUG + 1))


def test_a_seq_of_an_old_epoch_does_not_count() -> None:
    assert scenes.SeqOfAnOldEpoch(Parts) == ""


def test_it_would_be_seen_if_a_seq_of_an_old_epoch_did_count() -> None:
    assert "acknowledged" in scenes.SeqOfAnOldEpoch(bugs.OldEpochCounted)
