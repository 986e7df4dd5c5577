"""Tables of what nodes keep disks in, for commands of the older layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.cli import lists, tables
from ganeti.cli.parser import Options

# Field -> (title, whether it is a size).
Titles = Mapping[str, tuple[str, bool]]


def PrintTable(
    titles: Titles, fields: Sequence[str], rows: Sequence[Sequence[Any]], options: Options, as_json: bool
) -> int:
    """Print the rows of an opcode's answer; ``fields`` says what stands in each."""
    if as_json:
        found = [dict(zip(fields, row, strict=True)) for row in rows]
        return lists.PrintRows([(name, "", False) for name in fields], found, options, as_json=True)
    units = tables.Units(options)
    columns = [(str(number), *titles[name]) for number, name in enumerate(fields)]
    texts = [
        {
            str(number): _Text(value, titles[name][1], units)
            for number, (name, value) in enumerate(zip(fields, row, strict=True))
        }
        for row in rows
    ]
    return lists.PrintRows(columns, texts, options)


def _Text(value: Any, is_size: bool, units: str) -> str:
    if isinstance(value, bool):
        return "Y" if value else "N"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    if not is_size:
        return str(value)
    try:
        return tables.FormatUnit(float(value), units)
    except (TypeError, ValueError):
        return str(value)


def Split(options: Options, default: Sequence[str]) -> tuple[list[str], bool]:
    """Return (fields, whether as JSON) of ``-o``."""
    return lists.SplitOutput(options.output, default)
