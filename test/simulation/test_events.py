"""No event is lost or invented, whatever happens to masters, and the simulation would see it."""

from __future__ import annotations

import pytest
from simulation.harness.followers import BUGS, RunEvents
from simulation.harness.play import Describe

SEEDS = 60
_CHUNK = 20
SEEDS_FOR_A_BUG = 40


@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_followers_know_what_is_stored(start: int) -> None:
    results = [RunEvents(seed) for seed in range(start, start + _CHUNK)]
    broken = [result for result in results if result.problem]
    assert not broken, "\n".join(Describe("events", result, events=True) for result in broken)
    assert sum(result.executed for result in results) > 20 * _CHUNK
    assert sum(result.outcomes["resumed"] for result in results) > 0


def test_a_seed_gives_the_same_run_again() -> None:
    first, second = RunEvents(7), RunEvents(7)
    assert (first.steps, first.events, first.outcomes) == (second.steps, second.events, second.outcomes)


@pytest.mark.parametrize("bug", BUGS)
def test_each_planted_bug_is_found(bug: type) -> None:
    assert any(RunEvents(seed, bug).problem for seed in range(1, SEEDS_FOR_A_BUG + 1))
