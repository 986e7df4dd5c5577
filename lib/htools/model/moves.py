"""Moves of an instance: what the state is afterwards (doc/reference/htools.md 7)."""

from __future__ import annotations

import enum
from typing import NamedTuple

from ganeti.htools.model.entities import NO_NODE, Failure, Instance
from ganeti.htools.model.resources import AddPrimary, AddSecondary, Node, RemovePrimary, RemoveSecondary
from ganeti.htools.model.state import State
from ganeti.htools.sources.loading import SharedLocations


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


_Changed = tuple[tuple[Node, ...], Instance]


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


class Change(NamedTuple):
    """What a move changes: the nodes afterwards, those of the instance before included, and the instance."""

    nodes: tuple[Node, ...]
    instance: Instance


def Try(leaving: Leaving, move: Move, force: bool = False) -> Change | Failure:
    """Return what a move changes.  ``force``: soft errors are ignored everywhere."""
    try:
        return Change(*_STEPS[move.kind](leaving, move.target, force))
    except _Failed as err:
        return err.failure


def Apply(state: State, inst: Instance, move: Move, force: bool = False) -> State | Failure:
    """Return the state after a move."""
    change = Try(Leaving(state, inst), move, force)
    return change if isinstance(change, Failure) else state.With(change.nodes, (change.instance,))


class Leaving:
    """An instance that may leave its nodes: what these are without it is worked out once for all moves."""

    def __init__(self, state: State, inst: Instance):
        self.state = state
        self.inst = inst
        self.primary = state.nodes[inst.primary]
        self.secondary = state.nodes[inst.secondary] if inst.secondary != NO_NODE else None
        self._without_primary: Node | None = None
        self._without_secondary: Node | None = None

    @property
    def without_primary(self) -> Node:
        if self._without_primary is None:
            self._without_primary = RemovePrimary(self.primary, self.inst)
        return self._without_primary

    @property
    def without_secondary(self) -> Node:
        if self._without_secondary is None:
            self._without_secondary = RemoveSecondary(self.Secondary(), self.inst, self.inst.primary)
        return self._without_secondary

    def Secondary(self) -> Node:
        assert self.secondary is not None, "the instance has no secondary"
        return self.secondary

    def Placed(self, primary: int, secondary: int) -> Instance:
        """Return the instance on its new nodes, with their location score."""
        nodes = self.state.nodes
        return self.inst.On(primary, secondary, SharedLocations(nodes[primary].facts, nodes[secondary].facts))


def _Failover(leaving: Leaving, _target: int, force: bool) -> _Changed:
    inst, old_p, old_s = leaving.inst, leaving.primary, leaving.Secondary()
    forced = force or old_p.offline
    _Migrate(old_p, old_s)
    moved = inst.On(inst.secondary, inst.primary, inst.location_score)
    new_p = _Sure(AddPrimary(leaving.without_secondary, moved, forced))
    new_s = _Sure(AddSecondary(leaving.without_primary, moved, moved.primary, forced, ignore_disks=old_p.offline))
    return (new_p, new_s), moved


def _FailoverToAny(leaving: Leaving, target: int, force: bool) -> _Changed:
    inst, old, node = leaving.inst, leaving.primary, leaving.state.nodes[target]
    _Migrate(old, node)
    moved = inst.On(target, inst.secondary, inst.location_score)
    new = _Sure(AddPrimary(node, moved, force or old.offline))
    return (leaving.without_primary, new), moved


def _ReplacePrimary(leaving: Leaving, target: int, force: bool) -> _Changed:
    inst, old_p, old_s, node = leaving.inst, leaving.primary, leaving.Secondary(), leaving.state.nodes[target]
    forced = force or old_p.offline
    _Migrate(old_p, old_s)
    _Migrate(old_s, node)
    moved = leaving.Placed(target, inst.secondary)
    without = leaving.without_secondary
    # The secondary runs the instance while its disks are replaced.
    _Sure(AddPrimary(without, moved, forced))
    new_p = _Sure(AddPrimary(node, moved, forced))
    new_s = _Sure(AddSecondary(without, moved, target, forced))
    return (leaving.without_primary, new_p, new_s), moved


def _ReplaceSecondary(leaving: Leaving, target: int, force: bool) -> _Changed:
    inst, old_s = leaving.inst, leaving.Secondary()
    moved = leaving.Placed(inst.primary, target)
    new_s = _Sure(AddSecondary(leaving.state.nodes[target], moved, inst.primary, force or old_s.offline))
    # Its location score may differ on the same primary.
    new_p = _Sure(AddPrimary(leaving.without_primary, moved, force=True))
    return (leaving.without_secondary, new_p, new_s), moved


def _ReplaceAndFailover(leaving: Leaving, target: int, force: bool) -> _Changed:
    inst, old_p, node = leaving.inst, leaving.primary, leaving.state.nodes[target]
    _Migrate(old_p, node)
    moved = leaving.Placed(target, inst.primary)
    new_p = _Sure(AddPrimary(node, moved, force))
    new_s = _Sure(AddSecondary(leaving.without_primary, moved, target, force or leaving.Secondary().offline))
    return (leaving.without_secondary, new_p, new_s), moved


def _FailoverAndReplace(leaving: Leaving, target: int, force: bool) -> _Changed:
    inst, old_p = leaving.inst, leaving.primary
    forced = force or old_p.offline
    _Migrate(old_p, leaving.Secondary())
    moved = leaving.Placed(inst.secondary, target)
    new_p = _Sure(AddPrimary(leaving.without_secondary, moved, forced))
    new_s = _Sure(AddSecondary(leaving.state.nodes[target], moved, moved.primary, forced))
    return (leaving.without_primary, new_p, new_s), moved


_STEPS = {
    Kind.FAILOVER: _Failover,
    Kind.FAILOVER_TO_ANY: _FailoverToAny,
    Kind.REPLACE_PRIMARY: _ReplacePrimary,
    Kind.REPLACE_SECONDARY: _ReplaceSecondary,
    Kind.REPLACE_AND_FAILOVER: _ReplaceAndFailover,
    Kind.FAILOVER_AND_REPLACE: _FailoverAndReplace,
}
