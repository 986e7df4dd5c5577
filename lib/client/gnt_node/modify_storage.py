"""gnt-node modify-storage: whether new volumes may lie on a physical volume."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options, Value
from ganeti.opcodes import OpNodeModifyStorage

ALLOCATABLE = Value("--allocatable", dest="allocatable", type="bool", text="Whether new volumes may lie on it")


def Run(options: Options, arguments: list[str]) -> int:
    node, storage_type, name = arguments
    if options.allocatable is None:
        output.ToStderr("No changes to perform, exiting.")
        return constants.EXIT_SUCCESS
    op = jobs.FromOptions(
        OpNodeModifyStorage,
        options,
        node_name=node,
        storage_type=storage_type,
        name=name,
        changes={"allocatable": options.allocatable},
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Allow or forbid new volumes on a physical volume",
    (One("node"), One("type"), One("name")),
    (ALLOCATABLE, *o.SET_JOB),
    details="TYPE is lvm-pv, NAME the device.  For example, keep new volumes off a disk that is to be replaced:"
    " 'gnt-node modify-storage --allocatable=no node1 lvm-pv /dev/sdb'.",
)
