"""Asks web servers once, for programs that need no session."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pycurl

PARALLEL = 50
"""How many servers are asked at the same time."""
_OK = 200
_MOST_REDIRECTIONS = 5


class FetchError(Exception):
    """The server did not answer within the limits, or not at all."""


class Limits(NamedTuple):
    """Seconds to connect and for all, bytes of the answer."""

    connect: int
    total: int
    size: int


class Access(NamedTuple):
    """Who asks, and how the server is known.

    ``login``: user and password; or ``token``.  ``cafile``: certificates in PEM, of which one must be the server's or have
    signed it; None: any will do.  ``pin``: the only public key that will do, whatever the name of the host (curl's PINNEDPUBLICKEY).
    """

    login: tuple[str, str] | None = None
    token: str | None = None
    cafile: str | None = None
    pin: str | None = None


ANYBODY = Access()


def SetTrust(curl: pycurl.Curl, access: Access) -> None:
    """Let a transfer accept the servers that it should."""
    import pycurl

    curl.setopt(pycurl.SSL_VERIFYPEER, int(access.cafile is not None))
    curl.setopt(pycurl.SSL_VERIFYHOST, 0 if access.cafile is None or access.pin is not None else 2)
    if access.cafile is not None:
        curl.setopt(pycurl.CAINFO, access.cafile)
    if access.pin is not None:
        curl.setopt(pycurl.PINNEDPUBLICKEY, access.pin)


class Answer(NamedTuple):
    """HTTP status and body."""

    status: int
    body: bytes


class _Transfer:
    """One GET request that is prepared, and what has arrived."""

    def __init__(self, url: str, limits: Limits, access: Access):
        import pycurl

        self._body = io.BytesIO()
        self._size = limits.size
        self.curl = curl = pycurl.Curl()
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        SetTrust(curl, access)
        if access.login is not None:
            curl.setopt(pycurl.HTTPAUTH, pycurl.HTTPAUTH_BASIC)
            curl.setopt(pycurl.USERNAME, access.login[0].encode())
            curl.setopt(pycurl.PASSWORD, access.login[1].encode())
        if access.token is not None:
            curl.setopt(pycurl.HTTPHEADER, [f"Authorization: Bearer {access.token}"])
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT, limits.connect)
        curl.setopt(pycurl.TIMEOUT, limits.total)
        curl.setopt(pycurl.WRITEFUNCTION, self._Take)

    def _Take(self, data: bytes) -> int:
        self._body.write(data)
        return len(data) if self._body.tell() <= self._size else 0  # 0 ends the transfer

    def Answer(self) -> Answer:
        import pycurl

        return Answer(int(self.curl.getinfo(pycurl.RESPONSE_CODE)), self._body.getvalue())


def Fetch(url: str, limits: Limits, access: Access = ANYBODY) -> Answer:
    """Return the answer to a GET request; raises FetchError.

    Without ``access.cafile`` the server's certificate is not verified: send nothing secret to a server you do not know.
    Credentials may stand in the URL; a FetchError never repeats them.
    """
    (answer,) = FetchAll([url], limits, access)
    if isinstance(answer, FetchError):
        raise answer
    return answer


def FetchAll(urls: Sequence[str], limits: Limits, access: Access = ANYBODY) -> list[Answer | FetchError]:
    """Return what each server answers to a GET request, or why there is no answer; see ``Fetch``.

    ``PARALLEL`` servers are asked at the same time, the next ones when all of these are done.
    """
    found: list[Answer | FetchError] = []
    for start in range(0, len(urls), PARALLEL):
        found += _Together(urls[start : start + PARALLEL], limits, access)
    return found


def Size(url: str, limits: Limits) -> int | None:
    """Return how many bytes a GET request would be answered with, None if the server does not say; raises FetchError.

    Other addresses to which the server leads are followed.
    """
    import pycurl

    sizes: list[int] = []

    def read(line: bytes) -> None:
        name, _, value = line.partition(b":")
        if line.startswith(b"HTTP/"):
            sizes.clear()  # what was before said where to ask
        elif name.lower() == b"content-length" and value.strip().isdigit():
            sizes.append(int(value))

    try:
        curl = _Transfer(url, limits, ANYBODY).curl
        curl.setopt(pycurl.NOBODY, 1)
        curl.setopt(pycurl.FOLLOWLOCATION, 1)
        curl.setopt(pycurl.MAXREDIRS, _MOST_REDIRECTIONS)
        curl.setopt(pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HEADERFUNCTION, read)
        curl.perform()
        status = curl.getinfo(pycurl.RESPONSE_CODE)
        curl.close()
    except (pycurl.error, ValueError) as err:
        raise FetchError(str(err.args[-1])) from err
    return sizes[0] if status == _OK and sizes else None


def _Together(urls: Sequence[str], limits: Limits, access: Access) -> list[Answer | FetchError]:
    import pycurl

    multi = pycurl.CurlMulti()
    transfers: list[_Transfer | FetchError] = []
    try:
        for url in urls:
            try:
                transfer = _Transfer(url, limits, access)
                multi.add_handle(transfer.curl)
                transfers.append(transfer)
            except (pycurl.error, ValueError) as err:
                transfers.append(FetchError(str(err.args[-1])))
        failed = _Perform(multi)
        return [item if isinstance(item, FetchError) else failed.get(item.curl) or item.Answer() for item in transfers]
    finally:
        for item in transfers:
            if isinstance(item, _Transfer):
                multi.remove_handle(item.curl)
                item.curl.close()
        multi.close()


def _Perform(multi: pycurl.CurlMulti) -> dict[pycurl.Curl, FetchError]:
    """Carry out all transfers, which their own limits end; return those that failed."""
    failed: dict[pycurl.Curl, FetchError] = {}
    active = 1
    while active:
        _, active = multi.perform()
        if active:
            multi.select(1.0)
    left = 1
    while left:
        left, _, bad = multi.info_read()
        failed.update({curl: FetchError(text) for curl, _, text in bad})
    return failed
