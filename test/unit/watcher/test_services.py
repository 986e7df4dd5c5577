"""A REST daemon that does not answer is restarted once; one that needs a password lives."""

from __future__ import annotations

import http.server
import os
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest
from simulated import Machine, World
from support.allocator import Lease
from support.watched import MakeInstance, WatchedNode

from ganeti import hosts, runtime, x509
from ganeti.watcher import services

PORT = 5080
NOBODY = 65534


class StandIn:
    """An HTTPS server in place of the daemon, at its usual port of an address of its own; ``user``: who listens."""

    def __init__(self, address: str, folder: str, user: int | None = None):
        self.status, self.body = 200, b"2"
        self.asked: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *args: object) -> None:
                """Say nothing of a client that has seen enough."""

        before = os.geteuid()
        os.seteuid(before if user is None else user)
        try:
            self._server = Server((address, PORT), Handler)
        finally:
            os.seteuid(before)
        path = os.path.join(folder, "pem")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(x509.MakeRapiPem())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def Close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gnt-", dir="/tmp") as made:
        yield made


@pytest.fixture
def machine() -> Machine:
    return World(1).AddMachine("node1")


@pytest.fixture
def address(addresses: Lease) -> str:
    return addresses.Address()


@pytest.fixture
def rapi(address: str, folder: str) -> Iterator[StandIn]:
    made = StandIn(address, folder)
    yield made
    made.Close()


def test_who_answers_or_wants_a_password_lives(rapi: StandIn, address: str) -> None:
    assert services.ProbeRapi(address, PORT) is None
    assert rapi.asked == ["/version"]
    rapi.status, rapi.body = 401, b"{}"
    assert services.ProbeRapi(address, PORT) is None


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b"3", "its answer is not the version that was expected"),
        (200, b"", "its answer is not the version that was expected"),
        (502, b"2", "its answer has the status 502"),
        (302, b"2", "its answer has the status 302"),
    ],
)
def test_other_answers_show_no_living_daemon(rapi: StandIn, address: str, status: int, body: bytes, why: str) -> None:
    rapi.status, rapi.body = status, body
    assert services.ProbeRapi(address, PORT) == why


def test_an_answer_without_end_is_cut_off(rapi: StandIn, address: str) -> None:
    rapi.body = b"2" * 100_000
    assert services.ProbeRapi(address, PORT) not in (None, "its answer is not the version that was expected")


def test_nobody_there_is_no_living_daemon(address: str) -> None:
    why = services.ProbeRapi(address, PORT)
    assert why is not None and "onnect" in why


@pytest.fixture
def node(folder: str) -> Iterator[WatchedNode]:
    made = WatchedNode(folder, [MakeInstance(1)])
    made.Install("ganeti-rapi")
    yield made
    made.Close()


def _OfRapi(node: WatchedNode, address: str) -> list[str]:
    return [line for line in node.LogOfRun("--rapi-ip", address) if "ganeti-rapi" in line]


START, STOP = "start ganeti-rapi", "stop ganeti-rapi"


def test_a_living_daemon_is_left_alone(node: WatchedNode, rapi: StandIn, address: str) -> None:
    node.WatchInstances("--rapi-ip", address)
    assert START not in node.Asked() and rapi.asked == ["/version"]


def test_a_daemon_that_listens_at_the_nodes_address_is_found_there(
    node: WatchedNode, rapi: StandIn, address: str
) -> None:
    node.WriteSsconf("node_primary_ips", f"node2.example.org 192.0.2.9\n{node.name} {address}")
    node.WatchInstances()
    assert rapi.asked == ["/version"] and START not in node.Asked()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as somebody else")
def test_an_answer_of_another_user_is_not_the_daemons(node: WatchedNode, address: str, folder: str) -> None:
    """The daemon hangs, bound to another address; somebody with an account answers at this one."""
    impostor = StandIn(address, folder, NOBODY)
    try:
        node.WriteSsconf("node_primary_ips", f"{node.name} {address}")
        lines = [line for line in node.LogOfRun() if "ganeti-rapi" in line]
    finally:
        impostor.Close()
    assert impostor.asked == [] and [word for word in node.Asked() if word in (START, STOP)] == [STOP, START]
    assert f"{address} port {PORT}: it does not listen there" in lines[-1]


_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def _Row(local: str, uid: int, state: str = "0A") -> str:
    return f"   0: {local}:13D8 {'0' * len(local)}:0000 {state} 00000000:00000000 00:00000000 00000000  {uid:4}  0 1593 1 0\n"


