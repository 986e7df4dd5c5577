"""The programs against a real master daemon and real node daemons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.patience import MOST
from support.realcluster import FollowJob, InterruptDelay, RealCluster, WaitUntil
from support.stories import STARTER
from support.virtualnode import TOP

from ganeti import constants


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(3) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def _Argv(command: str) -> list[str]:
    return [sys.executable, "-c", STARTER, *command.split()]


def _Run(cluster: RealCluster, command: str, node: int = 0) -> subprocess.CompletedProcess[str]:
    done = cluster[node].Run(_Argv(command), timeout=55)
    assert "Traceback" not in done.stderr
    return done


def _Start(cluster: RealCluster, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        _Argv(command), env=cluster[0].Environment(), cwd=TOP, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _Status(cluster: RealCluster, job_id: str) -> str:
    return _Run(cluster, f"gnt-job list --no-headers -o status {job_id}").stdout.strip()


def test_the_queue_keeps_its_promises(cluster: RealCluster) -> None:
    done = _Run(cluster, "gnt-debug test-jobqueue --priority=low")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("Job queue test successful\n")


def test_locks_are_listed_again_and_again_until_interrupted(cluster: RealCluster) -> None:
    listing = _Start(cluster, "gnt-debug locks --no-headers --interval=1")
    assert listing.stdout is not None
    seen = 0
    for line in listing.stdout:  # an empty line after each list
        seen += not line.strip()
        if seen == 2:
            break
    listing.send_signal(signal.SIGINT)
    _, said = listing.communicate(timeout=50 * MOST)
    assert listing.returncode == 1 and "Traceback" not in said


def test_a_cluster_is_destroyed_only_on_demand(cluster: RealCluster) -> None:
    with RealCluster(1) as last:
        last.StartNodeDaemons()
        last[0].StartMaster()
        asked = _Run(last, "gnt-cluster destroy")
        assert asked.returncode == 1 and "--yes-do-it" in asked.stderr
        with last[0].Client() as client:
            assert client.QueryClusterInfo()["master"] == last[0].name
        done = _Run(last, "gnt-cluster destroy --yes-do-it")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert not os.path.exists(last[0].Path("/var/lib/ganeti/config.data"))
        WaitUntil(lambda: not last[0].Pid("ganeti-masterd"), "the master daemon has ended", 60)


def test_from_submission_to_archive(cluster: RealCluster) -> None:
    submitted = _Run(cluster, "gnt-debug delay --submit --print-jobid -n node2.example.com --no-master 0.1")
    assert submitted.returncode == 0
    job_id = submitted.stdout.strip()
    assert submitted.stderr == f"JobID: {job_id}\n"
    assert _Run(cluster, f"gnt-job wait {job_id}").returncode == 0
    row = json.loads(_Run(cluster, f"gnt-job list -o json:id,status,summary {job_id}").stdout)
    assert row == [{"id": int(job_id), "status": "success", "summary": ["TEST_DELAY(100000000 ns)"]}]
    assert f"Job ID: {job_id}\n" in _Run(cluster, f"gnt-job info {job_id}").stdout
    assert _Run(cluster, f"gnt-job archive {job_id}").returncode == 0
    assert _Run(cluster, f"gnt-job archive {job_id}").returncode == 1
    assert _Run(cluster, f"gnt-job list --no-headers --archived -o id,archived {job_id}").stdout == f"{job_id} Y\n"


def test_reason_trail(cluster: RealCluster) -> None:
    job_id = _Run(cluster, "gnt-debug delay --print-jobid --reason=maintenance 0.01").stdout.strip()
    ops = json.loads(_Run(cluster, f"gnt-job list -o json:ops {job_id}").stdout)[0]["ops"]
    trail = [[source, text] for source, text, _ in ops[0]["reason"]]
    assert trail[:2] == [["gnt:user", "maintenance"], ["gnt:client:gnt-debug", "delay"]]


def test_cancelling(cluster: RealCluster) -> None:
    # It ends when it is told to, as a node works for it; both want the node's lock, so the other one waits.
    delay = "gnt-debug delay --submit --print-jobid -n node2.example.com --no-master"
    running = _Run(cluster, f"{delay} 600").stdout.strip()
    WaitUntil(lambda: _Status(cluster, running) == "running", "it has the lock")
    waiting = _Run(cluster, f"{delay} 2").stdout.strip()
    done = _Run(cluster, f"gnt-job cancel {waiting}")
    assert done.returncode == 0, done
    assert _Run(cluster, f"gnt-job watch {waiting}").stderr == (f"Job {waiting} failed: Failure: Job was canceled\n")
    assert _Run(cluster, f"gnt-job cancel --kill --yes-do-it {running}").returncode == 0
    assert _Run(cluster, f"gnt-job wait {running}").returncode == 1
    assert _Run(cluster, f"gnt-job cancel {running}").returncode == 1


def test_drained_queue_says_how_to_go_on(cluster: RealCluster) -> None:
    assert _Run(cluster, "gnt-cluster queue drain").returncode == 0
    try:
        refused = _Run(cluster, "gnt-debug delay 0.01")
        assert refused.returncode == 1
        assert "gnt-cluster queue undrain" in refused.stderr
    finally:
        assert _Run(cluster, "gnt-cluster queue undrain").returncode == 0
    assert _Run(cluster, "gnt-debug delay 0.01").returncode == 0


def test_interrupted_command_says_that_its_job_goes_on(cluster: RealCluster) -> None:
    # It would take much longer than this test: only the signal ends the command, and only the next one the job.
    process = _Start(cluster, f"gnt-debug delay --print-jobid --no-master -n {cluster[1].name} 600")
    assert process.stdout is not None
    job_id = process.stdout.readline().strip()
    WaitUntil(lambda: _Status(cluster, job_id) == "running", "the job's start")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30 * MOST)
    assert process.returncode == 1
    assert stderr.startswith("Aborted. Note that if the operation created any jobs")
    assert _Status(cluster, job_id) == "running"
    assert _Run(cluster, f"gnt-job cancel --kill --yes-do-it {job_id}").returncode == 0
    assert _Run(cluster, f"gnt-job wait {job_id}").returncode == 1


def test_reader_that_goes_away_is_no_error_to_talk_about(cluster: RealCluster) -> None:
    process = _Start(cluster, "gnt-cluster info")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=30 * MOST) == 1
    process.stderr.close()


def test_other_nodes_name_the_master(cluster: RealCluster) -> None:
    master = cluster[0].name
    assert _Run(cluster, "gnt-cluster getmaster", node=1).stdout == f"{master}\n"
    refused = _Run(cluster, "gnt-job list", node=1)
    assert refused.returncode == 1
    assert f"This is not the master node, please connect to node '{master}' and rerun the command" in refused.stderr


def test_failures_are_kept_in_the_log_of_commands(cluster: RealCluster) -> None:
    assert _Run(cluster, "gnt-node remove nobody").returncode == 1
    log = cluster[0].Read("/var/log/ganeti/commands.log")
    assert ": gnt-node remove pid=" in log
    assert "nobody" in log
    _Run(cluster, "gnt-instance reinstall -f -d --os-parameters-secret=password=hunter2 nobody")
    log = cluster[0].Read("/var/log/ganeti/commands.log")
    assert "--os-parameters-secret=<redacted>" in log
    assert "hunter2" not in log


def test_many_jobs_at_once(cluster: RealCluster, tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "ops.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump([{"OP_ID": "OP_TEST_DELAY", "duration": 0, "on_nodes": []}], stream)
    done = _Run(cluster, f"gnt-debug submit-job -v --job-repeat=20 --timing-stats {path}")
    assert done.returncode == 0
    assert done.stdout.count("Waiting for job ") == 20
    assert "C:job       20\n" in done.stdout


def test_locks_are_shown_while_they_are_held(cluster: RealCluster) -> None:
    job_id = _Run(cluster, "gnt-debug delay -i --submit --print-jobid 300").stdout.strip()

    def held() -> bool:
        rows = json.loads(_Run(cluster, "gnt-debug locks -o json").stdout)
        return any(row["owner"] and any(job_id in str(owner) for owner in row["owner"]) for row in rows)

    WaitUntil(held, "the job's locks")
    with cluster[0].Client() as client:
        InterruptDelay(client, int(job_id))
    assert _Run(cluster, f"gnt-job wait {job_id}").returncode == 0


@pytest.mark.req("D21-GEN-02")
def test_what_the_core_is_at_can_be_read_while_it_runs(cluster: RealCluster) -> None:
    holder, waiter = (
        int(_Run(cluster, f"gnt-debug delay {options} --submit --print-jobid 600").stdout) for options in ("-i", "-r 1")
    )

    def waits() -> Any:
        rows = json.loads(_Run(cluster, "gnt-debug locks -o json").stdout)
        return next((row for row in rows if str(waiter) in str(row["pending"])), None)

    row = WaitUntil(waits, "the job that waits")
    assert row["name"] == f"node/{cluster[0].uuid}" and row["mode"] == "exclusive"
    assert str(holder) in str(row["owner"]) and str(waiter) not in str(row["owner"])
    with cluster[0].Client() as client:
        fields = ["status", "opstatus", "opexec", "oplog"]
        WaitUntil(lambda: client.QueryJobs([waiter], ["status"]) == [["waiting"]], "its status")
        WaitUntil(lambda: client.QueryJobs([holder], ["oplog"]) != [[[[]]]], "where the holder can be interrupted")
        running, waiting = client.QueryJobs([holder, waiter], fields)
        assert running[:2] == ["running", ["running"]] and running[2] != [None]
        assert waiting[:3] == ["waiting", ["waiting"], [None]]
        assert client.CancelJob(waiter)[0] is True
        [[[_, _, kind, [_path]]]] = running[3]
        assert kind == constants.ELOG_DELAY_TEST
        InterruptDelay(client, holder)
        assert [FollowJob(client, job_id)[0] for job_id in (holder, waiter)] == ["success", "canceled"]

    def at_nothing() -> bool:
        rows = json.loads(_Run(cluster, "gnt-debug locks -o json").stdout)
        return not [row for row in rows if row["owner"] or row["pending"]]

    # The end of a canceled job is stored before its worker has left the line of those who wait.
    WaitUntil(at_nothing, "the core is at nothing")
