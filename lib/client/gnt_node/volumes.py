"""gnt-node volumes: the logical volumes of nodes."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.gnt_node import storage
from ganeti.opcodes import OpNodeQueryvols

_TITLES = {
    "node": ("Node", False),
    "phys": ("PhysDev", False),
    "vg": ("VG", False),
    "name": ("Name", False),
    "size": ("Size", True),
    "instance": ("Instance", False),
}


def Run(options: Options, arguments: list[str]) -> int:
    fields, as_json = storage.Split(options, list(_TITLES))
    rows = jobs.SubmitOpCode(OpNodeQueryvols(nodes=arguments, output_fields=fields), options)
    return storage.PrintTable(_TITLES, fields, rows, options, as_json)


COMMAND = Command(
    Run,
    "List the logical volumes of nodes, and the instances they belong to",
    (AnyNumber("node"),),
    (*o.SET_HEADERS, *o.SET_PRIORITY, o.UNITS, o.OUTPUT),
    details=f"Fields are {', '.join(_TITLES)}.  A volume on several physical volumes has a line for each.",
)
