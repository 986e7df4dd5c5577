"""gnt-cluster redist-conf."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpClusterRedistConf


def Run(options: Options, arguments: list[str]) -> int:
    op = OpClusterRedistConf()
    if options.yes_do_it:
        # During an upgrade, while the queue is drained.
        client = jobs.GetClient()
        jobs.PollJob(client.SubmitJobToDrainedQueue([op]), client)
    else:
        jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Sends the cluster's files to all nodes again", (), (*o.SET_JOB, o.YES_DO_IT_REDIST))
