"""One line for each request that would change something, or makes a job: who, from where, what, and what came of it.

The lines stand in the daemon's own log, after the word ``audit`` and as one JSON object each, so that they are rotated and
collected as it is, and found with ``grep 'audit {'``.  Arguments and bodies are not in them: they may hold secrets.
"""

from __future__ import annotations

import logging
from typing import Any

from ganeti import errors, serializer
from ganeti.rapi.requests.call import Caller

_SHOWN = 300
_READING = frozenset(["GET", "HEAD", "OPTIONS"])
# The answers that say something here are a number, or an error; reading a list of everything would keep all clients waiting.
_MAX_BODY = 16 * 1024


def Note(
    verb: str,
    path: str,
    address: str,
    caller: Caller | None,
    status: int,
    body: bytes | memoryview,
    changes: bool = False,
) -> None:
    """Log a request; ``path`` without its query string, ``caller`` None where nobody could be identified.

    ``changes``: it makes a job, although its verb only reads.
    """
    if verb in _READING and not changes:
        return
    line: dict[str, Any] = {
        "who": caller.name if caller is not None else None,
        "from": address,
        "verb": verb[:_SHOWN],
        "path": path[:_SHOWN],
        "status": status,
        **_Outcome(status, body),
    }
    logging.info("audit %s", serializer.Dump(line))


def _Outcome(status: int, body: bytes | memoryview) -> dict[str, Any]:
    """Return the number of the job that was submitted, or why the request was rejected."""
    if len(body) > _MAX_BODY:
        return {}
    try:
        value = serializer.Load(bytes(body))
    except errors.ParseError:
        return {}
    if status < 400 and isinstance(value, int) and not isinstance(value, bool):
        return {"job": value}
    if status >= 400 and isinstance(value, dict):
        return {"error": str(value.get("message"))[:_SHOWN]}
    return {}
