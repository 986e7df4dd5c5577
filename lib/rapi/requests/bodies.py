"""From body, arguments and path to opcodes: one walk over the opcode's parameters for all resources.

The rules are those of doc/reference/rapi.md 6.3 to 6.5.  A mistake of the client is an HttpError 400 that names the
parameter as the client wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti import constants, errors, opcodes, runtime
from ganeti.rapi.declared import BodyUse, Job, Role
from ganeti.rapi.requests.call import Call, HttpError

BAD_REQUEST = 400
FORBIDDEN = 403
DRY_RUN = "dry-run"
USER_SOURCE = "gnt:rapi:user"
"""Of the entry in a reason trail that says who sent the request."""
OWN_SOURCES = "gnt:rapi:"
"""How the sources of such entries begin."""
OF_ALL_JOBS = frozenset(opcodes.COMMON_PARAMS) - {"reason"}
"""What also counts of a body that is ignored otherwise: without it, something else would happen than what was asked for."""

_SHOWN = 100
_ONLY_READS = (
    "Parameters of jobs that need a user with the option write, or a token with the role operate; leave them out:"
)


def Parameters(call: Call) -> dict[str, Any]:
    """Return the parameters that the body holds, according to what the method does with a body."""
    use, body = call.method.body, call.body
    if not isinstance(body, dict) or use is BodyUse.ANY:
        return {}  # dispatch has checked where it must be an object
    if use is BodyUse.IGNORED:
        return {name: value for name, value in body.items() if name in OF_ALL_JOBS}
    return dict(body)


def Fill(job: Job, call: Call) -> opcodes.OpCode:
    """Return the opcode that a request asks for, with its reason trail."""
    static = {**job.static(call), "reason": Reason(call)}
    if call.if_match is not None:
        static["if_match"] = call.if_match
    if call.instance_uuid is not None and "instance_uuid" in job.opcode.OP_PARAMS:
        static["instance_uuid"] = call.instance_uuid
    given = Parameters(call)
    if _OnlyReads(call):
        _Reject((name for name in given if name in OF_ALL_JOBS), FORBIDDEN, _ONLY_READS)
    if job.reads is not None:
        given = job.reads(call, given)
    if call.method.body is BodyUse.IGNORED and "dry_run" in given:
        static.pop("dry_run", None)  # 3.1 takes such a body, so it is not rejected; either place makes a dry run
    if DRY_RUN in call.arguments and "dry_run" not in static and call.arguments[DRY_RUN]:
        given["dry_run"] = True
    return Opcode(job, given, static)


def Opcode(job: Job, given: Mapping[str, Any], static: Mapping[str, Any]) -> opcodes.OpCode:
    """Return an opcode of parameters that a client gave, and of those that it may not give."""
    fixed = {*static, *job.static_names}
    _Reject((name for name in given if name in fixed), BAD_REQUEST, "Can't overwrite static parameters:")
    _Reject((name for name in given if name in job.forbidden), FORBIDDEN, "Parameters that may not be set here:")
    known = job.opcode.OP_PARAMS
    unknown = [name for name in given if name not in known and name not in job.aliases]
    _Reject(unknown, BAD_REQUEST, f"Invalid body parameters: {job.opcode.OP_ID} does not have")
    values = dict(static)
    for name, value in given.items():
        target = job.aliases.get(name, name)
        if target in fixed:
            _Reject([name], BAD_REQUEST, "Can't overwrite static parameters:")
        if target in values:
            same = sorted(other for other in given if job.aliases.get(other, other) == target)
            _Reject(same, BAD_REQUEST, "Parameters that mean the same, of which only one can be given:")
        _CheckType(name, known[target], value)
        values[target] = value
    _CheckMissing(job, values)
    op = job.opcode(**values)
    try:
        op.Validate(set_defaults=False)
    except errors.OpPrereqError as err:  # an argument or a part of the path
        raise HttpError(BAD_REQUEST, f"Invalid parameters: {err.args[0]}") from err
    return op


def _Reject(names: Iterable[str], code: int, text: str) -> None:
    listed = ", ".join(f"'{name[:_SHOWN]}'" for name in sorted(names))
    if listed:
        raise HttpError(code, f"{text} {listed}")


def _CheckType(name: str, spec: opcodes.ParamSpec, value: Any) -> None:
    if not spec.type(value):
        problem = f"expected {spec.type.words}" if spec.private else spec.type.Problem(value)
        raise HttpError(BAD_REQUEST, f"Invalid body parameters: parameter '{name}': {problem}")


def _CheckMissing(job: Job, values: Mapping[str, Any]) -> None:
    alias = {target: name for name, target in job.aliases.items()}
    missing = [name for name, spec in job.opcode.OP_PARAMS.items() if spec.required and name not in values]
    if missing:
        listed = ", ".join(f"'{name}' (or '{alias[name]}')" if name in alias else f"'{name}'" for name in missing)
        raise HttpError(BAD_REQUEST, f"Invalid body parameters: required parameter {listed} is missing")


def _OnlyReads(call: Call) -> bool:
    """Return whether this job is one that anybody may have made who may read, and the caller may do no more."""
    return call.method.role is Role.READ and not call.caller.operates


def Nanoseconds() -> int:
    """Return the time of an entry in a reason trail."""
    return int(runtime.Time() * 1_000_000) * 1000


def Reason(call: Call) -> list[list[Any]]:
    """Return the reason trail of a request (doc/reference/rapi.md 6.4), and who sent it where that is known."""
    now = Nanoseconds()
    given = call.arguments.get("reason")
    trail = [["gnt:user", given, now]] if given else []
    trail.append([f"{constants.RAPI_REASON_SOURCE}{call.resource.word}", "", now])
    if _OnlyReads(call):
        # The master daemon has a limit for these jobs (``jqueue.shares``).
        trail.append([constants.RAPI_READER_SOURCE, call.caller.name or "", now])
    return trail + Sender(call, now)


def Sender(call: Call, now: int) -> list[list[Any]]:
    """Return the entry of a reason trail that says who sent a request, in a list; none where that is not known."""
    return [[USER_SOURCE, call.caller.name, now]] if call.caller.name else []


async def Submit(call: Call, ops: Iterable[opcodes.OpCode]) -> int:
    """Submit one job; return its number."""
    number: int = await call.Ask("SubmitJob", [op.ToDict() for op in ops])
    return number
