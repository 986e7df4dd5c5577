"""gnt-filter list."""

from __future__ import annotations

from ganeti.cli import lists

COMMAND = lists.ListCommand(
    lists.ListKind("filter", ("uuid", "watermark", "priority", "predicates", "action", "reason_trail"), key="uuid"),
    "List the rules",
    "filter",
    units=False,
    filters=False,
)
