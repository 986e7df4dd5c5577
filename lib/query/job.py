"""Fields of jobs (doc/reference/queries.md 3.5)."""

from __future__ import annotations

from typing import Any

from ganeti.query.base import BOOL, NUMBER, OTHER, TEXT, UNAVAIL, Field, Kind, OrUnavail
from ganeti.query.common import Attribute
from ganeti.query.context import Context


def _Value(name: str) -> Any:
    def get(_context: Context, job: Any) -> Any:
        return OrUnavail(job.FieldValue(name)) if job.found else UNAVAIL

    return get


def _Field(name: str, title: str, kind: str, doc: str, seconds: bool = False) -> Field:
    return Field(name, title, kind, doc, _Value(name), seconds=seconds)


_FIELDS = [
    Field("id", "ID", NUMBER, "Job ID", Attribute("id")),
    _Field("status", "Status", TEXT, "Job status"),
    _Field("priority", "Priority", NUMBER, "Job priority"),
    _Field("archived", "Archived", BOOL, "Whether the job is archived"),
    _Field("ops", "OpCodes", OTHER, "The opcodes"),
    _Field("opresult", "OpCode_result", OTHER, "Result of each opcode"),
    _Field("opstatus", "OpCode_status", OTHER, "Status of each opcode"),
    _Field("oplog", "OpCode_log", OTHER, "Log entries of each opcode"),
    _Field("opstart", "OpCode_start", OTHER, "Start of each opcode, before its locks"),
    _Field("opexec", "OpCode_exec", OTHER, "Begin of each opcode's work, after its locks"),
    _Field("opend", "OpCode_end", OTHER, "End of each opcode"),
    _Field("oppriority", "OpCode_prio", OTHER, "Priority of each opcode"),
    _Field("summary", "Summary", OTHER, "Summary of each opcode"),
    _Field("received_ts", "Received", OTHER, "When the job was received", seconds=True),
    _Field("start_ts", "Start", OTHER, "When the job started", seconds=True),
    _Field("end_ts", "End", OTHER, "When the job ended", seconds=True),
]

KIND = Kind(
    "job",
    "id",
    _FIELDS,
    items=lambda context: context.jobs(None, context.wants_archived),
    item_name=lambda job: job.id,
    find=lambda context, ids: context.jobs(ids, True),
    default_fields="id status summary",
)
