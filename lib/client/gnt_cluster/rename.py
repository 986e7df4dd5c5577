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
            f"The cluster will be renamed from '{old}' to '{new}', and the master IP address will change. If you are"
            " connected to that address, the connection will break before the change is complete. Continue?"
        )
        if not ask.Confirmed(question, "--force"):
            return constants.EXIT_FAILURE
    result = jobs.SubmitOpCode(OpClusterRename(name=new), options)
    if result:
        output.ToStdout(f"Cluster renamed from '{old}' to '{result}'")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Rename the cluster and change the master IP address to that of the new name",
    (One("host"),),
    (o.FORCE, *o.SET_DRY),
)
