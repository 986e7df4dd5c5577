"""Moving instances off nodes and groups (doc/reference/htools.md 11)."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ganeti.htools.choosing import allocate
from ganeti.htools.model.entities import Failure, Instance, Mirroring
from ganeti.htools.model.moves import Apply, Kind, Move
from ganeti.htools.model.score import Score
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.survival.redundancy import BestMove


class Mode(enum.Enum):
    """Which copies of an instance leave their node."""

    PRIMARY = "primary-only"
    SECONDARY = "secondary-only"
    ALL = "all"


class CannotMove(Exception):
    """An instance finds no place; the text is the reason."""


class Moved(NamedTuple):
    """An instance that was moved: the state then, and what was done, with the instance before each step."""

    state: State
    instance: Instance
    steps: tuple[tuple[Instance, Move], ...]


@dataclass
class Result:
    """What became of a list of instances, in its order."""

    state: State
    moved: list[Moved] = field(default_factory=list)
    failed: list[tuple[Instance, str]] = field(default_factory=list)


def Evacuate(state: State, inst: Instance, mode: Mode, targets: Sequence[int], force: bool) -> Moved:
    """Move one instance (11.2); raises CannotMove."""
    if inst.mirroring is Mirroring.NONE:
        raise CannotMove(f"Instances of type {inst.template} cannot be relocated")
    if not inst.mirrored:
        if mode is Mode.SECONDARY:
            raise CannotMove(f"Instances with disk template '{inst.template}' can't execute change secondary")
        return _ToBest(state, inst, Kind.FAILOVER_TO_ANY, targets, force)
    if mode is Mode.PRIMARY:
        after = Apply(state, inst, Move(Kind.FAILOVER), force)
        if isinstance(after, Failure):
            raise CannotMove(after.value)
        return Moved(after, after.instances[inst.index], ((inst, Move(Kind.FAILOVER)),))
    if mode is Mode.SECONDARY:
        return _ToBest(state, inst, Kind.REPLACE_SECONDARY, targets, force)
    return _ChangeBoth(state, inst, targets, force)


def _NoGoodNode(problems: Iterable[str]) -> CannotMove:
    return CannotMove("Can't find any good node: " + "".join(problems))


def _ToBest(state: State, inst: Instance, kind: Kind, targets: Sequence[int], force: bool) -> Moved:
    after = BestMove(state, inst, kind, targets, force)
    if not isinstance(after, State):
        raise _NoGoodNode(after)
    moved = after.instances[inst.index]
    target = moved.primary if kind is Kind.FAILOVER_TO_ANY else moved.secondary
    return Moved(after, moved, ((inst, Move(kind, target)),))


_FAILING_OVER = "Failing over to the secondary: "
_CHANGING = "Changing secondary to new primary: "
_TO_PRIMARY = "Failing over to new primary: "
_TO_SECONDARY = "Changing secondary to final secondary: "


def _ChangeBoth(state: State, inst: Instance, targets: Sequence[int], force: bool) -> Moved:
    """Move both copies of a mirrored instance to the best pair (11.3)."""
    start = [(_FAILING_OVER, Move(Kind.FAILOVER))] if state.nodes[inst.primary].offline else []
    best: Moved | None = None
    lowest = 0.0
    problem = "no nodes available"
    for first in targets:
        for second in targets:
            if first == second:
                continue
            steps = [
                *start,
                (_CHANGING, Move(Kind.REPLACE_SECONDARY, first)),
                (_TO_PRIMARY, Move(Kind.FAILOVER)),
                (_TO_SECONDARY, Move(Kind.REPLACE_SECONDARY, second)),
            ]
            try:
                found = _Follow(state, inst, steps, force)
            except CannotMove as err:
                problem = f"Allocation failed: {err}"
                continue
            score = Score(found.state.Of(state.nodes[first].facts.group))
            if best is None or not score > lowest:
                best, lowest = found, score
    if best is None:
        raise CannotMove(f"Can't find any good nodes for relocation: {problem}")
    return best


def _Follow(state: State, inst: Instance, steps: Sequence[tuple[str, Move]], force: bool) -> Moved:
    """Carry out moves of an instance, one after the other; raises CannotMove."""
    done = []
    for what, move in steps:
        after = Apply(state, inst, move, force)
        if isinstance(after, Failure):
            raise CannotMove(f"{what}{after.value}")
        done.append((inst, move))
        state, inst = after, after.instances[inst.index]
    return Moved(state, inst, tuple(done))


# --- lists of instances -------------------------------------------------------------------------------------------------


def Excluded(state: State, instances: Iterable[Instance], mode: Mode) -> set[int]:
    """Return the nodes to which no instance of the list may go (11.1)."""
    nodes = {node.index for node in state.nodes.values() if node.offline}
    for inst in instances:
        if mode is not Mode.SECONDARY:
            nodes.add(inst.primary)
        if mode is not Mode.PRIMARY and inst.mirrored:
            nodes.add(inst.secondary)
    return nodes


def NodeEvacuate(state: State, instances: Sequence[Instance], mode: Mode, force: bool) -> Result:
    """Move instances off their nodes within their groups, each on the state left by the one before."""
    excluded = Excluded(state, instances, mode)
    result = Result(state)
    for inst in instances:
        group = state.nodes[inst.primary].facts.group
        targets = [n.index for n in state.Of(group) if n.index not in excluded and n.index != inst.primary]
        _Take(result, inst, mode, targets, force)
    return result


def _Take(result: Result, inst: Instance, mode: Mode, targets: Sequence[int], force: bool) -> None:
    try:
        moved = Evacuate(result.state, result.state.instances[inst.index], mode, targets, force)
    except CannotMove as err:
        result.failed.append((inst, str(err)))
    else:
        result.state = moved.state
        result.moved.append(moved)


def ChangeGroup(
    cluster: Cluster, instances: Sequence[Instance], wanted: Collection[int], rules: allocate.Rules
) -> Result:
    """Move instances to other groups (11.4).  ``wanted``: indices of groups; none: all."""
    left = {cluster.state.nodes[inst.primary].facts.group for inst in instances}
    allowed = [g.index for g in cluster.groups if (not wanted or g.index in wanted) and g.index not in left]
    result = Result(cluster.state)
    for inst in instances:
        here = cluster.WithState(result.state)
        choice = allocate.AllocateInGroups(here, _AsNew(inst, result.state), len(inst.nodes), rules, allowed=allowed)
        if choice.group is None:
            result.failed.append((inst, ", ".join(choice.messages)))
            continue
        targets = [node.index for node in result.state.Of(choice.group.index) if not node.offline]
        _Take(result, inst, Mode.ALL, targets, force=False)
    return result


def _AsNew(inst: Instance, state: State) -> Instance:
    return replace(inst, index=max(state.instances, default=-1) + 1)
