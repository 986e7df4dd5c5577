"""gnt-cluster redist-conf."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Flag, Options
from ganeti.opcodes import OpClusterRedistConf

YES_DO_IT = Flag("--yes-do-it", dest="yes_do_it", text="Submit the job even if the queue is drained")


def Run(options: Options, arguments: list[str]) -> int:
    op = OpClusterRedistConf()
    if options.yes_do_it:
        # An upgrade needs this while the queue is drained.
        client = jobs.GetClient()
        [failed] = jobs.PollJob(client.SubmitJobToDrainedQueue([op]), client)
    else:
        failed = jobs.SubmitOrSend(op, options)
    # The job's log names these nodes, and what to do.
    return constants.EXIT_FAILURE if failed else constants.EXIT_SUCCESS


COMMAND = Command(Run, "Copy the cluster's files to all nodes again", (), (*o.SET_JOB, YES_DO_IT))
