"""The one place where a transfer waits: for descriptors and for timers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ganeti import runtime

Action = Callable[[], None]

_PROBLEMS = runtime.ERR | runtime.HUP


class Loop:
    """Calls actions when a descriptor is ready or a timer has run out, all on the thread that runs it.

    What an action raises ends ``Run``.  An action may be called when there is nothing to do.
    """

    def __init__(self) -> None:
        self._poller = runtime.Poller()
        self._readers: dict[int, Action] = {}
        self._writers: dict[int, Action] = {}
        self._timers: dict[int, tuple[float, Action]] = {}
        self._numbers = itertools.count()

    def Readable(self, descriptor: int, action: Action | None) -> None:
        """Call ``action`` whenever something can be read, or the other end is gone; None: no longer."""
        self._Set(self._readers, descriptor, action)

    def Writable(self, descriptor: int, action: Action | None) -> None:
        """Call ``action`` whenever something can be written, or the other end is gone; None: no longer."""
        self._Set(self._writers, descriptor, action)

    def Forget(self, descriptor: int) -> None:
        """Watch a descriptor no longer; to be called before it is closed."""
        self.Readable(descriptor, None)
        self.Writable(descriptor, None)

    def _Set(self, actions: dict[int, Action], descriptor: int, action: Action | None) -> None:
        before = self._Events(descriptor)
        if action is None:
            actions.pop(descriptor, None)
        else:
            actions[descriptor] = action
        after = self._Events(descriptor)
        if before == after:
            return
        if not before:
            self._poller.Register(descriptor, after)
        elif after:
            self._poller.Modify(descriptor, after)
        else:
            self._poller.Unregister(descriptor)

    def _Events(self, descriptor: int) -> int:
        wanted = runtime.IN if descriptor in self._readers else 0
        return wanted | (runtime.OUT if descriptor in self._writers else 0)

    def After(self, seconds: float, action: Action) -> int:
        """Call ``action`` once; return a number for ``Cancel``."""
        number = next(self._numbers)
        self._timers[number] = (runtime.Monotonic() + seconds, action)
        return number

    def Cancel(self, number: int | None) -> None:
        if number is not None:
            self._timers.pop(number, None)

    def Run(self, until: Callable[[], bool]) -> None:
        """Wait and act until the function says that it is enough."""
        while not until():
            self._RunTimers()
            if until():
                return
            for descriptor, events in self._poller.Poll(self._UntilNextTimer()):
                for actions, bit in ((self._readers, runtime.IN), (self._writers, runtime.OUT)):
                    action = actions.get(descriptor)
                    if action is not None and events & (bit | _PROBLEMS):
                        action()

    def _RunTimers(self) -> None:
        now = runtime.Monotonic()
        for number, (due, action) in sorted(self._timers.items(), key=lambda item: item[1][0]):
            if due <= now and self._timers.pop(number, None) is not None:
                action()

    def _UntilNextTimer(self) -> float | None:
        """Return in how many seconds the next timer is due; None if there are no timers."""
        if not self._timers:
            return None
        return max(0.0, min(due for due, _ in self._timers.values()) - runtime.Monotonic())

    def Close(self) -> None:
        self._poller.Close()
