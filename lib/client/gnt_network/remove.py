"""gnt-network remove."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNetworkRemove


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(jobs.FromOptions(OpNetworkRemove, options, network_name=arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run, "Remove a network that no node group is connected to", (One("network"),), (o.FORCE.Hidden(), *o.SET_JOB)
)
