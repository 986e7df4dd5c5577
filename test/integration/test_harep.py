"""harep as a program on a real cluster: a repair from the permission to the recorded end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.mirrored import MirrorCluster
from support.realcluster import FollowJob, RealCluster, WaitUntil
from support.virtualnode import TOP

P = "ganeti:watcher:autorepair:"
WEB = "inst0.example.com"


@pytest.fixture(scope="module")
def cluster() -> Iterator[MirrorCluster]:
    """A mirrored instance, stopped, whose primary node is lost."""
    with MirrorCluster(1) as made:
        made.CutPower(made[1])
        _Do(made, OP_ID="OP_NODE_SET_PARAMS", node_name=made[1].name, offline=True)
        tags = _Tags(made)
        if tags:
            _Do(made, OP_ID="OP_TAGS_DEL", kind="instance", name=WEB, tags=tags)
        yield made


def _Do(cluster: RealCluster, **op: Any) -> None:
    with cluster[0].Client() as client:
        job = client.SubmitJob([{"reason": [], **op}])
        assert FollowJob(client, job)[0] == "success", client.QueryJobs([job], ["opresult"])


def _Harep(cluster: RealCluster, *words: str) -> list[str]:
    done = cluster[0].Run([os.path.join(TOP, "scripts", "harep"), *words], timeout=200)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


def _Tags(cluster: RealCluster) -> list[str]:
    with cluster[0].Client() as client:
        return client.QueryTags("instance", WEB)


@pytest.mark.slow
def test_an_instance_of_a_lost_node_is_failed_over_when_that_is_permitted(cluster: RealCluster) -> None:
    summary = ["---------------------", "Instance status count", "---------------------"]
    assert _Harep(cluster) == [
        f"Not repairing {WEB} because it's in state ArNotEnabled", *summary, "Healthy: 1"
    ]  # fmt: skip
    _Do(cluster, OP_ID="OP_TAGS_SET", kind="cluster", tags=[f"{P}failover"])
    lines = _Harep(cluster, "--job-delay=0.1", "--reason=the night")
    assert lines[0] == f"Executing ArFailover repair on {WEB}"
    assert lines[-1] == "Pending repair: 1"
    [pending] = _Tags(cluster)
    job = int(pending.rpartition(":")[2])
    with cluster[0].Client() as client:
        WaitUntil(lambda: client.QueryJobs([job], ["status"])[0][0] in ("success", "error"), "the repair has ended", 60)
        [[status, ops, result]] = client.QueryJobs([job], ["status", "ops", "opresult"])
    assert status == "success", result
    assert [op["OP_ID"] for op in ops] == ["OP_TEST_DELAY", "OP_INSTANCE_FAILOVER"]
    assert ops[1]["reason"][0][:2] == ["harep", "the night"]
    assert ops[1]["comment"].startswith("automated repairs by harep ")
    lines = _Harep(cluster, "--dry-run")
    assert lines[0] == f'Moving {WEB} from "Pending repair" to "Healthy"'
    assert _Tags(cluster) == [pending]
    lines = _Harep(cluster)
    assert lines[0] == f'Moving {WEB} from "Pending repair" to "Healthy"'
    # The secondary node is the lost one now.  That repair is permitted, too; it has a record of its own.
    assert f"Executing ArFixStorage repair on {WEB}" in lines
    with cluster[0].Client() as client:
        [[primary]] = client.QueryInstances([WEB], ["pnode"])
    assert primary == cluster[2].name
    [record] = _Tags(cluster)
    assert re.fullmatch(rf"{P}pending:fix-storage:[0-9a-f-]{{36}}:\d+:\d+", record)
