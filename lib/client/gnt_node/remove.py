"""gnt-node remove."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNodeRemove


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOpCode(OpNodeRemove(node_name=arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run, "Remove a node from the cluster; it must have no instances", (One("node"),), (*o.SET_DRY, *o.SET_PRIORITY)
)
