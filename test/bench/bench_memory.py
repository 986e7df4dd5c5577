"""What stays of the memory that many jobs take.  Run by hand: ``python test/bench/bench_memory.py [jobs]`` from the top of the tree.

Two clusters of a master daemon and three node daemons each, real processes on addresses of 127.0.0.0/8, work in turn, a thousand
jobs each: one master has Python's own allocator, the other is started as daemon-util does it (``daemon.memory.RETURNED``).
Archived are all jobs that have ended, after every second thousand.  Target: 10 MiB more than at the start.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST, os.path.join(_TEST, "unit/jqueue")]

import bench_cluster  # noqa: E402
from bench_targets import GROUP, MASTERD, RunGroup  # noqa: E402
from support.realcluster import RealCluster, WaitUntil  # noqa: E402

from ganeti.luxi import client as luxi_client  # noqa: E402
from ganeti.server import masterd  # noqa: E402

ALLOCATORS = {"Python's own": {"PYTHONMALLOC": "pymalloc", "GLIBC_TUNABLES": ""}, "the C library's": {}}


class Bench:
    """One master daemon, and what it has taken so far."""

    def __init__(self, cluster: RealCluster, environment: dict[str, str]):
        cluster.StartNodeDaemons()
        cluster[0].Start(MASTERD, **environment)
        self.node = cluster[0]
        self.pid = cluster[0].Pid(MASTERD)
        with self.node.Client() as client:
            client.QueryClusterInfo()
        self.began = bench_cluster.Pss(self.pid)
        self.cpu = 0.0
        self.jobs = 0

    def Work(self) -> None:
        before = bench_cluster.Cpu(self.pid)
        with self.node.Client() as client:
            RunGroup(client, GROUP)
            self.jobs += GROUP
            if self.jobs % (2 * GROUP):
                client.AutoArchiveJobs(-1)
        self.cpu += bench_cluster.Cpu(self.pid) - before

    def Archive(self) -> None:
        def is_empty(client: luxi_client.Client) -> bool:
            return client.AutoArchiveJobs(-1)[0] == 0 and not client.QueryJobs(None, ["id"])

        with self.node.Client() as client:
            WaitUntil(lambda: is_empty(client), "archived", 120)

    def Report(self, title: str) -> None:
        with open(f"/proc/{self.pid}/status", encoding="ascii") as stream:
            most = re.search(r"VmHWM:\s+(\d+)", stream.read())
        assert most is not None
        now = bench_cluster.Pss(self.pid)
        print(
            f"{title:16} {self.jobs} jobs: {self.began:5.1f} MiB at the start, {now - self.began:5.1f} more now;"
            f" at most {int(most[1]) / 1024:5.1f} (RSS); {1000 * self.cpu / self.jobs:.2f} ms of CPU a job",
            flush=True,
        )


def Main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12_000
    with contextlib.ExitStack() as stack:
        benches = {
            title: Bench(stack.enter_context(RealCluster(3)), environment) for title, environment in ALLOCATORS.items()
        }
        for _ in range(0, count, GROUP):
            for bench in benches.values():
                bench.Work()
        for bench in benches.values():
            bench.Archive()
        time.sleep(2 * masterd.TIDY_EVERY + 5)  # the last files are written, and what is free has been returned
        for title, bench in benches.items():
            bench.Report(title)


if __name__ == "__main__":
    Main()
