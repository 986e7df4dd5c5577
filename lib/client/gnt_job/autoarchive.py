"""gnt-job autoarchive: archives jobs that ended some time ago."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.utils.text import ParseTimespec

_ALL = "all"


def Run(options: Options, arguments: list[str]) -> int:
    age = -1 if arguments[0] == _ALL else ParseTimespec(arguments[0])
    archived, unchecked = jobs.GetClient().AutoArchiveJobs(age)
    output.ToStdout(f"Archived {archived} jobs, {unchecked} unchecked left")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Archive the jobs that ended longer ago than AGE, such as 30m, 6h or 2d; 'all' archives all finished jobs",
    (One("age"),),
)
