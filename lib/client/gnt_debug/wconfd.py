"""gnt-debug wconfd: asks the owner of configuration and locks, which is the master daemon in this release."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Options


def _Locks(job_id: str | None = None) -> list[list[object]]:
    """Return [name, mode, owners] of the locks that are held, by this job if one is given."""
    answer = jobs.GetClient().Query("lock", ["name", "mode", "owner"])
    rows = [[cell[1] for cell in row] for row in answer["data"]]
    return [row for row in rows if row[2] and (job_id is None or _OwnedBy(row[2], job_id))]


def _OwnedBy(owners: list[str], job_id: str) -> bool:
    return any(str(owner).partition("/")[0] in (job_id, f"job{job_id}", f"Job{job_id}") for owner in owners)


def Run(options: Options, arguments: list[str]) -> int:
    command, *rest = arguments
    if command == "echo" and len(rest) == 1:
        # Any call shows that the daemon answers.
        jobs.GetClient().QueryConfigValues(["cluster_name"])
        output.ToStdout(f"Answer: {rest[0]}")
    elif command == "listlocks" and len(rest) == 1:
        output.ToStdout(f"Answer: {_Locks(rest[0])}")
    elif command == "listalllocks" and not rest:
        output.ToStdout(f"Answer: {[row[0] for row in _Locks()]}")
    elif command == "listalllocksowners" and not rest:
        output.ToStdout(f"Answer: {_Locks()}")
    elif command in ("cleanuplocks", "flushconfig") and not rest:
        raise errors.OpPrereqError(
            f"'{command}' is not supported: locks end with their job, and changes are durable once they are acknowledged",
            errors.ECODE_INVAL,
        )
    else:
        output.ToStderr(f"Command '{' '.join(arguments)}' not supported")
        return constants.EXIT_FAILURE
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Ask the master daemon for its locks; for scripts written for 3.1", (Some("text"),))
