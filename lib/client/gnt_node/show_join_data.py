"""gnt-node show-join-data: the data that a machine needs to become a node without SSH (doc/extensions.rst)."""

from __future__ import annotations

import os

from ganeti import constants, errors, pathutils, serializer
from ganeti.cli import output
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options


def Run(options: Options, arguments: list[str]) -> int:
    if os.geteuid() != 0:
        raise errors.OpPrereqError(
            "Only root can print the join data: it contains the cluster's keys", errors.ECODE_ENVIRON
        )
    from ganeti.bootstrap import join

    data = serializer.Dump(join.JoinData(arguments[0]))
    output.KeepToOwner()
    output.ToStdout(data)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Print the data with which a machine becomes a node; it contains the cluster's keys",
    (One("host"),),
    details=f"Run this on the master node and pass the output to '{pathutils.NODE_DAEMON_SETUP}' on the new machine,"
    " over a channel that nobody can read.  Then run 'gnt-node add --no-node-setup HOST' on the master node.",
)
