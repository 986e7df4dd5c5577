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


def _AllocatorOf(options: Options, node: str) -> dict[str, str | None]:
    """Return the allocator for each instance; one whose disks are mirrored goes to its secondary node, with nothing to copy."""
    if options.iallocator is None:
        return {}
    from ganeti.params import disk as disk_params

    mirrored = disk_params.With(mirror=disk_params.INTERNAL)
    rows = QueryRows(jobs.GetClient(), "instance", ["name", "disk_template"], ["&", ["==", "pnode", node]])
    return {row["name"]: None if row["disk_template"] in mirrored else options.iallocator for row in rows}


def Run(options: Options, arguments: list[str]) -> int:
    row = QueryRows(jobs.GetClient(), "node", ["name", "pinst_list"], ["|", ["==", "name", arguments[0]]])[0]
    names = sorted(row["pinst_list"])
    if not names:
        output.ToStderr(f"No primary instances on node {row['name']}, exiting.")
        return constants.EXIT_SUCCESS
    if not options.force and not ask.ConfirmOperation(names, "instances", "failover", "--force"):
        return _DECLINED
    if options.ignore_consistency and not options.force and not ask.Confirmed(_DEGRADED, "--force"):
        return _DECLINED
    executor = jobs.JobExecutor(options)
    allocators = _AllocatorOf(options, row["name"])
    for name in names:
        op = jobs.FromOptions(OpInstanceFailover, options, instance_name=name, iallocator=allocators.get(name))
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
