"""From a request to its answer, in the same order for every resource (doc/reference/rapi.md 2.3, 3).

Path (404), method (501), credentials (401), access (403), Accept (406), query string (400), body (413, 415, 400),
precondition (412), action, answer.  Where everybody must log in, a request without credentials gets its 401 first.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ganeti import errors, serializer
from ganeti.opcodes import types
from ganeti.rapi.callers import access, accesslog, audit, origin, tokens
from ganeti.rapi.callers.limits import UnderWay, Weighed
from ganeti.rapi.declared import JSON, BodyUse, Etag, Job, Method, Resource
from ganeti.rapi.requests import arguments, etag, failures, preconditions
from ganeti.rapi.requests.call import ABSENT, Answer, Call, Caller, HttpError, Master

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

MAX_BODY = 8 * 1024 * 1024
# Of somebody who has not logged in; nothing of theirs is large.
MAX_STRANGERS_BODY = 64 * 1024
# Bytes of strangers' bodies that have not come to their end; the oldest is given up for a new one.
MAX_INCOMING = 16 * 1024 * 1024
# A large answer goes out in parts of this size, each when there is room, so that a slow reader costs it once.
_SLICE = 64 * 1024
# Bytes of large answers that clients are reading at the same time.
MAX_OUTGOING = 64 * 1024 * 1024
# Requests of one user or token under way; fewer than all connections (``serving.MAX_CONNECTIONS``).
MAX_OF_NAME = 1500
# In the state of a request: what ends its connection.
HANG_UP = "hang_up"
# In the state of a request whose answer has no end of its own.
STREAM = "stream"
# In the state of a request: the task to be ended if its client leaves.
ENDED_BY_CLIENT = "ended_by_client"
# There too: who sent it, once that is known.
CALLER = "caller"
# There too: what is given back when it has been answered.
HELD = "held"
# There too: whether it would change something, or make a job.
CHANGES = "changes"


class Table:
    """Finds resources by undecoded paths."""

    def __init__(self, resources: Iterable[Resource]):
        resources = tuple(resources)
        self.by_path = {resource.path: resource for resource in resources}
        self.arguments = frozenset(
            argument.name
            for resource in resources
            for method in resource.methods.values()
            for argument in method.arguments
        )
        self._plain: dict[str, Resource] = {}
        self._patterns: dict[int, list[tuple[Any, Resource]]] = {}
        for resource in resources:
            if "{" in resource.path:
                segments = resource.path.count("/")
                self._patterns.setdefault(segments, []).append((resource.pattern, resource))
            else:
                self._plain[resource.path] = resource

    def Find(self, path: str) -> tuple[Resource, dict[str, str]]:
        """Return the resource and what stands in the path for its names; HttpError (404)."""
        plain = self._plain.get(path)
        if plain is not None:
            return plain, {}
        for pattern, resource in self._patterns.get(path.count("/"), ()):
            match = pattern.fullmatch(path)
            if match:
                return resource, match.groupdict()
        raise HttpError(404)


_AUTHORITY = re.compile(rb"^[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)


class Application:
    """The ASGI application: one table of resources, the same steps for each request."""

    def __init__(
        self,
        resources: Iterable[Resource],
        master: Master,
        gate: access.Access,
        outgoing: int = MAX_OUTGOING,
        incoming: int = MAX_INCOMING,
        most_of_name: int = MAX_OF_NAME,
    ):
        self._table = Table(resources)
        self._master = master
        self._gate = gate
        self._outgoing = Weighed(outgoing)
        self._incoming = Weighed(incoming)
        self.under_way = UnderWay(most_of_name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A client may send the whole URL (RFC 9112, 3.2.2): what is before the path says where it sent it, and perhaps its password.
        scope["raw_path"] = _AUTHORITY.sub(b"", scope["raw_path"]) or b"/"
        entry = accesslog.Entry(scope, send, self._table.arguments)
        try:
            with contextlib.ExitStack() as held:
                scope["state"][HELD] = held
                await self._Answer(scope, receive, entry.Send)
        finally:
            caller = scope["state"].get(CALLER)
            entry.Write(caller.name if caller is not None else None)

    async def _Answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._Respond(scope, receive)
        except HttpError as err:
            response = ErrorResponse(err)
        except errors.GenericError as err:
            response = ErrorResponse(failures.FromError(err))
        except _Gone:
            return
        except asyncio.CancelledError:
            if scope["method"] == "GET" and ENDED_BY_CLIENT not in scope["state"]:
                return  # the client has left; nobody waits for this answer
            response = ErrorResponse(
                HttpError(503, "ganeti-rapi is shutting down; the request may have been accepted: look at /2/jobs")
            )
        except Exception:
            logging.exception("%s %s failed", accesslog.Verb(scope), accesslog.Path(scope))
            response = ErrorResponse(HttpError(500, "Internal error; the log of ganeti-rapi says more"))
        finally:
            scope["state"].pop(ENDED_BY_CLIENT, None)
        target = accesslog.Target(scope, self._table.arguments)
        logging.info(
            "%s %s %s HTTP/%s %d",
            _Address(scope),
            accesslog.Verb(scope),
            target,
            scope["http_version"],
            response.status_code,
        )
        audit.Note(
            scope["method"].upper(),
            accesslog.Path(scope),
            _Address(scope),
            scope["state"].get(CALLER),
            response.status_code,
            getattr(response, "body", b""),
            bool(scope["state"].get(CHANGES)),
        )
        if "content-length" not in response.headers:
            scope["state"][STREAM] = True
        size = len(getattr(response, "body", b""))
        with contextlib.suppress(asyncio.CancelledError):  # a stream, at the end of the daemon
            if size <= _SLICE:
                await response(scope, receive, send)
                return
            with self._outgoing.Place(size, scope["state"][HANG_UP]):
                await _SendSlices(response, send)

    async def _Respond(self, scope: Scope, receive: Receive) -> Response:
        headers = _Headers(scope["headers"])
        credentials = headers.get("authorization")
        if credentials is None and self._gate.required:
            raise access.Unauthorized()
        verb = scope["method"].upper()
        resource, names = self._table.Find(scope["raw_path"].decode("ascii", "replace"))
        method = resource.methods.get(verb)
        if method is None:
            raise HttpError(501)
        caller = await self._gate.Identify(credentials, _Address(scope))
        scope["state"][CALLER] = caller
        if caller.name is not None:
            scope["state"][HELD].enter_context(self.under_way.Place(caller.name))
        self._gate.Check(caller, resource, verb)
        scope["state"][CHANGES] = preconditions.Changes(resource, verb)
        if scope["state"][CHANGES] and caller.from_browser:
            origin.Check(headers)
        CheckAccept(headers.get("accept"), method.media)
        values = arguments.Read(method.arguments, arguments.Split(scope["query_string"].decode("ascii", "replace")))
        with self._incoming.Place(_Expected(headers), scope["state"][HANG_UP]) if caller.stranger else _NOTHING:
            body = await _Body(method, headers, receive, caller)
        call = Call(resource, method, verb, caller, self._master, names, values, body, headers)
        await tokens.CheckScope(call)
        if verb == "GET":
            scope["state"][ENDED_BY_CLIENT] = asyncio.current_task()
        if "if-match" in headers and preconditions.Changes(resource, verb):
            await self._Compare(call)
        return _Success(call, await method.action(call))

    async def _Compare(self, call: Call) -> None:
        """Check If-Match of a changing request, and note in the call what is compared again when the change is made.

        The tag may be that of what the path shows, or of the object in the path.  A job is bound to the object, which
        is looked at first: what the path shows cannot be newer than that without the job noticing.  Where there is no
        object whose version a job could compare, such as in a list, no promise is made.
        """
        tags = etag.Parse(call.headers["if-match"], weak=False)
        resource = call.resource
        shown = preconditions.Shown(self._table.by_path, resource)
        if not shown:
            raise HttpError(400, "Nothing that has a version is shown here; send this request without If-Match")
        found = [etag.Make(await resource.version(call))] if resource.version is not None else []
        answers = [answer for answer in [await self._Shown(call, where) for where in shown] if answer.version]
        found += [etag.Make(answer.version) for answer in answers]
        if not found:
            raise HttpError(400, "What is shown here has no version; send this request without If-Match")
        version = found[0] if types.TVersion(found[0]) else None
        seen = answers[0].value if answers and isinstance(answers[0].value, dict) else None
        exact = tags != (etag.ANY,)
        if exact and (version if isinstance(call.method.action, Job) else seen) is None:
            raise HttpError(
                400,
                "The version of a list cannot be compared again when it is changed; send this request without If-Match",
            )
        if not any(etag.Fits(tags, tag) for tag in found):
            raise HttpError(412, "The object does not have the version that If-Match requires")
        call.if_match, call.seen = (version, seen) if exact else (None, {})

    async def _Shown(self, call: Call, resource: Resource) -> Answer:
        """Return what GET shows at a resource, for the names of this request."""
        shown = resource.methods["GET"]
        values = arguments.Read(shown.arguments, {})
        look = replace(call, resource=resource, method=shown, verb="GET", arguments=values, body=ABSENT)
        answer = await shown.action(look)
        return answer if isinstance(answer, Answer) else Answer(answer)


class _Gone(Exception):
    """The client left while it sent its request."""


def _Headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by name; lists may be spread over several lines, credentials may not."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers and name in ("authorization", "content-type"):
            raise HttpError(400, f"The request has several {name} headers")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _Address(scope: Scope) -> str:
    host, port = scope.get("client") or ("unknown", 0)
    return f"{host}:{port}"


def CheckAccept(accept: str | None, media: str) -> None:
    """Raise HttpError (406) if the client wants nothing of what there is; who names no type takes every one."""
    if not accept or not accept.strip():
        return
    kind = media.partition("/")[0]
    for part in accept.split(","):
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        if name in (media, f"{kind}/*", "*/*", "*") and not _Refused(parameters):
            return
    raise HttpError(406, f"This resource is shown as {media} only")


def _Refused(parameters: list[str]) -> bool:
    return any(text.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for text in parameters)


_NOTHING = contextlib.nullcontext()


def _Expected(headers: Mapping[str, str]) -> int:
    """Return how many bytes of body a stranger may send with these headers."""
    if "transfer-encoding" in headers:
        return MAX_STRANGERS_BODY
    length = headers.get("content-length", "0")
    return min(int(length[:20]), MAX_STRANGERS_BODY) if length.isdecimal() else 0


async def _Body(method: Method, headers: Mapping[str, str], receive: Receive, caller: Caller) -> Any:
    data = await _ReadBody(headers, receive, MAX_BODY if caller.name is not None else MAX_STRANGERS_BODY)
    body: Any = ABSENT
    if data:
        if headers.get("content-type", "").strip().lower() != JSON:
            raise HttpError(415, f"A body has the content type {JSON}, without parameters")
        try:
            serializer.CheckCost([data])
            body = serializer.LoadProper(bytes(data))
        except errors.ParseError:
            raise HttpError(400, "Unable to parse JSON data") from None
    CheckBody(method, body)
    return body


async def _ReadBody(headers: Mapping[str, str], receive: Receive, limit: int) -> bytearray:
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limit:
        raise HttpError(413, f"The body is over the limit of {limit} bytes")
    data = bytearray()
    if length == "0" and "transfer-encoding" not in headers:
        return data
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        data += message.get("body", b"")
        if len(data) > limit:
            raise HttpError(413, f"The body is over the limit of {limit} bytes")
        if not message.get("more_body", False):
            return data


def CheckBody(method: Method, body: Any) -> None:
    """Raise HttpError (400) if the method cannot take a body like this."""
    if method.body in (BodyUse.OPTIONAL, BodyUse.REQUIRED):
        missing = body is ABSENT or body is None
        if missing and method.body is BodyUse.OPTIONAL:
            return
        if not isinstance(body, dict):
            kind = "NoneType" if missing else type(body).__name__
            raise HttpError(400, f"Body contents: Type is '{kind}', but 'dict' is expected")
    if method.body_type is not None and body is not ABSENT and not method.body_type(body):
        path, text = method.body_type.Explain(body)
        where = f"{', '.join(path)}: " if path else ""
        # Without the value, which may be a secret.
        raise HttpError(400, f"Invalid body parameters: {where}{text.partition(', got ')[0]}")


def _Success(call: Call, answer: Any) -> Response:
    """Return the response; a stream or another type than JSON is made by the action."""
    if isinstance(answer, Response):
        return answer
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    headers: dict[str, str] = {}
    if answer.version:
        tag = etag.Make(answer.version)
        headers["ETag"] = etag.Header(tag)
        if call.verb == "GET":
            if "if-match" in call.headers and not etag.Fits(etag.Parse(call.headers["if-match"], weak=False), tag):
                raise HttpError(412, "The resource does not have the version that If-Match requires")
            wanted = call.headers.get("if-none-match")
            if wanted is not None and call.method.etag is Etag.WHOLE and etag.Fits(etag.Parse(wanted, weak=True), tag):
                return Response(status_code=304, headers=headers)
    return JsonResponse(answer.value, headers=headers)


def JsonResponse(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return one JSON value and one newline, ASCII only."""
    text = serializer.Dump(value) + "\n"
    return Response(text.encode("ascii"), status, dict(headers or {}), media_type=JSON)


async def _SendSlices(response: Response, send: Send) -> None:
    body = bytes(response.body)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for start in range(0, len(body), _SLICE):
        part = body[start : start + _SLICE]
        await send({"type": "http.response.body", "body": part, "more_body": start + _SLICE < len(body)})


def ErrorResponse(err: HttpError) -> Response:
    """Return the three keys that every client of 3.1 knows."""
    value = {"code": err.code, "message": html.escape(str(err)), "explain": err.explain}
    return JsonResponse(value, err.code, err.headers)
