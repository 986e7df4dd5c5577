"""A trouble that lasts is logged when it begins, now and then while it lasts, and when it is over."""

from __future__ import annotations

import logging

from ganeti import runtime

EVERY = 60.0
"""Seconds between two lines about the same trouble; a full disk would fill itself with them otherwise."""


class Trouble:
    """One kind of trouble.  ``what`` begins each line; any thread may call it."""

    def __init__(self, what: str):
        self._what = what
        self._count = 0
        self._next = 0.0

    def Log(self, reason: object) -> None:
        """Log that the trouble began, or continues."""
        now = runtime.Monotonic()
        self._count += 1
        if self._count == 1:
            logging.error("%s: %s", self._what, reason)
        elif now >= self._next:
            logging.error("%s: %s (%d times so far)", self._what, reason, self._count)
        else:
            return
        self._next = now + EVERY

    def Over(self) -> None:
        """Log that the trouble is over, if there was any."""
        count, self._count = self._count, 0
        if count:
            logging.info("%s: that is over", self._what)
