"""gnt-cluster master-ping: does the master daemon answer?"""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli.command import Command
from ganeti.cli.parser import Options


def Run(options: Options, arguments: list[str]) -> int:
    try:
        jobs.GetClient().QueryClusterInfo()
    except Exception:  # noqa: BLE001 - the answer is yes or no
        return constants.EXIT_FAILURE
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Checks if the master is alive")
