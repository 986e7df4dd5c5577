"""Utilisation as monitoring daemons report it (doc/reference/htools.md 3.7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ganeti import constants
from ganeti.htools.model.resources import Node
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sources import fields
from ganeti.htools.sources.fields import BadValue, Fields
from ganeti.htools.sources.loading import LoadError

CPU: Final = "cpu-avg-load"
XEN_CPU: Final = "xen-cpu-avg-load"
# What may stand in the address of a report; names come from the source of the cluster.
HOST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}", re.ASCII)


def Url(node: str, collector: str) -> str:
    """Return where a node's monitoring daemon has the report of a collector."""
    return f"http://{node}:{constants.DEFAULT_MOND_PORT}/1/report/default/{collector}"


def ParseFile(text: str) -> dict[str, list[Any]]:
    """Return node name -> reports of a file; raises LoadError."""
    context = "Parsing MonD data"
    found = {}
    try:
        items = fields.List(fields.Object)(fields.ParseJson(text, context))
    except BadValue as err:
        raise LoadError(f"{context}: {err}") from None
    for item in items:
        node = Fields(item, context)
        found[node.Get("node", fields.Text)] = list(node.Get("reports", fields.List(lambda value: value)))
    return found


def FindData(reports: Iterable[Any], collector: str) -> Any:
    """Return the data of a collector among a node's reports; None if it is not there."""
    for report in reports:
        if isinstance(report, dict) and report.get("name") == collector:
            return report.get("data")
    return None


def Problem(report: Any) -> str | None:
    """Return why a collector has no data, in its own words; None if it says nothing of the kind."""
    data = report.get("data") if isinstance(report, dict) else None
    error = data.get("error") if isinstance(data, dict) else None
    return error if isinstance(error, str) else None


def Missing(collector: str) -> str:
    return f"Didn't receive an answer by all MonDs, {collector}'s data will be ignored."


def Use(cluster: Cluster, collector: str, data: Mapping[str, Any]) -> Cluster | None:
    """Return the cluster with the loads of all nodes; None if a node's report, or an instance, is missing.

    ``data``: node name -> the collector's data.  A node that is offline need not have any.
    """
    state: State | None = cluster.state
    for node in cluster.state.Ordered():
        if node.offline and node.facts.name not in data:
            continue
        try:
            state = None if state is None else _USES[collector](state, node, data.get(node.facts.name))
        except BadValue:
            state = None
    return None if state is None else cluster.WithState(state)


def _UseCpu(state: State, node: Node, data: Any) -> State:
    values = fields.Object(data)
    fields.List(fields.Real)(values.get("cpus"))
    fields.Int(values.get("cpu_number"))
    total = fields.Real(values.get("cpu_total"))
    other = node.Copy()
    other.load = node.load._replace(cpu=total)
    primaries = [inst for inst in state.instances.values() if inst.primary == node.index]
    return state.With(
        (other,),
        (replace(i, load=i.load._replace(cpu=total / node.used_cpus * i.vcpus)) for i in primaries),
    )


def _UseXen(state: State, node: Node, data: Any) -> State:
    loads = fields.Object(data)
    primaries = [inst for inst in state.instances.values() if inst.primary == node.index]
    changed = [replace(i, load=i.load._replace(cpu=fields.Real(loads.get(i.name)))) for i in primaries]
    other = node.Copy()
    total = 0.0
    for inst in changed:
        total += inst.load.cpu
    other.load = node.load._replace(cpu=total)
    return state.With((other,), changed)


_USES: Final[dict[str, Callable[[State, Node, Any], State]]] = {CPU: _UseCpu, XEN_CPU: _UseXen}
