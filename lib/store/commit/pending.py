"""Changes on their way: who waits for them, and the transactions that are not acknowledged yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ganeti.store.base import MAX_TRANSACTION, Change, Row, StoreError, TooLarge, VoterSet
from ganeti.store.commit.peers import MAX_APPEND, Transaction

Done = Callable[[Exception | None], None]


@dataclass
class Entry:
    """A change and its waiter.  ``done`` is None once the client has an answer."""

    change: Change
    done: Done | None
    patient: bool

    def Tell(self, error: Exception | None) -> None:
        done, self.done = self.done, None
        if done is not None:
            try:
                done(error)
            except Exception:
                logging.exception("A waiting client could not be told the end of its change")


@dataclass
class Pending:
    """A transaction of ours that is not acknowledged yet."""

    transaction: Transaction
    entries: list[Entry]
    began: float
    # The set before, if this transaction changes it.
    before: VoterSet | None = None
    after: VoterSet | None = None
    first: bool = False
    started: float | None = None
    """When its changes were taken up, before they went to the own disk."""


class Batch:
    """The changes that go into one transaction, and its rows; ``rest``: those that do not fit."""

    def __init__(self, entries: Sequence[Entry], extra: Sequence[Row]):
        self.entries: list[Entry] = []
        self.rest: list[Entry] = []
        self._rows: dict[tuple[str, str], Row] = {}
        self._size = 0
        for index, entry in enumerate(entries):
            if not self._Add(entry):
                self.rest = list(entries[index:])
                break
        self._Put(extra)

    @property
    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def _Add(self, entry: Entry) -> bool:
        """Prepare a change; False if it has to wait for the next transaction.  One that fails is answered at once."""
        try:
            made = entry.change.Prepare()
        except Exception as err:  # noqa: BLE001 - this change alone fails
            entry.Tell(err)
            return True
        size = sum(len(row.value) for row in made if row.value is not None)
        if size > MAX_TRANSACTION:
            _TakeBack([entry], TooLarge(size))
            return True
        if self.entries and self._size + size > MAX_APPEND:
            entry.change.Withdraw()
            return False
        self._size += size
        self.entries.append(entry)
        self._Put(made)
        return True

    def _Put(self, rows: Sequence[Row]) -> None:
        self._rows.update(((row.kind, row.id), row) for row in rows)

    def Publish(self) -> None:
        """Make acknowledged changes visible to readers."""
        for entry in self.entries:
            Publish(entry)
            entry.Tell(None)

    def TakeBack(self, error: StoreError) -> None:
        """Undo changes that were sent to nobody, the newest first, and answer."""
        _TakeBack(self.entries, error)


def Publish(entry: Entry) -> None:
    try:
        entry.change.Publish()
    except Exception:
        logging.exception("An acknowledged change could not be shown to readers")


def _TakeBack(entries: Sequence[Entry], error: StoreError) -> None:
    for entry in reversed(entries):
        try:
            entry.change.Withdraw()
        except Exception:
            logging.exception("A refused change could not be taken back")
    for entry in entries:
        entry.Tell(error)
