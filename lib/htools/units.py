"""Sizes with units (doc/reference/htools.md 1.4)."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_SIZE = re.compile(r"(-?\d+)\s*([A-Za-z]*)", re.ASCII)
_DECIMAL = Fraction(1000, 1024)
_UNITS: Final = {
    "": Fraction(1), "m": Fraction(1), "mib": Fraction(1),
    "g": Fraction(1024), "gib": Fraction(1024),
    "t": Fraction(1024**2), "tib": Fraction(1024**2),
    "M": _DECIMAL**2, "mb": _DECIMAL**2,
    "G": 1000 * _DECIMAL**2, "gb": 1000 * _DECIMAL**2,
    "T": 1000**2 * _DECIMAL**2, "tb": 1000**2 * _DECIMAL**2,
}  # fmt: skip


class BadSize(ValueError):
    """A text does not describe a size."""


def ParseSize(text: str) -> int:
    """Return MiB, rounded towards zero; raises BadSize."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadSize(f"Can't parse string '{text}'")
    unit = match.group(2)
    factor = _UNITS.get(unit if len(unit) <= 1 else unit.lower())
    if factor is None:
        raise BadSize(f"Unknown unit '{unit}'")
    return int(int(match.group(1)) * factor)
