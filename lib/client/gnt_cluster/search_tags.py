"""gnt-cluster search-tags."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpTagsSearch


def Run(options: Options, arguments: list[str]) -> int:
    found = sorted(jobs.SubmitOpCode(OpTagsSearch(pattern=arguments[0]), options))
    if options.output:
        output.PrintJson([{"path": path, "tag": tag} for path, tag in found])
    else:
        for path, tag in found:
            output.ToStdout(f"{path} {tag}")
    return constants.EXIT_SUCCESS if found else constants.EXIT_FAILURE


COMMAND = Command(
    Run,
    "Search the tags of all objects for a regular expression; the exit code is 1 if nothing matches",
    (One("pattern"),),
    (*o.SET_PRIORITY, o.OUTPUT_FORMAT),
)
