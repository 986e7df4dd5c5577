"""What a node call costs.  Run by hand: ``python test/bench/bench_rpc.py [calls]`` from the top of the tree.

Starts real node daemons on addresses of 127.0.0.0/8 and calls them by the real transport.  CPU of the master's side is
that of this process, of the node's side that of the daemons' children.  Targets (2 cores): a call over a kept
connection at most 1 ms, 0.5 ms of CPU on the master; a new connection (fork, TLS, memory lock) at most 30 ms.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.noded import Cluster, Noded  # noqa: E402

from ganeti import rpc  # noqa: E402

_TICKS = os.sysconf("SC_CLK_TCK")
NODES = 5


def _NodeCpu(noded: Noded) -> float:
    """CPU seconds of the daemon, its living children and those it has collected."""
    total = 0
    for pid in [noded.pid, *noded.Children()]:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(fields[i]) for i in ((11, 12, 13, 14) if pid == noded.pid else (11, 12)))
    return total / _TICKS


def Measure(title: str, cluster: Cluster, count: int, action: Callable[[int], object]) -> None:
    """``action`` makes ``count`` calls."""
    nodes = list(cluster.nodes.values())
    node_before = sum(map(_NodeCpu, nodes))
    cpu, began = time.process_time(), time.perf_counter()
    action(count)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    node_cpu = sum(map(_NodeCpu, nodes)) - node_before
    print(
        f"{title:44} {count / seconds:8.0f} calls/s {1000 * seconds / count:8.2f} ms/call"
        f"   CPU per call: master {1000 * cpu / count:6.2f} ms, node {1000 * node_cpu / count:6.2f} ms"
    )


def _Check(results: dict[str, rpc.RpcResult]) -> None:
    for result in results.values():
        result.Raise()


def Run(cluster: Cluster, count: int) -> None:
    names = [f"node{number}" for number in range(1, NODES + 1)]
    for name in names:
        cluster.StartNoded(name)
    runner = cluster.Runner()
    _Check(runner.call_version(names))

    def one_by_one(calls: int) -> None:
        for _ in range(calls):
            _Check(runner.call_version(names[:1]))

    def changing(calls: int) -> None:
        for _ in range(calls):
            _Check(runner.call_set_watcher_pause(names[:1], 1))

    def on_all(calls: int) -> None:
        for _ in range(calls // NODES):
            _Check(runner.call_version(names))

    def new_connection(calls: int) -> None:
        for _ in range(calls):
            transport = cluster.Transport()
            _Check(cluster.Runner(transport).call_version(names[:1]))
            transport.Close()

    Measure("version, one node, kept connection", cluster, count, one_by_one)
    Measure("set_watcher_pause (gate, fsync), one node", cluster, count // 4, changing)
    Measure(f"version, {NODES} nodes at once", cluster, count, on_all)
    Measure("1 MB of argument", cluster, max(10, count // 50), lambda calls: _Large(runner, names[0], calls))
    Measure("version, new connection", cluster, max(10, count // 20), new_connection)


def _Large(runner: rpc.RpcRunner, node: str, calls: int) -> None:
    text = "x" * 1_000_000
    for _ in range(calls):
        assert "not found in the search path" in (runner.call_iallocator_runner(node, "none", text, {}).fail_msg or "")


def Main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as base:
        cluster = Cluster(Path(base))
        try:
            Run(cluster, count)
        finally:
            cluster.Close()


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    Main()
