"""A stranger without a login, where reading is open, keeps nobody with one from the master daemon."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator

import pytest
from support import patience
from support.rapihttp import Rapi
from support.rapiserver import ReadAnswer
from support.realcluster import RealCluster, RealNode, WaitUntil

RAPI, MASTERD = "ganeti-rapi", "ganeti-masterd"
PLACES = 4
ASKED = 40


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with RealCluster(1) as cluster:
        cluster.StartWithRapi("--max-clients", str(PLACES), "--no-ssl")
        yield cluster


def _Request(verb: str, path: str, body: bytes = b"") -> bytes:
    head = f"{verb} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _Stranger(node: RealNode, request: bytes) -> socket.socket:
    sock = socket.create_connection((node.address, 5080), 60)
    sock.sendall(request)
    return sock


def test_slow_questions_of_a_stranger(cluster: RealCluster) -> None:
    """He takes three of the four places with questions that only nodes can answer, and waits 10 s for another one."""
    node = cluster[0]
    # What nodes are asked for takes long, as the node daemon answers nothing.
    others = [node.Pid(name) for name in (RAPI, MASTERD)]
    with contextlib.ExitStack() as stack, cluster.Halted(node, *others):
        held = [stack.enter_context(_Stranger(node, _Request("GET", "/2/os"))) for _ in range(ASKED)]
        known = stack.enter_context(Rapi(node, tls=False))
        began = time.monotonic()
        for _ in range(10):
            assert known.Get("/2/info")["master"] == node.name
        written = known.Ask("PUT", "/2/tags?tag=mine")
        assert written.status == 200
        assert known.Follow(written.value)["status"] == "success"
        assert time.monotonic() - began < 8 * patience.Shared(), "no stranger was waited for"
        with Rapi(node, headers={}, tls=False) as nobody:
            assert nobody.Ask("GET", "/version").status == 200, "what asks no master daemon is answered at once"
        # A call to a node that answers nothing may end before the others have waited for 10 s, and make room for the next.
        WaitUntil(lambda: len(select.select(held, [], [], 0)[0]) > ASKED // 2, "those without a place are answered")
        answers = [ReadAnswer(sock) for sock in select.select(held, [], [], 0)[0]]
    rejected = [(headers, body) for status, headers, body in answers if status == 503]
    assert ASKED - PLACES >= len(rejected) > ASKED // 3
    assert {headers["retry-after"] for headers, _ in rejected} == {"10"}
    assert {"kept for clients that log in" in json.loads(body)["message"] for _, body in rejected} == {True}
