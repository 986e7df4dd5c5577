"""What the commands that move many instances have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli.parser import COMPLETE_GROUP, Flag, Values

EARLY_RELEASE = Flag(
    "--early-release", dest="early_release", text="Release locks and the old storage before the new mirrors are in sync"
)
TO = Values(
    "--to", dest="target_groups", metavar="GROUP", completion=COMPLETE_GROUP,
    text="Node group to move to; repeat it to allow several (default: all others)",
)  # fmt: skip


def Report(results: Iterable[tuple[bool, Any]], success: str, during: str) -> int:
    """Print how the jobs ended, and return the exit code."""
    failed = jobs.CountFailures(results)
    if failed:
        output.ToStdout(f"There were {failed} errors {during}.")
        return constants.EXIT_FAILURE
    output.ToStdout(success)
    return constants.EXIT_SUCCESS


def ReportEvacuation(results: Iterable[tuple[bool, Any]]) -> int:
    return Report(results, "All instances evacuated successfully.", "during the evacuation")
