"""gnt-cluster deactivate-master-ip."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterDeactivateMasterIp

_QUESTION = (
    "The master IP address will be removed from the master node, and all connections to it will be closed. The node's own"
    " address stays reachable. Continue?"
)


def Run(options: Options, arguments: list[str]) -> int:
    if not options.yes and not ask.Confirmed(_QUESTION, "--yes"):
        return constants.EXIT_FAILURE
    jobs.SubmitOpCode(OpClusterDeactivateMasterIp())
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Remove the master IP address from the master node", (), (o.YES,))
