"""Balancing a group, one move after the other (doc/reference/htools.md 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ganeti.htools.choosing.bounds import Bounds, Family
from ganeti.htools.model.entities import Failure, Instance, Mirroring
from ganeti.htools.model.moves import Kind, Leaving, Move, Try
from ganeti.htools.model.resources import Node
from ganeti.htools.model.score import Bound, Estimate
from ganeti.htools.model.state import State

UNLIMITED = -1


@dataclass(frozen=True)
class Rules:
    """What may be done, and when to stop (section 22).

    ``steps``: most moves, UNLIMITED for any number.  ``least_gain`` counts while the score is not above ``gain_limit``.
    ``cost``: how much a move must lower the score for each GiB that it copies; 3.1 has no such thing.
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
    cost: float = 0.0


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


def Copied(inst: Instance, move: Move) -> float:
    """Return how many GiB a move copies: disks of new mirrors, and the memory of a running guest each time it migrates."""
    memory = inst.memory if inst.running else 0
    return (inst.disk * (move.kind in _NEW_MIRROR) + memory * _MIGRATIONS[move.kind]) / 1024


_NEW_MIRROR: Final = frozenset(
    [Kind.REPLACE_SECONDARY, Kind.REPLACE_AND_FAILOVER, Kind.FAILOVER_AND_REPLACE, Kind.REPLACE_PRIMARY]
)
_MIGRATIONS: Final = {
    Kind.FAILOVER: 1,
    Kind.FAILOVER_TO_ANY: 1,
    Kind.REPLACE_SECONDARY: 0,
    Kind.REPLACE_AND_FAILOVER: 1,
    Kind.FAILOVER_AND_REPLACE: 1,
    Kind.REPLACE_PRIMARY: 2,
}


class _Search:
    """Finds the best of moves that are looked at in any order: the lowest score, of equals the first in the order of ``Moves``.

    What a move costs is added to its score.

    A move whose estimate is not about as good as the best one so far cannot be better, and is not looked at closely.
    """

    def __init__(self, state: State, score: float, rules: Rules):
        self.best: Step | None = None
        self._state = state
        self._rules = rules
        self._estimate = Estimate(state.Ordered())
        self._lowest = score
        self._order: tuple[int, ...] = ()

    @property
    def limit(self) -> float:
        """A move whose bound is not below this is not the best one."""
        return self._lowest + Estimate.TOLERANCE

    def Look(self, leaving: Leaving, move: Move, order: tuple[int, ...]) -> None:
        change = Try(leaving, move, self._rules.ignore_soft_errors)
        if isinstance(change, Failure) or not self._estimate.Score(change.nodes) < self.limit:
            return
        after = self._state.With(change.nodes, (change.instance,))
        reached = after.Score()
        value = reached + self._rules.cost * Copied(leaving.inst, move) if self._rules.cost else reached
        if value < self._lowest or (self.best is not None and value == self._lowest and order < self._order):
            self._lowest, self._order = value, order
            self.best = Step(leaving.inst, change.instance, move, after, reached)


def BestStep(state: State, score: float, rules: Rules) -> Step | None:
    """Return the best step of all; of equals the first one.  None: no move lowers the score.

    Whole families of moves whose bounds say that they are worse are left out (module ``bounds``).
    """
    bounds = Bounds(state)
    if not bounds.online:  # then every state has the score 0
        return None
    search = _Search(state, score, rules)
    families: list[tuple[int, Leaving, Sequence[Kind]]] = []
    for number, inst in enumerate(Candidates(state, rules)):
        leaving = Leaving(state, inst)
        if not bounds.exact:
            for place, move in enumerate(Moves(state, inst, rules)):
                search.Look(leaving, move, (number, place))
            continue
        plain, kinds = KindsOfMoves(state, inst, rules)
        if plain:
            search.Look(leaving, Move(Kind.FAILOVER), (number, -1))
        if kinds:
            families.append((number, leaving, kinds))
    for family in bounds.Families(families, rules.ignore_soft_errors):
        if not family.least < search.limit:
            break
        _LookAt(search, family, bounds.online, KindsOfMoves(state, family.leaving.inst, rules)[1])
    return search.best


def _LookAt(search: _Search, family: Family, online: Sequence[Node], kinds: Sequence[Kind]) -> None:
    inst = family.leaving.inst
    for place, target in enumerate(online):
        if target.index not in (inst.primary, inst.secondary) and family.Bound(place, target) < search.limit:
            order = (family.number, place, kinds.index(family.kind))
            search.Look(family.leaving, Move(family.kind, target.index), order)


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
