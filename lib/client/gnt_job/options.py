"""Options of several commands of gnt-job: jobs by their status."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli.parser import Opt


def StatusOption(name: str, status: frozenset[str], text: str) -> Opt:
    """Declare an option that selects the jobs of a status; the last one given counts."""
    return Opt(name, dest="status_filter", action="store_const", const=status, default=None, help=text)


PENDING = StatusOption("--pending", constants.JOBS_PENDING, "Jobs that have not started yet or are being canceled")
QUEUED = StatusOption("--queued", frozenset([constants.JOB_STATUS_QUEUED]), "Jobs that are queued")
WAITING = StatusOption("--waiting", frozenset([constants.JOB_STATUS_WAITING]), "Jobs that wait for locks")
SET_WAITING = (PENDING, QUEUED, WAITING)
