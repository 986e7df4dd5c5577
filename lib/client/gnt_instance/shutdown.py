"""gnt-instance shutdown: stops instances, by their own means first."""

from __future__ import annotations

from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import many
from ganeti.opcodes import OpInstanceShutdown


def _Make(name: str, options: Options) -> OpInstanceShutdown:
    return OpInstanceShutdown(
        instance_name=name,
        force=options.force,
        timeout=options.timeout,
        ignore_offline_nodes=options.ignore_offline,
        no_remember=options.no_remember,
    )


def Run(options: Options, arguments: list[str]) -> int:
    return many.RunOnInstances("shutdown", _Make, options, arguments)


COMMAND = Command(
    Run,
    "Stops one or more instances",
    (AnyNumber("instance"),),
    (*o.SET_MULTI, o.FORCE, o.TIMEOUT, o.IGNORE_OFFLINE, o.NO_REMEMBER, *o.SET_JOB),
)
