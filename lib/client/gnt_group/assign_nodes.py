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
    if not names:  # 3.1 takes all nodes of the cluster then
        names = [row["name"] for row in QueryNamed(jobs.GetClient(), "node", ["name"], [])]
    op = jobs.FromOptions(OpGroupAssignNodes, options, group_name=group, nodes=names)
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Move nodes to a node group; without node arguments, all nodes of the cluster",
    (One("group"), AnyNumber("node")),
    (*o.SET_JOB, o.FORCE.But(help="Move nodes even if an instance has its nodes in different groups then")),
)
