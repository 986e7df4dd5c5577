"""gnt-instance activate-disks: assembles the disks without starting the instance."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceActivateDisks


def Run(options: Options, arguments: list[str]) -> int:
    op = OpInstanceActivateDisks(
        instance_name=arguments[0], ignore_size=options.ignore_size, wait_for_sync=options.wait_for_sync
    )
    for node, name, path in jobs.SubmitOrSend(op, options):
        output.ToStdout(f"{node}:{name}:{path}")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Activates an instance's disks",
    (One("instance"),),
    (o.IGNORE_SIZE, o.WAIT_FOR_SYNC, *o.SET_SUBMIT, o.PRIORITY),
)
