"""Values of the metrics: of a cluster in which nothing is 0 and no two numbers are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import configs
from support.queues import Bench
from support.realcluster import WaitUntil

from ganeti import objects, runtime
from ganeti.metrics import BOUNDS, CallTimes, Histogram
from ganeti.server.metering import Meter

MIB = 1 << 20
# How many jobs of each kind there are in the end, and what their opcode does.
JOBS = {
    "running": (2, "gate end"),
    "canceling": (1, "waits end"),
    "waiting": (3, "waits end"),
    "queued": (4, ""),
    "error": (5, "fail"),
    "success": (6, "ok"),
    "canceled": (8, ""),
}
ROLES: dict[str, tuple[int, dict[str, bool]]] = {
    "candidate": (2, {"master_candidate": True}),
    "regular": (3, {}),
    "drained": (4, {"drained": True}),
    "offline": (5, {"offline": True}),
}
INSTANCES: dict[str, tuple[int, dict[str, Any]]] = {
    "up": (1, {"admin_state": "up", "beparams": {"maxmem": 512, "minmem": 256, "vcpus": 3}}),
    "down": (2, {"admin_state": "down", "beparams": {"maxmem": 640, "minmem": 128, "vcpus": 5}}),
    "offline": (3, {"admin_state": "offline", "beparams": {"maxmem": 768, "minmem": 64, "vcpus": 7}}),
    "reserved": (4, {"forthcoming": True, "beparams": {"maxmem": 896, "minmem": 32, "vcpus": 9}}),
}


def _Root() -> objects.Snapshot:
    example = configs.Example()
    node, web, disk = example.nodes[configs.NODE1], example.instances[configs.WEB], example.disks[configs.WEB_DISK]
    uuids = map(configs.Uuid, range(1000, 2000))
    nodes = [node]
    for count, flags in ROLES.values():
        unset = {"master_candidate": False, "drained": False, "offline": False}
        nodes += [node.Replace(uuid=next(uuids), **{**unset, **flags}) for _ in range(count)]
    instances = [web.Replace(uuid=next(uuids), **more) for count, more in INSTANCES.values() for _ in range(count)]
    sizes = [("plain", 100), ("plain", 11), ("file", 222), ("drbd", 333)]
    disks = [disk.Replace(uuid=next(uuids), dev_type=kind, size=size, children=[]) for kind, size in sizes]
    return example.Replace(
        cluster=example.cluster.Replace(master_node=node.uuid),
        **{
            name: {made.uuid: made for made in several}
            for name, several in (("nodes", nodes), ("instances", instances), ("disks", disks))
        },
    )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(str(tmp_path), voters=5, settings=lambda: (20, {}))
    yield made
    made.executor.Open("end")
    made.Close()


def _Received(bench: Bench, job_id: int) -> float:
    seconds, microseconds = bench.Field(job_id, "received_ts")
    return float(seconds) + float(microseconds) / 1e6


def _SubmitJobs(bench: Bench) -> float:
    """Submit jobs until there are those of JOBS; return when the oldest that waits was received, some time before others."""
    for status in ("error", "success"):
        count, comment = JOBS[status]
        for _ in range(count):
            assert bench.WaitEnd(bench.Submit(comment)) == status
    blocker, _ = [bench.Submit(JOBS["running"][1]) for _ in range(JOBS["running"][0])]
    bench.WaitStatus(blocker, "running")
    oldest = bench.Submit(JOBS["waiting"][1])
    received = _Received(bench, oldest)
    WaitUntil(lambda: runtime.Time() > received + 1, "the others are younger by a second")
    waiting = [oldest, *(bench.Submit(JOBS["waiting"][1]) for _ in range(JOBS["waiting"][0] - 1))]
    ending = bench.Submit(JOBS["canceling"][1])
    for job in (*waiting, ending):
        bench.WaitStatus(job, "waiting")
    bench.executor.WaitGate("end", sum(JOBS[status][0] for status in ("running", "waiting", "canceling")))
    later = [bench.Submit("", depends=[[blocker, []]]) for _ in range(JOBS["queued"][0] + JOBS["canceled"][0])]
    for job in later[JOBS["queued"][0] :]:
        assert bench.queue.CancelJob(job).Result(20)[0]
    bench.queue.CancelJob(ending)  # is answered when the job has let go
    bench.WaitStatus(ending, "canceling")
    return received


def _Calls() -> CallTimes:
    times = CallTimes()
    for number, node in ((1, "node2"), (3, "node3")):
        for _ in range(number):
            times.Observe(node, "version", 0.02 * number, True)
        times.Observe(node, "version", 700.0, False)
    return times


def _Counts(**numbers: int) -> list[int]:
    """How many there are in each range of time; ``below_X``: milliseconds."""
    bounds = [f"below_{bound * 1000:.0f}" for bound in BOUNDS]
    return [numbers.get(name, 0) for name in (*bounds, "above")]


def test_every_value(bench: Bench) -> None:
    oldest = _SubmitJobs(bench)
    for node in bench.cluster.nodes[3:]:
        node.up = False
    assert bench.queue.SetDrainFlag(True).Result(20)
    WaitUntil(lambda: len(bench.store.Silent()) == 2, "two candidates are silent")
    commits = Histogram()
    for seconds in (0.002, 0.002, 0.05):
        commits.Observe(seconds)
    meter = Meter(_Root, bench.queue, bench.store, commits, [_Calls()], lambda: {("node2",): 4})
    before = runtime.Time()
    rows = meter.Read()
    after = runtime.Time()
    found = {name: {tuple(labels): value for labels, value in series} for name, series in rows.items()}
    assert all(len(found[name]) == len(series) for name, series in rows.items())
    [age] = found.pop("jobs_pending_oldest_age").values()
    found.pop("log_lines_lost")  # those of this process, whoever wrote them (test/unit/daemon/test_logs.py)
    assert before - oldest <= age <= after - oldest
    assert found == {
        "jobs": {(status,): count for status, (count, _) in JOBS.items()},
        "jobs_pending": {(): 7},
        "jobs_waiting_for_locks": {(): 3},
        "queue_drained": {(): 1},
        "commit_duration": {(): {"counts": _Counts(below_3=2, below_100=1), "sum": pytest.approx(0.054)}},
        "candidates": {(): 5},
        "candidates_silent": {(): 2},
        "rpc_duration": {
            ("node2", "version"): {"counts": _Counts(below_30=1, above=1), "sum": pytest.approx(700.02)},
            ("node3", "version"): {"counts": _Counts(below_100=3, above=1), "sum": pytest.approx(700.18)},
        },
        # A node of the configuration that no call of this kind has failed on begins at zero.
        "rpc_failures": {("node1.example.org", "version"): 0, ("node2", "version"): 1, ("node3", "version"): 3},
        "rpc_calls_hanging": {("node2",): 4},
        "nodes": {("master",): 1, **{(role,): count for role, (count, _) in ROLES.items()}},
        "instances": {(state,): count for state, (count, _) in INSTANCES.items()},
        "instances_memory": {
            ("up",): 512 * MIB,
            ("down",): 2 * 640 * MIB,
            ("offline",): 3 * 768 * MIB,
            ("reserved",): 4 * 896 * MIB,
        },
        "instances_cpus": {("up",): 3, ("down",): 10, ("offline",): 21, ("reserved",): 36},
        "disks_size": {("plain",): 111 * MIB, ("file",): 222 * MIB, ("drbd",): 333 * MIB},
        # The watcher has not looked at any.
        "volume_groups": {},
    }
