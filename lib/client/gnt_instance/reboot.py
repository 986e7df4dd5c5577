"""gnt-instance reboot: restarts instances."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import ElementsOf, Flag, Options, Value
from ganeti.client.gnt_instance import many
from ganeti.client.gnt_instance.options import SET_MULTI
from ganeti.opcodes import OpInstanceReboot

REBOOT_TYPE = Value(
    "-t", "--type", dest="reboot_type", choices=ElementsOf("TRebootType"), default="hard",
    text="soft: the guest reboots itself; hard: the instance is stopped and started; full: its disks are closed and opened,"
    " too",
)  # fmt: skip
IGNORE_SECONDARIES = Flag(
    "--ignore-secondaries", dest="ignore_secondaries", text="Ignore errors on secondary nodes when disks are opened"
)


def Run(options: Options, arguments: list[str]) -> int:
    return many.RunOnInstances(
        "reboot", lambda name: jobs.FromOptions(OpInstanceReboot, options, instance_name=name), options, arguments
    )


COMMAND = Command(
    Run,
    "Restart instances",
    (AnyNumber("instance"),),
    (*SET_MULTI, REBOOT_TYPE, IGNORE_SECONDARIES, o.SHUTDOWN_TIMEOUT, *o.SET_JOB),
)
