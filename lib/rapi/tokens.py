"""Callers that come with a token, and what a token for some instances may reach (doc/design-rapi.rst).

The master daemon is asked for each request, so that a token that is revoked, or added, counts from the next request on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ganeti import constants, runtime
from ganeti.rapi.bodies import USER_SOURCE
from ganeti.rapi.call import Call, Caller, HttpError, Master
from ganeti.rapi.declared import Role
from ganeti.utils import tokens

PREFIX = "token:"
"""Before a token's name wherever callers are named: no user of the users file can be called so."""

INSTANCES = "/2/instances"
_ONE_INSTANCE = "/2/instances/{name}"
_ONE_JOB = "/2/jobs/{job}"
# What says nothing about the cluster.
_OPEN = frozenset(["/", "/version", "/2", "/2/features", "/2/openapi.json"])
_ROLES = {
    constants.RAPI_ROLE_READ: Role.READ,
    constants.RAPI_ROLE_OPERATE: Role.OPERATE,
    constants.RAPI_ROLE_ADMIN: Role.ADMIN,
}
_MAX_DIGITS = 18
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
        return Caller(PREFIX + name, address, role=_ROLES[stored["role"]], tags=tuple(stored["tags"]))


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

    It reaches those of them that its path names, the list of instances, which shows no others, and jobs that it has
    submitted itself; whatever else there may be is not for it.
    """
    if not call.caller.tags:
        return
    path = call.resource.path
    if path in _OPEN or (path == INSTANCES and call.verb == "GET"):
        return
    if path == _ONE_INSTANCE or path.startswith(_ONE_INSTANCE + "/"):
        if await _MeansAllowed(call):
            return
    elif (path == _ONE_JOB or path.startswith(_ONE_JOB + "/")) and await _Submitted(call, call.names["job"]):
        return
    shown = ", ".join(call.caller.tags)
    raise HttpError(403, f"This token is only for instances with one of these tags, and for its own jobs: {shown}")


async def _MeansAllowed(call: Call) -> bool:
    """Return whether the path names an instance that is allowed; from here on the path has its full name."""
    found = await call.master.Call("Query", "instance", ["name", "tags"], ["=", "name", call.names["name"]])
    if len(found["data"]) != 1:
        return False
    [[(_, name), (_, tags)]] = found["data"]
    call.names = {**call.names, "name": name}
    return IsAllowed(call.caller, tags)


def IsAllowed(caller: Caller, tags: Any) -> bool:
    """Return whether the caller may see and use an instance with these tags."""
    return not caller.tags or not set(caller.tags).isdisjoint(tags or ())


async def _Submitted(call: Call, job: str) -> bool:
    """Return whether the caller has submitted this job, which its reason trail says."""
    if len(job) > _MAX_DIGITS:
        return False
    rows = await call.master.Call("QueryJobs", [int(job)], ["ops"])
    ops = (rows[0][0] if rows else None) or []
    mine = [USER_SOURCE, call.caller.name]
    return any(list(entry[:2]) == mine for op in ops for entry in op.get("reason") or ())
