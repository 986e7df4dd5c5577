"""gnt-job wait: waits for a job without showing anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.jobids import ParseJobId


class _Silent(jobs.Feedback):
    """Shows nothing."""

    def Log(self, timestamp: Sequence[int], kind: str, message: Any) -> None:
        pass

    def Waiting(self, job_id: int, status: str) -> None:
        pass


def Follow(job_id: int, feedback: jobs.Feedback) -> int:
    """Waits for the job's end; its failure is told in one place and gives the exit code."""
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


COMMAND = Command(Run, "Waits for a job to end", (One("jobid"),))
