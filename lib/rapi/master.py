"""The master daemon as the event loop sees it: LUXI over a pool of connections.

A request that changes something is sent once.  Only where it cannot have reached the master daemon (nothing listens, or
the connection had ended before) is it tried again; where that is not known, the client hears so and can look.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from ganeti import errors, hosts, pathutils, serializer, ssconf
from ganeti.luxi import protocol
from ganeti.luxi.client import SocketPath
from ganeti.rapi.call import HttpError

# Methods that wait for something to happen; they have places of their own.
WAITING = frozenset(["WaitForJobChange", "WaitForEvents"])
_READING = "Query"

_UNKNOWN = (
    "The connection to the master daemon broke before it answered: what was asked for may have been accepted; look at"
    " /2/jobs before trying again"
)
_SILENT = "The master daemon does not listen on this node; it may be starting, or ending: try again"


@dataclass(frozen=True)
class Times:
    """Seconds.  ``patience``: how long a request waits for a master daemon that is not there."""

    patience: float = 10.0
    step: float = 0.2
    answer: float = protocol.IO_TIMEOUT
    place: float = 30.0


class _Broken(Exception):
    """The connection ended without an answer; ``sent``: the master daemon may have got the request."""

    def __init__(self, sent: bool):
        super().__init__()
        self.sent = sent


class _Link(asyncio.Protocol):
    """One connection with at most one request under way."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._framer = protocol.Framer()
        self._answer: asyncio.Future[bytes] | None = None
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
            answer.set_result(b"".join(complete[0]))
        elif complete:
            self.Close()  # an answer to nothing: this stream cannot be trusted

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(_Broken(sent=True))

    async def Call(self, message: bytes, timeout: float) -> bytes:
        if not self.alive:
            raise _Broken(sent=False)
        assert self._transport is not None
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(message)
        async with asyncio.timeout(timeout):
            return await answer

    def Close(self) -> None:
        self.alive = False
        if self._transport is not None:
            self._transport.abort()


class MasterPool:
    """Calls LUXI methods of the master daemon on this node (``call.Master``).

    ``limit``: calls under way at the same time, apart from those that wait for changes, of which there are
    ``waiting_limit``.
    """

    def __init__(self, limit: int = 20, waiting_limit: int = 1000, path: str | None = None, times: Times | None = None):
        self._path = path or SocketPath()
        self._times = times or Times()
        self._working = asyncio.Semaphore(limit)
        self._waiting = asyncio.Semaphore(waiting_limit)
        self._limit = limit
        self._free: list[_Link] = []

    async def Call(self, method: str, *args: Any) -> Any:
        message = protocol.EncodeRequest(method, args)
        if len(message) > protocol.MAX_MESSAGE:
            raise HttpError(413, f"{method}: the request is over the limit of {protocol.MAX_MESSAGE} bytes")
        places = self._waiting if method in WAITING else self._working
        if places.locked():
            await self._AwaitPlace(places)
        else:
            await places.acquire()
        try:
            answer = await self._Ask(message, method.startswith(_READING) or method in WAITING)
        finally:
            places.release()
        return protocol.DecodeResponse(answer, serializer.LoadWhole)

    async def _AwaitPlace(self, places: asyncio.Semaphore) -> None:
        try:
            async with asyncio.timeout(self._times.place):
                await places.acquire()
        except TimeoutError:
            raise HttpError(503, "The daemon is busy: all calls that --max-clients allows are under way") from None

    def Close(self) -> None:
        while self._free:
            self._free.pop().Close()

    async def _Ask(self, message: bytes, repeatable: bool) -> bytes:
        deadline = asyncio.get_running_loop().time() + self._times.patience
        while True:
            link = self._Take() or await self._Open(deadline)
            try:
                answer = await link.Call(message, self._times.answer)
            except _Broken as err:
                if err.sent and not repeatable:
                    raise HttpError(502, _UNKNOWN) from None
                await self._Pause(deadline)
            except TimeoutError:
                link.Close()
                text = (
                    f"The master daemon did not answer within {self._times.answer:g} s; what was asked may still happen"
                )
                raise HttpError(504, text) from None
            except BaseException:
                link.Close()  # an answer that still comes must not be taken for that of the next call
                raise
            else:
                if link.alive and len(self._free) < self._limit:
                    self._free.append(link)
                else:
                    link.Close()
                return answer

    def _Take(self) -> _Link | None:
        while self._free:
            link = self._free.pop()
            if link.alive:
                return link
        return None

    async def _Open(self, deadline: float) -> _Link:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    _transport, link = await loop.create_unix_connection(_Link, self._path)
                return link
            except PermissionError:
                text = f"This daemon's user may not open the master daemon's socket; '{pathutils.ENSURE_DIRS}' repairs that"
                raise HttpError(502, text) from None
            except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
                _CheckMaster()
            except (BlockingIOError, TimeoutError):
                pass
            except OSError as err:
                raise HttpError(502, f"The master daemon cannot be reached: {err.strerror or err}") from None
            await self._Pause(deadline)

    async def _Pause(self, deadline: float) -> None:
        """Wait before the next try; HttpError where there is no time for one."""
        if asyncio.get_running_loop().time() + self._times.step > deadline:
            raise HttpError(502, _SILENT)
        await asyncio.sleep(self._times.step)


def _CheckMaster() -> None:
    """Raise HttpError where another node is the master: waiting would not help."""
    try:
        master = ssconf.SimpleStore().GetMasterNode()
    except (OSError, errors.GenericError):
        return
    if master != hosts.OwnName():
        raise HttpError(502, f"This node is not the master: {master} is; ask there, or at the cluster's own address")
