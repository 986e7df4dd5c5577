"""How long each try for locks may take (doc/reference/locking.md 9)."""

from __future__ import annotations

from ganeti import constants, runtime

MIN_WAIT = 1.0
MAX_WAIT = 15.0
# Ten hours for the way from the normal to the highest priority.
TOTAL_WAIT = 10 * 3600 / (constants.OP_PRIO_NORMAL - constants.OP_PRIO_HIGHEST)


def _Series() -> tuple[float, ...]:
    result = [MIN_WAIT]
    while sum(result) < TOTAL_WAIT:
        result.append(min(MAX_WAIT, max(MIN_WAIT, (result[-1] * 1.05) ** 1.25)))
    return tuple(result)


SERIES = _Series()


class LockAttempts:
    """The time-outs of one opcode at one priority: each a little longer, varied by 5 %, in the end none at all."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def Peek(self) -> float | None:
        """Return the next time-out without its variation; None: wait without a limit."""
        return SERIES[self._next] if self._next < len(SERIES) else None

    def Next(self) -> float | None:
        timeout = self.Peek()
        if timeout is None:
            return None
        self._next += 1
        return timeout + timeout * 0.1 * runtime.Random().random() - timeout * 0.05
