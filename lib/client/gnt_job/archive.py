"""gnt-job archive: moves finished jobs to the archive."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Options
from ganeti.client.gnt_job.jobids import ParseJobId


def Run(options: Options, arguments: list[str]) -> int:
    code = constants.EXIT_SUCCESS
    for job_id in [ParseJobId(text) for text in arguments]:
        if not jobs.GetClient().ArchiveJob(job_id):
            output.ToStderr(f"Failed to archive job with ID '{job_id}'")
            code = constants.EXIT_FAILURE
    return code


COMMAND = Command(Run, "Archive finished jobs", (Some("jobid"),))
