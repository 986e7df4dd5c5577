"""Disks and NICs from the command line to the nodes: added, enlarged, lost, created again, removed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.realcluster import RealCluster
from support.stories import STARTER

NAME = "web.example.com"
GIB = 1 << 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        made.MakeOs("noop")
        _Must(
            made, "add", "-t", "file", "--disk", "0:size=1g", "-o", "noop+default", "-n", "node2.example.com",
            "--net", "0:mode=routed,link=100,ip=192.0.2.6", "--no-start", NAME,
        )  # fmt: skip
        yield made


def _Run(cluster: RealCluster, *words: str) -> tuple[int, str, str]:
    done = cluster[0].Run([sys.executable, "-c", STARTER, "gnt-instance", *words], timeout=55)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def _Must(cluster: RealCluster, *words: str) -> str:
    code, out, err = _Run(cluster, *words)
    assert code == 0, err
    return out


def _Facts(cluster: RealCluster) -> dict[str, Any]:
    rows = json.loads(_Must(cluster, "list", "-o", "json:disk.sizes,disk.names,nic.links,nic.ips", NAME))
    facts: dict[str, Any] = rows[0]
    return facts


def _DiskFile(cluster: RealCluster, index: int) -> str:
    """The path of a disk on its node."""
    lines = _Must(cluster, "info", "-s", NAME).splitlines()
    found = [line.partition("', '")[2].rstrip("']") for line in lines if "logical_id" in line]
    return found[index]


def test_the_life_of_a_disk(cluster: RealCluster) -> None:
    assert "Modified instance web.example.com" in _Must(cluster, "modify", "--disk", "add:size=2g,name=data", NAME)
    assert _Facts(cluster)["disk.sizes"] == [1024, 2048]

    text = "Growing disk 1 of instance 'web.example.com' by 1024 MiB to 3072 MiB"
    assert text in _Must(cluster, "grow-disk", NAME, "1", "1g")
    _Must(cluster, "grow-disk", "--absolute", NAME, "1", "5g")
    assert _Facts(cluster)["disk.sizes"] == [1024, 5120]
    assert os.stat(_DiskFile(cluster, 1)).st_size == 5 * GIB
    code, _, err = _Run(cluster, "grow-disk", "--absolute", NAME, "1", "4g")
    assert code == 1
    assert "cannot be made smaller" in err

    lost = _DiskFile(cluster, 0)
    os.unlink(lost)
    code, _, err = _Run(cluster, "recreate-disks", NAME)
    assert code == 1  # disk 1 is still there
    assert "exists already" in err
    _Must(cluster, "recreate-disks", "--disk", "0:size=3g", NAME)
    assert os.stat(lost).st_size == 3 * GIB
    assert _Facts(cluster)["disk.sizes"] == [3072, 5120]

    code, _, err = _Run(cluster, "replace-disks", "-a", NAME)
    assert code == 1
    assert "no second copy to rebuild from" in err

    _Must(cluster, "modify", "--disk", "data:remove", NAME)
    assert _Facts(cluster)["disk.sizes"] == [3072]


def test_the_life_of_a_nic(cluster: RealCluster) -> None:
    _Must(cluster, "modify", "--net", "add:mode=routed,link=100,ip=192.0.2.7", NAME)
    _Must(cluster, "modify", "--force", "--net", "1:link=200,ip=192.0.2.8", NAME)
    assert (_Facts(cluster)["nic.links"], _Facts(cluster)["nic.ips"]) == (["100", "200"], ["192.0.2.6", "192.0.2.8"])
    _Must(cluster, "modify", "--net", "-1:remove", NAME)
    assert _Facts(cluster)["nic.links"] == ["100"]
