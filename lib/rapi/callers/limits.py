"""How much of the daemon strangers, users and tokens may hold at the same time: connections, requests, calls to the master."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ganeti.rapi.requests.call import Caller, HttpError

if TYPE_CHECKING:
    from ganeti.rapi.master import Times

# Seconds after which a client whose call got no slot may try again.
_RETRY_AFTER = 10


class Connections:
    """The connections there are, in the order in which they began to wait for a request."""

    def __init__(self, limit: int):
        self._limit = limit
        self._waiting: dict[object, Callable[[], None]] = {}
        self._busy: dict[object, Callable[[], bool]] = {}

    def Enter(self, key: object, leave: Callable[[], None]) -> bool:
        """Give a new connection a place, if need be that of another one; ``leave`` ends this one."""
        if len(self._waiting) + len(self._busy) >= self._limit:
            if self._waiting:
                oldest = next(iter(self._waiting))
                self._waiting.pop(oldest)()
            elif not self._EndStranger():
                return False
        self._waiting[key] = leave
        return True

    def Secured(self, key: object, leave: Callable[[], None]) -> None:
        """Note how this connection is ended from now on."""
        if key in self._waiting:
            self._waiting[key] = leave

    def _EndStranger(self) -> bool:
        """End the oldest request of somebody who has not logged in; return whether there was one."""
        oldest = next((key for key, end in self._busy.items() if end()), None)
        if oldest is None:
            return False
        del self._busy[oldest]
        return True

    def Busy(self, key: object, end: Callable[[], bool]) -> None:
        """Note that a connection has a request under way; ``end`` ends that of a stranger, and returns whether it is one."""
        if self._waiting.pop(key, None) is not None:
            self._busy[key] = end

    def Waits(self, key: object, leave: Callable[[], None]) -> None:
        if key in self._busy:
            del self._busy[key]
            self._waiting[key] = leave

    def Leave(self, key: object) -> None:
        self._waiting.pop(key, None)
        self._busy.pop(key, None)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._busy)


class Weighed:
    """The large answers that clients are reading, or bodies that they send: if these take too much memory, the oldest is given up."""

    def __init__(self, limit: int):
        self._limit = limit
        self._size = 0
        self._places: dict[object, tuple[int, Callable[[], None]]] = {}

    @contextlib.contextmanager
    def Place(self, size: int, hang_up: Callable[[], None]) -> Iterator[None]:
        """Count so many bytes meanwhile; ``hang_up`` ends their connection."""
        while self._places and self._size + size > self._limit:
            key = next(iter(self._places))
            self._Forget(key)()
        key = object()
        self._places[key] = (size, hang_up)
        self._size += size
        try:
            yield
        finally:
            if key in self._places:
                self._Forget(key)

    def _Forget(self, key: object) -> Callable[[], None]:
        size, hang_up = self._places.pop(key)
        self._size -= size
        return hang_up


class UnderWay:
    """The requests under way of each user and token: one of them does not take all connections."""

    def __init__(self, most: int):
        self._most = most
        # By name; only of those who have any.
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    @contextlib.contextmanager
    def Place(self, name: str) -> Iterator[None]:
        """Count a request; HttpError (503) if there are too many of this name."""
        count = self._counts.get(name, 0)
        if count >= self._most:
            raise HttpError(503, f"{count} requests of this user or token are under way already")
        self._counts[name] = count + 1
        try:
            yield
        finally:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]


@dataclass
class _Share:
    """What one name may hold, and how many calls hold or wait for a place of it."""

    places: asyncio.Semaphore
    users: int = 0


class MasterCalls:
    """The calls that may be under way at the same time.

    All strangers together, who have not logged in, and each user and token get three quarters of them at most, also to wait
    for one: however slow what they ask for is, others do not wait for it.
    """

    def __init__(self, limit: int):
        kept = max(1, limit // 4)
        self._all = asyncio.Semaphore(max(limit, kept + 1))
        self._most = max(1, limit - kept)
        # By name, None for strangers; only of those who have a call under way, or wait for it.
        self._shares: dict[str | None, _Share] = {}

    def __len__(self) -> int:
        return len(self._shares)

    @contextlib.contextmanager
    def _ShareOf(self, name: str | None) -> Iterator[asyncio.Semaphore]:
        share = self._shares.setdefault(name, _Share(asyncio.Semaphore(self._most)))
        share.users += 1
        try:
            yield share.places
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[name]

    @contextlib.asynccontextmanager
    async def Take(self, caller: Caller | None, times: Times) -> AsyncIterator[None]:
        """Hold a place; HttpError (503) where none becomes free in time.  ``caller``: None for this daemon itself."""
        async with contextlib.AsyncExitStack() as held:
            wanted = [] if caller is None else [held.enter_context(self._ShareOf(caller.name))]
            wanted.append(self._all)
            if any(places.locked() for places in wanted):
                await _TakeLate(wanted, held, caller, times)
            else:
                for places in wanted:
                    await held.enter_async_context(places)
            yield


async def _TakeLate(
    wanted: list[asyncio.Semaphore], held: contextlib.AsyncExitStack, caller: Caller | None, times: Times
) -> None:
    stranger = caller is not None and caller.stranger
    try:
        async with asyncio.timeout(times.stranger if stranger else times.place):
            for places in wanted:
                await held.enter_async_context(places)
    except TimeoutError:
        text = "The daemon is busy: too many calls to the master daemon are under way"
        if stranger:
            text += "; some places are kept for clients that log in"
        elif wanted[0] is not wanted[-1] and wanted[0].locked():
            text += " for this user or token; some places are kept for others"
        raise HttpError(503, f"{text}; try again", {"Retry-After": str(_RETRY_AFTER)}) from None
