"""hroller: the order in which nodes can be rebooted (doc/reference/htools.md 18)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ganeti.htools.choosing import rolling
from ganeti.htools.choosing.rolling import Colouring, Impossible, Part, Wishes
from ganeti.htools.model.state import Cluster
from ganeti.htools.options import Values
from ganeti.tools.htools import output, sources
from ganeti.tools.htools.output import Failed, Streams


def Main(options: Values, streams: Streams) -> int:
    cluster = sources.Adjust(sources.Load(options, streams), options)
    _CheckMaster(cluster, options, streams)
    group = None
    if options.group is not None:
        found = cluster.FindGroup(options.group)
        if found is None:
            raise Failed("Cannot find target group.")
        group = found.index
    output.Save(streams, cluster, options, "original", "before hroller run")
    wishes = Wishes(
        skip_non_redundant=options.skip_non_redundant,
        ignore_non_redundant=options.ignore_non_redundant,
        offline_maintenance=options.offline_maintenance,
        full_evacuation=options.full_evacuation,
        tags=options.node_tags,
        group=group,
    )
    try:
        selected, graph = rolling.MakeGraph(cluster.state, wishes)
        colourings = rolling.Colourings(graph)
        parts = rolling.Parts(cluster.state, colourings[0], selected, wishes)
    except Impossible as err:
        raise Failed(str(err)) from err
    if options.verbosity > 2:
        streams.Out(f"Node Graph: {dict(graph)}")
    if options.verbosity > 1:
        streams.Out(_Statistics(colourings))
    _Print(cluster, parts, options, streams)
    return 0


def _CheckMaster(cluster: Cluster, options: Values, streams: Streams) -> None:
    masters = [node.facts.name for node in cluster.state.nodes.values() if node.facts.master]
    if len(masters) > 1:
        raise Failed(f"Found more than one master node: {output.Listed(masters)}")
    if not masters:
        text = "No master node found (maybe not supported by backend)."
        if not options.force:
            raise Failed(text)
        streams.Err(f"Warning: {text}")


def _Statistics(colourings: Sequence[Colouring]) -> str:
    """Return all colourings in one line, the worst first."""
    worst_first = list(reversed(colourings))
    text = ""
    for before, colouring in itertools.pairwise([None, *worst_first]):
        assert colouring is not None
        if before is not None:
            text += " TIE " if before.count == colouring.count else " LOOSE "
        text += f"{colouring.name}: {colouring.count} ({','.join(map(str, colouring.sizes))})"
    return text


def _Print(cluster: Cluster, parts: Sequence[Part], options: Values, streams: Streams) -> None:
    nodes = cluster.state.nodes
    if not options.no_headers:
        streams.Out("'First Reboot Group'" if options.one_step_only else "'Node Reboot Groups'")
    for part in parts:
        names = [nodes[index].facts.name for index in part.nodes]
        streams.Out(*(names if options.one_step_only else [",".join(names)]))
        if options.print_moves:
            for inst in rolling.Moved(cluster.state, part.state):
                streams.Out(f"  {inst.name} {' '.join(nodes[index].facts.name for index in inst.nodes)}")
        if options.one_step_only:
            break
