"""HTTP/1.1, one connection at a time: h11 parses, a stream carries, every wait and size has a limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import h11

from ganeti import constants, runtime
from ganeti.http import STATUS_BAD_REQUEST, STATUS_TOO_LARGE, ErrorPage, Incoming, Reply
from ganeti.http.tls import PlainStream, StreamError

MAX_HEAD = 64 * 1024
MAX_PATH = 8192
# Seconds in which a peer whose request was rejected half-way may read why.
LINGER = 2.0


class Limits(NamedTuple):
    """Seconds: ``idle`` between requests, ``read`` and ``write`` without any progress, ``request`` for a whole one.

    ``body``: the bytes of a request's body.
    """

    body: int
    idle: float = 15.0
    read: float = 10.0
    write: float = 10.0
    request: float = 120.0


class _TooLarge(Exception):
    pass


class Connection:
    """Requests and answers on one stream."""

    def __init__(self, stream: PlainStream, limits: Limits):
        self._stream = stream
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._deadline = 0.0
        self._head_only = False

    def Serve(
        self,
        handle: Callable[[Incoming], Reply],
        on_state: Callable[[bool], None] = lambda busy: None,
        ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """Serve requests until the peer goes, is idle too long, breaks a rule, or ``ending()`` is true.

        ``on_state(busy)`` is called before each wait for a request and after its first bytes.  Raises StreamError,
        TimeoutError or OSError only while a request or an answer is on its way, and what ``handle`` raises.
        """
        while not ending():
            on_state(False)
            if ending() or not self._WaitForRequest():
                return
            on_state(True)
            request = self._ReadRequest()
            if request is None:
                return
            status, headers, body = handle(request)
            self._Send(status, headers, body, ending())
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    def _WaitForRequest(self) -> bool:
        """Return whether bytes of a next request have come."""
        if self._http.trailing_data[0]:
            return True
        try:
            data = self._stream.Read(self._limits.idle)
        except (TimeoutError, ConnectionError, StreamError):
            return False
        if data:
            self._http.receive_data(data)
        return bool(data)

    def _ReadRequest(self) -> Incoming | None:
        """Return the next request; None when the peer ended early or was answered with an error."""
        self._deadline = runtime.Monotonic() + self._limits.request
        try:
            event = self._NextEvent()
            if not isinstance(event, h11.Request):
                return None
            self._head_only = event.method == b"HEAD"
            if len(event.target) > MAX_PATH:
                raise h11.RemoteProtocolError("the path is too long")
            body = self._ReadBody(event)
        except h11.RemoteProtocolError as err:
            self._SendError(STATUS_BAD_REQUEST, f"This is not a valid request: {err}")
            return None
        except _TooLarge:
            self._SendError(STATUS_TOO_LARGE, f"The request is over {self._limits.body} bytes")
            return None
        if body is None:
            return None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        return Incoming(event.method.decode("ascii"), event.target.decode("latin-1"), headers, body)

    def _ReadBody(self, request: h11.Request) -> bytes | None:
        for name, value in request.headers:
            if name == b"content-length" and int(value) > self._limits.body:
                raise _TooLarge
        if self._http.they_are_waiting_for_100_continue:
            self._Write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        parts: list[bytes] = []
        size = 0
        while True:
            event = self._NextEvent()
            if isinstance(event, h11.EndOfMessage):
                return b"".join(parts)
            if not isinstance(event, h11.Data):
                return None
            size += len(event.data)
            if size > self._limits.body:
                raise _TooLarge
            parts.append(bytes(event.data))

    def _NextEvent(self) -> Any:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            left = self._deadline - runtime.Monotonic()
            if left <= 0:
                raise TimeoutError("the request is not complete in time")
            self._http.receive_data(self._stream.Read(min(left, self._limits.read)))

    def _Send(self, status: int, headers: Mapping[str, str], body: bytes, last: bool) -> None:
        fields = [
            ("Server", f"Ganeti {constants.RELEASE_VERSION}"),
            *headers.items(),
            ("Content-Length", str(len(body))),
        ]
        if last:
            fields.append(("Connection", "close"))
        head = self._http.send(h11.Response(status_code=status, headers=fields))
        if body and not self._head_only:
            head = (head or b"") + (self._http.send(h11.Data(data=body)) or b"")
        self._Write((head or b"") + (self._http.send(h11.EndOfMessage()) or b""))

    def _SendError(self, status: int, text: str) -> None:
        logging.info("Refused a request: %s", text)
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        _, headers, body = ErrorPage(status, text)
        try:
            self._Send(status, headers, body, True)
        except h11.LocalProtocolError:
            return  # what came is so broken that there is nothing to answer
        self._stream.Linger(LINGER)

    def _Write(self, data: bytes | None) -> None:
        if data:
            self._stream.Write(data, self._limits.write)
