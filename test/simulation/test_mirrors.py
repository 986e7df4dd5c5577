"""Mirrors under faults: what is acknowledged stays, and nobody stands still; and that it would be seen otherwise."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from simulation.harness.play import Describe, Result
from simulation.harness.remembered import Remembered
from simulation.migration.judged import Judged
from simulation.migration.master import DRBD
from simulation.migration.qemu import SimulatedDisk
from simulation.migration.world import World
from simulation.mirrors import bugs
from simulation.mirrors.driver import MirrorHalf
from simulation.mirrors.others import BesideOlder, GoesBack, LateCalls
from simulation.mirrors.run import KeptCluster, MirrorParts, People, Run

from ganeti import runtime

SEEDS = 300
_CHUNK = 50
# Within so many seeds each planted bug shows.
SEEDS_FOR_A_BUG = 200
_Plain = Remembered(Run, 100)


@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_no_promise_is_broken_under_faults(start: int) -> None:
    broken = [result for seed in range(start, start + _CHUNK) if (result := _Plain(seed)).problem]
    assert not broken, "\n".join(Describe("mirrors", result, events=True) for result in broken)


@pytest.mark.parametrize("seed", [700183, 700217, 700727, 700737])
def test_the_only_copy_is_not_given_up_for_a_node_whose_storage_failed(seed: int) -> None:
    """A failover that accepts losses is refused there; it used to record first that the other side does not count."""
    result = Run(seed)
    assert not result.problem, Describe("mirrors", result, events=True)


@pytest.mark.parametrize("seed", [672, 919])
def test_the_only_copy_is_not_given_up_for_a_side_that_nobody_has_seen(seed: int) -> None:
    """It was not set up, or its node did not say how it is, and the old primary was marked offline."""
    result = Run(seed)
    assert not result.problem, Describe("mirrors", result, events=True)


@pytest.mark.parametrize("seed", [9100214, 9100269])
def test_the_only_copy_is_not_given_up_for_one_that_nobody_fills(seed: int) -> None:
    """The link broke, or the primary died, a moment ago: from the other side it still looks as if it was being filled."""
    result = Run(seed)
    assert not result.problem, Describe("mirrors", result, events=True)
    assert any("is Inconsistent on target node" in event for event in result.events)


def test_a_late_start_finds_a_side_that_is_closed() -> None:
    """Its fail-over had failed, and an activation after it could not open the disks."""
    result = Run(9100103)
    assert not result.problem, Describe("mirrors", result, events=True)


def test_a_device_that_could_not_be_closed_is_no_excuse_for_writing_on_one_leg() -> None:
    """It was open when the guest was started again, beside a side whose disk had failed meanwhile."""
    result = Run(2078)
    assert not result.problem, Describe("mirrors", result, events=True)


@pytest.mark.parametrize("seed", [9101281, 9101872, 9102035])
def test_an_open_side_without_a_disk_takes_no_older_data(seed: int) -> None:
    """A disk that is readable again while the other side is away; and requests of a guest that has ended are told to nobody."""
    result = Run(seed)
    assert not result.problem, Describe("mirrors", result, events=True)


def test_nobody_fails_over_to_a_side_without_data() -> None:
    """Its disk had failed, which nobody saw as the guest was down: a start there could not succeed."""
    result = Run(7001133)
    assert not result.problem, Describe("mirrors", result, events=True)
    assert any("is Diskless on target node b, its storage failed" in event for event in result.events)


@pytest.mark.parametrize("seed", [700651])
def test_nobody_removes_volumes_that_an_unanswered_call_has_put_to_use(seed: int) -> None:
    """What was made or exchanged although its call was not answered is used or taken down before its volumes go."""
    result = Run(seed)
    assert not result.problem, Describe("mirrors", result, events=True)
    assert any("unanswered" in event for event in result.events)
    assert not [event for event in result.events if "is in use on" in event], Describe("mirrors", result, events=True)


def test_there_is_something_to_see() -> None:
    results = [_Plain(seed) for seed in range(1, 101)]
    ends = Counter(end for result in results for end in Counter(result.outcomes).elements())
    assert ends["done"] > 50 and ends["killed"] > 10, "jobs succeed, and masters die"
    text = "\n".join(event for result in results for event in result.events)
    for words in (
        "frozen:", "continues alone", "both count from now on", "loses power", "filled:",
        "has been behind since", "given up, as requested", "comes late", "over the link is lost",
        "replace_new_secondary", "replace_on_secondary", "the local disk of", "OP_INSTANCE_RECREATE_DISKS",
    ):  # fmt: skip
        assert words in text, words


def test_a_broken_promise_is_told_with_the_faults_that_struck() -> None:
    broken = [result for seed in range(1, 31) if (result := Run(seed, bugs.PrimaryGoesOnBeforeTheRecord)).problem]
    told = [result for result in broken if result.faults]
    assert told
    assert f"faults: {', '.join(told[0].faults)}" in Describe("mirrors", told[0], events=False)


def test_a_silent_node_is_reported_once_until_something_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World(1)
    with Judged(world, Result(1), {"drbd": MirrorHalf, "plain": SimulatedDisk}):
        cluster = KeptCluster(world, DRBD, MirrorParts)
        runtime.EnterSide(cluster.side)
        people = People(world, cluster)
        people.Begin()
        host = cluster.primary
        host.PowerOff()
        cluster.Keep(120.0)
        host.PowerOn()
        host.KillNoded()
        cluster.Keep(120.0)
        host.noded = True
        cluster.Keep(20.0)
    told = [record.getMessage() for record in caplog.records]
    assert [text.partition(": ")[2] for text in told if "did not report the state of its mirrors" in text] == [
        "connection timed out", "connection refused",
    ]  # fmt: skip
    assert len([text for text in told if "reports the state of its mirrors again" in text]) == 1
    assert not [text for text in told if "drbd_states" in text], "neither daemon repeats itself"


def test_a_seed_gives_the_same_run_again() -> None:
    for seed in (3, 8):
        first, second = Run(seed), Run(seed)
        assert (first.steps, first.events, first.faults) == (second.steps, second.events, second.faults)


@pytest.mark.limit(180)
@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.__name__)
def test_each_planted_bug_is_found(bug: type[MirrorParts]) -> None:
    problems = (Run(seed, bug).problem for seed in range(1, SEEDS_FOR_A_BUG + 1))
    # A broken promise, not a bug that cannot even run.
    assert next(filter(None, problems), "").startswith("Violation")


def test_a_call_that_arrives_after_its_migration_opens_nothing() -> None:
    broken = [result for seed in range(40) if (result := Run(seed, faults=0, people=LateCalls)).problem]
    assert not broken, "\n".join(Describe("mirrors", result, events=True) for result in broken)


@pytest.mark.parametrize(
    "bug", [bugs.NodesForgetDecisions, bugs.EndOfTheRecordIsNoDecision], ids=lambda bug: bug.__name__
)
def test_a_migration_that_does_not_number_its_mirrors_is_found(bug: type[MirrorParts]) -> None:
    problems = (Run(seed, bug, 0, LateCalls).problem for seed in range(40))
    assert "two halves are open, and nobody migrates" in next(filter(None, problems), "")


def test_a_guest_is_not_started_with_data_that_the_record_says_is_old() -> None:
    """The kernel takes it for complete, beside a side whose disk cannot be read."""
    broken = [result for seed in range(40) if (result := Run(seed, people=BesideOlder)).problem]
    assert not broken, "\n".join(Describe("mirrors", result, events=True) for result in broken)


def test_an_older_copy_is_used_only_where_nobody_has_seen_the_newer_one() -> None:
    broken = [result for seed in range(40) if (result := Run(seed, people=GoesBack)).problem]
    assert not broken, "\n".join(Describe("mirrors", result, events=True) for result in broken)
