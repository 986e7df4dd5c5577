"""Tables of the list commands: cells, alignment, units, marks for missing values."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants
from ganeti.cli import output

Formatter = Callable[[Any], str]

# status of a cell -> (short, long) mark.
STATUS_MARKS = {
    constants.RS_UNKNOWN: ("??", "(unknown)"),
    constants.RS_NODATA: ("?", "(nodata)"),
    constants.RS_UNAVAIL: ("-", "(unavail)"),
    constants.RS_OFFLINE: ("*", "(offline)"),
}
STATUS_NAMES = {
    constants.RS_UNKNOWN: "unknown",
    constants.RS_NODATA: "nodata",
    constants.RS_UNAVAIL: "unavail",
    constants.RS_OFFLINE: "offline",
}

_RIGHT = frozenset(["number", "unit"])


class Column(NamedTuple):
    """Describes a column; numbers and sizes are aligned on the right."""

    title: str
    right: bool = False


def FormatUnit(value: float, units: str = "h", roman: bool = False) -> str:
    """Return a number of MiB in a unit: ``h`` chooses one and names it, ``m``, ``g`` and ``t`` give bare numbers."""
    suffix = ""
    if units == "h":
        units = "m" if value < 1024 else "g" if value < 1024 * 1024 else "t"
        suffix = units.upper()
    if units == "m":
        return f"{round(value):d}{suffix}" if not roman else f"{ToRoman(round(value))}{suffix}"
    return f"{value / (1024 if units == 'g' else 1024 * 1024):.1f}{suffix}"


def ToRoman(value: Any) -> Any:
    """Return a positive whole number in Roman numerals, everything else as it is."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 4000:
        return value
    digits = (
        (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
        (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
    )  # fmt: skip
    text = ""
    for size, digit in digits:
        count, value = divmod(value, size)
        text += digit * count
    return text


def FormatTimestamp(value: Any) -> str:
    """Return the local time of seconds since the epoch."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "N/A"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    except (OverflowError, ValueError, OSError):
        return "N/A"


def FormatJobTimestamp(value: Any) -> str:
    """Return the local time of ``[seconds, microseconds]``, as jobs have it."""
    if not (isinstance(value, (list, tuple)) and len(value) == 2):
        return "?"
    seconds, microseconds = value
    text = FormatTimestamp(seconds)
    return "?" if text == "N/A" or not isinstance(microseconds, int) else f"{text}.{microseconds:06d}"


def FormatBool(value: Any) -> str:
    return "Y" if value else "N"


def JoinList(value: Any) -> str:
    """Return ``a,b`` for a list."""
    return ",".join(str(item) for item in value)


def Units(options: Any) -> str:
    """Return the unit of sizes: MiB for programs, which give a separator, unless another one is given."""
    if getattr(options, "units", None):
        return str(options.units)
    return "m" if options.separator else "h"


def Layout(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    headers: bool,
    separator: str | None,
    pad_last: bool = False,
) -> list[str]:
    """Return the lines of a table; a left-aligned last column is padded in older commands only (``pad_last``)."""
    cells = [[output.WithoutControls(cell) for cell in row] for row in rows]
    if headers:
        cells.insert(0, [column.title for column in columns])
    if separator is not None:
        return [separator.join(row) for row in cells]
    widths = [max((len(row[i]) for row in cells), default=0) for i in range(len(columns))]
    last = len(columns) - 1
    lines = []
    for row in cells:
        padded = []
        for index, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if column.right:
                padded.append(cell.rjust(widths[index]))
            elif index == last and not pad_last:
                padded.append(cell)
            else:
                padded.append(cell.ljust(widths[index]))
        lines.append(" ".join(padded))
    return lines


def KindFormatter(kind: str, units: str) -> Formatter:
    """Return the function that formats values of a kind of query field."""
    if kind == "bool":
        return FormatBool
    if kind == "timestamp":
        return FormatTimestamp
    if kind == "unit":
        return lambda value: FormatUnit(value, units)
    return str


def FormatCell(cell: Sequence[Any], formatter: Formatter, verbose: bool) -> str:
    status, value = cell
    if status == constants.RS_NORMAL:
        return formatter(value)
    return STATUS_MARKS.get(status, STATUS_MARKS[constants.RS_UNKNOWN])[1 if verbose else 0]


def PrintQueryResult(answer: Mapping[str, Any], options: Any, formatters: Mapping[str, Formatter]) -> int:
    """Print the answer of a query as a table; return the exit code, which shows unknown fields."""
    units = Units(options)
    fields = answer["fields"]
    columns = [Column(field["title"], field["kind"] in _RIGHT) for field in fields]
    shown = [formatters.get(field["name"]) or KindFormatter(field["kind"], units) for field in fields]
    rows = [
        [FormatCell(cell, formatter, options.verbose) for cell, formatter in zip(row, shown, strict=True)]
        for row in answer["data"]
    ]
    for line in Layout(columns, rows, not options.no_headers, options.separator):
        output.ToStdout(line, options.separator or "")
    return WarnUnknown(fields)


def PrintQueryJson(answer: Mapping[str, Any]) -> int:
    """Print the answer as a list of objects; missing values are null and listed under ``_status``."""
    fields = answer["fields"]
    rows = []
    for row in answer["data"]:
        item: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for field, (status, value) in zip(fields, row, strict=True):
            item[field["name"]] = value if status == constants.RS_NORMAL else None
            if status != constants.RS_NORMAL:
                missing[field["name"]] = STATUS_NAMES.get(status, "unknown")
        if missing:
            item["_status"] = missing
        rows.append(item)
    output.PrintJson(rows)
    return WarnUnknown(fields)


def WarnUnknown(fields: Sequence[Mapping[str, Any]]) -> int:
    unknown = [field["name"] for field in fields if field["kind"] == "unknown"]
    if not unknown:
        return constants.EXIT_SUCCESS
    output.ToStderr(f"Warning: Queried for unknown fields {', '.join(unknown)}")
    return constants.EXIT_UNKNOWN_FIELD
