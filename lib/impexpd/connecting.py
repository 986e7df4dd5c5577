"""How an export reaches the import: some tries, each with a time limit, a second apart."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from ganeti import errors, runtime
from ganeti.impexpd import TransferError
from ganeti.impexpd.channel import Channel, Refused
from ganeti.impexpd.loop import Loop
from ganeti.impexpd.settings import Settings

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_PAUSE = 1.0


class Connecting:
    """Connects, and calls ``arrived`` with the channel once both sides have proved who they are.

    Connecting blocks, so it is done by another thread.
    """

    def __init__(self, loop: Loop, context: ssl.SSLContext, settings: Settings, arrived: Callable[[Channel], None]):
        self._loop = loop
        self._context = context
        self._settings = settings
        self._arrived = arrived
        self._tries = settings.connect_retries + 1
        self._deadline = 0.0
        self._timer: int | None = None
        self._channel: Channel | None = None
        # Shared with the other thread.
        self._lock = runtime.Lock()
        self._trying = False
        self._closed = False
        self._result: protocols.Socket | Exception | None = None
        self._waker = runtime.Waker()
        loop.Readable(self._waker.fileno(), self._Connected)
        self._Try()

    @property
    def _peer(self) -> str:
        host, port = self._settings.host, self._settings.port
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _Try(self) -> None:
        self._tries -= 1
        self._trying = True
        self._deadline = runtime.Monotonic() + self._settings.connect_timeout
        runtime.Thread(self._Connect, "connecting").start()

    def _Connect(self) -> None:
        """Run by the other thread."""
        result: protocols.Socket | Exception
        try:
            result = self._Reach()
        except (OSError, errors.ResolverError) as err:
            result = err
        with self._lock:
            self._trying = False
            self._result = result
            if self._closed:
                self._Drop()
            else:
                self._waker.Wake()

    def _Drop(self) -> None:
        """Close what nobody asks for any longer."""
        if self._result is not None and not isinstance(self._result, Exception):
            self._result.close()
        self._result = None
        self._waker.Close()

    def _Reach(self) -> protocols.Socket:
        settings = self._settings
        problem: OSError | None = None
        for address in Addresses(settings.host, settings.family):
            left = max(0.1, self._deadline - runtime.Monotonic())
            try:
                return runtime.ConnectTcp(address, settings.port, left, settings.bind)
            except OSError as err:
                problem = err
        raise problem or OSError(0, f"{settings.host} has no IPv{settings.family} address")

    def _Connected(self) -> None:
        self._waker.Clear()
        with self._lock:
            result, self._result = self._result, None
        if result is None:
            return
        if isinstance(result, Exception):
            self._Again(getattr(result, "strerror", None) or str(result))
            return
        self._channel = Channel(result, self._context, False, self._peer)
        self._timer = self._loop.After(self._deadline - runtime.Monotonic(), self._TooLate)
        self._loop.Readable(self._channel.fileno(), self._Advance)
        self._Advance()

    def _Advance(self) -> None:
        channel = self._channel
        assert channel is not None
        try:
            if not channel.Handshake():
                return
        except Refused:
            raise
        except TransferError as err:
            self._HangUp()
            self._Again(str(err))
            return
        self._HangUp(close=False)
        self.Close()
        self._arrived(channel)

    def _TooLate(self) -> None:
        self._HangUp()
        self._Again(f"{self._peer} did not answer within {self._settings.connect_timeout:g} seconds")

    def _HangUp(self, close: bool = True) -> None:
        channel, self._channel = self._channel, None
        self._loop.Cancel(self._timer)
        if channel is not None:
            self._loop.Forget(channel.fileno())
            if close:
                channel.Close()

    def _Again(self, problem: str) -> None:
        if not self._tries:
            raise TransferError(f"No connection to {self._peer}: {problem}")
        logging.info("No connection yet: %s", problem)
        self._loop.After(_PAUSE, self._Try)

    def Close(self) -> None:
        """Try no longer; a try that is still under way ends by itself."""
        self._HangUp()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._loop.Forget(self._waker.fileno())
            if not self._trying:
                self._Drop()


def Addresses(host: str, family: int | None) -> list[str]:
    """Return the addresses of a host, or an address itself, of the family if one is given."""
    found = [host] if ":" in host or host.replace(".", "").isdigit() else runtime.LookupHost(host)[1]
    return [address for address in found if family is None or (":" in address) == (family == 6)]
