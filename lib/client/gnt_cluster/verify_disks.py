"""gnt-cluster verify-disks: activates disks that should be active and reports missing volumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Off, Options
from ganeti.client.shared.rows import QueryRows
from ganeti.opcodes import OpClusterVerifyDisks, OpInstanceActivateDisks

_ERROR_LENGTH = 400

NO_STRICT = Off("--no-strict", dest="is_strict", text="Tolerate errors of single nodes")


def _NodeNames() -> Callable[[str], str]:
    """Return a function from the UUIDs of nodes, which the job reports, to their names."""
    names = {row["uuid"]: row["name"] for row in QueryRows(jobs.GetClient(), "node", ["uuid", "name"], None)}
    return lambda uuid: str(names.get(uuid, uuid))


def _ShowBadNodes(bad_nodes: Mapping[str, str]) -> int:
    for node, text in sorted(bad_nodes.items()):
        output.ToStdout(f"Error gathering data on node {node}: {text[-_ERROR_LENGTH:]}")
        output.ToStdout("Repair these nodes before the instances.")
    return constants.EXIT_FAILURE if bad_nodes else constants.EXIT_SUCCESS


def _Activate(names: Sequence[str], missing: Mapping[str, Any], options: Options) -> int:
    code = constants.EXIT_SUCCESS
    for name in names:
        if name in missing:
            continue
        output.ToStdoutAndFlush(f"Activating disks for instance '{name}'")
        try:
            jobs.SubmitOpCode(OpInstanceActivateDisks(instance_name=name), options)
        except errors.GenericError as err:
            from ganeti.cli.failures import FormatError

            result, text = FormatError(err)
            code |= result
            output.ToStderr(f"Error activating disks for instance {name}: {text}")
    return code


def _Place(volume: str) -> str:
    """Return the path of what the job names: the file of a disk, or ``vg/lv``."""
    return volume if volume.startswith("/") else f"/dev/{volume}"


def _ShowMissing(missing: Mapping[str, Sequence[Any]], bad_nodes: Mapping[str, str]) -> int:
    for name, volumes in sorted(missing.items()):
        if volumes and all(node in bad_nodes for node, _ in volumes):
            output.ToStdout(f"Instance {name} cannot be verified: all its nodes are broken")
            continue
        kind = "disk files" if any(volume.startswith("/") for _, volume in volumes) else "logical volumes"
        output.ToStdout(f"Instance {name} has missing {kind}:")
        for node, volume in sorted(volumes):
            mark = "broken node " if node in bad_nodes else ""
            output.ToStdout(f"\t{mark}{node} {_Place(volume)}")
    if not missing:
        return constants.EXIT_SUCCESS
    output.ToStdout(
        "If volumes are still missing when all nodes work again, use 'gnt-instance replace-disks -a INSTANCE' (DRBD) or"
        " 'gnt-instance shutdown INSTANCE' and then 'gnt-instance recreate-disks INSTANCE' (empty disks) for each of these instances."
    )
    return constants.EXIT_FAILURE


def Run(options: Options, arguments: list[str]) -> int:
    op = jobs.FromOptions(OpClusterVerifyDisks, options)
    code = constants.EXIT_SUCCESS
    for success, result in jobs.SubmitAndCollect(op, options):
        if not success:
            output.ToStdout(f"Job failed: {result}")
            code |= constants.EXIT_FAILURE
            continue
        bad_nodes, instances, missing = result[0]
        if bad_nodes or missing:
            name = _NodeNames()
            bad_nodes = {name(node): text for node, text in bad_nodes.items()}
            missing = {inst: [(name(node), volume) for node, volume in found] for inst, found in missing.items()}
        code |= _ShowBadNodes(bad_nodes)
        if instances:
            code |= _Activate(instances, missing, options)
        elif not missing:
            output.ToStdout("No disks need to be activated.")
        code |= _ShowMissing(missing, bad_nodes)
    return code


COMMAND = Command(
    Run, "Activate disks that should be active and report missing ones", (), (*o.SET_PRIORITY, o.NODE_GROUP, NO_STRICT)
)
