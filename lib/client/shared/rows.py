"""Rows of queries as dictionaries, for commands that show whole objects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ganeti import constants
from ganeti.cli import output
from ganeti.luxi.client import Client


def QueryRows(
    client: Client, kind: str, fields: Sequence[str], qfilter: list[Any] | None = None
) -> list[dict[str, Any]]:
    """field -> value; None where there is no value."""
    answer = client.Query(kind, fields, qfilter)
    return [
        {
            name: value if status == constants.RS_NORMAL else None
            for name, (status, value) in zip(fields, row, strict=True)
        }
        for row in answer["data"]
    ]


def QueryNamed(client: Client, kind: str, fields: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of these names, or all; names that do not exist are left out, with a word on stderr."""
    if not names:
        return QueryRows(client, kind, fields)
    # "&" has all objects looked at; equality alone would refuse an unknown name.
    rows = QueryRows(client, kind, fields, ["&", ["|", *(["==", "name", name] for name in names)]])
    WarnLeftOut(kind, names, [row["name"] for row in rows])
    return rows


def WarnLeftOut(kind: str, wanted: Sequence[str], found: Collection[str]) -> None:
    """Names the ones that belong to nothing (spec/cli.md 4: a name may be given up to any of its full stops)."""
    for name in wanted:
        if name not in found and not any(full.startswith(f"{name}.") for full in found):
            output.ToStderr(f"Warning: {kind} '{name}' is not known and is left out")
