"""gnt-job list: jobs, the archived ones on demand."""

from __future__ import annotations

from ganeti.cli import lists
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import jobids


def Run(options: Options, arguments: list[str]) -> int:
    default = list(jobids.LIST.default)
    wanted = jobids.StatusFilter(options.status_filter) if options.status_filter is not None else None
    if options.archived and "archived" not in default:
        default.append("archived")
    return lists.RunList(jobids.LIST, options, arguments, wanted, default)


COMMAND = Command(
    Run,
    "Lists the jobs and their status",
    (AnyNumber("jobid"),),
    (
        *o.SET_LIST,
        o.JOBS_PENDING,
        o.JOBS_RUNNING,
        o.JOBS_ERROR,
        o.JOBS_FINISHED,
        o.FILTER,
        o.ARCHIVED,
    ),
)
