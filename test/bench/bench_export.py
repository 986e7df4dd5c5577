"""Measure what the exporter costs: many new job files, the first round after a start, one instance changed.

Run by hand from the top of the tree: ``python test/bench/bench_export.py [JOBS [INSTANCES]]``.

Targets (2 cores, an SSD) with 50,000 jobs of 2.8 kB and 5000 instances: new job files 10 s; the first round of a start that
finds every file in place 1 s; a round after one instance changed 30 ms of CPU; a round without a change 1 ms.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

_BASE = tempfile.mkdtemp(prefix="bench-export-")
# Before anything of ours is loaded: paths are made then.
os.environ["GANETI_ROOTDIR"] = f"{_BASE}/node1.example.org"
os.environ["GANETI_HOSTNAME"] = "node1.example.org"
_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support import configs  # noqa: E402

from ganeti import pathutils, runtime  # noqa: E402
from ganeti.server.exporting import SsconfTexts  # noqa: E402
from ganeti.store import Epoch, NodeStore, Row  # noqa: E402
from ganeti.store.base import ID_MASTER, KIND_MASTER, NOWHERE, Line  # noqa: E402
from ganeti.store.files import export  # noqa: E402

EPOCH = Epoch(1, "aa")
JOB = '{"id":%d,"ops":[{"input":{"OP_ID":"OP_TEST_DELAY","comment":"%s"},"status":"queued","log":[]}],"end_timestamp":null}'


def Show(title: str, work: Callable[[], object]) -> None:
    cpu, began = time.process_time(), time.perf_counter()
    work()
    print(f"{title:50} {time.perf_counter() - began:8.3f} s   CPU {time.process_time() - cpu:8.3f} s")


class Node:
    """This node's copy, with a master of one epoch."""

    def __init__(self, instances: int):
        for folder in (pathutils.DATA_DIR, pathutils.RUN_DIR, pathutils.QUEUE_DIR, pathutils.LOCK_DIR):
            runtime.MakeDirs(folder)
        self.snapshot = configs.Large(instances, 150)
        self.store = NodeStore(pathutils.STORE_FILE, "node1", pathutils.CALLS_DIR)
        self.store.Promise("c", EPOCH, "node1")
        rows = [Row(*row) for row in self.snapshot.ToRows()]
        master = Row(KIND_MASTER, ID_MASTER, '{"name":"node1"}')
        self.store.Adopt(EPOCH, None, Line((), NOWHERE), 0, False, [*rows, master, Row("queue", "serial", "0")])
        self.Acknowledge()

    def Acknowledge(self) -> None:
        self.store.Acknowledge(EPOCH, self.store.GetState().last, 0)

    def Put(self, rows: list[Row]) -> None:
        self.store.Store(EPOCH, rows, NOWHERE)
        self.Acknowledge()

    def NewExporter(self) -> export.Exporter:
        return export.Exporter(self.store, export.Owners(), SsconfTexts(), serving=True)

    def ChangeInstance(self) -> None:
        uuid = next(iter(self.snapshot.instances))
        inst = self.snapshot.instances[uuid]
        inst = inst.Replace(admin_state="down" if inst.admin_state == "up" else "up", serial_no=inst.serial_no + 1)
        self.snapshot = self.snapshot.WithObject(inst).Replace(serial_no=self.snapshot.serial_no + 1)
        self.Put([Row("instance", uuid, inst.Json()), Row("config", "config", self.snapshot.TopRow())])


def Main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    instances = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    node = Node(instances)
    exporter = node.NewExporter()
    Show(f"first round of all, {instances} instances", exporter.Round)
    for begin in range(0, jobs, 5000):
        node.Put([Row("job", str(n), JOB % (n, "x" * 2600)) for n in range(begin + 1, min(begin + 5000, jobs) + 1)])
    Show(f"{jobs} new job files", exporter.Round)
    Show("first round after a restart", node.NewExporter().Round)
    exporter = node.NewExporter()
    exporter.Round()
    for _ in range(3):
        node.ChangeInstance()
        Show("one instance changed", exporter.Round)
    Show("nothing changed", exporter.Round)
    node.Put([Row("job", str(n), None) for n in range(1, jobs + 1)])
    Show(f"{jobs} job files removed", exporter.Round)
    node.store.Close()
    runtime.RemoveTree(_BASE)


if __name__ == "__main__":
    Main()
