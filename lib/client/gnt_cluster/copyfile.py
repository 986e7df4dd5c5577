"""gnt-cluster copyfile: copies a file of the master node to other nodes over SSH."""

from __future__ import annotations

import os

from ganeti import constants, errors, pathutils, runtime, ssh
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.client.shared import remote
from ganeti.utils import parallel

USE_REPLICATION_NETWORK = Flag(
    "--use-replication-network", dest="use_replication_network", text="Connect to the nodes' secondary addresses"
)


def _CheckPlace(path: str) -> None:
    """Raise OpPrereqError if the nodes of a virtual cluster, which share a machine, have no copies of their own."""
    if pathutils.IsVirtual() and not path.startswith(pathutils.ROOT_DIR + "/"):
        raise errors.OpPrereqError(
            f"'{path}' cannot be copied in a virtual cluster: it is not below this node's directory"
            f" '{pathutils.ROOT_DIR}', so all nodes have the same file",
            errors.ECODE_INVAL,
        )


def _BuildCopy(path: str, node: remote.NodeAddress, address: str, cluster: str) -> list[str]:
    """Return the scp command line with the SSH options of the cluster, which stand between the program and the host."""
    there = ssh.BuildCommand(address, "", cluster, port=node.ssh_port)
    words = [word for word in there[1:-1] if word.startswith("-o")]
    user = there[-2].partition("@")[0]
    host = f"[{address}]" if ":" in address else address
    return ["scp", "-p", *words, path, f"{user}@{host}:{pathutils.ExchangeNodeRoot(node.name, path)}"]


def Run(options: Options, arguments: list[str]) -> int:
    remote.CheckTimeout(options)
    path = os.path.abspath(arguments[0])
    if not runtime.Exists(path):
        raise errors.OpPrereqError(f"No such filename '{path}'", errors.ECODE_INVAL)
    cluster = jobs.GetClient().QueryConfigValues(["cluster_name"])[0]
    nodes = remote.OnlineNodes(options.nodes, options.group_name, skip_master=True)
    if nodes:
        _CheckPlace(path)

    def copy(node: remote.NodeAddress) -> runtime.RunResult:
        address = node.secondary_ip if options.use_replication_network else node.name
        return runtime.RunCmd(_BuildCopy(path, node, address, cluster), timeout=options.timeout)

    failures = []
    for node, result in parallel.Each(nodes, copy, remote.NameOf):
        how = remote.Failure(result)
        if how:
            failures.append((node.name, how))
            reason = output.WithoutControls(result.stderr.strip()) or how
            if result.timeout is not None:
                reason = how
            output.ToStderr(f"Copy of file {path} to node {node.name}:{node.ssh_port} failed: {reason}")
    remote.Summarize(len(nodes), failures)
    # As in 3.1, whatever became of the copies.
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Copy a file of the master node to all online nodes, or to some of them",
    (One("file"),),
    (o.NODE_LIST, USE_REPLICATION_NETWORK, o.NODE_GROUP, remote.TIMEOUT),
    details="The file has the same path, mode and times on the nodes.  It is copied over SSH, to up to"
    f" {parallel.AT_ONCE} nodes at once.  Nodes that failed are named on standard error; the exit code is 0 nevertheless.",
)
