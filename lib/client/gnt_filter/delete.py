"""gnt-filter delete."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options


def Run(_options: Options, arguments: list[str]) -> int:
    jobs.GetClient().DeleteFilter(arguments[0])
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Delete a rule; jobs that it held back start", (One("filter"),))
