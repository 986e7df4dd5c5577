"""gnt-node volumes: the logical volumes on nodes."""

from __future__ import annotations

from ganeti import errors
from ganeti.cli import jobs, lists, tables
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNodeQueryvols

# field -> (title, right-aligned)
_COLUMNS = {
    "node": ("Node", False),
    "phys": ("PhysDev", False),
    "vg": ("VG", False),
    "name": ("Name", False),
    "size": ("Size", True),
    "instance": ("Instance", False),
}


def Run(options: Options, arguments: list[str]) -> int:
    fields, as_json = lists.SplitOutput(options.output, list(_COLUMNS))
    unknown = [name for name in fields if name not in _COLUMNS]
    if unknown:
        raise errors.OpPrereqError(f"Unknown output fields selected: {','.join(unknown)}", errors.ECODE_INVAL)
    answer = jobs.SubmitOpCode(OpNodeQueryvols(nodes=arguments, output_fields=fields), options)
    units = tables.Units(options)
    rows = []
    for values in answer:
        row = dict(zip(fields, values, strict=True))
        if not as_json and str(row.get("size", "")).replace(".", "", 1).isdigit():
            row["size"] = tables.FormatUnit(float(row["size"]), units)
        rows.append(row)
    return lists.PrintRows([(name, *_COLUMNS[name]) for name in fields], rows, options, as_json)


COMMAND = Command(
    Run,
    "Lists logical volumes on nodes",
    (AnyNumber("node"),),
    (*o.SET_HEADERS, *o.SET_PRIORITY, o.UNITS, o.OUTPUT),
)
