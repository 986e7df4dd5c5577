"""Runs that several tests look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from simulation.harness.play import Result

R = TypeVar("R", bound=Result)


class Remembered(Generic[R]):
    """Runs of seeds; those up to ``last`` are made once."""

    def __init__(self, run: Callable[[int], R], last: int):
        self._run, self._last = run, last
        self._made: dict[int, R] = {}

    def __call__(self, seed: int) -> R:
        if seed > self._last:
            return self._run(seed)
        if seed not in self._made:
            self._made[seed] = self._run(seed)
        return self._made[seed]
