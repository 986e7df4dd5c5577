"""gnt-instance remove: stops an instance and deletes its disks."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.opcodes import OpInstanceRemove

IGNORE_FAILURES = Flag(
    "--ignore-failures", dest="ignore_failures", text="Remove it from the configuration even if a node reports an error"
)


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    question = (
        f"Instance {name} will be stopped and removed, and its disks will be deleted. The data cannot be restored."
        " Continue?"
    )
    if not options.force and not ask.Confirmed(question, "--force"):
        return constants.EXIT_FAILURE
    jobs.SubmitOrSend(jobs.FromOptions(OpInstanceRemove, options, instance_name=name), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Stop an instance, delete its disks, and remove it from the cluster",
    (One("instance"),),
    (o.FORCE, o.SHUTDOWN_TIMEOUT, IGNORE_FAILURES, *o.SET_JOB),
)
