"""Asks a web server once, for programs that need no session."""

from __future__ import annotations

import io
from typing import NamedTuple


class FetchError(Exception):
    """The server did not answer within the limits, or not at all."""


class Limits(NamedTuple):
    """Seconds to connect and for all, bytes of the answer."""

    connect: int
    total: int
    size: int


def Fetch(url: str, limits: Limits) -> tuple[int, bytes]:
    """Return status and body of a GET request; raises FetchError.

    The server's certificate is not verified: send nothing secret to a server you do not know.  Credentials may stand in
    the URL; a FetchError never repeats them.
    """
    import pycurl

    body = io.BytesIO()

    def take(data: bytes) -> int:
        body.write(data)
        return len(data) if body.tell() <= limits.size else 0  # 0 ends the transfer

    curl = pycurl.Curl()
    try:
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.SSL_VERIFYPEER, 0)
        curl.setopt(pycurl.SSL_VERIFYHOST, 0)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT, limits.connect)
        curl.setopt(pycurl.TIMEOUT, limits.total)
        curl.setopt(pycurl.WRITEFUNCTION, take)
        curl.perform()
        return int(curl.getinfo(pycurl.RESPONSE_CODE)), body.getvalue()
    except (pycurl.error, ValueError) as err:
        raise FetchError(str(err.args[-1])) from err
    finally:
        curl.close()
