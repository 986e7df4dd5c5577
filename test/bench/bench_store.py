"""What a commit costs.  Run by hand: ``python test/bench/bench_store.py [commits]`` from the top of the tree.

Two real node daemons on addresses of 127.0.0.0/8 and this process are the three master candidates.  Target (2 cores):
half of the commits within 6 ms.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.noded import Cluster  # noqa: E402

from ganeti.store import Member, NodeStore, Row, Rows, Store, adopt  # noqa: E402

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


def Main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    logging.disable(logging.CRITICAL)
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


if __name__ == "__main__":
    sys.setswitchinterval(0.0005)
    Main()
