"""A real node daemon and the real transport: who may call, what bad clients get, how it starts and ends."""

from __future__ import annotations

import os
import queue
import re
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.noded import CANDIDATES, Cluster, Noded
from support.realcluster import WaitUntil

from ganeti import constants, rpc, runtime, x509
from ganeti.rpc.base import ABORTED, Answer, Request
from ganeti.rpc.curl import CurlTransport
from ganeti.rpc.longcalls import LONG_CALLS

PORT = constants.DEFAULT_NODED_PORT


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.Close()


def version(cluster: Cluster, transport: CurlTransport | None = None, node: str = "node1") -> str | int:
    """The protocol's number, or why there is none."""
    result = cluster.Runner(transport).call_version([node])[node]
    return result.fail_msg or result.payload


def client_context(cluster: Cluster, client_file: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cluster.server_file)
    context.load_cert_chain(client_file or cluster.client_file)
    return context


def connect(cluster: Cluster, noded: Noded, timeout: float = 20) -> ssl.SSLSocket:
    raw = socket.create_connection((noded.address, PORT), timeout)
    return client_context(cluster).wrap_socket(raw)


def read_all(sock: socket.socket) -> bytes:
    parts = []
    try:
        while data := sock.recv(65536):
            parts.append(data)
    except (ConnectionError, ssl.SSLError):
        pass
    return b"".join(parts)


# Who may call


