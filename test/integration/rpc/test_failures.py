"""A call that nobody answers says how far it got: whoever may start a second master looks at that (doc/design-store.rst, 8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.noded import Cluster
from support.strangers import NoAnswer

from ganeti import constants, x509
from ganeti.rpc.base import Answer, Failure, Request
from ganeti.rpc.curl import CurlTransport

PORT = constants.DEFAULT_NODED_PORT


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.Close()


def ask(
    transport: CurlTransport, address: str, path: str = "/version", body: bytes = b"[]", timeout: float = 20.0
) -> Answer:
    answers: list[Answer] = []
    done = threading.Event()

    def finished(answer: Answer) -> None:
        answers.append(answer)
        done.set()

    transport.Submit(
        Request("node1", address, PORT, path, body, connect_timeout=min(timeout, 10.0), timeout=timeout), finished
    )
    assert done.wait(40)
    return answers[0]


def test_no_daemon_on_a_running_machine(cluster: Cluster) -> None:
    answer = ask(cluster.Transport(), cluster.MakeNode("node1").address)
    assert answer.failure is Failure.REFUSED and not answer.failure.accepted
    assert "Connection refused" in str(answer.error)


def test_a_machine_that_does_not_answer_at_all(cluster: Cluster) -> None:
    address = cluster.MakeNode("node1").address
    with NoAnswer(address):
        answer = ask(cluster.Transport(), address, timeout=2.0)
    assert answer.failure is Failure.UNREACHABLE and not answer.failure.accepted


def test_a_name_that_nobody_knows(cluster: Cluster) -> None:
    assert ask(cluster.Transport(), "no-such-host.invalid").failure is Failure.UNREACHABLE


def test_a_certificate_that_is_no_longer_accepted(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    other = cluster.WritePem("other.pem", x509.MakeClientPem(cluster.server_pem, "node9"))
    answer = ask(cluster.Transport(client_file=other), noded.address)
    assert answer.failure is Failure.REJECTED and answer.failure.accepted
    assert "rejected this node's certificate" in str(answer.error)


def test_a_certificate_withdrawn_while_the_connection_is_kept(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    transport = cluster.Transport()
    assert ask(transport, noded.address).failure is None
    cluster.SetCandidates(noded, x509.MakeClientPem(cluster.server_pem, "node2"))
    answer = ask(transport, noded.address)
    assert answer.failure is not None and answer.failure.accepted


def test_a_node_of_another_cluster_and_one_that_hangs(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    strange = cluster.WritePem("strange.pem", x509.MakeServerPem())
    assert ask(cluster.Transport(strange, strange), noded.address).failure is Failure.SILENT
    answer = ask(cluster.Transport(), noded.address, "/test_delay", b"[20]", timeout=5.0)
    assert answer.failure is Failure.SILENT
    # On a kept connection nothing has to be connected.
    transport = cluster.Transport()
    assert ask(transport, noded.address).failure is None
    assert ask(transport, noded.address, "/test_delay", b"[20]", timeout=2.0).failure is Failure.SILENT


def test_an_own_certificate_that_cannot_be_read_says_nothing_about_the_node(cluster: Cluster) -> None:
    noded = cluster.StartNoded("node1")
    missing = str(Path(cluster.server_file).with_name("missing.pem"))
    assert ask(cluster.Transport(missing, missing), noded.address).failure is Failure.NOT_SENT
