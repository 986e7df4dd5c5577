"""gnt-cluster destroy: removes the cluster from its last node."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterDestroy


def Run(options: Options, arguments: list[str]) -> int:
    if not options.yes_do_it:
        output.ToStderr(
            "Nothing was changed: a destroyed cluster cannot be restored. Give --yes-do-it if you are sure."
        )
        return constants.EXIT_FAILURE
    from ganeti.bootstrap import calls, destroy

    client = jobs.GetClient()
    master, modify_ssh_setup = client.QueryConfigValues(["master_node", "modify_ssh_setup"])
    external = bool(client.QueryClusterInfo()["use_external_mip_script"])
    jobs.SubmitOpCode(OpClusterDestroy(), options)
    client.Close()
    with calls.BootstrapRunner() as runner:
        for problem in destroy.FinalizeClusterDestroy(runner, master, bool(modify_ssh_setup), external):
            output.ToStderr(problem)
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Destroy the cluster; it must have no instances and no other nodes", (), (o.YES_DO_IT,), True)
