"""Whether every acknowledged write of an instance is on its disk; what nodes reported is kept outside of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from support.lab import TREE

from lab.cluster import LabCluster, Node

_PROGRAM = f"{TREE}/test/lab/inside/writer.py"
# Numbers that a writer may have used without a report before its node lost its power.
_GAP = 1000
_labels = itertools.count(1)


def Judge(node: int, acknowledged: Iterable[tuple[int, int]], found: dict[int, tuple[int, int] | None]) -> list[str]:
    """Return what is lost of the writes (number, offset) of one node; ``found``: (node, number) at each offset.

    A write that nobody acknowledged may have happened; what is older than an acknowledged one must not be there.
    """
    last: dict[int, int] = {}
    for number, offset in acknowledged:
        last[offset] = max(number, last.get(offset, 0))
    lost = []
    for offset, number in sorted(last.items()):
        there = found.get(offset)
        if there is None:
            lost.append(f"offset {offset}: write {number} of node {node} is not there, nor any other whole block")
        elif there[0] != node or there[1] < number:
            lost.append(
                f"offset {offset}: write {number} of node {node} is lost, {there[1]} of node {there[0]} is there"
            )
    return lost


class Writer:
    """The guest of one instance, on all nodes; it writes wherever the instance runs."""

    def __init__(self, cluster: LabCluster, instance: str):
        self._cluster = cluster
        self._instance = instance
        self.label = f"{instance}-{next(_labels)}"
        self._ready: set[str] = set()

    def __enter__(self) -> Writer:
        for node in self._cluster.nodes:
            if node.machine.running:
                self.Begin(node)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._cluster.nodes:
            if node.machine.running:
                self.End(node)

    def Begin(self, node: Node) -> None:
        """Start the guest's program on a node: at the beginning, and when the node has its power back."""
        number = self._cluster.nodes.index(node)
        first = max([number for number, _ in self._Reports(node)], default=0) + _GAP
        words = f"write {self.label} {self._instance} {number} {len(self._cluster.nodes)} {first}"
        node.Shell(
            f"setsid python3 -I -B {_PROGRAM} {words} </dev/null >/dev/null 2>/run/{self.label}.errors & echo $!"
        )

    def End(self, node: Node) -> None:
        node.Shell(f"pkill -9 -f '^python3 -I -B {_PROGRAM} write {self.label} '", check=False)

    def Errors(self, node: Node) -> str:
        return node.Read(f"/run/{self.label}.errors")

    def Count(self) -> int:
        """Return how many writes were acknowledged, on all nodes."""
        return sum(len(self._Reports(node)) for node in self._cluster.nodes)

    def WaitFor(self, more: int = 20, seconds: float = 120.0) -> None:
        """Wait until so many more writes are acknowledged."""
        wanted, end = self.Count() + more, time.monotonic() + seconds
        while self.Count() < wanted:
            if time.monotonic() > end:
                said = "\n".join(f"{node.name}: {self.Errors(node)[-300:]}" for node in self._cluster.running)
                raise AssertionError(f"{self.label}: the guest does not write\n{said}")
            time.sleep(0.1)

    def Check(self, node: Node) -> int:
        """Read every place on this node and raise AssertionError if a write is lost; return how many there were."""
        reports = [self._Reports(each) for each in self._cluster.nodes]
        offsets = sorted({offset for report in reports for _, offset in report})
        argv = ["python3", "-I", "-B", _PROGRAM, "read", self.label, f"/run/ganeti/instance-disks/{self._instance}:0"]
        lines = node.Run(*argv, stdin="".join(f"{offset}\n" for offset in offsets), seconds=300).stdout.splitlines()
        found: dict[int, tuple[int, int] | None] = {}
        for line in lines:
            offset, *rest = line.split()
            found[int(offset)] = (int(rest[0]), int(rest[1])) if len(rest) == 2 else None
        lost = [text for number, report in enumerate(reports) for text in Judge(number, report, found)]
        assert not lost, f"{self.label} on {node.name}: {len(lost)} places are wrong:\n" + "\n".join(lost[:20])
        return sum(len(report) for report in reports)

    def _Reports(self, node: Node) -> list[tuple[int, int]]:
        """Return (number, offset) of every write of this guest that the node reported."""
        reports = []
        with open(node.machine.writes, encoding="ascii") as stream:
            for line in stream:
                # The end of the last line may be on its way.
                if line.startswith(f"{self.label} ") and line.endswith("\n"):
                    _, number, offset = line.split()
                    reports.append((int(number), int(offset)))
        return reports
