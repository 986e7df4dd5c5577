"""gnt-instance migrate: moves a running instance to another node without stopping it."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceMigrate

_CLEANUP = (
    "What an interrupted migration of instance {name} left behind will be put in order; the instance is looked for on both"
    " nodes. Continue?"
)
_MIGRATE = "Instance {name} will be moved to another node while it runs; if that fails half-way it may have to be restarted. Continue?"


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    if options.iallocator and options.dst_node:
        raise errors.OpPrereqError("An iallocator (-I) and a target node (-n) exclude each other", errors.ECODE_INVAL)
    if not options.live and options.migration_mode is not None:
        raise errors.OpPrereqError("--non-live and --migration-mode exclude each other", errors.ECODE_INVAL)
    question = (_CLEANUP if options.cleanup else _MIGRATE).format(name=name)
    if not options.force and not ask.Confirmed(question):
        return constants.EXIT_FAILURE
    op = OpInstanceMigrate(
        instance_name=name,
        mode="non-live" if not options.live else options.migration_mode,
        cleanup=options.cleanup,
        iallocator=options.iallocator,
        target_node=options.dst_node,
        allow_failover=options.allow_failover,
        allow_runtime_changes=options.allow_runtime_changes,
        ignore_ipolicy=options.ignore_ipolicy,
        ignore_hvversions=options.ignore_hvversions,
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Migrates an instance to another node while it runs",
    (One("instance"),),
    (
        o.FORCE,
        o.NON_LIVE,
        o.MIGRATION_MODE,
        o.CLEANUP,
        o.TARGET_NODE,
        o.IALLOCATOR,
        o.ALLOW_FAILOVER,
        o.IGNORE_IPOLICY,
        o.IGNORE_HVVERSIONS,
        o.NO_RUNTIME_CHANGES,
        *o.SET_JOB,
    ),
)
