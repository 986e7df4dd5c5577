"""gnt-group assign-nodes."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryNamed
from ganeti.opcodes import OpGroupAssignNodes


def Run(options: Options, arguments: list[str]) -> int:
    group, *names = arguments
    # Without names all nodes are meant, as in 3.1.
    rows = QueryNamed(jobs.GetClient(), "node", ["name"], [])
    op = OpGroupAssignNodes(group_name=group, nodes=names or [row["name"] for row in rows], force=options.force)
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Assigns nodes to a group", (One("group"), AnyNumber("node")), (*o.SET_JOB, o.FORCE))
