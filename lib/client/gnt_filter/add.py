"""gnt-filter add."""

from __future__ import annotations

from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.client.gnt_filter.options import SET_RULE, Write


def Run(options: Options, _arguments: list[str]) -> int:
    return Write(options, None)


COMMAND = Command(
    Run,
    "Add a rule and print its UUID",
    (),
    SET_RULE,
    details="The rule takes effect at once.  Jobs that run already are not affected.",
)
