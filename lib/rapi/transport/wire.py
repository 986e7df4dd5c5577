"""One connection: uvicorn's protocol on h11 with a limit on every size and wait.

::

    accepted --> waits for a request --first byte--> headers --> body --> work --> answer --+
                        ^  (idle)                   (headers)   (silence, body)   (write)   |
                        +-------------------------------------------------------------------+

What is not a request of HTTP/1 is answered with the same three keys as any other error, and the connection ends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ganeti.rapi.callers import accesslog
from ganeti.rapi.requests.call import HttpError
from ganeti.rapi.requests.dispatch import CALLER, ENDED_BY_CLIENT, HANG_UP, STREAM, ErrorResponse

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.server import ServerState

    from ganeti.rapi.callers.limits import Connections

# Bytes.
MAX_REQUEST_LINE = 8192
MAX_HEADERS = 16 * 1024
MAX_HEADER_COUNT = 100
_INCOMPLETE = MAX_REQUEST_LINE + MAX_HEADERS + 1024
_WRITE_HIGH = 64 * 1024
_JOINED = 16 * 1024


@dataclass(frozen=True)
class Times:
    """Seconds that a client may take.

    ``idle``: without a request; ``headers``: from its first byte to the end of its headers; ``silence``: between two parts
    of a body; ``body``: for all of it; ``write``: until it has taken something of what waits for it; ``farewell``: after
    our last word; ``grace``: for requests under way when the daemon ends.
    """

    idle: float = 60.0
    headers: float = 10.0
    silence: float = 10.0
    body: float = 120.0
    write: float = 10.0
    farewell: float = 5.0
    grace: float = 3.0


class _Refused(h11.RemoteProtocolError):
    """A request of ours to decline, though h11 could read it."""


class _Reader(h11.Connection):
    """h11 with our limits; keeps the reason why it gave up."""

    refusal: h11.RemoteProtocolError | None = None

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if type(event) is h11.Request:
                _Check(event)
        except h11.RemoteProtocolError as err:
            self.refusal = err
            raise
        return event


def _Check(request: h11.Request) -> None:
    if len(request.method) + len(request.target) + len("  HTTP/1.1") > MAX_REQUEST_LINE:
        raise _Refused(f"The request line is longer than {MAX_REQUEST_LINE} characters", 414)
    if request.http_version >= b"2":
        raise _Refused("This server speaks HTTP/1.1", 505)
    size = sum(len(name) + len(value) + 4 for name, value in request.headers)
    if size > MAX_HEADERS or len(request.headers) > MAX_HEADER_COUNT:
        raise _Refused(f"The headers are over the limit of {MAX_HEADERS} bytes, {MAX_HEADER_COUNT} lines", 431)
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
        # Whoever stands between may have read another end of the body.
        raise _Refused("The length of the body is given twice", 400)


class _Joining:
    """A transport that sends together what is written together: the head of an answer costs no packet of its own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop):
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.Flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > _JOINED:
            self.Flush()

    def Flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._transport.write(data)

    def close(self) -> None:
        self.Flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(H11Protocol):
    """A connection from its handshake to its end."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        places: Connections,
        key: object,
        loop: asyncio.AbstractEventLoop,
        times: Times,
    ):
        super().__init__(config, server_state, {HANG_UP: self.HangUp}, loop)
        self._times = times
        self.conn = _Reader(h11.SERVER, _INCOMPLETE)
        self._places = places
        self._key = key
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._body_end = 0.0
        self._farewell = False

    # --- the life of a connection -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._joining = _Joining(cast(asyncio.Transport, transport), self.loop)
        super().connection_made(cast(asyncio.Transport, self._joining))
        self.transport.set_write_buffer_limits(high=_WRITE_HIGH)
        self._places.Secured(self._key, self.transport.abort)
        self._Arm(self._times.idle, self._Hang)

    def data_received(self, data: bytes) -> None:
        if self._farewell:
            return
        if self._Between() and not self.conn.trailing_data[0]:
            self._Arm(self._times.headers, self._Late)
        before = self.cycle
        super().data_received(data)
        self._Watch(before)

    def handle_events(self) -> None:
        super().handle_events()
        # Whoever is slow with a request's body can still be sent away for others.
        if self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete:
            self._places.Busy(self._key, self._EndIfStranger)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep a connection open whose client has said all and still listens; TLS ends both ways at once."""
        complete = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        if complete:
            self.cycle.keep_alive = False
        return complete and self.transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self._Disarm()
        if self._write_timer is not None:
            self._write_timer.cancel()
        self._places.Leave(self._key)
        super().connection_lost(exc)
        if self.cycle is not None and not self.cycle.response_complete:
            task = cast(dict[str, Any], self.cycle.scope).get("state", {}).pop(ENDED_BY_CLIENT, None)
            if task is not None:
                task.cancel()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._Arm(self._times.farewell, self.transport.abort)
            return
        self._places.Waits(self._key, self.transport.abort)
        self._Arm(self._times.idle, self._Hang)
        self.flow.resume_reading()
        if self.conn.our_state is h11.DONE and self.conn.their_state is h11.DONE:
            before = self.cycle
            self.conn.start_next_cycle()
            self.handle_events()
            self._Watch(before)

    def HangUp(self) -> None:
        """End the connection at once, whatever is under way."""
        self.transport.abort()

    def _EndIfStranger(self) -> bool:
        """End the connection if the sender of its request has not logged in, or not yet; return whether that is so."""
        caller = cast(dict[str, Any], self.cycle.scope)["state"].get(CALLER)
        if caller is not None and not caller.stranger:
            return False
        self.transport.abort()
        return True

    def shutdown(self) -> None:
        """End the connection, or let its request be the last one; for the end of the daemon."""
        if self._Between() or cast(dict[str, Any], self.cycle.scope)["state"].get(STREAM):
            self.transport.abort()  # nothing is lost, and nobody's goodbye is worth waiting for
        else:
            self.cycle.keep_alive = False

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _Between(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or (self.cycle.response_complete and self.conn.their_state is not h11.SEND_BODY)

    def _Watch(self, before: Any) -> None:
        """Limit what is waited for now."""
        if self._farewell or self.cycle is None or self.transport.is_closing():
            return
        if self.conn.their_state is h11.SEND_BODY:
            if self.cycle is not before:
                self._body_end = self.loop.time() + self._times.body
            self._Arm(min(self._times.silence, max(0.0, self._body_end - self.loop.time())), self._Late)
        elif not self._Between():
            self._Disarm()
        elif not self.conn.trailing_data[0]:
            self._Arm(self._times.idle, self._Hang)

    def _Arm(self, seconds: float, action: Any) -> None:
        self._Disarm()
        self._timer = self.loop.call_later(seconds, action)

    def _Disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _Hang(self) -> None:
        """End a connection on which nothing is under way."""
        self._farewell = True
        self.transport.close()
        self._Arm(self._times.farewell, self.transport.abort)

    def _Late(self) -> None:
        """End a connection whose request does not come to its end."""
        if self.cycle is not None and self.cycle.response_started and not self._Between():
            self.transport.abort()
            return
        self._Refuse(408, "The request did not come to its end in time")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._times.write, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # --- what is not a request ----------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        err = self.conn.refusal  # type: ignore[attr-defined]
        # What follows the colon is what was sent, which may be a secret.
        text = str(err or msg).partition(":")[0]
        self._Refuse(err.error_status_hint if err is not None else 400, text)

    def _Refuse(self, code: int, text: str) -> None:
        """Answer with an error, end our side, and take what still comes for a moment, so that the answer arrives."""
        self._farewell = True
        host, port = self.client or ("unknown", 0)
        response = ErrorResponse(HttpError(code, text, {"Connection": "close"}))
        accesslog.Unreadable(host, port, code, len(response.body))
        headers = [*self.server_state.default_headers, *response.raw_headers]
        try:
            for event in (
                h11.Response(status_code=code, headers=headers),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            self.transport.abort()  # in the middle of an answer
            return
        if self.transport.can_write_eof():
            self._joining.Flush()
            self.transport.write_eof()
        else:
            self.transport.close()
        self._Arm(self._times.farewell, self.transport.abort)
