"""How fast the htools choose: rounds of balancing, allocations, and how much fits (numbers in doc/benchmarks.rst).

Run by hand: ``PYTHONPATH=. .venv/bin/python test/bench/bench_htools.py [NODES INSTANCES]``.  All times are CPU times.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

from ganeti.htools.choosing import allocate, balance
from ganeti.htools.model.entities import NO_NODE, Disk, Instance, Status
from ganeti.htools.model.state import Cluster
from ganeti.htools.sources import loading, text
from ganeti.htools.sources.loading import Wishes
from ganeti.tools.htools import main
from ganeti.tools.htools.output import Streams

_STEPS = 20
_STARTS = 10
_SPACE = "--simulate p,20,200g,16g,4,2 --machine-readable --disk-template drbd --tiered-alloc 60g,7g,2"


def MakeCluster(nodes: int, instances: int, room: int = 262144) -> Cluster:
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
    hosts = [f"n{i}|{room}|1024|{room - 1024 - memory[i]}|4000000|{4000000 - disk[i]}|64|N|u|10" for i in range(nodes)]
    return loading.Build(text.Parse("\n".join(["g|u|preferred||", "", *hosts, "", *guests, "", ""]) + "\n"), Wishes())


def _Balance(cluster: Cluster, size: str) -> None:
    begin = time.process_time()
    times = [time.process_time() for _ in balance.Balance(cluster.state, balance.Rules(steps=_STEPS))]
    first, last = times[0] - begin, times[-1] - begin
    print(f"hbal, one round of {size}: {first:.2f} s (2 s); {len(times)} rounds: {last:.1f} s (20 s)")


def _New(cluster: Cluster) -> Instance:
    return Instance(
        len(cluster.state.instances), "new", memory=1024, disk=10240, vcpus=1, status=Status.RUNNING, template="drbd",
        primary=NO_NODE, disks=(Disk(10240, 1),), alias="new",
    )  # fmt: skip


def _Allocate(cluster: Cluster) -> None:
    inst = _New(cluster)
    for checks in (True, False):
        begin = time.process_time()
        choice = allocate.AllocateInGroups(cluster, inst, 2, allocate.Rules(capacity_checks=checks))
        words = "with" if checks else "without"
        spent = (time.process_time() - begin) * 1000
        print(
            f"hail, one mirrored instance, {words} capacity checks: {spent:.0f} ms (50 ms); {choice.group is not None}"
        )


def _Failures(room: int, nodes: int, instances: int) -> None:
    """Place an instance in a group that is to survive two failures."""
    cluster = MakeCluster(nodes, instances, room)
    hosts = [
        node.WithFacts(replace(node.facts, policy=replace(node.facts.policy, max_failures=2)))
        for node in cluster.state.nodes.values()
    ]
    cluster = cluster.WithState(cluster.state.With(hosts))
    begin = time.process_time()
    choice = allocate.AllocateInGroups(cluster, _New(cluster), 2, allocate.Rules())
    spent = time.process_time() - begin
    size = f"{nodes} nodes with {room // 1024} GiB and {instances} instances"
    print(f"two failures, {size}: {spent * 1000:.0f} ms; {choice.placement is not None}")


def _Program(cluster: Cluster) -> None:
    """Run hail as a program on files."""
    request = {
        "type": "allocate", "name": "new", "memory": 1024, "disk_space_total": 10240, "disks": [{"size": 10240}],
        "nics": [], "vcpus": 1, "disk_template": "drbd", "spindle_use": 1, "tags": [], "required_nodes": 2,
    }  # fmt: skip
    message = {
        "cluster_tags": [], "enabled_hypervisors": ["kvm"], "nodegroups": {}, "nodes": {}, "instances": {},
        "request": request,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name)
        (path / "cluster").write_text(text.Write(cluster), encoding="utf-8")
        (path / "request").write_text(json.dumps(message), encoding="utf-8")
        program = [sys.executable, "-c", "from ganeti.tools.htools.main import Main; Main()"]
        before = os.times()
        done = subprocess.run(
            [*program, "-t", str(path / "cluster"), str(path / "request")],
            env={**os.environ, "HTOOLS": "hail"}, capture_output=True, text=True, check=True, timeout=600,
        )  # fmt: skip
        after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"hail as a program: {spent * 1000:.0f} ms (300 ms); {json.loads(done.stdout)['success']}")


def _Start() -> None:
    """Start a program that does nothing but print its version."""
    program = [sys.executable, "-c", "from ganeti.tools.htools.main import Main; Main()", "--version"]
    before = os.times()
    for _ in range(_STARTS):
        subprocess.run(program, env={**os.environ, "HTOOLS": "hail"}, capture_output=True, check=True, timeout=600)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"hail --version: {spent / _STARTS * 1000:.0f} ms (100 ms)")


def _Fill() -> None:
    out = io.StringIO()
    begin = time.process_time()
    code = main.Run("hspace", _SPACE.split(), Streams(out, sys.stderr, lambda path, content: None))
    count = next(line for line in out.getvalue().splitlines() if line.startswith("HTS_ALLOC_INSTANCES"))
    print(f"hspace, 20 empty nodes: {time.process_time() - begin:.1f} s (10 s); exit status {code}, {count}")


def Main() -> None:
    nodes, instances = map(int, sys.argv[1:]) if len(sys.argv) == 3 else (100, 2000)
    cluster = MakeCluster(nodes, instances)
    _Balance(cluster, f"{nodes} nodes and {instances} instances")
    _Allocate(cluster)
    for room, hosts, guests in ((90112, 20, 400), (81920, nodes, instances), (131072, nodes, instances)):
        _Failures(room, hosts, guests)
    _Program(cluster)
    _Start()
    _Fill()


if __name__ == "__main__":
    Main()
