"""gnt-node evacuate: moves instances off a node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryRows
from ganeti.opcodes import OpNodeEvacuate

_PRIMARY, _SECONDARY, _ALL = "primary-only", "secondary-only", "all"


def _Mode(options: Options) -> str:
    if options.primary_only and options.secondary_only:
        raise errors.OpPrereqError(
            "Only one of the --primary-only and --secondary-only options can be passed", errors.ECODE_INVAL
        )
    if options.dst_node is not None and not options.secondary_only:
        if options.primary_only:
            raise errors.OpPrereqError("--new-secondary makes sense for secondary instances only", errors.ECODE_INVAL)
        output.ToStderr("Note: --new-secondary moves secondary instances only")
        return _SECONDARY
    return _PRIMARY if options.primary_only else _SECONDARY if options.secondary_only else _ALL


def Run(options: Options, arguments: list[str]) -> int:
    mode = _Mode(options)
    fields = ["name", "pinst_list", "sinst_list"]
    row = QueryRows(jobs.GetClient(), "node", fields, ["|", ["==", "name", arguments[0]]])[0]
    names = (row["pinst_list"] if mode != _SECONDARY else []) + (row["sinst_list"] if mode != _PRIMARY else [])
    if not names:
        output.ToStderr(f"No instances to evacuate on node(s) {row['name']}, exiting.")
        return constants.EXIT_SUCCESS
    shown = sorted(set(names))
    if not options.force and not ask.ConfirmOperation(shown, "instances", f"evacuation of node {row['name']}"):
        return constants.EXIT_CONFIRMATION
    op = OpNodeEvacuate(
        node_name=row["name"],
        mode=mode,
        remote_node=options.dst_node,
        iallocator=options.iallocator,
        early_release=options.early_release,
        ignore_soft_errors=options.ignore_soft_errors,
    )
    failed = jobs.CountFailures(jobs.SubmitAndCollect(op, options))
    if failed:
        output.ToStdout(f"There were {failed} errors during the evacuation.")
        return constants.EXIT_FAILURE
    output.ToStdout("All instances evacuated successfully.")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Moves the instances of a node to other nodes",
    (One("node"),),
    (
        *o.SET_SUBMIT, *o.SET_PRIORITY, o.FORCE, o.IALLOCATOR, o.IGNORE_SOFT_ERRORS, o.NEW_SECONDARY, o.EARLY_RELEASE,
        o.PRIMARY_ONLY, o.SECONDARY_ONLY,
    ),
)  # fmt: skip
