"""What choosing nodes costs the master daemon (issue numbers in doc/benchmarks.rst).

Run by hand: ``.venv/bin/python test/bench/bench_allocation.py [NODES INSTANCES]`` from the top of the tree.  Milliseconds
of CPU time, the best of several; the nodes of the second part are simulated, and what they do themselves does not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support import configs  # noqa: E402
from support.master import Master  # noqa: E402

from ganeti import objects, opcodes  # noqa: E402
from ganeti.cmdlib.allocation import clusterdata, hail, model, requests  # noqa: E402
from ganeti.htools import answer  # noqa: E402
from ganeti.htools.choosing.allocate import Rules  # noqa: E402
from ganeti.htools.sources import loading  # noqa: E402
from ganeti.luxi.pieces import Encoded  # noqa: E402
from ganeti.luxi.server import Server  # noqa: E402
from ganeti.master.querydata import ClusterInfo  # noqa: E402
from ganeti.server.masterd import SWITCH_INTERVAL  # noqa: E402

_ROUNDS = 7


def _Best(function: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Return the milliseconds of the quickest of several rounds."""
    spent = []
    for _ in range(_ROUNDS):
        begin = clock()
        function()
        spent.append(clock() - begin)
    return min(spent) * 1000


def _Root(nodes: int, instances: int) -> objects.Snapshot:
    root = configs.Large(instances, nodes)
    return root.Replace(cluster=root.cluster.Replace(ndparams={**root.cluster.ndparams, "spindle_count": 20}))


def _Question(root: objects.Snapshot) -> tuple[clusterdata.ClusterData, requests.Allocate]:
    """Return what nodes reported, and a request for a mirrored instance."""
    numbers = {
        uuid: clusterdata.Numbers(262144, 1024, 200000 + 7 * place, 4000000, 3000000 - place, 10, 10, 64, 1, 0, 0)
        for place, uuid in enumerate(root.nodes)
    }
    request = requests.Allocate(
        "new.example.org", "drbd", memory=1024, disks=({"size": 10240, "mode": "rw"},), hypervisor="kvm"
    )
    return clusterdata.ClusterData(root, numbers, {}), request


def InProcess(nodes: int, instances: int) -> None:
    """hail on the snapshot, without the calls to nodes."""
    data, request = _Question(_Root(nodes, instances))
    memory, options = model.Memory(), hail.OptionsOf({})
    assert hail.Run(data, request, options, memory).response.success
    cluster = loading.Build(model.MakeRaw(data, memory), loading.Wishes())
    question = hail.ReadRequest(hail.Entry(data, request), set())
    print(f"one mirrored instance on {nodes} nodes and {instances} instances:")
    print(f"  on the loaded model: {_Best(lambda: answer.Reply(cluster, question, Rules())):.0f} ms (50 ms)")
    print(f"  loading the model: {_Best(lambda: loading.Build(model.MakeRaw(data, memory), loading.Wishes())):.0f} ms")
    print(f"  all of it with the explanation: {_Best(lambda: hail.Run(data, request, options, memory)):.0f} ms")


def _Plain(root: objects.Snapshot) -> objects.Snapshot:
    """Return the example with many spindles, so that nothing runs out."""
    return root.Replace(cluster=root.cluster.Replace(ndparams={**root.cluster.ndparams, "spindle_count": 1000}))


def Adding(nodes: int) -> None:
    """``gnt-instance add -I hail`` beside ``-n``: what the job's thread does."""
    master = Master(nodes, lvm=True, change=_Plain)
    names = [node.name for node in master.all]
    made = 0

    def add(**where: Any) -> None:
        nonlocal made
        made += 1
        master.Run(
            opcodes.OpInstanceCreate(
                instance_name=f"new{made}.example.org", mode="create", disk_template="drbd", disks=[{"size": 1024}],
                nics=[{}], os_type="noop", start=False, wait_for_sync=False, **where,
            )
        )  # fmt: skip

    def measure() -> None:
        named = _Best(lambda: add(pnode=names[-1], snode=names[-2]), time.thread_time)
        chosen = _Best(lambda: add(iallocator="hail"), time.thread_time)
        print(f"instance add with {nodes} nodes: {named:.0f} ms with -n, {chosen:.0f} ms with -I hail")
        print(f"  more for choosing: {chosen - named:.0f} ms (80 ms)")

    try:
        master.Perform(measure)
    finally:
        master.Close()


# Asks QueryClusterInfo so often, with pauses, and prints the latencies in milliseconds that half and 99 of 100 keep.
_CLIENT = """
import sys, time
from ganeti.luxi.client import Client
client, spent = Client(sys.argv[1]), []
for _ in range(int(sys.argv[2])):
    begin = time.perf_counter()
    client.QueryClusterInfo()
    spent.append((time.perf_counter() - begin) * 1000)
    time.sleep(0.005)
spent.sort()
print(f"p50 {spent[len(spent) // 2]:.1f} ms, p99 {spent[len(spent) * 99 // 100]:.1f} ms")
"""


def Beside(nodes: int, instances: int) -> None:
    """What a client of LUXI waits while ``hail`` chooses nodes in the same process, one allocation after the other."""
    root = _Root(nodes, instances)
    data, request = _Question(root)
    info = Encoded(ClusterInfo(root))
    sys.setswitchinterval(SWITCH_INTERVAL)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "query")
        server = Server([path], lambda method, args: info)
        server.Start()
        try:
            for words, threads in (("nothing else", 0), ("one allocation", 1), ("two allocations", 2)):
                print(f"QueryClusterInfo beside {words}: {_Asking(path, data, request, threads)}")
        finally:
            server.Shutdown(linger=0.5)


def _Asking(path: str, data: clusterdata.ClusterData, request: requests.Allocate, threads: int) -> str:
    ended = threading.Event()

    def choose() -> None:
        memory, options = model.Memory(), hail.OptionsOf({})
        while not ended.is_set():
            hail.Run(data, request, options, memory)

    workers = [threading.Thread(target=choose) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        asking = subprocess.run(
            [sys.executable, "-c", _CLIENT, path, "400"], capture_output=True, text=True, check=True, timeout=300
        )
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    return asking.stdout.strip()


def Main() -> None:
    nodes, instances = map(int, sys.argv[1:]) if len(sys.argv) == 3 else (100, 2000)
    InProcess(nodes, instances)
    Adding(nodes)
    Beside(nodes, instances)


if __name__ == "__main__":
    Main()
