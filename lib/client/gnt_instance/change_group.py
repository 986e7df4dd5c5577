"""gnt-instance change-group: moves an instance to another node group."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.evacuation import EARLY_RELEASE, TO, Report
from ganeti.opcodes import OpInstanceChangeGroup


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    op = jobs.FromOptions(
        OpInstanceChangeGroup, options, instance_name=name, target_groups=options.target_groups or None
    )
    return Report(
        jobs.SubmitAndCollect(op, options),
        f"Instance '{name}' changed group successfully.",
        f"while changing group of instance '{name}'",
    )


COMMAND = Command(
    Run,
    "Move an instance to another node group",
    (One("instance"),),
    (*o.SET_SUBMIT, *o.SET_PRIORITY, TO, o.IALLOCATOR, EARLY_RELEASE),
    details="The allocator chooses the group and the nodes; without --iallocator the cluster's default allocator is used.",
)
