"""gnt-job list."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import lists
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Flag, Options
from ganeti.client.gnt_job import jobids
from ganeti.client.gnt_job.options import PENDING, StatusOption

ARCHIVED = Flag("--archived", dest="archived", text="Include archived jobs, and show whether a job is archived")
RUNNING = StatusOption("--running", frozenset([constants.JOB_STATUS_RUNNING]), "Jobs that are running")
ERROR = StatusOption("--error", frozenset([constants.JOB_STATUS_ERROR]), "Jobs that failed")
FINISHED = StatusOption("--finished", constants.JOBS_FINALIZED, "Jobs that have ended")


def Run(options: Options, arguments: list[str]) -> int:
    default = list(jobids.LIST.default)
    wanted = jobids.StatusFilter(options.status_filter) if options.status_filter is not None else None
    if options.archived and "archived" not in default:
        default.append("archived")
    return lists.RunList(jobids.LIST, options, arguments, wanted, default)


COMMAND = Command(
    Run,
    "List jobs",
    (AnyNumber("jobid"),),
    (*o.SET_LIST, PENDING, RUNNING, ERROR, FINISHED, o.FILTER, ARCHIVED),
)
