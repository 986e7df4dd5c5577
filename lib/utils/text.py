"""Texts for and from people: sizes with units, lists in natural order."""

from __future__ import annotations

import collections
import functools
import math
import re
import time
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from ganeti import errors, runtime

_Item = TypeVar("_Item", bound=Hashable)
_RUNS = re.compile(r"(\d{1,4000})")
_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)
_FACTORS = {"": 1, "m": 1, "g": 1024, "t": 1024 * 1024}
_BACKSLASHES = re.compile(r"\\+$")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TIMESPEC_FACTORS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_TIMESPEC_HINT = "write a number of seconds, or one with m, h, d or w, such as 30m"
_MAX_LENGTH = 64
SIZE_STEP = 4  # MiB
# More digits than this do not fit a number of any sense; int() refuses thousands of them.


def Suggestion(word: str, names: Iterable[str]) -> str:
    """Return ``Did you mean 'x'?`` for up to three names that ``word`` may stand for; empty if there is none."""
    from difflib import get_close_matches  # needed after a mistake only; every command loads this module

    word, known = word[:_MAX_LENGTH], list(names)
    # A word is often the beginning of a longer name, or a part of it, which difflib does not count as close.
    near = [name for name in known if len(word) > 2 and word in name]
    near += [name for name in get_close_matches(word, known, n=3) if name not in near]
    return "Did you mean " + " or ".join(f"'{name}'" for name in near[:3]) + "?" if near else ""


def JoinOr(words: Sequence[str]) -> str:
    """Return ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def Repeated(items: Iterable[_Item]) -> list[_Item]:
    """Return the items that occur more than once, each of them once, in the order in which they first occur."""
    return [item for item, count in collections.Counter(items).items() if count > 1]


def JoinEscaped(pieces: Iterable[str], separator: str = ",") -> str:
    """Join pieces, so that SplitEscaped returns them."""
    return separator.join(p.replace("\\", "\\\\").replace(separator, "\\" + separator) for p in pieces)


def SplitEscaped(text: str, separator: str = ",") -> list[str]:
    """Split where the separator is not escaped; a backslash makes the next character a plain one."""
    pieces: list[str] = []
    pending = ""
    for piece in text.split(separator):
        pending += piece
        tail = _BACKSLASHES.search(piece)
        if tail and len(tail[0]) % 2:
            pending += separator
        else:
            pieces.append(pending)
            pending = ""
    if pending:  # a lone backslash at the very end stands for itself
        pieces.append(pending[: -len(separator)])
    return [_ESCAPED.sub(r"\1", piece) for piece in pieces]


def JoinFirst(words: Sequence[str], most: int) -> str:
    """Return ``a, b and 7 more``, with ``most`` of the words."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


@functools.lru_cache(maxsize=16384)
def Counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 node``, ``3 nodes``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def NiceSortKey(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key under which ``node2`` comes before ``node10`` (doc/reference/queries.md 2).

    Kept, because the same names of nodes and instances are sorted at every change of the configuration.
    """
    key: list[tuple[int, int, str]] = []
    for index, run in enumerate(_RUNS.split(text)):
        if index % 2:  # between the texts stand the numbers
            key.append((0, int(run), ""))
        elif run:
            key.append((1, 0, run))
    return tuple(key)


def TryingAgain(seconds: float) -> str:
    """Return what people are told while something is tried for so many seconds more."""
    return f"trying again until {time.strftime('%H:%M:%S', time.localtime(runtime.Time() + seconds))}"


def NiceSort(names: Iterable[str]) -> list[str]:
    return sorted(names, key=NiceSortKey)


def Printable(text: str, keep: str = "") -> str:
    """Return ``text`` with everything escaped that could steer a terminal: controls, direction marks, half surrogates.

    ``keep``: characters that are wanted nevertheless, such as line breaks.
    """
    if text.isprintable():
        return text
    return "".join(char if char in keep or char.isprintable() else _Escaped(char) for char in text)


def Shortened(text: str, most: int) -> str:
    """Return ``text`` without its middle if it has more than ``most`` characters: what it is about stands at its ends."""
    if len(text) <= most:
        return text
    half = (most - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _Escaped(char: str) -> str:
    return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}.get(char) or ascii(char)[1:-1]


def ParseUnit(text: str) -> int:
    """Return the MiB in ``512``, ``1.5g`` or ``2 TiB``, rounded up to a multiple of 4 (doc/reference/cli.md 3.1)."""
    match = _UNIT.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    unit = match.group(2).lower() if match else ""
    unit = unit.removesuffix("ib") if len(unit) == 3 else unit.removesuffix("b") if len(unit) == 2 else unit
    if match is None or unit not in _FACTORS:
        raise errors.UnitParseError(
            f"'{text[:_MAX_LENGTH]}' is not a valid size: write a number with m, g or t, such as 512m"
        )
    size = math.ceil(float(match.group(1)) * _FACTORS[unit])
    return -(-size // SIZE_STEP) * SIZE_STEP


def ParseTimespec(text: str) -> int:
    """Return the seconds of ``90``, ``15m``, ``6h``, ``2d``; raise OpPrereqError for anything else, such as less than 0."""
    if not text:
        raise errors.OpPrereqError("Empty time specification passed", errors.ECODE_INVAL)
    number, factor = text, 1
    if text[-1] in _TIMESPEC_FACTORS:
        number, factor = text[:-1], _TIMESPEC_FACTORS[text[-1]]
        if not number:
            raise errors.OpPrereqError(
                f"Invalid time specification '{text}': only a suffix was passed", errors.ECODE_INVAL
            )
    try:
        seconds = int(number) * factor
    except ValueError:
        raise errors.OpPrereqError(
            f"Invalid time specification '{text}'", errors.ECODE_INVAL, hint=_TIMESPEC_HINT
        ) from None
    if seconds < 0:
        raise errors.OpPrereqError(f"Invalid time specification '{text}': it is below 0", errors.ECODE_INVAL)
    return seconds
