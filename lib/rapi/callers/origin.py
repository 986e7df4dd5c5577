"""Requests that a browser sends for a page of another site.

A browser adds the password that it knows for this server to every request, whichever page had it sent, and does not ask first
for all of them.  It says where the page is from: in ``Sec-Fetch-Site``, older ones in ``Origin`` only.  Neither can be changed by
the page.  Other programs send neither, or both as they like, and have nobody's password but their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ganeti.rapi.requests.call import HttpError

# "none": the user typed it.
_OWN_SITE = frozenset(["same-origin", "none"])
_ORIGIN = re.compile(r"(https?)://([^/?#@\s]+)")
_PORTS = {"https": ":443", "http": ":80"}
_SHOWN = 100


def Check(headers: Mapping[str, str]) -> None:
    """Raise HttpError (403) if a page of another site had a browser send this request; names are in lower case."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        if site.strip().lower() in _OWN_SITE:
            return  # behind a proxy, Host may be another name
        shown = f"Sec-Fetch-Site: {site[:_SHOWN]}"
    elif origin is None or _IsOwn(origin, headers.get("host", "")):
        return
    else:
        shown = f"Origin: {origin[:_SHOWN]}"
    raise HttpError(
        403,
        f"The browser sent this request, with the password that it knows, for a page of another site ({shown}); nothing was"
        " changed.  A program on another site needs a token, in the header 'Authorization: Bearer TOKEN'",
    )


def _IsOwn(origin: str, host: str) -> bool:
    found = _ORIGIN.fullmatch(origin.strip().lower())
    if found is None:
        return False
    port = _PORTS[found[1]]
    return found[2].removesuffix(port) == host.strip().lower().removesuffix(port)
