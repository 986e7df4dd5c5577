"""The master daemon by itself lets a frozen guest continue, and the other side count again once it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.mirrored import MirrorCluster
from support.realcluster import WaitUntil

from ganeti.server.mirrorkeeper import PER_NODE

SETTLE = "INSTANCE_SETTLE_MIRRORS"


@pytest.fixture
def cluster() -> Iterator[MirrorCluster]:
    with MirrorCluster(2) as made:
        made.StartAll()
        yield made


def _Behind(cluster: MirrorCluster) -> list[Any]:
    with cluster[0].Client() as client:
        job = client.SubmitJobToDrainedQueue([{"OP_ID": "OP_INSTANCE_QUERY_DATA", "instances": [], "reason": []}])
        WaitUntil(lambda: client.QueryJobs([job], ["status"])[0][0] in ("success", "error"), "an answer", 60)
        [[[result]]] = client.QueryJobs([job], ["opresult"])
    return [found["disks"][0].get("behind") for found in result.values()]


ALONE, WHOLE = "continues alone", "both count from now on"


def _Settled(cluster: MirrorCluster, words: str) -> int:
    """How many instances a job of the keeper has settled that says so."""
    with cluster[0].Client() as client:
        rows = client.QueryJobs(None, ["summary", "status", "oplog"])
    return len(
        {
            summary[0]
            for summary, status, logs in rows
            if summary[0].startswith(SETTLE) and status == "success" and words in str(logs[0])
        }
    )


def _Running(cluster: MirrorCluster) -> list[str]:
    with cluster[0].Client() as client:
        rows = client.QueryJobs(None, ["summary", "status"])
    return [summary for [summary], status in rows if summary.startswith(SETTLE) and status == "running"]


@pytest.mark.parametrize("drained", [False, True], ids=["accepting", "drained"])
def test_a_lost_link_and_its_return(cluster: MirrorCluster, drained: bool) -> None:
    if drained:
        with cluster[0].Client() as client:
            client.SetDrainFlag(True)
    for node in cluster.nodes[1:]:
        node.CutLink(True)
    WaitUntil(lambda: _Settled(cluster, ALONE) == 2, "both instances continue", 60)
    assert [behind and behind[0] for behind in _Behind(cluster)] == [cluster[2].name] * 2
    for node in cluster.nodes[1:]:
        node.CutLink(False)
    WaitUntil(lambda: _Settled(cluster, WHOLE) == 2, "both sides count again", 60)
    assert _Behind(cluster) == [None, None]


@pytest.mark.limit(300)
def test_a_node_that_hangs_holds_nobody_else_up() -> None:
    """More guests stand still on it than the keeper has jobs for at a time; one stands still on another node."""
    with MirrorCluster(PER_NODE + 3, turned=1) as made:
        made.StartAll()
        made[1].Hang(True)
        for node in made.nodes[1:]:
            node.CutLink(True)
        WaitUntil(lambda: _Settled(made, ALONE) == 1, "the guest of the other node continues", 60)
        log = made[0].Path("/var/log/ganeti/master-daemon.log")
        WaitUntil(lambda: "it is busy with jobs" in Path(log).read_text("utf-8"), "a line for people", 60)
        WaitUntil(lambda: len(_Running(made)) >= PER_NODE, "its jobs run", 60)
        assert len(_Running(made)) == PER_NODE
        made[1].Hang(False)
        WaitUntil(lambda: None not in _Behind(made), "the others are decided too", 90)


def test_a_dead_secondary_node(cluster: MirrorCluster) -> None:
    cluster.CutPower(cluster[2])
    cluster[1].CutLink(True)
    WaitUntil(lambda: _Settled(cluster, ALONE) == 2, "both instances continue", 60)
