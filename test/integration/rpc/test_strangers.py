"""Strangers on the node daemon's port: they can neither stop changes nor keep a master out, nor push one out."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.noded import Cluster, Noded
from support.realcluster import RealCluster
from support.strangers import Strangers

from ganeti import constants, runtime
from ganeti.luxi.client import Client as LuxiClient
from ganeti.rpc.base import Answer, Request

PORT = constants.DEFAULT_NODED_PORT
VERSION = b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]"
PROGRAM = "import sys; from ganeti.server.noded import Main; sys.exit(Main())"
# Far from the ten seconds for which a stranger may hold a place; 0.2 on an idle machine (see doc/security.rst).
SOON = 3.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.Close()


def connect(cluster: Cluster, noded: Noded) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cluster.server_file)
    context.load_cert_chain(cluster.client_file)
    return context.wrap_socket(socket.create_connection((noded.address, PORT), 20))


def ask(sock: ssl.SSLSocket) -> float:
    """Seconds until a call is answered."""
    started = time.monotonic()
    sock.sendall(VERSION)
    assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    return time.monotonic() - started


def typical(times: list[float]) -> float:
    """All but the slowest tenth are quicker than that."""
    return sorted(times)[len(times) * 9 // 10 - 1]


@pytest.mark.parametrize("kind", ["silent", "half", "nonsense"])
def test_strangers_do_not_delay_new_connections_of_a_candidate(cluster: Cluster, kind: str) -> None:
    noded = cluster.StartNoded("node1")
    with Strangers([noded.address], 250, kind):
        times = []
        for _ in range(20):
            started = time.monotonic()
            with connect(cluster, noded) as sock:
                ask(sock)
            times.append(time.monotonic() - started)
    assert typical(times) < SOON, times


def test_strangers_with_a_whole_greeting_delay_their_own_address_only(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    with Strangers([noded.address], 250, "hello", cluster.lease.Address()):
        times = []
        for _ in range(20):
            started = time.monotonic()
            with connect(cluster, noded) as sock:
                ask(sock)
                # Half of the places for those who have not proved who they are, the exporter and this one.
                assert len(noded.Children()) <= 8 + 2
            times.append(time.monotonic() - started)
    assert typical(times) < SOON, times


def test_strangers_from_many_addresses_must_go_within_seconds_for_those_who_wait(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(Strangers([noded.address], 80, "hello", cluster.lease.Address()))
        started = time.monotonic()
        for _ in range(3):
            with connect(cluster, noded) as sock:
                ask(sock)
    # Nobody has to wait until a handshake's own ten seconds are over.
    assert time.monotonic() - started < 15


def test_strangers_end_no_connection_of_a_candidate(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    with connect(cluster, noded) as sock, Strangers([noded.address], 250, "hello"):
        ask(sock)
        # Longer than a stranger may stay, so that places were sought many times.
        times = []
        for _ in range(4):
            time.sleep(1.5)
            times.append(ask(sock))
    assert typical(times) < SOON, times
    assert len(set(noded.Servers("version"))) == 1


def test_strangers_cost_few_processes_and_few_lines(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    with contextlib.ExitStack() as stack:
        stack.enter_context(Strangers([noded.address], 250, "nonsense"))
        # Each address may have eight that have not proved who they are.
        for _ in range(4):
            stack.enter_context(Strangers([noded.address], 80, "hello", cluster.lease.Address()))
        most = 0
        began = time.monotonic()
        while (waited := time.monotonic() - began) < 4 or (most <= 8 and waited < 30):
            most = max(most, len(noded.Children()))
            time.sleep(0.05)
    # One of them is the exporter.
    assert 8 < most <= 17
    assert len(noded.Log().splitlines()) < 100


def test_more_connections_than_the_lobby_holds(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    with Strangers([noded.address], 1200, "silent", cluster.lease.Address()):
        times = []
        for _ in range(5):
            started = time.monotonic()
            with connect(cluster, noded) as sock:
                ask(sock)
            times.append(time.monotonic() - started)
    # They are let in in turns; the waiting has an end.
    assert max(times) < 15, times


def started_master(cluster: RealCluster) -> LuxiClient:
    cluster[0].StartMaster()
    return cluster[0].Client()


def slowest_of_hundred(client: LuxiClient) -> float:
    """All of a hundred changes but one are quicker than that."""
    times = []
    for number in range(100):
        started = time.monotonic()
        client.Call("SetDrainFlag", [number % 2 == 0])
        times.append(time.monotonic() - started)
    return sorted(times)[98]


def test_changes_are_acknowledged_while_strangers_hold_every_node() -> None:
    """Compared with the same changes without strangers; the quietest of some turns each, as the machine may be busy.

    Whoever waited for a stranger to go would wait for a second.
    """
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        strangers = Strangers([node.address for node in cluster.nodes], 250)
        with strangers, started_master(cluster) as client:  # they are there first: the master has no connection yet
            held = [slowest_of_hundred(client)]
        with cluster[0].Client() as client:
            free = [slowest_of_hundred(client)]
            for _ in range(2):
                with strangers:
                    held.append(slowest_of_hundred(client))
                free.append(slowest_of_hundred(client))
        assert min(held) < 2 * min(free) + 0.2, (held, free)


# Long calls


def test_long_calls_keep_out_no_call_of_the_store(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    held = [connect(cluster, noded) for _ in range(20)]
    try:
        for sock in held:
            sock.sendall(b"POST /test_delay HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n[20]")
        wait_for_children(noded, 20)
        transport = cluster.Transport()
        answers: list[Answer] = []
        done = threading.Event()

        def finished(answer: Answer) -> None:
            answers.append(answer)
            done.set()

        request = Request("node1", noded.address, PORT, "/store_status", b"[{}]", timeout=10, urgent=True)
        transport.Submit(request, finished)
        assert done.wait(10)
        assert answers[0].body.startswith(b"[true,"), answers
        # An ordinary call has to wait, and is not carried out once nobody waits for it any longer.
        with connect(cluster, noded) as other:
            other.sendall(b"POST /set_watcher_pause HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n[7]")
            wait_for_children(noded, 22)
        assert noded.WaitLog("went away while its call waited")
        assert noded.Servers("set_watcher_pause") == []
    finally:
        for sock in held:
            sock.close()


def wait_for_children(noded: Noded, count: int) -> None:
    deadline = time.monotonic() + 20
    while len(noded.Children()) != count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Where it listens


def opened(link: Path) -> str:
    """What a descriptor leads to; empty for one that is closed while it is looked at."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def addresses(noded: Noded, wanted: int = PORT) -> list[str]:
    """The local addresses on which the daemon listens."""
    inodes = {
        target for link in Path(f"/proc/{noded.pid}/fd").iterdir() if (target := opened(link)).startswith("socket:")
    }
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        host, port = words[1].split(":")
        if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
            assert int(port, 16) == wanted
            found.append(".".join(str(byte) for byte in reversed(bytes.fromhex(host))))
    return found


