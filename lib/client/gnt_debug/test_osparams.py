"""gnt-debug test-osparams: hands secret OS parameters to a job."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpTestOsParams


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOrSend(OpTestOsParams(osparams_secret=options.osparams_secret), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Tests the handing over of secret OS parameters",
    (),
    (o.OS_PARAMETERS_SECRET, *o.SET_SUBMIT),
)
