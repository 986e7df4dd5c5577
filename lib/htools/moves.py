"""Moves of an instance: what the state is afterwards, how they are written, which commands and opcodes do them
(doc/reference/htools.md 7, 9)."""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import NamedTuple

from ganeti.htools.entities import NO_NODE, Failure, Instance
from ganeti.htools.loading import SharedLocations
from ganeti.htools.resources import AddPrimary, AddSecondary, Node, RemovePrimary, RemoveSecondary
from ganeti.htools.state import State


class Kind(enum.Enum):
    """The shapes of moves; the value is the code of the output, with ``{}`` for the target."""

    FAILOVER = "f"
    FAILOVER_TO_ANY = "fa:{}"
    REPLACE_SECONDARY = "r:{}"
    REPLACE_AND_FAILOVER = "r:{} f"
    FAILOVER_AND_REPLACE = "f r:{}"
    REPLACE_PRIMARY = "f r:{} f"


class Move(NamedTuple):
    """One move; ``target`` is NO_NODE for a plain failover."""

    kind: Kind
    target: int = NO_NODE


class _Failed(Exception):
    def __init__(self, failure: Failure):
        super().__init__(failure.value)
        self.failure = failure


def _Sure(result: Node | Failure) -> Node:
    if isinstance(result, Failure):
        raise _Failed(result)
    return result


def _Migrate(source: Node, target: Node) -> None:
    """Look whether a running copy may move (5.7)."""
    if not source.facts.migration_tags <= target.facts.receivable_tags:
        raise _Failed(Failure.MIG)


def Apply(state: State, inst: Instance, move: Move, force: bool = False) -> State | Failure:
    """Return the state after a move.  ``force``: soft errors are ignored everywhere."""
    try:
        return _STEPS[move.kind](state, inst, move.target, force)
    except _Failed as err:
        return err.failure


def _Placed(state: State, inst: Instance, primary: int, secondary: int = NO_NODE) -> Instance:
    """Return the instance on its new nodes, with their location score."""
    if secondary == NO_NODE:
        return replace(inst, primary=primary, secondary=secondary)
    score = SharedLocations(state.nodes[primary].facts, state.nodes[secondary].facts)
    return replace(inst, primary=primary, secondary=secondary, location_score=score)


def _Failover(state: State, inst: Instance, _target: int, force: bool) -> State:
    old_p, old_s = state.nodes[inst.primary], state.nodes[inst.secondary]
    forced = force or old_p.offline
    _Migrate(old_p, old_s)
    moved = replace(inst, primary=inst.secondary, secondary=inst.primary)
    new_p = _Sure(AddPrimary(RemoveSecondary(old_s, inst, inst.primary), moved, forced))
    new_s = _Sure(AddSecondary(RemovePrimary(old_p, inst), moved, moved.primary, forced, ignore_disks=old_p.offline))
    return state.With((new_p, new_s), (moved,))


def _FailoverToAny(state: State, inst: Instance, target: int, force: bool) -> State:
    old = state.nodes[inst.primary]
    _Migrate(old, state.nodes[target])
    moved = replace(inst, primary=target)
    new = _Sure(AddPrimary(state.nodes[target], moved, force or old.offline))
    return state.With((RemovePrimary(old, inst), new), (moved,))


def _ReplacePrimary(state: State, inst: Instance, target: int, force: bool) -> State:
    old_p, old_s = state.nodes[inst.primary], state.nodes[inst.secondary]
    forced = force or old_p.offline
    _Migrate(old_p, old_s)
    _Migrate(old_s, state.nodes[target])
    moved = _Placed(state, inst, target, inst.secondary)
    without = RemoveSecondary(old_s, inst, inst.primary)
    # The secondary runs the instance while its disks are replaced.
    _Sure(AddPrimary(without, moved, forced))
    new_p = _Sure(AddPrimary(state.nodes[target], moved, forced))
    new_s = _Sure(AddSecondary(without, moved, target, forced))
    return state.With((RemovePrimary(old_p, inst), new_p, new_s), (moved,))


def _ReplaceSecondary(state: State, inst: Instance, target: int, force: bool) -> State:
    old_p, old_s = state.nodes[inst.primary], state.nodes[inst.secondary]
    moved = _Placed(state, inst, inst.primary, target)
    new_s = _Sure(AddSecondary(state.nodes[target], moved, inst.primary, force or old_s.offline))
    # Its location score may differ on the same primary.
    new_p = _Sure(AddPrimary(RemovePrimary(old_p, inst), moved, force=True))
    return state.With((RemoveSecondary(old_s, inst, inst.primary), new_p, new_s), (moved,))


def _ReplaceAndFailover(state: State, inst: Instance, target: int, force: bool) -> State:
    old_p, old_s = state.nodes[inst.primary], state.nodes[inst.secondary]
    _Migrate(old_p, state.nodes[target])
    moved = _Placed(state, inst, target, inst.primary)
    new_p = _Sure(AddPrimary(state.nodes[target], moved, force))
    new_s = _Sure(AddSecondary(RemovePrimary(old_p, inst), moved, target, force or old_s.offline))
    return state.With((RemoveSecondary(old_s, inst, inst.primary), new_p, new_s), (moved,))


def _FailoverAndReplace(state: State, inst: Instance, target: int, force: bool) -> State:
    old_p, old_s = state.nodes[inst.primary], state.nodes[inst.secondary]
    forced = force or old_p.offline
    _Migrate(old_p, old_s)
    moved = _Placed(state, inst, inst.secondary, target)
    new_p = _Sure(AddPrimary(RemoveSecondary(old_s, inst, inst.primary), moved, forced))
    new_s = _Sure(AddSecondary(state.nodes[target], moved, moved.primary, forced))
    return state.With((RemovePrimary(old_p, inst), new_p, new_s), (moved,))


_STEPS = {
    Kind.FAILOVER: _Failover,
    Kind.FAILOVER_TO_ANY: _FailoverToAny,
    Kind.REPLACE_PRIMARY: _ReplacePrimary,
    Kind.REPLACE_SECONDARY: _ReplaceSecondary,
    Kind.REPLACE_AND_FAILOVER: _ReplaceAndFailover,
    Kind.FAILOVER_AND_REPLACE: _FailoverAndReplace,
}
