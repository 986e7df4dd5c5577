"""Which statuses an answer may have, and what each means; the OpenAPI document and ``doc/rapi.rst`` show these tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ganeti.rapi.declared import BodyUse, Etag, Job, Method, Resource, Role, Scope
from ganeti.rapi.requests import preconditions

NOT_MODIFIED: Final = 304

ERRORS: Final = {
    400: "The request is malformed: an argument, the body, or one of its parameters; the message names it.",
    401: "Wrong or missing credentials.",
    403: "This user or token may not do this.",
    404: "There is no such path or object.",
    406: "The representation that Accept asks for does not exist.",
    412: "The resource does not have the version that If-Match requires.",
    413: "The body is too large.",
    415: "The content type of the body is not exactly application/json.",
    500: "An unexpected error; the daemon's log says more.",
    502: "The master daemon cannot be reached, or this node is not the master.",
    503: "Not possible at the moment, such as the console of a stopped instance or a job for a drained queue.  With"
    " `Retry-After`: too many calls to the master daemon are under way; some places are kept for clients that log in,"
    " and for other users and tokens.",
    504: "The master daemon did not answer in time.",
}
"""Of operations (``OfOperation``)."""

OUTSIDE: Final = {
    400: "The request is not one of HTTP/1.1, or the length of its body is given twice.",
    404: "There is no such path.",
    408: "The request did not come to its end in time.",
    413: "There is a body where none is described, and it is too large.",
    414: "The request line is too long.",
    415: "There is a body where none is described, and its content type is not exactly application/json.",
    431: "The headers are too large, or too many.",
    501: "The path does not have this method, or the coding of the body is not supported.",
    505: "The version of HTTP is not 1.0 or 1.1.",
}
"""Of requests that belong to no operation, or that cannot be read; the connection may end after them."""

# Whatever is asked for, credentials and Accept are looked at, and a token is looked up at the master daemon.
_ALWAYS: Final = frozenset([400, 401, 406, 500, 502, 503, 504])


def TakesBody(verb: str, method: Method) -> bool:
    """Return whether something is done with a body; whatever else is sent is only read and thrown away."""
    return method.body is not BodyUse.IGNORED or (verb != "GET" and isinstance(method.action, Job))


def OfOperation(resources: Mapping[str, Resource], resource: Resource, verb: str) -> list[int]:
    """Return the statuses of errors, and 304, that an operation can be answered with, in their order.

    ``resources``: all of them by path.
    """
    method = resource.methods[verb]
    found = set(_ALWAYS)
    if resource.Access(verb) or method.role > Role.READ or method.scope not in (Scope.OPEN, Scope.LIST):
        found.add(403)
    if "{" in resource.path:
        found.add(404)
    if TakesBody(verb, method):
        found |= {413, 415}
    if preconditions.TakesIfMatch(resources, resource, verb):
        found.add(412)
    if method.etag is Etag.WHOLE:
        found.add(NOT_MODIFIED)
    return sorted(found)
