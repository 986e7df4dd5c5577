"""A cluster of a release from before 2.11 becomes one of ours, by what cfgupgrade does and says."""

from __future__ import annotations

import json
import os
import sys

import pytest
from support import joining, oldconfigs
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

DATA = "/var/lib/ganeti"
CFGUPGRADE = "import sys; from ganeti.tools.cfgupgrade import Main; sys.exit(Main())"


def MakeOld(cluster: RealCluster) -> None:
    """What 2.10 leaves: an older configuration, and no certificates of nodes."""
    text = json.dumps(oldconfigs.Aged("2.10", cluster.config))
    for node in cluster.nodes:
        for name in ("client.pem", "ssconf_master_candidates_certs"):
            os.remove(node.Path(f"{DATA}/{name}"))
        node.Write(f"{DATA}/config.data", text, 0o640)
        node.Write(f"{DATA}/known_hosts", "")


@pytest.mark.limit(200)
def test_a_cluster_of_2_10() -> None:
    with RealCluster(3) as cluster:
        MakeOld(cluster)
        master, *others = cluster.nodes
        early = master.StartMaster(check=False)
        assert early.returncode
        assert "it is one of release 2.10" in early.stderr
        assert "cfgupgrade' on the master" in early.stderr

        done = master.Run([sys.executable, "-c", CFGUPGRADE, "--force"])
        assert done.returncode == 0, done.stderr
        assert "gnt-node show-join-data NODE" in done.stderr
        for node in others:
            joining.SetUp(master, node)
        cluster.StartNodeDaemons()
        master.StartMaster()
        for node in others:
            joining.Readd(master, node)
        delay = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [n.name for n in cluster.nodes], "reason": []}
        with master.Client() as client:
            assert FollowJob(client, client.SubmitJob([delay]))[0] == "success"
        certs = f"{DATA}/ssconf_master_candidates_certs"
        for node in cluster.nodes:
            WaitUntil(lambda node=node: len(node.Read(certs).split()) == 3, f"{node.name} knows all candidates")
        TakesOver(master, others[0])
        cluster.CutPower(master)
        before = master.Read(f"{DATA}/config.data")
        for words, hint in (([], "no conversion is needed"), (["--downgrade"], "hand-back --yes-do-it 3.0'")):
            done = master.Run([sys.executable, "-c", CFGUPGRADE, "--force", "--ignore-hostname", *words])
            assert done.returncode == 1
            assert "belongs to this release already" in done.stderr
            assert hint in done.stderr
        assert master.Read(f"{DATA}/config.data") == before


def TakesOver(master: RealNode, other: RealNode) -> None:
    """Another candidate can be the master: its copy counts, and all know its certificate."""
    master.Stop("ganeti-masterd")
    other.StartMaster("--take-over")
    with other.Client() as client:
        names = [row[0] for row in client.QueryNodes([], ["name"])]
    assert len(names) == 3
