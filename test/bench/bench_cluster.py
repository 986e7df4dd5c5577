"""A cluster of 2000 instances.  Run by hand: ``python test/bench/bench_cluster.py [instances]`` from the top of the tree.

A master daemon and three node daemons, all master candidates, real processes on addresses of 127.0.0.0/8.  Targets
(2 cores): half of the configuration changes within 6 ms and 99 of 100 within 40 ms, ``gnt-cluster info`` and
``gnt-node list`` within 150 ms, an instance made within 200 ms, a node daemon within 50 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support import configs  # noqa: E402
from support.realcluster import FollowJob, RealCluster, RealNode  # noqa: E402

from ganeti import objects  # noqa: E402

MASTERD, NODED = "ganeti-masterd", "ganeti-noded"
TICKS = os.sysconf("SC_CLK_TCK")
RULE = [["jobid", [">", "id", 10**9]]]
COMMAND = "import sys; from ganeti.cli.main import Main; sys.argv[0] = sys.argv.pop(1); sys.exit(Main())"
COMMANDS = (
    ("gnt-cluster", "info"),
    ("gnt-node", "list", "-o", "name,role"),
    ("gnt-instance", "list", "--no-headers", "-o", "name,pnode,admin_state"),
    ("gnt-instance", "info", "--static", "inst7.example.com"),
)


def WithInstances(cluster: RealCluster, count: int) -> None:
    """Writes the configuration of a cluster that has grown: an instance has a disk and a network interface."""
    root = cluster.config
    web = configs.Example().instances[configs.WEB]
    disk = configs.Example().disks[web.disks[0]]
    nodes = list(root.nodes)
    instances, disks = {}, {}
    for number in range(count):
        disk_uuid, nic_uuid = configs.Uuid(10_000 + number), configs.Uuid(20_000 + number)
        disks[disk_uuid] = disk.Replace(
            uuid=disk_uuid,
            dev_type="file",
            logical_id=("loop", f"{cluster.files}/inst{number}/disk0"),
            children=[],
            nodes=[nodes[number % len(nodes)]],
        )
        nic = web.nics[0].Replace(
            uuid=nic_uuid,
            mac=f"aa:00:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
            ip=None,
            network=None,
        )
        uuid = configs.Uuid(30_000 + number)
        instances[uuid] = web.Replace(
            uuid=uuid,
            name=f"inst{number}.example.com",
            primary_node=nodes[number % len(nodes)],
            hypervisor="fake",
            hvparams={},
            disks=[disk_uuid],
            nics=[nic],
            admin_state="down",
            disks_active=False,
            network_port=None,
        )
    cluster.config = root.Replace(instances=instances, disks=disks)
    cluster[0].Write("/var/lib/ganeti/config.data", objects.ConfigText(cluster.config), 0o640)


def Cpu(pid: int) -> float:
    """Seconds of processor time a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
        fields = stream.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def Pss(pid: int) -> float:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("Pss:")) / 1024


def Show(title: str, times: list[float], cpu: float | None = None) -> None:
    times = sorted(1000 * seconds for seconds in times)
    told = f"   CPU of masterd {1000 * cpu / len(times):6.2f} ms each" if cpu is not None else ""
    print(
        f"{title:52} p50 {times[len(times) // 2]:7.1f}  p90 {times[int(len(times) * 0.9)]:7.1f}"
        f"  p99 {times[int(len(times) * 0.99)]:7.1f} ms{told}",
        flush=True,
    )


def Measure(node: RealNode, title: str, count: int, act: Callable[[int], None]) -> None:
    times = []
    pid = node.Pid(MASTERD)
    act(0)
    cpu = Cpu(pid)
    for number in range(1, count + 1):
        began = time.perf_counter()
        act(number)
        times.append(time.perf_counter() - began)
    Show(title, times, Cpu(pid) - cpu)


def NewInstance(name: str, address: str, node: str) -> dict[str, Any]:
    """Return the opcode that makes a diskless instance of the fake hypervisor."""
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "mode": "create",
        "disk_template": "diskless",
        "disks": [],
        "nics": [{"mode": "routed", "link": "lo", "ip": address}],
        "os_type": "empty+default",
        "pnode": node,
        "hypervisor": "fake",
        "start": False,
        "name_check": False,
        "ip_check": False,
        "conflicts_check": False,
        "ignore_ipolicy": True,  # far more virtual CPUs than the nodes have
    }


def Changes(node: RealNode) -> None:
    with node.Client() as client:
        rules: list[str] = []

        def rule(number: int) -> None:
            del number
            rules.append(client.ReplaceFilter(None, 5, RULE, "ACCEPT", []))

        def job(op: dict[str, Any]) -> None:
            job_id = client.SubmitJob([{**op, "reason": []}])
            status, _ = FollowJob(client, job_id)
            assert status == "success", client.QueryJobs([job_id], ["opresult"])

        def tag(number: int) -> None:
            job({"OP_ID": "OP_TAGS_SET", "kind": "instance", "name": "inst1.example.com", "tags": [f"t{number}"]})

        def add(number: int) -> None:
            job(NewInstance(f"new{number}.example.com", f"192.0.2.{number + 1}", node.name))

        Measure(node, "change of the configuration (filter rule over LUXI)", 300, rule)
        for number in range(len(rules)):
            client.DeleteFilter(rules[number])
        Measure(node, "job: one tag of an instance", 200, tag)
        Measure(node, "job: a new instance (fake, diskless)", 60, add)


def Commands(node: RealNode) -> None:
    def run(argv: list[str]) -> float:
        began = time.perf_counter()
        done = subprocess.run(
            argv, env=node.Environment(), cwd=node.root, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        assert done.stdout or argv[-1] == "pass"
        return time.perf_counter() - began

    times: dict[str, list[float]] = {}
    for _ in range(21):
        times.setdefault("python3 -c pass", []).append(run([sys.executable, "-c", "pass"]))
        times.setdefault("  start and imports of a command (--version)", []).append(
            run([sys.executable, "-c", COMMAND, "gnt-cluster", "--version"])
        )
        for command in COMMANDS:
            times.setdefault(" ".join(command), []).append(run([sys.executable, "-c", COMMAND, *command]))
    for title, found in times.items():
        Show(title, found[1:])


def Main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with RealCluster(3) as cluster:
        WithInstances(cluster, count)
        cluster.MakeOs("empty")
        size = os.path.getsize(cluster[0].Path("/var/lib/ganeti/config.data"))
        print(f"{count} instances, config.data has {size / 1e6:.1f} MB")
        cluster.StartNodeDaemons()
        first = cluster[0]
        for title in ("first start, on the files of 3.1", "start"):
            began = time.perf_counter()
            first.StartMaster()
            print(f"{title:52}   {time.perf_counter() - began:8.2f} s")
            if title != "start":
                began = time.perf_counter()
                first.Stop(MASTERD)
                print(f"{'stop':52}   {time.perf_counter() - began:8.2f} s")
        print(f"masterd {Pss(first.Pid(MASTERD)):.1f} MB, noded {Pss(first.Pid(NODED)):.1f} MB", flush=True)
        Changes(first)
        Commands(first)
        print(f"masterd now {Pss(first.Pid(MASTERD)):.1f} MB")


if __name__ == "__main__":
    Main()
