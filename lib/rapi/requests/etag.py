"""Versions of what is shown: ETag, If-Match, If-None-Match.

The tag of one object is ``"UUID-SERIAL"``, so that a job can compare it again once it holds its locks; anything else
has the digest of its version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from ganeti import serializer
from ganeti.rapi.requests.call import HttpError

ANY: Final = "*"
# As many objects as anybody compares with in one request.
_MAX_TAGS = 100
_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')
_PLAIN = re.compile(r"[\w.-]{1,100}")


def Make(version: Sequence[Any]) -> str:
    """Return the tag, without quotes, of something that has this version."""
    text = "-".join(map(str, version))
    if _PLAIN.fullmatch(text) and all(isinstance(part, (str, int)) for part in version):
        return text
    return hashlib.sha256(serializer.DumpBytes(list(version))).hexdigest()[:32]


def Header(tag: str) -> str:
    return f'"{tag}"'


def Parse(header: str, weak: bool) -> tuple[str, ...]:
    """Return the tags of a precondition, or (ANY,); ``weak``: whether weak ones count.  Raises HttpError (400)."""
    if header.strip() == ANY:
        return (ANY,)
    tags: list[str] = []
    position = 0
    while position < len(header):
        match = _TAG.match(header, position)
        if match is None or len(tags) >= _MAX_TAGS:
            raise HttpError(400, "The precondition is not a list of entity tags in double quotes")
        if weak or not match[1]:
            tags.append(match[2])
        position = match.end()
    return tuple(tags)


def Fits(tags: Collection[str], current: str | None) -> bool:
    """Whether one of the tags is that of what is there now; None: nothing is there."""
    return current is not None and (current in tags or ANY in tags)
