"""Threads of the master that look at the configuration again when it has changed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ganeti import runtime
from ganeti.store import StoreError

if TYPE_CHECKING:
    from ganeti.store import Position, Row, Store

# Seconds before the next turn after one that ended by an error nobody expected.
AFTER_ERROR = 10.0


class WokenThread:
    """A thread that takes a turn when rows of some kinds have changed, or after a while.

    An error that nobody expected is logged, and the next turn follows: what waits for this thread must not wait forever.
    """

    def __init__(self, store: Store, name: str, kinds: Collection[str]):
        self._store = store
        self._name = name
        self._kinds = frozenset(kinds)
        self._wake = runtime.Event()
        self._stopping = False
        self._thread = runtime.Thread(self._Run, name)

    def Start(self) -> None:
        self._store.Listen(self._Changed)
        self._wake.set()
        self._thread.start()

    def Stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def Turn(self) -> float | None:
        """Do what is due; return the seconds until the next turn, or None to wait for a change."""
        raise NotImplementedError

    def _Changed(self, _position: Position, rows: Sequence[Row]) -> None:
        if any(row.kind in self._kinds for row in rows):
            self._wake.set()

    def _Run(self) -> None:
        pause: float | None = None
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._stopping:
                return
            try:
                pause = self.Turn()
            except StoreError as err:
                logging.info("Thread %s ends: %s", self._name, err)
                return
            except Exception:
                logging.exception("A turn of thread %s ended by an error", self._name)
                pause = AFTER_ERROR
