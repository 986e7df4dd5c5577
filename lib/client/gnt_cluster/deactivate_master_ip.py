"""gnt-cluster deactivate-master-ip."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterDeactivateMasterIp

_QUESTION = (
    "This will disable the master IP. All the open connections to the master IP will be closed. To reach the master"
    " you will need to use its node IP.\nContinue?"
)


def Run(options: Options, arguments: list[str]) -> int:
    if not options.yes and not ask.Confirmed(_QUESTION):
        return constants.EXIT_FAILURE
    jobs.SubmitOpCode(OpClusterDeactivateMasterIp())
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Deactivates the master's address", (), (o.YES,))
