"""gnt-cluster getmaster."""

from __future__ import annotations

from ganeti import constants, errors, ssconf
from ganeti.cli import options as o
from ganeti.cli import output
from ganeti.cli.command import Command
from ganeti.cli.parser import Options


def Run(options: Options, arguments: list[str]) -> int:
    try:
        master = ssconf.SimpleStore().GetMasterNode()
    except errors.ConfigurationError as err:
        raise errors.OpPrereqError(
            "Cluster not initialized or this machine is not part of a cluster", errors.ECODE_INVAL
        ) from err
    if options.output:
        output.PrintJson({"master_node": master})
    else:
        output.ToStdout(master)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run, "Print the name of the master node; works on every node, without any daemon", (), (o.OUTPUT_FORMAT,)
)
