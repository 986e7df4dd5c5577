"""Jobs."""

from __future__ import annotations

from typing import Any

from ganeti import constants, ht
from ganeti.rapi.callers import hiding
from ganeti.rapi.declared import WRITE, BodyUse, Etag, Method, Resource, Role, Scope
from ganeti.rapi.requests.call import Answer, Call, HttpError
from ganeti.rapi.resources import examples
from ganeti.rapi.resources.common import BULK, NOT_FOUND, ListOrBulk, StrictAnswer, TNames

WAIT_SECONDS = 10

_TStamp = ht.TMaybe(ht.TItems(ht.TInt, ht.TInt))
_TLogEntry = ht.TItems(ht.TInt, ht.TItems(ht.TInt, ht.TInt), ht.TString, ht.TAny)
_BULK_TYPES: dict[str, ht.Type] = {
    "id": ht.TPositiveInt,
    "status": ht.TElemOf(sorted(constants.JOB_STATUS_ALL)),
    "ops": ht.TListOf(ht.TDict),
    "summary": TNames,
    "opstatus": ht.TListOf(ht.TElemOf(sorted(constants.JOB_STATUS_ALL))),
    **dict.fromkeys(("received_ts", "start_ts", "end_ts"), _TStamp),
}
_TYPES = {**_BULK_TYPES, "oplog": ht.TListOf(ht.TListOf(_TLogEntry)), "opresult": ht.TList}
BULK_FIELDS = tuple(_BULK_TYPES)
FIELDS = tuple(_TYPES)


def _Number(call: Call) -> int:
    text = call.names["job"]
    if len(text) > 18:
        raise _Unknown(text)
    return int(text)


def _Unknown(number: object) -> HttpError:
    return HttpError(NOT_FOUND, f"Job {str(number)[:40]} does not exist")


async def _List(call: Call) -> list[Any]:
    fields = BULK_FIELDS if call.arguments[BULK.name] else ("id",)
    rows = await call.Ask("QueryJobs", None, list(fields))
    if len(fields) == 1:
        return [{"id": number, "uri": f"/2/jobs/{number}"} for number in sorted(row[0] for row in rows)]
    return [hiding.Job(dict(zip(fields, row, strict=True))) for row in rows]


async def _Show(call: Call) -> Answer:
    number = _Number(call)
    rows = await call.Ask("QueryJobs", [number], list(FIELDS))
    shown = dict(zip(FIELDS, rows[0], strict=True)) if rows else {}
    status = shown.get("status")
    if status is None:
        raise _Unknown(number)
    # A job that has ended stays as it is.
    version = (number, status, *(shown["end_ts"] or ())) if status in constants.JOBS_FINALIZED else ()
    return Answer(hiding.Job(shown), version=version)


async def _Cancel(call: Call) -> Any:
    return await call.Ask("CancelJob", _Number(call))


_TWait = ht.TStrictDict(
    {"fields": ht.TListOf(ht.TNonEmptyString)},
    {"previous_job_info": ht.TMaybe(ht.TList), "previous_log_serial": ht.TMaybe(ht.TInt)},
    others=ht.TAny,
)


async def _Wait(call: Call) -> dict[str, Any]:
    number = _Number(call)
    body = call.body
    fields = body["fields"]
    previous = [body.get("previous_job_info"), body.get("previous_log_serial")]
    answer = await call.Ask("WaitForJobChange", number, fields, *previous, WAIT_SECONDS)
    if answer is None:
        raise _Unknown(number)
    values, log = answer
    return {"job_info": hiding.Values(fields, values), "log_entries": log}


RESOURCES = (
    Resource(
        "/2/jobs",
        "The job queue.",
        {
            "GET": Method(
                _List,
                "List the jobs that are not archived, by number.",
                Role.READ,
                answer=ListOrBulk("id", StrictAnswer(_BULK_TYPES), ht.TPositiveInt),
                answer_example=examples.JOB_LINKS,
                arguments=(BULK,),
            )
        },
    ),
    Resource(
        "/2/jobs/{job}",
        "One job.",
        {
            "GET": Method(
                _Show,
                "Show a job, an archived one too.  A job that failed is not an error of HTTP: its `opresult` has the error as"
                " `[NAME, [TEXT, CODE]]`.  Values of private and secret OS parameters are null.",
                Role.READ,
                answer=StrictAnswer(_TYPES),
                scope=Scope.OWN_JOB,
                answer_example=examples.JOB,
                etag=Etag.WHOLE,
            ),
            "DELETE": Method(
                _Cancel,
                "Cancel a job.  The answer says whether that worked, and what happened.",
                Role.OPERATE,
                answer=ht.TItems(ht.TBool, ht.TString),
                scope=Scope.OWN_JOB,
                answer_example=[True, "Job 4711 canceled"],
            ),
        },
    ),
    Resource(
        "/2/jobs/{job}/wait",
        "Changes of a job.",
        {
            "GET": Method(
                _Wait,
                "Wait until a job differs from `previous_job_info`, or has log entries after `previous_log_serial`; at"
                f" most {WAIT_SECONDS} s, then answer with what there is.  `job_info` has the values of `fields`.",
                Role.READ,
                answer=StrictAnswer({"job_info": ht.TMaybe(ht.TList), "log_entries": ht.TListOf(_TLogEntry)}),
                scope=Scope.OWN_JOB,
                answer_example=examples.WAIT,
                access=(WRITE,),
                body=BodyUse.REQUIRED,
                body_type=_TWait,
                example={"fields": ["status"], "previous_job_info": None, "previous_log_serial": None},
            )
        },
    ),
)
