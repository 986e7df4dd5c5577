"""Configurations of old releases with one thing broken: every place of a file, every way to break it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Place = tuple[Any, ...]

REMOVED = object()
_HUGE_TEXT = 20_000
_HUGE_NUMBER = 10**30


def Places(value: Any, before: Place = ()) -> Iterator[Place]:
    """Yield the way to each part of a parsed file, the outer ones first."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key)
        yield from Places(item, (*before, key))


def At(data: Any, place: Place) -> Any:
    for key in place:
        data = data[key]
    return data


def Ways(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield how this value can be broken, by name: what stands in its place, or REMOVED."""
    yield "removed", REMOVED
    yield "null", None
    yield ("a number", 17) if isinstance(value, str) else ("a text", "rubbish")
    yield ("an object", {"x": None}) if not isinstance(value, dict) else ("a list", [None])
    if isinstance(value, bool):
        yield "huge", _HUGE_NUMBER
    elif isinstance(value, (int, float)):
        yield from (("negative", -1.5), ("huge", _HUGE_NUMBER))
    elif isinstance(value, str):
        yield from (("empty", ""), ("huge", "x" * _HUGE_TEXT))
    elif isinstance(value, list):
        yield from (("empty", []), ("huge", copy.deepcopy(value) * 40 or [17] * 300))
    elif isinstance(value, dict):
        yield from (("empty", {}), ("huge", {**value, **{f"k{number}": number for number in range(150)}}))


def Broken(data: dict[str, Any], place: Place, rubbish: Any) -> dict[str, Any]:
    broken: Any = copy.deepcopy(data)
    parent = At(broken, place[:-1])
    if rubbish is REMOVED:
        del parent[place[-1]]
    else:
        parent[place[-1]] = copy.deepcopy(rubbish)
    return broken  # type: ignore[no-any-return]


def Named(place: Place, text: str) -> bool:
    """Whether a message names the broken field, or the one that holds it; ``disk 0`` stands for ("disks", 0)."""
    names = [str(key) for key in place if isinstance(key, str)][-2:]
    if len(place) > 1 and isinstance(place[-1], int) and isinstance(place[-2], str):
        names.append(f"{place[-2].removesuffix('s')} {place[-1]}")
    return place == ("version",) or any(name in text for name in names)
