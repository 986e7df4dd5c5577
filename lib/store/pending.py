"""Changes on their way: who waits for them, and the transactions that are not acknowledged yet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from ganeti.store.base import Change, VoterSet
from ganeti.store.peers import Transaction

Done = Callable[[Exception | None], None]


@dataclass
class Entry:
    """A change and who waits for it.  ``done`` is None once the client has heard something."""

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
