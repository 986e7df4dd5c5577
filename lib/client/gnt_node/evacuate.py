"""gnt-node evacuate: moves the instances of a node elsewhere."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import COMPLETE_NODE, Flag, Options, Value
from ganeti.client.shared.evacuation import EARLY_RELEASE, ReportEvacuation
from ganeti.client.shared.rows import QueryRows
from ganeti.opcodes import OpNodeEvacuate

PRIMARY_ONLY = Flag(
    "-p", "--primary-only", dest="primary_only", text="Move only the instances that run on the node, not its mirrors"
)
SECONDARY_ONLY = Flag(
    "-s", "--secondary-only", dest="secondary_only",
    text="Move only the mirrors of instances that have the node as their secondary node",
)  # fmt: skip
NEW_SECONDARY = Value(
    "-n", "--new-secondary", dest="remote_node", metavar="NODE", completion=COMPLETE_NODE,
    text="Move all mirrors to this node; implies --secondary-only",
)  # fmt: skip
IGNORE_SOFT_ERRORS = Flag(
    "--ignore-soft-errors", dest="ignore_soft_errors",
    text="Let the allocator ignore soft limits, such as too little memory for a failure of another node",
)  # fmt: skip


def _Mode(options: Options) -> str:
    if options.primary_only and (options.secondary_only or options.remote_node is not None):
        other = "--secondary-only" if options.secondary_only else "--new-secondary"
        raise errors.OpPrereqError(
            f"Only one of --primary-only and {other} can be given",
            errors.ECODE_INVAL,
            hint="leave out both to move primary and secondary instances",
        )
    if options.primary_only:
        return "primary-only"
    if options.secondary_only:
        return "secondary-only"
    if options.remote_node is not None:
        output.ToStderr("Note: with a new secondary node only secondary instances are evacuated")
        return "secondary-only"
    return "all"


def _CheckOther(leaving: str, remote: str) -> None:
    """Look at the new secondary node's name also where nothing has to be moved."""
    [other] = QueryRows(jobs.GetClient(), "node", ["name"], ["|", ["==", "name", remote]])
    if other["name"] == leaving:
        raise errors.OpPrereqError(
            f"Node {leaving} is being evacuated and cannot be the new secondary node", errors.ECODE_INVAL
        )


_LISTS = {"primary-only": ("pinst_list",), "secondary-only": ("sinst_list",), "all": ("pinst_list", "sinst_list")}


def Run(options: Options, arguments: list[str]) -> int:
    mode = _Mode(options)
    fields = ["name", "pinst_list", "sinst_list"]
    row = QueryRows(jobs.GetClient(), "node", fields, ["|", ["==", "name", arguments[0]]])[0]
    names = sorted({name for field in _LISTS[mode] for name in row[field]})
    if options.remote_node is not None:
        _CheckOther(row["name"], options.remote_node)
    if not names:
        output.ToStderr(f"No instances to evacuate on node(s) {row['name']}, exiting.")
        return constants.EXIT_SUCCESS
    if not options.force and not ask.ConfirmOperation(names, "instance", "evacuation", "--force"):
        return constants.EXIT_CONFIRMATION
    op = jobs.FromOptions(
        OpNodeEvacuate,
        options,
        node_name=row["name"],
        mode=mode,
        ignore_soft_errors=options.ignore_soft_errors or None,
    )
    return ReportEvacuation(jobs.SubmitAndCollect(op, options))


COMMAND = Command(
    Run,
    "Move the instances of a node to other nodes",
    (One("node"),),
    (
        *o.SET_SUBMIT, *o.SET_PRIORITY, o.FORCE, PRIMARY_ONLY, SECONDARY_ONLY, NEW_SECONDARY, o.IALLOCATOR,
        IGNORE_SOFT_ERRORS, EARLY_RELEASE,
    ),
    details="The allocator chooses the nodes, unless --new-secondary names one; without either the cluster's default"
    " allocator is used.  One job for each instance is submitted.  With neither --primary-only nor --secondary-only,"
    " first the instances that run on the node are moved; a job that waits for them then moves the mirrors.",
)  # fmt: skip
