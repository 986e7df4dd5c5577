"""gnt-cluster activate-master-ip."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterActivateMasterIp


def Run(options: Options, arguments: list[str]) -> int:
    # Without debug level, priority and reason, as in 3.1.
    jobs.SubmitOpCode(OpClusterActivateMasterIp())
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Configure the master IP address on the master node")
