"""Output of a quickstart: every step, how long it took, and why one failed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ganeti import errors, runtime


class QuickstartError(errors.GenericError):
    """A step failed."""


def Say(text: str = "") -> None:
    print(text, flush=True)


@contextlib.contextmanager
def Step(text: str) -> Iterator[None]:
    sys.stdout.write(f"  {text} ... ")
    sys.stdout.flush()
    started = runtime.Monotonic()
    try:
        yield
    except BaseException:
        Say("failed")
        raise
    Say(f"{runtime.Monotonic() - started:.1f} s")
