"""The transport of calls against a server in this process: what travels, who waits, how calls end."""

from __future__ import annotations

import contextlib
import http.server
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import allocator
from support.realcluster import WaitUntil

from ganeti import x509
from ganeti.rpc import curl
from ganeti.rpc.base import ABORTED, Answer, Failure, Request
from ganeti.rpc.curl import MAX_HEADERS, SILENCE, CurlTransport

_PATIENCE = 60.0
CLOSED = "the RPC transport is closed"


class Server:
    """A node that answers when it is told to: each request that arrived is in ``arrived``."""

    def __init__(self, base: Path, ciphers: str = ""):
        self.lease = allocator.Lease()
        self.address, self.port = self.lease.Address(), self.lease.Port()
        self.arrived: queue.Queue[dict[str, Any]] = queue.Queue()
        self.go = threading.Event()
        self.go.set()
        self.header = "short"
        # How many bytes of an answer are sent before ``rest``.
        self.part = 1 << 40
        self.rest = threading.Event()
        # The next request is read, and its connection closed without an answer.
        self.drop = threading.Event()
        # Connections that are open.
        self.open: set[int] = set()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(base / "server.pem"))
        context.load_cert_chain(base / "server.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        if ciphers:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers)
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                try:
                    self.request.do_handshake()
                except ssl.SSLError:
                    # What is not read would make the system end the connection before the reason arrives.
                    with socket.socket(fileno=self.request.detach()) as raw:
                        raw.settimeout(_PATIENCE)
                        while raw.recv(65536):
                            pass
                    raise
                super().setup()
                server.open.add(self.client_address[1])

            def finish(self) -> None:
                super().finish()
                server.open.discard(self.client_address[1])

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                shown = dict(pair for (pair,) in self.connection.getpeercert()["subject"])
                server.arrived.put(
                    {
                        "path": self.path,
                        "headers": dict(self.headers),
                        "body": body,
                        "port": self.client_address[1],
                        "shown": shown["commonName"],
                    }
                )
                assert server.go.wait(_PATIENCE)
                if server.drop.is_set():
                    server.drop.clear()
                    self.close_connection = True
                    return
                self.send_response(203)
                self.send_header("X-Word", server.header)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: server.part])
                if len(body) > server.part:
                    assert server.rest.wait(_PATIENCE)
                    self.wfile.write(body[server.part :])

            def log_message(self, *args: Any) -> None:
                pass

        self._http = http.server.ThreadingHTTPServer((self.address, self.port), Handler)
        self._http.handle_error = lambda *args: None  # type: ignore[method-assign]
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def Arrival(self) -> dict[str, Any]:
        return self.arrived.get(timeout=_PATIENCE)

    def Close(self) -> None:
        self.go.set()
        self.rest.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self.lease.Release()


