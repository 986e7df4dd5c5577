"""Fields of locks, filter rules and exports (spec/queries.md 3.6 to 3.8)."""

from __future__ import annotations

from typing import Any

from ganeti.objects.base import Thaw
from ganeti.query.base import OTHER, TEXT, Absent, Field, Kind
from ganeti.query.common import Attribute
from ganeti.query.context import LIVE_EXPORTS, LIVE_LOCKS, Context


def _Column(index: int) -> Any:
    return lambda _context, row: row[index]


LOCK = Kind(
    "lock",
    "name",
    [
        Field("name", "Name", OTHER, "Lock name", _Column(0), live=LIVE_LOCKS),
        Field("mode", "Mode", OTHER, "Mode in which the lock is held", _Column(1), live=LIVE_LOCKS),
        Field("owner", "Owner", OTHER, "Who holds the lock", _Column(2), live=LIVE_LOCKS),
        Field("pending", "Pending", OTHER, "Who waits for the lock", _Column(3), live=LIVE_LOCKS),
    ],
    items=lambda context: context.locks,
    item_name=lambda row: row[0],
    by_name=False,
    live_items=LIVE_LOCKS,
    default_fields="name mode owner pending",
)

FILTER = Kind(
    "filter",
    "uuid",
    [
        Field("watermark", "Watermark", OTHER, "Last job ID when the rule was set", Attribute("watermark")),
        Field("priority", "Priority", OTHER, "Rules with lower numbers come first", Attribute("priority")),
        Field("predicates", "Predicates", OTHER, "What a job must be like", lambda _, f: Thaw(f.predicates)),
        Field("action", "Action", OTHER, "What happens to such a job", lambda _, f: Thaw(f.action)),
        Field("reason_trail", "ReasonTrail", OTHER, "Who set the rule and why", lambda _, f: Thaw(f.reason_trail)),
        Field("uuid", "UUID", OTHER, "UUID of the rule", Attribute("uuid")),
    ],
    items=lambda context: context.snapshot.filters.values(),
    item_name=lambda rule: rule.uuid,
    by_name=False,
    default_fields="uuid watermark priority predicates action reason_trail",
)


def _ExportRows(context: Context) -> list[tuple[str, Any]]:
    """(node name, export or Absent): one row per export, one for a node that did not answer, none for an empty one."""
    rows: list[tuple[str, Any]] = []
    for node in context.snapshot.nodes.values():
        payload = context.Payload(context.exports, node.uuid)
        if isinstance(payload, Absent):
            rows.append((node.name, payload))
        else:
            rows.extend((node.name, name) for name in payload)
    return rows


EXPORT = Kind(
    "export",
    "node",
    [
        Field("node", "Node", TEXT, "Node name", _Column(0), hostname=True, live=LIVE_EXPORTS),
        Field("export", "Export", TEXT, "Export name", _Column(1), live=LIVE_EXPORTS),
    ],
    items=_ExportRows,
    item_name=lambda row: row[0],
    live_items=LIVE_EXPORTS,
    default_fields="node export",
)
