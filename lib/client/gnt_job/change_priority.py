"""gnt-job change-priority: changes the priority of jobs that have not ended."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.gnt_job import jobids
from ganeti.client.gnt_job.options import SET_WAITING


def Run(options: Options, arguments: list[str]) -> int:
    if options.priority is None:
        output.ToStderr("--priority option must be given.")
        return constants.EXIT_FAILURE
    ids = jobids.SelectJobs(
        options, arguments, f"The jobs listed above will get {options.priority} priority. Continue?"
    )
    if ids is None:
        return constants.EXIT_CONFIRMATION
    client = jobs.GetClient()
    number = o.PRIORITIES[options.priority]
    return jobids.ShowAnswers(client.ChangeJobPriority(job_id, number) for job_id in ids)


COMMAND = Command(
    Run,
    "Change the priority of jobs, named by their IDs or selected by their status",
    (AnyNumber("jobid"),),
    (*o.SET_PRIORITY, o.FORCE, *SET_WAITING),
)
