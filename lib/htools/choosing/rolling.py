"""Groups of nodes that can be rebooted together (doc/reference/htools.md 18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ganeti.htools.model.entities import NO_NODE, Instance
from ganeti.htools.model.resources import AddPrimary, AddSecondary, Node, RemovePrimary, RemoveSecondary
from ganeti.htools.model.state import State


class Impossible(Exception):
    """The nodes cannot be grouped; the text is the reason."""


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for.  ``tags``: nodes need one of these; ``group``: index of the only group."""

    skip_non_redundant: bool = False
    ignore_non_redundant: bool = False
    offline_maintenance: bool = False
    full_evacuation: bool = False
    tags: Sequence[str] | None = None
    group: int | None = None


@dataclass(frozen=True)
class Part:
    """Nodes to reboot together, and the state in which they are empty."""

    nodes: tuple[int, ...]
    state: State


@dataclass(frozen=True)
class Colouring:
    """One way to colour the graph: vertex -> colour."""

    name: str
    colours: Mapping[int, int]

    @property
    def count(self) -> int:
        return len(set(self.colours.values()))

    @property
    def sizes(self) -> list[int]:
        return [sum(c == colour for c in self.colours.values()) for colour in range(self.count)]


# --- the graph ------------------------------------------------------------------------------------------------------------

# Vertex -> neighbours, in reverse order of the edges; repeats and loops included.
Graph = Mapping[int, Sequence[int]]


def Select(state: State, wishes: Wishes) -> list[int]:
    """Return the nodes to reboot."""
    chosen = []
    for node in state.Online():
        if wishes.group is not None and node.facts.group != wishes.group:
            continue
        if wishes.tags is not None and not set(wishes.tags) & set(node.facts.tags):
            continue
        if wishes.skip_non_redundant and any(not state.instances[i].mirrored for i in node.primaries):
            continue
        chosen.append(node.index)
    return chosen


def _Edges(state: State, wishes: Wishes) -> list[tuple[int, int]]:
    edges: list[tuple[int, int]] = []
    for inst in state.instances.values():
        if inst.mirrored and inst.secondary != NO_NODE:
            edges += [(inst.primary, inst.secondary), (inst.secondary, inst.primary)]
    if wishes.offline_maintenance:
        return edges
    known = set(edges)
    for node in state.nodes.values():
        others = [state.instances[i].primary for i in node.secondaries]
        for x in others:
            for y in others:
                if (x, y) not in known:
                    known.add((x, y))
                    edges.append((x, y))
    return edges


def MakeGraph(state: State, wishes: Wishes) -> tuple[list[int], Graph]:
    """Return the nodes selected and the graph of those that cannot be rebooted together; raises Impossible."""
    selected = Select(state, wishes)
    if not selected:
        raise Impossible("Cannot create node graph")
    graph: dict[int, list[int]] = {index: [] for index in range(min(selected), max(selected) + 1)}
    chosen = set(selected)
    for x, y in _Edges(state, wishes):
        if x in chosen and y in chosen:
            graph[x].insert(0, y)
    return selected, graph


# --- colours --------------------------------------------------------------------------------------------------------------


def _Smallest(graph: Graph, colours: Mapping[int, int], vertex: int) -> int:
    taken = {colours[neighbour] for neighbour in graph[vertex] if neighbour in colours}
    colour = 0
    while colour in taken:
        colour += 1
    return colour


def _LargestFirst(graph: Graph) -> Colouring:
    colours: dict[int, int] = {}
    for vertex in sorted(graph, key=lambda v: (-len(graph[v]), -v)):
        colours[vertex] = _Smallest(graph, colours, vertex)
    return Colouring("LF", colours)


def _ByNeighbours(name: str, weigh: Callable[[Sequence[int]], int]) -> Callable[[Graph], Colouring]:
    """Return a colouring that takes the vertex next whose neighbours' colours weigh most."""

    def colour(graph: Graph) -> Colouring:
        colours: dict[int, int] = {}
        left = list(graph)
        while left:
            vertex = max(left, key=lambda v: (weigh([colours[n] for n in graph[v] if n in colours]), len(graph[v]), v))
            colours[vertex] = _Smallest(graph, colours, vertex)
            left.remove(vertex)
        return Colouring(name, colours)

    return colour


_COLOURINGS: tuple[Callable[[Graph], Colouring], ...] = (
    _LargestFirst,
    _ByNeighbours("Dsatur", lambda colours: len(set(colours))),
    _ByNeighbours("Dcolor", len),
)


def Colourings(graph: Graph) -> list[Colouring]:
    """Return all colourings, the best first; of equals in their fixed order."""
    return sorted((colour(graph) for colour in _COLOURINGS), key=lambda colouring: colouring.count)


# --- moving what is not mirrored --------------------------------------------------------------------------------------------


