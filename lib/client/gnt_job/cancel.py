"""gnt-job cancel: takes back jobs that have not begun, and aborts running ones on demand."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import jobids


def Run(options: Options, arguments: list[str]) -> int:
    if options.kill and not options.yes_do_it:
        raise errors.OpPrereqError(
            "Aborting running jobs may leave instances and disks half changed; if this is what you want, give"
            " --yes-do-it too",
            errors.ECODE_INVAL,
        )
    ids = jobids.SelectJobs(options, arguments, "Cancel job(s) listed above?")
    if ids is None:
        return constants.EXIT_CONFIRMATION
    client = jobs.GetClient()
    return jobids.ForEachJob(ids, lambda job_id: client.CancelJob(job_id, options.kill))


COMMAND = Command(
    Run,
    "Cancels jobs, by number or by status",
    (AnyNumber("jobid"),),
    (o.FORCE, o.KILL, o.JOBS_PENDING, o.JOBS_QUEUED, o.JOBS_WAITING, o.YES_DO_IT),
)
