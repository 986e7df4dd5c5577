"""Volume groups that are repaired below mirrors: what is acknowledged stays; and that it would be seen otherwise."""

from __future__ import annotations

import pytest
from simulation.harness.play import Describe
from simulation.harness.remembered import Remembered
from simulation.mirrors import groupbugs
from simulation.mirrors.groups import Run

SEEDS = 200
_CHUNK = 50
_Plain = Remembered(Run, 100)


@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_no_promise_is_broken_under_faults(start: int) -> None:
    broken = [result for seed in range(start, start + _CHUNK) if (result := _Plain(seed)).problem]
    assert not broken, "\n".join(Describe("groups", result, events=True) for result in broken)


@pytest.mark.parametrize("seed", [460, 507])
def test_a_late_call_takes_no_volumes_from_a_side_that_counts_again(seed: int) -> None:
    """The repair had given up waiting for it, and both copies counted when it arrived."""
    result = Run(seed)
    assert not result.problem, Describe("groups", result, events=True)


def test_there_is_something_to_see() -> None:
    text = "\n".join(event for seed in range(1, 101) for event in _Plain(seed).events)
    for words in (
        "OP_REPAIR_NODE_STORAGE", "secondary 1/0 0 writes> is away", "primary 1/0 0 writes> is away", "Detaching disk/0",
        "lost xenvg/", "replace_auto", "may hold the only good copy", "is there again", "is taken back", "unanswered",
        "loses power", "master daemon is killed",
    ):  # fmt: skip
        assert words in text, words


@pytest.mark.limit(180)
@pytest.mark.parametrize("bug", groupbugs.BUGS, ids=lambda bug: bug.__name__)
def test_each_planted_bug_is_found(bug: type[groupbugs.Bug]) -> None:
    problems = (Run(seed, bug).problem for seed in bug.seeds)
    # A broken promise, not a bug that cannot even run.
    assert next(filter(None, problems), "").startswith("Violation")
