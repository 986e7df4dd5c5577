"""gnt-instance migrate: moves a running instance to another node without stopping it."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceMigrate

_CLEANUP = (
    "Instance {name} will be recovered from a failed migration. Note that the migration procedure (including cleanup)"
    " might impact the instance if anything goes wrong. Continue?"
)
_MIGRATE = (
    "Instance {name} will be migrated. Note that migration might impact the instance if anything goes wrong (e.g. due to"
    " bugs in the hypervisor). Continue?"
)


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    if options.iallocator and options.dst_node:
        raise errors.OpPrereqError(
            "Specify either an iallocator (-I), or a target node (-n) but not both", errors.ECODE_INVAL
        )
    if not options.live and options.migration_mode is not None:
        raise errors.OpPrereqError(
            "Only one of the --non-live and --migration-mode options can be passed", errors.ECODE_INVAL
        )
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
