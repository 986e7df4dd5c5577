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
    """Return each object as field -> value; None where there is no value."""
    answer = client.Query(kind, fields, qfilter)
    return [
        {
            name: value if status == constants.RS_NORMAL else None
            for name, (status, value) in zip(fields, row, strict=True)
        }
        for row in answer["data"]
    ]


def QueryNamed(client: Client, kind: str, fields: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the objects of these names, or all; leave unknown names out and warn of them."""
    if not names:
        return QueryRows(client, kind, fields)
    rows = QueryRows(client, kind, fields, ByName(names))
    WarnLeftOut(kind, names, [row["name"] for row in rows])
    return rows


def ByName(names: Sequence[str]) -> list[Any]:
    """Return a filter for these names; unlike equality alone, which the master rejects, it may match nothing."""
    return ["&", ByKnownName(names)]


def ByKnownName(names: Sequence[str]) -> list[Any]:
    """Return a filter that the master rejects, when it stands alone, if one of the names is unknown."""
    return ["|", *(["==", "name", name] for name in names)]


def WarnLeftOut(kind: str, wanted: Sequence[str], found: Collection[str]) -> None:
    """Warn of the names that match no object; a name may be shortened at any of its dots."""
    for name in wanted:
        if name not in found and not any(full.startswith(f"{name}.") for full in found):
            output.ToStderr(f"Warning: {kind} '{name}' does not exist and is left out")
