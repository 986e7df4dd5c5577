"""gnt-instance deactivate-disks: closes the disks of a stopped instance."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceDeactivateDisks


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(jobs.FromOptions(OpInstanceDeactivateDisks, options, instance_name=arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Close the disks of a stopped instance on its nodes",
    (One("instance"),),
    (o.FORCE.But(help="Do not check first that the instance is stopped"), *o.SET_JOB),
)
