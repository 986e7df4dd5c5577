"""QEMU's way of writing options: ``head,key=value,...`` with commas in values doubled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def Quote(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).replace(",", ",,")


def Opt(head: str, values: Mapping[str, Any]) -> str:
    """One option's argument; keys whose value is None are left out."""
    parts = [head] if head else []
    parts += [f"{key}={Quote(value)}" for key, value in values.items() if value is not None]
    return ",".join(parts)
