"""What all targets share: rounds from a seed, and what is reported when a promise is broken."""

from __future__ import annotations

import random
import time
from types import TracebackType
from typing import Any, Self

from ganeti import errors

ROUND_SECONDS = 20.0
"""No input may keep anything busy for longer."""


class Broken(AssertionError):
    """An input that broke a promise; its text has the seed of the round."""


class Target:
    """One door.  ``Round`` tries one damaged input; an error of ours is an answer, any other exception is not.  ``ROUNDS``: in a short run."""

    ROUNDS = 200
    ANSWERS: tuple[type[BaseException], ...] = (errors.GenericError,)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release what the target holds."""

    def Round(self, rng: random.Random) -> Any:
        """Try one input; returns what shows it in a report."""
        raise NotImplementedError

    def Check(self) -> None:
        """Raise Broken if something that only shows afterwards went wrong."""

    def Run(self, rounds: int, seed: int) -> None:
        for number in range(rounds):
            name = f"{seed}.{number}"
            started = time.monotonic()
            try:
                self.Round(random.Random(name))
            except self.ANSWERS:
                pass
            except Broken:
                raise
            except Exception as err:
                raise Broken(f"{type(self).__name__}, round {name}: {type(err).__name__}: {err}") from err
            if time.monotonic() - started > ROUND_SECONDS:
                raise Broken(f"{type(self).__name__}, round {name}: took {time.monotonic() - started:.0f} s")
        self.Check()
