"""Who owns and who waits: the rows behind the query kind ``lock`` (doc/reference/locking.md 6)."""

from __future__ import annotations

import weakref
from typing import NamedTuple, Protocol

from ganeti import runtime
from ganeti.utils.text import NiceSort, NiceSortKey


class LockRow(NamedTuple):
    """One lock at one instant: mode ``exclusive``, ``shared``, ``deleted`` or None; pending in the order of service."""

    name: str
    mode: str | None
    owner: list[str] | None
    pending: list[tuple[str, list[str]]]


class LockSource(Protocol):
    """Something that can tell the state of one lock."""

    def Info(self) -> LockRow: ...


class Waitable(Protocol):
    """Something a thread waits for."""

    def Wake(self, ident: int) -> None: ...


class RowsSource(Protocol):
    """A source of further rows: the queue shows what its jobs wait for."""

    def LockRows(self) -> list[LockRow]: ...


class LockMonitor:
    """All locks, by weak reference, and the names of their owners.

    Listing never holds more than one lock's mutex at a time.
    """

    def __init__(self) -> None:
        self._mutex = runtime.Lock()
        self._counter = 0
        self._locks: weakref.WeakKeyDictionary[LockSource, int] = weakref.WeakKeyDictionary()
        self._sources: weakref.WeakKeyDictionary[RowsSource, int] = weakref.WeakKeyDictionary()
        # By thread ident; each thread writes its own key only.
        self._owner_names: dict[int, str] = {}
        # What threads wait for, and the names of those that are not to wait.
        self.waits: dict[int, Waitable] = {}
        self._hurried: set[str] = set()

    def SetOwnerName(self, name: str | None) -> None:
        """Name the calling thread in listings; None goes back to the thread's own name."""
        if name is None:
            before = self._owner_names.pop(runtime.ThreadIdent(), None)
            if before is not None:
                self._hurried.discard(before)
        else:
            self._owner_names[runtime.ThreadIdent()] = name

    def EndWaits(self, name: str) -> None:
        """End the wait of the thread with this name, and each later one while it has the name, as if time were over.

        The name is marked before the thread is looked for, and a thread that waits registers before it looks at the
        mark: no wait is missed.
        """
        self._hurried.add(name)
        idents = [ident for ident, owner in list(self._owner_names.items()) if owner == name]
        if not idents:
            self._hurried.discard(name)
        for ident in idents:
            wait = self.waits.get(ident)
            if wait is not None:
                wait.Wake(ident)

    def IsHurried(self) -> bool:
        """Return whether the calling thread is not to wait."""
        return bool(self._hurried) and self._owner_names.get(runtime.ThreadIdent()) in self._hurried

    def OwnerName(self) -> str:
        """Return what locks and waits of the calling thread are shown under."""
        return self._owner_names.get(runtime.ThreadIdent()) or runtime.ThreadName()

    def Register(self, lock: LockSource) -> None:
        with self._mutex:
            self._counter += 1
            self._locks[lock] = self._counter

    def AddSource(self, source: RowsSource) -> None:
        """Add a source of further rows; it is kept by weak reference."""
        with self._mutex:
            self._counter += 1
            self._sources[source] = self._counter

    def Rows(self) -> list[LockRow]:
        """Return all locks, by natural order of their names; of two with one name (one re-created) the older first."""
        with self._mutex:
            locks = list(self._locks.items())
            sources = list(self._sources.items())
        found = [(number, 0, lock.Info()) for lock, number in locks]
        for source, number in sources:
            found.extend((number, index, row) for index, row in enumerate(source.LockRows()))
        found.sort(key=lambda item: (NiceSortKey(item[2].name), item[0], item[1]))
        return [_Sorted(row) for _, _, row in found]


def _Sorted(row: LockRow) -> LockRow:
    owner = None if row.owner is None else NiceSort(row.owner)
    pending = [(mode, NiceSort(names)) for mode, names in row.pending]
    return row._replace(owner=owner, pending=pending)
