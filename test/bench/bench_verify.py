"""gnt-cluster verify over many nodes.  Run by hand: ``python test/bench/bench_verify.py [nodes [volumes]]`` from the top.

A master daemon and 20 node daemons, real processes on addresses of 127.0.0.0/8.  Each node has 500 logical volumes, all
of them disks of instances that use them; the programs of LVM answer at once.  Target (2 cores): 3 s from the submission of
the job to the end of the last job that it made, node daemons included.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from bench_cluster import MASTERD, NODED, Cpu  # noqa: E402
from support import configs  # noqa: E402
from support.realcluster import FollowJob, RealCluster, RealNode  # noqa: E402

from ganeti import objects  # noqa: E402

GROUP = "xenvg"
DISKS = 5
PV_SIZE = 1 << 20  # MiB


class Measured(NamedTuple):
    """Seconds from the submission to the end; CPU seconds of the master, and of all node daemons."""

    wall: float
    master: float
    nodes: float
    findings: list[str]


def _Nic(nic: objects.NIC, number: int) -> objects.NIC:
    mac = f"aa:00:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
    return nic.Replace(uuid=configs.Uuid(50_000 + number), mac=mac, ip="192.0.2.1", network=None, nicparams={})


def WithVolumes(cluster: RealCluster, volumes: int) -> None:
    """Writes the configuration: each node is primary of instances with five plain disks each."""
    root = cluster.config
    web, disk = configs.Example().instances[configs.WEB], configs.Example().disks[configs.WEB_DISK]
    instances, disks = {}, {}
    number = 0
    for node in cluster.nodes:
        for _ in range(volumes // DISKS):
            number += 1
            own = [configs.Uuid(100_000 + DISKS * number + index) for index in range(DISKS)]
            for index, uuid in enumerate(own):
                disks[uuid] = disk.Replace(
                    uuid=uuid,
                    dev_type="plain",
                    logical_id=(GROUP, f"{uuid}.disk{index}"),
                    children=[],
                    nodes=[node.uuid],
                    size=1024,
                    iv_name=f"disk/{index}",
                )
            uuid = configs.Uuid(10_000 + number)
            instances[uuid] = web.Replace(
                uuid=uuid,
                name=f"inst{number}.example.com",
                primary_node=node.uuid,
                hypervisor="fake",
                hvparams={},
                disks=own,
                nics=[_Nic(web.nics[0], number)],
                admin_state="down",
                disks_active=True,
                network_port=None,
            )
    templates = ["plain", "diskless"]
    changed = root.cluster.Replace(
        volume_group_name=GROUP,
        enabled_disk_templates=templates,
        candidate_pool_size=3,
        nicparams={"default": {"mode": "routed", "link": "lo", "vlan": ""}},
        modify_ssh_setup=False,
        ipolicy={**root.cluster.ipolicy, "disk-templates": templates},
    )
    cluster.config = root.Replace(instances=instances, disks=disks, cluster=changed)
    cluster[0].Write("/var/lib/ganeti/config.data", objects.ConfigText(cluster.config), 0o640)


def InstallLvm(cluster: RealCluster, node: RealNode) -> str:
    """Makes programs that print what LVM would; returns their directory."""
    folder = node.Path("/lvm")
    os.makedirs(folder)
    names = [disk.logical_id[1] for disk in cluster.config.disks.values() if disk.nodes == (node.uuid,)]
    size = f"{1024 << 10}.00"
    tables = {
        "vgs": f"  {GROUP}|{PV_SIZE / 2:.2f}|wz--n-|{PV_SIZE:.2f}\n",
        "pvs": "".join(f"  /dev/sda|{GROUP}|{PV_SIZE / 2:.2f}|a--|{PV_SIZE:.2f}|{name}\n" for name in names),
        "lvs": "".join(
            f"  {GROUP}|{name}|-wi-a-----|253|{number}|4096.00|1|{size}||/dev/sda({256 * number})\n"
            for number, name in enumerate(names)
        ),
    }
    for program, table in tables.items():
        node.Write(f"/lvm/{program}.txt", table)
        node.Write(f"/lvm/{program}", f"#!/bin/sh\nexec cat {folder}/{program}.txt\n", 0o755)
    return folder


def AtNodes(cluster: RealCluster) -> float:
    """Seconds of processor time that node daemons and their children have used."""
    master = cluster[0].Pid(MASTERD)
    found = 0.0
    for pid in cluster.Processes():
        if pid != master:
            with contextlib.suppress(OSError):
                found += Cpu(pid)
    return found


def Verify(cluster: RealCluster) -> Measured:
    """Verifies the whole cluster once."""
    with cluster[0].Client() as client:
        before, at_nodes = Cpu(cluster[0].Pid(MASTERD)), AtNodes(cluster)
        began = time.perf_counter()
        job = client.SubmitJob([{"OP_ID": "OP_CLUSTER_VERIFY", "error_codes": True, "reason": []}])
        assert FollowJob(client, job)[0] == "success"
        [[[result]]] = client.QueryJobs([job], ["opresult"])
        findings = []
        for fine, number in result["jobs"]:
            assert fine, number
            assert FollowJob(client, number)[0] == "success"
        wall = time.perf_counter() - began
        for _, number in result["jobs"]:
            [[log]] = client.QueryJobs([number], ["oplog"])
            findings += [text for line in log[0] if "ERROR" in (text := str(line[3]))]
        return Measured(wall, Cpu(cluster[0].Pid(MASTERD)) - before, AtNodes(cluster) - at_nodes, findings)


def Run(nodes: int = 20, volumes: int = 500) -> Measured:
    """Returns the best of three."""
    with RealCluster(nodes, candidates=3) as cluster:
        WithVolumes(cluster, volumes)
        cluster.MakeOs("empty")
        for node in cluster.nodes:
            path = f"{InstallLvm(cluster, node)}:{os.environ['PATH']}"
            node.Start(NODED, "-b", node.address, "--no-mlock", PATH=path)
        cluster[0].StartMaster()
        return min(Verify(cluster) for _ in range(3))


def Main() -> None:
    found = Run(*map(int, sys.argv[1:]))
    print(f"{found.wall:.2f} s; CPU of the master {found.master:.2f} s, of the node daemons {found.nodes:.2f} s")
    for text in found.findings[:5]:
        print(text)


if __name__ == "__main__":
    Main()