@pytest.mark.skipif(sys.byteorder != "little", reason="the rows are of such a machine")
@pytest.mark.parametrize("with_ipv6", [True, False])
def test_where_a_user_listens(machine: Machine, with_ipv6: bool) -> None:
    rows = [_Row("0100007F", 0), _Row("0200007F", 1000), _Row("0300007F", 33, "01"), _Row("0400007F", 33)]
    files = {"/proc/net/tcp": _HEAD + "".join(rows)}
    if with_ipv6:
        files["/proc/net/tcp6"] = _HEAD + _Row("B80D0120000000000000000001000000", 33) + _Row("0" * 32, 0)

    def look() -> tuple[set[str], set[str]]:
        for path, text in files.items():
            runtime.MakeDirs(os.path.dirname(path))
            runtime.WriteFile(path, text)
        return hosts.ListeningAt(PORT, (0, 33)), hosts.ListeningAt(PORT + 1, (0, 33))

    expected = {"127.0.0.1", "127.0.0.4"} | ({"2001:db8::1", "::"} if with_ipv6 else set())
    assert machine.Call(look) == (expected, set())


@pytest.mark.skipif(sys.byteorder != "little", reason="the rows are of such a machine")
def test_where_a_user_takes_datagrams(machine: Machine) -> None:
    def look() -> set[str]:
        runtime.MakeDirs("/proc/net")
        runtime.WriteFile("/proc/net/udp", _HEAD + _Row("0100007F", 0, "07") + _Row("0200007F", 0, "01"))
        runtime.WriteFile("/proc/net/tcp", _HEAD + _Row("0300007F", 0))
        return hosts.ListeningAt(PORT, (0,), udp=True)

    assert machine.Call(look) == {"127.0.0.1"}


def test_a_dead_daemon_is_restarted_once_and_then_only_reported(node: WatchedNode, address: str) -> None:
    lines = _OfRapi(node, address)
    assert [word for word in node.Asked() if word in (START, STOP)] == [STOP, START]
    assert "does not answer" in lines[-2] and lines[-2].startswith("WARNING")
    assert lines[-1].startswith("ERROR") and "after a restart either" in lines[-1] and "--rapi-ip" in lines[-1]


def test_a_daemon_that_answers_after_its_restart(node: WatchedNode, rapi: StandIn, address: str, folder: str) -> None:
    """It answers wrongly until it is restarted: the start is seen by a file that daemon-util makes."""
    rapi.status = 500
    sign = os.path.join(folder, "started")
    node.OnDaemonUtil("start", "ganeti-rapi", f"touch {sign}; while [ -e {sign} ]; do sleep 0.05; done")

    def recover() -> None:
        while not os.path.exists(sign):
            pause.wait(0.02)
        rapi.status = 200
        os.unlink(sign)

    pause = threading.Event()
    helper = threading.Thread(target=recover)
    helper.start()
    lines = _OfRapi(node, address)
    helper.join()
    assert lines[-1] == "INFO ganeti-rapi answers again"


def test_an_address_of_another_machine_says_nothing_about_this_daemon(node: WatchedNode) -> None:
    lines = _OfRapi(node, "198.51.100.7")
    assert START not in node.Asked() and STOP not in node.Asked()
    assert lines[-1].startswith("ERROR") and "198.51.100.7 is not an address of this machine" in lines[-1]


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--rapi-ip=127.206.198.300", "'127.206.198.300' is not an IP address"),
        ("--rapi-ip=foo", "'foo' is not an IP address"),
        ("-A-1", "option -A: Invalid time specification '-1': it is below 0"),
        ("--job-age=-5m", "option -A: Invalid time specification '-5m': it is below 0"),
    ],
)
def test_a_mistake_in_the_command_line_does_nothing(node: WatchedNode, option: str, why: str) -> None:
    done = node.Watch(option)
    assert done.returncode == 2 and why in done.stderr
    assert node.Asked() == []


def test_one_that_could_not_be_started_is_not_asked(node: WatchedNode, rapi: StandIn, address: str) -> None:
    node.OnDaemonUtil("check-and-start", "ganeti-rapi", "echo 'supervised by systemd' >&2; exit 1")
    lines = _OfRapi(node, address)
    assert rapi.asked == [] and "supervised by systemd" in lines[-1] and START not in node.Asked()
