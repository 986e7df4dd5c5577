"""gnt-instance reboot: restarts instances."""

from __future__ import annotations

from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import many
from ganeti.opcodes import OpInstanceReboot


def _Make(name: str, options: Options) -> OpInstanceReboot:
    return OpInstanceReboot(
        instance_name=name,
        reboot_type=options.reboot_type,
        ignore_secondaries=options.ignore_secondaries,
        shutdown_timeout=options.shutdown_timeout,
    )


def Run(options: Options, arguments: list[str]) -> int:
    return many.RunOnInstances("reboot", _Make, options, arguments)


COMMAND = Command(
    Run,
    "Reboots one or more instances",
    (AnyNumber("instance"),),
    (*o.SET_MULTI, o.REBOOT_TYPE, o.IGNORE_SECONDARIES, o.SHUTDOWN_TIMEOUT, *o.SET_JOB),
)
