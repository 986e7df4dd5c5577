"""Measure a run of the watcher that finds nothing to do.

Run by hand from the top of the tree: ``python test/bench/bench_watcher.py [INSTANCES [NODES]]``.

A master daemon and node daemons, real processes on addresses of 127.0.0.0/8; all guests of the fake hypervisor run, each with
a disk that is a file.  The run asks for instances, nodes, locks and jobs, and has disks verified by a job.  CPU is that of the watcher's processes; the
daemons share the machine.  Targets (2 cores) with 500 instances: 1 s, 0.5 s of CPU.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from typing import NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support import configs  # noqa: E402
from support.realcluster import RealCluster  # noqa: E402
from support.virtualnode import TOP  # noqa: E402

from ganeti import objects  # noqa: E402
from ganeti.hypervisor import fake  # noqa: E402

RUNS = 5


class Measured(NamedTuple):
    """Seconds of the middle run, from its start to its end, and of CPU in its processes."""

    wall: float
    cpu: float


def WithGuests(cluster: RealCluster, count: int) -> None:
    """Write the configuration, the guests that run, and their disks."""
    example = configs.Example()
    instances, disks = {}, {}
    for number in range(count):
        node = cluster.nodes[number % len(cluster.nodes)]
        name = f"inst{number}.example.com"
        path = os.path.join(cluster.files, name, "disk0")
        disk = example.disks[configs.WEB_DISK].Replace(
            uuid=configs.Uuid(50_000 + number), dev_type="file", logical_id=["loop", path], size=1, children=[],
            nodes=[node.uuid],
        )  # fmt: skip
        made = example.instances[configs.WEB].Replace(
            uuid=configs.Uuid(10_000 + number), name=name, primary_node=node.uuid, hypervisor="fake", hvparams={},
            disks=[disk.uuid], disks_active=True, nics=[], admin_state="up", network_port=None,
        )  # fmt: skip
        instances[made.uuid], disks[disk.uuid] = made, disk
        node.Write(f"/var/run/ganeti/fake-hypervisor/{name}", fake.FormatRecord(128, 1))
        os.makedirs(os.path.dirname(path))
        with open(path, "wb") as stream:
            stream.truncate(1 << 20)
    cluster.config = cluster.config.Replace(instances=instances, disks=disks)
    cluster[0].Write("/var/lib/ganeti/config.data", objects.ConfigText(cluster.config), 0o640)


def RunOnce(cluster: RealCluster) -> Measured:
    master = cluster[0]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = master.Run([os.path.join(TOP, "daemons", "ganeti-watcher"), "--no-strict"])
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done
    return Measured(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def Measure(count: int = 500, nodes: int = 5) -> Measured:
    with RealCluster(nodes) as cluster:
        WithGuests(cluster, count)
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        RunOnce(cluster)  # starts what does not run yet
        runs = [RunOnce(cluster) for _ in range(RUNS)]
        last = cluster[0].Read("/var/log/ganeti/watcher.log").splitlines()[-1]
        assert last.endswith(f"Group default: {count} instances, nothing to start"), last
        # The disks were really looked at: one that is gone is noticed.
        lost = next(iter(cluster.config.disks.values()))
        os.unlink(lost.logical_id[1])
        RunOnce(cluster)
        last = cluster[0].Read("/var/log/ganeti/watcher.log").splitlines()[-1]
        assert "has lost" in last, last
    return Measured(statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs))


def Main() -> None:
    given = list(map(int, sys.argv[1:3]))
    count, nodes = given + [500, 5][len(given) :]
    found = Measure(count, nodes)
    print(f"{count} instances on {nodes} nodes, nothing to do: {found.wall:.2f} s, CPU {found.cpu:.2f} s")


if __name__ == "__main__":
    Main()
