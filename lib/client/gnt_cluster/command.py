"""gnt-cluster command: runs a shell command on nodes."""

from __future__ import annotations

from ganeti import constants, runtime, ssh
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Options
from ganeti.client.shared import nodes

_TIMEOUT = 4 * 3600.0
_RULE = "-" * 48


def Run(options: Options, arguments: list[str]) -> int:
    command = " ".join(arguments)
    client = jobs.GetClient()
    cluster, master = client.QueryConfigValues(["cluster_name", "master_node"])
    chosen = nodes.OnlineNodes(options.nodes, options.nodegroup)
    # The master comes last: the command may end the connection to it.
    for node in sorted(chosen, key=lambda n: n.name == master):
        if node.name == master:
            result = runtime.RunCmd(["/bin/sh", "-c", command], timeout=_TIMEOUT)
        else:
            argv = ssh.BuildCommand(node.name, command, cluster, port=node.ssh_port)
            result = runtime.RunCmd(argv, timeout=_TIMEOUT)
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
    "Runs a command on all (or only some) nodes",
    (Some("command"),),
    (o.NODE_LIST, o.NODE_GROUP, o.SHOW_MACHINE_NAMES, o.FAILURE_ONLY),
)
