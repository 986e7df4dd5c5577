"""The master daemon as the event loop sees it: LUXI over a pool of connections.

A request that changes something is sent once.  Only where it cannot have reached the master daemon (nothing listens, or
the connection had ended before) is it tried again; where that is not known, the client is answered
with an error that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from ganeti import errors, hosts, pathutils, serializer, ssconf
from ganeti.luxi import asyncclient, protocol
from ganeti.luxi.client import SocketPath
from ganeti.rapi.callers.limits import MasterCalls
from ganeti.rapi.requests.call import Caller, HttpError

# Methods that wait for something to happen; they have places of their own.
WAITING = frozenset(["WaitForJobChange", "WaitForEvents"])
# So has the question whose token this is: before its answer everybody is a stranger.
_LOOK_UP = "QueryRapiTokens"
_LOOK_UPS = 4
_READING = "Query"

_UNKNOWN = (
    "The connection to the master daemon was lost before it answered; the request may have been accepted: look at"
    " /2/jobs before trying again"
)
_SILENT = "The master daemon does not listen on this node; it may be starting, or ending: try again"


@dataclass(frozen=True)
class Times:
    """Seconds.

    ``patience``: how long a request waits for a master daemon that is not there.  ``place``: how long it waits for others,
    ``stranger``: without a login.
    """

    patience: float = 10.0
    step: float = 0.2
    answer: float = protocol.IO_TIMEOUT
    place: float = 30.0
    stranger: float = 10.0


class MasterPool:
    """Calls LUXI methods of the master daemon on this node (``call.Master``).

    ``limit``: calls under way at the same time, apart from those that wait for changes, of which there are
    ``waiting_limit``.
    """

    def __init__(self, limit: int = 20, waiting_limit: int = 1000, path: str | None = None, times: Times | None = None):
        self._path = path or SocketPath()
        self._times = times or Times()
        self._working = MasterCalls(limit)
        self._waiting = MasterCalls(waiting_limit)
        self._looking_up = MasterCalls(_LOOK_UPS)
        self._limit = limit
        self._free: list[asyncclient.Connection] = []

    async def Call(self, method: str, *args: Any, caller: Caller | None = None) -> Any:
        try:
            request = asyncclient.Request(method, args)
        except protocol.MessageTooLarge as err:
            raise HttpError(413, str(err)) from None
        async with self._Place(method, caller):
            reply = await self._Ask(request, method.startswith(_READING) or method in WAITING)
        return reply.Result(serializer.LoadWhole)

    def _Place(self, method: str, caller: Caller | None) -> contextlib.AbstractAsyncContextManager[None]:
        if method == _LOOK_UP:
            return self._looking_up.Take(None, self._times)
        return (self._waiting if method in WAITING else self._working).Take(caller, self._times)

    def Close(self) -> None:
        while self._free:
            self._free.pop().Close()

    async def _Ask(self, request: asyncclient.Request, repeatable: bool) -> asyncclient.Reply:
        deadline = asyncio.get_running_loop().time() + self._times.patience
        while True:
            link = self._Take() or await self._Open(deadline)
            try:
                reply = await link.Call(request, self._times.answer)
            except asyncclient.Broken as err:
                if err.sent and not repeatable:
                    raise HttpError(502, _UNKNOWN) from None
                await self._Pause(deadline)
            except TimeoutError:
                link.Close()
                text = f"The master daemon did not answer within {self._times.answer:g} s; the request may still be carried out"
                raise HttpError(504, text) from None
            except BaseException:
                link.Close()  # an answer that still comes must not be taken for that of the next call
                raise
            else:
                if link.alive and len(self._free) < self._limit:
                    self._free.append(link)
                else:
                    link.Close()
                return reply

    def _Take(self) -> asyncclient.Connection | None:
        while self._free:
            link = self._free.pop()
            if link.alive:
                return link
        return None

    async def _Open(self, deadline: float) -> asyncclient.Connection:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await asyncclient.Connect(self._path)
            except PermissionError:
                text = f"This daemon's user may not open the master daemon's socket; '{pathutils.ENSURE_DIRS}' repairs that"
                raise HttpError(502, text) from None
            except protocol.StrangerError as err:
                raise HttpError(502, str(err)) from None
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
