"""Serve HTTP to peers that are not trusted yet: accept, wait, fork, TLS, requests.

::

    listener -> forking.ForkingServer -> lobby.Lobby -> a child: tls.ServerContext.Accept -> connection.Connection.Serve(handle)
                  limits, helpers        greetings               handshake, policy           h11: requests and answers

The room knows nothing of what is served: a daemon hands in its certificate files, a ``Policy`` that says which peers may
call, its limits, and a function from ``Incoming`` to ``Reply``.  Every wait and every size has a limit.

Glossary

* visitor -- a connection that has not sent a whole greeting; it costs a descriptor, not a process
* greeter -- a child whose peer has not proved who it is
* policy -- decides about a peer by its certificates, at the handshake and again before every request
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

Reply = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""

STATUS_BAD_REQUEST = 400
STATUS_NOT_FOUND = 404
STATUS_TOO_LARGE = 413

_ERROR_PAGE = "<html><head><title>{code} {reason}</title></head><body><h1>{reason}</h1><p>{text}</p></body></html>\n"
_REASONS = {
    STATUS_BAD_REQUEST: "Bad Request",
    STATUS_NOT_FOUND: "Not Found",
    STATUS_TOO_LARGE: "Content Too Large",
}


class Incoming(NamedTuple):
    """A request; header names are lower case, ``path`` is as it came, with its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def ErrorPage(status: int, text: str) -> Reply:
    """Make an answer of the HTTP level."""
    page = _ERROR_PAGE.format(code=status, reason=_REASONS[status], text=escape(text))
    return status, {"Content-Type": "text/html; charset=utf-8"}, page.encode("utf-8", "replace")
