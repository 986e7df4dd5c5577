"""Threads of the master that look again when the configuration has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from ganeti.server.woken import WokenThread
from ganeti.store import Position, Row, Store, StoreError

_AT = cast(Position, None)


class _Listened:
    """What the thread uses of a store."""

    def Listen(self, listener: Callable[[Position, Sequence[Row]], None]) -> None:
        self.tell = listener


class _Looker(WokenThread):
    def __init__(self, store: _Listened, *ends: Exception | None):
        super().__init__(cast(Store, store), "Looker", ["disk"])
        self._ends = list(ends)
        self.turns = threading.Semaphore(0)

    def Turn(self) -> float | None:
        end = self._ends.pop(0) if self._ends else None
        self.turns.release()
        if end is not None:
            raise end
        return None

    def Hear(self, kind: str) -> None:
        self._Changed(_AT, [Row(kind, "1", "{}")])

    @property
    def woken(self) -> bool:
        return self._wake.is_set()

    @property
    def thread(self) -> Any:
        return self._thread


def _Start(*ends: Exception | None) -> tuple[_Listened, _Looker]:
    store = _Listened()
    looker = _Looker(store, *ends)
    looker.Start()
    assert looker.turns.acquire(timeout=30)
    return store, looker


def test_an_error_nobody_expected_does_not_end_it() -> None:
    store, looker = _Start(KeyError("gone"))
    store.tell(_AT, [Row("disk", "uuid", "{}")])
    assert looker.turns.acquire(timeout=30)
    looker.Stop()
    looker.thread.join(30)
    assert not looker.thread.is_alive()


def test_only_rows_of_its_kinds_wake_it() -> None:
    # Nothing takes a turn: a wake-up would stay to be seen.
    looker = _Looker(_Listened())
    looker.Hear("job")
    assert not looker.woken
    looker.Hear("disk")
    assert looker.woken


def test_it_ends_with_the_store() -> None:
    _, looker = _Start(StoreError("this node is no longer the master"))
    looker.thread.join(30)
    assert not looker.thread.is_alive()