def _MovePrimary(state: State, inst: Instance, targets: Iterable[int]) -> State | None:
    """Return the state with an instance on the first target that takes it."""
    for target in targets:
        moved = replace(inst, primary=target)
        added = AddPrimary(state.nodes[target], moved, force=True)
        if isinstance(added, Node):
            return state.With((RemovePrimary(state.nodes[inst.primary], inst), added), (moved,))
    return None


def _MoveSecondary(state: State, inst: Instance, targets: Iterable[int]) -> State | None:
    for target in targets:
        if target == inst.primary:
            continue
        moved = replace(inst, secondary=target)
        added = AddSecondary(state.nodes[target], moved, inst.primary, force=True)
        if isinstance(added, Node):
            old = RemoveSecondary(state.nodes[inst.secondary], inst, inst.primary)
            return state.With((old, added), (moved,))
    return None


def _Emptied(
    state: State,
    index: int,
    cleared: Sequence[int],
    concerned: Callable[[State, int], list[Instance]],
    move: Callable[[State, Instance, Iterable[int]], State | None],
) -> State | None:
    """Return the state with the instances concerned off a node; None if one finds no place."""
    targets = [
        node.index
        for node in state.Of(state.nodes[index].facts.group)
        if not node.offline and node.index not in cleared and node.index != index
    ]
    for inst in concerned(state, index):
        after = move(state, inst, targets)
        if after is None:
            return None
        state = after
    return state


def _NotMirrored(state: State, index: int) -> list[Instance]:
    return [state.instances[i] for i in state.nodes[index].primaries if not state.instances[i].mirrored]


def _Secondaries(state: State, index: int) -> list[Instance]:
    return [state.instances[i] for i in state.nodes[index].secondaries]


def _Split(
    state: State,
    nodes: Sequence[int],
    concerned: Callable[[State, int], list[Instance]],
    move: Callable[[State, Instance, Iterable[int]], State | None],
    problem: str,
) -> list[Part]:
    """Split a group into parts that can be emptied, each from the state given; raises Impossible."""
    parts = []
    left = list(nodes)
    while left:
        current = state
        part: list[int] = []
        later = []
        for index in left:
            after = _Emptied(current, index, part, concerned, move)
            if after is None:
                later.append(index)
            else:
                current = after
                part.append(index)
        if not part:
            raise Impossible(problem)
        parts.append(Part(tuple(part), current))
        left = later
    return parts


def _SwapMirrored(part: Part) -> Part:
    """Move the mirrored primaries of a part's nodes to their secondaries; raises Impossible."""
    state = part.state
    for index in part.nodes:
        for i in state.nodes[index].primaries:
            inst = state.instances[i]
            if not inst.mirrored:
                continue
            moved = replace(inst, primary=inst.secondary, secondary=inst.primary)
            first = AddPrimary(RemoveSecondary(state.nodes[inst.secondary], inst, inst.primary), moved, force=True)
            second = AddSecondary(RemovePrimary(state.nodes[inst.primary], inst), moved, moved.primary, force=True)
            if not isinstance(first, Node) or not isinstance(second, Node):
                raise Impossible("Failed to migrate instances off nodes")
            state = state.With((first, second), (moved,))
    return Part(part.nodes, state)


def Parts(state: State, colouring: Colouring, selected: Sequence[int], wishes: Wishes) -> list[Part]:
    """Return the groups in the order in which to reboot them; raises Impossible."""
    groups = [[v for v in sorted(colouring.colours) if colouring.colours[v] == c] for c in range(colouring.count)]
    groups = [[index for index in group if index in state.nodes] for group in groups]
    if wishes.ignore_non_redundant:
        parts = [Part(tuple(group), state) for group in groups]
    else:
        problem = "Not enough capacity to move non-redundant instances"
        parts = [part for group in groups for part in _Split(state, group, _NotMirrored, _MovePrimary, problem)]
    if wishes.full_evacuation:
        problem = "Not enough capacity to move secondaries"
        swapped = [_SwapMirrored(part) for part in parts]
        parts = [
            final for part in swapped for final in _Split(part.state, part.nodes, _Secondaries, _MoveSecondary, problem)
        ]
    chosen = set(selected)
    parts = [replace(part, nodes=tuple(index for index in part.nodes if index in chosen)) for part in parts]
    return _MastersLast(state, sorted((part for part in parts if part.nodes), key=lambda part: -len(part.nodes)))


def _MastersLast(state: State, parts: Sequence[Part]) -> list[Part]:
    def has_master(part: Part) -> bool:
        return any(state.nodes[index].facts.master for index in part.nodes)

    ordered = sorted(parts, key=has_master)
    return [
        replace(part, nodes=tuple(sorted(part.nodes, key=lambda index: state.nodes[index].facts.master)))
        for part in ordered
    ]


def Moved(before: State, after: State) -> list[Instance]:
    """Return the instances, as they are afterwards, that moved other than by a swap of roles."""
    found = []
    for index, inst in after.instances.items():
        old = before.instances[index]
        if set(inst.nodes) != set(old.nodes):
            found.append(inst)
    return found
