"""Damage: to bytes as disks and networks do it, to values as a bad program or an attacker does it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 0.5, -0.0, 1e300, 1e-300,
    "", " ", "x", "\0", "\n", "a\nb", "../../etc/passwd", "/", "..", "%s%n", "\x1b[2J", "\u202e", "\udc80", "x" * 5000,
    "true", "null", "0", "-1", "1e999", [], {}, [[]], [{}], {"": None}, [None], ["x", ["y"]], {"x": {"y": []}},
)  # fmt: skip
_SNIPPETS = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\n",
    b"}",
    b"]",
    b'"',
    b",",
    b"1e999",
    b"NaN",
    b"[" * 2000,
    b"\x80" * 50,
)


_off = False


@contextmanager
def Off() -> Iterator[None]:
    """Damage nothing meanwhile: what a target makes must be accepted then, or it tests nothing."""
    global _off
    _off = True
    try:
        yield
    finally:
        _off = False


def Bytes(rng: random.Random, data: bytes) -> bytes:
    """Return ``data`` with one to four damages."""
    if _off:
        return data
    for _ in range(rng.randint(1, 4)):
        data = _DamageBytes(rng, data)
    return data


def _DamageBytes(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    end = min(len(data), place + rng.choice((1, 2, 8, 64, 1024)))
    kind = rng.randrange(6)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + data[end:]
    if kind == 2:
        return data[:place] + rng.randbytes(end - place) + data[end:]
    if kind == 3:
        return data[:place] + rng.choice(_SNIPPETS) + data[place:]
    if kind == 4:
        return data[:end] + data[place:end] * rng.choice((1, 2, 50)) + data[end:]
    if place < len(data):
        return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]
    return data


def Value(rng: random.Random, value: Any) -> Any:
    """Return a copy of a JSON value with one to three places of it changed."""
    if _off:
        return value
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = list(_Places(value))
        if not places or rng.random() < 0.05:
            value = _Odd(rng)
            continue
        _DamagePlace(rng, *rng.choice(places))
    return value


def _Odd(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(ODD_VALUES))


def _Places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything inside a value."""
    keys: Any = ()
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        yield value, key
        yield from _Places(value[key])


def _DamagePlace(rng: random.Random, container: Any, key: Any) -> None:
    kind = rng.randrange(5)
    if kind == 0 and isinstance(container, list):
        container.insert(key, _Odd(rng))
    elif kind == 0:
        container[rng.choice([name for name in ODD_VALUES if isinstance(name, str)])] = _Odd(rng)
    elif kind == 1:
        del container[key]
    elif kind == 2 and isinstance(container[key], str):
        text = container[key]
        place = rng.randrange(len(text) + 1)
        container[key] = text[:place] + rng.choice(("\n", "\0", "/", "é", "\udc80", "=", "x" * 300)) + text[place:]
    elif kind == 3 and isinstance(container[key], (int, float)) and not isinstance(container[key], bool):
        container[key] = rng.choice((-1, 1, 1000, 2**40)) * (container[key] or 1)
    else:
        container[key] = _Odd(rng)


def Text(rng: random.Random, value: Any) -> bytes:
    """Return the JSON of a value, damaged as a value or as bytes."""
    if rng.random() < 0.7:
        return json.dumps(Value(rng, value)).encode()
    return Bytes(rng, json.dumps(value).encode())
