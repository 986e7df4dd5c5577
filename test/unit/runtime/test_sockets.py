"""Sockets and polling, on both sides."""

from __future__ import annotations

import os
import stat

import pytest
from support.sides import Everywhere, Place

from ganeti import errors, runtime


def _ReadAll(sock) -> bytes:
    parts = []
    while part := sock.recv(70000):
        parts.append(part)
    return b"".join(parts)


def _Echo(listener) -> None:
    sock, _ = listener.accept()
    while data := sock.recv(4096):
        sock.sendall(data)
    sock.close()


@Everywhere
def test_a_unix_socket_carries_bytes_both_ways(place: Place) -> None:
    path = place.Path("master")
    runtime.WriteFile(path, b"a stale one")
    listener = runtime.ListenUnix(path, 0o620, 5)
    found = runtime.Stat(path)
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o620
    runtime.Thread(_Echo, "echo", (listener,)).start()
    sock = runtime.ConnectUnix(path, 10)
    assert sock.gettimeout() == 10
    assert runtime.PeerUser(sock) in (0, os.geteuid())
    sock.sendall(b"hello")
    assert sock.recv(100) == b"hello"
    sock.shutdown(1)
    assert _ReadAll(sock) == b""
    sock.close()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        runtime.ConnectUnix(path, 1)
    with pytest.raises(FileNotFoundError, match="gone"):
        runtime.ConnectUnix(place.Path("gone"), 1)


@Everywhere
def test_a_tcp_connection_carries_bytes_both_ways(place: Place) -> None:
    listener = runtime.ListenTcp("127.0.0.1", 0)
    port = listener.getsockname()[1]
    with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
        runtime.ListenTcp("127.0.0.1", port)
    runtime.Thread(_Echo, "echo", (listener,)).start()
    sock = runtime.ConnectTcp("127.0.0.1", port, 10)
    assert sock.getpeername() == ("127.0.0.1", port)
    data = bytes(range(256)) * 4000
    received = runtime.Queue()

    def receive() -> None:
        received.put(_ReadAll(sock))

    runtime.Thread(receive, "receiver").start()
    sock.sendall(data)
    sock.shutdown(1)
    assert received.get(30) == data
    sock.close()
    listener.close()
    with pytest.raises(ConnectionRefusedError, match=f"cannot connect to 127.0.0.1:{port}: Connection refused"):
        runtime.ConnectTcp("127.0.0.1", port, 10)
    with pytest.raises(OSError, match=r"cannot connect to no-such-host\.invalid:1: "):
        runtime.ConnectTcp("no-such-host.invalid", 1, 10)
    with pytest.raises(OSError, match="cannot connect"):
        runtime.ConnectTcp("127.0.0.1", port, 10, source="192.0.2.255")


@Everywhere
def test_the_end_of_the_other_side_is_seen(place: Place) -> None:
    near, far = runtime.SocketPair()
    far.sendall(b"last words")
    far.close()
    assert near.recv(5) == b"last "
    assert near.recv(100) == b"words"
    assert near.recv(100) == b""
    with pytest.raises(BrokenPipeError):
        near.sendall(b"x")
    near.close()
    with pytest.raises(OSError, match="descriptor"):
        near.recv(1)
    assert near.fileno() == -1
    near, far = runtime.SocketPair()
    near.sendall(b"never read")
    far.close()
    with pytest.raises(ConnectionResetError):
        near.recv(1)
    near.close()


@Everywhere
def test_a_socket_waits_only_as_long_as_told(place: Place) -> None:
    near, far = runtime.SocketPair()
    near.setblocking(False)
    with pytest.raises(BlockingIOError):
        near.recv(1)
    sent = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += near.send(b"x" * 10000)
    assert sent > 10000
    near.settimeout(0.02)
    with pytest.raises(TimeoutError):
        near.sendall(b"x" * 2000000)
    with pytest.raises(TimeoutError):
        near.recv(1)
    listener = runtime.ListenUnix(place.Path("l"), 0o600, 1)
    listener.settimeout(0.02)
    with pytest.raises(TimeoutError):
        listener.accept()
    for sock in (near, far, listener):
        sock.close()


