"""gnt-cluster verify sees what an administrator would want to know; real daemons, real files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(3) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def Findings(cluster: RealCluster) -> list[str]:
    """Lines with errors and warnings of the verification of the group."""
    with cluster[0].Client() as client:
        job = client.SubmitJob(
            [{"OP_ID": "OP_CLUSTER_VERIFY_GROUP", "group_name": "default", "error_codes": True, "reason": []}]
        )
        status, log = FollowJob(client, job)
        assert status == "success"
    lines = [line for entry in log for line in str(entry[3]).splitlines()]
    return [line.strip(" -") for line in lines if "ERROR" in line or "WARNING" in line]


@pytest.fixture(scope="module")
def usual(cluster: RealCluster) -> set[str]:
    """Findings that belong to this made-up cluster: it has no RAPI certificate and no bridges."""
    return set(Findings(cluster))


def Run(cluster: RealCluster, **op: object) -> Any:
    """The result of an opcode."""
    with cluster[0].Client() as client:
        job = client.SubmitJob([{"reason": [], **op}])
        status, _log = FollowJob(client, job)
        [[results]] = client.QueryJobs([job], ["opresult"])
        assert status == "success", results
        return results[0]


def test_a_file_that_differs_on_one_node(cluster: RealCluster, usual: set[str]) -> None:
    path = "/var/lib/ganeti/hmac.key"
    good = cluster[1].Read(path)
    os.chmod(cluster[1].Path(path), 0o640)
    cluster[1].Write(path, "other\n", 0o440)
    key, found = sorted(set(Findings(cluster)) - usual)
    assert key.startswith(f"ERROR:ECLUSTERCERT:node:{cluster[1].name}:it does not use the confd HMAC key")
    assert found.startswith(f"ERROR:ECLUSTERFILECHECK:cluster:None:File {path} found with 2 different checksums")
    cluster[1].Write(path, good, 0o440)
    assert set(Findings(cluster)) == usual


def test_a_disk_that_is_gone(cluster: RealCluster, usual: set[str]) -> None:
    node = cluster[1]
    Run(
        cluster,
        OP_ID="OP_INSTANCE_CREATE",
        instance_name="web.example.com",
        mode="create",
        disk_template="file",
        disks=[{"size": 1024}],
        nics=[],
        pnode=node.name,
        no_install=True,
        start=False,
        ip_check=False,
        name_check=False,
        beparams={},
        hvparams={},
        osparams={},
        tags=[],
        ignore_ipolicy=True,
    )
    # Its policy is not what this is about.
    usual = set(Findings(cluster))
    assert not [line for line in usual if "DISK" in line]
    [path] = glob.glob(f"{cluster.files}/**/*.disk0", recursive=True)
    # Where disks lie, a file that belongs to nothing would be reported as well.
    away = f"{cluster.files}.away"
    where = f"instance:web.example.com:disk/0 on node {node.name}: "
    for code, change in (
        ("EINSTANCEFAULTYDISK", "OP_INSTANCE_STARTUP"),
        ("EINSTANCEMISSINGDISK", "OP_INSTANCE_SHUTDOWN"),
    ):
        Run(cluster, OP_ID=change, instance_name="web.example.com", force=False)
        assert set(Findings(cluster)) == usual
        os.rename(path, away)
        [found] = set(Findings(cluster)) - usual
        assert found.startswith(f"ERROR:{code}:{where}"), change
        # verify-disks looks at disks in use only.
        missing = {"web.example.com": [[node.uuid, path]]} if change == "OP_INSTANCE_STARTUP" else {}
        assert Run(cluster, OP_ID="OP_GROUP_VERIFY_DISKS", group_name="default") == [{}, [], missing]
        os.rename(away, path)
