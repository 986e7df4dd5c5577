"""gnt-node powercycle."""

from __future__ import annotations

from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNodePowercycle

_DECLINED = 2  # as in 3.1


def Run(options: Options, arguments: list[str]) -> int:
    node = arguments[0]
    if not options.yes and not ask.Confirmed(
        f"Node {node} will be reset without a shutdown; everything that runs on it stops at once. Continue?", "--yes"
    ):
        return _DECLINED
    result = jobs.SubmitOrSend(jobs.FromOptions(OpNodePowercycle, options, node_name=node), options)
    if result:
        output.ToStderr(str(result))
    return 0


COMMAND = Command(
    Run,
    "Reset a node without a shutdown",
    (One("node"),),
    (*o.SET_JOB, o.FORCE.But(help="Allow this for the master node, too"), o.YES),
)
