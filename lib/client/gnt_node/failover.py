"""gnt-node failover: fails over all primary instances of a node."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryRows
from ganeti.opcodes import OpInstanceFailover

_DECLINED = 2  # as in 3.1
_DEGRADED = (
    "The disks on the other nodes may be out of date or incomplete; with --ignore-consistency they will be used anyway,"
    " and what they lack is lost. Continue?"
)


def _Targets(options: Options, node: str) -> dict[str, dict[str, str | None]]:
    """Return where each instance goes: one whose disks are mirrored to its secondary node, others where the allocator says.

    The secondary node is named, or else the node to leave, so that an instance that leaves it before its job begins does not
    come back.
    """
    from ganeti.params import disk as disk_params

    mirrored = disk_params.With(mirror=disk_params.INTERNAL)
    fields = ["name", "disk_template", "snodes"]
    targets: dict[str, dict[str, str | None]] = {}
    for row in QueryRows(jobs.GetClient(), "instance", fields, ["&", ["==", "pnode", node]]):
        if row["disk_template"] in mirrored and len(row["snodes"]) == 1:
            targets[row["name"]] = {"iallocator": None, "target_node": row["snodes"][0]}
        else:
            targets[row["name"]] = {"iallocator": options.iallocator, "if_primary": node}
    return targets


def Run(options: Options, arguments: list[str]) -> int:
    row = QueryRows(jobs.GetClient(), "node", ["name"], ["|", ["==", "name", arguments[0]]])[0]
    targets = _Targets(options, row["name"])
    names = sorted(targets)
    if not names:
        output.ToStderr(f"No primary instances on node {row['name']}, exiting.")
        return constants.EXIT_SUCCESS
    if not options.force and not ask.ConfirmOperation(names, "instance", "failover", "--force"):
        return _DECLINED
    if options.ignore_consistency and not options.force and not ask.Confirmed(_DEGRADED, "--force"):
        return _DECLINED
    executor = jobs.JobExecutor(options)
    for name in names:
        op = jobs.FromOptions(OpInstanceFailover, options, instance_name=name, **targets[name])
        executor.QueueJob(name, op)
    failed = jobs.CountFailures(executor.GetResults())
    if failed:
        output.ToStdout("There were errors during the failover:")
        output.ToStdout(f"{failed} error(s) out of {len(names)} instance(s).")
    else:
        output.ToStdout(f"All {len(names)} instance(s) failed over successfully.")
    # 3.1 returns success even if jobs failed.
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Stop all primary instances of a node and start them on their secondary nodes",
    (One("node"),),
    (*o.SET_PRIORITY, o.FORCE, o.IGNORE_CONSISTENCY, o.IALLOCATOR),
)
