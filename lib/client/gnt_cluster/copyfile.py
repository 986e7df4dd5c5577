"""gnt-cluster copyfile: copies a file of the master to nodes."""

from __future__ import annotations

import os

from ganeti import constants, errors, pathutils, runtime, ssh
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import nodes

_TIMEOUT = 4 * 3600.0


def _BuildCopy(path: str, node: nodes.NodeAddress, address: str, cluster: str) -> list[str]:
    """scp with the options of our ssh: what stands between the program and the host."""
    remote = ssh.BuildCommand(address, "", cluster, port=node.ssh_port)
    words = [word for word in remote[1:-1] if word.startswith("-o")]
    user = remote[-2].partition("@")[0]
    host = f"[{address}]" if ":" in address else address
    return ["scp", "-q", "-p", *words, path, f"{user}@{host}:{pathutils.ExchangeNodeRoot(node.name, path)}"]


def Run(options: Options, arguments: list[str]) -> int:
    path = os.path.abspath(arguments[0])
    if not runtime.Exists(path):
        raise errors.OpPrereqError(f"No such filename '{path}'", errors.ECODE_INVAL)
    cluster = jobs.GetClient().QueryConfigValues(["cluster_name"])[0]
    for node in nodes.OnlineNodes(options.nodes, options.nodegroup, skip_master=True):
        address = node.secondary_ip if options.use_replication_network else node.name
        if runtime.RunCmd(_BuildCopy(path, node, address, cluster), timeout=_TIMEOUT).failed:
            output.ToStderr(f"Copy of file {path} to node {node.name}:{node.ssh_port} failed")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Copies a file to all (or only some) nodes",
    (One("file"),),
    (o.NODE_LIST, o.USE_REPLICATION_NETWORK, o.NODE_GROUP),
)
