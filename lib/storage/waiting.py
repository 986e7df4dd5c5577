"""Waiting for what can only be asked for."""

from __future__ import annotations

from collections.abc import Callable

from ganeti import runtime

# Seconds between two looks: the first, how much longer each next one, the longest.
_FIRST, _FACTOR, _LONGEST = 0.1, 1.5, 2.0


def Until(fits: Callable[[], bool], seconds: float, longest: float = _LONGEST) -> bool:
    """Look again and again, more slowly each time, until it fits; return whether it did within ``seconds``."""
    deadline, delay = runtime.Monotonic() + seconds, _FIRST
    while not fits():
        if runtime.Monotonic() + delay > deadline:
            return False
        runtime.Sleep(delay)
        delay = min(delay * _FACTOR, longest)
    return True
