"""Does a node group survive that several nodes fail, one after the other?  (doc/design-resource-model.rst)

After each failure the instances of the node fail over, and mirrors get another secondary, before the next node fails; after
the last one the instances only have to run.  All orders of failures are tried that sums leave in doubt, as far as the effort
permits.  One failure is ``redundancy.Redundant``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ganeti.htools.model.entities import Failure, Instance
from ganeti.htools.model.moves import Apply, Change, Kind, Leaving, Move, Try
from ganeti.htools.model.state import State
from ganeti.htools.survival.effort import Effort
from ganeti.htools.survival.redundancy import Demands, PlaceCopy
from ganeti.htools.survival.sums import Sums


class Breakdown(NamedTuple):
    """Nodes that failed, in their order, and the instance for which there was no room then."""

    nodes: tuple[str, ...]
    instance: str


def FirstBreakdown(
    state: State, group: int, count: int, effort: Effort, doubtful: Sequence[str] = ()
) -> Breakdown | None:
    """Return failures that a group does not survive, None if it survives any so many; raise GivenUp if that takes too long.

    ``doubtful``: nodes whose failures, in this order, are tried first, unless sums name others; then it is the busiest.  Of a
    small group all nodes but one fail.
    """
    nodes = {node.index: node for node in state.Of(group)}
    part = State(nodes, {i: inst for i, inst in state.instances.items() if inst.primary in nodes})
    count = Bearable(part, group, count)
    return None if _MuchRoom(part, count) else _Trial(group, effort).Breakdown(part, count, doubtful)


def Bearable(state: State, group: int, count: int) -> int:
    """Return how many of so many failures a group can have at all: one node must be left."""
    return max(1, min(count, sum(not node.offline for node in state.Of(group)) - 1))


def _MuchRoom(state: State, count: int) -> bool:
    """Return whether what is on shared storage fits for sure, wherever the single instances go.

    An instance fits nowhere only if no node that is left has more room than it needs.  So all of them fit if the nodes
    that are left could do without as much memory each as the largest instance needs, and still take all instances together;
    the nodes that failed count as those with the most memory.
    """
    if any(node.facts.migration_tags for node in state.nodes.values()):
        return False
    if not all(inst.freely_movable for inst in state.instances.values()):
        return False
    claims = [state.nodes[i.primary].facts.Claim(i) for i in state.instances.values() if i.uses_memory]
    if any(claim < 0 for claim in claims):
        return False
    lacking = max(claims, default=0)
    rooms = sorted(node.facts.memory_for_instances for node in state.Online())
    rooms = rooms[: len(rooms) - count]
    return sum(max(0, room - lacking) for room in rooms) > sum(claims)


# A comparison of sums takes so much less than a try.
_CHEAPER = 50
# A try with the score of so many nodes worked out anew takes twice as long as one with the changes of two.
_SCORED = 15


class _Trial:
    """Tries failures of a group and counts the effort."""

    def __init__(self, group: int, effort: Effort):
        self._group = group
        self._effort = effort

    def Breakdown(self, state: State, count: int, doubtful: Sequence[str] = ()) -> Breakdown | None:
        sums = Sums(state, count)
        candidates = sums.Doubtful()
        self._effort.Spend(self._group, 1 + sums.effort // _CHEAPER)
        if not candidates:
            return None
        doubtful = sums.TooMuch() or doubtful
        first = doubtful[:1]
        working = [node for node in state.nodes.values() if node.index in candidates]
        for node in sorted(working, key=lambda node: (node.facts.name not in first, -node.instance_memory)):
            name = (node.facts.name,)
            after = self._WithoutNode(state, node.index, remirror=count > 1)
            if isinstance(after, str):
                return Breakdown(name, after)
            next_doubtful = doubtful[1:] if node.facts.name in first else ()
            further = self.Breakdown(after, count - 1, next_doubtful) if count > 1 else None
            if further is not None:
                return Breakdown(name + further.nodes, further.instance)
        return None

    def _WithoutNode(self, state: State, index: int, remirror: bool) -> State | str:
        """Return the state after a node failed and its instances moved; the name of an instance without room."""
        node = state.nodes[index]
        state = state.With((node.WithFacts(replace(node.facts, offline=True, drained=False)),))
        if not remirror and _AllFailOver(state, index):
            return state
        targets = [other.index for other in state.Online()]
        for number in sorted(node.primaries):
            inst = state.instances.get(number)
            if inst is None:
                continue
            self._effort.Spend(self._group, _Cost(state, inst, targets))
            after = Restart(state, inst, targets)
            if after is None:
                return inst.name
            state = after
        if not remirror:
            return state
        for number in sorted(state.nodes[index].secondaries):
            inst = state.instances.get(number)
            if inst is None:  # its primary is in another group
                continue
            self._effort.Spend(self._group, len(targets))
            found = MoveTo(state, inst, Kind.REPLACE_SECONDARY, _Others(targets, inst))
            if found is None:
                return inst.name
            state = found
        return state


def _Cost(state: State, inst: Instance, targets: Sequence[int]) -> int:
    """Return what it takes, in tries, to start an instance on another node."""
    if inst.mirrored:
        return 1
    return len(targets) * (1 if inst.freely_movable else 1 + len(state.nodes) // _SCORED)


def _AllFailOver(state: State, index: int) -> bool:
    """Return whether all instances of a failed node are mirrored and find room on their secondaries, without trying it."""
    primaries = [inst for number in state.nodes[index].primaries if (inst := state.instances.get(number)) is not None]
    nodes = state.nodes
    if not all(inst.mirrored and inst.secondary in nodes and nodes[inst.secondary].facts.working for inst in primaries):
        return False
    if any(inst.secondary == index or nodes[inst.secondary].facts.Claim(inst) < 0 for inst in primaries):
        return False
    return Demands(state, nodes[index], primaries) is not None


def MoveTo(state: State, inst: Instance, kind: Kind, targets: Iterable[int]) -> State | None:
    """Return the state after the best move of an instance to one of the targets.

    ``BestMove`` makes a state of each and scores all nodes of it, which takes far too long for so many moves.
    """
    leaving, nodes, statistics = Leaving(state, inst), state.nodes, state.statistics
    best: Change | None = None
    lowest = 0.0
    for target in targets:
        change = Try(leaving, Move(kind, target), force=True)
        if isinstance(change, Failure):
            continue
        score = statistics.Score([(nodes[node.index], node) for node in change.nodes])
        if best is None or not score > lowest:
            best, lowest = change, score
    return None if best is None else state.With(best.nodes, (best.instance,))


def _Others(targets: Sequence[int], inst: Instance) -> list[int]:
    return [target for target in targets if target != inst.primary]


def Restart(state: State, inst: Instance, targets: Sequence[int]) -> State | None:
    """Return the state with an instance of a failed node on another one, None if there is no room; what has no copy is made anew."""
    found: State | Failure | None
    if inst.mirrored:
        # A drained node gets nothing new, but what has a copy there runs there at worst: it can be made usual again.
        if inst.secondary not in state.nodes or not state.nodes[inst.secondary].facts.working:
            return None
        found = Apply(state, inst, Move(Kind.FAILOVER), force=True)
    elif inst.freely_movable:
        found = MoveTo(state, inst, Kind.FAILOVER_TO_ANY, targets)
    else:
        found = PlaceCopy(state, inst, targets)
    return found if isinstance(found, State) else None
