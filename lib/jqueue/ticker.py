"""The queue's own thread: things to be done soon or at a time, one after the other."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable

from ganeti import runtime


class Timer:
    """Something to be done; ``Cancel`` makes it nothing."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]):
        self.call: Callable[[], object] | None = call

    def Cancel(self) -> None:
        self.call = None


class Ticker:
    """Runs calls on its thread; they must be short and must not wait."""

    def __init__(self, name: str):
        self._condition = runtime.Condition()
        self._heap: list[tuple[float, int, Timer]] = []
        self._counter = itertools.count()
        self._stopped = False
        self._thread = runtime.Thread(self._Run, name)

    def Start(self) -> None:
        self._thread.start()

    def Stop(self) -> None:
        """End the thread; what was not done yet is dropped."""
        with self._condition:
            self._stopped = True
            self._heap.clear()
            self._condition.notify_all()
        self._thread.join(5.0)

    def After(self, delay: float, call: Callable[[], object]) -> Timer:
        """Run ``call`` after ``delay`` seconds."""
        timer = Timer(call)
        when = runtime.Monotonic() + delay
        with self._condition:
            if not self._stopped:
                first = not self._heap or when < self._heap[0][0]
                heapq.heappush(self._heap, (when, next(self._counter), timer))
                if first:
                    self._condition.notify_all()
        return timer

    def Soon(self, call: Callable[[], object]) -> Timer:
        return self.After(0.0, call)

    def _Run(self) -> None:
        while self._RunNext():
            pass

    def _RunNext(self) -> bool:
        """Do the next thing that is due; return False when the ticker has stopped."""
        timer = self._Wait()
        if timer is None:
            return False
        call = timer.call
        if call is not None:  # else it was cancelled in the last moment
            try:
                call()
            except Exception:
                logging.exception("A task of the job queue's own thread failed")
        return True

    def _Wait(self) -> Timer | None:
        """Return the next one that is due; None when the ticker has stopped."""
        with self._condition:
            while not self._stopped:
                while self._heap and self._heap[0][2].call is None:
                    heapq.heappop(self._heap)
                if not self._heap:
                    self._condition.wait()
                    continue
                delay = self._heap[0][0] - runtime.Monotonic()
                if delay <= 0:
                    return heapq.heappop(self._heap)[2]
                self._condition.wait(delay)
        return None
