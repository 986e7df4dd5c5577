"""gnt-node powercycle."""

from __future__ import annotations

from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpNodePowercycle

_DECLINED = 2  # as 3.1 (spec/cli.md 1.3)


def Run(options: Options, arguments: list[str]) -> int:
    node = arguments[0]
    if not options.yes and not ask.Confirmed(f"Are you sure you want to hard powercycle node {node}?"):
        return _DECLINED
    result = jobs.SubmitOrSend(OpNodePowercycle(node_name=node, force=options.force), options)
    if result:
        output.ToStderr(str(result))
    return 0


COMMAND = Command(Run, "Tries to forcefully powercycle a node", (One("node"),), (*o.SET_JOB, o.FORCE, o.YES))
