"""The master daemon is asked to end, or to hand over, while a job runs: nothing is lost silently, and the way on is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil
from support.stories import STARTER

MASTERD, RAPI = "ganeti-masterd", "ganeti-rapi"
_DAEMON_UTIL = "import sys; from ganeti.tools.daemon_util import Main; sys.exit(Main())"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def Util(node: RealNode, *words: str) -> subprocess.CompletedProcess[str]:
    return node.Run([sys.executable, "-c", _DAEMON_UTIL, *words], timeout=100)


def FailOver(node: RealNode, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", STARTER, "gnt-cluster", "master-failover", *options]
    return node.Run(argv, timeout=150)


def StartJob(node: RealNode, seconds: float) -> int:
    op = {"OP_ID": "OP_TEST_DELAY", "duration": seconds, "on_nodes": [node.name], "on_master": False, "reason": []}
    with node.Client() as client:
        job_id = client.SubmitJob([op])
        WaitUntil(lambda: client.QueryJobs([job_id], ["status"]) == [["running"]], "the job runs")
    return int(job_id)


@pytest.mark.slow
@pytest.mark.limit(250)
@pytest.mark.req("D20-LOCK-12")
def test_a_planned_fail_over_is_refused_while_jobs_run_and_says_how_to_go_on(cluster: RealCluster) -> None:
    old, new = cluster.nodes
    job_id = StartJob(old, 600)
    refused = FailOver(new)
    assert refused.returncode == 1
    text = " ".join(refused.stderr.split())
    assert f"{job_id} (TEST_DELAY(" in text and "--abort-jobs" in text and "nothing was changed" in text
    # Everything is as it was.
    assert old.Pid(MASTERD) and not new.Pid(MASTERD)
    with old.Client() as client:
        assert client.QueryJobs([job_id], ["status"]) == [["running"]]
        done = client.SubmitJob(
            [{"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": False, "reason": []}]
        )
        assert FollowJob(client, done)[0] == "success"
    # The option that it names does it: the job is an error under the new master.
    forced = FailOver(new, "--abort-jobs")
    assert forced.returncode == 0, forced.stderr
    with new.Client() as client:
        assert client.QueryJobs([job_id], ["status"]) == [["error"]]
    WaitUntil(lambda: not old.Pid(MASTERD), "the old master ends")
    assert new.Pid(RAPI), "the remote interface is where the master is"
    # Back again, with nothing running: no question, no option.
    back = FailOver(old)
    assert back.returncode == 0, back.stderr
    assert old.Pid(RAPI) and not new.Pid(RAPI)


@pytest.mark.slow
@pytest.mark.limit(250)
def test_stopping_all_daemons_names_the_jobs_and_leaves_nothing_half_way(cluster: RealCluster) -> None:
    node = cluster[0]
    if not node.Pid(MASTERD):
        node.StartMaster("--take-over")
    job_id = StartJob(node, 600)
    refused = Util(node, "stop-all")
    assert refused.returncode == 1
    assert f"Waiting for running jobs: {job_id} (" in refused.stderr
    assert f"continues working, because jobs are running: {job_id} (" in refused.stderr
    assert "No other daemon was stopped" in refused.stderr
    assert node.Pid(MASTERD) and node.Pid("ganeti-noded")
    with node.Client() as client:
        assert client.QueryJobs([job_id], ["status"]) == [["running"]]
    command = refused.stderr[refused.stderr.index("'", refused.stderr.index("errors:")) + 1 :].partition("'")[0].split()
    stopped = Util(node, *command[1:])
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert not node.Pid(MASTERD)
    node.StartMaster()
    with node.Client() as client:
        assert client.QueryJobs([job_id], ["status"]) == [["error"]]
    assert Util(node, "stop-all").returncode == 0
    assert not node.Pid(MASTERD) and not node.Pid("ganeti-noded")
