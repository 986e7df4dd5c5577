"""How an import waits for the export: whoever connects has to prove who it is, and only the right one is taken.

Anybody may connect.  Candidates are examined side by side, each for some seconds at most, and never so many that they
could keep the right one out: when there are too many, the oldest is dropped.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from ganeti import runtime
from ganeti.impexpd import TransferError
from ganeti.impexpd.channel import Channel
from ganeti.impexpd.loop import Loop

HANDSHAKE_SECONDS = 10.0
_MOST_CANDIDATES = 32
# In which a peer that was rejected may read why.
_REJECTED_SECONDS = 2.0


class _Candidate:
    """A peer that has connected; ``rejected`` once it is known to be the wrong one."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.rejected = False
        self.timer: int | None = None


class Listening:
    """Listens, and calls ``arrived`` with the channel of the first peer that is accepted; then it listens no longer.

    ``rejected``: why the last one was not.
    """

    def __init__(
        self, loop: Loop, context: ssl.SSLContext, address: str, port: int, arrived: Callable[[Channel], None]
    ):
        self._loop = loop
        self._context = context
        self._arrived = arrived
        self._candidates: dict[int, _Candidate] = {}
        self.rejected = ""
        try:
            self._listener = runtime.ListenTcp(address, port)
        except OSError as err:
            raise TransferError(str(err.strerror)) from err
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        loop.Readable(self._listener.fileno(), self._Accept)

    def _Accept(self) -> None:
        try:
            sock, address = self._listener.accept()
        except OSError:
            return  # gone before anybody looked, or no descriptors left for strangers
        while len(self._candidates) >= _MOST_CANDIDATES:
            self._Drop(next(iter(self._candidates)), f"more than {_MOST_CANDIDATES} connections at once")
        candidate = _Candidate(Channel(sock, self._context, True, f"{address[0]}:{address[1]}"))
        number = candidate.channel.fileno()
        self._candidates[number] = candidate
        candidate.timer = self._loop.After(
            HANDSHAKE_SECONDS, lambda: self._Drop(number, f"no TLS handshake within {HANDSHAKE_SECONDS:g} seconds")
        )
        self._loop.Readable(number, lambda: self._Advance(number))
        self._Advance(number)

    def _Advance(self, number: int) -> None:
        candidate = self._candidates[number]
        if candidate.rejected:
            if candidate.channel.Discard():
                self._Drop(number)
            return
        try:
            if candidate.channel.Handshake():
                self._Take(number)
        except TransferError as err:
            self.rejected = str(err)
            logging.info("Rejected a connection: %s", err)
            self._Reject(number)

    def _Take(self, number: int) -> None:
        candidate = self._candidates.pop(number)
        self._loop.Cancel(candidate.timer)
        self._loop.Forget(number)
        self.Close()
        self._arrived(candidate.channel)

    def _Reject(self, number: int) -> None:
        """Leave the connection open for a moment: closing it while it holds unread data would destroy the alert."""
        candidate = self._candidates[number]
        candidate.rejected = True
        candidate.channel.EndSending()
        self._loop.Cancel(candidate.timer)
        candidate.timer = self._loop.After(_REJECTED_SECONDS, lambda: self._Drop(number))

    def _Drop(self, number: int, why: str = "") -> None:
        candidate = self._candidates.pop(number)
        if why:
            logging.info("Dropped the connection from %s: %s", candidate.channel.peer, why)
            self.rejected = f"{candidate.channel.peer}: {why}"
        self._loop.Cancel(candidate.timer)
        self._loop.Forget(number)
        candidate.channel.Close()

    def Close(self) -> None:
        """Listen no longer, and send away whoever is not known."""
        if self._listener.fileno() >= 0:
            self._loop.Forget(self._listener.fileno())
            self._listener.close()
        for number in list(self._candidates):
            self._Drop(number)
