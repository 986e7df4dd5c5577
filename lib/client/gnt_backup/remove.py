"""gnt-backup remove: deletes the exports of an instance."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpBackupRemove


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(jobs.FromOptions(OpBackupRemove, options, instance_name=arguments[0]), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Delete the exports of an instance from all nodes",
    (One("instance"),),
    o.SET_JOB,
    details="For an instance that was removed, give the whole name, as 'gnt-backup list' shows it.",
)
