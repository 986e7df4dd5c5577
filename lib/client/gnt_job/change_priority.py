"""gnt-job change-priority: lets waiting jobs go earlier or later."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import jobids


def Run(options: Options, arguments: list[str]) -> int:
    if options.priority is None:
        output.ToStderr("--priority option must be given.")
        return constants.EXIT_FAILURE
    ids = jobids.SelectJobs(options, arguments, "Change priority of job(s) listed above?")
    if ids is None:
        return constants.EXIT_CONFIRMATION
    client = jobs.GetClient()
    number = o.PRIORITIES[options.priority]
    return jobids.ForEachJob(ids, lambda job_id: client.ChangeJobPriority(job_id, number))


COMMAND = Command(
    Run,
    "Changes the priority of jobs that have not ended",
    (AnyNumber("jobid"),),
    (*o.SET_PRIORITY, o.FORCE, o.JOBS_PENDING, o.JOBS_QUEUED, o.JOBS_WAITING),
)
