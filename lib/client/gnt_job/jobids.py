"""Jobs named on the command line, by number or by status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import ask, jobs, lists, output, tables
from ganeti.cli.parser import Options

_FIELDS = ["id", "status", "summary"]


def ParseJobId(text: str) -> int:
    """Return the number of a job; raise OpPrereqError if it is not one."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise errors.OpPrereqError(f"Invalid job ID passed: '{text}'", errors.ECODE_INVAL)
    return int(text)


def StatusFilter(status: Iterable[str]) -> list[Any]:
    return ["|", *(["==", "status", value] for value in sorted(status))]


def SelectJobs(options: Options, arguments: Sequence[str], question: str) -> list[int] | None:
    """Return the jobs named by IDs or selected by a status option; None if the question was answered with no."""
    if bool(arguments) == (options.status_filter is not None):
        raise errors.OpPrereqError(
            "Either a status filter or job ID(s) must be specified and never both", errors.ECODE_INVAL
        )
    if arguments:
        return [ParseJobId(text) for text in arguments]
    answer = jobs.GetClient().Query("job", _FIELDS, StatusFilter(options.status_filter))
    ids = [row[0][1] for row in answer["data"]]
    if not ids:
        raise errors.OpPrereqError("No jobs with the requested status have been found", errors.ECODE_STATE)
    if not options.force:
        rows = [[str(row[0][1]), row[1][1], tables.JoinList(row[2][1])] for row in answer["data"]]
        columns = [tables.Column("ID", True), tables.Column("Status"), tables.Column("Summary")]
        for line in tables.Layout(columns, rows, True, None):
            output.ToStdout(line)
        if not ask.Confirmed(question, "--force"):
            return None
    return ids


def ShowAnswers(answers: Iterable[Sequence[Any]]) -> int:
    """Print the master's [success, text] for each job; the exit code says whether all succeeded."""
    code = constants.EXIT_SUCCESS
    for success, text in answers:
        if not success:
            code = constants.EXIT_FAILURE
        output.ToStdout(str(text))
    return code


FORMATTERS = {
    "summary": tables.JoinList,
    "opstart": lambda value: _Times(value),
    "opexec": lambda value: _Times(value),
    "opend": lambda value: _Times(value),
}


def _Times(value: Any) -> str:
    return ",".join(tables.FormatJobTimestamp(item) for item in value)


LIST = lists.ListKind("job", tuple(_FIELDS), key="id", formatters=FORMATTERS, numeric=True)
