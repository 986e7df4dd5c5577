"""gnt-instance rename."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceRename


def Run(options: Options, arguments: list[str]) -> int:
    old, new = arguments
    op = jobs.FromOptions(OpInstanceRename, options, instance_name=old, new_name=new)
    result = jobs.SubmitOrSend(op, options)
    if result:
        output.ToStdout(f"Instance '{old}' renamed to '{result}'")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run, "Rename a stopped instance", (One("instance"), One("host")), (o.IP_CHECK, o.NAME_CHECK, *o.SET_JOB)
)
