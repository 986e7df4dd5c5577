"""gnt-cluster command: runs a shell command on nodes over SSH."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti import constants, runtime, ssh
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Flag, Options
from ganeti.client.shared import remote
from ganeti.utils import parallel

FAILURE_ONLY = Flag("--failure-only", dest="failure_only", text="Leave out nodes on which the command succeeded")


def _Show(node: remote.NodeAddress, result: runtime.RunResult, options: Options) -> None:
    output.ToStdout(remote.RULE)
    text = result.stdout + result.stderr
    if result.timeout is not None:
        text += f"(ended after {result.timeout:g} seconds without a result)\n"
    remote.PrintOutput(node.name, text, options.show_machine_names)
    code = result.exit_code if result.exit_code is not None else f"signal {result.signal}"
    output.ToStdoutAndFlush(f"return code = {code}")


def Run(options: Options, arguments: list[str]) -> int:
    remote.CheckTimeout(options)
    command = " ".join(arguments)
    cluster, master = jobs.GetClient().QueryConfigValues(["cluster_name", "master_node"])
    chosen = remote.OnlineNodes(options.nodes, options.group_name)
    failures = []

    def run(node: remote.NodeAddress) -> runtime.RunResult:
        if node.name == master:
            return runtime.RunCmd(["/bin/sh", "-c", command], timeout=options.timeout)
        argv = ssh.BuildCommand(node.name, command, cluster, port=node.ssh_port)
        return runtime.RunCmd(argv, timeout=options.timeout)

    def show(nodes: Sequence[remote.NodeAddress]) -> None:
        for node, result in parallel.Each(nodes, run, remote.NameOf):
            how = remote.Failure(result)
            if how:
                failures.append((node.name, how))
            if how or not options.failure_only:
                _Show(node, result, options)

    show([node for node in chosen if node.name != master])
    # The master comes last: the command may end the connection to it.
    show([node for node in chosen if node.name == master])
    remote.Summarize(len(chosen), failures)
    # As in 3.1, whatever the commands returned.
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Run a shell command as root on all online nodes, or on some of them",
    (Some("command"),),
    (o.NODE_LIST, o.NODE_GROUP, remote.SHOW_MACHINE_NAMES, FAILURE_ONLY, remote.TIMEOUT),
    details=f"The command is run over SSH, on up to {parallel.AT_ONCE} nodes at once, and on the master node last.  Output"
    " is shown in the order of the nodes.  Return code 255 means that SSH itself failed; its message is shown.  Nodes that"
    " failed are named once more at the end, on standard error; the exit code is 0 nevertheless.",
)
