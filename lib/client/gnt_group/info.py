"""gnt-group info."""

from __future__ import annotations

from typing import Any

from ganeti import constants
from ganeti.cli import info, jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import policy
from ganeti.client.shared.rows import QueryNamed

_FIELDS = (
    "name", "ndparams", "custom_ndparams", "diskparams", "custom_diskparams", "ipolicy", "custom_ipolicy",
)  # fmt: skip


def Describe(row: dict[str, Any]) -> info.Pairs:
    return info.Pairs(
        [
            ("Node group", row["name"]),
            ("Node parameters", info.WithDefaults(row["custom_ndparams"], row["ndparams"])),
            ("Disk parameters", info.WithDefaults(row["custom_diskparams"], row["diskparams"])),
            ("Instance policy", policy.Describe(row["custom_ipolicy"] or {}, row["ipolicy"])),
        ]
    )


def Run(options: Options, arguments: list[str]) -> int:
    rows = QueryNamed(jobs.GetClient(), "group", _FIELDS, arguments)
    if options.output:
        info.PrintInfo(rows, as_json=True)
    else:
        info.PrintInfo([Describe(row) for row in rows])
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Show the settings of node groups", (AnyNumber("group"),), (o.OUTPUT_FORMAT,))
