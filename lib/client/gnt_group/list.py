"""gnt-group list."""

from __future__ import annotations

from typing import Any

from ganeti.cli import lists, tables


def _Parameters(value: Any) -> str:
    return ", ".join(f"{key}={value[key]}" for key in sorted(value)) if value else "(empty)"


COMMAND = lists.ListCommand(
    lists.ListKind(
        "group",
        ("name", "node_cnt", "pinst_cnt", "alloc_policy", "ndparams"),
        formatters={"ndparams": _Parameters, "node_list": tables.JoinList, "pinst_list": tables.JoinList},
    ),
    "List node groups",
    "group",
    units=False,
)
