"""gnt-instance startup: starts instances."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Flag, Options
from ganeti.client.gnt_instance import many
from ganeti.client.gnt_instance.options import HVPARAMS, IGNORE_OFFLINE, NO_REMEMBER, SET_MULTI
from ganeti.opcodes import OpInstanceStartup

PAUSED = Flag("--paused", dest="startup_paused", text="Start it with its virtual CPUs stopped, for a debugger")


def Run(options: Options, arguments: list[str]) -> int:
    return many.RunOnInstances(
        "startup", lambda name: jobs.FromOptions(OpInstanceStartup, options, instance_name=name), options, arguments
    )


COMMAND = Command(
    Run,
    "Start instances",
    (AnyNumber("instance"),),
    (
        *SET_MULTI, o.FORCE.But(help="Start it even if a disk cannot be opened on a secondary node"),
        HVPARAMS.But(help="Hypervisor parameters for this start only"),
        o.BACKEND.But(help="Backend parameters for this start only"), IGNORE_OFFLINE, NO_REMEMBER, PAUSED, *o.SET_JOB,
    ),
)  # fmt: skip
