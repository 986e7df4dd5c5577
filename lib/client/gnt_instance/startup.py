"""gnt-instance startup: starts instances."""

from __future__ import annotations

from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import many
from ganeti.opcodes import OpInstanceStartup


def _Make(name: str, options: Options) -> OpInstanceStartup:
    op = OpInstanceStartup(
        instance_name=name,
        force=options.force,
        ignore_offline_nodes=options.ignore_offline,
        no_remember=options.no_remember,
        startup_paused=options.startup_paused,
    )
    # Left out where nothing was given: an older master does not know them as empty.
    if options.hvparams:
        op.hvparams = dict(options.hvparams)
    if options.beparams:
        op.beparams = dict(options.beparams)
    return op


def Run(options: Options, arguments: list[str]) -> int:
    return many.RunOnInstances("startup", _Make, options, arguments)


COMMAND = Command(
    Run,
    "Starts one or more instances",
    (AnyNumber("instance"),),
    (*o.SET_MULTI, o.FORCE, o.HVPARAMS, o.BACKEND, o.IGNORE_OFFLINE, o.NO_REMEMBER, o.PAUSED, *o.SET_JOB),
)
