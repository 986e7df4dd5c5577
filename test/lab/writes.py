"""Whether every acknowledged write of an instance is on its disk; what nodes reported is kept outside of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from support.lab import TREE
from support.patience import Deadline

from lab.cluster import LabCluster, Node

_PROGRAM = f"{TREE}/test/lab/inside/writer.py"
# Numbers that a writer may have used without a report before its node lost its power.
_GAP = 1000
# In the numbers of a guest in QEMU the start begins at this bit.
_START = 24
_labels = itertools.count(1)


def Judge(writer: int, acknowledged: Iterable[tuple[int, int]], found: dict[int, tuple[int, int] | None]) -> list[str]:
    """Return what is lost of the writes (number, offset) of one writer; ``found``: (writer, number) at each offset.

    A write that nobody acknowledged may have happened; what is older than an acknowledged one must not be there.
    """
    last: dict[int, int] = {}
    for number, offset in acknowledged:
        last[offset] = max(number, last.get(offset, 0))
    lost = []
    for offset, number in sorted(last.items()):
        there = found.get(offset)
        if there is None:
            lost.append(f"offset {offset}: write {number} of writer {writer} is not there, nor any other whole block")
        elif there[0] != writer or there[1] < number:
            lost.append(
                f"offset {offset}: write {number} of writer {writer} is lost, {there[1]} of writer {there[0]} is there"
            )
    return lost


class Writer:
    """The guest of one instance, on all nodes; it writes wherever the instance runs.

    Each node is a writer, with the number that it has in the cluster.
    """

    _READ = "read"

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
        words = self._Words(node)
        node.Shell(
            f"setsid python3 -I -B {_PROGRAM} {words} </dev/null >/dev/null 2>/run/{self.label}.errors & echo $!"
        )

    def _Words(self, node: Node) -> str:
        number = self._cluster.nodes.index(node)
        first = max([number for number, _ in self._Reports(node)], default=0) + _GAP
        return f"write {self.label} {self._instance} {number} {len(self._cluster.nodes)} {first}"

    def End(self, node: Node) -> None:
        node.Shell(f"pkill -9 -f '^python3 -I -B {_PROGRAM} [a-z]+ {self.label} '", check=False)

    def Errors(self, node: Node) -> str:
        return node.Read(f"/run/{self.label}.errors")

    def Count(self) -> int:
        """Return how many writes were acknowledged, on all nodes."""
        return sum(len(self._Reports(node)) for node in self._cluster.nodes)

    def WaitFor(self, more: int = 20, seconds: float = 120.0) -> None:
        """Wait until so many more writes are acknowledged."""
        wanted, deadline = self.Count() + more, Deadline(seconds)
        while self.Count() < wanted:
            if deadline.Passed():
                said = "\n".join(f"{node.name}: {self.Errors(node)[-300:]}" for node in self._cluster.running)
                raise AssertionError(f"{self.label}: the guest does not write\n{said}")
            time.sleep(0.1)

    def Reports(self) -> dict[int, list[tuple[int, int]]]:
        """Return (number, offset) of all writes that are acknowledged by now, by their writer."""
        return self._ReportsOfWriters()

    def Check(self, node: Node, reports: dict[int, list[tuple[int, int]]] | None = None) -> int:
        """Read every place on this node and raise AssertionError if a write is lost; return how many there were.

        ``reports``: those that must be there, by default all.
        """
        reports = self._ReportsOfWriters() if reports is None else reports
        offsets = sorted({offset for report in reports.values() for _, offset in report})
        device = f"/run/ganeti/instance-disks/{self._instance}:0"
        argv = ["python3", "-I", "-B", _PROGRAM, self._READ, self.label, device]
        lines = node.Run(*argv, stdin="".join(f"{offset}\n" for offset in offsets), seconds=300).stdout.splitlines()
        found: dict[int, tuple[int, int] | None] = {}
        for line in lines:
            offset, *rest = line.split()
            found[int(offset)] = (int(rest[0]), int(rest[1])) if len(rest) == 2 else None
        lost = [text for number, report in reports.items() for text in Judge(number, report, found)]
        assert not lost, f"{self.label} on {node.name}: {len(lost)} places are wrong:\n" + "\n".join(lost[:20])
        return sum(map(len, reports.values()))

    def Writers(self) -> set[int]:
        """Return the writers that have reported anything."""
        return {number for number, report in self._ReportsOfWriters().items() if report}

    def _ReportsOfWriters(self) -> dict[int, list[tuple[int, int]]]:
        return {number: self._Reports(node) for number, node in enumerate(self._cluster.nodes)}

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


class NestedWriter(Writer):
    """A guest in QEMU that writes by itself (``inside/guest.asm``); what it says on its console is recorded on every node.

    Each start of the guest is a writer.
    """

    _READ = "sectors"

    def _Words(self, node: Node) -> str:
        return f"record {self.label} {self._instance}"

    def _ReportsOfWriters(self) -> dict[int, list[tuple[int, int]]]:
        starts: dict[int, list[tuple[int, int]]] = {}
        for node in self._cluster.nodes:
            for number, offset in self._Reports(node):
                starts.setdefault(number >> _START, []).append((number, offset))
        return starts
