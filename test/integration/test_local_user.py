"""An unprivileged user of the nodes: he may open what everybody may, and lock it, and it changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from support.localuser import LocalUser
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

from ganeti import x509

ENSURE_DIRS = "import sys\nfrom ganeti.tools.ensure_dirs import Main\nsys.exit(Main())"
DAEMON_UTIL = "import sys\nfrom ganeti.tools.daemon_util import Main\nsys.exit(Main())"
LIST = "/var/lib/ganeti/ssconf_master_candidates_certs"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")


@pytest.fixture(params=["exclusive", "shared"])
def user(request: Any) -> Iterator[tuple[RealCluster, LocalUser]]:
    with RealCluster(3) as cluster:
        os.chmod(cluster.base, 0o755)
        for node in cluster.nodes:
            assert node.Python(ENSURE_DIRS).returncode == 0
        # He is there before the first daemon, and whenever one makes a file.
        with LocalUser(cluster.base, request.param) as user:
            yield cluster, user


def check(node: RealNode, daemon: str) -> int:
    return node.Python(DAEMON_UTIL, "check", daemon).returncode


def test_he_can_stop_no_change_and_no_daemon(user: tuple[RealCluster, LocalUser]) -> None:
    cluster, local = user
    cluster.StartNodeDaemons()
    cluster[0].StartMaster()
    third = cluster[2]
    digest = x509.Digest(third.Read("/var/lib/ganeti/client.pem"))
    with cluster[0].Client() as client:
        op = {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": third.name, "master_candidate": False, "reason": []}
        job_id = client.SubmitJob([op])
        assert FollowJob(client, job_id)[0] == "success", client.QueryJobs([job_id], ["opresult"])
        # The answer comes when nobody accepts it any longer; on a busy machine it may say that somebody does, for a while.
        for node in cluster.nodes:
            WaitUntil(lambda node=node: digest not in node.Read(LIST), f"{node.name} does not accept it any longer")
    for node in cluster.nodes:
        node.Stop("ganeti-noded")
        assert check(node, "ganeti-noded") == 1
        node.StartNoded()
        assert check(node, "ganeti-noded") == 0
    cluster[0].Stop("ganeti-masterd")
    assert check(cluster[0], "ganeti-masterd") == 1
    cluster[0].StartMaster()
    assert not [path for path in local.Locked() if path.endswith((".pid", ".lock", "/lock"))]


def test_a_pid_file_of_his_own_counts_for_nothing(user: tuple[RealCluster, LocalUser]) -> None:
    """Left by an older release, or made by him where he could: he holds its lock, and names a process."""
    cluster, local = user
    node = cluster[0]
    for uid, mode in ((65534, 0o644), (0, 0o644)):
        path = node.Write("/var/run/ganeti/ganeti-noded.pid", "4194000\n", mode)
        os.chown(path, uid, uid)
        assert path in local.Locked()
        assert check(node, "ganeti-noded") == 1
        node.StartNoded()
        assert check(node, "ganeti-noded") == 0
        assert (os.stat(path).st_uid, os.stat(path).st_mode & 0o777) == (0, 0o600)
        node.Stop("ganeti-noded")
