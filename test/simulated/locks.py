"""Simulated threads, locks and queues.

They may be looked at and set from outside (by a test, between steps); waiting is for simulated threads only.  A lock
that is let go wakes a waiter picked by chance, and another thread may be quicker than that one, as in reality.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ganeti.runtime.contract import QueueEmpty
from simulated import mutexes
from simulated.world import SimThread, SimulationError, World


class Thread:
    """A thread of the process that made it."""

    def __init__(self, thread: SimThread):
        self._thread = thread
        self._started = False

    @property
    def name(self) -> str:
        return self._thread.name

    def start(self) -> None:
        thread = self._thread
        thread.world.Reach("Thread.start", thread.name)
        if self._started:
            raise RuntimeError("threads can only be started once")
        self._started = True
        thread.world.Launch(thread)

    def join(self, timeout: float | None = None) -> None:
        world = self._thread.world
        caller = world.Reach("Thread.join", self._thread.name)
        if not self._started:
            raise RuntimeError("cannot join thread before it is started")
        if self._thread.finished:
            return
        if caller is None:
            raise SimulationError("join: only a simulated thread can wait")
        self._thread.joiners.append(caller)
        if not world.Block(timeout):
            self._thread.joiners.remove(caller)

    def is_alive(self) -> bool:
        self._thread.world.Reach("Thread.is_alive", self._thread.name)
        return self._started and not self._thread.finished


class Waiters:
    """Threads that wait for one thing.

    What several processes wait for needs ``WakeAll``: a single one that is woken may be dying.
    """

    __slots__ = ("_threads", "_world")

    def __init__(self, world: World):
        self._world = world
        self._threads: list[SimThread] = []

    def __len__(self) -> int:
        return len(self._threads)

    def Wait(self, timeout: float | None) -> bool:
        thread = self._world.current
        if thread is None:
            raise SimulationError("only a simulated thread can wait")
        self._threads.append(thread)
        if self._world.Block(timeout):
            return True
        if thread not in self._threads:
            return True  # the time was over, but it was woken before it could go on (its process was paused, say)
        self._threads.remove(thread)
        return False

    def WakeFirst(self) -> None:
        if self._threads:
            self._world.Wake(self._threads.pop(0))

    def WakeAny(self) -> None:
        threads = self._threads
        if threads:
            self._world.Wake(threads.pop(self._world.RandomBelow(len(threads)) if len(threads) > 1 else 0))

    def WakeAll(self) -> None:
        threads, self._threads = self._threads, []
        for thread in threads:
            self._world.Wake(thread)

    def WaitUntil(self, ready: Callable[[], Any], timeout: float | None) -> bool:
        """Waits until ``ready`` holds at a moment when this thread has the baton."""
        if timeout is None:
            while not ready():
                self.Wait(None)
            return True
        until = self._world.now_ns + round(timeout * 1e9)
        while not ready():
            left = (until - self._world.now_ns) / 1e9
            if left <= 0 or not self.Wait(left):
                return bool(ready())
        return True


class Lock:
    """threading.Lock."""

    def __init__(self, world: World):
        self._world = world
        self._held = False
        self._waiters = Waiters(world)
        self.place = mutexes.Place()
        self.holder: SimThread | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._world.Reach("Lock.acquire")
        if mutexes.watch is not None and blocking:
            mutexes.watch.Want(self._world.current, self)
        if self._held:
            if not blocking or timeout == 0:
                return False
            if not self._waiters.WaitUntil(lambda: not self._held, None if timeout < 0 else timeout):
                return False
        self._Take()
        return True

    def _Take(self) -> None:
        self._held = True
        if mutexes.watch is not None:
            mutexes.watch.Took(self._world.current, self)

    def _Give(self) -> None:
        self._held = False
        if mutexes.watch is not None:
            mutexes.watch.Gave(self)
        self._waiters.WakeAny()

    def release(self) -> None:
        self._world.Reach("Lock.release")
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._Give()

    def locked(self) -> bool:
        self._world.Reach("Lock.locked")
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()

    # For Condition

    def IsOwned(self) -> bool:
        return self._held

    def ReleaseSave(self) -> int:
        self._Give()
        return 1

    def AcquireRestore(self, count: int) -> None:
        self._waiters.WaitUntil(lambda: not self._held, None)
        self._Take()


class RLock:
    """threading.RLock."""

    def __init__(self, world: World):
        self._world = world
        self._owner: SimThread | None = None
        self._count = 0
        self._waiters = Waiters(world)
        self.place = mutexes.Place()
        self.holder: SimThread | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        caller = self._world.Reach("RLock.acquire")
        if mutexes.watch is not None and blocking:
            mutexes.watch.Want(caller, self)
        if self._count and self._owner is not caller:
            if not blocking or timeout == 0:
                return False
            if not self._waiters.WaitUntil(lambda: not self._count, None if timeout < 0 else timeout):
                return False
        self._count += 1
        if self._count == 1:
            self._Take(1)
        return True

    def _Take(self, count: int) -> None:
        self._owner, self._count = self._world.current, count
        if mutexes.watch is not None:
            mutexes.watch.Took(self._world.current, self)

    def _Give(self) -> None:
        self._owner, self._count = None, 0
        if mutexes.watch is not None:
            mutexes.watch.Gave(self)
        self._waiters.WakeAny()

    def release(self) -> None:
        caller = self._world.Reach("RLock.release")
        if not self._count or self._owner is not caller:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._Give()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()

    # For Condition

    def IsOwned(self) -> bool:
        return self._count > 0 and self._owner is self._world.current

    def ReleaseSave(self) -> int:
        count = self._count
        self._Give()
        return count

    def AcquireRestore(self, count: int) -> None:
        self._waiters.WaitUntil(lambda: not self._count, None)
        self._Take(count)


class Condition:
    """threading.Condition."""

    def __init__(self, world: World, lock: Any = None):
        if lock is not None and not isinstance(lock, (Lock, RLock)):
            raise TypeError(f"{lock!r} is no lock of this simulation")
        self._world = world
        self._lock: Lock | RLock = RLock(world) if lock is None else lock
        self._waiters = Waiters(world)
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def _CheckOwned(self, what: str) -> None:
        if not self._lock.IsOwned():
            raise RuntimeError(f"cannot {what} on un-acquired lock")

    def wait(self, timeout: float | None = None) -> bool:
        self._world.Reach("Condition.wait")
        self._CheckOwned("wait")
        saved = self._lock.ReleaseSave()
        if mutexes.watch is not None:
            mutexes.watch.Wait(self._world.current, self._lock.place)
        woken = self._waiters.Wait(timeout)
        self._lock.AcquireRestore(saved)
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        until = None if timeout is None else self._world.now_ns + round(timeout * 1e9)
        result = predicate()
        while not result:
            left = None if until is None else (until - self._world.now_ns) / 1e9
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        self._world.Reach("Condition.notify")
        self._CheckOwned("notify")
        for _ in range(min(n, len(self._waiters))):
            self._waiters.WakeFirst()

    def notify_all(self) -> None:
        self._world.Reach("Condition.notify_all")
        self._CheckOwned("notify")
        self._waiters.WakeAll()

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *exc: object) -> Any:
        return self._lock.__exit__(*exc)


class Event:
    """threading.Event."""

    def __init__(self, world: World):
        self._world = world
        self._flag = False
        self._waiters = Waiters(world)

    def is_set(self) -> bool:
        self._world.Reach("Event.is_set")
        return self._flag

    def set(self) -> None:
        self._world.Reach("Event.set")
        self._flag = True
        self._waiters.WakeAll()

    def clear(self) -> None:
        self._world.Reach("Event.clear")
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        self._world.Reach("Event.wait")
        if self._flag:
            return True
        if timeout is not None and timeout <= 0:
            return False
        if mutexes.watch is not None:
            mutexes.watch.Wait(self._world.current, "event")
        return self._waiters.Wait(timeout)


class Semaphore:
    """threading.Semaphore."""

    def __init__(self, world: World, value: int):
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._world = world
        self._value = value
        self._waiters = Waiters(world)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        self._world.Reach("Semaphore.acquire")
        if not self._value:
            if not blocking or (timeout is not None and timeout <= 0):
                return False
            if not self._waiters.WaitUntil(lambda: self._value, timeout):
                return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        self._world.Reach("Semaphore.release")
        self._value += n
        for _ in range(min(n, len(self._waiters))):
            self._waiters.WakeAny()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Queue:
    """Unbounded, many producers, many consumers."""

    def __init__(self, world: World):
        self._world = world
        self._items: deque[Any] = deque()
        self._waiters = Waiters(world)

    def put(self, item: Any) -> None:
        self._world.Reach("Queue.put")
        self._items.append(item)
        self._waiters.WakeFirst()

    def get(self, timeout: float | None = None) -> Any:
        self._world.Reach("Queue.get")
        if not self._items:
            if timeout is not None and timeout <= 0:
                raise QueueEmpty
            if mutexes.watch is not None:
                mutexes.watch.Wait(self._world.current, "queue")
            if not self._waiters.WaitUntil(lambda: self._items, timeout):
                raise QueueEmpty
        return self._items.popleft()

    def qsize(self) -> int:
        self._world.Reach("Queue.qsize")
        return len(self._items)


class Local:
    """threading.local: a carrying thread of the system serves many simulated ones, so it cannot keep the values."""

    def __init__(self, world: World):
        object.__setattr__(self, "_world", world)
        object.__setattr__(self, "_outside", {})

    def _Values(self) -> dict[str, Any]:
        thread = self._world.current
        if thread is None:
            return self._outside
        return thread.locals.setdefault(self, {})

    def __getattr__(self, name: str) -> Any:
        try:
            return self._Values()[name]
        except KeyError:
            raise AttributeError(f"this thread has no {name!r} here") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._Values()[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self._Values()[name]
        except KeyError:
            raise AttributeError(f"this thread has no {name!r} here") from None
