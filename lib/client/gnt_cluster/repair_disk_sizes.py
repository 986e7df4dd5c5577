"""gnt-cluster repair-disk-sizes."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterRepairDiskSizes


def Run(options: Options, arguments: list[str]) -> int:
    jobs.SubmitOpCode(OpClusterRepairDiskSizes(instances=arguments), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Correct recorded disk sizes that differ from those of the devices",
    (AnyNumber("instance"),),
    (*o.SET_DRY, *o.SET_PRIORITY),
)
