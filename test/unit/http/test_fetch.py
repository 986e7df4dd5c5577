"""How large the content of a URL is, as far as its server says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.heads import Server

from ganeti.http import fetch

LIMITS = fetch.Limits(connect=20, total=20, size=0)


@pytest.fixture
def server() -> Iterator[Server]:
    serving = Server()
    yield serving
    serving.Close()


def test_a_server_says_how_much_there_is(server: Server) -> None:
    assert fetch.Size(f"{server.url}/image", LIMITS) == fetch.Size(f"{server.url}/moved", LIMITS) == server.size
    assert fetch.Size(f"{server.url}/empty", LIMITS) == 0


def test_a_server_that_does_not_say_so(server: Server) -> None:
    assert fetch.Size(f"{server.url}/stream", LIMITS) is None
    assert fetch.Size(f"{server.url}/nothing", LIMITS) is None, "the size of an error page is not meant"


@pytest.mark.parametrize("path", ["/loop", "/away"])
def test_a_server_that_leads_astray(server: Server, path: str) -> None:
    with pytest.raises(fetch.FetchError):
        fetch.Size(f"{server.url}{path}", LIMITS)


def test_addresses_at_which_nobody_can_be_asked(server: Server) -> None:
    for bad in (f"{server.gone}/image", "ftp://192.0.2.1/x", "http://[/"):
        with pytest.raises(fetch.FetchError):
            fetch.Size(bad, LIMITS)


def test_a_failure_does_not_repeat_a_password(server: Server) -> None:
    with pytest.raises(fetch.FetchError) as caught:
        fetch.Size(server.gone.replace("http://", "http://me:hidden@"), LIMITS)
    assert "hidden" not in str(caught.value)
