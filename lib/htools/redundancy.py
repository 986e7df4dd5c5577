"""Could every node be emptied?  (doc/reference/htools.md 10.4)"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ganeti.htools.entities import NO_NODE, Failure, Instance
from ganeti.htools.moves import Apply, Kind, Move
from ganeti.htools.resources import AddPrimary, CheckPolicy, Node
from ganeti.htools.score import Score
from ganeti.htools.state import State


def BestFailover(state: State, inst: Instance, targets: Iterable[int], force: bool) -> State | list[str]:
    """Return the state after the best move of an instance on shared storage; the failure of each target if there is none.

    The best has the lowest score of the group, of equals the later one.
    """
    best: State | None = None
    lowest = 0.0
    problems = []
    for target in targets:
        after = Apply(state, inst, Move(Kind.FAILOVER_TO_ANY, target), force)
        if isinstance(after, Failure):
            problems.append(f" Node {state.nodes[target].facts.name} failed: {after.value};")
            continue
        score = Score(after.Of(state.nodes[target].facts.group))
        if best is None or not score > lowest:
            best, lowest = after, score
    return problems if best is None else best


def Redundant(state: State, ignored_groups: Collection[int] = (), accept_offline: bool = False) -> bool:
    """Return whether all nodes of a state could be emptied, one at a time."""
    return not any(
        node.facts.group not in ignored_groups
        and not (accept_offline and node.offline)
        and not Evacuable(state, node.index)
        for node in state.nodes.values()
    )


def Evacuable(state: State, index: int) -> bool:
    """Return whether the primaries of a node find room elsewhere in its group, if soft checks do not count."""
    node = state.nodes[index]
    targets = [other.index for other in state.Of(node.facts.group) if other.index != index]
    primaries = [state.instances[i] for i in node.primaries if i in state.instances]
    try:
        for inst in primaries:
            if inst.mirrored:
                state = _Sure(Apply(state, inst, Move(Kind.FAILOVER), force=True))
        for inst in primaries:
            if inst.freely_movable:
                state = _Sure(BestFailover(state, inst, targets, force=True))
        rest = [inst for inst in primaries if not inst.mirrored and not inst.freely_movable]
        for inst in sorted(rest, key=lambda inst: -inst.memory):
            state = _Sure(_PlaceCopy(state, inst, targets))
    except (_Stuck, KeyError):  # the other node of a split instance is not part of the state
        return False
    return True


class _Stuck(Exception):
    """An instance finds no room."""


def _Sure(result: State | Failure | list[str]) -> State:
    if not isinstance(result, State):
        raise _Stuck
    return result


def _PlaceCopy(state: State, inst: Instance, targets: Iterable[int]) -> State | Failure:
    """Return the state with a copy of the instance on the best target; the original stays."""
    best: State | Failure = Failure.MEM
    lowest = 0.0
    index = max(state.instances, default=-1) + 1
    for target in targets:
        node = state.nodes[target]
        copy = replace(inst, index=index, primary=target, secondary=NO_NODE)
        if CheckPolicy(node.facts.policy, copy, node.facts.exclusive_storage) is not None:
            continue
        added = AddPrimary(node, copy, force=True)
        if not isinstance(added, Node):
            continue
        after = state.With((added,), (copy,))
        score = after.Score()
        if isinstance(best, Failure) or not score > lowest:
            best, lowest = after, score
    return best
