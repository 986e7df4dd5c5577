"""What an answer of ganeti-confd costs.  Run by hand: ``python test/bench/bench_confd.py [questions]`` from the top of the tree.

Starts the real daemon with a configuration of 2000 instances and asks it signed questions, some of which are looked up by
name and by address.  They are signed beforehand and the replies are checked afterwards, so that the machine's time is the
daemon's.  Targets (2 cores): 5000 answers/s, p99 5 ms while 5000 questions/s come in evenly.
"""

from __future__ import annotations

import math
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

import bench_cluster  # noqa: E402
from support import configs  # noqa: E402
from support.realcluster import RealCluster, RealNode  # noqa: E402

from ganeti import constants, objects  # noqa: E402
from ganeti.confd import queries, wire  # noqa: E402

CONFIG = "/var/lib/ganeti/config.data"
INSTANCES = 2000
NODES = 100
IN_FLIGHT = 16
RATE = 5000
# As many questions as show what each takes, and how many of them at a time.
MANY = 300_000
PORTION = 20_000
_TICKS = os.sysconf("SC_CLK_TCK")


class Result(NamedTuple):
    answers: int
    seconds: float
    cpu: float
    delays: list[float]
    lost: int

    def Delay(self, part: float) -> float:
        """Return the delay that this part of the questions does not exceed, in ms; a lost one waits for ever."""
        ordered = sorted(self.delays) + [math.inf] * self.lost
        return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * part))]

    def Print(self, title: str) -> None:
        print(
            f"{title:44} {self.answers / self.seconds:8.0f} answers/s   p50 {self.Delay(0.5):6.2f} ms   p99"
            f" {self.Delay(0.99):6.2f} ms   CPU {1e6 * self.cpu / self.answers:6.1f} us/answer   lost {self.lost}"
        )


def Config(node: RealNode) -> objects.Snapshot:
    """A configuration of many instances in which this node is the master."""
    root = configs.Large(INSTANCES, NODES)
    for number, instance in enumerate(list(root.instances.values())):
        nics = [instance.nics[0].Replace(ip=f"10.2.{number >> 8}.{number & 255}", network=None, nicparams={})]
        root = root.WithObject(instance.Replace(nics=nics))
    return root.WithObject(root.nodes[configs.Uuid(1)].Replace(name=node.name, primary_ip=node.address))


def _Question(number: int) -> tuple[int, Any]:
    address = f"10.2.{number % INSTANCES >> 8}.{number % INSTANCES & 255}"
    kinds: list[tuple[int, Any]] = [
        (queries.PING, None),
        (queries.NODE_ROLE, f"node{2 + number % (NODES - 2)}.example.org"),
        (queries.NODE_IP_BY_INSTANCE_IP, {queries.KEY_IP: address}),
        (queries.INSTANCE_NODE, f"inst{number % INSTANCES}.example.org"),
    ]
    return kinds[number % len(kinds)]


def Questions(key: bytes, count: int) -> list[bytes]:
    # A copy of an earlier question would be dropped.
    now, run = time.time(), time.monotonic_ns()
    return [wire.PackRequest(key, wire.Request(*_Question(n), f"{run} {n}"), now) for n in range(count)]


