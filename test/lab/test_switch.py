"""The switch of the laboratory, with sockets in the place of machines."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.switch import Switch


class Plug:
    """What a QEMU holds: sends and takes frames."""

    def __init__(self, path: Path):
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.connect(str(path))
        self._data = b""

    def Send(self, frame: bytes) -> None:
        self._sock.sendall(struct.pack("!I", len(frame)) + frame)

    def Take(self) -> bytes:
        frame = self.Poll(30)
        assert frame is not None, "nothing came"
        return frame

    def Poll(self, seconds: float) -> bytes | None:
        """Return the next frame, None if none comes in this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if len(self._data) >= 4 and len(self._data) >= 4 + (length := struct.unpack_from("!I", self._data)[0]):
                frame, self._data = self._data[4 : 4 + length], self._data[4 + length :]
                return frame
            self._sock.settimeout(left)
            with contextlib.suppress(TimeoutError):
                self._data += self._sock.recv(65536)
        return None

    def Close(self) -> None:
        self._sock.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[Switch, list[Plug]]]:
    with Switch(tmp_path) as switch:
        for number in (1, 2, 3):
            words = switch.AddPort(f"node{number}", number)
            assert f"addr.path={tmp_path}/node{number}.net" in words[1]
        plugs = [Plug(tmp_path / f"node{number}.net") for number in (1, 2, 3)]
        # A frame that arrives shows that both ends are plugged in.
        for source, target in ((0, 1), (1, 2), (2, 0)):
            _Greet(plugs[source], plugs[target])
        yield switch, plugs
        for plug in plugs:
            plug.Close()


def _Greet(source: Plug, target: Plug) -> None:
    """Send until the first frame arrives: from then on both are plugged in."""
    source.Send(b"hello")
    while target.Poll(0.2) is None:
        source.Send(b"hello")


def _TakeBut(plug: Plug, noise: bytes = b"hello") -> bytes:
    while (frame := plug.Take()) == noise:
        pass
    return frame


def test_frames_reach_everybody_else_in_order(three: tuple[Switch, list[Plug]]) -> None:
    _, (one, two, other) = three
    frames = [bytes([number]) * 1500 for number in range(1, 200)]
    for frame in frames:
        one.Send(frame)
    for plug in (two, other):
        assert [_TakeBut(plug) for _ in frames] == frames


def test_a_cut_link_works_in_the_other_direction(three: tuple[Switch, list[Plug]]) -> None:
    switch, (one, two, other) = three
    switch.Cut("node1", "node2")
    one.Send(b"lost")
    assert _TakeBut(other) == b"lost"
    two.Send(b"back")
    assert _TakeBut(one) == b"back"
    switch.CutOff("node3")
    two.Send(b"only one")
    assert _TakeBut(one) == b"only one"
    switch.Heal()
    one.Send(b"whole")
    assert _TakeBut(two) == b"whole", "what was lost does not come later"


def test_a_slow_link(three: tuple[Switch, list[Plug]]) -> None:
    switch, (one, two, other) = three
    switch.Delay("node1", "node2", 0.3)
    began = time.monotonic()
    one.Send(b"slow")
    assert _TakeBut(other) == b"slow"
    assert _TakeBut(two) == b"slow" and time.monotonic() - began >= 0.3


def test_a_machine_that_comes_back(three: tuple[Switch, list[Plug]], tmp_path: Path) -> None:
    _, (one, two, _) = three
    two.Close()
    one.Send(b"nobody there")
    again = Plug(tmp_path / "node2.net")
    _Greet(one, again)
    one.Send(b"welcome")
    assert _TakeBut(again) == b"welcome", "what was sent before it came back is lost"
    again.Close()
