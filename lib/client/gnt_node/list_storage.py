"""gnt-node list-storage: the storage units of nodes."""

from __future__ import annotations

from typing import Any

from ganeti import errors
from ganeti.cli import jobs, lists, tables
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNodeQueryStorage

_FIELDS = ("node", "type", "name", "size", "used", "free", "allocatable")
_SIZES = frozenset(["size", "used", "free"])


def _Cell(name: str, value: Any, units: str) -> str:
    if name == "allocatable":
        return tables.FormatBool(value)
    if name in _SIZES and isinstance(value, (int, float)):
        return tables.FormatUnit(value, units)
    return "" if value is None else str(value)


def Run(options: Options, arguments: list[str]) -> int:
    fields, as_json = lists.SplitOutput(options.output, list(_FIELDS))
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise errors.OpPrereqError(f"Unknown output fields selected: {','.join(unknown)}", errors.ECODE_INVAL)
    op = OpNodeQueryStorage(nodes=arguments, storage_type=options.storage_type, output_fields=fields)
    answer = jobs.SubmitOpCode(op, options)
    units = tables.Units(options)
    rows = [
        {name: value if as_json else _Cell(name, value, units) for name, value in zip(fields, values, strict=True)}
        for values in answer
    ]
    return lists.PrintRows([(name, name.capitalize(), name in _SIZES) for name in fields], rows, options, as_json)


COMMAND = Command(
    Run,
    "Lists storage units on nodes",
    (AnyNumber("node"),),
    (*o.SET_HEADERS, *o.SET_PRIORITY, o.UNITS, o.OUTPUT, o.STORAGE_TYPE),
)
