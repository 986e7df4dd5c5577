"""gnt-group evacuate: moves all instances of a group to other groups."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpGroupEvacuate


def Run(options: Options, arguments: list[str]) -> int:
    op = OpGroupEvacuate(
        group_name=arguments[0],
        iallocator=options.iallocator,
        target_groups=options.to,
        early_release=options.early_release,
        sequential=options.sequential,
        force_failover=options.force_failover,
    )
    failed = jobs.CountFailures(jobs.SubmitAndCollect(op, options))
    if failed:
        output.ToStdout(f"There were {failed} errors during the evacuation.")
        return constants.EXIT_FAILURE
    output.ToStdout("All instances evacuated successfully.")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Moves the instances of a node group to other groups",
    (One("group"),),
    (*o.SET_SUBMIT, o.TO_GROUPS, o.IALLOCATOR, o.EARLY_RELEASE, o.SEQUENTIAL, o.FORCE_FAILOVER),
)
