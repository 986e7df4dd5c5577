"""The client of LUXI for a program with an event loop: a connection with one call under way at a time, and no thread.

Nothing is sent again here: whether that is right depends on the call and on how the connection broke (``Broken.sent``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ganeti import serializer
from ganeti.luxi import peer, protocol


class Broken(protocol.ConnectionClosedError):
    """The connection ended without an answer; ``sent``: the master daemon may have got the request."""

    def __init__(self, sent: bool):
        super().__init__("The connection to the master daemon broke before it answered")
        self.sent = sent


class Request:
    """A call that is ready to be sent, once or again; raises protocol.MessageTooLarge."""

    def __init__(self, method: str, args: Sequence[Any]):
        self.method = method
        self.message = protocol.EncodeRequest(method, list(args))


class Reply:
    """What the master daemon answered."""

    def __init__(self, data: bytes):
        self._data = data

    def Result(self, load: Callable[[bytes], Any] = serializer.Load) -> Any:
        """Return the call's result, or raise its error; ``load`` reads the JSON."""
        return protocol.DecodeResponse(self._data, load)


class Connection(asyncio.Protocol):
    """One connection; ``alive``: it can be used for a call."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._framer = protocol.Framer()
        self._answer: asyncio.Future[Reply] | None = None
        self.alive = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            complete = self._framer.Feed(data)
        except protocol.ProtocolError:
            self.Close()
            return
        answer, self._answer = (self._answer, None) if complete else (None, self._answer)
        if answer is not None and not answer.done():
            answer.set_result(Reply(b"".join(complete[0])))
        elif complete:
            self.Close()  # an answer to nothing: this stream cannot be trusted

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(Broken(sent=True))

    async def Call(self, request: Request, timeout: float) -> Reply:
        """Send a request and wait for its answer: Broken, or TimeoutError after ``timeout`` seconds.

        Whoever stops waiting must close the connection: an answer that still comes is not that of the next call.
        """
        if not self.alive:
            raise Broken(sent=False)
        assert self._transport is not None
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request.message)
        async with asyncio.timeout(timeout):
            return await answer

    def Close(self) -> None:
        self.alive = False
        if self._transport is not None:
            self._transport.abort()


async def Connect(path: str) -> Connection:
    """Return a connection to the socket at ``path``; raises OSError, and protocol.StrangerError for a stranger's socket."""
    transport, connection = await asyncio.get_running_loop().create_unix_connection(Connection, path)
    try:
        peer.Check(path, transport.get_extra_info("socket"))
    except protocol.StrangerError:
        connection.Close()
        raise
    return connection
