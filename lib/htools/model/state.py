"""A state of the cluster, or of a part of it: nodes and instances by their indices."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ganeti.htools.model.entities import DEFAULT_POLICY, NO_NODE, Group, Instance, Policy
from ganeti.htools.model.resources import Node
from ganeti.htools.model.score import Score, Statistics


@dataclass(frozen=True)
class State:
    """Nodes and instances by index, in increasing order.  A change makes another state; the rest is shared."""

    nodes: Mapping[int, Node]
    instances: Mapping[int, Instance]

    def With(self, nodes: Iterable[Node] = (), instances: Iterable[Instance] = ()) -> State:
        """Return the state with other versions of nodes and instances; new instances come last."""
        return State(
            {**self.nodes, **{node.index: node for node in nodes}},
            {**self.instances, **{inst.index: inst for inst in instances}},
        )

    def Ordered(self) -> list[Node]:
        return list(self.nodes.values())

    def Online(self) -> list[Node]:
        return [node for node in self.nodes.values() if not node.offline]

    def Of(self, group: int) -> list[Node]:
        """Return the nodes of a group."""
        return [node for node in self.nodes.values() if node.facts.group == group]

    @functools.cached_property
    def statistics(self) -> Statistics:
        return Statistics(self.Ordered())

    def Score(self) -> float:
        return Score(self.Ordered())


@dataclass(frozen=True)
class Cluster:
    """What a source delivered, ready for work.

    ``suffix``: what all names have in common at their end, from a dot on.  ``policy``: the cluster's.  ``split``: instances
    whose nodes are in different groups.  ``silent``: names of nodes that count as offline because they did not answer.
    """

    groups: Sequence[Group]
    state: State
    tags: Sequence[str] = ()
    policy: Policy = DEFAULT_POLICY
    suffix: str = ""
    split: Sequence[int] = ()
    warnings: Sequence[str] = field(default=())
    silent: Sequence[str] = ()

    def WithState(self, state: State) -> Cluster:
        return replace(self, state=state)

    def GroupState(self, group: int) -> State:
        """Return the part of a group: its nodes, and the instances whose primary is there."""
        nodes = {node.index: node for node in self.state.Of(group)}
        instances = {i: inst for i, inst in self.state.instances.items() if inst.primary in nodes}
        return State(nodes, instances)

    def UsedGroups(self) -> Iterator[Group]:
        """Yield the groups that have nodes."""
        used = {node.facts.group for node in self.state.nodes.values()}
        return (group for group in self.groups if group.index in used)

    def NodeName(self, index: int) -> str:
        """Return the full name of a node, "" for NO_NODE."""
        return "" if index == NO_NODE else self.state.nodes[index].facts.name

    def FindGroup(self, word: str) -> Group | None:
        """Return the group of this name or UUID; None unless there is exactly one."""
        found = [group for group in self.groups if word in (group.name, group.uuid)]
        return found[0] if len(found) == 1 else None
