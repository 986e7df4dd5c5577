"""gnt-instance deactivate-disks: takes the disks of a stopped instance down."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceDeactivateDisks


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(OpInstanceDeactivateDisks(instance_name=arguments[0], force=options.force), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Deactivates an instance's disks", (One("instance"),), (o.FORCE, *o.SET_JOB))
