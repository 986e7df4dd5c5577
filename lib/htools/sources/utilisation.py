"""Utilisation files: ``-U`` (doc/reference/htools.md 3.6)."""

from __future__ import annotations

from ganeti.htools.model.entities import Load
from ganeti.htools.sources.loading import LoadError
from ganeti.htools.sources.text import ReadReal


def Parse(text: str) -> dict[str, Load]:
    """Return instance name -> utilisation; raises LoadError."""
    loads = {}
    for line in text.splitlines():
        name, *parts = line.split(" ")
        if len(parts) != 4:
            raise LoadError(f"Cannot parse line {line}")
        loads[name] = Load(*(ReadReal(name, part) for part in parts))
    return loads
