"""A disk that is full while something is committed, nodes that are down or hang: said in words, and over when it is over."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

from ganeti import errors

MASTERD, NODED = "ganeti-masterd", "ganeti-noded"
DATA = "/var/lib/ganeti"
RULE = [["jobid", [">", "id", 10**9]]]


def Delay(nodes: list[str], duration: float = 0.0) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_DELAY", "duration": duration, "on_nodes": nodes, "on_master": False, "reason": []}


@contextmanager
def SmallDisk(cluster: RealCluster, node: RealNode) -> Iterator[str]:
    """The data directory on a file system of 4 MB; yields the name of a file that fills it.  Ends the cluster."""
    path = node.Path(DATA)
    kept = f"{path}.kept"
    os.rename(path, kept)
    os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "small-disk", path], check=True, timeout=20)
    try:
        subprocess.run(["cp", "-a", f"{kept}/.", path], check=True, timeout=20)
        yield os.path.join(path, "filling")
    finally:
        cluster.Close()
        subprocess.run(["umount", path], check=True, timeout=20)
        shutil.rmtree(cluster.base, ignore_errors=True)


def Fill(path: str) -> None:
    """To the last byte, and keeps it so while others free some."""
    with open(path, "ab", buffering=0) as stream:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while stream.write(b"x" * size):
                    pass
            except OSError:
                continue


def Rules(cluster: RealCluster) -> set[str]:
    with cluster[0].Client() as client:
        return {row[0] for row in client.QueryFilters(None, ["uuid"])}


@pytest.mark.limit(120)
def test_a_full_disk_on_the_master_is_told_and_nothing_of_it_is_served() -> None:
    with RealCluster(3) as cluster, SmallDisk(cluster, cluster[0]) as filling:
        cluster.StartNodeDaemons()
        master = cluster[0]
        master.StartMaster()
        with master.Client() as client:
            known = {client.ReplaceFilter(None, 5, RULE, "ACCEPT", []) for _ in range(3)}
            Fill(filling)
            with pytest.raises(errors.GenericError) as caught:
                for _ in range(500):  # what SQLite holds ready for itself takes some more
                    known.add(client.ReplaceFilter(None, 5, RULE, "ACCEPT", []))
            assert "No space left" in str(caught.value), caught.value
            assert master.Path(DATA) in str(caught.value), caught.value
        again = master.Pid(MASTERD)
        if again:
            assert Rules(cluster) == known
            with master.Client() as client, pytest.raises(errors.GenericError, match="No space left"):
                client.SubmitJob([Delay([])])
        os.unlink(filling)

        def works() -> bool:
            if not master.Pid(MASTERD):
                master.StartMaster()
            with master.Client() as client:
                try:
                    job_id = client.SubmitJob([Delay([])])
                except errors.GenericError:
                    return False
                return FollowJob(client, job_id)[0] == "success"

        WaitUntil(works, "with room again the master takes jobs")
        assert known <= Rules(cluster)
        assert "Traceback" not in master.Log(MASTERD)


@pytest.mark.limit(120)
def test_a_full_disk_on_a_candidate_hinders_nobody_and_it_follows_when_there_is_room() -> None:
    with RealCluster(3) as cluster, SmallDisk(cluster, cluster[2]) as filling:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        with cluster[0].Client() as client:
            Fill(filling)
            known = [client.ReplaceFilter(None, 5, RULE, "ACCEPT", []) for _ in range(200)]
            assert FollowJob(client, client.SubmitJob([Delay([])]))[0] == "success"
            WaitUntil(lambda: "No space left" in cluster[2].Log(NODED), "the node says in its log what it lacks")
            os.unlink(filling)
            known.append(client.ReplaceFilter(None, 5, RULE, "ACCEPT", []))
        path = f"{DATA}/config.data"
        WaitUntil(lambda: os.path.exists(cluster[2].Path(path)), "its files are written")
        WaitUntil(lambda: all(rule in cluster[2].Read(path) for rule in known), "its files show everything")
        assert "Traceback" not in cluster[2].Log(NODED) + cluster[0].Log(MASTERD)


@pytest.fixture(scope="module")
def three() -> Iterator[RealCluster]:
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        yield cluster


@pytest.mark.limit(120)
def test_a_node_that_hangs_fails_its_job_in_time_and_delays_no_other(three: RealCluster) -> None:
    third = three[2]
    assert third.Pid(NODED) in three.Processes(third)
    with three.Halted(third), three[0].Client() as client:
        began = time.monotonic()
        hanging = client.SubmitJob([Delay([third.name])])
        for _ in range(5):
            assert FollowJob(client, client.SubmitJob([Delay([three[1].name])]))[0] == "success"
        assert time.monotonic() - began < 20
        status, _ = FollowJob(client, hanging)
        assert status == "error"
        assert time.monotonic() - began < 60
        [[results]] = client.QueryJobs([hanging], ["opresult"])
        assert third.name in str(results)
        assert "timed out" in str(results).lower() or "time" in str(results)
    with three[0].Client() as client:
        WaitUntil(
            lambda: FollowJob(client, client.SubmitJob([Delay([third.name])]))[0] == "success", "the node is back"
        )


def test_a_node_that_is_down_is_named_at_once(three: RealCluster) -> None:
    second = three[1]
    three.CutPower(second)
    with three[0].Client() as client:
        began = time.monotonic()
        job_id = client.SubmitJob([Delay([second.name])])
        assert FollowJob(client, job_id)[0] == "error"
        assert time.monotonic() - began < 10
        [[results]] = client.QueryJobs([job_id], ["opresult"])
        assert second.name in str(results)
        assert "Connection refused" in str(results)
        second.StartNoded()
        WaitUntil(
            lambda: FollowJob(client, client.SubmitJob([Delay([second.name])]))[0] == "success", "the node is back"
        )
