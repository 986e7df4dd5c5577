"""What is written about each request: 3.1's line in the daemon's log, and one in the access log ``rapi-access.log``.

The access log has the combined format, which every program for web logs reads::

    192.0.2.7 - writer [22/Nov/2026:18:28:19 +0000] "PUT /2/tags?tag=web HTTP/1.1" 200 4 "-" "curl/8.5.0"

Its line is written when the answer has been sent; the time is that at which the request came.  Whoever reads these lines finds
no secret in them: credentials have no field, and an argument that no resource knows is shown without its value, as it may be
a password in the wrong place.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from ganeti import runtime
from ganeti.daemon import logs

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

CLIENT_LEFT = 499
"""The status of a request whose client left before its answer began, as nginx writes it."""

_SHOWN = 300
_LONGEST_VERB = 20
_NOTHING = "-"
_SPECIAL = re.compile(r'[^\x20-\x7e]|["\\]')
# From one parameter to the next; the first group is a name, the second a value.
_PARAMETER = re.compile(r"([^&=]*)(=[^&]*)?(&|$)")
# What may be a value, in a place that has none: from an equals sign on, as it is or encoded.
_ASSIGNED = re.compile(r"(=|%(?:25)*3d).+", re.IGNORECASE | re.DOTALL)
_USER_INFO = re.compile(r"//[^/]*@")
_BEFORE_AT = re.compile(r"\A.*(@|%(?:25)*40)", re.IGNORECASE | re.DOTALL)
_PATH_PARAMETER = re.compile(r"(;|%(?:25)*3b)[^/]+", re.IGNORECASE)

_log = logging.getLogger("ganeti.rapi.requests")
_log.propagate = False
_log.setLevel(logging.INFO)


def Open(path: str) -> None:
    """Write the access log to this file from now on; one that is rotated away is left for the new one."""
    Close()
    file = logs.LogFile(path, console=None, tells=False)
    _log.addHandler(file)
    try:
        file.Open()
    except OSError as err:
        logging.error("The access log %s cannot be written: %s; requests are in this log only", path, err.strerror)


def Close() -> None:
    """Write no access log from now on."""
    for handler in list(_log.handlers):
        _log.removeHandler(handler)
        handler.close()


class Entry:
    """What the access log says about a request; ``Send`` stands between the answer and the connection."""

    def __init__(self, scope: Scope, send: Send, known: Collection[str]):
        """``known``: names of arguments whose values are shown."""
        self._scope = scope
        self._send = send
        self._known = known
        self._begun = runtime.Time()
        self._status = CLIENT_LEFT
        self._size = 0

    async def Send(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif self._scope["method"] != "HEAD":
            self._size += len(message.get("body", b""))

    def Write(self, user: str | None) -> None:
        """Write the line; ``user``: who had logged in."""
        scope = self._scope
        host, _ = scope.get("client") or ("unknown", 0)
        request = f"{Verb(scope)} {Target(scope, self._known)} HTTP/{scope['http_version']}"
        headers = dict(scope["headers"])
        referer = headers.get(b"referer", b"").decode("latin-1")
        agent = headers.get(b"user-agent", b"").decode("latin-1")
        _Write(host, self._begun, self._status, self._size, user or "", request, _WithoutSecrets(referer), agent)


def Target(scope: Scope, known: Collection[str]) -> str:
    """Return path and query string, cut, without the values of arguments that are not ``known``."""
    path, query = Path(scope), scope["query_string"].decode("latin-1")
    if not query:
        return path

    def shown(match: re.Match[str]) -> str:
        name, value, end = match[1], (match[2] or "")[1:], match[3]
        if not value:
            return _ASSIGNED.sub(r"\1...", name) + (match[2] or "") + end
        value = _ASSIGNED.sub(r"\1...", value) if name in known else "..."
        return f"{name}={value}{end}"

    return _Cut(f"{path}?{_PARAMETER.sub(shown, query)}")


def Path(scope: Scope) -> str:
    """Return the path without a user, parameters and values: our paths have none of them, and they may hold a password."""
    path = _BEFORE_AT.sub(r"...\1", scope["raw_path"].decode("latin-1"))
    return _Cut(_ASSIGNED.sub(r"\1...", _PATH_PARAMETER.sub(r"\1...", path)))


def Verb(scope: Scope) -> str:
    """Return the method, which a client may call anything, cut."""
    return str(scope["method"])[:_LONGEST_VERB]


def _Cut(text: str) -> str:
    """Return what is shown of a long text: strangers can send as many as they like."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _WithoutSecrets(url: str) -> str:
    """Return the address of a page without user, password and query string."""
    return _USER_INFO.sub("//", url.partition("?")[0].partition("#")[0])


def Unreadable(host: str, port: int, status: int, size: int) -> None:
    """Write about something that could not be read as a request, and may be anything."""
    logging.info("%s:%d None %d", host, port, status)
    _Write(host, runtime.Time(), status, size)


def _Write(
    host: str,
    when: float,
    status: int,
    size: int,
    user: str = "",
    request: str = "",
    referer: str = "",
    agent: str = "",
) -> None:
    if not _log.handlers:
        return
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(when))
    who = _Escape(user).replace(" ", "\\x20")
    quoted = " ".join(f'"{_Escape(text)}"' for text in (referer, agent))
    _log.info(
        '%s - %s [%s] "%s" %d %s %s', host, who, stamp, _Escape(request, 2 * _SHOWN), status, size or _NOTHING, quoted
    )


def _Escape(text: str, room: int = _SHOWN) -> str:
    """Return a field as Apache writes it: what could end it, or steer a terminal, is escaped; with that it is cut."""
    shown = []
    for char in text[:room]:
        escaped = _SPECIAL.sub(_Escaped, char)
        room -= len(escaped)
        if room < 0:
            break
        shown.append(escaped)
    return "".join(shown) or _NOTHING


def _Escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char in '"\\':
        return f"\\{char}"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
