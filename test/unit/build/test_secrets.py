"""The look for leaked secrets with which every real cluster of the tests ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support import configs, secrets
from support.realcluster import RAPI_USERS, RealCluster
from support.secrets import MARK

from ganeti import objects, x509


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    """Without daemons; what a test has planted is removed before the cluster looks itself."""
    with RealCluster(1) as made:
        yield made
        for path in ("/var/log/ganeti", "/var/lib/ganeti/queue"):
            for name in os.listdir(made[0].Path(path)):
                if os.path.isfile(full := made[0].Path(f"{path}/{name}")):
                    os.unlink(full)


def _Mirrored(cluster: RealCluster) -> objects.Snapshot:
    """The cluster's configuration, as a master daemon stores it, with secrets in it: mirrors', and private OS parameters."""
    disk = configs.Example().disks[configs.WEB_DISK]

    def mirror(uuid: str, secret: str, **more: Any) -> objects.Disk:
        return disk.Replace(uuid=uuid, logical_id=[*disk.logical_id[:5], secret], **more)

    inner = mirror(configs.Uuid(2), "shared-of-the-child", children=[])
    web = configs.Example().instances[configs.WEB]
    return (
        cluster.config.WithObject(
            cluster.config.cluster.Replace(osparams_private_cluster={"mini": {"key": "private-of-the-cluster"}})
        )
        .WithObject(web.Replace(osparams_private={"key": "private-of-the-instance"}))
        .WithObject(mirror(configs.Uuid(1), "shared-of-the-mirror", children=[inner]))
    )


def _Secrets(cluster: RealCluster) -> dict[str, str]:
    """One secret of each kind, as it stands where it belongs."""
    node = cluster[0]
    node.Write("/var/lib/ganeti/rapi/users", RAPI_USERS, 0o640)
    node.Write("/var/lib/ganeti/cluster-domain-secret", "secret-of-the-domain\n", 0o640)
    node.Write("/var/lib/ganeti/config.data", objects.ConfigText(_Mirrored(cluster)), 0o640)
    node.Write("/var/lib/ganeti/rapi.pem", x509.MakeServerPem(), 0o440)
    files = ("server.pem", "client.pem", "rapi.pem")
    keys = {name: node.Read(f"/var/lib/ganeti/{name}").splitlines()[4] for name in files}
    assert len(set(keys.values())) == len(files)
    return {
        **keys,
        "password": "secret-of-writer",
        "hmac": node.Read("/var/lib/ganeti/hmac.key").strip(),
        "domain": "secret-of-the-domain",
        "private": "private-of-the-cluster",
        "instance": "private-of-the-instance",
        "mirror": "shared-of-the-mirror",
        "mirror below another device": "shared-of-the-child",
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
    argv = [sys.executable, "-c", "print(flush=True); input()", f"--password={MARK}x"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        # A process that has only just begun has no arguments yet.
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        [leak] = secrets.Leaks(cluster[0], [process.pid])
    finally:
        process.communicate(b"\n")
    assert f"/proc/{process.pid}/cmdline has a secret of the test" in leak


def test_a_cluster_that_leaked_fails_its_test() -> None:
    with pytest.raises(AssertionError, match=r"some\.log has a secret of the test"), RealCluster(1) as made:
        made[0].Write("/var/log/ganeti/some.log", MARK)
    assert not os.path.exists(made.base)
