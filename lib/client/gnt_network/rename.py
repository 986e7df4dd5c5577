"""gnt-network rename."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNetworkRename


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(OpNetworkRename(network_name=arguments[0], new_name=arguments[1]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Rename a network", (One("network"), One("new_name")), o.SET_JOB)
