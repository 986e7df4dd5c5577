"""What a job's dependencies allow (doc/reference/jobs.md 6, doc/reference/locking.md 12.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors

if TYPE_CHECKING:
    from ganeti.jqueue.job import Job

GO_ON = "go on"
CANCEL = "cancel"
FAIL = "fail"

# Return the status of a job, archived ones too; None if it does not exist.
Find = Callable[[int], "str | None"]


def Check(job: Job, index: int, find: Find) -> tuple[str, str]:
    """Return what becomes of opcode ``index``, and why; all jobs it depends on have ended."""
    for job_id, accepted in job.ops[index].input.depends:
        if job_id == job.id:
            return FAIL, "Job can't depend on itself"
        status = find(job_id)
        if status is None:
            return FAIL, f"Dependency error: job {job_id} does not exist"
        if status == constants.JOB_STATUS_CANCELED and status not in accepted:
            return CANCEL, f"Job canceled because job {job_id}, on which it depends, was canceled"
        if accepted and status not in accepted:
            wanted = ", ".join(sorted(accepted))
            text = f"Dependency job {job_id} finished with status '{status}', not one of '{wanted}' as required"
            return FAIL, text
    return GO_ON, ""


def Unfinished(job: Job, is_living: Callable[[int], bool]) -> set[int]:
    """Return the jobs that any opcode not yet final waits for."""
    return {
        job_id
        for op in job.ops
        if op.status not in constants.JOBS_FINALIZED
        for job_id, _ in op.input.depends
        if job_id != job.id and is_living(job_id)
    }


def Resolve(depends: Sequence[Any] | None, own_id: int, failed: set[int]) -> list[Any] | None:
    """Return dependencies with absolute ids; a negative one counts back from the job's own.

    ``failed`` are ids of this submission that will not exist.  Raises OpPrereqError.
    """
    if depends is None:
        return None
    resolved = []
    for job_id, accepted in depends:
        absolute = int(job_id)
        if absolute < 0:
            absolute += own_id
            if absolute <= 0 or absolute in failed:
                raise errors.OpPrereqError(f"Unable to resolve relative job ID {job_id}", errors.ECODE_INVAL)
        resolved.append([absolute, list(accepted)])
    return resolved
