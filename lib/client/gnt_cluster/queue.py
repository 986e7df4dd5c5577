"""gnt-cluster queue: the drain flag of the job queue."""

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
        raise errors.OpPrereqError(
            f"Command '{command}' is not valid.", errors.ECODE_INVAL, hint="write drain, undrain or info"
        )
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Drain the job queue, so that it accepts no new jobs, undo that, or show the state",
    (One("command", ("drain", "undrain", "info")),),
    (o.OUTPUT_FORMAT,),
)
