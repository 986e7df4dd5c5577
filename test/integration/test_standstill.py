"""Two master candidates, one dies: what the administrator sees, and the way out (doc/design-store.rst, 7 and 9)."""

from __future__ import annotations

from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster

from ganeti import errors

DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": True, "reason": []}


def Offline(name: str) -> dict[str, Any]:
    return {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": True, "reason": []}


def test_marking_the_dead_one_of_two_offline_ends_the_standstill() -> None:
    with RealCluster(2) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        with cluster[0].Client() as client:
            assert FollowJob(client, client.SubmitJob([DELAY]))[0] == "success"
            cluster.CutPower(cluster[1])
            with pytest.raises(errors.GenericError) as caught:
                client.SubmitJob([DELAY])
            assert "stored on 1 of 2" in str(caught.value)
            with pytest.raises(errors.GenericError) as refused:
                client.SubmitJob([DELAY])
            assert cluster[1].name in str(refused.value)
            job_id = client.SubmitJob([Offline(cluster[1].name)])
            assert FollowJob(client, job_id)[0] == "success"
            [[offline, candidate]] = client.QueryNodes([cluster[1].name], ["offline", "master_candidate"])
            assert (offline, candidate) == (True, False)
            # The job whose end was not known has turned up and is carried out as well.
            ids = [row[0] for row in client.QueryJobs(None, ["id"])]
            assert all(FollowJob(client, each)[0] == "success" for each in ids)
            assert len(ids) == 3
            assert FollowJob(client, client.SubmitJob([DELAY]))[0] == "success"
