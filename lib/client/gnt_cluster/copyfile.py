"""gnt-cluster copyfile: copies a file of the master node to other nodes over SSH."""

from __future__ import annotations

import os

from ganeti import constants, errors, pathutils, runtime, ssh
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.client.gnt_cluster import nodes
from ganeti.client.gnt_cluster.options import NODE_LIST

_TIMEOUT = 4 * 3600.0

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


def _BuildCopy(path: str, node: nodes.NodeAddress, address: str, cluster: str) -> list[str]:
    """Return the scp command line with the SSH options of the cluster, which stand between the program and the host."""
    remote = ssh.BuildCommand(address, "", cluster, port=node.ssh_port)
    words = [word for word in remote[1:-1] if word.startswith("-o")]
    user = remote[-2].partition("@")[0]
    host = f"[{address}]" if ":" in address else address
    return ["scp", "-p", *words, path, f"{user}@{host}:{pathutils.ExchangeNodeRoot(node.name, path)}"]


def Run(options: Options, arguments: list[str]) -> int:
    path = os.path.abspath(arguments[0])
    if not runtime.Exists(path):
        raise errors.OpPrereqError(f"No such filename '{path}'", errors.ECODE_INVAL)
    cluster = jobs.GetClient().QueryConfigValues(["cluster_name"])[0]
    for node in nodes.OnlineNodes(options.nodes, options.group_name, skip_master=True):
        _CheckPlace(path)
        address = node.secondary_ip if options.use_replication_network else node.name
        result = runtime.RunCmd(_BuildCopy(path, node, address, cluster), timeout=_TIMEOUT)
        if result.failed:
            reason = output.WithoutControls(result.stderr.strip()) or result.fail_reason
            output.ToStderr(f"Copy of file {path} to node {node.name}:{node.ssh_port} failed: {reason}")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Copy a file of the master node to all online nodes, or to some of them",
    (One("file"),),
    (NODE_LIST, USE_REPLICATION_NETWORK, o.NODE_GROUP),
    details="The file has the same path, mode and times on the nodes.  It is copied over SSH.",
)
