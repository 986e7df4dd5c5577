"""How long tests wait before they take something to hang: longer where several processes share a CPU.

Such times are no measure of the product; those that are stand in the tests themselves.
"""

from __future__ import annotations

import os
import time

MOST = 5.0
"""So many times as long at most, however busy the machine is."""


def Shared() -> float:
    """Return how many processes share a CPU, on an average of the last minute; from 1 to ``MOST``."""
    return min(max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0), MOST)


class Deadline:
    """So many seconds from now, or more of them if the machine turns out to be busy."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._began = time.monotonic()

    def Left(self) -> float:
        """Return the seconds that are left; 0 or less: it has passed."""
        return self._seconds * Shared() - (time.monotonic() - self._began)

    def Passed(self) -> bool:
        return self.Left() <= 0
