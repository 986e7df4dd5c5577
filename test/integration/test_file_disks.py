"""Disks in files that change their owner; real daemons, real files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(1) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def Run(cluster: RealCluster, **op: object) -> Any:
    with cluster[0].Client() as client:
        job = client.SubmitJob([{"reason": [], **op}])
        status, _log = FollowJob(client, job)
        [[results]] = client.QueryJobs([job], ["opresult"])
        assert status == "success", results
        return results[0]


def Make(cluster: RealCluster, name: str, disks: int) -> None:
    empty: dict[str, Any] = {"beparams": {}, "hvparams": {}, "osparams": {}, "tags": [], "nics": []}
    Run(
        cluster,
        OP_ID="OP_INSTANCE_CREATE",
        instance_name=name,
        mode="create",
        disk_template="file",
        disks=[{"size": 1024}] * disks,
        pnode=cluster[0].name,
        no_install=True,
        start=False,
        ip_check=False,
        name_check=False,
        ignore_ipolicy=True,
        **empty,
    )


def Modify(cluster: RealCluster, name: str, *change: object) -> Any:
    return Run(cluster, OP_ID="OP_INSTANCE_SET_PARAMS", instance_name=name, disks=[list(change)], ignore_ipolicy=True)


def Files(cluster: RealCluster) -> list[str]:
    found = [os.path.join(folder, name) for folder, _, names in os.walk(cluster.files) for name in names]
    return sorted(os.path.relpath(path, cluster.files) for path in found)


@pytest.mark.slow
def test_a_detached_disk_outlives_its_instance(cluster: RealCluster) -> None:
    Make(cluster, "old.example.com", 2)
    Make(cluster, "new.example.com", 1)
    with cluster[0].Client() as client:
        [[uuids]] = client.QueryInstances(["old.example.com"], ["disk.uuids"])
    [second] = [name for name in Files(cluster) if name.startswith("old.example.com/") and name.endswith("disk1")]
    with open(os.path.join(cluster.files, second), "r+b") as stream:
        stream.write(b"precious")
    Modify(cluster, "old.example.com", "detach", uuids[1], {})
    base = os.path.basename(second)
    assert base in Files(cluster), "its file has left the directory of the instance"
    Run(cluster, OP_ID="OP_INSTANCE_REMOVE", instance_name="old.example.com", ignore_failures=False)
    Modify(cluster, "new.example.com", "attach", -1, {"uuid": uuids[1]})
    assert [name for name in Files(cluster) if name.endswith(base)] == [f"new.example.com/{base}"]
    with open(os.path.join(cluster.files, "new.example.com", base), "rb") as stream:
        assert stream.read(8) == b"precious"
    Run(cluster, OP_ID="OP_INSTANCE_REMOVE", instance_name="new.example.com", ignore_failures=False)
    assert Files(cluster) == []
