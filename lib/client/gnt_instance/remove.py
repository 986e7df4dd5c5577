"""gnt-instance remove: stops an instance and deletes it with its disks."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceRemove


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    question = (
        f"Instance {name} will be stopped and deleted with all its disks, mirrors included; the data cannot be brought"
        " back. Continue?"
    )
    if not options.force and not ask.Confirmed(question):
        return constants.EXIT_FAILURE
    op = OpInstanceRemove(
        instance_name=name, ignore_failures=options.ignore_failures, shutdown_timeout=options.shutdown_timeout
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Shuts down an instance and removes it",
    (One("instance"),),
    (o.FORCE, o.SHUTDOWN_TIMEOUT, o.IGNORE_FAILURES, *o.SET_JOB),
)
