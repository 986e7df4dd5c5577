"""How numbers are written (doc/reference/htools.md 23.3)."""

from __future__ import annotations

import decimal
import math

_FIXED_FROM, _FIXED_BELOW = 0.1, 1e7


def _Special(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return None


def Fixed(number: float, digits: int) -> str:
    """Write with so many decimals: the shortest representation of the number, rounded half to even."""
    special = _Special(number)
    if special is not None:
        return special
    exact = decimal.Decimal(repr(float(number)))
    with decimal.localcontext() as context:
        context.prec = 400
        rounded = exact.quantize(decimal.Decimal(1).scaleb(-digits), decimal.ROUND_HALF_EVEN)
    return f"{rounded:f}"


def Shown(number: float) -> str:
    """Write a real in the shortest way: ``2.5``, ``0.0``, ``1.0e-2``, ``2.5e7``."""
    special = _Special(number)
    if special is not None:
        return special
    sign, digits, exponent = decimal.Decimal(repr(float(number))).normalize().as_tuple()
    mark = "-" if sign else ""
    if number == 0:
        return f"{mark}0.0"
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    if _FIXED_FROM <= abs(number) < _FIXED_BELOW:
        point = len(text) + exponent
        if point <= 0:
            return f"{mark}0.{'0' * -point}{text}"
        text = text.ljust(point, "0")
        return f"{mark}{text[:point]}.{text[point:] or '0'}"
    return f"{mark}{text[0]}.{text[1:] or '0'}e{len(text) + exponent - 1}"


def Balanced(number: float) -> str:
    """Write one of the numbers of "already well balanced": six decimals in either notation of ``Shown``."""
    special = _Special(number)
    if special is not None:
        return special
    if number == 0 or _FIXED_FROM <= abs(number) < _FIXED_BELOW:
        return Fixed(number, 6)
    power = len(_Digits(number)) + _Exponent(number) - 1
    mantissa = Fixed(float(decimal.Decimal(repr(float(number))).scaleb(-power)), 6)
    return f"{mantissa}e{power}"


def _Digits(number: float) -> tuple[int, ...]:
    return decimal.Decimal(repr(float(number))).normalize().as_tuple().digits


def _Exponent(number: float) -> int:
    exponent = decimal.Decimal(repr(float(number))).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent
