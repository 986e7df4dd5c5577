"""The stream of changes: server-sent events for any number of listeners from one wait at the master daemon.

::

    master daemon --WaitForEvents--> Hub (one task) --bytes of an event, made once--> Listener 1 .. n --> their connections

A listener whose client reads slowly is never sent more than a limit: it gets the rest from the master daemon, page by page as
its client reads, in the way in which one that comes back after an absence catches up.  ``missed`` says that events after an id
are no longer known, or that there is another master daemon: the client reads everything again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from ganeti import errors, serializer
from ganeti.luxi import events
from ganeti.rapi.requests.call import Caller, HttpError, Master

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MEDIA: Final = "text/event-stream"
MISSED: Final = "missed"
MAX_LISTENERS = 1000
MAX_OF_STRANGER = 250
"""Listeners of callers without a name at one address."""

MAX_OF_NAME = 750
"""Listeners of one user or token, so that there are places for others."""

MAX_PENDING = 256 * 1024
"""Bytes that may wait for one listener, apart from a single event that is larger."""

KEEP_ALIVE = 15.0
"""Seconds after which something is sent, so that a connection which is gone is noticed, and a token is looked at again."""

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
    """One stream: what waits to be sent, and whether it continues.

    It gets events from the hub as they come.  While it is behind, because it has just come back or its client reads slowly, it
    gets pages of what the master daemon keeps instead, each after its client has taken the one before.
    """

    def __init__(self, hub: Hub, caller: Caller, wants: Filter, seen: str, valid: Valid | None = None):
        self.caller = caller
        self.wants = wants
        self._hub = hub
        self._valid = valid
        self._parts: list[bytes] = []
        self._size = 0
        # Everything up to this event was sent, or was not wanted.
        self._seen = seen
        self._behind = False
        # The hub may still come with events that were in a page.
        self._ahead = False
        self._wake = asyncio.Event()
        self.ended = False
        self._doubted = False
        self._quiet = False
        self._due = False

    @property
    def waiting(self) -> int:
        """How many bytes wait to be sent."""
        return self._size

    def Push(self, data: bytes) -> None:
        """Have something sent."""
        self._parts.append(data)
        self._size += len(data)
        self._wake.set()

    def Offer(self, event_id: str, data: bytes | None) -> None:
        """Take the next event of the hub; without data it is not wanted."""
        if self.ended or self._behind or self._IsOld(event_id):
            return
        if data is not None:
            if not self._Fits(data):
                self._behind = True
                return
            self.Push(data)
        self._seen = event_id

    def _Fits(self, data: bytes) -> bool:
        return not self._parts or self._size + len(data) <= MAX_PENDING

    def _IsOld(self, event_id: str) -> bool:
        """Return whether this came in a page: the hub may be behind that."""
        if self._ahead and _Order(event_id) <= _Order(self._seen):
            return True
        self._ahead = False
        return False

    async def CatchUp(self) -> None:
        """Have the next page of what the master daemon keeps sent; GenericError if it does not answer."""
        self._behind = True
        answer = await self._hub.Page(self._seen, self.caller)
        if answer["missed"]:
            self.Push(_Missed(answer["last"]))
        for event in answer["events"]:
            if self.wants(event):
                data = _Event(event)
                if not self._Fits(data):
                    return
                self.Push(data)
            self._seen = event["id"]
        self._seen = answer["last"]
        if _Order(self._hub.last) <= _Order(self._seen):
            self._behind, self._ahead = False, True

    def Doubt(self) -> None:
        """Have it looked at whether this listener may still listen."""
        if self._valid is not None:
            self._doubted = True
            self._wake.set()

    def End(self) -> None:
        self.ended = True
        self._wake.set()

    def KeepAlive(self) -> None:
        """Have a comment sent if there was nothing since the last time, and every other time the token looked at again."""
        if self._due:
            self.Doubt()
        self._due = not self._due
        if self._quiet and not self._parts:
            self.Push(_COMMENT)
        self._quiet = True

    async def Take(self) -> bytes:
        """Return what is to be sent next; nothing at the end."""
        if not self._parts and not self.ended:
            if self._behind:
                await self._TakePage()
            else:
                await self._wake.wait()
        self._wake.clear()
        self._quiet = False
        if self._doubted and self._valid is not None:
            self._doubted = False
            if not await self._valid():
                return b""
        parts, self._parts, self._size = self._parts, [], 0
        return b"".join(parts) or (b"" if self.ended else _COMMENT)

    async def _TakePage(self) -> None:
        try:
            await self.CatchUp()
        except errors.GenericError as err:
            logging.info("A stream of events ends, and its client can resume it: %s", err)
            self.ended = True


class Hub:
    """All listeners of a master daemon."""

    def __init__(self, master: Master, keep_alive: float = KEEP_ALIVE):
        self._master = master
        self._keep_alive = keep_alive
        # In the order in which they came.
        self._listeners: dict[Listener, None] = {}
        self.last = ""
        """The newest event that all listeners have got which are not behind."""
        self._task: asyncio.Task[None] | None = None
        # One clock for all: a timer for each wait of each listener costs more than the events.
        self._clock: asyncio.TimerHandle | None = None
        self._beginning = asyncio.Lock()

    async def Join(self, caller: Caller, wants: Filter, last_id: str | None, valid: Valid | None = None) -> Listener:
        """Return a new listener, which gets everything after an event, or from now on; HttpError if that cannot be.

        ``valid()`` says whether it may still listen; it is asked now and then, and when the cluster's settings change.
        """
        async with self._beginning:
            await self._Begin()
        self._MakeRoom(caller)
        listener = Listener(self, caller, wants, self.last if last_id is None else _Cut(last_id), valid)
        self._listeners[listener] = None
        listener.Push(_RETRY + (f"id: {self.last}\n\n".encode("ascii") if last_id is None else _COMMENT))
        try:
            if last_id is not None:
                await listener.CatchUp()
        except BaseException:
            self.Leave(listener)
            raise
        return listener

    def _MakeRoom(self, caller: Caller) -> None:
        """Raise HttpError (503) if there is no place for one more of this caller.

        The newest stranger leaves for a caller with a name.
        """
        strangers = [listener for listener in self._listeners if listener.caller.stranger]
        if caller.stranger:
            if sum(listener.caller.host == caller.host for listener in strangers) >= MAX_OF_STRANGER:
                text = f"{MAX_OF_STRANGER} clients without a login follow the events from {caller.host} already: log in"
                raise HttpError(503, text)
            strangers = []
        elif sum(listener.caller.name == caller.name for listener in self._listeners) >= MAX_OF_NAME:
            raise HttpError(503, f"{MAX_OF_NAME} clients follow the events as {caller.name} already")
        if len(self._listeners) < MAX_LISTENERS:
            return
        if not strangers:
            raise HttpError(503, f"{MAX_LISTENERS} clients follow the events already")
        newest = strangers[-1]
        logging.warning("%s follows the events no longer, to make room for %s", newest.caller.address, caller.name)
        newest.End()
        del self._listeners[newest]

    def Leave(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None
            if self._clock is not None:
                self._clock.cancel()

    def _Tick(self) -> None:
        for listener in self._listeners:
            listener.KeepAlive()
        self._clock = asyncio.get_running_loop().call_later(self._keep_alive / 2, self._Tick)

    async def _Begin(self) -> None:
        if self._task is None:
            answer = await self._master.Call("WaitForEvents", None, None, 0)
            self.last = answer["last"]
            self._task = asyncio.create_task(self._Follow())
            self._Tick()

    async def Page(self, seen: str, caller: Caller) -> dict[str, Any]:
        """Return what the master daemon answers at once to somebody who has seen this event."""
        answer: dict[str, Any] = await self._master.Call("WaitForEvents", seen, None, 0, caller=caller)
        return answer

    async def _Follow(self) -> None:
        """Wait for events and hand them to all; a master daemon that is away is waited for."""
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            try:
                answer = await self._master.Call("WaitForEvents", self.last, None, _WAIT)
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
        self.last = answer["last"]
        if answer["missed"]:
            missed = _Missed(answer["last"])
            for listener in self._listeners:
                listener.Doubt()
                listener.Offer(answer["last"], missed)
        for event in answer["events"]:
            encoded = _Event(event)
            for listener in self._listeners:
                if event["kind"] == "cluster":
                    listener.Doubt()
                listener.Offer(event["id"], encoded if listener.wants(event) else None)


def _Event(event: events.Event) -> bytes:
    return Encode(event["kind"], event, event["id"])


def _Missed(last: str) -> bytes:
    text = "Events are missing: read everything that you follow again"
    return Encode(MISSED, {"message": text}, last)


def _Cut(last_id: str) -> str:
    """Return the id that a client sent; one that is longer than ours are stands for none of them."""
    return last_id if len(last_id) <= events.MAX_ID else ""


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
