"""harep as a program on a real cluster: a repair from the permission to the recorded end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support import configs
from support.realcluster import FollowJob, RealCluster, WaitUntil
from support.virtualnode import TOP

from ganeti import objects

WEB = "web.example.org"
P = "ganeti:watcher:autorepair:"


def _MirroredAcross(root: objects.Snapshot) -> objects.Snapshot:
    """The example's mirrored instance on the cluster's nodes, stopped; the second node is its primary."""
    example = configs.Example()
    first, second = root.nodes
    disk, web = example.disks[configs.WEB_DISK], example.instances[configs.WEB]
    pair = [second, first]
    disk = disk.Replace(
        nodes=pair,
        logical_id=[*pair, *disk.logical_id[2:]],
        children=[child.Replace(nodes=pair) for child in disk.children],
    )
    web = web.Replace(primary_node=second, hypervisor="fake", admin_state="down", disks_active=False, nics=[], tags=[])
    cluster = root.cluster.Replace(enabled_disk_templates=["drbd", "file"], volume_group_name="xenvg")
    return root.Replace(cluster=cluster, instances={web.uuid: web}, disks={disk.uuid: disk})


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2, candidates=1) as made:
        made.config = _MirroredAcross(made.config)
        made[0].Write("/var/lib/ganeti/config.data", objects.ConfigText(made.config), 0o640)
        made.StartNodeDaemons()
        made[0].StartMaster()
        made.CutPower(made[1])
        _Do(made, OP_ID="OP_NODE_SET_PARAMS", node_name=made[1].name, offline=True)
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
    assert primary == cluster[0].name
    [record] = _Tags(cluster)
    assert re.fullmatch(rf"{P}pending:fix-storage:[0-9a-f-]{{36}}:\d+:\d+", record)
