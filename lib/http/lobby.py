"""Connections that were accepted and have not yet asked for anything.

::

    accept --> Lobby.Add --> waits, costs a descriptor --> complete greeting --> Lobby.Next --> a child serves it
                                |
                                +--> silent for too long, nonsense, or in the way of others: closed

A stranger costs no process until it has sent a whole greeting, and the next one to be served is from the address that has
the fewest connections under way: many from one address delay that address, not the others.
"""

from __future__ import annotations

import enum
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ganeti import runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

CAPACITY = 512
PATIENCE = 10.0
"""Seconds in which a greeting must be complete."""
# When the lobby is full, one that came less than so many seconds ago is not the one to go.
RIGHTS = 0.2
_ENDED = runtime.GONE | runtime.HUP | runtime.ERR
_PEEK = 16 * 1024 + 5
_TLS_HEAD = 5
_TLS_HANDSHAKE = 0x16
_CLIENT_HELLO = 1


class Greeting(enum.Enum):
    """The verdict on the first bytes of a connection."""

    PARTIAL = 0
    COMPLETE = 1
    NONSENSE = 2


def TlsGreeting(data: bytes) -> Greeting:
    """Judge the beginning of a TLS connection: it is complete with its first record."""
    if data[:1] != bytes([_TLS_HANDSHAKE]) or data[1:2] not in (b"", b"\3"):
        return Greeting.NONSENSE
    if len(data) < _TLS_HEAD:
        return Greeting.PARTIAL
    length = int.from_bytes(data[3:_TLS_HEAD], "big")
    if not 4 <= length <= _PEEK - _TLS_HEAD:
        return Greeting.NONSENSE
    if len(data) < _TLS_HEAD + length:
        return Greeting.PARTIAL
    return Greeting.COMPLETE if data[_TLS_HEAD] == _CLIENT_HELLO else Greeting.NONSENSE


def AnyGreeting(data: bytes) -> Greeting:
    """Judge the beginning of a connection without TLS: any byte will do."""
    return Greeting.COMPLETE if data else Greeting.PARTIAL


class Visitor:
    """One connection in the lobby."""

    def __init__(self, sock: protocols.Socket, address: str, now: float):
        self.sock = sock
        self.address = address
        self.since = now
        self.ready = False

    def fileno(self) -> int:
        return self.sock.fileno()


class Lobby:
    """The connections that wait; ``judge`` looks at their first bytes, which stay unread."""

    def __init__(
        self,
        poller: protocols.Poller,
        judge: Callable[[bytes], Greeting],
        capacity: int = CAPACITY,
        rights: float = RIGHTS,
        patience: float = PATIENCE,
    ):
        self._poller = poller
        self._judge = judge
        self._capacity = capacity
        self._rights = rights
        self._patience = patience
        # In the order in which they came.
        self._visitors: dict[Visitor, None] = {}
        self._by_address: Counter[str] = Counter()
        self.turned_away = 0
        """Connections closed here since the last look."""

    def __len__(self) -> int:
        return len(self._visitors)

    def Add(self, sock: protocols.Socket, address: str) -> None:
        sock.setblocking(False)
        visitor = Visitor(sock, address, runtime.Monotonic())
        self._visitors[visitor] = None
        self._by_address[address] += 1
        # Each arrival of bytes is one event: a half greeting does not keep the loop awake.
        self._poller.Register(visitor, runtime.IN | runtime.GONE | runtime.EDGE)

    def OnEvent(self, visitor: Visitor, events: int) -> None:
        """Look at what a visitor has sent; one that will send no more must have sent all of it."""
        if visitor not in self._visitors or visitor.ready:
            return
        try:
            data = visitor.sock.recv(_PEEK, socket.MSG_PEEK)  # type: ignore[call-arg]
        except BlockingIOError:
            return
        except OSError:
            data = b""
        greeting = self._judge(data) if data else Greeting.NONSENSE
        if greeting is Greeting.NONSENSE or (greeting is Greeting.PARTIAL and events & _ENDED):
            self._TurnAway(visitor)
        visitor.ready = greeting is Greeting.COMPLETE

    def HasRoom(self) -> bool:
        """Return whether one more may come in; the oldest of the address that has the most here may have to go for it."""
        if len(self._visitors) < self._capacity:
            return True
        address, _ = self._by_address.most_common(1)[0]
        now = runtime.Monotonic()
        old = [v for v in self._visitors if v.address == address and now - v.since >= self._rights]
        if not old:
            return False
        self._TurnAway(next((visitor for visitor in old if not visitor.ready), old[0]))
        return True

    def Expire(self) -> None:
        """Close what has waited for too long."""
        now = runtime.Monotonic()
        for visitor in list(self._visitors):
            if now - visitor.since < self._patience:
                return
            self._TurnAway(visitor)

    def Timeout(self) -> float | None:
        """Return the seconds until there is something to close."""
        first = next(iter(self._visitors), None)
        if first is None:
            return None
        if len(self._visitors) >= self._capacity:
            return self._rights
        return max(0.0, first.since + self._patience - runtime.Monotonic())

    def Next(self, under_way: Mapping[str, int], most: int) -> Visitor | None:
        """Hand out the next connection to serve.

        ``under_way``: connections of each address that have not proved who they are; an address gets at most ``most``.
        """
        ready = [visitor for visitor in self._visitors if visitor.ready and under_way.get(visitor.address, 0) < most]
        if not ready:
            return None
        # min takes the first of equals: who came first is served first.
        found = min(ready, key=lambda visitor: under_way.get(visitor.address, 0))
        self._Forget(found)
        return found

    def AnyReady(self) -> bool:
        return any(visitor.ready for visitor in self._visitors)

    def Close(self) -> None:
        """Close every connection: at the end, and in a child, which serves one of its own."""
        for visitor in list(self._visitors):
            visitor.sock.close()
        self._visitors.clear()
        self._by_address.clear()

    def _TurnAway(self, visitor: Visitor) -> None:
        self.turned_away += 1
        self._Forget(visitor)
        visitor.sock.close()

    def _Forget(self, visitor: Visitor) -> None:
        del self._visitors[visitor]
        self._by_address[visitor.address] -= 1
        if not self._by_address[visitor.address]:
            del self._by_address[visitor.address]
        self._poller.Unregister(visitor)
