"""Fields of exports (doc/reference/queries.md 3.8)."""

from __future__ import annotations

from typing import Any

from ganeti import objects
from ganeti.query.base import TEXT, Absent, Field, Kind
from ganeti.query.common import Column
from ganeti.query.context import LIVE_EXPORTS, Context

# A node and one of its exports; None as long as these are not known.
Row = tuple[objects.Node, Any]


def _Nodes(context: Context) -> list[Row]:
    return [(node, None) for node in context.snapshot.nodes.values()]


def _Exports(context: Context, item: Row) -> list[Row]:
    """Return a row per export of a node; one for a silent node, none for a node without exports."""
    node, _ = item
    payload = context.Payload(context.exports, node.uuid)
    return [(node, payload)] if isinstance(payload, Absent) else [(node, name) for name in payload]


KIND = Kind(
    "export",
    "node",
    [
        Field("node", "Node", TEXT, "Node name", lambda _, row: row[0].name, hostname=True),
        Field("export", "Export", TEXT, "Export name", Column(1), live=LIVE_EXPORTS),
    ],
    items=_Nodes,
    item_name=lambda row: row[0].name,
    item_uuid=lambda row: row[0].uuid,
    rows=_Exports,
    live_rows=LIVE_EXPORTS,
    default_fields="node export",
)
