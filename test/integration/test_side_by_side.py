"""Several people at one cluster, and what each of them need not wait for (the goals of design 2.0)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.patience import MOST
from support.realcluster import ALLOCATOR_DIR, FollowJob, RealCluster, WaitUntil
from support.virtualnode import TOP

COMMAND = "import sys; from ganeti.cli.main import Main; sys.argv[0] = sys.argv.pop(1); sys.exit(Main())"
# An installation that takes until somebody says so.
SLOW_CREATE = """#!/bin/sh
touch {folder}/begun
while [ ! -e {folder}/go ]; do sleep 0.05; done
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(3) as made:
        made.MakeOs("quick")
        folder = made.MakeOs("slow")
        with open(f"{folder}/create", "w", encoding="utf-8") as stream:
            stream.write(SLOW_CREATE.format(folder=folder))
        made.StartNodeDaemons()
        made[0].StartMaster()
        with made[0].Client() as client:
            for number in range(2):
                Do(client, Create(made, f"web{number}", 1 + number))
        yield made


def Create(cluster: RealCluster, name: str, node: int, system: str = "quick", **more: Any) -> dict[str, Any]:
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": f"{name}.example.com",
        "mode": "create",
        "disk_template": "file",
        "disks": [{"size": 1024}],
        "nics": [{"mode": "routed", "link": "lo", "ip": f"192.0.2.{len(name) * 10 + node}"}],
        "os_type": f"{system}+default",
        "pnode": cluster[node].name,
        "hypervisor": "fake",
        "start": False,
        "ignore_ipolicy": True,
        "conflicts_check": False,
        **more,
    }


def Do(client: Any, op: dict[str, Any]) -> None:
    job_id = client.SubmitJob([{**op, "reason": []}])
    status, _ = FollowJob(client, job_id)
    assert status == "success", client.QueryJobs([job_id], ["opresult"])


def Instance(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"OP_ID": f"OP_INSTANCE_{kind}", "instance_name": f"{name}.example.com", **more}


def Delay(duration: float, nodes: list[str]) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_DELAY", "duration": duration, "on_nodes": nodes, "on_master": False, "reason": []}


@pytest.mark.req("D20-GOAL-02")
def test_an_instance_starts_while_another_one_is_being_installed(cluster: RealCluster) -> None:
    folder = os.path.join(cluster.base, "os", "slow")
    with cluster[0].Client() as client:
        installing = client.SubmitJob([{**Create(cluster, "slow", 1, "slow"), "reason": []}])
        WaitUntil(lambda: os.path.exists(f"{folder}/begun"), "the installation runs")
        # One of the same node, whose disks are of the same kind.
        Do(client, Instance("STARTUP", "web0"))
        Do(client, Instance("REBOOT", "web0", reboot_type="hard"))
        assert client.QueryJobs([installing], ["status"]) == [["running"]]
        with open(f"{folder}/go", "w", encoding="utf-8"):
            pass
        assert FollowJob(client, installing)[0] == "success"


@pytest.mark.req("IAL-05", "IAL-07")
def test_hail_places_an_instance_while_another_one_is_being_installed(cluster: RealCluster) -> None:
    folder = os.path.join(cluster.base, "os", "slow")
    placed = {"pnode": None, "iallocator": "hail"}
    for name in ("begun", "go"):
        if os.path.exists(f"{folder}/{name}"):
            os.unlink(f"{folder}/{name}")
    with cluster[0].Client() as client:
        installing = client.SubmitJob([{**Create(cluster, "placed", 1, "slow", **placed), "reason": []}])
        WaitUntil(lambda: os.path.exists(f"{folder}/begun"), "the installation runs")
        other = client.SubmitJob([{**Create(cluster, "beside", 1, **placed), "reason": []}])
        status, messages = FollowJob(client, other)
        assert status == "success", messages
        assert client.QueryJobs([installing], ["status"]) == [["running"]]
        with open(f"{folder}/go", "w", encoding="utf-8"):
            pass
        assert FollowJob(client, installing)[0] == "success"
        [[[nodes]]] = client.QueryJobs([other], ["opresult"])
        assert any(
            f"Selected nodes for instance beside.example.com via iallocator hail: {nodes[0]}" in str(message)
            for message in messages
        )


