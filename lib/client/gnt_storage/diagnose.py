"""gnt-storage diagnose: the state of every provider of external storage on every node."""

from __future__ import annotations

from typing import Any

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.client.gnt_storage.common import Ask
from ganeti.client.shared.definitions import Listed, NodeLines
from ganeti.client.shared.rows import QueryRows

_FIELDS = ("name", "node_status", "nodegroup_status")


def _Details(copy: Any) -> str:
    *_, parameters = copy
    return Listed("parameters", [name for name, *_ in parameters])


def _Lines(row: dict[str, Any], nodes: dict[str, str]) -> list[str]:
    groups = sorted(row["nodegroup_status"].items())
    return [
        f"Provider: {row['name']}",
        "---",
        *NodeLines(row["node_status"], nodes, "ExtStorage provider not found", _Details),
        "  --",
        *(f"  For nodegroup: {name} --> {'valid' if valid else 'invalid'}" for name, valid in groups),
        "",
    ]


def Run(options: Options, arguments: list[str]) -> int:
    rows = Ask(options, _FIELDS)
    if not rows:
        return constants.EXIT_FAILURE
    if options.output:
        output.PrintJson(rows)
        return constants.EXIT_SUCCESS
    nodes = {row["uuid"]: row["name"] for row in QueryRows(jobs.GetClient(), "node", ["uuid", "name"])}
    for row in rows:
        for line in _Lines(row, nodes):
            output.ToStdout(output.WithoutControls(line))
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Show the state of every storage provider on every node, and the node groups where disks of it can be made",
    (),
    (*o.SET_PRIORITY, o.OUTPUT_FORMAT),
)
