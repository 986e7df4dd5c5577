"""Jobs over the REST interface: wait for the end of one, as the command line does over LUXI.

This part of the client library needs the whole package; ``client`` itself does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti.cli import jobs
from ganeti.rapi.client import HTTP_NOT_FOUND, GanetiApiError, GanetiRapiClient


class _Source:
    """Answers what ``cli.jobs`` asks about jobs."""

    def __init__(self, client: GanetiRapiClient):
        self._client = client

    def WaitForJobChangeOnce(
        self, job_id: int, fields: Sequence[str], prev_job_info: Any, prev_log_serial: Any, timeout: float = 0.0
    ) -> Any:
        """Return as LUXI does; how long a wait may take is the server's decision."""
        del timeout
        try:
            answer = self._client.WaitForJobChange(job_id, fields, prev_job_info, prev_log_serial)
        except GanetiApiError as err:
            if err.code == HTTP_NOT_FOUND:
                return None
            raise
        return "nochange" if answer is None else (answer["job_info"], answer["log_entries"])

    def QueryJobs(self, job_ids: Sequence[int], fields: Sequence[str]) -> list[Any]:
        return [self._Row(job_id, fields) for job_id in job_ids]

    def _Row(self, job_id: int, fields: Sequence[str]) -> list[Any] | None:
        try:
            status = self._client.GetJobStatus(job_id)
        except GanetiApiError as err:
            if err.code == HTTP_NOT_FOUND:
                return None
            raise
        return [status.get(field) for field in fields]


def PollJob(client: GanetiRapiClient, job_id: int, feedback: jobs.Feedback | None = None) -> list[Any]:
    """Wait for the end of a job; return the results of its opcodes or raise its error.

    ``feedback``: what is done with the job's log; without it, it is printed.  Raises JobLost if the job is not there.
    """
    return jobs.PollJob(job_id, _Source(client), feedback)
