"""The real watcher on a real cluster: what died is started, what was stopped stays down."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster, RealNode, WaitGone, WaitUntil
from support.virtualnode import TOP

WEB, OFF = "web.example.com", "off.example.com"
LOG = "/var/log/ganeti/watcher.log"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2, candidates=1) as made:
        made.MakeOs("quick")
        made.StartNodeDaemons()
        made[0].StartMaster()
        for name, start in ((WEB, True), (OFF, False)):
            Create(made, name, start, "fake")
        yield made


def Create(cluster: RealCluster, name: str, start: bool, hypervisor: str, **more: Any) -> None:
    Do(cluster[0], OP_ID="OP_INSTANCE_CREATE", instance_name=name, mode="create", disk_template="file",
       disks=[{"size": 1}], nics=[], os_type="quick+default", pnode=cluster[1].name, hypervisor=hypervisor, start=start,
       ip_check=False, name_check=False, ignore_ipolicy=True, **more)  # fmt: skip


def Do(master: RealNode, **op: Any) -> None:
    with master.Client() as client:
        job_id = client.SubmitJob([{"reason": [], **op}])
        status, _ = FollowJob(client, job_id)
        assert status == "success", client.QueryJobs([job_id], ["opresult"])


def Watch(cluster: RealCluster, *options: str, number: int = 0) -> list[str]:
    """One run on a node; the lines that it logged, without time and process, when all jobs have ended."""
    node = cluster[number]
    before = len(_Log(node))
    done = Run(node, *options)
    lines = [line.partition(" pid=")[2].partition(" ")[2] for line in _Log(node)[before:].splitlines()]
    assert done.returncode == 0 and not done.stdout and not done.stderr, (done, lines)
    # The parent succeeds whatever becomes of the processes for the groups.
    assert not [line for line in lines if "process for group" in line], lines
    WaitUntil(lambda: not Pending(cluster[0]), "all jobs ended", 60)
    return lines


def Run(node: RealNode, *options: str) -> subprocess.CompletedProcess[str]:
    return node.Run([os.path.join(TOP, "daemons", "ganeti-watcher"), *options], timeout=200)


def Pending(node: RealNode) -> list[Any]:
    with node.Client() as client:
        return [
            row for row in client.QueryJobs(None, ["id", "status"]) if row[1] not in ("success", "error", "canceled")
        ]


def _Log(node: RealNode) -> str:
    try:
        return node.Read(LOG)
    except OSError:
        return ""


def _Program(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""  # it has ended


def Guest(cluster: RealCluster, name: str) -> str:
    """The file that is a guest of the fake hypervisor."""
    return cluster[1].Path(f"/var/run/ganeti/fake-hypervisor/{name}")


@pytest.mark.slow
def test_a_dead_guest_runs_again_after_one_run_and_a_stopped_one_does_not(cluster: RealCluster) -> None:
    os.unlink(Guest(cluster, WEB))
    lines = Watch(cluster)
    assert f"INFO Starting instance {WEB}: it should run and does not (attempt 1 of 5)" in lines
    assert os.path.exists(Guest(cluster, WEB)) and not os.path.exists(Guest(cluster, OFF))
    assert cluster[0].Read("/var/run/ganeti/instance-status") == f"{OFF} ADMIN_down\n{WEB} ERROR_down\n"
    lines = Watch(cluster)
    assert f"INFO Forgetting the attempts at instance {WEB}: its status is running" in lines
    assert "INFO Group default: 2 instances, nothing to start" in lines
    assert cluster[0].Read("/var/run/ganeti/instance-status") == f"{OFF} ADMIN_down\n{WEB} running\n"


@pytest.mark.slow
def test_a_guest_whose_shutdown_is_queued_is_not_started(cluster: RealCluster) -> None:
    """The job waits for another one, so it has no lock yet."""
    delay = {
        "OP_ID": "OP_TEST_DELAY",
        "duration": 600.0,
        "on_nodes": [cluster[0].name],
        "on_master": False,
        "reason": [],
    }
    shutdown = {"OP_ID": "OP_INSTANCE_SHUTDOWN", "instance_name": "web", "reason": []}
    with cluster[0].Client() as client:
        first = client.SubmitJob([delay])
        second = client.SubmitJob([{**shutdown, "depends": [[first, ["success", "error", "canceled"]]]}])
        WaitUntil(lambda: client.QueryJobs([first], ["status"]) == [["running"]], "the first job runs")
        os.unlink(Guest(cluster, WEB))
        done = Run(cluster[0], "--no-verify-disks")
        assert done.returncode == 0
        assert f"Leaving instance {WEB} alone: job {second} acts on it" in _Log(cluster[0])
        assert client.CancelJob(second)[0]
        client.CancelJob(first, True)
    WaitUntil(lambda: not Pending(cluster[0]), "both jobs have ended", 60)
    assert not os.path.exists(Guest(cluster, WEB))
    Watch(cluster)
    assert os.path.exists(Guest(cluster, WEB))


@pytest.mark.slow
def test_a_pause_by_gnt_cluster_is_kept_on_every_node(cluster: RealCluster) -> None:
    def pause(*words: str) -> str:
        done = cluster[0].Run([os.path.join(TOP, "scripts", "gnt-cluster"), "watcher", *words], timeout=100)
        assert done.returncode == 0, done
        return done.stdout

    assert pause("pause", "1h").startswith("The watcher is paused until ")
    for number in range(2):
        [line] = Watch(cluster, number=number)
        assert line.startswith("INFO Nothing is done: the watcher is paused until ")
    assert pause("info").startswith("The watcher is paused until ")
    assert pause("continue") == "The watcher is no longer paused.\n"
    assert "INFO This node is not the master: nothing else to do" in Watch(cluster, number=1)


@pytest.mark.slow
def test_daemons_that_were_killed_run_again(cluster: RealCluster) -> None:
    cluster[1].Kill("ganeti-noded")
    Watch(cluster, number=1)
    assert cluster[1].Pid("ganeti-noded")
    master = cluster[0]
    master.Kill("ganeti-masterd")
    lines = Watch(cluster)
    assert "WARNING ganeti-masterd does not run: starting it" in lines
    assert "INFO Group default: 2 instances, nothing to start" in lines


@pytest.mark.slow
def test_a_rest_daemon_that_hangs_is_restarted_once(cluster: RealCluster) -> None:
    master = cluster[0]
    if not master.Pid("ganeti-rapi"):
        master.StartRapi()
    assert not [line for line in Watch(cluster) if "ganeti-rapi" in line]
    first = master.Signal("ganeti-rapi", signal.SIGSTOP)
    lines = [line for line in Watch(cluster) if "ganeti-rapi" in line]
    assert lines[-1] == "INFO ganeti-rapi answers again", lines
    assert master.Pid("ganeti-rapi") not in (0, first)
    WaitGone(first)


@pytest.mark.slow
def test_a_killed_qemu_runs_again(cluster: RealCluster) -> None:
    master = cluster[0]
    cluster[1].Stop("ganeti-noded")
    cluster[1].StartNoded()  # with the operating systems of this cluster
    Do(master, OP_ID="OP_CLUSTER_SET_PARAMS", enabled_hypervisors=["fake", "kvm"],
       hvparams={"kvm": {"kvm_path": "/usr/bin/qemu-system-x86_64", "kernel_path": "", "kvm_flag": "disabled",
                         "vnc_bind_address": "", "serial_console": False}})  # fmt: skip
    for name, start in (("qemu.example.com", True), ("stopped.example.com", False)):
        Create(cluster, name, start, "kvm", beparams={"minmem": 32, "maxmem": 32})

    def qemu() -> list[int]:
        return [pid for pid in cluster.Processes() if "qemu" in _Program(pid)]

    [first] = qemu()
    os.kill(first, signal.SIGKILL)
    WaitGone(first)
    lines = Watch(cluster)
    assert "INFO Starting instance qemu.example.com: it should run and does not (attempt 1 of 5)" in lines
    [second] = qemu()
    assert second != first
