"""What every run does, whatever is played: people work while faults strike; what was broken is this seed's result."""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulated import SimulationError
from simulation.harness.ledger import Violation

if TYPE_CHECKING:
    from simulation.harness.cluster import Cluster
    from simulation.harness.faults import Strike

SHOWN = 4000


@dataclass(frozen=True)
class Length:
    """How long people work: faults strike within so many steps, and nobody waits longer than so many virtual seconds."""

    steps_with_faults: int
    seconds: float
    max_steps: int


@dataclass
class Result:
    """How a run ended.  ``problem`` is empty when all promises held."""

    seed: int
    problem: str = ""
    steps: int = 0
    masters: int = 0
    # Of changes, or of jobs: how they ended -> how many.
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def Count(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


@contextmanager
def Judged(cluster: Cluster, result: Result) -> Iterator[None]:
    """Notes in ``result`` what the block broke, and what happened; raises nothing."""
    try:
        yield
    except (Violation, SimulationError) as err:
        result.problem = f"{type(err).__name__}: {str(err)[:SHOWN]}"
    except Exception:  # noqa: BLE001 - whatever it was, it is this seed's result
        result.problem = traceback.format_exc()
    failures = cluster.world.failures
    if cluster.violation is not None:
        result.problem = f"Violation: {cluster.violation}"
    elif failures and not result.problem:
        result.problem = "uncaught error: " + failures[0].text
    result.steps = cluster.world.steps
    result.masters = len(cluster.ledger.masters)
    result.events = cluster.ledger.events


def Work(
    cluster: Cluster, rng: random.Random, strikes: Sequence[Strike], count: int, length: Length, result: Result
) -> None:
    """Until people have asked for everything, or time is over.  ``count`` of the faults strike after so many steps, most
    of which are made while something is under way.
    """
    world = cluster.world
    deadline = world.elapsed + length.seconds
    steps = sorted(world.steps + rng.randint(0, length.steps_with_faults) for _ in range(count))

    def over() -> bool:
        return cluster.workload.IsDone() or world.elapsed > deadline or cluster.violation is not None

    for at in steps:
        world.Run(until=lambda at=at: over() or world.steps >= at, max_steps=length.max_steps)  # type: ignore[misc]
        if over():
            break
        strike = rng.choice(strikes)
        result.faults.append(strike.__name__)
        cluster.Note(f"fault {strike.__name__}: {strike(cluster, rng)}")
    world.Run(until=over, max_steps=length.max_steps)


def Describe(what: str, result: Result, events: bool) -> str:
    """What to print about a run that broke a promise; ``what`` is the name that tools/simulate gives it."""
    lines = [f"seed {result.seed}: {result.problem}", f"  faults: {', '.join(result.faults) or 'none'}"]
    if events:
        lines += [f"  {event}" for event in result.events]
    lines.append(f"  again: tools/simulate {what} --start {result.seed} --seeds 1 --events")
    return "\n".join(lines)
