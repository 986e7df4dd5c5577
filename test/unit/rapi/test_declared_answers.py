"""Each operation is answered with the statuses and headers that the OpenAPI document gives it: with all, and no others.

Every operation gets requests that provoke each of them, from the real dispatcher; the master daemon is a table of answers,
and of the errors that the real one has for a method of LUXI.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import allocator
from support.rapi import PLAIN, WRITER, Basic, Reply, Site
from support.rapicalls import NAMES, Methods, NotingMaster
from support.rapiserver import Ask, RapiServer

from ganeti import errors
from ganeti.luxi import protocol
from ganeti.rapi import openapi
from ganeti.rapi.callers import tokens as rapi_tokens
from ganeti.rapi.declared import Resource
from ganeti.rapi.requests import statuses
from ganeti.rapi.requests.call import HttpError
from ganeti.rapi.requests.dispatch import MAX_BODY
from ganeti.rapi.resources import RESOURCES
from ganeti.rapi.transport.wire import Times
from ganeti.utils import tokens

DOCUMENT = openapi.Describe(RESOURCES)
UUID = "11111111-2222-4333-8444-555555555555"
OPERATIONS = [(resource.path, verb) for resource, verb, _ in Methods()]
BY_PATH = {resource.path: resource for resource in RESOURCES}
VALUES = {
    "name": "thing1",
    "uuid": UUID,
    "serial_no": 7,
    "role": "R",
    "sip": "192.0.2.1",
    "beparams": {"maxmem": 128},
    "tags": [],
    "status": "success",
    "id": 17,
    "ops": [],
    "end_ts": [1, 2],
    "cluster_uuid": UUID,
    "config_serial": 7,
    "cluster_serial": 3,
    "volume_group_name": None,
    "drbd_usermode_helper": None,
    "mtime": 1.5,
    "master": "node1",
    "software_version": "3.1",
    "oper_state": True,
}
# Of any call: the way to the master daemon is broken, or it has a bug.
ANYWHERE = [HttpError(502), HttpError(503), HttpError(504), protocol.InternalError("a bug")]
UNKNOWN = errors.OpPrereqError("not found", errors.ECODE_NOENT)
WRONG = errors.OpPrereqError("wrong", errors.ECODE_INVAL)
ERRORS: dict[str, list[errors.GenericError]] = {
    "SubmitJob": [errors.JobQueueDrainError("drained"), errors.JobQueueFull("full"), WRONG],
    "Query": [UNKNOWN, WRONG],
    "QueryFields": [WRONG],
    "QueryTags": [UNKNOWN],
    "WaitForJobChange": [errors.JobLost("lost")],
    "ReplaceFilter": [WRONG],
}
OTHER_TAG = '"22222222-3333-4333-8444-555555555555-7"'
REQUEST = b"GET /version HTTP/1.1\r\nHost: x\r\n"


def _IsOpen(args: tuple[Any, ...]) -> bool:
    """Whether a query names no object that might be unknown."""
    return args[0] == "cluster" or (len(args) == 3 and (not args[2] or args[2][0] != "="))


def _Rows(_names: Any, fields: list[str], *_more: Any) -> list[list[Any]]:
    return [[VALUES.get(field) for field in fields]]


def _ChangeRule(expected: Any) -> Any:
    if expected is not None:
        raise errors.OpPrereqError("changed meanwhile", errors.ECODE_STATE)
    return UUID


class Master(NotingMaster):
    """Answers what each action needs; ``fault``: a method of LUXI, and how it fails."""

    def __init__(self, token: str) -> None:
        stored = {"sha256": tokens.Digest(token), "role": "read", "tags": ["web"], "created": 1, "expires": None}
        super().__init__(
            Query=lambda kind, fields, qfilter: {"fields": [], "data": [[[0, VALUES.get(f)] for f in fields]]},
            QueryConfigValues=lambda fields: [VALUES[field] for field in fields],
            QueryClusterInfo=VALUES,
            QueryTags=["a"],
            QueryFields={"fields": []},
            WaitForJobChange=[["success"], []],
            CancelJob=[True, "canceled"],
            ReplaceFilter=lambda *args: _ChangeRule(args[5] if len(args) > 5 else None),
            DeleteFilter=lambda uuid, expected=None: _ChangeRule(expected),
            QueryRapiTokens=lambda names: [{"name": name, **stored} for name in names],
            WaitForEvents={"last": "1.a-1", "missed": False, "events": []},
            QueryMetrics={},
            **dict.fromkeys(("QueryInstances", "QueryNodes", "QueryGroups", "QueryNetworks"), _Rows),
            **dict.fromkeys(("QueryJobs", "QueryFilters"), _Rows),
        )
        self.fault: tuple[str, errors.GenericError] | None = None

    async def Call(self, method: str, *args: Any, caller: Any = None) -> Any:
        if self.fault is not None and self.fault[0] == method and not (self.fault[1] is UNKNOWN and _IsOpen(args)):
            raise self.fault[1]
        return await super().Call(method, *args, caller=caller)


class Prober:
    """Sends one operation all the requests; ``replies`` has what came."""

    def __init__(self, site: Site, master: Master, token: dict[str, str], resource: Resource, verb: str):
        self._site, self._master, self._token, self._verb = site, master, token, verb
        self._method = resource.methods[verb]
        names = {**NAMES, "uuid": UUID}
        self._path = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], resource.path)
        self._outside = re.sub(r"\{\w+\}", "a%20b", resource.path)
        given = {"mode": "remote", "output_fields": "name", "fields": "name", "storage_type": "lvm-pv", "name": "unit"}
        query = "&".join(f"{a.name}={given[a.name]}" for a in self._method.arguments if a.required)
        self._query = f"?{query}" if query else ""
        self.replies: list[Reply] = []

    async def _Send(self, headers: dict[str, str] | None = None, path: str | None = None, body: Any = None) -> Reply:
        sent = self._method.example if body is None and self._method.example is not None else (body or b"")
        reply = await self._site.Send(
            self._verb, (path or self._path) + self._query, sent, {**WRITER, **(headers or {})}
        )
        self.replies.append(reply)
        return reply

    async def Run(self) -> Reply:
        """Send everything; return the answer to the plain request."""
        plain = await self._Send()
        for headers in (
            {"Authorization": "Basic"},
            Basic("writer", "wrong"),
            PLAIN,
            self._token,
            {"Accept": "image/png"},
            {"If-None-Match": "*"},
            {"If-Match": "*"},
            {"If-Match": OTHER_TAG},
            {"If-Match": '"other"'},
            {"If-Match": plain.headers.get("etag", '"other"')},
        ):
            await self._Send(headers)
        if self._outside != self._path:
            await self._Send(path=self._outside)
        if statuses.TakesBody(self._verb, self._method):
            await self._Send({"Content-Type": "text/plain"}, body=b"{}")
            await self._Send({"Content-Length": str(MAX_BODY + 1)}, body=b"{}")
            await self._Send(body=b"{")
        await self._Fail()
        return plain

    async def _Fail(self) -> None:
        called = {method for method, *_ in self._master.calls} | {"QueryRapiTokens"}
        for method in called:
            for error in [*ANYWHERE, *ERRORS.get(method, ())]:
                self._master.fault = (method, error)
                await self._Send()
                await self._Send(self._token)
        self._master.fault = None


@pytest.fixture
def token() -> str:
    return tokens.Make("monitor", os.urandom(32))


@pytest.mark.parametrize(("path", "verb"), OPERATIONS)
def test_an_operation_is_answered_as_the_document_says(path: str, verb: str, tmp_path: Path, token: str) -> None:
    master = Master(token)
    site = Site(str(tmp_path / "users"), master, tokens=rapi_tokens.Finder(master))
    prober = Prober(site, master, {"Authorization": f"Bearer {token}"}, BY_PATH[path], verb)
    plain = asyncio.run(prober.Run())
    operation = DOCUMENT["paths"][path][verb.lower()]
    declared = {int(code) for code in operation["responses"] if code != "default"}
    assert {reply.status for reply in prober.replies} | {200} == declared
    described = operation["responses"]["200"].get("headers", {})
    assert ("etag" in plain.headers) == ("ETag" in described)
    for reply in prober.replies:
        if reply.status in (304, 401):
            [name] = DOCUMENT["components"]["responses"][str(reply.status)]["headers"]
            assert name.lower() in reply.headers
    conditions = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "header"}
    assert ("If-None-Match" in conditions) == (304 in declared)
    assert ("If-Match" in conditions) == (412 in declared)
    assert ("Last-Event-ID" in conditions) == (path == "/2/events")


@pytest.fixture
def address() -> Iterator[str]:
    lease = allocator.Lease()
    yield lease.Address()
    lease.Release()


def _Unreadable() -> Iterator[bytes]:
    yield b"nonsense\r\n\r\n"
    yield b"GET /version HTTP/2.0\r\nHost: x\r\n\r\n"
    yield b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    yield REQUEST + b"A: " + b"a" * 17000 + b"\r\n\r\n"
    yield b"PUT /2/tags HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"
    yield REQUEST


def test_requests_that_belong_to_no_operation_are_answered_as_the_document_says_once(
    tmp_path: Path, address: str
) -> None:
    site = Site(str(tmp_path / "users"))
    found = {site.Ask("GET", "/2/nosuch").status, site.Ask("PATCH", "/2/info").status}
    found |= {site.Ask("GET", "/version", b"{}", {"Content-Type": "text/plain"}).status}
    found |= {site.Ask("GET", "/version", b"{}", {"Content-Length": str(MAX_BODY)}).status}
    quick = Times(headers=0.3, farewell=0.3)
    with RapiServer(site.application, address, str(tmp_path), quick) as server:
        for request in _Unreadable():
            with server.Connect() as sock:
                found.add(int(Ask(sock, request).split()[1]))
    assert found == statuses.OUTSIDE.keys()
    text = DOCUMENT["components"]["responses"]["default"]["description"]
    assert all(f"* {code}: " in text for code in found)
    assert all("default" in DOCUMENT["paths"][path][verb.lower()]["responses"] for path, verb in OPERATIONS)
