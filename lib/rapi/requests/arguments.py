"""The query string: from text to declared values (doc/reference/rapi.md 3, 6.1)."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

from ganeti.rapi.declared import Argument, ArgumentKind
from ganeti.rapi.requests.call import HttpError

_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")


def Split(query: str) -> dict[str, list[str]]:
    """Return what is given by name; blank values count as absent."""
    try:
        pairs = urllib.parse.parse_qsl(query, errors="strict")
    except ValueError:
        raise HttpError(400, "The query string is not UTF-8") from None
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    return given


def Read(declared: Iterable[Argument], given: dict[str, list[str]]) -> dict[str, Any]:
    """Return the value of every declared argument; raises HttpError (400)."""
    values = {}
    for argument in declared:
        texts = given.get(argument.name, [])
        value = _Value(argument, texts)
        if argument.required and value in (None, []):
            raise HttpError(400, f"Missing value for the '{argument.name}' parameter")
        values[argument.name] = value
    return values


def _Value(argument: Argument, texts: list[str]) -> Any:
    if argument.kind is ArgumentKind.TEXTS:
        return texts
    if not texts:
        return argument.default
    text = texts[0]
    if argument.kind is ArgumentKind.FIELDS:
        return [field for field in (part.strip() for part in text.split(",")) if field]
    if argument.kind is ArgumentKind.FLAG:
        number = text.strip(" \t\r\n")
        if not _NUMBER.fullmatch(number):
            raise HttpError(400, f"Invalid value for the '{argument.name}' parameter")
        return int(number) != 0
    return text
