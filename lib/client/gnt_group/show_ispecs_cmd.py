"""gnt-group show-ispecs-cmd: the commands that would make groups with these policies."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import policy
from ganeti.client.shared.rows import QueryNamed


def Run(options: Options, arguments: list[str]) -> int:
    for row in QueryNamed(jobs.GetClient(), "group", ["name", "ipolicy", "custom_ipolicy"], arguments):
        limits = row["ipolicy"] if options.include_defaults else row["custom_ipolicy"] or {}
        bounds = limits.get(policy.MINMAX)
        text = f" --ipolicy-bounds-specs {policy.BoundsText(bounds)}" if bounds else ""
        output.ToStdout(f"gnt-group add{text} {row['name']}")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Shows the command line to recreate a group's instance policy",
    (AnyNumber("group"),),
    (o.INCLUDE_DEFAULTS,),
)
