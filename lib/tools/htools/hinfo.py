"""hinfo: shows what the model says of a cluster (doc/reference/htools.md 17)."""

from __future__ import annotations

from ganeti.htools import listing
from ganeti.htools.model.state import Cluster
from ganeti.htools.numbers import Fixed
from ganeti.htools.options import Values
from ganeti.tools.htools import output, sources
from ganeti.tools.htools.output import Streams


def _Counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def Main(options: Values, streams: Streams) -> int:
    verbosity = options.verbosity
    cluster = sources.Adjust(sources.Load(options, streams), options)
    state = cluster.state
    streams.Out(f"Loaded cluster tags: {','.join(cluster.tags)}")
    if verbosity > 2:
        streams.Out(f"Loaded cluster ipolicy: {cluster.policy}")
    if verbosity > 1 and not state.instances:
        streams.Out("Cluster is empty.")
    streams.Out(
        f"Loaded {_Counted(len(state.nodes), 'node')}, {_Counted(len(state.instances), 'instance')},"
        f" {_Counted(len(cluster.groups), 'node group')}"
    )
    if verbosity > 2:
        streams.Out(*output.SuffixNote(cluster))
    if cluster.split:
        streams.Out("Found instances belonging to multiple node groups:")
        streams.Err(*output.Named(state.instances[index].name for index in cluster.split))
    elif verbosity > 1:
        streams.Out("No split instances found")
    if verbosity > 1:
        streams.Out("Node group information:", *_GroupTable(cluster))
    happy = not output.BadNodes(state.Ordered())
    streams.Out(f"Cluster is N+1 {'happy' if happy else 'unhappy'}")
    output.PrintInstances(streams, state, cluster, options, "Instances")
    output.PrintNodes(streams, state.Ordered(), options, "Cluster")
    streams.Out("Cluster coefficients:", *listing.MetricTable(state.Ordered()))
    streams.Out(f"Cluster score: {Fixed(state.Score(), 8)}")
    return 0


def _GroupTable(cluster: Cluster) -> list[str]:
    rows = [["Group", "Nodes", "Instances", "Bad_Nodes", "Bad_Instances", "N+1", "Score"]]
    for group in cluster.UsedGroups():
        part = cluster.GroupState(group.index)
        nodes = part.Ordered()
        bad = output.BadNodes(nodes)
        rows.append(
            [
                group.name,
                str(len(nodes)),
                str(len(part.instances)),
                str(len(bad)),
                str(len(output.BadInstances(nodes))),
                str(not bad),
                Fixed(part.Score(), 8),
            ]
        )
    return listing.Table(rows, [False, True, True, True, True, False, True], prefix="  ")
