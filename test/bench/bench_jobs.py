"""What a job costs from end to end.  Run by hand: ``python test/bench/bench_jobs.py [jobs]`` from the top of the tree.

A master daemon and three node daemons, real processes on addresses of 127.0.0.0/8.  Targets (2 cores): half of the
jobs within 30 ms from submission to the news of success; 200 jobs submitted at once: 500 a second that do nothing, 200
that wait for one lock, 250 that call a node; an idle master within 80 MB.  On a machine that is shared the CPU of a job
says more than the rate.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.realcluster import FollowJob, RealCluster  # noqa: E402

OP = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_master": False, "on_nodes": [], "reason": []}
TICKS = os.sysconf("SC_CLK_TCK")


class Bench:
    """One cluster, and what its master daemon used so far."""

    def __init__(self, cluster: RealCluster):
        self.cluster = cluster
        self.pid = cluster[0].Pid("ganeti-masterd")

    def Cpu(self) -> float:
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stream:
            fields = stream.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def Pss(self) -> float:
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="ascii") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("Pss:")) / 1024

    def Latency(self, title: str, op: dict[str, Any], count: int) -> None:
        times = []
        cpu = self.Cpu()
        with self.cluster[0].Client() as client:
            for _ in range(count):
                began = time.perf_counter()
                status, _ = FollowJob(client, client.SubmitJob([op]))
                assert status == "success"
                times.append(1000 * (time.perf_counter() - began))
        times.sort()
        print(
            f"{title:44} p50 {times[len(times) // 2]:6.1f}  p95 {times[int(len(times) * 0.95)]:6.1f} ms"
            f"   CPU of masterd {1000 * (self.Cpu() - cpu) / count:5.2f} ms a job"
        )

    def Throughput(self, title: str, count: int, clients: int) -> None:
        def work() -> None:
            with self.cluster[0].Client() as client:
                for _ in range(count // clients):
                    FollowJob(client, client.SubmitJob([OP]))

        threads = [threading.Thread(target=work) for _ in range(clients)]
        cpu, began = self.Cpu(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        print(
            f"{title:44} {count / seconds:6.0f} jobs/s"
            f"               CPU of masterd {1000 * (self.Cpu() - cpu) / count:5.2f} ms a job"
        )

    def AtOnce(self, title: str, ops: list[dict[str, Any]]) -> float:
        """Submit jobs in one call, follow them to the end of the last; return how many end in a second."""
        with self.cluster[0].Client() as client:
            cpu, began = self.Cpu(), time.perf_counter()
            ids = [job_id for _, job_id in client.SubmitManyJobs([[op] for op in ops])]
            for job_id in ids:
                assert FollowJob(client, job_id)[0] == "success"
            seconds = time.perf_counter() - began
        print(
            f"{title:44} {len(ops) / seconds:6.0f} jobs/s"
            f"               CPU of masterd {1000 * (self.Cpu() - cpu) / len(ops):5.2f} ms a job",
            flush=True,
        )
        return len(ops) / seconds

    def Lists(self) -> None:
        with self.cluster[0].Client() as client:
            began = time.perf_counter()
            rows = client.QueryJobs(None, ["id", "status", "summary"])
            print(
                f"list of {len(rows):5} jobs                           {1000 * (time.perf_counter() - began):8.1f} ms"
            )
            began = time.perf_counter()
            for _ in range(500):
                client.QueryConfigValues(["cluster_name"])
            print(f"a small query                                {2 * (time.perf_counter() - began):8.3f} ms")


def Main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        bench = Bench(cluster)
        print(f"an idle master: {bench.Pss():.1f} MB, {len(os.listdir(f'/proc/{bench.pid}/task'))} threads")
        bench.Latency("one job that does nothing", OP, min(count, 300))
        names = [node.name for node in cluster.nodes]
        bench.Latency("one job that calls three nodes", {**OP, "on_nodes": names}, min(count, 300))
        for clients in (1, 4, 16):
            bench.Throughput(f"{count} jobs by {clients} clients, one after the other", count, clients)
        bench.AtOnce(f"{count} jobs in one submission", [OP] * count)
        for _ in range(3):
            bench.AtOnce("200 that do nothing", [OP] * 200)
            bench.AtOnce("200 that wait for one lock", [{**OP, "on_master": True}] * 200)
            bench.AtOnce("200 that call one node each", [{**OP, "on_nodes": [names[n % 3]]} for n in range(200)])
        bench.Lists()
        print(f"the master now: {bench.Pss():.1f} MB")
        began = time.perf_counter()
        cluster[0].Stop("ganeti-masterd")
        stopped = time.perf_counter()
        cluster[0].StartMaster()
        print(f"stop {stopped - began:.1f} s, start with these jobs {time.perf_counter() - stopped:.1f} s")


if __name__ == "__main__":
    Main()
