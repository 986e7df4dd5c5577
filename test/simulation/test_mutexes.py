"""The order of all mutexes but the cluster's locks: ``doc/architecture.rst`` writes it down, simulated masters keep it."""

from __future__ import annotations

import os
import re

import pytest
from simulated import World, mutexes
from simulation.harness.followers import RunEvents
from simulation.harness.jobs import RunJobs
from simulation.master.run import Run

from ganeti import runtime

_ARCHITECTURE = os.path.join(os.path.dirname(__file__), "..", "..", "doc", "architecture.rst")


def _Written() -> set[tuple[str, str]]:
    """The pairs of the table: (held, taken)."""
    with open(_ARCHITECTURE, encoding="utf-8") as stream:
        text = stream.read().partition("\nMutexes\n=======\n")[2].partition("\nOne job, from end to end\n")[0]
    return {(held, taken) for held, taken in re.findall(r"^``([^`]+)``\s+``([^`]+)``$", text, re.MULTILINE)}


@pytest.mark.req("D20-LOCK-32")
def test_mutexes_are_taken_in_the_written_order_and_nobody_waits_with_one() -> None:
    with mutexes.Watched() as watch:
        problems = [RunJobs(seed).problem for seed in range(1, 16)]
        problems += [Run(seed).problem for seed in range(1, 13)]
        problems += [RunEvents(seed).problem for seed in range(1, 6)]
    assert not any(problems), problems
    assert watch.nested.keys() <= _Written(), "a mutex is taken while another one is held, which is not written down"
    assert ("jqueue/entry.py lock", "jqueue/ticker.py _condition") in watch.nested, "nothing was seen"
    assert not watch.waits, "somebody waits, for locks of the cluster too, and others cannot take what it holds"


def test_the_written_order_has_no_circle() -> None:
    watch = mutexes.Watch()
    watch.nested = dict.fromkeys(_Written(), "")
    assert len(watch.nested) > 3
    assert watch.Circles() == []


def _InWrongOrder() -> None:
    first, second, third = runtime.Lock(), runtime.Condition(), runtime.Lock()
    first.place, second._lock.place, third.place = "first", "second", "third"  # type: ignore[attr-defined]
    with first, second, third:
        pass
    with third:
        assert first.acquire(timeout=1)
        first.release()
        with second:
            second.wait(0.1)


def test_a_wrong_order_shows_without_the_moment_that_it_leads_to() -> None:
    with mutexes.Watched() as watch, World(1) as world:
        world.AddMachine("node1").StartProcess(_InWrongOrder, "busy")
        assert world.Run()
        assert world.failures == []
    assert [sorted(circle) for circle in watch.Circles()] == [
        ["first", "third"],
        ["second", "third"],
        ["first", "third"],
    ]
    assert watch.waits.keys() == {("second", "third")}
