"""A daemon that answers about the configuration is asked too: one that hangs is as good as none."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator

import pytest
from support.allocator import Lease
from support.watched import MakeInstance, WatchedNode

from ganeti import constants, runtime
from ganeti.confd import queries, wire

KEY = b"the key of this cluster\n"
START, STOP = "start ganeti-confd", "stop ganeti-confd"


class StandIn:
    """Answers pings in place of the daemon while ``deaf`` is not set."""

    def __init__(self, address: str):
        self.asked = 0
        self.deaf = threading.Event()
        self._socket = runtime.OpenUdp(address, constants.DEFAULT_CONFD_PORT)
        self._socket.settimeout(0.1)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._Run)
        self._thread.start()

    def _Run(self) -> None:
        gate = wire.Gate(runtime.Time())
        while not self._end.is_set():
            try:
                data, sender = self._socket.recvfrom(65536)
            except TimeoutError:
                continue
            request = gate.Open(KEY, data, runtime.Time())
            assert request.kind == queries.PING
            self.asked += 1
            if not self.deaf.is_set():
                self._socket.sendto(wire.PackReply(KEY, wire.Reply(queries.OK, 1, 0), request.rsalt), sender)

    def Close(self) -> None:
        self._end.set()
        self._thread.join()
        self._socket.close()


@pytest.fixture
def address(addresses: Lease) -> str:
    return addresses.Address()


@pytest.fixture
def node(address: str) -> Iterator[WatchedNode]:
    with tempfile.TemporaryDirectory(prefix="gnt-", dir="/tmp") as folder:
        made = WatchedNode(folder, [MakeInstance(1)])
        made.Install("ganeti-confd")
        made.WriteSsconf("master_candidates", made.name)
        made.Write("/var/lib/ganeti/hmac.key", KEY.decode())
        made.Write("/var/lib/ganeti/config.data", "{}")
        with open(f"{folder}/hosts", "w", encoding="utf-8") as stream:
            stream.write(f"{address} {made.name}\n")
        yield made
        made.Close()


@pytest.fixture
def confd(address: str) -> Iterator[StandIn]:
    made = StandIn(address)
    yield made
    made.Close()


def _OfConfd(node: WatchedNode) -> list[str]:
    return [line for line in node.LogOfRun() if "ganeti-confd" in line]


def _Restarts(node: WatchedNode) -> list[str]:
    return [word for word in node.Asked() if word in (START, STOP)]


def test_one_that_answers_is_left_alone(node: WatchedNode, confd: StandIn) -> None:
    _OfConfd(node)
    assert _Restarts(node) == [] and confd.asked == 1


def test_one_that_hangs_is_restarted_once(node: WatchedNode, confd: StandIn) -> None:
    confd.deaf.set()
    lines = _OfConfd(node)
    assert _Restarts(node) == [STOP, START]
    assert lines[-2].startswith("WARNING ganeti-confd does not answer") and lines[-1].startswith("ERROR")
    assert confd.asked == 4


@pytest.mark.parametrize("lack", ["candidate", "configuration", "key"])
def test_where_it_cannot_answer_or_not_be_asked_it_is_not_restarted(
    node: WatchedNode, confd: StandIn, lack: str
) -> None:
    if lack == "candidate":
        node.WriteSsconf("master_candidates", "node2.example.org")
    elif lack == "key":
        node.Write("/var/lib/ganeti/hmac.key", "")
    else:
        runtime.RemoveFile(node.Path("/var/lib/ganeti/config.data"))
    confd.deaf.set()
    lines = _OfConfd(node)
    assert _Restarts(node) == [] and confd.asked == 0
    assert any("cannot be checked" in line for line in lines) == (lack == "key")
