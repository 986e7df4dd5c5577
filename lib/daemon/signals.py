"""Signals of a daemon, turned into something that poll loops and threads can wait for."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from types import FrameType

from ganeti import runtime


class StopSignal:
    """Set when the daemon is asked to end (SIGTERM, SIGINT).

    A poll loop registers it like a socket; a main thread calls ``wait``.  A handler only counts and wakes: taking a lock
    there could wait for the very code it interrupted.
    """

    def __init__(self) -> None:
        self._waker = runtime.Waker()
        self.count = 0

    def fileno(self) -> int:
        return self._waker.fileno()

    def set(self) -> None:
        self.count += 1
        self._waker.Wake()

    def is_set(self) -> bool:
        return self.count > 0

    def clear(self) -> None:
        """Forget earlier requests, for a daemon that continues."""
        self._waker.Clear()
        self.count = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; False if the time is over before."""
        poller = runtime.Poller()
        try:
            poller.Register(self, runtime.IN)
            if not self.is_set():
                poller.Poll(timeout)
        finally:
            poller.Close()
        return self.is_set()

    def Install(self) -> None:
        """Take over SIGTERM and SIGINT of this process."""

        def told(_number: int, _frame: FrameType | None) -> None:
            self.set()

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)

    def Close(self) -> None:
        self._waker.Close()


def OnHangup(action: Callable[[], None]) -> None:
    """Call ``action`` at SIGHUP, on the main thread."""
    signal.signal(signal.SIGHUP, lambda _number, _frame: action())


def InterruptAtEnd() -> None:
    """Let SIGTERM and a lost terminal end a program as Ctrl-C does, so that it can clean up; nohup stays in force."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # only the main thread may
                signal.signal(number, signal.default_int_handler)


def RestoreDefaults() -> None:
    """Restore the signals for a child that lives on its own."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
