"""gnt-cluster show-ispecs-cmd."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.client.shared import policy


def Run(options: Options, arguments: list[str]) -> int:
    facts = jobs.GetClient().QueryClusterInfo()
    limits = facts["ipolicy"]
    output.ToStdout(
        f"gnt-cluster init --ipolicy-std-specs {policy.StdText(limits[policy.STD])}"
        f" --ipolicy-bounds-specs {policy.BoundsText(limits[policy.MINMAX])} {facts['name']}"
    )
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Print the command line that initializes a cluster with the same instance policy")
