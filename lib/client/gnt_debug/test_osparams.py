"""gnt-debug test-osparams: hands secret OS parameters to a job, which fails unless it receives them."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpTestOsParams


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(jobs.FromOptions(OpTestOsParams, options), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run, "Run a job that fails unless secret OS parameters reach it", (), (o.OS_PARAMETERS_SECRET, *o.SET_SUBMIT)
)
