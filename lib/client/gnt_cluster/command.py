"""gnt-cluster command: runs a shell command on nodes over SSH."""

from __future__ import annotations

from ganeti import constants, runtime, ssh
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Flag, Options
from ganeti.client.gnt_cluster import nodes
from ganeti.client.gnt_cluster.options import NODE_LIST

_TIMEOUT = 4 * 3600.0
_RULE = "-" * 48

SHOW_MACHINE_NAMES = Flag(
    "-M", "--show-machine-names", dest="show_machine_names", text="Start each line of output with the name of the node"
)
FAILURE_ONLY = Flag("--failure-only", dest="failure_only", text="Leave out nodes on which the command succeeded")


def _RunOn(node: nodes.NodeAddress, is_master: bool, command: str, cluster: str) -> runtime.RunResult:
    if is_master:
        return runtime.RunCmd(["/bin/sh", "-c", command], timeout=_TIMEOUT)
    return runtime.RunCmd(ssh.BuildCommand(node.name, command, cluster, port=node.ssh_port), timeout=_TIMEOUT)


def Run(options: Options, arguments: list[str]) -> int:
    command = " ".join(arguments)
    cluster, master = jobs.GetClient().QueryConfigValues(["cluster_name", "master_node"])
    chosen = nodes.OnlineNodes(options.nodes, options.group_name)
    # The master comes last: the command may end the connection to it.
    for node in sorted(chosen, key=lambda n: n.name == master):
        result = _RunOn(node, node.name == master, command, cluster)
        if options.failure_only and result.exit_code == 0:
            continue
        output.ToStdout(_RULE)
        text = result.stdout + result.stderr
        if options.show_machine_names:
            for line in text.splitlines():
                output.ToStdout(f"{node.name}: {line}")
        else:
            output.ToStdout(f"node: {node.name}")
            output.ToStdout(text)
        code = result.exit_code if result.exit_code is not None else f"signal {result.signal}"
        output.ToStdoutAndFlush(f"return code = {code}")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Run a shell command as root on all online nodes, or on some of them",
    (Some("command"),),
    (NODE_LIST, o.NODE_GROUP, SHOW_MACHINE_NAMES, FAILURE_ONLY),
    details="The command is run over SSH, on the master node last.  Return code 255 means that SSH itself failed; its message"
    " is shown.",
)
