"""Disks grow (doc/reference/drivers.md a.6); what volume groups have room for comes with their driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from support.simnode import NameOf
from support.writers import InFiles

from ganeti import errors, objects, opcodes

WEB = "web.example.org"


@pytest.fixture
def filed(make: Callable[..., Master]) -> Master:
    """The instance runs and has its disk in a file."""
    return make(2, change=InFiles)


def _Disk(master: Master) -> objects.Disk:
    return master.snapshot.InstanceDisks(master.Instance(WEB))[0]


def _Grow(master: Master, amount: int = 2048, **values: Any) -> None:
    master.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=amount, **values))


def _Size(master: Master) -> int | None:
    """What the node has, in MiB."""
    return master[0].devices[NameOf(_Disk(master))].size


def test_a_file_grows(filed: Master) -> None:
    _Grow(filed)
    assert _Disk(filed).size == _Size(filed) == 12288
    calls = [n for n in filed[0].calls if n in ("blockdev_grow", "resize_disk")]
    assert calls == ["blockdev_grow", "blockdev_grow", "blockdev_grow", "resize_disk"]
    assert filed[0].arguments["resize_disk"][2] == 12288 << 20
    env = next(env for path, _, env in filed[0].hook_runs if path == "disk-grow")
    assert (env["GANETI_DISK"], env["GANETI_AMOUNT"], env["GANETI_ABSOLUTE"]) == ("0", "2048", "False")
    _Grow(filed, 12288, absolute=True)
    _Grow(filed, 13312, absolute=True)
    assert _Disk(filed).size == _Size(filed) == 13312


def test_of_a_stopped_instance(filed: Master) -> None:
    filed.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    _Grow(filed)
    assert _Size(filed) == 12288 and not filed.Instance(WEB).disks_active
    assert "resize_disk" not in filed[0].calls
    _Grow(filed, wait_for_sync=False)
    assert any("The disk stays active" in text for text in filed.last.messages)


def test_what_cannot_grow(filed: Master) -> None:
    for match, code, values in (
        ("is smaller than", errors.ECODE_STATE, {"amount": 5, "absolute": True}),
        ("violates the policy", errors.ECODE_INVAL, {"amount": 1 << 20}),
    ):
        with pytest.raises(errors.OpPrereqError, match=match) as caught:
            _Grow(filed, **values)
        assert caught.value.args[1] == code
    with pytest.raises(errors.OpPrereqError, match=f"There is no disk 3: instance {WEB} has 1, counted from 0"):
        filed.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=3, amount=5))
    assert _Disk(filed).size == _Size(filed) == 10240 and "blockdev_grow" not in filed[0].calls


def test_the_node_is_asked_before_anything_grows(filed: Master) -> None:
    def before(name: str, args: Any) -> None:
        if name == "blockdev_grow" and args[2]:
            raise errors.RpcCallError("no room")

    filed[0].before = before
    with pytest.raises(errors.OpExecError, match=r"cannot grow on node node1.*no room"):
        _Grow(filed)
    assert _Disk(filed).size == _Size(filed) == 10240


def test_the_new_part_is_wiped(filed: Master) -> None:
    filed.cfg.Update(filed.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    offsets: list[int] = []
    filed[0].before = lambda name, args: offsets.append(args[1]) if name == "blockdev_wipe" else None
    _Grow(filed, 1000)
    assert min(offsets) == 10240 and filed[0].devices[NameOf(_Disk(filed))].wiped == 11240


def test_the_guest_sees_the_new_part_after_it_was_wiped(filed: Master) -> None:
    """It may write there at once, and would find zeros later."""
    filed.cfg.Update(filed.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    _Grow(filed, 100)
    calls = [name for name in filed[0].calls if name in ("blockdev_grow", "resize_disk", "blockdev_wipe")]
    assert calls == ["blockdev_grow", "blockdev_grow", "blockdev_grow", "blockdev_wipe", "resize_disk"]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("failing", ["blockdev_wipe", "blockdev_pause_resume_sync"])
def test_the_guest_does_not_see_what_may_still_be_wiped(filed: Master, failing: str, running: bool) -> None:
    """A call that was not answered may be at work for a while."""
    filed.cfg.Update(filed.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    if not running:
        filed.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    filed[0].faults[failing] = "no answer"
    with pytest.raises(errors.OpExecError, match="no answer") as caught:
        _Grow(filed, 1000)
    assert "has 11240 MiB now; the part after 10240 MiB was not wiped" in str(caught.value)
    assert "resize_disk" not in filed[0].calls and _Disk(filed).size == _Size(filed) == 11240
    assert running or not filed[0].devices[NameOf(_Disk(filed))].assembled
    hint = str(caught.value.hint)
    assert f"'gnt-instance grow-disk --absolute {WEB} 0 11240m'" in hint
    assert "'gnt-cluster command -n node1.example.org \"pgrep -ax dd\"'" in hint and "restart" not in hint
    filed[0].faults.clear()
    _Grow(filed, 11240, absolute=True)
    assert ("resize_disk" in filed[0].calls) is running and _Size(filed) == 11240
    if running:
        assert filed[0].arguments["resize_disk"][2] == 11240 << 20


@pytest.mark.parametrize("restarted", [False, True])
def test_a_call_that_comes_late_wipes_nothing_that_the_guest_has_seen(filed: Master, restarted: bool) -> None:
    """It was held up on its way until the guest had been shown the new part, or had been started anew and ended."""
    filed.cfg.Update(filed.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    filed[0].faults["blockdev_wipe"] = "no answer"
    with pytest.raises(errors.OpExecError, match="no answer"):
        _Grow(filed, 1000)
    filed[0].faults.clear()
    late = filed[0].arguments["blockdev_wipe"]
    if restarted:
        filed.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
        filed.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    else:
        _Grow(filed, 11240, absolute=True)
    assert late[1] == 10240
    result = filed.rpc.call_blockdev_wipe(filed.nodes[0], (_Disk(filed), filed.Instance(WEB)), *late[1:])
    assert "a guest has seen its first 11240 MiB" in str(result.fail_msg)
    assert not filed[0].devices[NameOf(_Disk(filed))].wiped
    _Grow(filed, 100)
    assert filed[0].devices[NameOf(_Disk(filed))].wiped == 11340, "what no guest has seen is wiped"


def test_others_get_the_nodes_while_it_is_wiped(filed: Master) -> None:
    filed.cfg.Update(filed.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    held: dict[str, Any] = {}

    def look(name: str, args: Any) -> None:
        if name == "blockdev_wipe":
            held.update({row.name: row.mode for row in filed.glm.QueryLocks() if row.owner})

    filed[0].before = look
    _Grow(filed, 100)
    res = {f"node-res/{filed.nodes[0]}": "exclusive"}
    assert held == {"cluster/BGL": "shared", f"instance/{WEB}": "shared", **res}
