"""gnt-cluster queue: whether the job queue takes new jobs."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options


def Run(options: Options, arguments: list[str]) -> int:
    command = arguments[0]
    client = jobs.GetClient()
    if command in ("drain", "undrain"):
        client.SetDrainFlag(command == "drain")
    elif command == "info":
        drained = client.QueryConfigValues(["drain_flag"])[0]
        if options.output:
            output.PrintJson({"drain_flag": bool(drained)})
        else:
            output.ToStdout(f"The drain flag is {'set' if drained else 'unset'}")
    else:
        raise errors.OpPrereqError(f"Command '{command}' is not valid.", errors.ECODE_INVAL)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Changes or shows whether the job queue takes new jobs",
    (One("command", ("drain", "undrain", "info")),),
    (o.OUTPUT_FORMAT,),
)
