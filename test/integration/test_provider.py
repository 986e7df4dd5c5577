"""An instance on external storage: real daemons, real scripts, and disks that only a URI leads to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster

NAME = "web.example.com"
_TEMPLATES = ["diskless", "file", "ext"]


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def Provide(cluster: RealCluster) -> tuple[Path, Path]:
    """Install a provider of files on every node; its directory, and where its volumes are."""
    store = Path(cluster.base) / "store"
    store.mkdir()
    volume = f"{store}/$VOL_NAME"
    note = f'echo "${{0##*/}} $VOL_NAME $EXTP_TIER" >> {store}/runs'
    scripts = {
        "create": f'test ! -e "{volume}"; truncate -s "${{VOL_SIZE}}M" "{volume}"',
        "attach": f'test -e "{volume}"; echo; echo "fake:file:{volume}"',
        "detach": "true",
        "remove": f'rm -f "{volume}" "{volume}.owner"',
        "grow": f'truncate -s "${{VOL_NEW_SIZE}}M" "{volume}"',
        "setinfo": f'echo "$VOL_METADATA" > "{volume}.owner"',
        "verify": "exit 1",
        "open": f'echo "$VOL_OPEN_EXCLUSIVE" > "{volume}.open"; rm "{volume}.open"',
    }
    texts = {name: f"{note}\n{text}" for name, text in scripts.items()}
    return Path(cluster.MakeProvider("files", "tier fast or cheap\n", texts)), store


def Run(cluster: RealCluster, op: str, **values: object) -> tuple[str, Any]:
    with cluster[0].Client() as client:
        job = client.SubmitJob([{"reason": [], "OP_ID": f"OP_{op}", **values}])
        status, log = FollowJob(client, job)
        [[results]] = client.QueryJobs([job], ["opresult"])
        return status, results[0] if status == "success" else [results[0], log]


def Succeed(cluster: RealCluster, op: str, **values: object) -> Any:
    status, result = Run(cluster, op, **values)
    assert status == "success", result
    return result


def Create(cluster: RealCluster) -> tuple[str, Any]:
    return Run(
        cluster, "INSTANCE_CREATE", instance_name=NAME, mode="create", disk_template="ext",
        disks=[{"size": 1024, "provider": "files", "tier": "fast"}], pnode=cluster[0].name, no_install=True, start=False,
        ip_check=False, name_check=False, ignore_ipolicy=True, nics=[], beparams={"memory": 128}, hvparams={}, osparams={},
        tags=[],
    )  # fmt: skip


def Files(store: Path) -> list[str]:
    return sorted(name for name in os.listdir(store) if name != "runs")


@pytest.mark.slow
def test_life_of_an_instance_on_external_storage(cluster: RealCluster) -> None:
    folder, store = Provide(cluster)
    policy = {"disk-templates": _TEMPLATES}
    access = {"ext": {"access": "userspace"}}
    Succeed(cluster, "CLUSTER_SET_PARAMS", enabled_disk_templates=_TEMPLATES, ipolicy=policy, diskparams=access)
    assert Succeed(
        cluster, "EXT_STORAGE_DIAGNOSE", output_fields=["name", "nodegroup_status", "parameters"], names=[]
    ) == [["files", {"default": True}, [["tier", "fast or cheap"]]]]

    status, result = Create(cluster)
    assert status == "success", result
    [volume, owner] = Files(store)
    assert (store / owner).read_text() == f"originstname+{NAME}\n"
    Succeed(cluster, "INSTANCE_STARTUP", instance_name=NAME, force=False)
    Succeed(cluster, "INSTANCE_GROW_DISK", instance_name=NAME, disk=0, amount=8)
    assert (store / volume).stat().st_size == 1032 << 20
    Succeed(cluster, "INSTANCE_MIGRATE", instance_name=NAME, target_node=cluster[1].name)
    Succeed(cluster, "INSTANCE_FAILOVER", instance_name=NAME, target_node=cluster[0].name)

    (folder / "remove").chmod(0o644)
    status, result = Run(cluster, "INSTANCE_REMOVE", instance_name=NAME, ignore_failures=False)
    assert status == "error" and "File 'remove' under path" in str(result) and "is not executable" in str(result), (
        result
    )
    (folder / "remove").chmod(0o755)
    Succeed(cluster, "INSTANCE_REMOVE", instance_name=NAME, ignore_failures=False)
    assert Files(store) == []
    runs = [line.split() for line in (store / "runs").read_text().splitlines()]
    assert {tuple(words[1:]) for words in runs} == {(volume, "fast")}
    assert {words[0] for words in runs} == {"create", "attach", "detach", "remove", "grow", "setinfo", "open"}


@pytest.mark.slow
def test_a_script_that_fails_is_quoted_from_its_log(cluster: RealCluster) -> None:
    folder, store = Provide(cluster)
    Succeed(cluster, "CLUSTER_SET_PARAMS", enabled_disk_templates=_TEMPLATES, ipolicy={"disk-templates": _TEMPLATES})
    (folder / "create").write_text("#!/bin/sh\npwd\necho the array is on fire >&2\nexit 3\n")
    status, result = Create(cluster)
    text = str(result)
    assert status == "error" and "create script of storage provider files failed (exit code 3)" in text, text
    assert "the array is on fire" in text and str(folder) in text and cluster[0].name in text
    (folder / "create").write_text("#!/no/such/interpreter\n")
    status, result = Create(cluster)
    assert status == "error" and "create script of storage provider files cannot be run" in str(result), result
    assert Files(store) == []
