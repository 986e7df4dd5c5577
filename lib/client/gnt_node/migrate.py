"""gnt-node migrate: migrates all primary instances of a node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryRows
from ganeti.luxi.client import Client
from ganeti.opcodes import OpNodeMigrate


def _CheckNeedsNoTarget(client: Client, node: str) -> None:
    """Raise OpPrereqError if no instance of the node could be migrated: neither a node nor an allocator is known."""
    from ganeti.params import disk

    if client.QueryClusterInfo()["default_iallocator"]:
        return
    rows = QueryRows(client, "instance", ["name", "disk_template"], ["==", "pnode", node])
    templates = sorted({row["disk_template"] for row in rows})
    if disk.With(mirror=disk.EXTERNAL).issuperset(templates):
        raise errors.OpPrereqError(
            f"Disks of template {' and '.join(templates)} can be used on several nodes: give the node to migrate to (-n), or"
            " an allocator (-I)",
            errors.ECODE_INVAL,
        )


def Run(options: Options, arguments: list[str]) -> int:
    if options.non_live and options.migration_mode is not None:
        raise errors.OpPrereqError(
            "Only one of the --non-live and --migration-mode options can be passed", errors.ECODE_INVAL
        )
    client = jobs.GetClient()
    row = QueryRows(client, "node", ["name", "pinst_list"], ["|", ["==", "name", arguments[0]]])[0]
    names = sorted(row["pinst_list"])
    if not names:
        output.ToStdout(f"No primary instances on node {row['name']}, exiting.")
        return constants.EXIT_SUCCESS
    if options.target_node is None and options.iallocator is None:
        _CheckNeedsNoTarget(client, row["name"])
    if not options.force and not ask.ConfirmOperation(names, "instance", "migration", "--force"):
        return constants.EXIT_CONFIRMATION
    op = jobs.FromOptions(
        OpNodeMigrate,
        options,
        node_name=row["name"],
        mode="non-live" if options.non_live else options.migration_mode,
    )
    failed = jobs.CountFailures(jobs.SubmitAndCollect(op, options))
    if failed:
        output.ToStdout(f"There were {failed} errors during the node migration.")
        return constants.EXIT_FAILURE
    output.ToStdout("All instances migrated successfully.")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Migrate all primary instances of a node to other nodes while they run",
    (One("node"),),
    (
        *o.SET_SUBMIT, *o.SET_PRIORITY, o.FORCE, o.NON_LIVE, o.MIGRATION_MODE, o.TARGET_NODE, o.IALLOCATOR, o.IGNORE_IPOLICY,
        o.NO_RUNTIME_CHANGES,
    ),
)  # fmt: skip
