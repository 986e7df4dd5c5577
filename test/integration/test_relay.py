"""A node that was away while another became a candidate follows that one as master: a third one passes the calls on."""

from __future__ import annotations

import pytest
from support import joining
from support.joining import Command
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

MASTERD = "ganeti-masterd"
CERTS = "/var/lib/ganeti/ssconf_master_candidates_certs"
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": True, "reason": []}


def Works(master: RealNode, *nodes: RealNode) -> None:
    """A job succeeds that acts on all of these nodes."""
    with master.Client() as client:
        delay = {**DELAY, "on_nodes": [node.name for node in nodes]}
        assert FollowJob(client, client.SubmitJob([delay]))[0] == "success"


def PromoteWhileAway(cluster: RealCluster, away: list[RealNode], chosen: RealNode) -> None:
    """The chosen node becomes a candidate, and then the master, while others are off; then they come back."""
    cluster.StartNodeDaemons()
    cluster[0].StartMaster()
    Works(cluster[0], *cluster.nodes)
    for node in away:
        cluster.CutPower(node)
    done = Command(cluster[0], "gnt-node", "modify", "--master-candidate", "yes", chosen.name)
    assert done.returncode == 0, done.stderr
    cluster[0].Stop(MASTERD)
    chosen.StartMaster("--take-over")
    Works(chosen)
    for node in away:
        assert chosen.uuid not in node.Read(CERTS)
        node.StartNoded()


@pytest.mark.limit(200)
def test_candidates_and_other_nodes_that_were_away_follow_the_new_master() -> None:
    with RealCluster(5, candidates=3) as cluster:
        chosen, candidate, regular = cluster[3], cluster[2], cluster[4]
        PromoteWhileAway(cluster, [candidate, regular], chosen)
        for node in (candidate, regular):
            # One that holds no rows is told at the next turn of a thread that makes one in 30 s.
            WaitUntil(lambda node=node: chosen.uuid in node.Read(CERTS), f"{node.name} knows the master", 90)
        Works(chosen, *cluster.nodes)
        assert f"Node {candidate.name} rejects the certificate of this node" in chosen.Log(MASTERD)
        assert "passes the store's calls on to it" in chosen.Log(MASTERD)
        # Its copy counts: of four candidates three must answer.
        cluster.CutPower(cluster[0])
        Works(chosen, candidate, regular)


def Modify(master: RealNode, *words: str) -> None:
    done = Command(master, "gnt-node", "modify", "--force", *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.limit(200)
def test_where_nobody_can_help_log_and_verify_name_the_command_that_does() -> None:
    """Every candidate that the node knew was replaced while it was away."""
    with RealCluster(5, candidates=3) as cluster:
        first, second, away, chosen, other = cluster.nodes
        cluster.StartNodeDaemons()
        first.StartMaster()
        Works(first, *cluster.nodes)
        cluster.CutPower(away)
        Modify(first, "--master-candidate", "yes", chosen.name)
        Modify(first, "--master-candidate", "yes", other.name)
        first.Stop(MASTERD)
        chosen.StartMaster("--take-over")
        assert Command(chosen, "gnt-cluster", "modify", "--candidate-pool-size=3").returncode == 0
        Modify(chosen, "--master-candidate", "no", second.name)
        Modify(chosen, "--master-candidate", "no", first.name)
        away.StartNoded()
        WaitUntil(lambda: f"gnt-node add --readd {away.name}" in chosen.Log(MASTERD), "the log names the way out")
        verified = Command(chosen, "gnt-cluster", "verify")
        assert f"'gnt-node add --readd {away.name}'" in verified.stdout
        # What the command says is done, step by step.
        steps = Command(chosen, "gnt-node", "add", "--readd", away.name)
        assert steps.returncode == 1 and f"gnt-node show-join-data {away.name}" in steps.stderr
        joining.SetUp(chosen, away)
        joining.Readd(chosen, away)
        Works(chosen, *cluster.nodes)
        WaitUntil(lambda: chosen.uuid in away.Read(CERTS), "its own copy names the master")
