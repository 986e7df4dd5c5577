"""Sums that say at once what several node failures, one after the other, leave room for (doc/design-resource-model.rst).

When all nodes of a set have failed, whatever their order, an instance is

* on its secondary, if only its primary has failed: known without trying anything;
* anywhere, if both its nodes have failed, or if it has one node only: where depends on the scores on the way.

What each node gets for sure is a sum over the failed nodes.  If it has room for that and for *all* instances that may be
anywhere, no choice on the way can make it too full; it needs less for fewer failures, so larger sets cover what happens on
the way.  New mirrors need disk space as well: while they are made, some node takes each of them if what the nodes could do
without as much as the largest needs is more than all of them together.

So ``Survives`` is never true of a group that does not survive.  Where it is false, only trying can tell; of two failures those
have to be tried whose first node is part of a doubtful pair, of three those whose first node is part of a doubtful triple, and
of what is left then there are sums again.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from ganeti.htools.model.entities import Instance
from ganeti.htools.model.resources import CheckPolicy, Node
from ganeti.htools.model.state import State

# Triples are looked for until so many were compared for each pair of nodes; then every node is doubtful.
_COMPARED: Final = 20


class _Unclear(Exception):
    """Something that these sums do not cover."""


class Sums:
    """Of a node group of which so many nodes fail; ``state`` is that of the group alone."""

    def __init__(self, state: State, count: int):
        self._state = state
        self._count = count
        self._online = {node.index: node for node in state.Online()}
        # Failed node -> node -> memory that the latter gets for sure; failed node -> memory that may go anywhere.
        self._certain: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._anywhere: dict[int, int] = defaultdict(int)
        # The two nodes of mirrors -> memory that may be anywhere when both have failed.
        self._both: dict[tuple[int, int], int] = defaultdict(int)
        # Node -> the other node of its mirrors -> the same; made when triples are looked for.
        self._partners: dict[int, dict[int, int]] = {}
        # What was compared so far, and when that is enough.
        self.effort = len(state.nodes) ** 2 + len(state.instances)
        self._limit = self.effort + _COMPARED * len(state.nodes) ** 2
        # Node -> disk space that others must have for it; the largest piece of it.
        self._disk: dict[int, int] = defaultdict(int)
        self._largest = 0
        self._copies = False
        try:
            self._CheckNodes()
            for node in state.nodes.values():
                for number in node.primaries:
                    inst = state.instances.get(number)
                    if inst is not None:
                        self._Count(node, inst)
            self._clear = True
        except _Unclear:
            self._clear = False

    def _CheckNodes(self) -> None:
        nodes = self._state.nodes.values()
        if any(node.facts.migration_tags or node.facts.exclusive_storage or node.facts.drained for node in nodes):
            raise _Unclear
        if any(node.unallocated <= 0 for node in self._online.values()):
            raise _Unclear
        if len({node.facts.policy.memory_ratio is None for node in nodes}) > 1:
            raise _Unclear

    def _Count(self, node: Node, inst: Instance) -> None:
        memory = node.facts.Claim(inst) if inst.uses_memory else 0
        if memory < 0 or inst.disk < 0 or not {*inst.nodes} <= self._online.keys():
            raise _Unclear
        if inst.mirrored:
            if inst.secondary == inst.primary or inst.secondary not in self._online:
                raise _Unclear
            self._certain[inst.primary][inst.secondary] += memory
            self._both[min(inst.nodes), max(inst.nodes)] += memory
            self._disk[inst.primary] += inst.disk
            self._disk[inst.secondary] += inst.disk
            self._largest = max(self._largest, inst.disk)
            return
        self._anywhere[inst.primary] += memory
        if not inst.freely_movable:
            self._CountCopy(inst)

    def _CountCopy(self, inst: Instance) -> None:
        """Count an instance that is made anew, of which policies of the nodes must permit it."""
        if any(CheckPolicy(node.facts.policy, inst, False) is not None for node in self._online.values()):
            raise _Unclear
        self._copies = True
        if inst.local:
            self._disk[inst.primary] += inst.disk
            self._largest = max(self._largest, inst.disk)

    # --- what they say --------------------------------------------------------------------------------------------------

    def Survives(self) -> bool:
        """Return whether every such set of failures is survived for sure, in every order."""
        return self._clear and not self.Doubtful()

    def Doubtful(self) -> set[int]:
        """Return the nodes that may have to fail first for a breakdown; if others do, everything is survived for sure."""
        if not self._clear or len(self._online) <= self._count or not self._DisksFit():
            return {node.index for node in self._state.nodes.values() if node.facts.working}
        found: set[int] = set()
        for node in self._online.values():
            found |= self._DoubtfulFor(node)
        return found

    def TooMuch(self) -> tuple[str, ...]:
        """Return the names of nodes of which some node gets more for sure than it has room for; () if none are known."""
        for node in self._online.values():
            given = {failed: gets[node.index] for failed, gets in self._certain.items() if gets.get(node.index)}
            worst = heapq.nlargest(self._count, given, key=lambda failed: given[failed])
            if worst and sum(given[failed] for failed in worst) >= node.unallocated:
                return tuple(self._state.nodes[failed].facts.name for failed in worst)
        return ()

    def _DisksFit(self) -> bool:
        if not self._disk:
            return True
        if any(node.free_disk <= 0 for node in self._online.values()):
            return False
        # After the last failure nothing is mirrored again, but what has one node only is made anew.
        made = sum(_Most(self._disk.values(), self._count if self._copies else self._count - 1))
        rooms = sorted(max(0, node.free_disk - self._largest) for node in self._online.values())
        # Gone, or not to be used: the failed nodes, and the instance's primary while it gets another mirror.
        return sum(rooms[: len(rooms) - self._count]) > made

    def _DoubtfulFor(self, node: Node) -> set[int]:
        """Return the nodes in those sets of which a node might get more than it has room for."""
        gets = {
            failed: self._certain[failed].get(node.index, 0) + self._anywhere[failed]
            for failed in self._online
            if failed != node.index
        }
        room = node.unallocated
        alone = sum(_Most(gets.values(), self._count))
        if alone + sum(_Most(self._both.values(), self._count * (self._count - 1) // 2)) < room:
            return set()
        if self._count == 1:
            return {failed for failed, memory in gets.items() if memory >= room}
        if self._count > 2:
            return self._InTriples(gets, room) if self._count == 3 else set(gets)
        first, second = _Most(gets.values(), 2)
        found = {failed for failed, memory in gets.items() if memory + (second if memory == first else first) >= room}
        for (a, b), memory in self._both.items():
            if a in gets and b in gets and gets[a] + gets[b] + memory >= room:
                found |= {a, b}
        return found

    def _InTriples(self, gets: Mapping[int, int], room: int) -> set[int]:
        """Return the nodes of which with two others a node gets as much as it has room for."""
        found: set[int] = set()
        for first in gets:
            if first not in found and self.effort <= self._limit:
                found |= self._Triple(first, gets, room)
        return found if self.effort <= self._limit else set(gets)

    def _Triple(self, first: int, gets: Mapping[int, int], room: int) -> set[int]:
        """Return a node with two others that are too much together; the largest are tried first."""
        if not self._partners:
            self._partners = {node: {} for node in self._online}
            for (a, b), memory in self._both.items():
                self._partners[a][b] = self._partners[b][a] = memory
        most = max(self._both.values(), default=0)
        needed = room - gets[first]
        own = self._partners[first]
        others = sorted(((memory + own.get(b, 0), b) for b, memory in gets.items() if b != first), reverse=True)
        for place, (more, second) in enumerate(others):
            if 2 * more + most < needed:
                break
            between = self._partners[second]
            for memory, third in others[place + 1 :]:
                self.effort += 1
                if more + memory + most < needed or self.effort > self._limit:
                    break
                if more + memory + between.get(third, 0) >= needed:
                    return {first, second, third}
        return set()


def _Most(values: Iterable[int], count: int) -> list[int]:
    return heapq.nlargest(count, values)
