"""Watch in which order threads take mutexes, and what they hold while they wait.

A mutex is named by the line of ``lib`` that makes it, such as ``jqueue/entry.py lock``: all that are made there count as one,
so that an order that is wrong shows without the moment in which two threads block each other.  Those that tests
make are not looked at, except by tests that give them names.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ganeti

_LIB = os.path.realpath(next(iter(ganeti.__path__))) + os.sep
_RUNTIME = os.path.join(_LIB, "runtime") + os.sep
_SIMULATED = os.path.realpath(os.path.dirname(__file__)) + os.sep


class Watch:
    """What was seen, in all worlds together.

    ``nested``: (held, taken) -> a thread that did so.  ``waits``: (waited for, held) likewise; what a thread waits for is the
    place of a condition's mutex, or the kind of another thing.
    """

    def __init__(self) -> None:
        self.nested: dict[tuple[str, str], str] = {}
        self.waits: dict[tuple[str, str], str] = {}
        self._held: dict[Any, list[Any]] = {}

    def Want(self, thread: Any, mutex: Any) -> None:
        """A thread comes to a mutex that it may have to wait for."""
        if mutex.place:
            for other in self._held.get(thread, ()):
                if other is not mutex:
                    self.nested.setdefault((other.place, mutex.place), thread.label)

    def Took(self, thread: Any, mutex: Any) -> None:
        if mutex.place:
            mutex.holder = thread
            self._held.setdefault(thread, []).append(mutex)

    def Gave(self, mutex: Any) -> None:
        thread, mutex.holder = mutex.holder, None
        if thread is not None:
            self._held[thread].remove(mutex)
            if not self._held[thread]:
                del self._held[thread]

    def Wait(self, thread: Any, place: str) -> None:
        """A thread waits for something that another one has to do; what it still holds keeps that one waiting, perhaps."""
        for other in self._held.get(thread, ()):
            self.waits.setdefault((place, other.place), thread.label)

    def Circles(self) -> list[list[str]]:
        """Return the mutexes that are taken in a circle, shortest circles first; two of one place are one, too."""
        after: dict[str, set[str]] = {}
        for held, taken in self.nested:
            after.setdefault(held, set()).add(taken)
        found = []
        for start in sorted(after):
            ways = [[start]]
            seen = {start}
            while ways:
                way = ways.pop(0)
                if start in after.get(way[-1], ()):
                    found.append(way)
                    break
                for place in sorted(after.get(way[-1], set()) - seen):
                    seen.add(place)
                    ways.append([*way, place])
        return sorted(found, key=len)


watch: Watch | None = None


@contextmanager
def Watched() -> Iterator[Watch]:
    """Watch the mutexes that simulated threads make from here on."""
    global watch
    watch = Watch()
    try:
        yield watch
    finally:
        watch = None


def Place() -> str:
    """Return the name of the mutex that is being made; empty for one not of ``lib``, or while nobody watches."""
    if watch is None:
        return ""
    frame = sys._getframe(1)
    while frame is not None:
        path = os.path.realpath(frame.f_code.co_filename)
        if not path.startswith((_SIMULATED, _RUNTIME)):
            if not path.startswith(_LIB):
                return ""
            made = re.match(r"\s*(?:self\.)?(\w+) =", linecache.getline(path, frame.f_lineno))
            return f"{path.removeprefix(_LIB)} {made[1] if made else frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
