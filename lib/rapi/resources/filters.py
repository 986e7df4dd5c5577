"""Rules that filter the job queue."""

from __future__ import annotations

from typing import Any

from ganeti import errors, ht
from ganeti.opcodes import types
from ganeti.rapi.declared import BodyUse, Etag, Method, Resource, Role
from ganeti.rapi.requests import bodies
from ganeti.rapi.requests.bodies import BAD_REQUEST
from ganeti.rapi.requests.call import Answer, Call, HttpError
from ganeti.rapi.resources import examples
from ganeti.rapi.resources.common import BULK, NOT_FOUND, Listed, ListOrBulk, StrictAnswer
from ganeti.utils.text import Printable

PRECONDITION_FAILED = 412
_ACTIONS = ("ACCEPT", "CONTINUE", "PAUSE", "REJECT")
_TAction = ht.TOr(ht.TElemOf(_ACTIONS), ht.TItems(ht.TValue("RATE_LIMIT"), ht.TPositiveInt))
_TPredicates = ht.TListOf(ht.TItems(ht.TString, ht.TList))
_TYPES: dict[str, ht.Type] = {
    "uuid": ht.TNonEmptyString,
    "watermark": ht.TNonNegativeInt,
    "priority": ht.TNonNegativeInt,
    "predicates": _TPredicates,
    "action": _TAction,
    "reason_trail": types.TReason,
}
FIELDS = tuple(_TYPES)
TFilter = StrictAnswer(_TYPES)
_TBody = ht.TStrictDict(
    {},
    {"priority": ht.TNonNegativeInt, "predicates": _TPredicates, "action": _TAction, "reason": types.TReason},
)
_EXAMPLE = {"priority": 0, "predicates": [["jobid", [">", "id", "watermark"]]], "action": "PAUSE"}
_DEFAULTS: dict[str, Any] = {"priority": 0, "predicates": [], "action": "CONTINUE", "reason": []}


async def _Find(call: Call) -> dict[str, Any]:
    uuid = call.names["uuid"]
    rows = await call.Ask("QueryFilters", [uuid], list(FIELDS))
    if not rows:
        raise HttpError(NOT_FOUND, f"Filter '{uuid[:80]}' does not exist")
    return dict(zip(FIELDS, rows[0], strict=True))


async def _Show(call: Call) -> Answer:
    shown = await _Find(call)
    return Answer(shown, version=tuple(shown.values()))


async def _Change(call: Call, method: str, *args: Any) -> Any:
    """Call a method that changes a rule, which compares it with what If-Match found; HttpError (412)."""
    if call.seen is None:
        return await call.Ask(method, *args)
    try:
        return await call.Ask(method, *args, call.seen)
    except errors.OpPrereqError as err:
        if err.args[-1] == errors.ECODE_STATE:
            raise HttpError(PRECONDITION_FAILED, str(err.args[0])) from None
        raise


def _CheckTrail(reason: list[list[Any]]) -> None:
    """Raise HttpError (400) for entries that only this program writes, and for what would steer a reader's terminal."""
    for source, text, _ in reason:
        if source.startswith(bodies.OWN_SOURCES):
            raise HttpError(
                BAD_REQUEST,
                f"parameter 'reason': sources that begin with '{bodies.OWN_SOURCES}' are set by ganeti-rapi",
            )
        if Printable(source + text) != source + text:
            raise HttpError(BAD_REQUEST, "parameter 'reason': control characters are not allowed")


async def _Write(call: Call) -> Any:
    """Store a rule: a new one, or one with the UUID in the path."""
    uuid = call.names.get("uuid")
    if uuid is not None and not ht.TUuid(uuid):
        raise HttpError(BAD_REQUEST, f"'{uuid[:80]}' is not a valid UUID of a filter: expected {ht.TUuid.words}")
    priority, predicates, action, reason = (call.body.get(name, default) for name, default in _DEFAULTS.items())
    _CheckTrail(reason)
    trail = [*reason, *bodies.Sender(call, bodies.Nanoseconds())]
    if uuid is None:
        return await call.Ask("ReplaceFilter", uuid, priority, predicates, action, trail)
    return await _Change(call, "ReplaceFilter", uuid, priority, predicates, action, trail)


async def _Remove(call: Call) -> None:
    await _Find(call)
    await _Change(call, "DeleteFilter", call.names["uuid"])


RESOURCES = (
    Resource(
        "/2/filters",
        "All filter rules of the job queue.",
        {
            "GET": Method(
                Listed("QueryFilters", "/2/filters", FIELDS, key="uuid"),
                "List the rules.",
                Role.READ,
                answer=ListOrBulk("uuid", TFilter),
                answer_example=examples.FILTER_LINKS,
                etag=Etag.WHOLE,
                arguments=(BULK,),
            ),
            "POST": Method(
                _Write,
                "Create a rule; the answer is its UUID.  Rules with lower `priority` come first.",
                Role.ADMIN,
                answer=ht.TUuid,
                answer_example=examples.UUID,
                body=BodyUse.REQUIRED,
                body_type=_TBody,
                example=_EXAMPLE,
            ),
        },
    ),
    Resource(
        "/2/filters/{uuid}",
        "One filter rule of the job queue.",
        {
            "GET": Method(
                _Show, "Show a rule.", Role.READ, answer=TFilter, answer_example=examples.FILTER, etag=Etag.WHOLE
            ),
            "PUT": Method(
                _Write,
                "Replace a rule, or create it with this UUID; the answer is the UUID.",
                Role.ADMIN,
                answer=ht.TUuid,
                answer_example=examples.UUID,
                body=BodyUse.REQUIRED,
                body_type=_TBody,
                example=_EXAMPLE,
            ),
            "DELETE": Method(_Remove, "Remove a rule.", Role.ADMIN, answer=ht.TNone),
        },
    ),
)
