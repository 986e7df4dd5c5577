"""An administrator ends a job that waits until mirrors are filled: disks are left as they were found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import KilledInPause, Master
from unit.cmdlib.instance.test_mirrors import WEB, Mirrors, _Add, _Empty

from ganeti import errors, opcodes


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Fills(master: Master, disks: int) -> None:
    """No mirror is ever filled."""
    status: dict[str, Any] = {"sync_percent": 12.5, "estimated_time": 60, "is_degraded": True, "ldisk_status": 1}
    status |= {"dev_path": "/dev/drbd0", "major": 147, "minor": 0}
    master[0].answers["blockdev_getmirrorstatus"] = [status] * disks


def _Ends(master: Master, op: opcodes.OpCode) -> errors.OpExecError:
    with pytest.raises(errors.OpExecError, match="gnt-job cancel --kill") as caught:
        master.Run(op, KilledInPause(1))
    return caught.value


@pytest.mark.parametrize(
    "op",
    [
        opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=128, wait_for_sync=True),
        opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["add", -1, {"size": 1024}]], wait_for_sync=True),
        opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True),
    ],
    ids=["grow", "add", "activate"],
)
def test_disks_of_a_stopped_instance_do_not_count_as_active(three: Master, op: opcodes.OpCode) -> None:
    mirrors = Mirrors(three)
    _Add(three)
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    _Fills(three, 2 if isinstance(op, opcodes.OpInstanceActivateDisks) else 1)
    _Ends(three, op)
    assert not three.Instance(WEB).disks_active
    if not isinstance(op, opcodes.OpInstanceActivateDisks):
        assert [len(machine.devices) for machine in mirrors.machines] == [0, 0, 0]


@pytest.mark.parametrize(("mode", "node"), [("on_secondary", None), ("new_secondary", "node3")])
def test_old_volumes_that_stay_are_told(three: Master, mode: str, node: str | None) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    _Fills(three, 2)
    before = mirrors.Volumes()
    op = opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=f"replace_{mode}", remote_node=node)
    err = _Ends(three, op)
    assert "the old volumes on node2.example.org were not removed" in str(err) and "gnt-cluster verify" in str(err.hint)
    assert mirrors.Volumes()[1] >= before[1]
