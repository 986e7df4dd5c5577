"""Files that the store shows are removed or changed while everything runs: they come back, on every kind of node."""

from __future__ import annotations

import os
import sys

import pytest
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil
from support.stories import STARTER

from ganeti import runtime

QUEUE = "/var/lib/ganeti/queue"
NODE_LIST = "/var/lib/ganeti/ssconf_node_list"
CONFIG = "/var/lib/ganeti/config.data"


def Remove(node: RealNode, path: str) -> None:
    os.unlink(node.Path(path))


@pytest.mark.limit(120)
def test_removed_and_changed_files_come_back() -> None:
    with RealCluster(3, candidates=2) as cluster:
        master, candidate, regular = cluster.nodes
        cluster.StartNodeDaemons()
        master.StartMaster()
        with master.Client() as client:
            op = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": True, "reason": []}
            assert FollowJob(client, client.SubmitJob([op]))[0] == "success"
        WaitUntil(lambda: os.path.exists(candidate.Path(CONFIG)), "the candidate has the configuration")
        WaitUntil(lambda: candidate.Read(CONFIG) == master.Read(CONFIG), "it is the master's")
        wanted = master.Read(NODE_LIST)
        for node in (master, candidate, regular):
            Remove(node, NODE_LIST)
        candidate.Write(CONFIG, candidate.Read(CONFIG).replace("node3", "nodeX"), 0o640)
        for node in (master, candidate):
            path = node.Path(NODE_LIST)
            WaitUntil(lambda path=path: os.path.exists(path), f"{node.name} writes it again", 40)
            assert node.Read(NODE_LIST) == wanted
        WaitUntil(lambda: candidate.Read(CONFIG) == master.Read(CONFIG), "the candidate's file is written again", 40)
        # A node without a copy of the state is sent its files; redist-conf sends them again.
        done = master.Run([sys.executable, "-c", STARTER, "gnt-cluster", "redist-conf"], timeout=50)
        assert done.returncode == 0, done.stderr
        assert regular.Read(NODE_LIST) == wanted


class SlowNode(RealNode):
    """No file of its daemons is on disk as long as there is one called "gate"."""

    def Program(self, daemon: str) -> str:
        return (
            "import os, time; fsync = os.fsync\n"
            "def slow(handle):\n"
            f"    while os.path.exists({self.Path('/gate')!r}) and '.new-' in os.readlink(f'/proc/self/fd/{{handle}}'):\n"
            "        time.sleep(0.02)\n"
            "    fsync(handle)\n"
            f"os.fsync = slow\n{super().Program(daemon)}"
        )


class SlowCluster(RealCluster):
    node_class = SlowNode


def test_a_node_daemon_that_is_told_to_end_leaves_no_unfinished_file() -> None:
    with SlowCluster(2) as cluster:
        cluster.StartNodeDaemons()
        master, candidate = cluster.nodes
        master.StartMaster()

        def unfinished() -> list[str]:
            return [name for name in os.listdir(candidate.Path(QUEUE)) if runtime.UnfinishedName(name) is not None]

        with master.Client() as client:
            op = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": True, "reason": []}
            assert FollowJob(client, client.SubmitJob([op]))[0] == "success"
            WaitUntil(lambda: os.path.exists(candidate.Path(f"{QUEUE}/job-1")), "the candidate has the job")
            candidate.Write("/gate", "")
            assert FollowJob(client, client.SubmitJob([op]))[0] == "success"
        WaitUntil(unfinished, "the candidate writes the next job")
        candidate.Stop("ganeti-noded")
        assert unfinished() == []
