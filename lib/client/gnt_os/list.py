"""gnt-os list: the operating systems that can be installed."""

from __future__ import annotations

from ganeti.cli import jobs, lists
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpOsDiagnose


def WithVariants(name: str, variants: list[str] | None) -> list[str]:
    """Return ``name+variant`` for each variant, or the name alone."""
    return [f"{name}+{variant}" for variant in variants] if variants else [name]


def Run(options: Options, arguments: list[str]) -> int:
    answer = jobs.SubmitOpCode(OpOsDiagnose(output_fields=["name", "variants"], names=[]), options)
    rows = [{"name": full} for name, variants in answer for full in WithVariants(name, variants)]
    options.separator = None
    return lists.PrintRows([("name", "Name", False)], rows, options, options.output == lists.JSON)


COMMAND = Command(
    Run,
    "List the operating systems that instances can be installed with",
    (),
    (o.NO_HEADERS, *o.SET_PRIORITY, o.OUTPUT_FORMAT),
)
