"""gnt-node repair-storage."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpRepairNodeStorage


def Run(options: Options, arguments: list[str]) -> int:
    node, storage_type, name = arguments
    op = OpRepairNodeStorage(
        node_name=node, storage_type=storage_type, name=name, ignore_consistency=options.ignore_consistency
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Repairs a storage unit of a node",
    (One("node"), One("type", ("lvm-vg",)), One("name")),
    (*o.SET_JOB, o.IGNORE_CONSISTENCY),
)
