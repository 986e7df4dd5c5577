"""gnt-node modify-storage."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNodeModifyStorage


def Run(options: Options, arguments: list[str]) -> int:
    node, storage_type, name = arguments
    if options.allocatable is None:
        output.ToStderr("No changes to perform, exiting.")
        return constants.EXIT_SUCCESS
    changes = {"allocatable": options.allocatable}
    op = OpNodeModifyStorage(node_name=node, storage_type=storage_type, name=name, changes=changes)
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Modifies a storage unit of a node",
    (One("node"), One("type", ("lvm-pv",)), One("name")),
    (*o.SET_JOB, o.ALLOCATABLE),
)
