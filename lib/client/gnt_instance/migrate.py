"""gnt-instance migrate: moves an instance to another node while it runs."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import COMPLETE_NODE, Flag, Options, Value
from ganeti.client.gnt_instance.options import CLEANUP
from ganeti.opcodes import OpInstanceMigrate

ALLOW_FAILOVER = Flag(
    "--allow-failover", dest="allow_failover", text="Fail over instead if the instance is not running"
)
IGNORE_HVVERSIONS = Flag(
    "--ignore-hvversions", dest="ignore_hvversions", text="Allow a target with another version of the hypervisor"
)

KEEP_NODE = Value(
    "--keep", dest="keep_node", metavar="NODE", completion=COMPLETE_NODE,
    text="With --cleanup: keep the copy on this node and end all others",
)  # fmt: skip

_CLEANUP = (
    "The nodes of instance {name} will be checked, and what an interrupted migration left behind will be cleaned up."
    " Continue?"
)
_KEEP = (
    "The copy of instance {name} on node {keep} will be kept, and all other copies will be ended at once. What only those"
    " hold is lost. Continue?"
)
_MIGRATE = "Instance {name} will be moved to another node while it runs. Continue?"


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    if options.iallocator and options.target_node:
        raise errors.OpPrereqError("An iallocator (-I) and a target node (-n) exclude each other", errors.ECODE_INVAL)
    if options.non_live and options.migration_mode is not None:
        raise errors.OpPrereqError("--non-live and --migration-mode exclude each other", errors.ECODE_INVAL)
    if options.keep_node and not options.cleanup:
        raise errors.OpPrereqError("--keep can only be used with --cleanup", errors.ECODE_INVAL)
    text = _KEEP if options.keep_node else _CLEANUP if options.cleanup else _MIGRATE
    question = text.format(name=name, keep=options.keep_node)
    if not options.force and not ask.Confirmed(question, "--force"):
        return constants.EXIT_FAILURE
    mode = "non-live" if options.non_live else options.migration_mode
    jobs.SubmitOrSend(jobs.FromOptions(OpInstanceMigrate, options, instance_name=name, mode=mode), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Move a running instance to another node without stopping it",
    (One("instance"),),
    (
        o.FORCE, o.NON_LIVE, o.MIGRATION_MODE, CLEANUP, KEEP_NODE, o.TARGET_NODE, o.IALLOCATOR, ALLOW_FAILOVER, o.IGNORE_IPOLICY,
        IGNORE_HVVERSIONS, o.NO_RUNTIME_CHANGES, *o.SET_JOB,
    ),
)  # fmt: skip
