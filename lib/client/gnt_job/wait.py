"""gnt-job wait: waits for a job without showing its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_job.jobids import ParseJobId


class _Silent(jobs.Feedback):
    """Prints nothing."""

    def Log(self, timestamp: Sequence[int], kind: str, message: Any) -> None:
        pass

    def Waiting(self, job_id: int, status: str) -> None:
        pass

    def Explain(self, reasons: Iterable[str]) -> None:
        pass


def Follow(job_id: int, feedback: jobs.Feedback) -> int:
    """Wait for the end of a job, print its failure, and return the exit code."""
    try:
        jobs.PollJob(job_id, feedback=feedback)
    except errors.JobLost:
        raise
    except errors.LuxiError:
        raise
    except errors.GenericError as err:
        from ganeti.cli.failures import FormatError

        code, text = FormatError(err)
        output.ToStderr(f"Job {job_id} failed: {text}")
        return code
    return constants.EXIT_SUCCESS


def Run(options: Options, arguments: list[str]) -> int:
    return Follow(ParseJobId(arguments[0]), _Silent())


COMMAND = Command(Run, "Wait until a job ends; the exit code is that of the job", (One("jobid"),))
