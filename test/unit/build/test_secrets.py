"""The look for leaked secrets with which every real cluster of the tests ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support import secrets
from support.realcluster import RAPI_USERS, RealCluster
from support.secrets import MARK


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    """Without daemons; what a test has planted is removed before the cluster looks itself."""
    with RealCluster(1) as made:
        yield made
        for path in ("/var/log/ganeti", "/var/lib/ganeti/queue"):
            for name in os.listdir(made[0].Path(path)):
                if os.path.isfile(full := made[0].Path(f"{path}/{name}")):
                    os.unlink(full)


def _Secrets(cluster: RealCluster) -> dict[str, str]:
    """One secret of each kind, as it stands where it belongs."""
    node = cluster[0]
    node.Write("/var/lib/ganeti/rapi/users", RAPI_USERS, 0o640)
    config: dict[str, Any] = json.loads(node.Read("/var/lib/ganeti/config.data"))
    config["cluster"]["osparams_private_cluster"] = {"mini": {"key": "private-of-the-cluster"}}
    config["instances"] = {"u": {"osparams_private": {"key": "private-of-the-instance"}}}
    config["disks"] = {"d": {"dev_type": "drbd8", "logical_id": ["a", "b", 1, 0, 0, "shared-of-the-mirror"]}}
    node.Write("/var/lib/ganeti/config.data", json.dumps(config), 0o640)
    return {
        "password": "secret-of-writer",
        "hmac": node.Read("/var/lib/ganeti/hmac.key").strip(),
        "key": node.Read("/var/lib/ganeti/server.pem").splitlines()[4],
        "private": "private-of-the-cluster",
        "instance": "private-of-the-instance",
        "mirror": "shared-of-the-mirror",
        "marked": MARK + "1",
    }


def test_secrets_are_found_where_nobody_may_see_them(cluster: RealCluster) -> None:
    node = cluster[0]
    for name, secret in _Secrets(cluster).items():
        for path, mode, found in (
            ("/var/log/ganeti/some.log", 0o600, 1),
            ("/var/lib/ganeti/queue/job-1", 0o644, 1),
            ("/var/lib/ganeti/queue/job-1", 0o640, 0),
        ):
            full = node.Write(path, f"a line\nwith {secret} inside\n", mode)
            leaks = cluster.Leaks()
            os.unlink(full)
            assert len(leaks) == found, (name, path, leaks)
            assert all(line.startswith(full) for line in leaks)
    assert cluster.Leaks() == []


def test_secrets_are_found_in_the_process_list(cluster: RealCluster) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()", f"--password={MARK}x"], stdin=subprocess.PIPE)
    try:
        [leak] = secrets.Leaks(cluster[0], [process.pid])
    finally:
        process.communicate(b"\n")
    assert f"/proc/{process.pid}/cmdline has a secret of the test" in leak


def test_a_cluster_that_leaked_fails_its_test() -> None:
    with pytest.raises(AssertionError, match=r"some\.log has a secret of the test"), RealCluster(1) as made:
        made[0].Write("/var/log/ganeti/some.log", MARK)
    assert not os.path.exists(made.base)
