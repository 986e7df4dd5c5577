"""The job queue's promises under faults (Q1 to Q9), and that the simulation would see them broken."""

from __future__ import annotations

import pytest
from simulation.harness import jobbugs
from simulation.harness.jobs import RunJobs
from simulation.harness.play import Describe
from simulation.harness.remembered import Remembered

from ganeti.jqueue import JobQueue

SEEDS = 250
_CHUNK = 50
SEEDS_FOR_A_BUG = 300
_Plain = Remembered(RunJobs, 30)


@pytest.mark.req("D20-JOB-03", "D20-JOB-09", "D20-CALL-01", "D22-JQ-08", "D20-STAT-01", "D20-STAT-03")
@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_no_promise_is_broken_under_faults(start: int) -> None:
    broken = [result for result in map(_Plain, range(start, start + _CHUNK)) if result.problem]
    assert not broken, "\n".join(Describe("jobs", result, events=True) for result in broken)


def test_many_faults_at_once() -> None:
    broken = [result for seed in range(1, 21) if (result := RunJobs(seed, faults=8, count=30)).problem]
    assert not broken, "\n".join(Describe("jobs", result, events=True) for result in broken)


def test_there_is_something_to_see() -> None:
    results = [_Plain(seed) for seed in range(1, 31)]
    total: dict[str, int] = {}
    for result in results:
        for status, number in result.outcomes.items():
            total[status] = total.get(status, 0) + number
    assert set(total) == {"success", "error", "canceled"}
    assert min(total.values()) > 20
    assert sum(result.masters for result in results) > 40
    assert sum(result.executed for result in results) > 500


def test_a_seed_gives_the_same_run_again() -> None:
    for seed in (5, 17):
        first, second = RunJobs(seed), RunJobs(seed)
        assert (first.steps, first.events, first.outcomes) == (second.steps, second.events, second.outcomes)


@pytest.mark.parametrize("bug", jobbugs.BUGS)
def test_each_planted_bug_is_found(bug: type[JobQueue]) -> None:
    assert any(RunJobs(seed, bug).problem for seed in range(1, SEEDS_FOR_A_BUG + 1))
