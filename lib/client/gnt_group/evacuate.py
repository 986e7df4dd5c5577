"""gnt-group evacuate: moves all instances of a node group to other groups."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.client.shared.evacuation import EARLY_RELEASE, TO, ReportEvacuation
from ganeti.opcodes import OpGroupEvacuate

SEQUENTIAL = Flag(
    "--sequential", dest="sequential",
    text="Move one instance after the other; a canceled job cancels those after it",
)  # fmt: skip
FORCE_FAILOVER = Flag("--force-failover", dest="force_failover", text="Fail instances over instead of migrating them")


def Run(options: Options, arguments: list[str]) -> int:
    op = jobs.FromOptions(
        OpGroupEvacuate, options, group_name=arguments[0], target_groups=options.target_groups or None
    )
    return ReportEvacuation(jobs.SubmitAndCollect(op, options))


COMMAND = Command(
    Run,
    "Move all instances of a node group to other node groups",
    (One("group"),),
    (*o.SET_SUBMIT, TO, o.IALLOCATOR, EARLY_RELEASE, SEQUENTIAL, FORCE_FAILOVER),
    details="The allocator chooses the groups and nodes; without --iallocator the cluster's default allocator is used."
    "  One job for each instance is submitted.  Nothing is asked before.",
)
