"""Migration and everything that must know where a guest runs, under faults; and that it would be seen broken."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from simulation.harness.play import Describe
from simulation.harness.remembered import Remembered
from simulation.migration import bugs
from simulation.migration.master import DRBD, Parts
from simulation.migration.plots import PlotOf, TwoLateCalls
from simulation.migration.run import DiskOf, Run

from ganeti.cmdlib.instance.moving.whereabouts import Concerned, Judge, Kind, View
from ganeti.params import runstate

SEEDS = 1000
_CHUNK = 50
# Within so many seeds each planted bug shows.
SEEDS_FOR_A_BUG = 200
_Plain = Remembered(Run, 200)


@pytest.mark.parametrize("start", range(1, SEEDS + 1, _CHUNK))
def test_no_promise_is_broken_under_faults(start: int) -> None:
    broken = [result for seed in range(start, start + _CHUNK) if (result := _Plain(seed)).problem]
    assert not broken, "\n".join(Describe("migration", result, events=True) for result in broken)


def test_there_is_something_to_see() -> None:
    results = [_Plain(seed) for seed in range(1, 201)]
    ends = Counter(end for result in results for end in Counter(result.outcomes).elements())
    assert ends["done"] > 50 and ends["killed"] > 20, "jobs succeed, and masters die"
    text = "\n".join(event for result in results for event in result.events)
    for words in (
        "has arrived", "could not be sent", "comes late", "loses power", "hangs", "it stays on", "never ran it",
        "becomes its primary node", "cannot be started: it runs on", "it is not known what runs on", "--keep",
        "it does not run on any node", "already",
    ):  # fmt: skip
        assert words in text, words


def test_a_seed_gives_the_same_run_again() -> None:
    for seed in (3, 8):
        first, second = Run(seed), Run(seed)
        assert (first.steps, first.events, first.faults) == (second.steps, second.events, second.faults)


@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.__name__)
def test_each_planted_bug_is_found(bug: type[Parts]) -> None:
    assert any(Run(seed, bug).problem for seed in range(1, SEEDS_FOR_A_BUG + 1))


DISKS = [
    ("sharedfile", False),
    *((name, uri) for name in ("rbd", "gluster", "ext") for uri in (False, True)),
    (DRBD, False),
]


@pytest.mark.parametrize("disk", DISKS, ids=lambda disk: f"{disk[0]}{' without a device' if disk[1] else ''}")
def test_two_late_calls_start_no_second_copy(disk: tuple[str, bool]) -> None:
    """One opens the disks again, the other one starts the guest: whatever the disks are, it starts nothing."""
    seeds = (seed for seed in itertools.count(1) if PlotOf(seed) is TwoLateCalls and DiskOf(seed) == disk)
    for seed in seeds:
        events = "\n".join(Run(seed).events)
        assert not Run(seed).problem
        # The last two started late are those that were held.
        if "/blockdev_assemble of" in events and "/instance_start of" in events:
            assert "two copies run" in Run(seed, bugs.StartFromAnyOpening).problem
            return


def test_a_broken_promise_is_told_with_the_faults_that_struck() -> None:
    broken = [result for seed in range(1, 51) if (result := Run(seed, bugs.GoneMeansNeverRan)).problem]
    assert broken
    for result in broken:
        assert result.faults, result.problem
        assert f"faults: {', '.join(result.faults)}" in Describe("migration", result, events=False)


# --- the table of doc/design-migration.rst -------------------------------------------------------------------------------

A, B = "a", "b"
HOLDS = View(runstate.RUNNING)
SENDING = View(runstate.RUNNING, sending=True, sent_to=B)
LEAVING = View(runstate.LEAVING, sending=True, sent_to=B)
SENT = View(runstate.SENT, sent_to=B)
WAITS = View(runstate.ARRIVING, arrival="awaited")
GONE = View(runstate.GONE)
NEVER = View(runstate.GONE, never=True)
OFF = View(runstate.OFFLINE)
HUNG = View(runstate.UNRESPONSIVE)
SILENT = View(runstate.UNREACHABLE)

TABLE = [
    (HOLDS, GONE, Kind.HERE, A),
    (HOLDS, OFF, Kind.HERE, A),
    (HOLDS, SENT, Kind.HERE, A),
    (SENT, HOLDS, Kind.HERE, B),
    (HOLDS, WAITS, Kind.HERE, A),
    (HOLDS, NEVER, Kind.HERE, A),
    (View(runstate.PAUSED), GONE, Kind.HERE, A),
    (View(runstate.STOPPED), SENT, Kind.HERE, A),
    (View(runstate.ENDED), WAITS, Kind.HERE, A),
    (SENDING, WAITS, Kind.UNDER_WAY, A),
    (SENDING, GONE, Kind.HERE, A),
    (LEAVING, WAITS, Kind.UNDER_WAY, A),
    (LEAVING, GONE, Kind.UNDER_WAY, A),
    (LEAVING, HOLDS, Kind.UNDER_WAY, A),
    (HOLDS, HOLDS, Kind.UNDECIDABLE, ""),
    (HOLDS, HUNG, Kind.UNDECIDABLE, ""),
    (HOLDS, SILENT, Kind.UNDECIDABLE, ""),
    (SENT, WAITS, Kind.ARRIVING, A),
    (SENT, NEVER, Kind.RETURNS, A),
    (SENT, GONE, Kind.NOWHERE, ""),
    (SENT, OFF, Kind.NOWHERE, ""),
    (SENT, HUNG, Kind.UNKNOWN, ""),
    (SENT, SILENT, Kind.UNKNOWN, ""),
    (HUNG, GONE, Kind.UNKNOWN, ""),
    (SILENT, GONE, Kind.UNKNOWN, ""),
    (GONE, GONE, Kind.NOWHERE, ""),
    (OFF, GONE, Kind.NOWHERE, ""),
    (GONE, WAITS, Kind.NOWHERE, ""),
    (OFF, WAITS, Kind.NOWHERE, ""),
    (SENT, View(runstate.SENT, sent_to="c"), Kind.NOWHERE, ""),
]


@pytest.mark.parametrize(("one", "other", "kind", "node"), TABLE)
def test_the_table(one: View, other: View, kind: Kind, node: str) -> None:
    views = {A: one, B: other}
    verdict = Judge(views, views)
    assert (verdict.kind, verdict.node if kind is not Kind.NOWHERE else "") == (kind, node)


def test_the_order_of_nodes_does_not_matter() -> None:
    for one, other, kind, node in TABLE:
        verdict = Judge({B: other, A: one}, {A, B})
        assert (verdict.kind, verdict.node) == (kind, node)


def test_every_pair_of_states_has_a_verdict_and_no_copy_is_forgotten() -> None:
    states = [View(state, sent_to=to) for state in (*sorted(runstate.REPORTED), runstate.UNREACHABLE, runstate.OFFLINE) for to in (None, A, B)]  # fmt: skip
    for one, other in itertools.product(states, repeat=2):
        verdict = Judge({A: one, B: other}, {A, B})
        named = {verdict.node, verdict.target, *verdict.choices, *verdict.leftovers, *verdict.silent}
        for node, view in ((A, one), (B, other)):
            if view.state not in (runstate.GONE, runstate.OFFLINE):
                assert node in named, (one, other, verdict)


def test_nobody_knows_where_a_node_that_is_off_sent_the_guest() -> None:
    views = {A: OFF, B: GONE, "c": SILENT}
    verdict = Judge(views, Concerned(views, {A, B}))
    assert (verdict.kind, verdict.silent) == (Kind.UNKNOWN, ("c",))
    views = {A: GONE, B: GONE, "c": SILENT}
    assert Judge(views, Concerned(views, {A, B})).kind is Kind.NOWHERE, "its notes say that it sent nothing"


def test_silence_of_nodes_that_do_not_matter() -> None:
    assert Judge({A: HOLDS, "c": SILENT}, {A, B}).kind is Kind.HERE
    assert Judge({A: HOLDS, "c": SILENT}, {A, B, "c"}).silent == ("c",)
    assert Judge({A: HOLDS, "c": HUNG}, {A, B}).kind is Kind.UNDECIDABLE, "a process that is there always matters"
