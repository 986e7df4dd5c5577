"""Requests to the application of the REST daemon, in the test's own process; the master is real LUXI on a socket."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ganeti import serializer
from ganeti.rapi import resources
from ganeti.rapi.callers import access
from ganeti.rapi.declared import Resource
from ganeti.rapi.requests import dispatch
from ganeti.rapi.requests.call import Master

USERS = "reader secret-of-reader read\nwriter secret-of-writer write\nplain secret-of-plain\n"


class Reply(NamedTuple):
    """An answer; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return serializer.Load(self.body)


def Basic(name: str, password: str) -> dict[str, str]:
    """The header of a login."""
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


WRITER = Basic("writer", "secret-of-writer")
READER = Basic("reader", "secret-of-reader")
PLAIN = Basic("plain", "secret-of-plain")


class NoMaster:
    """For resources that ask no master."""

    async def Call(self, method: str, *args: Any, caller: Any = None) -> Any:
        raise AssertionError(f"{method} was called")


class Site:
    """The application with its users; ``Ask`` sends one request."""

    def __init__(
        self,
        users_file: str,
        master: Master | None = None,
        table: Iterable[Resource] = resources.RESOURCES,
        users: str = USERS,
        required: bool = False,
        tokens: access.TokenFinder | None = None,
        most_of_name: int = dispatch.MAX_OF_NAME,
        incoming: int = dispatch.MAX_INCOMING,
    ):
        with open(users_file, "w", encoding="utf-8") as stream:
            stream.write(users)
        self.users = access.Users(users_file)
        self.users.Load()
        gate = access.Access(self.users, required, tokens)
        self.master: Any = master or NoMaster()
        self.application = dispatch.Application(table, self.master, gate, incoming=incoming, most_of_name=most_of_name)

    async def Send(
        self,
        verb: str,
        target: str,
        body: bytes | Any = b"",
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> Reply:
        data = body if isinstance(body, bytes) else serializer.DumpBytes(body)
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        given = {name.lower() for name, _ in pairs}
        if data and "content-type" not in given:
            pairs.append(("Content-Type", "application/json"))
        if data and "content-length" not in given:
            pairs.append(("Content-Length", str(len(data))))
        path, _, query = target.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": verb,
            "path": path,
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs],
            "client": ("192.0.2.7", 4711),
            "state": {dispatch.HANG_UP: lambda: None},
        }
        messages = [{"type": "http.request", "body": data, "more_body": False}, {"type": "http.disconnect"}]
        sent: list[dict[str, Any]] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await self.application(scope, receive, send)
        start, *parts = sent
        shown = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], shown, b"".join(part.get("body", b"") for part in parts))

    def Ask(self, *args: Any, **kwargs: Any) -> Reply:
        """Send one request on a loop of its own."""
        return asyncio.run(self.Send(*args, **kwargs))


__all__ = ["PLAIN", "READER", "USERS", "WRITER", "Basic", "NoMaster", "Reply", "Site"]
