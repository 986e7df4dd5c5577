"""hscan: writes the state of clusters to files (doc/reference/htools.md 20)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ganeti.htools import listing
from ganeti.htools.model.state import Cluster
from ganeti.htools.numbers import Fixed
from ganeti.htools.options import Values
from ganeti.htools.sources import loading
from ganeti.htools.sources.loading import LoadError
from ganeti.htools.sources.text import Write
from ganeti.tools.htools import output, sources
from ganeti.tools.htools.output import Streams

LOCAL = "LOCAL"
_WIDTHS = (5, 5, 5, 5, 6, 6, 6, 6)
_HEADERS = ("Nodes", "Inst", "BNode", "BInst", "t_mem", "f_mem", "t_disk", "f_disk")


def Main(options: Values, streams: Streams) -> int:
    names: Sequence[str] = options.arguments or [LOCAL]
    width = max(map(len, names))
    if not options.no_headers:
        streams.Out(" ".join(["Name".ljust(width), *map(str.rjust, _HEADERS, _WIDTHS), "Score".rjust(10)]))
    failed = False
    for name in names:
        try:
            cluster = _Load(name, options, streams)
        except LoadError as err:
            streams.Err("", f"Error for {name}: failed to load data. Details:", str(err))
            failed = True
            continue
        streams.Out(_Line(name.ljust(width), cluster))
        if options.print_nodes is not None:
            streams.Out(*listing.NodeTable(cluster.state.Ordered(), options.print_nodes))
        streams.WriteFile(os.path.join(options.output_dir, f"{name.replace('/', '_')}.data"), Write(cluster))
    return 2 if failed else 0


def _Load(name: str, options: Values, streams: Streams) -> Cluster:
    if name == LOCAL:
        raw = sources.FromLuxi(options.luxi or "", streams)
    else:
        raw = sources.FromRapi(name, sources.AccessOf(options))
    return loading.Build(raw, sources.Wishes(options))


def _Line(name: str, cluster: Cluster) -> str:
    nodes = cluster.state.Ordered()
    values = (
        len(nodes),
        len(cluster.state.instances),
        len(output.BadNodes(nodes)),
        len(output.BadInstances(nodes)),
        round(sum(node.facts.total_memory for node in nodes)),
        sum(node.facts.free_memory for node in nodes),
        round(sum(node.facts.total_disk for node in nodes) / 1024),
        sum(node.free_disk for node in nodes) // 1024,
    )
    cells = [str(value).rjust(width) for value, width in zip(values, _WIDTHS, strict=True)]
    return " ".join([name, *cells, Fixed(cluster.state.Score(), 8).rjust(10)])
