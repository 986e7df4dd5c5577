"""QEMU's way of writing options: ``head,key=value,...`` with commas in heads and values doubled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ganeti import errors

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def Quote(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).replace(",", ",,")


def Opt(head: str, values: Mapping[str, Any]) -> str:
    """Return one option's argument; keys whose value is None are left out.

    Nothing in head or values can begin another option; a key that could is a HypervisorError.
    """
    parts = [Quote(head)] if head else []
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            raise errors.HypervisorError(f"'{key[:80]}' is not a valid name of a QEMU option")
        if value is not None:
            parts.append(f"{key}={Quote(value)}")
    return ",".join(parts)