@Everywhere
def test_a_full_backlog_is_waited_for(place: Place) -> None:
    listener = runtime.ListenUnix(place.Path("l"), 0o600, 1)
    waiting: list = []
    with pytest.raises(TimeoutError):
        waiting.extend(runtime.ConnectUnix(place.Path("l"), 0.05) for _ in range(10))
    connected = runtime.Queue()

    def connect() -> None:
        connected.put(runtime.ConnectUnix(place.Path("l"), 30))

    runtime.Thread(connect, "connector").start()
    accepted = [listener.accept()[0] for _ in range(len(waiting) + 1)]
    waiting.append(connected.get(30))
    waiting[-1].sendall(b"through")
    assert accepted[-1].recv(10) == b"through"
    for sock in [*waiting, *accepted, listener]:
        sock.close()


@Everywhere
def test_a_poller_tells_who_is_ready(place: Place) -> None:
    poller = runtime.Poller()
    near, far = runtime.SocketPair()
    listener = runtime.ListenUnix(place.Path("l"), 0o600, 5)
    poller.Register(near, runtime.IN)
    poller.Register(listener, runtime.IN)
    with pytest.raises(FileExistsError):
        poller.Register(near, runtime.IN)
    assert poller.Poll(0) == []
    assert poller.Poll(0.01) == []
    far.sendall(b"x")
    assert poller.Poll(10) == [(near, runtime.IN)]
    assert poller.Poll() == [(near, runtime.IN)]
    poller.Modify(near, runtime.IN | runtime.OUT)
    assert poller.Poll() == [(near, runtime.IN | runtime.OUT)]
    assert near.recv(10) == b"x"
    poller.Modify(near, runtime.OUT)
    assert poller.Poll() == [(near, runtime.OUT)]
    poller.Modify(near, 0)
    client = runtime.ConnectUnix(place.Path("l"), 10)
    assert poller.Poll(10) == [(listener, runtime.IN)]
    far.close()
    assert dict(poller.Poll(10))[near] & runtime.HUP
    poller.Unregister(near)
    poller.Unregister(near)
    assert poller.Poll() == [(listener, runtime.IN)]
    listener.accept()[0].close()
    for sock in (near, client, listener):
        sock.close()
    assert poller.Poll(0.01) == []
    poller.Close()


@Everywhere
def test_a_sleeping_poller_is_woken_from_another_thread(place: Place) -> None:
    poller, waker = runtime.Poller(), runtime.Waker()
    poller.Register(waker, runtime.IN)
    assert poller.Poll(0) == []

    def wake() -> None:
        runtime.Sleep(0.02)
        waker.Wake()
        waker.Wake()

    thread = runtime.Thread(wake, "waker")
    thread.start()
    assert poller.Poll(30) == [(waker, runtime.IN)]
    thread.join()
    waker.Clear()
    waker.Clear()
    assert poller.Poll(0) == []
    waker.Wake()
    assert poller.Poll() == [(waker, runtime.IN)]
    poller.Unregister(waker)
    poller.Close()
    waker.Close()


@Everywhere
def test_a_watch_can_be_polled(place: Place) -> None:
    poller = runtime.Poller()
    watch = runtime.WatchFiles([place.Path("file")])
    poller.Register(watch, runtime.IN)
    assert poller.Poll(0) == []
    runtime.WriteFile(place.Path("file"), b"")
    assert poller.Poll(30) == [(watch, runtime.IN)]
    assert watch.wait(0) == [place.Path("file")]
    poller.Unregister(watch)
    poller.Close()
    watch.Close()


@Everywhere
def test_datagrams_arrive_with_their_sender(place: Place) -> None:
    server = runtime.OpenUdp("127.0.0.1", 0)
    client = runtime.OpenUdp("127.0.0.1", 0)
    server.settimeout(30)
    assert client.sendto(b"question", server.getsockname()) == 8
    data, sender = server.recvfrom(1000)
    assert (data, sender) == (b"question", client.getsockname())
    client.settimeout(0.02)
    with pytest.raises(TimeoutError):
        client.recvfrom(1000)
    with pytest.raises(OSError, match="long"):
        client.sendto(bytes(70000), server.getsockname())
    server.sendto(b"x" * 100, sender)
    assert client.recvfrom(10)[0] == b"x" * 10
    assert client.sendto(b"", ("127.0.0.1", server.getsockname()[1])) == 0
    server.close()
    client.close()


@Everywhere
def test_names_are_looked_up(place: Place) -> None:
    assert "127.0.0.1" in runtime.LookupHost("127.0.0.1")[1]
    with pytest.raises(errors.ResolverError) as caught:
        runtime.LookupHost("no-such-host.invalid")
    assert "no-such-host.invalid" in str(caught.value)