def test_a_job_that_waits_for_a_hanging_allocator_is_canceled_at_once(cluster: RealCluster) -> None:
    node, go = cluster[0], os.path.join(cluster.base, "go")
    begun = os.path.join(cluster.base, "begun")
    text = f"#!/bin/sh\ntouch {begun}\nwhile [ ! -e {go} ]; do sleep 0.05; done\n"
    program = os.path.join(cluster.base, ALLOCATOR_DIR, "hanging")
    os.makedirs(os.path.dirname(program))
    with open(program, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(program, 0o755)
    with node.Client() as client:
        job = client.SubmitJob([{**Create(cluster, "never", 1, pnode=None, iallocator="hanging"), "reason": []}])
        WaitUntil(lambda: os.path.exists(begun), "the allocator runs")
        WaitUntil(lambda: client.QueryJobs([job], ["status"]) == [["waiting"]], "the job is shown as waiting")
        assert client.CancelJob(job) == [True, f"Job {job} canceled"]
        assert client.QueryJobs([job], ["status"]) == [["canceled"]]
        assert ["never.example.com"] not in client.QueryInstances([], ["name"])
        # It runs on, and keeps nobody from choosing.
        Do(client, Create(cluster, "after", 1, pnode=None, iallocator="hail"))
    with open(go, "w", encoding="utf-8"):
        pass


@pytest.mark.req("D20-GOAL-03")
def test_a_failover_does_not_wait_for_a_batch_of_other_jobs(cluster: RealCluster) -> None:
    with cluster[0].Client() as client:
        Do(client, Create(cluster, "moving", 1, disk_template="diskless", disks=[]))
        batch = [job_id for _, job_id in client.SubmitManyJobs([[Delay(600, [cluster[0].name])]] * 5)]
        WaitUntil(lambda: ["running"] in client.QueryJobs(batch, ["status"]), "the batch is under way")
        Do(client, Instance("FAILOVER", "moving", target_node=cluster[2].name))
        Do(client, Instance("STARTUP", "moving"))
        ended = {"success", "error", "canceled"}
        assert not ended.intersection(row[0] for row in client.QueryJobs(batch, ["status"]))
        for job_id in reversed(batch):
            client.CancelJob(job_id, kill=True)
        assert all(FollowJob(client, job_id)[0] != "success" for job_id in batch)


@pytest.mark.req("D20-GOAL-04")
def test_two_administrators_see_their_own_jobs_alone(cluster: RealCluster) -> None:
    def start(repeat: int) -> subprocess.Popen[str]:
        words = f"gnt-debug delay --print-jobid --no-master --repeat {repeat} 0.2".split()
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words], env=cluster[0].Environment(), cwd=TOP, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    sessions = {repeat: start(repeat) for repeat in (3, 5)}
    ids = set()
    for repeat, session in sessions.items():
        out, err = session.communicate(timeout=40 * MOST)
        assert session.returncode == 0, err
        number, *lines = (out + err).splitlines()
        ids.add(number)
        assert [line.rpartition("iteration ")[2] for line in lines] == [f"{n}/{repeat - 1}" for n in range(repeat)]
    assert len(ids) == 2


@pytest.mark.req("D20-GOAL-05")
def test_what_needs_no_dead_node_goes_on(cluster: RealCluster) -> None:
    cluster.CutPower(cluster[2])
    try:
        with cluster[0].Client() as client:
            dead = client.SubmitJob([Delay(0, [node.name for node in cluster.nodes])])
            Do(client, Create(cluster, "another", 1))
            Do(client, Instance("STARTUP", "another"))
            assert FollowJob(client, dead)[0] == "error"
            [[results]] = client.QueryJobs([dead], ["opresult"])
            assert cluster[2].name in str(results) and cluster[1].name not in str(results)
    finally:
        cluster[2].StartNoded()


# Says which files whose names begin so the program opens.
WATCHED = "import sys; sys.addaudithook(lambda event, args: event == 'open' and {prefix!r} in str(args[0]) and print('opens', *args)); "


@pytest.mark.req("D20-GOAL-07")
def test_commands_need_no_configuration_file(cluster: RealCluster) -> None:
    """Neither a command nor what it makes the master do."""
    node = cluster[0]
    with node.Client() as client:
        names = sorted(row[0] for row in client.QueryInstances([], ["name"]))
        [newest] = client.QueryConfigValues(["config_serial"])
    path = node.Path("/var/lib/ganeti/config.data")
    # Written a moment after the last change.
    WaitUntil(lambda: json.loads(node.Read("/var/lib/ganeti/config.data"))["serial_no"] == newest, "the newest file")
    before = os.stat(path)
    program = WATCHED.format(prefix="config.data") + COMMAND
    for words in ("gnt-instance list --no-headers -o name", "gnt-node list", "gnt-cluster info", "gnt-debug delay 0"):
        done = node.Run([sys.executable, "-c", program, *words.split()])
        assert done.returncode == 0, done.stderr
        assert "opens" not in done.stdout, words
        if "-o name" in words:
            assert done.stdout.split() == names
    after = os.stat(path)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
