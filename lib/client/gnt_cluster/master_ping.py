"""gnt-cluster master-ping."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.luxi.client import Client


def Run(options: Options, arguments: list[str]) -> int:
    try:
        Client().QueryClusterInfo()
    except Exception:  # noqa: BLE001 - the answer is yes or no
        return constants.EXIT_FAILURE
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Check whether the master daemon answers; prints nothing, the exit code is 0 if it does")
