"""Threads of the operating system that carry simulated threads, kept for the next one.

All of them run on one processor: only one has work at a time, and a change of processor costs more than the work.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulated.world import SimThread

# More idle ones than this are let go.
_KEEP = 256

_idle: list[Worker] = []
_serial = 0


def _ChooseProcessor() -> int:
    """Processes started one after the other (test workers) get different ones."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[os.getpid() % len(allowed)]


_processor = _ChooseProcessor()


class Pin:
    """Keeps the calling thread on the workers' processor for a while."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {_processor})

    def __exit__(self, *exc: object) -> None:
        os.sched_setaffinity(0, self._before)


class Worker(threading.Thread):
    """Runs simulated threads, one after the other; ``gate`` is what it waits at whenever it is not its turn."""

    def __init__(self, serial: int):
        super().__init__(name=f"simulated-{serial}", daemon=True)
        self.gate = threading.Lock()
        self.gate.acquire()
        self.load: SimThread | None = None

    def run(self) -> None:
        os.sched_setaffinity(0, {_processor})
        while True:
            self.gate.acquire()
            load = self.load
            if load is None:
                return
            load.world.Carry(load)


def Take() -> Worker:
    """A worker that waits at its gate."""
    global _serial
    if _idle:
        return _idle.pop()
    _serial += 1
    worker = Worker(_serial)
    worker.start()
    return worker


def GiveBack(worker: Worker) -> None:
    """To be called by the worker itself as its last act before it waits at its gate."""
    worker.load = None
    if len(_idle) < _KEEP:
        _idle.append(worker)
    else:
        worker.gate.release()


def _AfterFork() -> None:
    """Threads do not survive a fork."""
    global _processor
    _idle.clear()
    _processor = _ChooseProcessor()


os.register_at_fork(after_in_child=_AfterFork)
