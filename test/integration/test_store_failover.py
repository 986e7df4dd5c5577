"""The master goes from node to node while daemons are killed: nothing accepted is missing, and the copies end equal."""

from __future__ import annotations

import random
import sqlite3
import threading
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

from ganeti import errors

MASTERD = "ganeti-masterd"
ROUNDS = 4
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": True, "reason": []}


def Live(node: RealNode) -> tuple[Any, dict[tuple[str, str], tuple[str, int]]]:
    """Where a node's copy ends, and its rows."""
    connection = sqlite3.connect(f"file:{node.Path('/var/lib/ganeti/ext/store.db')}?mode=ro", uri=True)
    try:
        (last,) = connection.execute("SELECT last_number, last_run, last_seq FROM state").fetchall()
        rows = connection.execute("SELECT kind, id, value, seq FROM rows WHERE value IS NOT NULL").fetchall()
    finally:
        connection.close()
    return last, {(kind, row_id): (value, seq) for kind, row_id, value, seq in rows}


class Crowd:
    """Clients that submit to one master until it is gone."""

    def __init__(self, node: RealNode, accepted: list[int]):
        self._node = node
        self._accepted = accepted
        self._threads = [threading.Thread(target=self._Submit, daemon=True) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _Submit(self) -> None:
        try:
            with self._node.Client() as client:
                while True:
                    self._accepted.append(client.SubmitJob([DELAY]))
        except errors.GenericError:
            pass

    def Leave(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.slow
@pytest.mark.req("D20-JOB-03", "D20-JOB-09")
@pytest.mark.parametrize("seed", (1, 2))
def test_nothing_accepted_is_missing_after_any_fail_over(seed: int) -> None:
    rng = random.Random(seed)
    accepted: list[int] = []
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        master = cluster[0]
        master.StartMaster()
        for _ in range(ROUNDS):
            crowd = Crowd(master, accepted)
            goal = len(accepted) + rng.randint(5, 40)
            WaitUntil(lambda goal=goal: len(accepted) >= goal, "some are accepted")
            other = rng.choice([node for node in cluster.nodes if node is not master])
            if rng.random() < 0.5:
                # One of the other candidates is gone for a while; two are a quorum.
                cluster.CutPower(other)
                goal = len(accepted) + 10
                WaitUntil(lambda goal=goal: len(accepted) >= goal, "it goes on with two")
                other.StartNoded()
            if rng.random() < 0.5:
                cluster.CutPower(master)
                crowd.Leave()
                master.StartNoded()
            else:
                master.Kill(MASTERD)
                crowd.Leave()
            master = rng.choice(cluster.nodes)
            master.StartMaster("--take-over")
            with master.Client() as client:
                ids = {row[0] for row in client.QueryJobs(None, ["id"])}
                assert set(accepted) <= ids
                assert all(FollowJob(client, job_id)[0] in ("success", "error") for job_id in sorted(ids))
        with master.Client() as client:
            assert FollowJob(client, client.SubmitJob([DELAY]))[0] == "success"
        # Nobody brings a copy up to date that was away, once there is no master.
        WaitUntil(lambda: len({Live(node)[0] for node in cluster.nodes}) == 1, "all copies follow")
        master.Stop(MASTERD)
        WaitUntil(lambda: len({Live(node)[0] for node in cluster.nodes}) == 1, "all copies are at the same end")
        assert Live(cluster[0]) == Live(cluster[1]) == Live(cluster[2])
        config = master.Read("/var/lib/ganeti/config.data")
        for node in cluster.nodes:
            WaitUntil(lambda node=node: node.Read("/var/lib/ganeti/config.data") == config, "the files are equal")
