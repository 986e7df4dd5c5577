"""The list of changes that a modify command prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ganeti.cli import output


def PrintChanges(what: str, name: str, changes: Iterable[Sequence[Any]] | None) -> bool:
    """Print ``Modified node N`` and a line for each change; return False if nothing was changed."""
    listed = list(changes or [])
    if not listed:
        return False
    output.ToStdout(f"Modified {what} {name}")
    for item, value in listed:
        output.ToStdout(f" - {item:<5} -> {value}")
    return True
