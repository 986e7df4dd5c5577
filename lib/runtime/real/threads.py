"""Threads, locks and queues of the real machine: the standard library's."""

from __future__ import annotations

import _queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ganeti.runtime.contract import QueueEmpty

Lock = threading.Lock
RLock = threading.RLock
Condition = threading.Condition
Event = threading.Event
Semaphore = threading.Semaphore
Local = threading.local
ThreadIdent = threading.get_ident


class Thread(threading.Thread):
    """A daemon thread whose uncaught exception reaches the log under its name."""

    def __init__(self, target: Callable[..., Any], name: str, args: Sequence[Any] = ()):
        super().__init__(name=name, daemon=True)
        self._job: tuple[Callable[..., Any], tuple[Any, ...]] | None = (target, tuple(args))

    def run(self) -> None:
        assert self._job is not None
        target, args = self._job
        self._job = None
        try:
            target(*args)
        except SystemExit:
            pass
        except BaseException:
            import logging

            logging.exception("Thread %s ended by an error", self.name)


class Queue:
    """Unbounded, many producers, many consumers."""

    __slots__ = ("_queue", "put", "qsize")

    def __init__(self) -> None:
        self._queue: Any = _queue.SimpleQueue()
        self.put = self._queue.put
        self.qsize = self._queue.qsize

    def get(self, timeout: float | None = None) -> Any:
        try:
            if timeout is None:
                return self._queue.get()
            return self._queue.get(timeout > 0, max(timeout, 0))
        except _queue.Empty:
            raise QueueEmpty from None


def ThreadName() -> str:
    return threading.current_thread().name


def SetThreadName(name: str) -> None:
    threading.current_thread().name = name
