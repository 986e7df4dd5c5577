"""Clock and random numbers of the real machine."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

Time = time.time
Monotonic = time.monotonic
RandomBytes = os.urandom

_random: tuple[int, random.Random] | None = None


def Sleep(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def Random() -> random.Random:
    """Return the generator of this process: a forked child gets its own, so that two never draw the same numbers."""
    global _random
    pid = os.getpid()
    if _random is None or _random[0] != pid:
        import random

        _random = (pid, random.Random())  # noqa: S311 (not for secrets)
    return _random[1]
