"""Callers that come with a token, and what a token for some instances may reach (doc/design-rapi.rst).

The master daemon is asked for each request, so that a token that is revoked, or added, counts from the next request on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from ganeti import errors, runtime
from ganeti.opcodes import types
from ganeti.rapi.declared import Role, Scope
from ganeti.rapi.requests.bodies import USER_SOURCE
from ganeti.rapi.requests.call import Call, Caller, HttpError, Master
from ganeti.utils import tokens

PREFIX = "token:"
"""Before a token's name wherever callers are named: no user of the users file can be called so."""

_MAX_DIGITS = 18
_MAX_JOBS = 100
# For a name that does not exist as much is done as for one that does.
_NOBODY = "0" * 64


class Finder:
    """Finds callers by their tokens (``access.TokenFinder``)."""

    def __init__(self, master: Master):
        self._master = master

    async def __call__(self, token: str, address: str) -> Caller | None:
        """Return the caller with this token; None if it is not known, has expired or is revoked."""
        name = tokens.NameOf(token)
        if name is None:
            return None
        found: list[dict[str, Any]] = await self._master.Call("QueryRapiTokens", [name])
        stored: dict[str, Any] = found[0] if found else {"sha256": _NOBODY, "expires": None}
        if not tokens.Fits(token, stored["sha256"]):
            return None
        if stored["expires"] is not None and stored["expires"] <= runtime.Time():
            logging.warning("The token %s, sent from %s, has expired", name, address)
            return None
        role, tags = Role[stored["role"].upper()], tuple(stored["tags"])
        return Caller(PREFIX + name, address, role=role, tags=tags, since=stored["created"])


def StillValid(call: Call) -> Callable[[], Awaitable[bool]] | None:
    """Return what says whether the token of a long request is still accepted; None for a request without one."""
    if call.caller.role is None:
        return None
    token = call.headers["authorization"].split()[1]

    async def valid() -> bool:
        try:
            return await Finder(call.master)(token, call.caller.address) is not None
        except HttpError:
            return True  # the master daemon is away; it is asked again

    return valid


async def CheckScope(call: Call) -> None:
    """Raise HttpError (403) unless the request stays within the instances that a token is for.

    Each method declares what of it such a token may reach (``declared.Scope``); of one that declares nothing, it is nothing.
    """
    if not call.caller.tags or await _IsWithin(call, call.method.scope):
        return
    shown = ", ".join(call.caller.tags)
    raise HttpError(403, f"This token is only for instances with one of these tags, and for its own jobs: {shown}")


async def _IsWithin(call: Call, scope: Scope) -> bool:
    if scope is Scope.INSTANCE:
        if not await _MeansAllowed(call):
            return False
        await _CheckConditions(call)
        return True
    if scope is Scope.OWN_JOB:
        return await _Submitted(call, {call.names["job"]})
    return scope in (Scope.OPEN, Scope.LIST)


async def _MeansAllowed(call: Call) -> bool:
    """Return whether the path names an instance that is allowed; from here on the path has its full name."""
    try:
        found = await call.Ask("Query", "instance", ["name", "uuid", "tags"], ["=", "name", call.names["name"].lower()])
    except errors.OpPrereqError:
        # Unknown, or the beginning of several names.  The answer is that for a foreign one: which names there are is
        # not for this token.
        return False
    if len(found["data"]) != 1:
        return False
    [[(_, name), (_, uuid), (_, tags)]] = found["data"]
    call.names = {**call.names, "name": name}
    call.instance_uuid = uuid
    return IsAllowed(call.caller, tags)


def IsAllowed(caller: Caller, tags: Any) -> bool:
    """Return whether the caller may see and use an instance with these tags."""
    return not caller.tags or not set(caller.tags).isdisjoint(tags or ())


async def _CheckConditions(call: Call) -> None:
    """Raise HttpError (403) if how the job ends would show something about other jobs and objects."""
    body = call.body if isinstance(call.body, dict) else {}
    if body.get("if_match") is not None:
        raise HttpError(
            403, "This token cannot use 'if_match'; send the header If-Match with the version of the instance"
        )
    depends = body.get("depends")
    if not depends or not types.TDepends(depends):
        return  # what is malformed is rejected with the other parameters
    if not await _Submitted(call, {str(job) for job, _ in depends}):
        raise HttpError(403, "This token can only wait for jobs that it has submitted itself: look at 'depends'")


async def _Submitted(call: Call, jobs: Collection[str]) -> bool:
    """Return whether the caller has submitted all these jobs, which their reason trails say.

    An entry that is older than the token was made by another token of that name, which has been revoked.
    """
    if len(jobs) > _MAX_JOBS or not all(job.isdecimal() and len(job) <= _MAX_DIGITS for job in jobs):
        return False
    rows = await call.Ask("QueryJobs", [int(job) for job in jobs], ["ops"])
    return len(rows) == len(jobs) and all(_IsMine(call.caller, (row[0] if row else None) or []) for row in rows)


def _IsMine(caller: Caller, ops: Iterable[Mapping[str, Any]]) -> bool:
    entries = (entry for op in ops for entry in op.get("reason") or ())
    mine = [USER_SOURCE, caller.name]
    return any(list(entry[:2]) == mine and entry[2] >= caller.since * 1_000_000_000 for entry in entries)
