"""JSON with limits: the one place that writes and reads it (simplejson lives behind this module)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import simplejson

from ganeti import errors

MAX_MESSAGE = 64 * 1024 * 1024
# Bytes of memory that a value may need, and what is reckoned for a list or object, and for each of its members.
MAX_COST = 192 * 1024 * 1024
_CONTAINER_COST = 400
_MEMBER_COST = 100
# While a string is read, each of its escapes ends a part of it.
_ESCAPE_COST = 12
# Of an outsider's number: reading one takes time with the square of its length.
MAX_DIGITS = 400
# Below, every whole number is a float of its own.
_EXACT = 2**53


class TooLargeError(errors.ParseError):
    """A text is longer than the reader allows."""


def _Finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise errors.ParseError(f"number out of range: {text[:40]}")
    return value


def _Whole(text: str) -> int | float:
    value = _Finite(text)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _Short(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise errors.ParseError(f"number of {len(text)} digits, {MAX_DIGITS} are allowed: {text[:40]}")
    return int(text)


# What cannot be written must not be read: 1e999 would become infinite.
_DECODER = simplejson.JSONDecoder(parse_float=_Finite)
# Made once: it costs as much as the text of a small value.
_ENCODER = simplejson.JSONEncoder(separators=(",", ":"), allow_nan=False)
_WHOLE_DECODER = simplejson.JSONDecoder(parse_float=_Whole)
_PROPER_DECODER = simplejson.JSONDecoder(parse_float=_Finite, parse_int=_Short)


def Dump(value: Any, pretty: bool = False) -> str:
    """Return JSON text of ``value``: compact, keys in the order given, ASCII only; ``pretty`` for people."""
    if pretty:
        return simplejson.dumps(value, indent=2, allow_nan=False) + "\n"
    text: str = _ENCODER.encode(value)
    return text


def DumpBytes(value: Any) -> bytes:
    return Dump(value).encode("ascii")


def Decode(text: bytes | bytearray) -> str:
    """Return the text of UTF-8; raises ParseError."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as err:
        raise errors.ParseError(f"not UTF-8 at byte {err.start}") from err


def Cost(chunks: Iterable[bytes | bytearray]) -> int:
    """Estimate the bytes of memory that the value of a JSON text needs, generously, without parsing it."""
    members = containers = escapes = size = 0
    narrow = True
    for chunk in chunks:
        size += len(chunk)
        members += chunk.count(b",")
        containers += chunk.count(b"[") + chunk.count(b"{")
        here = chunk.count(b"\\")
        escapes += here
        narrow = narrow and chunk.isascii() and not (here and b"\\u" in chunk)
    # One rare character makes every other one of its string take four bytes.
    needed = members * _MEMBER_COST + containers * _CONTAINER_COST + escapes * _ESCAPE_COST
    return size * (1 if narrow else 4) + needed


def CheckCost(chunks: Iterable[bytes | bytearray]) -> int:
    """Return the estimate; raise ParseError if it is too high."""
    cost = Cost(chunks)
    if cost > MAX_COST:
        raise errors.ParseError(
            f"The message would take about {cost >> 20} MiB of memory, {MAX_COST >> 20} are allowed: send it in parts"
        )
    return cost


def Load(text: str | bytes, limit: int = MAX_MESSAGE) -> Any:
    """Return the value of a JSON text; every kind of bad input is a ParseError that says where."""
    return _Load(text, limit, _DECODER)


def _Load(text: str | bytes, limit: int, decoder: simplejson.JSONDecoder) -> Any:
    if len(text) > limit:
        raise TooLargeError(f"JSON text of {len(text)} bytes is over the limit of {limit}")
    if isinstance(text, bytes):
        text = Decode(text)
    try:
        return decoder.decode(text)
    except RecursionError as err:
        raise errors.ParseError("JSON text is nested too deeply") from err
    except ValueError as err:
        raise errors.ParseError(f"not valid JSON: {err}") from err


def LoadWhole(text: str | bytes, limit: int = MAX_MESSAGE) -> Any:
    """Load with numbers like 1.0 as integers, which is what clients with strict types want to be sent."""
    return _Load(text, limit, _WHOLE_DECODER)


def LoadProper(text: str | bytes, limit: int = MAX_MESSAGE) -> Any:
    """Load for what outsiders write: texts with half a character and endless numbers are rejected as well.

    JSON can spell one (``\\udc80``), as Python does for bytes of a command line that are not UTF-8, but no file, header or
    environment could ever take it.
    """
    if isinstance(text, bytes):
        text = Decode(text)
    value = _Load(text, limit, _PROPER_DECODER)
    # Looking for the one character first is a hundred times as fast where there is none.
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        CheckTexts(value)
    return value


def HasNul(value: Any) -> bool:
    """Return whether a text anywhere in ``value`` has a NUL, which no file name, command line or variable can have."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            left += item
            left += item.values()
        elif isinstance(item, list):
            left += item
    return False


def CheckTexts(value: Any) -> None:
    """Raise ParseError if a text in the value cannot be written as UTF-8."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError as err:
                around = repr(item[max(0, err.start - 20) : err.start])
                raise errors.ParseError(f"not UTF-8: half a character after {around}") from err
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
