"""Fields of exports (doc/reference/queries.md 3.8)."""

from __future__ import annotations

from typing import Any

from ganeti.query.base import TEXT, Absent, Field, Kind
from ganeti.query.common import Column
from ganeti.query.context import LIVE_EXPORTS, Context


def _ExportRows(context: Context) -> list[tuple[str, Any]]:
    """Return (node name, export or Absent): a row per export, one for a silent node, none for a node without exports."""
    rows: list[tuple[str, Any]] = []
    for node in context.snapshot.nodes.values():
        payload = context.Payload(context.exports, node.uuid)
        if isinstance(payload, Absent):
            rows.append((node.name, payload))
        else:
            rows.extend((node.name, name) for name in payload)
    return rows


KIND = Kind(
    "export",
    "node",
    [
        Field("node", "Node", TEXT, "Node name", Column(0), hostname=True),
        Field("export", "Export", TEXT, "Export name", Column(1)),
    ],
    items=_ExportRows,
    item_name=lambda row: row[0],
    live_items=LIVE_EXPORTS,
    default_fields="node export",
)
