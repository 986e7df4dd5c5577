"""The stream of changes: server-sent events for any number of listeners from one wait at the master daemon.

::

    master daemon --WaitForEvents--> Hub (one task) --bytes of an event, made once--> Listener 1 .. n --> their connections

A listener that does not read what it is sent is dropped: its stream ends with the event ``dropped``, and with the id of the
last event that it got it can come back.  ``missed`` says that events after an id are not known any more, or that the master
daemon is another one: the client reads everything again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from ganeti import errors, serializer
from ganeti.luxi import events
from ganeti.rapi.call import HttpError, Master

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MEDIA: Final = "text/event-stream"
MISSED: Final = "missed"
DROPPED: Final = "dropped"
MAX_LISTENERS = 1000
MAX_PENDING = 256 * 1024
"""Bytes that may wait for one listener."""

KEEP_ALIVE = 15.0
"""Seconds after which something is sent, so that a connection which is gone is noticed."""

_WAIT = 60.0
_AGAIN = 1.0
_COMMENT = b":\n\n"
_RETRY = b"retry: 2000\n"

Valid = Callable[[], Awaitable[bool]]


def Encode(name: str, data: Any, event_id: str | None = None) -> bytes:
    """Return an event as it goes over the wire."""
    text = f"event: {name}\ndata: {serializer.Dump(data)}\n\n"
    return (f"id: {event_id}\n{text}" if event_id is not None else text).encode("ascii")


class Filter:
    """Which events a listener wants: of some kinds, or of an object with this name or a job with this number."""

    def __init__(self, kinds: Iterable[str] | None = None, name: str | None = None):
        self._kinds = None if kinds is None else frozenset(kinds)
        self._name = name

    def __call__(self, event: events.Event) -> bool:
        if self._kinds is not None and event["kind"] not in self._kinds:
            return False
        return self._name is None or self._name == str(event.get("name", event.get("job")))


class Listener:
    """One stream: what waits to be sent, and whether it goes on.

    While it catches up, what the hub sends is held back.
    """

    def __init__(self, wants: Filter, valid: Valid | None = None):
        self.wants = wants
        self._valid = valid
        self._parts: list[bytes] = []
        self._held: list[tuple[str, bytes]] | None = []
        self._caught_up_to: tuple[int, str, int] | None = None
        self._size = 0
        self._wake = asyncio.Event()
        self.ended = False
        self._doubted = False
        self._quiet = False

    def Push(self, data: bytes, event_id: str | None = None) -> None:
        """Have something sent; drop a listener for which too much waits already.  An event of the hub has its id."""
        if self.ended or (event_id is not None and self._IsOld(event_id)):
            return
        self._size += len(data)
        if self._size > MAX_PENDING:
            text = "You do not read fast enough; come back with the id of the last event that you got"
            self._parts, self._held = [Encode(DROPPED, {"message": text})], None
            self.ended = True
        elif self._held is not None and event_id is not None:
            self._held.append((event_id, data))
            return
        else:
            self._parts.append(data)
        self._wake.set()

    def Release(self, seen: str | None) -> None:
        """Send what was held back and comes after the event that was seen."""
        held, self._held = self._held or [], None
        self._caught_up_to = None if seen is None else _Order(seen)
        self._parts += [data for event_id, data in held if not self._IsOld(event_id)]
        if self._parts:
            self._wake.set()

    def _IsOld(self, event_id: str) -> bool:
        """Return whether this came when the listener caught up: the hub may be behind that."""
        if self._caught_up_to is None:
            return False
        if _Order(event_id) <= self._caught_up_to:
            return True
        self._caught_up_to = None
        return False

    def Doubt(self) -> None:
        """Have it looked at whether this listener may still listen."""
        if self._valid is not None:
            self._doubted = True
            self._wake.set()

    def End(self) -> None:
        self.ended = True
        self._wake.set()

    def KeepAlive(self) -> None:
        """Have a comment sent if there was nothing since the last time."""
        if self._quiet:
            self.Doubt()
            self.Push(_COMMENT)
        self._quiet = True

    async def Take(self) -> bytes:
        """Return what is to be sent next; nothing at the end."""
        if not self._parts and not self.ended:
            await self._wake.wait()
        self._wake.clear()
        self._quiet = False
        if self._doubted and self._valid is not None:
            self._doubted = False
            if not await self._valid():
                return b""
        parts, self._parts, self._size = self._parts, [], 0
        return b"".join(parts) or (b"" if self.ended else _COMMENT)


class Hub:
    """All listeners of a master daemon."""

    def __init__(self, master: Master):
        self._master = master
        self._listeners: set[Listener] = set()
        self._last: str | None = None
        self._task: asyncio.Task[None] | None = None
        # One clock for all: a timer for each wait of each listener costs more than the events.
        self._clock: asyncio.TimerHandle | None = None
        self._beginning = asyncio.Lock()

    async def Join(self, wants: Filter, last_id: str | None, valid: Valid | None = None) -> Listener:
        """Return a new listener, which gets everything after an event, or from now on; HttpError if that cannot be.

        ``valid()`` says whether it may still listen; it is asked now and then, and when the cluster's settings change.
        """
        if len(self._listeners) >= MAX_LISTENERS:
            raise HttpError(503, f"{MAX_LISTENERS} clients follow the events already")
        async with self._beginning:
            await self._Begin()
        listener = Listener(wants, valid)
        self._listeners.add(listener)
        try:
            await self._CatchUp(listener, last_id)
        except BaseException:
            self.Leave(listener)
            raise
        return listener

    def Leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None
            if self._clock is not None:
                self._clock.cancel()

    def _Tick(self) -> None:
        for listener in self._listeners:
            listener.KeepAlive()
        self._clock = asyncio.get_running_loop().call_later(KEEP_ALIVE / 2, self._Tick)

    async def _Begin(self) -> None:
        if self._task is None:
            answer = await self._master.Call("WaitForEvents", None, None, 0)
            self._last = answer["last"]
            self._task = asyncio.create_task(self._Follow())
            self._Tick()

    async def _CatchUp(self, listener: Listener, last_id: str | None) -> None:
        """Send a listener what happened after the event it saw, up to what the hub sends."""
        if last_id is None:
            listener.Push(_RETRY + f"id: {self._last}\n\n".encode("ascii"))
            listener.Release(None)
            return
        listener.Push(_RETRY + _COMMENT)
        seen = last_id[: events.MAX_ID + 1]
        if len(seen) > events.MAX_ID:
            seen = ""  # none of ours
        more = True
        while more:
            answer = await self._master.Call("WaitForEvents", seen, None, 0)
            seen, more = answer["last"], bool(answer["events"])
            if answer["missed"]:
                listener.Push(_Missed(seen))
            for event in answer["events"]:
                if listener.wants(event):
                    listener.Push(_Event(event))
        listener.Release(seen)

    async def _Follow(self) -> None:
        """Wait for events and hand them to all; a master daemon that is away is waited for."""
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            try:
                answer = await self._master.Call("WaitForEvents", self._last, None, _WAIT)
            except errors.GenericError as err:
                logging.info("Events cannot be followed at the moment: %s", err)
                await asyncio.sleep(_AGAIN)
                continue
            except Exception:
                logging.exception("The events are not followed further")
                self._task = None
                if self._clock is not None:
                    self._clock.cancel()
                for listener in self._listeners:
                    listener.End()
                return
            self._Hand(answer)
            if not (answer["events"] or answer["missed"]) and loop.time() - asked_at < _AGAIN:
                await asyncio.sleep(_AGAIN)  # a master daemon that is about to end answers at once

    def _Hand(self, answer: dict[str, Any]) -> None:
        self._last = answer["last"]
        if answer["missed"]:
            missed = _Missed(answer["last"])
            for listener in self._listeners:
                listener.Doubt()
                listener.Push(missed, answer["last"])
        for event in answer["events"]:
            encoded = _Event(event)
            for listener in self._listeners:
                if event["kind"] == "cluster":
                    listener.Doubt()
                if listener.wants(event):
                    listener.Push(encoded, event["id"])


def _Event(event: events.Event) -> bytes:
    return Encode(event["kind"], event, event["id"])


def _Missed(last: str) -> bytes:
    text = "Events are missing: read everything that you follow again"
    return Encode(MISSED, {"message": text}, last)


def _Order(event_id: str) -> tuple[int, str, int]:
    """Return what tells which of two events of a cluster came first."""
    epoch, _, number = event_id.rpartition("-")
    master, _, run = epoch.partition(".")
    return int(master), run, int(number)


class Stream(Response):
    """The answer that does not end: what a listener gets, until its client leaves."""

    media_type = MEDIA

    def __init__(self, hub: Hub, listener: Listener):
        super().__init__(None, 200, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self._WatchClient(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while data := await self._listener.Take():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._hub.Leave(self._listener)

    async def _WatchClient(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.End()
