"""How large an image behind a URL is: a disk must be made for it before anything is read."""

from __future__ import annotations

from ganeti.http import fetch

_LIMITS = fetch.Limits(connect=20, total=30, size=0)


def OfUrl(url: str) -> tuple[int | None, str]:
    """Return the bytes behind a URL as its server says them, or None and why they are not known."""
    try:
        return fetch.Size(url, _LIMITS), "its server does not say so"
    except fetch.FetchError as err:
        return None, str(err)
