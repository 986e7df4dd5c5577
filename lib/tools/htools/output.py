"""The two streams of a program, and what several programs write on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from ganeti.htools import listing
from ganeti.htools.model.resources import Node
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.numbers import Fixed
from ganeti.htools.options import Values
from ganeti.htools.sources.text import Write


class Failed(Exception):
    """The program ends with an error; ``code`` is its exit status."""

    def __init__(self, text: str, code: int = 1):
        super().__init__(text)
        self.code = code


class Streams:
    """Standard output, standard error, and the door to files that are written."""

    def __init__(self, out: TextIO, err: TextIO, write_file: Callable[[str, str], None]):
        self._out = out
        self._err = err
        self._write_file = write_file

    def Out(self, *lines: str) -> None:
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()

    def Err(self, *lines: str) -> None:
        self._err.write("".join(f"{line}\n" for line in lines))

    def WriteFile(self, path: str, content: str) -> None:
        """Write a file; raises Failed."""
        try:
            self._write_file(path, content)
        except OSError as err:
            raise Failed(f"{path} cannot be written: {err.strerror or err}") from err


def Named(names: Iterable[str]) -> list[str]:
    """Return indented names, one to a line."""
    return [f"  {name}" for name in names]


def Listed(names: Sequence[str]) -> str:
    """Return names as a list in one line."""
    return "[" + ",".join(f'"{name}"' for name in names) + "]"


def PrintNodes(streams: Streams, nodes: Sequence[Node], options: Values, title: str) -> None:
    """Print the list of nodes if ``-p`` asks for it."""
    if options.print_nodes is not None:
        streams.Err("", f"{title} status:", *listing.NodeTable(nodes, options.print_nodes), "")


def PrintInstances(streams: Streams, state: State, cluster: Cluster, options: Values, title: str) -> None:
    """Print the map of instances if ``--print-instances`` asks for it."""
    if options.print_instances:
        names = cluster.state.nodes
        streams.Err("", f"{title} instance map:", *listing.InstanceTable(state, lambda index: names[index].facts.name))


def PrintCoefficients(streams: Streams, nodes: Sequence[Node], title: str, score: float) -> None:
    streams.Out(f"{title} overall {Fixed(score, 8)}", *listing.MetricTable(nodes))


def SuffixNote(cluster: Cluster) -> list[str]:
    return [f"Note: Stripping common suffix of '{cluster.suffix}' from names"] if cluster.suffix else []


def Save(streams: Streams, cluster: Cluster, options: Values, suffix: str, when: str) -> None:
    """Write a state if ``-S`` asks for it."""
    if options.save is None:
        return
    path = f"{options.save}.{suffix}"
    streams.WriteFile(path, Write(cluster))
    streams.Err(f"The cluster state {when} has been written to file '{path}'")


def ChooseGroup(streams: Streams, cluster: Cluster, word: str | None) -> tuple[str, State]:
    """Return name and state of the group to work on; raises Failed."""
    if word is not None:
        group = cluster.FindGroup(word)
        if group is None:
            streams.Err(f"Node group {word} not found. Node group list is:", *Named(g.name for g in cluster.groups))
            raise Failed("Aborting.")
        return group.name, cluster.GroupState(group.index)
    used = list(cluster.UsedGroups())
    if len(used) > 1:
        streams.Err("Found multiple node groups:", *Named(g.name for g in used))
        raise Failed("Aborting.")
    if not used:
        raise Failed("There is no group with nodes.")
    return used[0].name, cluster.GroupState(used[0].index)


def BadNodes(nodes: Iterable[Node]) -> list[Node]:
    """Return the online nodes that fail N+1."""
    return [node for node in nodes if not node.offline and node.failing]


def BadInstances(nodes: Iterable[Node]) -> set[int]:
    """Return the instances on the bad ones among the nodes."""
    return {index for node in BadNodes(nodes) for index in (*node.primaries, *node.secondaries)}
