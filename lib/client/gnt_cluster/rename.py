"""gnt-cluster rename."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterRename


def Run(options: Options, arguments: list[str]) -> int:
    old, new = jobs.GetClient().QueryConfigValues(["cluster_name"])[0], arguments[0]
    if not options.force:
        question = (
            f"This will rename the cluster from '{old}' to '{new}'. If you are connected over the network to the cluster"
            " name, the operation is very dangerous as the IP address will be removed from the node and the change may"
            " not go through. Continue?"
        )
        if not ask.Confirmed(question):
            return constants.EXIT_FAILURE
    result = jobs.SubmitOpCode(OpClusterRename(name=new), options)
    if result:
        output.ToStdout(f"Cluster renamed from '{old}' to '{result}'")
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Renames the cluster", (One("host"),), (o.FORCE, *o.SET_DRY))
