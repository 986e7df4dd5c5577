"""How much of a transfer has passed, how fast, and when it may be over."""

from __future__ import annotations

from collections import deque

SAMPLE_SECONDS = 5.0
# Of so many samples the oldest is what the newest is compared with: a minute.
_SAMPLES = 13
_MIB = 1 << 20


class Progress:
    """Counts bytes; times are seconds of one clock.  ``expected``: bytes in all, None or 0 if nobody knows."""

    def __init__(self, expected: int | None, now: float):
        self.expected = expected
        self._count = 0
        self._samples: deque[tuple[float, int]] = deque([(now, 0)], _SAMPLES)

    def Restart(self, now: float) -> None:
        """Forget the time during which nothing could pass, as nobody was connected."""
        self._samples = deque([(now, self._count)], _SAMPLES)

    def Add(self, count: int) -> None:
        self._count += count

    def Sample(self, now: float) -> None:
        """Note where we are; to be called every SAMPLE_SECONDS."""
        self._samples.append((now, self._count))

    def Values(self) -> dict[str, float | None]:
        """Return the status's values: MiB, MiB per second of the last minute, percent, seconds that are left."""
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        speed = (after - before) / (ended - began) if ended > began else None
        percent = left = None
        if self.expected:
            percent = min(100.0, 100.0 * self._count / self.expected)
            if speed:
                left = max(0.0, (self.expected - self._count) / speed)
        return {
            "progress_mbytes": self._count / _MIB,
            "progress_throughput": None if speed is None else speed / _MIB,
            "progress_percent": percent,
            "progress_eta": left,
        }
