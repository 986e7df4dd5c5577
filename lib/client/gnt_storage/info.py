"""gnt-storage info: node groups and parameters of providers of external storage."""

from __future__ import annotations

from typing import Any

from ganeti import constants
from ganeti.cli import options as o
from ganeti.cli import output
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.gnt_storage.common import Ask

_FIELDS = ("name", "nodegroup_status", "parameters")


def _Lines(row: dict[str, Any]) -> list[str]:
    groups = sorted(name for name, valid in row["nodegroup_status"].items() if valid)
    lines = [f"{row['name']}:"]
    if not groups:
        return [*lines, "  - Invalid for all nodegroups"]
    lines += ["  - Valid for nodegroups:", *(f"      {name}" for name in groups)]
    return [*lines, "  - Supported parameters:", *(f"      {name}: {text}" for name, text in row["parameters"])]


def Run(options: Options, arguments: list[str]) -> int:
    rows = Ask(options, _FIELDS)
    if not rows:
        return constants.EXIT_FAILURE
    known = {row["name"]: row for row in rows}
    if options.output:
        output.PrintJson([known[name] for name in arguments or known if name in known])
        return constants.EXIT_SUCCESS
    for name in arguments or known:
        for line in _Lines(known[name]) if name in known else [f"{name}: Not Found"]:
            output.ToStdout(output.WithoutControls(line))
        output.ToStdout()
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Show the node groups where disks of storage providers can be made, and the providers' parameters",
    (AnyNumber("name"),),
    (*o.SET_PRIORITY, o.OUTPUT_FORMAT),
)
