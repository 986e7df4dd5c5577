"""A real ganeti-confd: who answers, when, to whom, and what it does with everything else."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support import configs
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

from ganeti import confd, constants, objects, opcodes
from ganeti.confd import queries, wire

NODE3 = "node3.example.com"
PORT = constants.DEFAULT_CONFD_PORT
CONFIG = "/var/lib/ganeti/config.data"
KEY = "/var/lib/ganeti/hmac.key"


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    """Two candidates with the configuration, and a node that is none; no daemon runs."""
    with RealCluster(3, candidates=2) as made:
        made[1].Write(CONFIG, objects.ConfigText(made.config), 0o640)
        yield made


class Asker:
    """A client of the test's own, on a socket that nobody else has."""

    def __init__(self, node: RealNode):
        self._to = (node.address, PORT)
        self.key = node.Read(KEY).encode()
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((node.address, 0))
        self.sock.settimeout(30)
        self._number = 0

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.sock.close()

    def Pack(self, kind: int, query: Any = None, rsalt: str = "", now: float | None = None) -> bytes:
        self._number += 1
        request = wire.Request(kind, query, rsalt or f"salt {self._number}")
        return wire.PackRequest(self.key, request, time.time() if now is None else now)

    def Send(self, datagram: bytes) -> None:
        self.sock.sendto(datagram, self._to)

    def Receive(self) -> tuple[wire.Reply, str]:
        return wire.OpenReply(self.key, self.sock.recv(65536))

    def Ask(self, kind: int, query: Any = None) -> wire.Reply:
        """Answers to former questions may still come, to one that was given up before."""
        salt = f"question {self._number}"
        self.Send(self.Pack(kind, query, rsalt=salt))
        while True:
            reply, answered = self.Receive()
            if answered == salt:
                return reply


def _Replace(node: RealNode, text: str) -> None:
    """Put a new configuration in place as the exporter does."""
    node.Write(CONFIG + ".new", text, 0o640)
    os.rename(node.Path(CONFIG + ".new"), node.Path(CONFIG))


