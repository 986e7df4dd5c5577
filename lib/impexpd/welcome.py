"""How an import waits for the export: whoever connects has to prove who it is, and only that one is taken.

Anybody may connect.  Strangers are looked at side by side, each for some seconds at most, and never so many that they could
keep the right one out: when there are too many, the oldest has to go.
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
_GUESTS = 32
# In which a peer that was refused may read why.
_REFUSED_SECONDS = 2.0


class _Guest:
    """Somebody who has connected; ``refused`` once it is known to be the wrong one."""

    def __init__(self, channel: Channel):
        self.channel = channel
        self.refused = False
        self.moment: int | None = None


class Welcome:
    """Listens, and calls ``arrived`` with the channel of the first peer that is accepted; then it listens no longer.

    ``refused``: why the last one was not.
    """

    def __init__(
        self, loop: Loop, context: ssl.SSLContext, address: str, port: int, arrived: Callable[[Channel], None]
    ):
        self._loop = loop
        self._context = context
        self._arrived = arrived
        self._guests: dict[int, _Guest] = {}
        self.refused = ""
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
        while len(self._guests) >= _GUESTS:
            self._Drop(next(iter(self._guests)), "too many others came")
        guest = _Guest(Channel(sock, self._context, True, f"{address[0]}:{address[1]}"))
        number = guest.channel.fileno()
        self._guests[number] = guest
        guest.moment = self._loop.After(
            HANDSHAKE_SECONDS, lambda: self._Drop(number, "it did not say who it is in time")
        )
        self._loop.Readable(number, lambda: self._Advance(number))
        self._Advance(number)

    def _Advance(self, number: int) -> None:
        guest = self._guests[number]
        if guest.refused:
            if guest.channel.Discard():
                self._Drop(number)
            return
        try:
            if guest.channel.Handshake():
                self._Take(number)
        except TransferError as err:
            self.refused = str(err)
            logging.info("Refused a connection: %s", err)
            self._Refuse(number)

    def _Take(self, number: int) -> None:
        guest = self._guests.pop(number)
        self._loop.Cancel(guest.moment)
        self._loop.Forget(number)
        self.Close()
        self._arrived(guest.channel)

    def _Refuse(self, number: int) -> None:
        """Leave the connection open for a moment: closing it while it holds unread data would destroy the alert."""
        guest = self._guests[number]
        guest.refused = True
        guest.channel.EndSending()
        self._loop.Cancel(guest.moment)
        guest.moment = self._loop.After(_REFUSED_SECONDS, lambda: self._Drop(number))

    def _Drop(self, number: int, why: str = "") -> None:
        guest = self._guests.pop(number)
        if why:
            logging.info("Dropped the connection from %s: %s", guest.channel.peer, why)
            self.refused = f"{guest.channel.peer}: {why}"
        self._loop.Cancel(guest.moment)
        self._loop.Forget(number)
        guest.channel.Close()

    def Close(self) -> None:
        """Listen no longer, and send away whoever is not known."""
        if self._listener.fileno() >= 0:
            self._loop.Forget(self._listener.fileno())
            self._listener.close()
        for number in list(self._guests):
            self._Drop(number)
