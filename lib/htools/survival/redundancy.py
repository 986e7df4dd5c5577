"""Could every node be emptied?  (doc/reference/htools.md 10.4)

``Redundant`` tries it.  ``Guard`` says the same of states that have one instance more than a first one, for much less work:

* Mirrored instances leave a node in one way only, to their secondaries, and as these moves are forced, all that counts at
  a secondary is its memory (what else could speak against it does not change on the way).  So one number for each node
  and each of its secondaries says it all: the most memory that the secondary needs while the node is emptied.
* A new instance takes memory and disks of its own nodes only, and finds room there by itself.  So a node that could not be
  emptied stays so, and of the numbers only those that concern the new primary are looked at again.
* What is not mirrored goes where the score is best, which is hard to foresee.  But if one node has room for all of it at
  once, there is room wherever the other ones went.  Without such a node it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from ganeti.htools.model.entities import NO_NODE, Failure, Instance
from ganeti.htools.model.moves import Apply, Kind, Move
from ganeti.htools.model.resources import AddPrimary, CheckPolicy, Node
from ganeti.htools.model.score import Score
from ganeti.htools.model.state import State

_SPARES = 3


def BestMove(state: State, inst: Instance, kind: Kind, targets: Iterable[int], force: bool) -> State | list[str]:
    """Return the state after the best move of an instance to one of the targets; the failure of each if there is none.

    The best has the lowest score of the group, of equals the later one.
    """
    best: State | None = None
    lowest = 0.0
    problems = []
    for target in targets:
        after = Apply(state, inst, Move(kind, target), force)
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
                state = _Sure(BestMove(state, inst, Kind.FAILOVER_TO_ANY, targets, force=True))
        rest = [inst for inst in primaries if not inst.mirrored and not inst.freely_movable]
        for inst in sorted(rest, key=lambda inst: -inst.memory):
            state = _Sure(PlaceCopy(state, inst, targets))
    except (_Stuck, KeyError):  # the other node of a split instance is not part of the state
        return False
    return True


class _Stuck(Exception):
    """An instance finds no room."""


def _Sure(result: State | Failure | list[str]) -> State:
    if not isinstance(result, State):
        raise _Stuck
    return result


def PlaceCopy(state: State, inst: Instance, targets: Iterable[int]) -> State | Failure:
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


# --- after one more instance ------------------------------------------------------------------------------------------------


class Guard:
    """Says whether all nodes of a state could still be emptied after an instance was placed there."""

    def __init__(self, state: State, inst: Instance, ignored_groups: Collection[int], accept_offline: bool):
        self._state = state
        self._inst = inst
        self._ignored = ignored_groups
        self._accept_offline = accept_offline
        # Node -> secondary -> the most memory that it needs.
        self._demands: dict[int, dict[int, int]] = {}
        # Node -> the most memory that any other needs of it.
        self._most: dict[int, int] = {}
        # Nodes with instances that are not mirrored -> some that have room for all of these.
        self._mixed: dict[int, list[int]] = {}
        self._surveyed = self._hopeless = False
        # An instance that is its own mirror is beyond these rules.
        self._plain = min(inst.memory, inst.memory if inst.least_memory is None else inst.least_memory) >= 0

    def _SurveyAll(self) -> None:
        self._surveyed = True
        for node in self._state.nodes.values():
            if node.facts.group not in self._ignored and not (self._accept_offline and node.offline):
                self._Survey(node)

    def _Survey(self, node: Node) -> None:
        primaries = [self._state.instances[i] for i in node.primaries if i in self._state.instances]
        if any(inst.secondary == node.index for inst in primaries):
            self._plain = False
        demands = Demands(self._state, node, [inst for inst in primaries if inst.mirrored])
        if demands is None:
            self._hopeless = True
            return
        self._demands[node.index] = demands
        for target, memory in demands.items():
            self._most[target] = max(memory, self._most.get(target, memory))
        rest = [inst for inst in primaries if not inst.mirrored]
        if rest:
            self._mixed[node.index] = _Spares(self._state, node, rest, demands)

    def Holds(self, primary: int, secondary: int, after: Callable[[], State]) -> bool:
        """Return what ``Redundant`` would.  ``after``: the state with the instance on these nodes, if it is needed."""
        inst = self._inst
        node = self._state.nodes[primary]
        if not self._surveyed:
            self._SurveyAll()
        if not self._plain or (node.facts.exclusive_storage and not inst.local):
            return Redundant(after(), self._ignored, self._accept_offline)
        if self._hopeless:
            return False
        if primary in self._most and not node.unallocated - self._Grows(node) > self._most[primary]:
            return False
        doubtful = [x for x, spares in self._mixed.items() if not any(t not in (primary, secondary) for t in spares)]
        if primary in self._demands and not inst.forthcoming:
            if not inst.mirrored:
                doubtful.insert(0, primary)
            elif not self._FailsOver(node, secondary):
                return False
        return all(Evacuable(after(), index) for index in doubtful)

    def _Grows(self, node: Node) -> int:
        return node.facts.Claim(self._inst) if self._inst.uses_memory else 0

    def _FailsOver(self, primary: Node, secondary: int) -> bool:
        """Return whether the new instance, the first to leave its primary, finds room there with the others."""
        target = self._state.nodes[secondary]
        needed = self._Grows(target) + max(0, self._demands[primary.index].get(secondary, 0))
        return target.unallocated > needed and primary.facts.migration_tags <= target.facts.receivable_tags


def Demands(state: State, node: Node, mirrored: Iterable[Instance]) -> dict[int, int] | None:
    """Return secondary -> the most memory that it needs while these leave a node; None: they cannot."""
    taken: dict[int, int] = {}
    most: dict[int, int] = {}
    for inst in mirrored:
        target = state.nodes.get(inst.secondary)
        if target is None or not node.facts.migration_tags <= target.facts.receivable_tags:
            return None
        if target.free_disk <= 0 or (node.free_disk <= 0 and not node.offline):
            return None
        if any(n.facts.exclusive_storage and (n.free_spindles < 0 or inst.spindles is None) for n in (node, target)):
            return None
        index = inst.secondary
        taken[index] = taken.get(index, 0) + (target.facts.Claim(inst) if inst.uses_memory else 0)
        most[index] = max(taken[index], most.get(index, taken[index]))
        if not target.unallocated > most[index]:
            return None
    return most


def _Spares(state: State, node: Node, rest: Sequence[Instance], demands: dict[int, int]) -> list[int]:
    """Return a few nodes that have room for all instances that are not mirrored together."""
    memory = sum(node.facts.Claim(inst) for inst in rest if inst.uses_memory)
    disk = sum(inst.disk for inst in rest if inst.local)
    if any(node.facts.Claim(inst) < 0 or inst.disk < 0 for inst in rest):
        return []
    found: list[int] = []
    for target in state.Of(node.facts.group):
        if (
            target.index != node.index
            and not target.facts.exclusive_storage
            and target.unallocated - max(0, demands.get(target.index, 0)) > memory
            and target.free_disk > disk
            and node.facts.migration_tags <= target.facts.receivable_tags
            and all(inst.freely_movable or CheckPolicy(target.facts.policy, inst, False) is None for inst in rest)
        ):
            found.append(target.index)
            if len(found) == _SPARES:
                break
    return found