@pytest.mark.req("D21-CONFD-01")
def test_every_candidate_answers_and_nobody_else(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        node.StartConfd()
    key = cluster[0].Read(KEY).encode()
    addresses = [node.address for node in cluster.nodes]
    result = confd.Ask(queries.NODE_ROLE, cluster[2].name, addresses[:2], confd.EVERY_PEER, key=key)
    assert (result.timed_out, result.inconsistent, result.received) == (False, False, 2)
    assert result.reply is not None and result.reply.answer == queries.ROLE_REGULAR
    with Asker(cluster[2]) as asker:
        asker.Send(asker.Pack(queries.PING))
        WaitUntil(lambda: "this node does not answer" in cluster[2].Log("ganeti-confd"), "a line about the question")
        asker.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            asker.sock.recv(65536)
        asker.sock.settimeout(30)
        # A configuration that says that this node is no candidate, such as one it had before.
        assert "this node has no copy of the configuration" in cluster[2].Log("ganeti-confd")
        _Replace(cluster[2], objects.ConfigText(cluster.config))
        WaitUntil(
            lambda: "No question is answered: this node is not a master candidate" in cluster[2].Log("ganeti-confd"),
            "silence",
        )
        # It becomes one, and answers at once.
        node = cluster.config.nodes[cluster[2].uuid].Replace(master_candidate=True)
        _Replace(cluster[2], objects.ConfigText(cluster.config.WithObject(node)))
        WaitUntil(lambda: "This node is a master candidate now" in cluster[2].Log("ganeti-confd"), "a candidate", 12)
        assert asker.Ask(queries.CLUSTER_MASTER).answer == cluster[0].name


@pytest.mark.req("D21-CONFD-02")
def test_candidates_answer_while_the_master_is_down(cluster: RealCluster) -> None:
    os.remove(cluster[1].Path(CONFIG))
    cluster.StartNodeDaemons()
    cluster[0].StartMaster()
    for node in cluster.nodes[:2]:
        node.StartConfd()
    with Asker(cluster[1]) as asker:
        WaitUntil(lambda: "Read the configuration" in cluster[1].Log("ganeti-confd"), "the copy of the configuration")
        assert asker.Ask(queries.CLUSTER_MASTER).answer == cluster[0].name
        cluster.CutPower(cluster[0])
        assert asker.Ask(queries.CLUSTER_MASTER).answer == cluster[0].name
    # From outside the cluster, with the key alone: one of two candidates is not enough to be sure.
    key = cluster[1].Read(KEY).encode()
    addresses = [node.address for node in cluster.nodes[:2]]
    result = confd.Ask(queries.CANDIDATE_IPS, None, addresses, timeout=5, key=key)
    assert result.timed_out and (result.sent, result.received) == (2, 1)
    assert result.reply is not None and sorted(result.reply.answer) == sorted(addresses)


@pytest.mark.req("D21-CONFD-07")
def test_a_change_is_seen_when_it_happens(cluster: RealCluster) -> None:
    root, node = cluster.config, cluster.config.nodes[cluster[2].uuid]
    cluster[0].StartConfd()
    with Asker(cluster[0]) as asker:
        before = asker.Ask(queries.NODE_ROLE, node.name)
        assert before.answer == queries.ROLE_REGULAR
        root = root.WithObject(node.Replace(offline=True, serial_no=node.serial_no + 1))
        _Replace(cluster[0], objects.ConfigText(root))
        # Well before the daemon would look by itself.
        after = WaitUntil(lambda: _Offline(asker.Ask(queries.NODE_ROLE, node.name)), "the new role", 12)
        assert after.serial > before.serial
        # A file that cannot be read is reported to whoever asks, until there is a better one.
        _Replace(cluster[0], '{"version": 1}\n')
        broken = WaitUntil(lambda: _Failed(asker.Ask(queries.PING)), "an error", 12)
        assert "The configuration cannot be read" in broken.answer and broken.serial == 0
        _Replace(cluster[0], objects.ConfigText(root))
        WaitUntil(lambda: _Offline(asker.Ask(queries.NODE_ROLE, node.name)), "the role again", 12)
        # A new key: questions signed with the old one are not answered any more.
        cluster[0].Write(KEY, "0123456789012345678901234567890123456789\n", 0o440)
        old = asker.Pack(queries.PING, rsalt="old")
        asker.key = cluster[0].Read(KEY).encode()
        WaitUntil(lambda: _Answered(asker), "an answer with the new key", 12)
        asker.Send(old)
        asker.Send(asker.Pack(queries.PING, rsalt="after"))
        answered = ""
        while answered != "after":
            answered = asker.Receive()[1]
            assert answered != "old"


# What each job changes, so that the serial of the answer about it must be higher.
CHANGES: list[tuple[opcodes.OpCode, list[tuple[int, str | None]]]] = [
    (opcodes.OpTagsSet(kind="node", name=NODE3, tags=["a"]), [(queries.NODE_ROLE, NODE3), (queries.INSTANCES, None)]),
    (
        opcodes.OpNodeSetParams(node_name=NODE3, offline=True),
        [(queries.NODE_ROLE, NODE3), (queries.OFFLINE_NODES, None)],
    ),
    (
        opcodes.OpTagsSet(kind="cluster", name=None, tags=["b"]),
        [(queries.CLUSTER_MASTER, None), (queries.NODE_IPS, None)],
    ),
    (opcodes.OpTagsDel(kind="node", name=NODE3, tags=["a"]), [(queries.NODE_ROLE, NODE3), (queries.INSTANCES, None)]),
]


@pytest.mark.req("D21-CONFD-07")
def test_the_serial_of_an_answer_grows_with_each_change_that_a_master_makes(cluster: RealCluster) -> None:
    """On every candidate, for the object that was changed and for what shows the whole configuration."""
    # The store puts aside what it did not write itself, and a moment later there is its own.
    os.remove(cluster[1].Path(CONFIG))
    cluster.StartNodeDaemons()
    cluster[0].StartMaster()
    for node in cluster.nodes[:2]:
        node.StartConfd()
    with cluster[0].Client() as client, Asker(cluster[0]) as first, Asker(cluster[1]) as second:
        WaitUntil(lambda: _Answered(second), "the copy of the configuration", 12)
        for op, asked in CHANGES:
            before = _Serials(first, asked)
            WaitUntil(lambda before=before, asked=asked: _Serials(second, asked) == before, "the same everywhere", 12)
            status, log = FollowJob(client, client.SubmitJob([op]))
            assert status == "success", log
            for asker in (first, second):
                # Each of the answers: the one about the object, and the one about all that there is.
                WaitUntil(
                    lambda asker=asker, asked=asked, before=before: all(
                        new > old for new, old in zip(_Serials(asker, asked), before, strict=True)
                    ),
                    f"higher serials after {op.Summary()}",
                    12,
                )
        [stored] = client.QueryConfigValues(["config_serial"])
        for asker in (first, second):
            WaitUntil(lambda asker=asker: asker.Ask(queries.INSTANCES).serial == stored, "the newest serial", 12)


def _Serials(asker: Asker, asked: list[tuple[int, str | None]]) -> list[int]:
    return [asker.Ask(kind, query).serial for kind, query in asked]


@pytest.mark.req("D21-CONFD-07")
def test_questions_are_answered_while_a_change_is_read(cluster: RealCluster) -> None:
    """The former configuration answers until the new one is there as a whole, however long reading takes."""
    node = cluster[0]
    root = configs.Large(2000, 20)
    root = root.WithObject(root.nodes[configs.Uuid(1)].Replace(name=node.name, primary_ip=node.address))
    other = root.nodes[configs.Uuid(2)]
    shares = []
    for _ in range(3):
        node.Write(CONFIG, objects.ConfigText(root), 0o640)
        # A daemon that has read a change rests before it reads the next one.
        node.StartConfd()
        with Asker(node) as asker:
            assert asker.Ask(queries.NODE_ROLE, other.name).serial == other.serial_no
            _Replace(node, objects.ConfigText(root.WithObject(other.Replace(serial_no=other.serial_no + 1))))
            shares.append(_LongestShare(asker, other))
        node.Stop("ganeti-confd")
    # One that waits for the reading waits for nearly all of the time; what else the machine does may delay one of three.
    assert min(shares) < 0.5, shares


def _LongestShare(asker: Asker, node: objects.Node) -> float:
    """Ask until a node's new serial number is there; return which part of that time the slowest answer took."""
    began = last = time.monotonic()
    longest, found = 0.0, 0
    while found != node.serial_no + 1:
        found = asker.Ask(queries.NODE_ROLE, node.name).serial
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        assert found in (node.serial_no, node.serial_no + 1)
    return longest / (last - began)


def _Offline(reply: wire.Reply) -> wire.Reply | None:
    return reply if reply.answer == queries.ROLE_OFFLINE else None


def _Failed(reply: wire.Reply) -> wire.Reply | None:
    return reply if reply.status == queries.ERROR else None


def _Answered(asker: Asker) -> bool:
    asker.sock.settimeout(0.1)
    try:
        return asker.Ask(queries.PING).status == queries.OK
    except TimeoutError:
        return False
    finally:
        asker.sock.settimeout(30)


def _Bad(asker: Asker) -> dict[str, bytes]:
    """Datagrams that get no answer."""
    good = asker.Pack(queries.PING, rsalt="copied")
    envelope = json.loads(good[4:])
    deep = "[" * 20000 + "]" * 20000
    return {
        "wrong HMAC": b"plj0" + json.dumps({**envelope, "hmac": "0" * 40}).encode(),
        "signed with another key": wire.PackRequest(b"other", wire.Request(queries.PING, None, "r"), time.time()),
        "from the past": asker.Pack(queries.PING, now=time.time() - 400),
        "from the future": asker.Pack(queries.PING, now=time.time() + 400),
        "truncated": good[:-1],
        "61441 bytes": good + b" " * (61441 - len(good)),
        "65507 bytes": good + b" " * (65507 - len(good)),
        "empty": b"",
        "its own reply": wire.PackReply(asker.key, wire.Reply(queries.OK, 1, 1), str(int(time.time()))),
        "not UTF-8": b"plj0\xff\xfe\xfd",
        "deep JSON": b"plj0" + deep.encode(),
        "deep message": _Signed(asker.key, deep),
        "another magic": b"plj1" + good[4:],
        "a log line of its own": b'plj0{"a\n2026-01-01 00:00:00,000: ganeti-confd pid=1 ERROR forged": 1e999}',
    }


def _Signed(key: bytes, message: str) -> bytes:
    salt = str(int(time.time()))
    signature = wire.Signature(key, salt, message)
    return b"plj0" + json.dumps({"msg": message, "salt": salt, "hmac": signature}).encode()


@pytest.mark.req("D21-CONFD-08")
@pytest.mark.req("D21-CONFD-15")
@pytest.mark.req("D21-CONFD-18")
def test_bad_datagrams_get_no_answer_at_all(cluster: RealCluster) -> None:
    cluster[0].StartConfd()
    with Asker(cluster[0]) as asker:
        bad = _Bad(asker)
        for name, datagram in bad.items():
            asker.Send(datagram)
            asker.Send(asker.Pack(queries.PING, rsalt=f"after {name}"))
            # Answers come in the order of the questions: one to the bad datagram would be here first.
            assert asker.Receive()[1] == f"after {name}"
        # The same question again, and a reply that somebody sends back.
        again = asker.Pack(queries.PING, rsalt="first")
        asker.Send(again)
        reply = asker.sock.recv(65536)
        for copy in (again, reply):
            asker.Send(copy)
        asker.Send(asker.Pack(queries.PING, rsalt="last"))
        assert asker.Receive()[1] == "last"
    cluster[0].Stop("ganeti-confd")
    log = cluster[0].Log("ganeti-confd")
    assert "Traceback" not in log and "\n2026-01-01" not in log
    # One line when it began and the sum at the end, not one for each.
    assert log.count("Dropped datagrams: ") == 1
    assert f"Answered {len(bad) + 2} questions; dropped datagrams: " in log
    assert "clock 3" in log and "replay 1" in log and "signature 2" in log


def test_options_and_ends(cluster: RealCluster) -> None:
    cluster[0].StartConfd()
    again = cluster[0].Start("ganeti-confd", "-b", cluster[0].address, check=False)
    assert again.returncode == 1 and "PID file" in again.stderr
    cluster[0].Stop("ganeti-confd")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((cluster[0].address, PORT))
        taken = cluster[0].Start("ganeti-confd", check=False)
    # In a virtual cluster it uses the node's own address unless another one is given.
    assert taken.returncode == 1 and f"cannot use {cluster[0].address}:{PORT}: Address already in use" in taken.stderr
    stranger = cluster.MakeStranger("stranger.example.com")
    alone = stranger.Start("ganeti-confd", check=False)
    assert alone.returncode == constants.EXIT_NOTCLUSTER and "has not joined a cluster" in alone.stderr
