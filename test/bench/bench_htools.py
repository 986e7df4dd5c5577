"""How fast the htools choose: one round of balancing, allocations (issue numbers in doc/benchmarks.rst).

Run by hand: ``.venv/bin/python test/bench/bench_htools.py [NODES INSTANCES]``.
"""

from __future__ import annotations

import random
import sys
import time

from ganeti.htools import allocate, balance, loading, text
from ganeti.htools.entities import NO_NODE, Disk, Instance, Status
from ganeti.htools.loading import Wishes
from ganeti.htools.state import Cluster


def MakeCluster(nodes: int, instances: int) -> Cluster:
    """Return a cluster of mirrored instances that somebody has placed without much thought."""
    chance = random.Random(1)
    memory, disk = [0] * nodes, [0] * nodes
    guests = []
    for number in range(instances):
        primary, secondary = chance.sample(range(nodes), 2)
        size, space = chance.choice([512, 1024, 2048, 4096]), chance.choice([10240, 20480, 51200])
        memory[primary] += size
        disk[primary] += space
        disk[secondary] += space
        guests.append(f"i{number}|{size}|{space}|{chance.choice([1, 2, 4])}|running|Y|n{primary}|n{secondary}|drbd|")
    hosts = [
        f"n{i}|262144|1024|{262144 - 1024 - memory[i]}|4000000|{4000000 - disk[i]}|64|N|u|10" for i in range(nodes)
    ]
    return loading.Build(text.Parse("\n".join(["g|u|preferred||", "", *hosts, "", *guests, "", ""]) + "\n"), Wishes())


def Main() -> None:
    nodes, instances = map(int, sys.argv[1:]) if len(sys.argv) == 3 else (100, 2000)
    cluster = MakeCluster(nodes, instances)
    state = cluster.state
    begin = time.process_time()
    step = balance.BestStep(state, state.Score(), balance.Rules())
    assert step is not None
    print(f"hbal, one round of {nodes} nodes and {instances} instances: {time.process_time() - begin:.1f} s CPU (2 s)")
    inst = Instance(
        instances, "new", memory=1024, disk=10240, vcpus=1, status=Status.RUNNING, template="drbd", primary=NO_NODE,
        disks=(Disk(10240, 1),), alias="new",
    )  # fmt: skip
    for checks in (True, False):
        begin = time.process_time()
        choice = allocate.AllocateInGroups(cluster, inst, 2, allocate.Rules(capacity_checks=checks))
        words = "with" if checks else "without"
        spent = (time.process_time() - begin) * 1000
        print(
            f"hail, one mirrored instance, {words} capacity checks: {spent:.0f} ms CPU (50 ms); {choice.group is not None}"
        )


if __name__ == "__main__":
    Main()
