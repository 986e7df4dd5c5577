"""gnt-group show-ispecs-cmd."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Flag, Options
from ganeti.client.shared import policy
from ganeti.client.shared.rows import QueryNamed

INCLUDE_DEFAULTS = Flag("--include-defaults", dest="include_defaults", text="Print inherited values too")


def Run(options: Options, arguments: list[str]) -> int:
    for row in QueryNamed(jobs.GetClient(), "group", ["name", "ipolicy", "custom_ipolicy"], arguments):
        limits = row["ipolicy"] if options.include_defaults else row["custom_ipolicy"] or {}
        bounds = limits.get(policy.MINMAX)
        text = f" --ipolicy-bounds-specs {policy.BoundsText(bounds)}" if bounds else ""
        output.ToStdout(f"gnt-group add{text} {row['name']}")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Print the command lines that add groups with the same instance policies",
    (AnyNumber("group"),),
    (INCLUDE_DEFAULTS,),
)
