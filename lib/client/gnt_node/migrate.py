"""gnt-node migrate: migrates all primary instances of a node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryRows
from ganeti.opcodes import OpNodeMigrate


def Run(options: Options, arguments: list[str]) -> int:
    if not options.live and options.migration_mode is not None:
        raise errors.OpPrereqError(
            "Only one of the --non-live and --migration-mode options can be passed", errors.ECODE_INVAL
        )
    row = QueryRows(jobs.GetClient(), "node", ["name", "pinst_list"], ["|", ["==", "name", arguments[0]]])[0]
    names = sorted(row["pinst_list"])
    if not names:
        output.ToStdout(f"No primary instances on node {row['name']}, exiting.")
        return constants.EXIT_SUCCESS
    if not options.force and not ask.ConfirmOperation(names, "instances", "migration"):
        return constants.EXIT_CONFIRMATION
    op = OpNodeMigrate(
        node_name=row["name"],
        mode=options.migration_mode if options.live else "non-live",
        iallocator=options.iallocator,
        target_node=options.dst_node,
        allow_runtime_changes=options.allow_runtime_changes,
        ignore_ipolicy=options.ignore_ipolicy,
    )
    failed = jobs.CountFailures(jobs.SubmitAndCollect(op, options))
    if failed:
        output.ToStdout(f"There were {failed} errors during the node migration.")
        return constants.EXIT_FAILURE
    output.ToStdout("All instances migrated successfully.")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Migrates all primary instances of a node",
    (One("node"),),
    (
        *o.SET_SUBMIT, *o.SET_PRIORITY, o.FORCE, o.NON_LIVE, o.MIGRATION_MODE, o.TARGET_NODE, o.IALLOCATOR, o.IGNORE_IPOLICY,
        o.NO_RUNTIME_CHANGES,
    ),
)  # fmt: skip