def start_without_address(noded: Noded, port: int = PORT) -> None:
    result = noded.Python(PROGRAM, "-p", str(port))
    assert result.returncode == 0, result.stderr
    noded.pid = int(noded.Read("/var/run/ganeti/ganeti-noded.pid"))


def test_it_listens_on_the_primary_address_only(cluster: Cluster) -> None:
    noded = cluster.MakeNode("node1")
    noded.Write("/var/lib/ganeti/ssconf_node_primary_ips", f"node0 192.0.2.1\nnode1 {noded.address}\n")
    start_without_address(noded)
    assert addresses(noded) == [noded.address]


@pytest.mark.parametrize("entry", ["node1 192.0.2.77", "node2 192.0.2.1", ""])
def test_without_its_primary_address_it_can_still_be_reached(cluster: Cluster, entry: str) -> None:
    noded = cluster.MakeNode("node1")
    noded.Write("/var/lib/ganeti/ssconf_node_primary_ips", entry + "\n")
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    # Other node daemons of this machine have the usual port.
    start_without_address(noded, port)
    assert addresses(noded, port) == ["0.0.0.0"]
    assert runtime.Exists(noded.Path("/var/log/ganeti/node-daemon.log"))
    assert ("Cannot listen on the primary address only" in noded.Log()) == ("192.0.2.77" in entry)


def test_without_tls_it_serves_this_machine_only(cluster: Cluster) -> None:
    noded = cluster.MakeNode("node1")
    for options in ([], ["-b", "0.0.0.0"], ["-b", "192.0.2.1"], ["-b", "localhost"]):
        result = noded.Python(PROGRAM, "--no-ssl", *options)
        assert result.returncode == 1 and "loopback" in result.stderr, options
    noded.Start("--no-ssl")
    with socket.create_connection((noded.address, PORT), 20) as sock:
        sock.sendall(VERSION)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
