"""gnt-network list."""

from __future__ import annotations

from typing import Any

from ganeti.cli import lists, tables


def _Groups(value: Any) -> str:
    return ", ".join(f"{group} ({mode}, {link}, {vlan})" for group, mode, link, vlan in value)


COMMAND = lists.ListCommand(
    lists.ListKind(
        "network",
        ("name", "network", "gateway", "mac_prefix", "group_list", "tags"),
        formatters={"group_list": _Groups, "inst_list": tables.JoinList, "tags": tables.JoinList},
    ),
    "List networks",
    "network",
    units=False,
    filters=False,
)
