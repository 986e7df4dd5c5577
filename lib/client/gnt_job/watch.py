"""gnt-job watch: prints the log of a job until it ends."""

from __future__ import annotations

from ganeti.cli import jobs, output
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_job.jobids import ParseJobId
from ganeti.client.gnt_job.wait import Follow


def Run(options: Options, arguments: list[str]) -> int:
    job_id = ParseJobId(arguments[0])
    heading = f"Output from job {job_id} follows"
    output.ToStdout(heading)
    output.ToStdoutAndFlush("-" * len(heading))
    return Follow(job_id, jobs.Feedback())


COMMAND = Command(Run, "Print the log of a job as it grows, until the job ends", (One("jobid"),))
