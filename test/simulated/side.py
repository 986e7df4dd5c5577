"""The functions of the runtime as a simulated process sees them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from simulated import database, locks
from simulated.files import Files
from simulated.programs import Programs
from simulated.sockets import Sockets
from simulated.watch import Watch

if TYPE_CHECKING:
    import random

    from simulated.machine import Process


class Side(Files, Programs, Sockets):
    """One per process."""

    def __init__(self, process: Process):
        self.process = process
        self.machine = process.machine
        self.world = process.world

    # Clock and random numbers

    def Time(self) -> float:
        self.world.Reach("Time")
        return self.machine.wall_clock

    def Monotonic(self) -> float:
        self.world.Reach("Monotonic")
        return (self.world.now_ns - self.machine.boot_ns) / 1e9 + 1.0

    def Sleep(self, seconds: float) -> None:
        self.world.Reach("Sleep", f"{seconds:g}")
        if seconds > 0:
            self.world.Block(seconds)

    def Random(self) -> random.Random:
        return self.process.random

    def RandomBytes(self, n: int) -> bytes:
        return self.process.random.randbytes(n)

    # Threads

    def Thread(self, target: Callable[..., Any], name: str, args: Sequence[Any] = ()) -> locks.Thread:
        return locks.Thread(self.process.NewThread(target, name, tuple(args)))

    def Lock(self) -> locks.Lock:
        return locks.Lock(self.world)

    def RLock(self) -> locks.RLock:
        return locks.RLock(self.world)

    def Condition(self, lock: Any = None) -> locks.Condition:
        return locks.Condition(self.world, lock)

    def Event(self) -> locks.Event:
        return locks.Event(self.world)

    def Semaphore(self, value: int = 1) -> locks.Semaphore:
        return locks.Semaphore(self.world, value)

    def Queue(self) -> locks.Queue:
        return locks.Queue(self.world)

    def Local(self) -> locks.Local:
        return locks.Local(self.world)

    def ThreadName(self) -> str:
        thread = self.world.current
        assert thread is not None
        return thread.name

    def SetThreadName(self, name: str) -> None:
        thread = self.world.current
        assert thread is not None
        thread.name = name
        threading.current_thread().name = name

    def ThreadIdent(self) -> int:
        thread = self.world.current
        assert thread is not None
        return thread.ident

    # Databases and watches

    def OpenDatabase(self, path: str, mode: int = 0o640) -> database.Database:
        self.world.Reach("OpenDatabase", path)
        return database.Open(self.process, path, mode)

    def WatchFiles(self, paths: Sequence[str]) -> Watch:
        self.world.Reach("WatchFiles")
        return Watch(self.process, paths)
