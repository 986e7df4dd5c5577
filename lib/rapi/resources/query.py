"""Queries: chosen fields of any kind of object, with filters."""

from __future__ import annotations

from typing import Any

from ganeti import ht
from ganeti.opcodes import types
from ganeti.rapi.callers import hiding
from ganeti.rapi.declared import Argument, ArgumentKind, BodyUse, Method, Resource, Role
from ganeti.rapi.requests.bodies import BAD_REQUEST
from ganeti.rapi.requests.call import Call, HttpError
from ganeti.rapi.resources import examples
from ganeti.rapi.resources.common import NOT_FOUND, READ_OR_WRITE

KINDS = ("node", "instance", "group", "network", "job", "lock", "export", "filter")

_FIELDS = Argument("fields", ArgumentKind.FIELDS, "names of fields, separated by commas")
_NEEDED_FIELDS = Argument("fields", ArgumentKind.FIELDS, "names of fields, separated by commas", required=True)
_TBody = ht.TStrictDict(
    {},
    {
        "fields": ht.TMaybe(ht.TListOf(ht.TNonEmptyString)),
        "qfilter": ht.TMaybe(ht.TList),
        "filter": ht.TMaybe(ht.TList),
    },
    others=ht.TAny,
)


def _Kind(call: Call) -> str:
    kind = call.names["resource"]
    if kind not in KINDS:
        raise HttpError(NOT_FOUND, f"There is no query resource '{kind[:40]}'; known are {', '.join(KINDS)}")
    return kind


async def _Query(call: Call, fields: list[str], qfilter: list[Any] | None) -> dict[str, Any]:
    kind = _Kind(call)
    found = await call.Ask("Query", kind, fields, qfilter)
    data = hiding.Cells(fields, found["data"]) if kind == "job" else found["data"]
    return {"fields": found["fields"], "data": data}


async def _Get(call: Call) -> dict[str, Any]:
    return await _Query(call, call.arguments[_FIELDS.name], None)


async def _Put(call: Call) -> dict[str, Any]:
    body = call.body
    fields = body.get("fields") or call.arguments[_FIELDS.name]
    if not fields:
        raise HttpError(BAD_REQUEST, "The body lacks 'fields', the names of the fields to show")
    qfilter = body.get("qfilter")
    return await _Query(call, fields, body.get("filter") if qfilter is None else qfilter)


async def _Definitions(call: Call) -> Any:
    return await call.Ask("QueryFields", _Kind(call), call.arguments[_FIELDS.name] or None)


RESOURCES = (
    Resource(
        "/2/query/{resource}",
        f"Any fields of {', '.join(KINDS[:-1])} or {KINDS[-1]}.",
        {
            "GET": Method(
                _Get,
                "Show fields of all objects.  Each value comes with a status: 0 normal, 1 unknown field, 2 no data, 3 not"
                " available, 4 offline.",
                Role.READ,
                answer=types.TQueryResult,
                answer_example=examples.QUERY,
                access=READ_OR_WRITE,
                arguments=(_NEEDED_FIELDS,),
            ),
            "PUT": Method(
                _Put,
                "Show fields of the objects that a filter in the query language lets pass.  `filter` is an older name of"
                " `qfilter`.",
                Role.READ,
                answer=types.TQueryResult,
                answer_example=examples.QUERY,
                access=READ_OR_WRITE,
                arguments=(_FIELDS,),
                body=BodyUse.REQUIRED,
                body_type=_TBody,
                example={"fields": ["name", "status"], "qfilter": ["=", "pnode", "node1.example.com"]},
            ),
        },
    ),
    Resource(
        "/2/query/{resource}/fields",
        "The fields that can be asked for.",
        {
            "GET": Method(
                _Definitions,
                "Describe all fields, or those that are named.",
                Role.READ,
                answer=types.TQueryFieldsResult,
                answer_example=examples.FIELDS,
                arguments=(_FIELDS,),
            )
        },
    ),
)
