"""gnt-cluster getmaster."""

from __future__ import annotations

from ganeti import constants, errors, ssconf
from ganeti.cli import options as o
from ganeti.cli import output
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.luxi import client as luxi_client


def Run(options: Options, arguments: list[str]) -> int:
    store = ssconf.SimpleStore()
    try:
        master = store.GetMasterNode()
    except errors.ConfigurationError as err:
        raise errors.OpPrereqError(
            "Cluster not initialized or this machine is not part of a cluster", errors.ECODE_INVAL
        ) from err
    if options.output:
        output.PrintJson({"master_node": master})
    else:
        output.ToStdout(master)
    if store.IsMaster() and not luxi_client.Listens():
        # A node that was away does not hear that it was replaced.
        output.ToStderr(
            f"Warning: no master daemon runs here. If {master} was down, another node may have become the master: run"
            " 'gnt-cluster getmaster' on another node"
        )
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run, "Print the name of the master node; works on every node, without any daemon", (), (o.OUTPUT_FORMAT,)
)
