"""gnt-cluster activate-master-ip."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterActivateMasterIp


def Run(options: Options, arguments: list[str]) -> int:
    # Without the usual fields, as in 3.1 (spec/cli.md 1.2).
    jobs.SubmitOpCode(OpClusterActivateMasterIp())
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Activates the master's address")
