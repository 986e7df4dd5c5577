"""gnt-cluster version."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options

_LINES = (
    ("Software version", "software_version"),
    ("Internode protocol", "protocol_version"),
    ("Configuration format", "config_version"),
    ("OS api version", "os_api_version"),
    ("Export interface", "export_version"),
    ("VCS version", "vcs_version"),
)


def Run(options: Options, arguments: list[str]) -> int:
    facts = jobs.GetClient().QueryClusterInfo()
    if options.output:
        output.PrintJson({key: facts[key] for _, key in _LINES})
        return constants.EXIT_SUCCESS
    for title, key in _LINES:
        output.ToStdout(f"{title}: {facts[key]}")
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Print the versions of software and formats", (), (o.OUTPUT_FORMAT,))
