"""Looks at the node that many disks share: within one call each program that lists things runs once.

Without ``Sharing`` every look is a new one.  What changes something calls ``Forget``.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_Seen = TypeVar("_Seen")

_shared: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("looks", default=None)


@contextlib.contextmanager
def Sharing() -> Iterator[None]:
    """Let looks be shared until the end of the block, by the calling thread only."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def Once(name: str, look: Callable[[], _Seen]) -> _Seen:
    """Return what ``look`` saw, the first time or now."""
    seen = _shared.get()
    if seen is None:
        return look()
    if name not in seen:
        seen[name] = look()
    found: _Seen = seen[name]
    return found


def Forget(*names: str) -> None:
    """Have the next look be a new one: these, or all of them."""
    seen = _shared.get()
    if seen is not None:
        for name in names or list(seen):
            seen.pop(name, None)
