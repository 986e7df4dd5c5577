"""A readers/writer lock with priorities, timeouts and deletion (doc/reference/locking.md 2).

Not recursive.  Wrong use by the holder (releasing what is not owned, taking twice) is an AssertionError and changes
nothing.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ganeti import errors, runtime
from ganeti.locking.monitor import LockMonitor, LockRow

if TYPE_CHECKING:
    from ganeti.runtime import protocols

DEFAULT_PRIORITY = 0

# A request with a shorter timeout is a try-lock: it never enters the queue.
_TRY_TIMEOUT = 0.001


class _Entry:
    """One place in a queue: one exclusive waiter, or a group of sharers."""

    __slots__ = ("condition", "shared", "waiting")

    def __init__(self, mutex: protocols.Lock, shared: bool):
        self.condition = runtime.Condition(mutex)
        self.shared = shared
        self.waiting: dict[int, str] = {}


class SharedLock:
    """A lock held by one exclusive owner or by any number of sharers.

    Requests wait in one first-in-first-out queue per priority.  Sharers that wait form a group which later sharers of
    the same priority join wherever it stands; once a group has been woken nobody joins it, so writers are
    reached in the end.
    """

    def __init__(self, name: str, monitor: LockMonitor | None = None):
        self.name = name
        self._monitor = monitor or LockMonitor()
        self._mutex = runtime.Lock()
        self._sharers: dict[int, str] = {}
        self._exclusive: tuple[int, str] | None = None
        self._deleted = False
        # Only non-empty queues are kept; at most 40 priorities exist, usually one.
        self._queues: dict[int, deque[_Entry]] = {}
        self._joinable: dict[int, _Entry] = {}
        self._monitor.Register(self)

    def __repr__(self) -> str:
        return f"<SharedLock {self.name}>"

    # --- what the holder and the asker call ---------------------------------------------------------------------------

    def acquire(self, shared: int = 0, timeout: float | None = None, priority: int | None = None) -> bool:
        """Take the lock; False when ``timeout`` seconds were not enough (None: no limit), or LockMonitor.EndWaits was called.

        Raises LockError when the lock is, or while waiting becomes, deleted.
        """
        with self._mutex:
            return self._Acquire(bool(shared), timeout, DEFAULT_PRIORITY if priority is None else priority)

    def release(self) -> None:
        """Give the lock back and wakes the head of the queue when the lock became free."""
        with self._mutex:
            me = runtime.ThreadIdent()
            assert self._Owns(me), f"{self.name}: release by a thread that does not own it"
            if self._exclusive is not None:
                self._exclusive = None
            else:
                del self._sharers[me]
            if not self._sharers:
                self._WakeHead()

    def downgrade(self) -> bool:
        """Turn exclusive ownership into shared; a sharer's call changes nothing and wakes nobody."""
        with self._mutex:
            me = runtime.ThreadIdent()
            assert self._Owns(me), f"{self.name}: downgrade by a thread that does not own it"
            if self._exclusive is None:
                return True
            self._sharers[me] = self._exclusive[1]
            self._exclusive = None
            if self._queues:
                priority = min(self._queues)
                group = self._joinable.get(priority)
                if group is not None:
                    # Sharers come before writers of the same urgency here: the downgrade was made for them.
                    self._queues[priority].remove(group)
                    self._queues[priority].appendleft(group)
                self._WakeHeadIfCompatible()
        return True

    def delete(self, timeout: float | None = None, priority: int | None = None) -> bool:
        """End the lock's life: needs (or takes) it exclusively; every waiter and later caller gets LockError.

        Returns False when exclusive ownership could not be had in time; then nothing changed.
        """
        with self._mutex:
            me = runtime.ThreadIdent()
            assert me not in self._sharers, f"{self.name}: delete by a thread that shares it"
            self._CheckDeleted()
            owned = self._exclusive is not None and self._exclusive[0] == me
            if not owned and not self._Acquire(False, timeout, DEFAULT_PRIORITY if priority is None else priority):
                return False
            self._deleted = True
            self._exclusive = None
            for queue in self._queues.values():
                for entry in queue:
                    entry.condition.notify_all()
            return True

    def is_owned(self, shared: int = -1) -> bool:
        """Return whether the calling thread owns the lock: -1 in any mode, 0 exclusively, 1 shared."""
        with self._mutex:
            me = runtime.ThreadIdent()
            exclusive = self._exclusive is not None and self._exclusive[0] == me
            if shared < 0:
                return exclusive or me in self._sharers
            return me in self._sharers if shared else exclusive

    def Info(self) -> LockRow:
        """Return mode, owners and waiters in the order of service, at one instant."""
        with self._mutex:
            if self._deleted:
                mode: str | None = "deleted"
            elif self._exclusive is not None:
                mode = "exclusive"
            else:
                mode = "shared" if self._sharers else None
            owners = [self._exclusive[1]] if self._exclusive is not None else list(self._sharers.values())
            pending = [
                ("shared" if entry.shared else "exclusive", list(entry.waiting.values()))
                for priority in sorted(self._queues)
                for entry in self._queues[priority]
            ]
        return LockRow(self.name, mode, owners or None, pending)

    # --- below: the mutex is held -------------------------------------------------------------------------------------

    def _CheckDeleted(self) -> None:
        if self._deleted:
            raise errors.LockError(f"Deleted lock {self.name}")

    def _Owns(self, ident: int) -> bool:
        return ident in self._sharers or (self._exclusive is not None and self._exclusive[0] == ident)

    def _Compatible(self, shared: bool) -> bool:
        return self._exclusive is None and (shared or not self._sharers)

    def _Take(self, ident: int, shared: bool) -> None:
        if shared:
            self._sharers[ident] = self._monitor.OwnerName()
        else:
            self._exclusive = (ident, self._monitor.OwnerName())

    def _Acquire(self, shared: bool, timeout: float | None, priority: int) -> bool:
        self._CheckDeleted()
        me = runtime.ThreadIdent()
        assert not self._Owns(me), f"{self.name}: acquired twice by one thread"
        if not self._queues and self._Compatible(shared):
            self._Take(me, shared)
            return True
        if timeout is not None and timeout < _TRY_TIMEOUT:
            return False
        deadline = None if timeout is None else runtime.Monotonic() + timeout
        entry = self._Enqueue(me, shared, priority)
        self._monitor.waits[me] = self
        try:
            while not (self._Head() is entry and self._Compatible(shared)):
                remaining = None if deadline is None else deadline - runtime.Monotonic()
                if (remaining is not None and remaining <= 0) or self._monitor.IsHurried():
                    return False
                entry.condition.wait(remaining)
                self._CheckDeleted()
            self._Take(me, shared)
            return True
        finally:
            del self._monitor.waits[me]
            self._Leave(me, entry, priority)

    def Wake(self, ident: int) -> None:
        """Make a thread that waits look again whether it still should."""
        with self._mutex:
            for queue in self._queues.values():
                for entry in queue:
                    if ident in entry.waiting:
                        entry.condition.notify_all()

    def _Head(self) -> _Entry | None:
        return self._queues[min(self._queues)][0] if self._queues else None

    def _Enqueue(self, ident: int, shared: bool, priority: int) -> _Entry:
        entry = self._joinable.get(priority) if shared else None
        if entry is None:
            entry = _Entry(self._mutex, shared)
            self._queues.setdefault(priority, deque()).append(entry)
            if shared:
                self._joinable[priority] = entry
        entry.waiting[ident] = self._monitor.OwnerName()
        return entry

    def _Leave(self, ident: int, entry: _Entry, priority: int) -> None:
        """Take a waiter off its entry; the last one removes the entry, and whoever that brings to the head may go."""
        del entry.waiting[ident]
        if entry.waiting:
            return
        was_head = self._Head() is entry
        self._queues[priority].remove(entry)
        if not self._queues[priority]:
            del self._queues[priority]
        if self._joinable.get(priority) is entry:
            del self._joinable[priority]
        if was_head and not self._deleted:
            self._WakeHeadIfCompatible()

    def _WakeHeadIfCompatible(self) -> None:
        """Wake the head if it could have the lock as things are.

        Release alone would do (doc/reference/locking.md 2.4), but then a waiter whose predecessor gave up would sleep on beside
        a lock it could have.
        """
        head = self._Head()
        if head is not None and self._Compatible(head.shared):
            self._WakeHead()

    def _WakeHead(self) -> None:
        head = self._Head()
        if head is None:
            return
        if head.shared:
            # Nobody joins a group that has been woken, else a stream of sharers would hold off writers without end.
            for priority, group in list(self._joinable.items()):
                if group is head:
                    del self._joinable[priority]
        head.condition.notify_all()
