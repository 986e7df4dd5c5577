"""The lobby of a server: who waits, who goes, and who is served next."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from ganeti import runtime
from ganeti.http.lobby import PATIENCE, RIGHTS, Greeting, Lobby, TlsGreeting

HELLO = b"\x16\x03\x01\x00\x05\x01abcd"


class Door:
    """A lobby and the peers in front of it."""

    def __init__(self, rights: float, patience: float = PATIENCE):
        self.poller = runtime.Poller()
        self.lobby = Lobby(self.poller, TlsGreeting, capacity=4, rights=rights, patience=patience)
        self.ends: list[socket.socket] = []

    def Come(self, address: str, data: bytes = b"") -> socket.socket:
        """A peer connects and sends something; returns its end."""
        ours, theirs = socket.socketpair()
        theirs.settimeout(20)
        self.ends.append(theirs)
        self.lobby.Add(ours, address)
        if data:
            theirs.sendall(data)
        self.Look()
        return theirs

    def Look(self) -> None:
        for visitor, events in self.poller.Poll(0):
            self.lobby.OnEvent(visitor, events)

    def Next(self, **under_way: int) -> str | None:
        found = self.lobby.Next(under_way, 2)
        if found is not None:
            self.ends.append(found.sock)  # type: ignore[arg-type]
        return found and found.address

    def close(self) -> None:
        self.lobby.Close()
        self.poller.Close()
        for sock in self.ends:
            sock.close()


@pytest.fixture
def door() -> Iterator[Door]:
    with contextlib.closing(Door(RIGHTS)) as made:
        yield made


@pytest.fixture
def strict() -> Iterator[Door]:
    """A door whose visitors have no right to stay, however short."""
    with contextlib.closing(Door(0.0)) as made:
        yield made


def test_what_a_greeting_is() -> None:
    assert TlsGreeting(HELLO) is Greeting.COMPLETE and TlsGreeting(HELLO + b"more") is Greeting.COMPLETE
    for count in range(1, len(HELLO)):
        assert TlsGreeting(HELLO[:count]) is Greeting.PARTIAL, count
    for text in (b"GET / HTTP/1.0", b"\x16\x02", b"\x15\x03\x01\x00\x02", b"\x16\x03\x01\x00\x03\x01ab", b"\0",
                 b"\x16\x03\x01\x00\x05\x02abcd", b"\x16\x03\x01\xff\xff\x01"):  # fmt: skip
        assert TlsGreeting(text) is Greeting.NONSENSE, text


def test_who_has_not_greeted_is_not_served(door: Door) -> None:
    door.Come("a")
    late = door.Come("b", HELLO[:7])
    door.Come("c", b"nonsense")
    assert len(door.lobby) == 2 and door.lobby.turned_away == 1 and door.Next() is None
    late.sendall(HELLO[7:])
    door.Look()
    assert door.Next() == "b" and door.Next() is None
    assert len(door.lobby) == 1


def test_who_went_away_takes_no_place(door: Door) -> None:
    for data in (b"", HELLO[:3]):
        end = door.Come("a", data)
        end.shutdown(socket.SHUT_WR)
        door.Look()
        assert len(door.lobby) == 0
    assert door.lobby.turned_away == 2


def test_addresses_take_turns(door: Door) -> None:
    for address in ("a", "a", "a", "b"):
        door.Come(address, HELLO)
    assert door.Next(a=1) == "b"
    assert door.Next(a=1) == "a"
    # An address gets its share and no more.
    assert door.Next(a=2) is None and door.lobby.AnyReady()


def test_a_full_lobby_makes_room_at_the_cost_of_who_has_most(strict: Door) -> None:
    strict.Come("few", HELLO)
    crowd = [strict.Come("many", data) for data in (HELLO, b"", b"")]
    assert strict.lobby.HasRoom()
    # The ready one is the last to go.
    with contextlib.suppress(ConnectionError):
        assert crowd[1].recv(1) == b""
    assert len(strict.lobby) == 3
    strict.Come("many")
    assert strict.lobby.HasRoom() and strict.lobby.turned_away == 2
    assert {strict.Next(), strict.Next()} == {"few", "many"}


def test_newcomers_are_not_driven_out_at_once(door: Door) -> None:
    for _ in range(4):
        door.Come("many")
    assert not door.lobby.HasRoom()
    assert door.lobby.Timeout() is not None and door.lobby.turned_away == 0


def test_who_says_nothing_must_go_in_time(door: Door) -> None:
    for data in (b"", HELLO[:3]):
        door.Come("a", data)
    door.lobby.Expire()
    assert len(door.lobby) == 2
    assert 0 < (door.lobby.Timeout() or 0) <= PATIENCE
    with contextlib.closing(Door(RIGHTS, patience=0.0)) as hasty:
        ends = [hasty.Come("a", data) for data in (b"", HELLO[:3])]
        assert hasty.lobby.Timeout() == 0.0
        hasty.lobby.Expire()
        assert len(hasty.lobby) == 0 and hasty.lobby.turned_away == 2
        assert ends[0].recv(1) == b""
