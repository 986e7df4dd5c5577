"""Balancing a group, one move after the other (doc/reference/htools.md 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ganeti.htools.entities import Failure, Instance, Mirroring
from ganeti.htools.moves import Kind, Leaving, Move, Try
from ganeti.htools.score import Bound, Estimate
from ganeti.htools.state import State

UNLIMITED = -1


@dataclass(frozen=True)
class Rules:
    """What may be done, and when to stop (section 22).

    ``steps``: most moves, UNLIMITED for any number.  ``least_gain`` counts while the score is not above ``gain_limit``.
    """

    instance_moves: bool = True
    disk_moves: bool = True
    restricted_migration: bool = False
    evacuation: bool = False
    ignore_soft_errors: bool = False
    steps: int = UNLIMITED
    least_score: float = 1e-9
    least_gain: float = 0.01
    gain_limit: float = 0.1


class Step(NamedTuple):
    """One move of a solution: where the instance was and is, and the state and score afterwards."""

    instance: Instance
    moved: Instance
    move: Move
    state: State
    score: float


def Candidates(state: State, rules: Rules) -> Iterator[Instance]:
    """Yield the instances that may be moved."""
    for inst in state.instances.values():
        if not (inst.movable and inst.auto_balance):
            continue
        if rules.evacuation and not any(state.nodes[node].offline for node in inst.nodes if node in state.nodes):
            continue
        yield inst


def Targets(state: State, inst: Instance) -> list[int]:
    """Return the nodes that an instance may be moved to."""
    return [node.index for node in state.Online() if node.index not in (inst.primary, inst.secondary)]


def KindsOfMoves(state: State, inst: Instance, rules: Rules) -> tuple[bool, tuple[Kind, ...]]:
    """Return whether a plain failover is tried, and the kinds of moves to try for each target, in order."""
    if inst.mirroring is Mirroring.NONE:
        return False, ()
    if inst.mirroring is Mirroring.EXTERNAL:
        return False, (Kind.FAILOVER_TO_ANY,) if rules.instance_moves else ()
    usable = rules.instance_moves and not state.nodes[inst.secondary].offline
    if not rules.disk_moves:
        return usable, ()
    if not rules.instance_moves:
        return usable, (Kind.REPLACE_SECONDARY,)
    primary_offline = state.nodes[inst.primary].offline
    if rules.restricted_migration and not primary_offline:
        return usable, (Kind.REPLACE_SECONDARY,)
    kinds = [Kind.REPLACE_SECONDARY, Kind.REPLACE_AND_FAILOVER]
    if usable:
        if not rules.restricted_migration:
            kinds.append(Kind.REPLACE_PRIMARY)
        kinds.append(Kind.FAILOVER_AND_REPLACE)
    return usable, tuple(kinds)


def Moves(state: State, inst: Instance, rules: Rules) -> Iterator[Move]:
    """Yield the moves of an instance in the order in which they are tried."""
    plain, kinds = KindsOfMoves(state, inst, rules)
    if plain:
        yield Move(Kind.FAILOVER)
    for target in Targets(state, inst):
        for kind in kinds:
            yield Move(kind, target)


def BestStep(state: State, score: float, rules: Rules) -> Step | None:
    """Return the best move of all; of equals the first one.  None: no move lowers the score.

    A move whose estimate is not about as good as the best one so far cannot be better, and is not looked at closely.
    """
    estimate = Estimate(state.Ordered())
    best: Step | None = None
    lowest = score
    for inst in Candidates(state, rules):
        leaving = Leaving(state, inst)
        for move in Moves(state, inst, rules):
            change = Try(leaving, move, rules.ignore_soft_errors)
            if isinstance(change, Failure) or not estimate.Score(change.nodes) < lowest + Estimate.TOLERANCE:
                continue
            after = state.With(change.nodes, (change.instance,))
            reached = after.Score()
            if reached < lowest:
                lowest = reached
                best = Step(inst, change.instance, move, after, reached)
    return best


def Gains(score: float, reached: float, rules: Rules) -> bool:
    """Return whether a step is worth it."""
    return reached < score and (score > rules.gain_limit or score - reached >= rules.least_gain)


def StopLevel(state: State, rules: Rules) -> float:
    """Return the score at which there is nothing left to do."""
    return Bound(state.Ordered()) + rules.least_score


def Balance(state: State, rules: Rules) -> Iterator[Step]:
    """Yield the steps of a solution, one at a time."""
    level = StopLevel(state, rules)
    score = state.Score()
    done = 0
    while (rules.steps < 0 or done < rules.steps) and score > level:
        step = BestStep(state, score, rules)
        if step is None or not Gains(score, step.score, rules):
            return
        yield step
        state, score = step.state, step.score
        done += 1
