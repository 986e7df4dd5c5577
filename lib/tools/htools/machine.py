"""Lines for programs: ``PREFIX_KEY=VALUE`` (doc/reference/htools.md 15.5, 16)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ganeti.tools.htools.output import Streams

_PLAIN = re.compile(r"[A-Za-z0-9.]*", re.ASCII)


def Print(streams: Streams, prefix: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Print pairs; a value with anything but letters, digits and dots stands in quotes."""
    streams.Out(*(f"{prefix}{key}={value if _PLAIN.fullmatch(value) else _Quoted(value)}" for key, value in pairs))


def _Quoted(value: str) -> str:
    escaped = value.replace("'", "'\\''")
    return f"'{escaped}'"
