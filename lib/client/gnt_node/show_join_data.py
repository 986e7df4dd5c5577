"""gnt-node show-join-data: what a machine reads to become a node, where SSH is not used (doc/extensions.rst)."""

from __future__ import annotations

import os

from ganeti import constants, errors, serializer
from ganeti.cli import output
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options


def Run(options: Options, arguments: list[str]) -> int:
    if os.geteuid() != 0:
        raise errors.OpPrereqError("The data holds the cluster's keys: only root may see it", errors.ECODE_ENVIRON)
    from ganeti.bootstrap import join

    output.ToStdout(serializer.Dump(join.JoinData(arguments[0])))
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Prints what node-daemon-setup reads on a machine that is to become a node; it holds the cluster's keys",
    (One("host"),),
)
