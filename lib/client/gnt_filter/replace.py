"""gnt-filter replace."""

from __future__ import annotations

from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_filter.options import SET_RULE, Write


def Run(options: Options, arguments: list[str]) -> int:
    return Write(options, arguments[0])


COMMAND = Command(
    Run,
    "Replace a rule, or add one with this UUID",
    (One("filter"),),
    SET_RULE,
    details="Options that are not given have their default values, not those of the rule that is replaced.",
)
