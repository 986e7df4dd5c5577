"""The machine protocol with peers that behave, and peers that do not: every call ends, in words."""

from __future__ import annotations

import gc
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nodes import MakeNodes
from support.qmp import GREETING, Peer, Requests, Send
from unit.hypervisor.test_cmdline import Disk, Hvp, Place

from ganeti import errors
from ganeti.hypervisor.base import GuestDisk
from ganeti.hypervisor.kvm import hotplug, layout, qmp, runfile

Start = Callable[[Callable[[socket.socket], None]], Peer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    peers: list[Peer] = []

    def make(serve: Callable[[socket.socket], None]) -> Peer:
        peers.append(Peer(tmp_path / f"qmp{len(peers)}", serve))
        return peers[-1]

    yield make
    for peer in peers:
        peer.Close()


def Polite(answer: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Callable[[socket.socket], None]:
    """Greets, accepts the capabilities, answers commands."""

    def serve(connection: socket.socket) -> None:
        Send(connection, GREETING)
        for request in Requests(connection):
            found = {"return": {}} if request["execute"] == "qmp_capabilities" else answer(request)
            if found is not None:
                Send(connection, {**found, **({"id": request["id"]} if "id" in request else {})})

    return serve


def test_an_event_that_precedes_the_first_answer_is_no_failure(start: Start) -> None:
    """QEMU sends it when a migrated guest begins to run while somebody connects."""
    eager = [True, True]

    def serve(connection: socket.socket) -> None:
        if eager:
            eager.pop()
            Send(connection, GREETING)
            next(Requests(connection))
            Send(connection, {"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 0}})
            return
        Polite(lambda request: {"return": {"status": "running"}})(connection)

    peer = start(serve)
    with qmp.Monitor(peer.path) as monitor:
        assert monitor.Execute("query-status") == {"status": "running"}
    eager.extend([True, True])
    assert qmp.AskMany({"web": peer.path}, ["query-status"]) == {"web": {"query-status": {"status": "running"}}}


def test_commands_and_answers(start: Start) -> None:
    peer = start(Polite(lambda request: {"return": {"command": request["execute"], **request.get("arguments", {})}}))
    with qmp.Monitor(peer.path) as monitor:
        assert monitor.Execute("query-status") == {"command": "query-status"}
        assert monitor.Execute("balloon", {"value": 7}) == {"command": "balloon", "value": 7}
    with qmp.Monitor(peer.path) as monitor:
        assert monitor.Execute("again") == {"command": "again"}, "the socket serves the next one"


def test_refusal_has_its_class(start: Start) -> None:
    peer = start(Polite(lambda _: {"error": {"class": "CommandNotFound", "desc": "The command x has not been found"}}))
    with qmp.Monitor(peer.path) as monitor:
        with pytest.raises(qmp.CommandError, match="x: The command x has not been found") as caught:
            monitor.Execute("x")
        assert caught.value.error_class == "CommandNotFound"
        assert monitor.TryExecute("x") is None


def test_events_are_found_even_if_they_came_before(start: Start) -> None:
    def serve(connection: socket.socket) -> None:
        Send(connection, GREETING)
        requests = Requests(connection)
        next(requests)
        Send(connection, {"return": {}})
        stamp = {"seconds": 1, "microseconds": 0}
        for name in ("OTHER", "DEVICE_DELETED"):
            Send(connection, {"event": name, "data": {"device": "d"}, "timestamp": stamp})
        for request in requests:
            Send(connection, {"return": {}, "id": request["id"]})

    peer = start(serve)
    with qmp.Monitor(peer.path) as monitor:
        monitor.Execute("device_del", {"id": "d"})
        event = monitor.WaitEvent(lambda found: found["event"] == "DEVICE_DELETED", 5)
        assert event is not None and event["data"] == {"device": "d"}
        began = time.monotonic()
        assert monitor.WaitEvent(lambda found: found["event"] == "NEVER", 0.2) is None
        assert time.monotonic() - began < 5


def Silent(connection: socket.socket) -> None:
    connection.settimeout(30)
    connection.recv(1)


def Garbage(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    Silent(connection)


def Endless(connection: socket.socket) -> None:
    for _ in range(64):
        connection.sendall(b"x" * (1 << 20))


@pytest.mark.parametrize("serve", [Silent, Garbage, Endless, lambda connection: None])
def test_wrong_peers_end_in_words(
    start: Start, serve: Callable[[socket.socket], None], caplog: pytest.LogCaptureFixture
) -> None:
    peer = start(serve)
    began = time.monotonic()
    with pytest.raises(errors.HypervisorError, match=f"QMP {peer.path}: connect: ."):
        with qmp.Monitor(peer.path, connect_timeout=1):
            pass
    assert time.monotonic() - began < 10
    gc.collect()
    assert caplog.records == [], "nothing is left that complains"


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(errors.HypervisorError, match=r"QMP .*/none: connect: "):
        with qmp.Monitor(str(tmp_path / "none")):
            pass


def test_peer_that_goes_away_or_sleeps(start: Start) -> None:
    gone = start(Polite(lambda _: (_ for _ in ()).throw(OSError("gone"))))  # type: ignore[arg-type]
    with pytest.raises(errors.HypervisorError, match="query-status"):
        with qmp.Monitor(gone.path) as monitor:
            monitor.Execute("query-status")
    asleep = start(Polite(lambda _: None))
    with pytest.raises(errors.HypervisorError, match=r"no answer within 0.2 s; the guest.s QEMU process may hang"):
        with qmp.Monitor(asleep.path) as monitor:
            monitor.Execute("query-status", timeout=0.2)


def test_quit_may_cut_the_line(start: Start) -> None:
    peer = start(Polite(lambda _: (_ for _ in ()).throw(OSError("gone"))))  # type: ignore[arg-type]
    with qmp.Monitor(peer.path) as monitor:
        monitor.Quit()


def test_peers_that_vanish_at_any_moment(start: Start) -> None:
    """A guest may end while one connects: the line is cut after every possible number of bytes."""
    whole = json.dumps(GREETING).encode() + b"\r\n" + b'{"return": {}}\r\n'

    # At the very end several times: there the library has connected already, or not.
    for length in [*range(0, len(whole), 7), *[len(whole)] * 20]:

        def serve(connection: socket.socket, length: int = length) -> None:
            connection.sendall(whole[:length])

        peer = start(serve)
        try:
            with qmp.Monitor(peer.path, connect_timeout=2) as monitor:
                monitor.Execute("query-status", timeout=2)
        except errors.HypervisorError as err:
            assert str(err).startswith("QMP ")
        else:
            raise AssertionError("a cut line gave an answer")


# --- the size of a disk -------------------------------------------------------------------------------------------------

MIB = 1 << 20


def _Resize(start: Start, tmp_path: Path, blocks: Callable[[str], Any], mib: int) -> list[int]:
    """Return the sizes that a guest is told when a disk of 16 MiB is resized; ``blocks``: the answer about a node's name."""
    disk, told = Place(Disk()), []
    assert disk.hvinfo is not None
    ident = str(disk.hvinfo["id"])

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["execute"] == "query-named-block-nodes":
            return {"return": blocks(ident)}
        assert request["execute"] == "block_resize" and request["arguments"]["node-name"] == ident
        told.append(request["arguments"]["size"] // MIB)
        return {"return": {}}

    [node] = MakeNodes(tmp_path, "node1")
    with node:
        layout.MakeDirs()
        runfile.Save("web", runfile.RunFile(("kvm",), (), Hvp(), (GuestDisk(disk, "/links/web:0"),)))
        with qmp.Monitor(start(Polite(answer)).path) as monitor:
            hotplug.Resize(monitor, "web", disk, mib * MIB)
    return told


@pytest.mark.parametrize("asked, told", [(24, [24]), (16, []), (8, [])])
def test_a_disk_is_never_made_smaller(start: Start, tmp_path: Path, asked: int, told: list[int]) -> None:
    """A call may come late, when the disk has been grown again; QEMU would cut its file off."""

    def blocks(ident: str) -> Any:
        others = {"node-name": "disk-other", "image": {"virtual-size": MIB}}, {"image": {}}
        return [*others, {"node-name": ident, "image": {"virtual-size": 16 * MIB}}]

    assert _Resize(start, tmp_path, blocks, asked) == told


@pytest.mark.parametrize(
    "found, words",
    [
        ([], "does not report the size of disk disk-"),
        ([{"node-name": None}], "in a way that cannot be read"),
        ([3], "in a way that cannot be read"),
        (None, "in a way that cannot be read"),
    ],
)
def test_a_disk_whose_size_is_not_known_is_not_resized(start: Start, tmp_path: Path, found: Any, words: str) -> None:
    def blocks(ident: str) -> Any:
        return [{"node-name": ident}] if found == [{"node-name": None}] else found

    with pytest.raises(errors.HotplugError, match=words):
        _Resize(start, tmp_path, blocks, 24)