def _Cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Load:
    """One client of the daemon."""

    def __init__(self, node: RealNode):
        self._node = node
        self._key = node.Read("/var/lib/ganeti/hmac.key").encode()
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._sock.connect((node.address, constants.DEFAULT_CONFD_PORT))
        self._sock.settimeout(2)

    def _Finish(self, sent: list[float], got: list[tuple[float, bytes]], began: float, cpu: float) -> Result:
        pid = self._node.Pid("ganeti-confd")
        seconds, cpu = got[-1][0] - began, _Cpu(pid) - cpu
        delays = []
        for arrived, datagram in got:
            reply, rsalt = wire.OpenReply(self._key, datagram)
            assert reply.status == queries.OK, reply
            delays.append(arrived - sent[int(rsalt.split()[1])])
        return Result(len(got), seconds, cpu, delays, len(sent) - len(got))

    def Full(self, count: int) -> Result:
        """Keep some questions in flight, as many as the daemon answers."""
        questions = Questions(self._key, count)
        cpu, began = _Cpu(self._node.Pid("ganeti-confd")), time.perf_counter()
        sent: list[float] = []
        got: list[tuple[float, bytes]] = []
        while len(got) < count:
            while len(sent) < count and len(sent) - len(got) < IN_FLIGHT:
                sent.append(time.perf_counter())
                self._sock.send(questions[len(sent) - 1])
            datagram = self._sock.recv(65536)
            got.append((time.perf_counter(), datagram))
        return self._Finish(sent, got, began, cpu)

    def EvenWhileItChanges(self, count: int, rate: int, every: float) -> Result:
        """Ask evenly while another process replaces the configuration again and again."""
        path = self._node.Path(CONFIG)
        script = f"while sleep {every}; do cp -p {path} {path}.new && mv {path}.new {path}; done"
        # With real-time priority, as this one may have, it would take a processor from those that are measured.
        with subprocess.Popen(["chrt", "-o", "0", "sh", "-c", script]) as replacing:
            try:
                return self.Even(count, rate)
            finally:
                replacing.kill()

    def Even(self, count: int, rate: int) -> Result:
        """Ask evenly."""
        questions = Questions(self._key, count)
        cpu, began = _Cpu(self._node.Pid("ganeti-confd")), time.perf_counter()
        sent: list[float] = []
        got: list[tuple[float, bytes]] = []
        while len(got) < count:
            now = time.perf_counter()
            if len(sent) < count and now >= began + len(sent) / rate:
                # From the moment at which it should have been asked: a client that is late does not hide a delay.
                sent.append(began + len(sent) / rate)
                self._sock.send(questions[len(sent) - 1])
            elif now > began + count / rate + 2:
                break
            # A client that does not wait would take the processor from the daemon.
            due = began + len(sent) / rate if len(sent) < count else now + 1
            if select.select([self._sock], [], [], max(0.0, due - time.perf_counter()))[0]:
                got.append((time.perf_counter(), self._sock.recv(65536)))
        return self._Finish(sent, got, began, cpu)

    def Remembered(self, count: int = MANY) -> float:
        """Return by how many bytes the daemon has grown for each of many questions."""
        before = self.Memory()
        for _ in range(count // PORTION):
            self.Full(PORTION)
        return (self.Memory() - before) * (1 << 20) / count

    def Memory(self) -> float:
        """Return the daemon's memory in MiB (PSS)."""
        return bench_cluster.Pss(self._node.Pid("ganeti-confd"))


def Served() -> Iterator[Load]:
    """One daemon with a large configuration, warmed up."""
    with RealCluster(1) as cluster:
        node = cluster[0]
        text = objects.ConfigText(Config(node))
        node.Write(CONFIG, text, 0o640)
        began = time.perf_counter()
        node.StartConfd()
        print(
            f"{'start, with ' + str(len(text) >> 10) + ' KiB of configuration':44} {time.perf_counter() - began:8.2f} s"
        )
        load = Load(node)
        load.Full(1000)
        yield load


def Run(count: int) -> None:
    for load in Served():
        load.Full(count).Print(f"{IN_FLIGHT} questions in flight")
        load.Even(count, RATE).Print(f"{RATE} questions/s, evenly")
        load.EvenWhileItChanges(count // 2, RATE // 5, 0.5).Print(f"{RATE // 5} questions/s, a change twice a second")
        print(f"{'memory':44} {load.Memory():8.1f} MiB")
        print(f"{'for each of ' + str(MANY) + ' questions':44} {load.Remembered():8.1f} bytes")


if __name__ == "__main__":
    Run(int(sys.argv[1]) if len(sys.argv) > 1 else 20000)
