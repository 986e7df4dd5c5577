"""gnt-job cancel: cancels jobs that have not started, and aborts running ones on demand."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Flag, Options
from ganeti.client.gnt_job import jobids
from ganeti.client.gnt_job.options import SET_WAITING

KILL = Flag("--kill", dest="kill", text="Abort running jobs (needs --yes-do-it)")


def Run(options: Options, arguments: list[str]) -> int:
    if options.kill and not options.yes_do_it:
        raise errors.OpPrereqError(
            "An aborted job can leave instances and disks in a half-changed state. Give --yes-do-it if you are sure",
            errors.ECODE_INVAL,
        )
    ids = jobids.SelectJobs(options, arguments, "The jobs listed above will be canceled. Continue?")
    if ids is None:
        return constants.EXIT_CONFIRMATION
    return jobids.ShowAnswers(jobs.GetClient().CancelManyJobs(ids, options.kill))


COMMAND = Command(
    Run,
    "Cancel jobs, named by their IDs or selected by their status",
    (AnyNumber("jobid"),),
    (o.FORCE, KILL, *SET_WAITING, o.YES_DO_IT),
)
