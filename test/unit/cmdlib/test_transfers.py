"""What a job says while disks travel, and when a program on a node does not do what it should (doc/design-transfers.rst)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.master import Callbacks, Master
from support.simnode import SimNode
from unit.cmdlib.backup.test_export import Exporting, _Export
from unit.cmdlib.instance.test_importing import COPY, _Arriving
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors, pathutils

NODE1, NODE2 = "node1.example.org", "node2.example.org"
Status = dict[str, Any]


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


def _Reporting(node: SimNode, change: Callable[[Status], Status | None]) -> None:
    """From now on the node reports something else about each of its programs."""
    report = node.stand_ins["impexp_status"]
    node.stand_ins["impexp_status"] = lambda names: [status and change(status) for status in report(names)]
    node.Stop()
    node.Start()


def _Log(kind: str, disk: int, name: str = WEB) -> str:
    return f"see the newest {pathutils.LOG_OS_DIR}/{kind}-*-{name}-disk{disk}-*.log there"


class _Impatient(Callbacks):
    """Notices a job that would wait for ever."""

    pauses = 0

    def Pause(self, seconds: float) -> None:
        super().Pause(seconds)
        self.pauses += 1
        assert self.pauses < 1000, "nobody ends it"


def _Fails(master: Master) -> str:
    """What the job says has failed."""
    with pytest.raises(errors.OpExecError) as caught:
        master.Run(_Export(), _Impatient())
    return str(caught.value).partition(" failed: ")[2]


# --- what it says -----------------------------------------------------------------------------------------------------------


def test_how_far_disks_are_that_are_sent(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 60
    _Reporting(three[0], lambda status: {**status, "progress_mbytes": 64.2, "progress_percent": 50.0})
    three.Run(_Export())
    said = three.last.messages
    assert f"* sending disk 0 from {NODE1} to {three[1].secondary_address}" in said
    assert said.count("  disk 0: 64 MiB sent, 50%") == said.count("  disk 1: 64 MiB sent, 50%") >= 1
    assert not [text for text in said if "receiv" in text], "one end is enough"


def test_how_far_disks_are_that_another_cluster_sends(three: Master) -> None:
    """Nobody else says it: the other cluster's job has a log of its own."""
    op = _Arriving(three)
    scene = Exporting(three)
    looks = 0

    def change(status: Status) -> Status:
        nonlocal looks
        looks += 1
        return {
            **status, "connected": True, "progress_mbytes": 512.0, "progress_throughput": 8.0, "progress_eta": 16.0,
            "exit_status": 0 if looks > 60 else None,
        }  # fmt: skip

    _Reporting(three[0], change)
    cbs = Callbacks()
    three.Run(op, cbs)
    assert f"* receiving disk 0 on {NODE1}" in cbs.messages
    assert "  disk 0: 512 MiB received, 8.0 MiB/s, 16 s left" in cbs.messages
    assert three.Instance(COPY).name == COPY and scene.Runs()


def test_data_that_does_not_move_is_said_with_the_log_and_the_way_out(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 180
    moved = 0

    def move(status: Status) -> Status:
        nonlocal moved
        moved += 1
        return {**status, "progress_mbytes": float(moved)}

    _Reporting(three[1], move)
    three.Run(_Export())
    said = three.last.messages
    for disk in (0, 1):
        stalled = f"disk {disk}: no data has moved on node {NODE1} for 10 minutes; {_Log('export', disk)}"
        assert f" - WARNING: {stalled}" in said
    assert len([text for text in said if re.search(r"'gnt-job cancel --kill --yes-do-it \S+' ends the job", text)]) == 2
    assert not [text for text in said if f"has moved on node {NODE2}" in text]
    assert len(scene.transfers.done) == 2, "it may take as long as it wants"


# --- what fails -------------------------------------------------------------------------------------------------------------


def test_a_failure_names_the_log(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.failing["disk0"] = "the file system is damaged"
    assert f"disk 0: sending from node {NODE1} failed: the file system is damaged; {_Log('export', 0)}" in _Fails(three)


def test_a_node_that_does_not_report_on_a_program(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 1000
    _Reporting(three[0], lambda _status: {})
    begun = three.world.now
    said = _Fails(three)
    assert f"disk 0: node {NODE1} has not reported on sending for 60 seconds; {_Log('export', 0)}" in said
    assert 60 <= three.world.now - begun < 300 and scene.transfers.programs == {} and scene.Runs()


def test_a_node_that_no_longer_answers(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 1000
    three[1].watch = lambda name: three[1].Stop() if name == "impexp_status" else None
    abandoned = rf"disk 0: receiving was abandoned: node {NODE2} has not answered for 60 seconds \(.+\)"
    assert re.search(abandoned, _Fails(three))


def test_a_receiver_that_nobody_reaches(three: Master) -> None:
    scene = Exporting(three)
    _Reporting(three[1], lambda status: {**status, "listen_port": None, "connected": False})
    begun = three.world.now
    said = _Fails(three)
    refused = (
        f"disk 0: receiving on node {NODE2} had no connection after 120 seconds; is TCP between the nodes blocked?"
    )
    assert refused in said
    assert 120 <= three.world.now - begun < 150 and scene.transfers.programs == {} and scene.Runs()


def test_a_receiver_that_does_not_stop_when_the_sender_has_failed(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.failing["disk0"] = "the file system is damaged"
    begun = three.world.now
    said = _Fails(three)
    stays = (
        f"; receiving on node {NODE2} did not stop within 120 seconds after the other end failed; {_Log('import', 0)}"
    )
    assert said.endswith(stays)
    assert 120 <= three.world.now - begun < 150 and scene.transfers.programs == {}, "it is ended at last"


def test_what_cannot_be_cleaned_up_is_said(three: Master) -> None:
    Exporting(three)
    three[1].faults["impexp_cleanup"] = "it hangs in the kernel"
    three.Run(_Export())
    said = three.last.messages
    assert any(
        f"Could not clean up after receiving disk 0 on node {NODE2}: it hangs in the kernel" in text for text in said
    )
    assert "      Hint: it is removed by the first transfer there after a day" in said
