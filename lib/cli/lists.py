"""The commands ``list`` and ``list-fields``: one declaration for each kind of object gives both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants
from ganeti.cli import jobs, output, tables, values
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.options import FILTER, SET_HEADERS, SET_LIST, UNITS
from ganeti.cli.parser import Opt, Options

JSON = "json"

# Titles of the kinds of fields in list-fields.
KIND_TITLES = {
    "unknown": "Unknown",
    "text": "Text",
    "bool": "Boolean",
    "number": "Number",
    "float": "Floating-point number",
    "unit": "Storage size",
    "timestamp": "Timestamp",
    "other": "Custom",
}


class ListKind(NamedTuple):
    """Describes how a kind of object is listed; ``key`` is the field that arguments name."""

    kind: str
    default: tuple[str, ...]
    key: str = "name"
    formatters: Mapping[str, tables.Formatter] = {}
    numeric: bool = False


def SplitOutput(text: str | None, default: Sequence[str]) -> tuple[list[str], bool]:
    """Return (columns, whether as JSON) of ``-o``; ``json`` alone means the usual columns."""
    as_json = text == JSON or (text or "").startswith(JSON + ":")
    if as_json:
        text = (text or "")[len(JSON) + 1 :] or None
    return values.ParseFields(text, list(default)), as_json


def MakeFilter(kind: ListKind, arguments: Sequence[str], force_filter: bool) -> list[Any] | None:
    if not arguments and not force_filter:
        return None  # most lists need no grammar
    from ganeti.query import text

    return text.MakeFilter(arguments, force_filter, kind.key, kind.numeric)


def RunList(
    kind: ListKind, options: Options, arguments: Sequence[str], extra: list[Any] | None = None, default: Any = None
) -> int:
    """Query and print the objects; ``extra`` is a further filter of the command itself."""
    fields, as_json = SplitOutput(options.output, default or kind.default)
    qfilter = MakeFilter(kind, arguments, getattr(options, "force_filter", False))
    if extra is not None:
        qfilter = extra if qfilter is None else ["&", qfilter, extra]
    answer = jobs.GetClient().Query(kind.kind, fields, qfilter)
    code = tables.PrintQueryJson(answer) if as_json else tables.PrintQueryResult(answer, options, kind.formatters)
    if code == constants.EXIT_UNKNOWN_FIELD:
        _SuggestFields(kind.kind, answer["fields"])
    return code


def _SuggestFields(kind: str, fields: Sequence[Mapping[str, Any]]) -> None:
    """Print which fields unknown ones may stand for."""
    from ganeti.utils.text import Suggestion

    known = [field["name"] for field in jobs.GetClient().QueryFields(kind, None)["fields"]]
    for field in fields:
        suggestion = Suggestion(field["name"], known) if field["kind"] == "unknown" else ""
        if suggestion:
            output.ToStderr(f"{field['name']}: {suggestion}")


def RunListFields(kind: str, options: Options, arguments: Sequence[str]) -> int:
    answer = jobs.GetClient().QueryFields(kind, list(arguments) or None)
    fields = answer["fields"]
    if options.output == JSON:
        output.PrintJson(fields)
        return tables.WarnUnknown(fields)
    columns = [tables.Column(title) for title in ("Name", "Type", "Title", "Description")]
    rows = []
    for field in fields:
        doc = field.get("doc") or ""
        if field["kind"] == "unknown":
            doc = f"Unknown field '{field['name']}'"
        rows.append([field["name"], KIND_TITLES.get(field["kind"], "Unknown"), field["title"], doc])
    for line in tables.Layout(columns, rows, not options.no_headers, options.separator):
        output.ToStdout(line, options.separator or "")
    return tables.WarnUnknown(fields)


def ListCommand(
    kind: ListKind, summary: str, argument: str, *, units: bool = True, filters: bool = True, more: tuple[Opt, ...] = ()
) -> Command:
    """Return the ``list`` command of a kind."""

    def run(options: Options, arguments: list[str]) -> int:
        return RunList(kind, options, arguments)

    own = SET_LIST + ((UNITS,) if units else ()) + ((FILTER,) if filters else ()) + more
    return Command(run, summary, (AnyNumber(argument),), own)


def ListFieldsCommand(kind: str, summary: str) -> Command:
    from ganeti.cli.options import OUTPUT_FORMAT

    def run(options: Options, arguments: list[str]) -> int:
        return RunListFields(kind, options, arguments)

    return Command(run, summary, (AnyNumber("field"),), (*SET_HEADERS, OUTPUT_FORMAT))


def PrintRows(
    columns: Sequence[tuple[str, str, bool]], rows: Sequence[Mapping[str, Any]], options: Options, as_json: bool = False
) -> int:
    """Print a table in the older layout; ``columns``: (key, title, right-aligned), values of rows are texts."""
    if as_json:
        output.PrintJson([{key: row[key] for key, _, _ in columns} for row in rows])
        return constants.EXIT_SUCCESS
    heads = [tables.Column(title, right) for _, title, right in columns]
    cells = [[str(row[key]) for key, _, _ in columns] for row in rows]
    for line in tables.Layout(heads, cells, not options.no_headers, options.separator, pad_last=True):
        output.ToStdout(line, options.separator or "")
    return constants.EXIT_SUCCESS