def test_a_candidate_is_served_over_one_kept_connection(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    runner = cluster.Runner()
    for _ in range(10):
        assert runner.call_version(["node1"])["node1"].payload == constants.PROTOCOL_VERSION
    assert runner.call_get_watcher_pause("node1").payload is None
    servers = noded.Servers("version")
    assert len(servers) == 10 and len(set(servers)) == 1


@pytest.mark.req("D20-MD-04")
def test_many_threads_share_one_transport(cluster: Cluster) -> None:
    """Each thread gets the answer to its own question."""
    noded = cluster.StartNoded("node1")
    runner = cluster.Runner()
    wrong: list[tuple[int, object]] = []

    def ask(number: int) -> None:
        path = f"/var/lib/ganeti/file{number}"
        for _ in range(10):
            result = runner.call_get_file_info("node1", noded.Path(path))
            if result.payload != [True, {"size": number}]:
                wrong.append((number, result.fail_msg or result.payload))

    for number in range(16):
        noded.Write(f"/var/lib/ganeti/file{number}", "x" * number)
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_certificate_that_is_no_candidates_is_refused(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    other = cluster.WritePem("other.pem", x509.MakeClientPem(cluster.server_pem, "node9"))
    assert isinstance(version(cluster, cluster.Transport(client_file=other)), str)
    assert noded.WaitLog("is not that of a master candidate")
    # The cluster's own certificate serves for the set-up only.
    assert isinstance(version(cluster, cluster.Transport(client_file=cluster.server_file)), str)
    assert version(cluster) == constants.PROTOCOL_VERSION


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_shows_no_certificate_is_refused_before_he_can_ask(cluster: Cluster, version: ssl.TLSVersion) -> None:
    noded = cluster.StartNoded("node1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cluster.server_file)
    context.minimum_version = context.maximum_version = version
    with socket.create_connection((noded.address, PORT), 20) as raw:
        # With TLS 1.3 the client's side of the handshake ends first.
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"), context.wrap_socket(raw) as sock:
            sock.recv(1)
    assert noded.WaitLog("peer did not return a certificate")


def test_another_cluster_is_refused_on_both_sides(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    server_pem = x509.MakeServerPem()
    strange_server = cluster.WritePem("strange-server.pem", server_pem)
    strange_client = cluster.WritePem("strange-client.pem", x509.MakeClientPem(server_pem, "master"))
    # It would not talk to our node ...
    assert "certificate" in str(version(cluster, cluster.Transport(strange_server, strange_client)))
    # ... and ours does not talk to it, even if its digest were listed.
    cluster.SetCandidates(noded, Path(strange_client).read_text(), server_pem)
    for client in (strange_client, strange_server):
        assert isinstance(version(cluster, cluster.Transport(client_file=client)), str)
    cluster.SetCandidates(noded, cluster.client_pem)
    assert version(cluster) == constants.PROTOCOL_VERSION


def test_before_there_are_candidates_the_cluster_certificate_opens(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1", bootstrap=True)
    with_server = cluster.Transport(client_file=cluster.server_file)
    assert version(cluster, with_server) == constants.PROTOCOL_VERSION
    assert isinstance(version(cluster), str)
    # The connection stays, the right to use it goes with the first candidate.
    cluster.SetCandidates(noded, cluster.client_pem)
    assert isinstance(version(cluster, with_server), str)
    assert version(cluster) == constants.PROTOCOL_VERSION


@pytest.mark.parametrize(
    "text", [None, "", "\n", "\0" * 200, "uuid0 AB:CD", "=\n=\n", "uuid0=AB:CD\n", "x" * 200000, "uuid0=\xff"]
)
def test_a_damaged_list_of_candidates_opens_to_nobody(cluster: Cluster, text: str | None) -> None:
    """Every node has server.pem: it must not open what the list of candidates closes."""
    noded = cluster.StartNoded("node1")
    noded.Write("/var/lib/ganeti/ssconf_cluster_name", "cluster.example.com\n")
    if text is None:
        Path(noded.Path(CANDIDATES)).unlink()
    else:
        Path(noded.Path(CANDIDATES)).write_text(text, encoding="latin-1")
    for client in (cluster.server_file, cluster.client_file):
        assert isinstance(version(cluster, cluster.Transport(client_file=client)), str), client
    # The lines that are good still count.
    Path(noded.Path(CANDIDATES)).write_text(f"uuid0=AB\nrubbish\nuuid1={x509.Digest(cluster.client_pem)}\n")
    assert version(cluster) == constants.PROTOCOL_VERSION
    assert isinstance(version(cluster, cluster.Transport(client_file=cluster.server_file)), str)


def test_what_one_node_recorded_no_other_node_can_read(cluster: Cluster) -> None:
    """All nodes share the key of server.pem: without a key of its own, a connection would be open to each of them."""
    noded = cluster.StartNoded("node1")
    for cipher, served in (("AES256-GCM-SHA384", False), ("ECDHE-RSA-AES256-GCM-SHA384", True)):
        context = client_context(cluster)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(cipher)
        with socket.create_connection((noded.address, PORT), 20) as raw:
            if not served:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    context.wrap_socket(raw)
                continue
            with context.wrap_socket(raw) as sock:
                assert sock.version() == "TLSv1.2"


def test_the_certificate_is_looked_at_before_every_request(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    with connect(cluster, noded) as sock:
        request = b"POST /version HTTP/1.1\r\nHost: node1\r\nContent-Length: 2\r\n\r\n[]"
        sock.sendall(request)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        cluster.SetCandidates(noded, x509.MakeClientPem(cluster.server_pem, "node2"))
        sock.sendall(request)
        assert read_all(sock) == b""
    assert len(noded.Servers("version")) == 1


# Bad clients


def test_what_is_no_tls_or_no_http_ends_quickly_and_harms_nobody(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    for garbage in (b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 100, b"\0" * 5000):
        with socket.create_connection((noded.address, PORT), 20) as raw:
            raw.sendall(garbage)
            raw.shutdown(socket.SHUT_WR)
            read_all(raw)
    for request, status in (
        (b"rubbish\r\n\r\n", b"400"),
        (b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST /version HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 300000 + b"\r\n\r\n", b"400"),
        (b"POST /" + b"v" * 9000 + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]", b"400"),
        (b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"400"),
        (b"HEAD /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"400"),
        (b"POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]", b"404"),
        (b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\n[[]", b"200"),
    ):
        with connect(cluster, noded) as sock:
            sock.sendall(request)
            assert read_all(sock).split(b" ")[1] == status, request[:40]
    assert "Traceback" not in noded.Log()
    assert version(cluster) == constants.PROTOCOL_VERSION


def test_who_is_refused_while_still_sending_can_read_why(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    for head, status in (
        (b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST /" + b"v" * 9000 + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n", b"400"),
    ):
        with connect(cluster, noded) as sock:
            sock.sendall(head + b"x" * 4_000_000)
            assert read_all(sock).split(b" ")[1] == status


@pytest.mark.slow
def test_clients_that_stop_halfway_are_dropped_in_time(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    silent = socket.create_connection((noded.address, PORT), 30)
    half_hello = socket.create_connection((noded.address, PORT), 30)
    half_hello.sendall(b"\x16\x03\x01\x02\x00\x01")
    half_head = connect(cluster, noded, 30)
    half_head.sendall(b"POST /version HTTP/1.1\r\nHo")
    half_body = connect(cluster, noded, 30)
    half_body.sendall(b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n[")
    idle = connect(cluster, noded, 30)
    idle.sendall(b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]")
    assert idle.recv(65536).startswith(b"HTTP/1.1 200")
    started = time.monotonic()
    for sock, seconds in ((silent, 10), (half_hello, 10), (half_head, 10), (half_body, 10), (idle, 15)):
        assert read_all(sock) == b""
        assert time.monotonic() - started < seconds + 5
        sock.close()
    assert "Traceback" not in noded.Log()
    assert version(cluster) == constants.PROTOCOL_VERSION


# Many clients


@pytest.mark.req("D20-NODE-02", "D22-MD-11")
def test_long_calls_delay_no_others_and_need_no_thread_each(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    transport = cluster.Transport()
    runner = cluster.Runner(transport)
    before = threading.active_count()
    answers: list[Answer] = []
    done = threading.Event()

    def finished(answer: Answer) -> None:
        answers.append(answer)
        if len(answers) == 13:
            done.set()

    started = time.monotonic()
    for _ in range(13):
        transport.Submit(Request("node1", noded.address, PORT, "/test_delay", b"[8]", timeout=900), finished)
    assert runner.call_version(["node1"])["node1"].payload == constants.PROTOCOL_VERSION
    assert not answers and time.monotonic() - started < 8
    assert threading.active_count() <= before
    assert done.wait(40)
    assert [answer.body for answer in answers] == [b"[true,null]"] * 13


def test_an_idle_connection_makes_room(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1", "--max-clients", "2")
    request = b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]"
    first, second = connect(cluster, noded), connect(cluster, noded)
    for sock in (first, second):
        sock.sendall(request)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        # Idle from now on, not only once its process gets another turn.
        WaitUntil(noded.Asleep, "it waits for the next request")
    # The longer idle one goes.
    assert version(cluster) == constants.PROTOCOL_VERSION
    assert read_all(first) == b""
    second.sendall(request)
    assert second.recv(65536).startswith(b"HTTP/1.1 200")
    first.close()
    second.close()


def test_a_busy_connection_makes_no_room(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1", "--max-clients", "2")
    head = b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    busy = [connect(cluster, noded) for _ in range(2)]
    # Both are known before they become busy: a third one, which is not, does not overtake them.
    for sock in busy:
        sock.sendall(head % (b"version", 2) + b"[]")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    started = time.monotonic()
    for sock in busy:
        sock.sendall(head % (b"test_delay", 5) + b"[1.5]")
    assert version(cluster) == constants.PROTOCOL_VERSION
    # It had to wait for one of them, and neither was ended.
    assert time.monotonic() - started >= 1.5
    for sock in busy:
        assert sock.recv(65536).endswith(b"[true,null]")
        sock.close()


def test_silent_strangers_do_not_keep_a_candidate_out(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1", "--max-clients", "3")
    strangers = [socket.create_connection((noded.address, PORT), 20) for _ in range(3)]
    try:
        assert version(cluster) == constants.PROTOCOL_VERSION
    finally:
        for sock in strangers:
            sock.close()


# The master's side


def test_a_node_that_hangs_is_given_up_in_time(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    transport = cluster.Transport()
    answers: list[Answer] = []
    done = threading.Event()

    def finished(answer: Answer) -> None:
        answers.append(answer)
        done.set()

    started = time.monotonic()
    transport.Submit(Request("node1", noded.address, PORT, "/test_delay", b"[20]", timeout=1), finished)
    assert done.wait(30) and time.monotonic() - started < 15
    assert "time-out" in (answers[0].error or "") and "node1" in (answers[0].error or "")


def test_nobody_there_and_no_such_name_say_so(cluster: Cluster) -> None:
    cluster.MakeNode("node1")
    started = time.monotonic()
    assert "cannot connect" in str(version(cluster))
    assert time.monotonic() - started < 10


class Rubbish(threading.Thread):
    """A TLS server with the cluster's certificate that gives the same answer to everything, then closes."""

    def __init__(self, cluster: Cluster, address: str, answer: bytes, first: bytes = b""):
        super().__init__(daemon=True)
        self.first = first
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cluster.server_file)
        self.listener = socket.create_server((address, PORT))
        self.answer = answer
        self.requests = 0

    def run(self) -> None:
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            try:
                with self.context.wrap_socket(raw, server_side=True) as sock:
                    while sock.recv(65536):
                        self.requests += 1
                        first, self.first = self.first, b""
                        sock.sendall(first or self.answer)
                        if not first:
                            break
            except OSError:
                pass

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join(10)


def http(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "before its answer was complete"),
        (b"\0\1\2rubbish", "node1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[true", "before its answer was complete"),
        (http(b"", "503 Service Unavailable"), "HTTP status 503"),
        (http(b"no json"), "RPC layer error: not valid JSON"),
        (http(b"5"), "RPC layer error: invalid result type (int)"),
        (http(b"[true]"), "RPC layer error: invalid result length (1), expected 2"),
        (http(b'[false,""]'), "No error information"),
        (http(b"[false,null]"), "null"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Y: " + b"y" * 70000 + b"\r\n\r\n", "65536"),
    ],
)
def test_rubbish_for_an_answer_is_a_failure_with_words(cluster: Cluster, answer: bytes, text: str) -> None:
    noded = cluster.MakeNode("node1")
    server = Rubbish(cluster, noded.address, answer)
    server.start()
    try:
        result = cluster.Runner().call_set_watcher_pause(["node1"], None)["node1"]
    finally:
        server.close()
    assert text in (result.fail_msg or "")
    assert result.payload is None
    # A request that changes something is never sent a second time.
    assert server.requests == 1


class Hoarder(threading.Thread):
    """A node that answers much, and never all of it, until it is told to end."""

    def __init__(self, cluster: Cluster, address: str, body: bytes):
        super().__init__(daemon=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cluster.server_file)
        self.listener = socket.create_server((address, PORT))
        self.head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1)
        self.body = body
        self.sent = queue.Queue[int]()
        self.end = threading.Event()

    def run(self) -> None:
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.Serve, args=(raw,), daemon=True).start()

    def Serve(self, raw: socket.socket) -> None:
        try:
            with self.context.wrap_socket(raw, server_side=True) as sock:
                sock.recv(65536)
                sock.sendall(self.head + self.body)
                self.sent.put(1)
                self.end.wait(60)
        except OSError:
            pass


def test_one_node_cannot_fill_the_master_s_memory_with_many_answers(cluster: Cluster) -> None:
    noded = cluster.MakeNode("node1")
    server = Hoarder(cluster, noded.address, b"x" * 50_000_000)
    server.start()
    transport = cluster.Transport()
    answers: queue.Queue[Answer] = queue.Queue()

    def ask() -> None:
        transport.Submit(Request("node1", noded.address, PORT, "/version", b"[]", {}, timeout=100), answers.put)

    for _ in range(2):
        ask()
        server.sent.get(timeout=60)
    assert answers.empty(), "two are below the limit"
    ask()
    assert "are over 134217728 bytes together" in (answers.get(timeout=60).error or "")
    server.end.set()
    for _ in range(2):
        assert "before its answer was complete" in (answers.get(timeout=60).error or "")
    # What has ended does not count.
    server.end.clear()
    for _ in range(2):
        ask()
        server.sent.get(timeout=60)
    assert answers.empty()
    server.end.set()
    server.listener.shutdown(socket.SHUT_RDWR)
    server.listener.close()


def test_a_changing_request_is_not_repeated_when_a_kept_connection_breaks(cluster: Cluster) -> None:
    noded = cluster.MakeNode("node1")
    good = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n[true,null]"
    server = Rubbish(cluster, noded.address, b"", good)
    server.start()
    try:
        runner = cluster.Runner()
        assert runner.call_set_watcher_pause(["node1"], 1)["node1"].fail_msg is None
        failed = runner.call_set_watcher_pause(["node1"], 2)["node1"]
        assert failed.fail_msg
        assert server.requests == 2
    finally:
        server.close()


# Epochs


def test_changing_calls_need_an_epoch_and_an_older_one_is_refused(cluster: Cluster) -> None:
    cluster.StartNoded("node1")
    runner = cluster.Runner()
    pause = runner.call_set_watcher_pause
    assert pause(["node1"], 1)["node1"].fail_msg is None
    cluster.epoch = "2.0000000000000001"
    assert pause(["node1"], 2)["node1"].fail_msg is None
    cluster.epoch = "1.ffffffffffffffff"
    result = pause(["node1"], 3)["node1"]
    assert result.epoch_refused == ("2.0000000000000001", "master")
    assert cluster.refused == [("2.0000000000000001", "master")]
    assert runner.call_get_watcher_pause("node1").payload == 2
    cluster.epoch = None
    assert "epoch" in (pause(["node1"], 4)["node1"].fail_msg or "")
    # That was no newer master: nobody has to stop.
    assert len(cluster.refused) == 1
    assert runner.call_get_watcher_pause("node1").payload == 2


# Life and death


@pytest.mark.req("D21-NODED-01", "D21-NODED-02")
def test_memory_is_locked_in_parent_and_children_and_small(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    assert version(cluster) == constants.PROTOCOL_VERSION
    noded.WaitExporter()
    (child,) = noded.Children()
    for pid in (noded.pid, child):
        assert noded.Memory(pid, "VmLck") > 0.9 * noded.Memory(pid, "VmRSS")
    assert noded.Memory(noded.pid, "Pss") <= 50 * 1024


def test_the_exporter_is_started_again_when_it_dies(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    assert version(cluster) == constants.PROTOCOL_VERSION
    first = noded.WaitExporter()
    runtime.KillProcess(first, signal.SIGKILL)
    assert noded.WaitLog("the exporter (process")
    noded.WaitExporter(other_than=first)
    noded.Signal(signal.SIGTERM)
    assert noded.WaitEnd()
    # That it ends with its daemon is no error.
    assert len(re.findall(r" ERROR .*ended; it is started again", noded.Log())) == 1


@pytest.mark.limit(180)
def test_the_exporter_never_outlives_its_daemon(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    assert version(cluster) == constants.PROTOCOL_VERSION
    exporter = noded.WaitExporter()
    noded.Signal(signal.SIGKILL)
    assert noded.WaitEnd()
    assert runtime.WaitProcess(exporter, 10)
    # Told to end in the very moment in which it starts an exporter again.
    for pause in (0.0, 0.001, 0.003, 0.006, 0.01):
        noded.Start()
        exporter = noded.WaitExporter()
        runtime.KillProcess(exporter, signal.SIGKILL)
        time.sleep(pause)
        noded.Signal(signal.SIGTERM)
        assert noded.WaitEnd()
        started = re.findall(r"Started the exporter as process (\d+)", noded.Log())
        for pid in started:
            assert runtime.WaitProcess(int(pid), 10)


def test_a_process_whose_daemon_is_killed_serves_nobody_and_signals_no_other(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    exporter = noded.WaitExporter()
    raw = socket.create_connection((noded.address, PORT), 20)
    with client_context(cluster).wrap_socket(raw, do_handshake_on_connect=False) as sock:
        sock.setblocking(False)
        with pytest.raises(ssl.SSLWantReadError):
            sock.do_handshake()  # the greeting is sent: it is worth a child
        deadline = time.monotonic() + 10
        while not (children := noded.Children()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        noded.Signal(signal.SIGKILL)
        assert noded.WaitEnd()
        # Now it has greeted its peer.  It tells its parent so, but nobody who adopted it.
        sock.settimeout(20)
        sock.do_handshake()
        assert read_all(sock) == b""
    assert all(runtime.WaitProcess(pid, 10) for pid in [exporter, *children])
    assert "Error" not in noded.Log()


def test_without_memory_lock_nothing_is_locked(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1", "--no-mlock")
    assert version(cluster) == constants.PROTOCOL_VERSION
    assert noded.Memory(noded.pid, "VmLck") == 0


def under_way(runner: rpc.RpcRunner) -> list[str]:
    """The procedures that the node works on."""
    result = runner.call_node_long_calls(["node1"], 0.0)["node1"]
    assert result.fail_msg is None, result.fail_msg
    return [call[0] for call in result.payload if call[0] != LONG_CALLS]


def test_told_to_end_it_finishes_what_it_does(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    runner = cluster.Runner()
    results: list[str | None] = []
    done = threading.Event()

    def finished(result: object) -> None:
        results.append(getattr(result, "fail_msg", ""))
        done.set()

    assert version(cluster) == constants.PROTOCOL_VERSION
    runner.Start("test_delay", ["node1"], [5], finished)
    # A process that still greets its peer ends at once: the call itself must be under way.
    deadline = time.monotonic() + 20
    while not results and not (calls := under_way(runner)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert calls == ["test_delay"]
    noded.Signal(signal.SIGTERM)
    assert done.wait(20) and results == [None]
    assert noded.WaitEnd()
    assert not Path(noded.Path("/var/run/ganeti/ganeti-noded.pid")).exists()
    noded.Start()
    assert version(cluster) == constants.PROTOCOL_VERSION


def test_a_second_daemon_does_not_start_and_a_new_certificate_is_taken_up(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    code = "import sys; from ganeti.server.noded import Main; sys.exit(Main())"
    result = noded.Python(code, "-b", noded.address)
    assert result.returncode == 1 and str(noded.pid) in result.stderr
    transport = cluster.Transport()
    assert version(cluster, transport) == constants.PROTOCOL_VERSION
    # The cluster gets a new certificate: both sides notice without a restart.
    server_pem = x509.MakeServerPem()
    client_pem = x509.MakeClientPem(server_pem, "master")
    noded.Write("/var/lib/ganeti/server.pem", server_pem)
    cluster.SetCandidates(noded, client_pem)
    Path(cluster.server_file).write_text(server_pem)
    Path(cluster.client_file).write_text(client_pem)
    deadline = time.monotonic() + 30
    while version(cluster, transport) != constants.PROTOCOL_VERSION:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_without_a_certificate_there_is_no_cluster_to_serve(cluster: Cluster) -> None:
    noded = cluster.MakeNode("node1")
    Path(noded.Path("/var/lib/ganeti/server.pem")).unlink()
    code = "import sys; from ganeti.server.noded import Main; sys.exit(Main())"
    result = noded.Python(code, "-b", noded.address)
    assert result.returncode == constants.EXIT_NOTCLUSTER and "server.pem" in result.stderr
    result = noded.Python(code, "--max-clients", "0")
    assert result.returncode == 1 and "--max-clients" in result.stderr


def test_a_reset_is_answered_before_it_happens(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    guest = Path(noded.Write("/var/run/ganeti/fake-hypervisor/guest", "0\n64\n1\n"))
    result = cluster.Runner().call_node_powercycle("node1", "fake", {})
    assert result.payload == "Reboot scheduled in 5 seconds"
    assert guest.exists()
    deadline = time.monotonic() + 30
    while guest.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "virtual" in (cluster.Runner().call_node_powercycle("node1", "kvm", {}).fail_msg or "")


def test_requests_sent_at_once_are_answered_in_order(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    with connect(cluster, noded) as sock:
        head = b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n%s\r\n[]"
        sock.sendall(head % (b"version", b"") + head % (b"get_watcher_pause", b"Connection: close\r\n"))
        answers = read_all(sock)
    assert answers.count(b"HTTP/1.1 200") == 2
    assert answers.index(b"3010000") < answers.index(b"[true,null]")


@pytest.mark.filterwarnings("error")
def test_more_descriptors_than_select_can_count(cluster: Cluster) -> None:
    cluster.StartNoded("node1")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(2048, limits[1])), limits[1]))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        assert max(held) > 1024
        transport = cluster.Transport()
        before = time.process_time()
        runner = cluster.Runner(transport)
        result = runner.call_test_delay(["node1"], 1)["node1"]
        assert result.fail_msg is None
        # Waiting costs nothing: no busy loop.
        assert time.process_time() - before < 0.5
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_leaving_the_cluster_ends_the_daemon_and_its_secrets(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    noded.Write("/var/lib/ganeti/queue/job-7", "{}")
    noded.Write("/var/lib/ganeti/queue/archive/0/job-1", "{}")
    noded.Write("/var/lib/ganeti/rapi/users", "secret")
    runner = cluster.Runner()
    assert runner.call_set_watcher_pause(["node1"], 1)["node1"].fail_msg is None
    assert Path(noded.Path("/var/lib/ganeti/ext/store.db")).exists()
    result = runner.call_node_leave_cluster("node1", False)
    assert result.payload == "Shutdown scheduled"
    assert noded.WaitEnd()
    left = [path for path in Path(noded.Path("/var/lib/ganeti")).rglob("*") if path.is_file()]
    assert left == []
    assert runtime.Exists(noded.Path("/var/log/ganeti/node-daemon.log"))


def test_more_calls_than_a_node_takes_wait_for_their_turn(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    transport = cluster.Transport()
    answers: list[Answer] = []
    done = threading.Event()

    def finished(answer: Answer) -> None:
        answers.append(answer)
        if len(answers) == 40:
            done.set()

    # A slot in the middle of the queue is given up by its owner.
    requests = [
        Request("node1", noded.address, PORT, "/test_delay", body, timeout=900 if number % 2 else 60)
        for number, body in enumerate([b"[0.2]"] * 35 + [b"[600]"] + [b"[0.2]"] * 4)
    ]
    for request in requests:
        transport.Submit(request, finished)
    transport.Abort(requests[35])
    assert done.wait(30)
    bodies = [answer.body for answer in answers]
    assert bodies.count(b"[true,null]") == 39
    assert [answer.error for answer in answers if answer.error] == [ABORTED]
    # One that waits for longer than its own time is told so.
    waited: list[Answer] = []
    told = threading.Event()

    def gave_up(answer: Answer) -> None:
        waited.append(answer)
        told.set()

    for _ in range(5):
        transport.Submit(Request("node1", noded.address, PORT, "/test_delay", b"[60]", timeout=60), lambda _: None)
    transport.Submit(Request("node1", noded.address, PORT, "/version", b"[]", timeout=1), gave_up)
    assert told.wait(10)
    assert "too many calls to node node1" in (waited[0].error or "")
