"""gnt-group remove."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpGroupRemove


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(OpGroupRemove(group_name=arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Remove an empty node group", (One("group"),), o.SET_JOB)