class Caller:
    """Sends requests and collects the answers."""

    def __init__(self, base: Path, server: Server):
        self.server = server
        self.transport = CurlTransport(str(base / "server.pem"), str(base / "client.pem"))

    def Send(self, body: bytes = b"[]", **more: Any) -> tuple[Request, queue.Queue[Answer]]:
        request = Request("node1", self.server.address, self.server.port, "/version", body, timeout=_PATIENCE)
        for name, value in more.items():
            setattr(request, name, value)
        answers: queue.Queue[Answer] = queue.Queue()
        self.transport.Submit(request, answers.put)
        return request, answers

    def Ask(self, body: bytes = b"[]", **more: Any) -> Answer:
        return self.Send(body, **more)[1].get(timeout=_PATIENCE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    pem = x509.MakeServerPem()
    (tmp_path / "server.pem").write_text(pem)
    (tmp_path / "client.pem").write_text(x509.MakeClientPem(pem, "master"))
    made = Server(tmp_path)
    yield made
    made.Close()


@pytest.fixture
def caller(tmp_path: Path, server: Server) -> Iterator[Caller]:
    made = Caller(tmp_path, server)
    yield made
    made.transport.Close()


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_request_and_its_answer_travel_whole(caller: Caller, server: Server, repeatable: bool) -> None:
    body = bytes(range(256)) * 4000
    answer = caller.Ask(body, headers={"X-Ganeti-Epoch": "7.aa"}, repeatable=repeatable)
    assert (answer.error, answer.status, answer.headers["x-word"], answer.body) == (None, 203, "short", body)
    seen = server.Arrival()
    assert (seen["path"], seen["body"], seen["headers"]["X-Ganeti-Epoch"]) == ("/version", body, "7.aa")
    assert "Expect" not in seen["headers"]


def test_one_connection_serves_one_call_after_the_other(caller: Caller, server: Server) -> None:
    ports = {(caller.Ask().status, server.Arrival()["port"]) for _ in range(4)}
    assert len(ports) == 1


def test_a_machine_without_power_is_not_waited_for_until_the_call_times_out(caller: Caller, server: Server) -> None:
    """No machine here can lose its power; the laboratory's stories do it.  Here: the limits of the open connection."""
    server.go.clear()
    _, answers = caller.Send(timeout=14400)
    server.Arrival()
    [sock] = _ConnectionsTo(server.address, server.port)
    with sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == SILENCE * 1000
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, pause, probes = (
            sock.getsockopt(socket.IPPROTO_TCP, name)
            for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert SILENCE / 2 < idle + pause * probes <= SILENCE
    server.go.set()
    assert answers.get(timeout=_PATIENCE).status == 203


def _ConnectionsTo(address: str, port: int) -> list[socket.socket]:
    """Return this process's connections to a server."""
    found: dict[Any, socket.socket] = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                sock = stack.enter_context(socket.socket(fileno=os.dup(int(name))))
                if sock.family == socket.AF_INET and sock.getpeername() == (address, port):
                    # Not sock.dup(): it would make the transport's socket wait, too.
                    stack.pop_all()
                    found[sock.getsockname()] = sock
    return list(found.values())


def test_of_many_calls_to_a_node_five_run_and_the_store_s_never_wait(caller: Caller, server: Server) -> None:
    server.go.clear()
    sent = [caller.Send(str(number).encode())[1] for number in range(8)]
    running = {server.Arrival()["body"] for _ in range(5)}
    assert running == {b"0", b"1", b"2", b"3", b"4"}
    urgent = caller.Send(b"urgent", urgent=True)[1]
    slow = caller.Send(b"slow", timeout=3600)[1]
    assert {server.Arrival()["body"] for _ in range(2)} == {b"urgent", b"slow"}
    assert server.arrived.empty(), "the others wait for their turn"
    server.go.set()
    assert [answers.get(timeout=_PATIENCE).status for answers in (*sent, urgent, slow)] == [203] * 10
    assert [server.Arrival()["body"] for _ in range(3)], "in the order in which they came"
    # Only two connections to a node are kept.
    WaitUntil(lambda: len(server.open) <= 2, "the other connections to end", _PATIENCE)
    ports = {server.Arrival()["port"] for _ in range(4) if caller.Ask().status}
    assert len(ports) <= 2


def test_a_call_that_never_gets_its_turn_is_given_up(caller: Caller, server: Server) -> None:
    server.go.clear()
    for _ in range(5):
        caller.Send()
        server.Arrival()
    answer = caller.Ask(b"late", timeout=1)
    assert answer.error == "too many calls to node node1 are under way" and answer.failure is Failure.NOT_SENT
    server.go.set()
    assert caller.Ask(b"again").status == 203


def test_a_call_that_is_given_up_takes_none_of_those_along_that_wait_with_it(caller: Caller, server: Server) -> None:
    server.go.clear()
    for _ in range(5):
        caller.Send()
        server.Arrival()
    patient, hurried, last = (
        caller.Send(body, timeout=after)[1] for body, after in ((b"1", 60), (b"2", 1), (b"3", 60))
    )
    assert hurried.get(timeout=_PATIENCE).failure is Failure.NOT_SENT
    assert patient.empty() and last.empty()
    server.go.set()
    assert [answers.get(timeout=_PATIENCE).body for answers in (patient, last)] == [b"1", b"3"]


def test_a_call_can_be_aborted_while_it_runs_and_while_it_waits(caller: Caller, server: Server) -> None:
    server.go.clear()
    held = [caller.Send() for _ in range(5)]
    for _ in held:
        server.Arrival()
    waiting, never = caller.Send(b"never")
    for request, answers in ((waiting, never), held[0]):
        caller.transport.Abort(request)
        assert answers.get(timeout=_PATIENCE).error == ABORTED
    caller.transport.Abort(waiting)  # has ended already
    assert caller.Send(b"next")[1].empty() and server.Arrival()["body"] == b"next", "its place is free"
    server.go.set()
    assert [answers.get(timeout=_PATIENCE).status for _, answers in held[1:]] == [203] * 4
    assert never.empty()


def test_closing_answers_what_is_under_way_what_waits_and_what_comes_later(caller: Caller, server: Server) -> None:
    server.go.clear()
    sent = [caller.Send()[1] for _ in range(7)]
    for _ in range(5):
        server.Arrival()
    caller.transport.Close()
    assert [answers.get(timeout=_PATIENCE).error for answers in sent] == [CLOSED] * 7
    assert caller.Ask().error == CLOSED
    caller.transport.Abort(Request("node1", server.address, server.port, "/", b""))
    caller.transport.Close()


def test_closing_leaves_nothing_behind(caller: Caller, server: Server) -> None:
    def ours() -> int:
        return sum(thread.name == "rpc" for thread in threading.enumerate())

    before = ours()
    assert caller.Ask().status == 203
    caller.transport.Close()
    assert ours() == before - 1, "the thread has ended when closing returns"
    assert _ConnectionsTo(server.address, server.port) == []


def test_a_head_without_end_is_cut_off(caller: Caller, server: Server) -> None:
    server.header = "x" * 60_000
    assert caller.Ask().status == 203
    server.header = "x" * MAX_HEADERS
    # More than a header line may have is sent in several of them.
    answer = caller.Ask()
    assert answer.status == 0 and answer.failure is Failure.SILENT


def test_an_answer_over_the_limit_is_cut_off_and_one_of_exactly_the_limit_comes_whole(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curl, "MAX_BODY", 100_000)
    answer = caller.Ask(b"x" * 100_001)
    assert (answer.error, answer.failure) == ("node node1: its answer is over 100000 bytes", Failure.SILENT)
    assert caller.Ask(b"x" * 100_000).body == b"x" * 100_000


def test_the_answers_of_one_node_together_have_a_limit_and_what_was_answered_counts_no_more(
    caller: Caller, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node in the wrong hands could fill the master's memory with answers that do not end."""
    monkeypatch.setattr(curl, "MAX_HELD", 100_000)
    server.part = 40_000
    answers: queue.Queue[Answer] = queue.Queue()
    for name in (b"a", b"b", b"c"):
        request = Request("node1", server.address, server.port, "/version", name * 50_000, timeout=_PATIENCE)
        caller.transport.Submit(request, answers.put)
    # Two of them are held at 40,000 bytes; whichever came last has no room.
    assert answers.get(timeout=_PATIENCE).error == (
        "node node1: its answers that are under way are over 100000 bytes together"
    )
    other = Server(tmp_path)
    try:
        assert caller.Ask(b"d" * 90_000, host=other.address, port=other.port).status == 203, "it is another node"
    finally:
        other.Close()
    server.rest.set()
    assert [len(answers.get(timeout=_PATIENCE).body) for _ in range(2)] == [50_000] * 2
    server.part = 1 << 40
    for _ in range(3):
        assert caller.Ask(b"e" * 100_000).status == 203


def test_each_call_carries_its_own_content_whichever_kind_came_before_it(caller: Caller, server: Server) -> None:
    for number, repeatable in enumerate((True, False, False, True, True, False)):
        body = b"content %d" % number + b"." * number * 10
        assert caller.Ask(body, repeatable=repeatable, headers={f"X-{number}": "a"}).body == body
        seen = server.Arrival()
        assert (seen["body"], {name for name in seen["headers"] if name.startswith("X-")}) == (body, {f"X-{number}"})


def test_an_owner_that_fails_to_take_its_answer_harms_nobody(caller: Caller, server: Server) -> None:
    def fail(answer: Answer) -> None:
        raise ZeroDivisionError

    caller.transport.Submit(Request("node1", server.address, server.port, "/version", b"[]"), fail)
    assert caller.Ask().status == 203


def test_a_new_certificate_is_shown_as_soon_as_it_is_there(caller: Caller, server: Server, tmp_path: Path) -> None:
    def shown() -> str:
        assert caller.Ask().status == 203
        return str(server.Arrival()["shown"])

    first = shown()
    (tmp_path / "client.pem").write_text(x509.MakeClientPem((tmp_path / "server.pem").read_text(), "other"))
    WaitUntil(lambda: shown() != first, "the new certificate is shown", _PATIENCE)
    second = shown()
    (tmp_path / "client.pem").unlink()
    WaitUntil(lambda: shown() not in (first, second), "without an own one the cluster's is shown", _PATIENCE)


def test_without_the_cluster_s_certificate_nobody_is_called(caller: Caller, server: Server, tmp_path: Path) -> None:
    (tmp_path / "server.pem").unlink()
    answer = caller.Ask()
    assert answer.failure is Failure.NOT_SENT and "node node1 cannot be called" in str(answer.error)
    assert server.arrived.empty()


def test_connections_to_many_nodes_are_kept(caller: Caller, server: Server, tmp_path: Path) -> None:
    with contextlib.ExitStack() as others:
        servers = [server]
        for _ in range(11):
            servers.append(Server(tmp_path))
            others.callback(servers[-1].Close)
        ports: list[list[int]] = []
        for _ in range(2):
            for each in servers:
                assert caller.Ask(host=each.address, port=each.port).status == 203
            ports.append([each.Arrival()["port"] for each in servers])
        assert ports[0] == ports[1], "the second time nobody is connected to anew"


def test_a_node_that_does_not_answer_is_given_up_in_time(caller: Caller, server: Server) -> None:
    server.go.clear()
    began = time.monotonic()
    answer = caller.Ask(b"slow", timeout=3)
    assert 2.9 < time.monotonic() - began < _PATIENCE / 2
    assert answer.error is not None and "timed out" in answer.error and answer.failure is Failure.SILENT
    assert server.Arrival()["body"] == b"slow"
    server.go.set()
    assert caller.Ask(b"next").status == 203


def test_why_a_node_was_not_reached_is_told_in_words_and_in_kind(caller: Caller, server: Server) -> None:
    address, port = server.lease.Address(), server.lease.Port()
    answer = caller.Ask(host=address, port=port)
    assert answer.error == f"node node1 ({address}:{port}): cannot connect: Connection refused"
    assert answer.failure is Failure.REFUSED and not answer.failure.accepted
    with socket.create_server((address, port), backlog=0), contextlib.ExitStack() as others:
        # A machine whose queue is full answers as little as one that is off.
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex((address, port))
        began = time.monotonic()
        answer = caller.Ask(host=address, port=port, connect_timeout=0.5)
        assert time.monotonic() - began < _PATIENCE / 2, "the call itself may take longer"
        assert answer.failure is Failure.UNREACHABLE and not answer.failure.accepted
        assert str(answer.error).startswith(f"node node1 ({address}:{port}): time-out: ")
    answer = caller.Ask(host="no-such-node.invalid")
    assert answer.failure is Failure.UNREACHABLE and "its name cannot be resolved" in str(answer.error)


def test_a_daemon_that_breaks_off_or_speaks_something_else_is_said_to_run(caller: Caller, server: Server) -> None:
    server.drop.set()
    answer = caller.Ask()
    where = f"node node1 ({server.address}:{server.port})"
    assert answer.error == f"{where}: it ended the connection before its answer was complete"
    assert answer.failure is Failure.SILENT and answer.failure.accepted
    with socket.create_server((server.lease.Address(), server.lease.Port())) as stranger:
        address, port = stranger.getsockname()
        _, answers = caller.Send(host=address, port=port)
        connection, _ = stranger.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            answer = answers.get(timeout=_PATIENCE)
    assert str(answer.error).startswith(f"node node1 ({address}:{port}): TLS failed: ")
    assert answer.failure is Failure.SILENT


def test_a_node_may_have_an_address_with_colons(caller: Caller, server: Server) -> None:
    answer = caller.Ask(host=f"::ffff:{server.address}")
    assert (answer.error, answer.status) == (None, 203)


def test_weak_ciphers_are_not_spoken(caller: Caller, tmp_path: Path) -> None:
    for ciphers, spoken in (("AES128-SHA256", False), ("ECDHE", True)):
        server = Server(tmp_path, ciphers)
        try:
            answer = caller.Ask(host=server.address, port=server.port)
            assert (answer.status == 203) is spoken, answer.error
        finally:
            server.Close()


def test_who_has_no_certificate_of_the_cluster_is_told_nothing(tmp_path: Path, server: Server) -> None:
    """The address of a node may belong to anybody by now."""
    (tmp_path / "cluster").mkdir()
    pem = x509.MakeServerPem()
    (tmp_path / "cluster" / "server.pem").write_text(pem)
    (tmp_path / "cluster" / "client.pem").write_text(x509.MakeClientPem(pem, "master"))
    caller = Caller(tmp_path / "cluster", server)
    try:
        answer = caller.Ask(b"secret")
        assert answer.error is not None and "certificate" in answer.error
    finally:
        caller.transport.Close()
    assert server.arrived.empty()


def test_no_proxy_stands_between_the_nodes(caller: Caller, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{server.address}:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert caller.Ask().status == 203


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_call_that_may_have_been_carried_out_is_repeated_only_if_that_does_no_harm(
    caller: Caller, server: Server, repeatable: bool
) -> None:
    assert caller.Ask(b"first").status == 203
    first = server.Arrival()
    server.drop.set()
    answer = caller.Ask(b"change", repeatable=repeatable)
    arrived = [server.Arrival()]
    while not server.arrived.empty():
        arrived.append(server.Arrival())
    assert arrived[0]["port"] == first["port"], "it came over the connection that was kept"
    assert {seen["body"] for seen in arrived} == {b"change"}
    if repeatable:
        assert (answer.status, len(arrived)) == (203, 2)
    else:
        assert len(arrived) == 1 and answer.error is not None and answer.failure is Failure.SILENT


def test_a_node_that_rejects_our_certificate_is_said_to(tmp_path: Path, server: Server) -> None:
    (tmp_path / "client.pem").write_text(x509.MakeClientPem(x509.MakeServerPem(), "stranger"))
    caller = Caller(tmp_path, server)
    try:
        answer = caller.Ask(b"secret")
        assert answer.failure is Failure.REJECTED and answer.error is not None and "certificate" in answer.error
    finally:
        caller.transport.Close()
    assert server.arrived.empty()
