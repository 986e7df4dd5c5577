"""The nodes that a command acts on over SSH: names, addresses, ports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ganeti.cli import jobs, output
from ganeti.client.shared.rows import WarnLeftOut


class NodeAddress(NamedTuple):
    """Says how to reach a node."""

    name: str
    primary_ip: str
    secondary_ip: str
    ssh_port: int


def OnlineNodes(names: Sequence[str], group: str | None = None, skip_master: bool = False) -> list[NodeAddress]:
    """Return those of these nodes, or of all nodes, that are online; print which are left out."""
    filters: list[Any] = []
    if names:
        filters.append(["|", *(["==", "name", name] for name in names)])
    if group:
        filters.append(["|", ["==", "group", group], ["==", "group.uuid", group]])
    if skip_master:
        filters.append(["!", ["?", "master"]])
    qfilter = None if not filters else filters[0] if len(filters) == 1 else ["&", *filters]
    fields = ["name", "offline", "pip", "sip", "ndp/ssh_port"]
    rows = [[value for _, value in row] for row in jobs.GetClient().Query("node", fields, qfilter)["data"]]
    WarnLeftOut("node", names, [row[0] for row in rows] + ([_MasterName()] if names and skip_master else []))
    if group and not rows:
        output.ToStderr(f"Note: no nodes selected: node group '{group}' does not exist or has none of these nodes")
    offline = [row[0] for row in rows if row[1]]
    if offline:
        output.ToStderr(f"Note: skipping offline node(s): {', '.join(offline)}")
    return [NodeAddress(row[0], row[2], row[3], row[4] or 22) for row in rows if not row[1]]


def _MasterName() -> str:
    master: str = jobs.GetClient().QueryConfigValues(["master_node"])[0]
    return master
