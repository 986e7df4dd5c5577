"""Measure what a commit costs, and what grows with the size of the store.

Run by hand from the top of the tree: ``python test/bench/bench_store.py commits [COUNT]`` or ``... size [JOBS]``.

``commits``: two real node daemons on addresses of 127.0.0.0/8 and this process are the three master candidates.  Target
(2 cores): half of the commits within 6 ms.

``size``: the copies of two nodes in this process.  Targets with 50,000 jobs of 2.8 kB: pruning costs at most 1 ms of CPU
more than with 100; no call of a full copy or of an emptying takes longer than a second (they time out after 10); memory
grows by some megabytes only.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.noded import Cluster  # noqa: E402

from ganeti.store import Epoch, Member, NodeStore, Position, Row, Rows, Store  # noqa: E402
from ganeti.store.base import NOWHERE, Line  # noqa: E402
from ganeti.store.commit.peers import Peer, Sender  # noqa: E402
from ganeti.store.files import adopt  # noqa: E402

JOB = (
    '{"id":%d,"ops":[{"input":{"OP_ID":"OP_TEST_DELAY","duration":1},"status":"queued","log":[]}],"end_timestamp":null}'
)


def _Percent(times: list[float], part: float) -> float:
    return 1000 * sorted(times)[int(len(times) * part)]


def _Show(title: str, times: list[float], seconds: float, cpu: float) -> None:
    print(
        f"{title:34} {len(times) / seconds:8.0f} commits/s   p50 {_Percent(times, 0.5):6.2f}  p90 {_Percent(times, 0.9):6.2f}"
        f"  p99 {_Percent(times, 0.99):6.2f} ms   CPU here {1000 * cpu / len(times):5.2f} ms each"
    )


def Measure(store: Store, title: str, count: int, threads: int) -> None:
    times: list[float] = []

    def work(number: int) -> None:
        for turn in range(count // threads):
            began = time.perf_counter()
            store.Commit(Rows(Row("job", f"{number}-{turn}", JOB % turn)))
            times.append(time.perf_counter() - began)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    cpu, began = time.process_time(), time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    _Show(title, times, time.perf_counter() - began, time.process_time() - cpu)


def MeasureCommits(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            nodes = [cluster.StartNoded(name) for name in ("node1", "node2")]
            members = [Member(f"uuid-{node.name}", node.name, node.address) for node in nodes]
            me = Member("uuid-me", "me", "127.0.0.1")
            own = NodeStore(f"{folder}/own/ext/store.db", "me", f"{folder}/own/calls")
            own.database  # noqa: B018 - opened before the clock runs
            everybody = [me, *members]
            store = adopt.FoundStore(own, me, "cluster", everybody, everybody, [], cluster.Transport())
            Measure(store, "warm-up", 50, 1)
            Measure(store, "one client", count, 1)
            Measure(store, "eight clients", 4 * count, 8)
            Measure(store, "thirty clients", 8 * count, 30)
            store.Stop()
        finally:
            cluster.Close()


# What grows with the store

EPOCH = Epoch(1, "aa")
TEXT = '"' + "y" * 2800 + '"'


def Filled(folder: str, jobs: int) -> NodeStore:
    own = NodeStore(f"{folder}/ext/store.db", "one", f"{folder}/calls")
    own.Promise("c", EPOCH, "one")
    own.Adopt(EPOCH, None, Line((), NOWHERE), 0, False, [Row("x", "x", "{}")])
    for begin in range(0, jobs, 500):
        own.Store(EPOCH, [Row("job", str(job), TEXT) for job in range(begin, min(begin + 500, jobs))], NOWHERE)
    return own


def MeasurePruning(own: NodeStore, jobs: int) -> float:
    """Return the CPU seconds of a commit that prunes one deletion."""
    times = []
    for turn in range(20):
        own.Store(EPOCH, [Row("job", str(turn), None)], own.GetState().last)
        prune = own.GetState().last.seq
        began = time.process_time()
        own.Store(EPOCH, [Row("x", "y", str(turn))], own.GetState().last, prune)
        times.append(time.process_time() - began)
    cpu = sorted(times)[len(times) // 2]
    print(f"{jobs:6} jobs: a commit that prunes one deletion takes {1000 * cpu:.2f} ms of CPU")
    return cpu


class _Calls:
    """Serves the calls of a master by hand, and measures each."""

    def __init__(self, node: NodeStore):
        self._node = node
        self._handlers = node.Handlers()
        self.longest: dict[str, float] = {}
        self.count: dict[str, int] = {}

    def Start(self, kind: str, nodes: list[str], args: list[Any], done: Any) -> None:
        del nodes, done
        began = time.perf_counter()
        self.answer = self._handlers[kind](args[0])
        took = time.perf_counter() - began
        self.longest[kind] = max(took, self.longest.get(kind, 0.0))
        self.count[kind] = self.count.get(kind, 0) + 1


def MeasureCopies(folder: str, own: NodeStore) -> None:
    """Copy the store to another node, copy it once more from a newer master, then empty that node."""
    node = NodeStore(f"{folder}/two/ext/store.db", "two", f"{folder}/two/calls")
    member = Member("uuid-two", "two", "127.0.0.2")
    for title in ("full copy to an empty node", "full copy over another history"):
        calls = _Calls(node)
        epoch = Epoch(own.GetState().promised.number + 1, "bb")
        own.Promise("c", epoch, "one")
        state, line = own.GetState(), own.GetLine()
        own.Adopt(epoch, None, line, 0, False, [Row("x", "z", title)])
        state, line = own.GetState(), own.GetLine()
        sender = Sender(own, "c", epoch, calls.Start, lambda kind, peer, result: None)
        peer = sender.peers["uuid-two"] = Peer(member, store_id=node.GetState().store_id, known=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        while not (peer.copy is not None and peer.copy.complete):
            peer.busy = False
            sender.Drive(line, state.last, 0, 0.0)
        _Report(title, calls, began, before)
        if node.GetState().last != state.last:
            raise AssertionError(f"the copy did not arrive: {calls.answer}")
        with node.database.Transaction() as database:
            # A history of its own, for the next copy to replace.
            database.PutLine(Line([(Epoch(0, "x"), 1)], Position(Epoch(0, "x"), state.last.seq)))
            database.PutState(node.GetState().With(last=Position(Epoch(0, "x"), state.last.seq)))
    calls, began = _Calls(node), time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = {"cluster": "c", "epoch": str(epoch), "master": "one", "store": node.GetState().store_id}
    calls.answer = {"stored": False}
    while not calls.answer["stored"]:
        calls.Start("store_empty", [], [message], None)
    _Report("emptying", calls, began, before)
    sizes = {path.name: path.stat().st_size / 1e6 for path in Path(folder, "two/ext").iterdir()}
    print("files:", ", ".join(f"{name} {size:.0f} MB" for name, size in sorted(sizes.items()) if size > 1))
    node.Close()


def _Report(title: str, calls: _Calls, began: float, before: int) -> None:
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    told = ", ".join(
        f"{calls.count[kind]} {kind} of at most {1000 * longest:.0f} ms" for kind, longest in calls.longest.items()
    )
    print(f"{title}: {time.perf_counter() - began:.1f} s, {told}; memory grew by {grown:.0f} MiB")


def MeasureSize(jobs: int) -> None:
    cpu = []
    for count in (100, jobs):
        with tempfile.TemporaryDirectory() as folder:
            own = Filled(folder, count)
            cpu.append(MeasurePruning(own, count))
            if count == jobs:
                MeasureCopies(folder, own)
            own.Close()
    print(f"pruning costs {1000 * (cpu[1] - cpu[0]):.2f} ms of CPU more than with 100 jobs")


def Main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "commits"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    logging.disable(logging.CRITICAL)
    if what == "commits":
        MeasureCommits(count or 1000)
    elif what == "size":
        MeasureSize(count or 50_000)
    else:
        sys.exit(f"unknown measurement '{what}': commits or size")


if __name__ == "__main__":
    sys.setswitchinterval(0.0005)
    Main()
