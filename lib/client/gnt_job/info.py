"""gnt-job info."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import constants
from ganeti.cli import info, jobs, tables
from ganeti.cli import options as o
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Options
from ganeti.client.gnt_job.jobids import ParseJobId

_FIELDS = (
    "id", "status", "ops", "opresult", "opstatus", "oplog", "opstart", "opexec", "opend", "received_ts", "start_ts", "end_ts",
)  # fmt: skip

Timestamp = Sequence[int] | None


def _Delta(earlier: Timestamp, later: Timestamp) -> str:
    if not (isinstance(earlier, (list, tuple)) and isinstance(later, (list, tuple))):
        return ""
    seconds = later[0] - earlier[0] + (later[1] - earlier[1]) / 1000000
    return f"{seconds:.6f}"


def _WithDelta(earlier: Timestamp, later: Timestamp) -> str:
    delta = _Delta(earlier, later)
    text = tables.FormatJobTimestamp(later)
    return f"{text} (delta {delta}s)" if delta else text


def _Aligned(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, Any]]:
    """Return the pairs with their values aligned."""
    width = max(len(key) for key, _ in pairs)
    return [(key, " " * (width - len(key)) + value) for key, value in pairs]


def _OpCode(row: dict[str, Any], index: int) -> info.Pairs:
    op = row["ops"][index]
    times = [
        (title, "N/A" if row[name][index] is None else tables.FormatJobTimestamp(row[name][index]))
        for title, name in (("Processing start", "opstart"), ("Execution start", "opexec"), ("Processing end", "opend"))
    ]
    log = [
        info.Pairs(
            [
                ("Time", tables.FormatJobTimestamp(timestamp)),
                ("Content", (serial, kind, message)),
            ]
        )
        for serial, timestamp, kind, message in row["oplog"][index]
    ]
    return info.Pairs(
        [
            ("Opcode", op["OP_ID"]),
            ("Status", row["opstatus"][index]),
            *_Aligned(times),
            ("Input fields", op),
            ("Result", row["opresult"][index]),
            ("Execution log", log),
        ]
    )


def Describe(row: dict[str, Any]) -> info.Pairs:
    """Return the tree of a job."""
    received, start, end = row["received_ts"], row["start_ts"], row["end_ts"]
    times = [
        ("Received", tables.FormatJobTimestamp(received) if received else "N/A"),
        ("Processing start", _WithDelta(received, start) if start else "N/A"),
        ("Processing end", _WithDelta(start, end) if end else "N/A"),
    ]
    total = _Delta(received, end)
    return info.Pairs(
        [
            ("Job ID", row["id"]),
            ("Status", row["status"]),
            *_Aligned(times),
            ("Total processing time", f"{total} seconds" if total else "N/A"),
            ("Opcodes", [_OpCode(row, index) for index in range(len(row["ops"]))]),
        ]
    )


def Run(options: Options, arguments: list[str]) -> int:
    ids = [ParseJobId(text) for text in arguments]
    answer = jobs.GetClient().Query("job", list(_FIELDS), ["|", *(["==", "id", job_id] for job_id in ids)])
    rows = []
    for cells in answer["data"]:
        row = {name: value for name, (_, value) in zip(_FIELDS, cells, strict=True)}
        rows.append(row if cells[1][0] == constants.RS_NORMAL else {"id": row["id"]})
    if options.output:
        info.PrintInfo(rows, as_json=True)
        return constants.EXIT_SUCCESS
    info.PrintInfo([Describe(row) if "status" in row else f"Job ID {row['id']} not found" for row in rows])
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Show jobs in detail: opcodes, results, log", (Some("jobid"),), (o.OUTPUT_FORMAT,))
