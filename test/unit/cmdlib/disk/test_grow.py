"""Disks grow (spec/drivers.md a.6)."""

from __future__ import annotations

from typing import Any

import pytest
from support.machine import Identity
from support.master import Master

from ganeti import errors, objects, opcodes

WEB = "web.example.org"


def _Disk(master: Master) -> objects.Disk:
    return master.snapshot.InstanceDisks(master.Instance(WEB))[0]


def _Grow(master: Master, amount: int = 2048, **values: Any) -> None:
    master.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=amount, **values))


def test_a_mirror_grows_on_both_nodes(master: Master) -> None:
    _Grow(master)
    disk = _Disk(master)
    assert (disk.size, disk.children[0].size, disk.children[1].size) == (12288, 12288, 128)
    calls = [n for n in master[0].calls if n in ("blockdev_grow", "resize_disk")]
    assert calls == ["blockdev_grow", "blockdev_grow", "blockdev_grow", "resize_disk"]
    assert master[1].calls.count("blockdev_grow") == 2
    assert master[0].arguments["resize_disk"][2] == 12288 << 20
    env = next(env for path, _, env in master[0].hook_runs if path == "disk-grow")
    assert (env["GANETI_DISK"], env["GANETI_AMOUNT"], env["GANETI_ABSOLUTE"]) == ("0", "2048", "False")
    _Grow(master, 12288, absolute=True)
    _Grow(master, 13312, absolute=True)
    assert _Disk(master).size == 13312


def test_of_a_stopped_instance(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    _Grow(master)
    assert not any(device.assembled for device in master[0].devices.values())
    assert "resize_disk" not in master[0].calls
    _Grow(master, wait_for_sync=False)
    assert any("Not shutting down the disk" in text for text in master.last.messages)


def test_what_cannot_grow(master: Master) -> None:
    before = master.snapshot
    for match, code, values in (
        ("is smaller than", errors.ECODE_STATE, {"amount": 5, "absolute": True}),
        ("violates the policy", errors.ECODE_INVAL, {"amount": 1 << 20}),
    ):
        with pytest.raises(errors.OpPrereqError, match=match) as caught:
            _Grow(master, **values)
        assert caught.value.args[1] == code
    master[1].vgs["xenvg"] = (500000, 1000)
    with pytest.raises(errors.OpPrereqError, match=r"node2.example.org vg xenvg: required 2048 MiB"):
        _Grow(master)
    with pytest.raises(errors.OpPrereqError, match="There is no disk 3"):
        master.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=3, amount=5))
    master.cfg.Update(before.nodes[master.nodes[1]].Replace(offline=True))
    with pytest.raises(errors.OpPrereqError, match="offline node"):
        _Grow(master)
    assert _Disk(master).size == 10240 and "blockdev_grow" not in master[0].calls


def test_all_nodes_are_asked_before_any_grows(master: Master) -> None:
    def before(name: str, args: Any) -> None:
        if name == "blockdev_grow" and args[2]:
            raise errors.RpcCallError("no room")

    master[1].before = before
    with pytest.raises(errors.OpExecError, match=r"Dry-run grow request failed to node node2.*no room"):
        _Grow(master)
    assert _Disk(master).size == 10240
    assert master[0].devices[Identity(_Disk(master).children[0].ToDict())].size == 10240


def test_the_new_part_is_wiped(master: Master) -> None:
    master.cfg.Update(master.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    offsets: list[int] = []
    master[0].before = lambda name, args: offsets.append(args[1]) if name == "blockdev_wipe" else None
    _Grow(master, 1000)
    assert min(offsets) == 10240 and master[0].devices["drbd:9f2c6a1d"].wiped == 11240


def test_others_get_the_nodes_while_it_is_wiped(master: Master) -> None:
    master.cfg.Update(master.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    held: dict[str, Any] = {}

    def look(name: str, args: Any) -> None:
        if name == "blockdev_wipe":
            held.update({row.name: row.mode for row in master.glm.QueryLocks() if row.owner})

    master[0].before = look
    _Grow(master, 100)
    res = {f"node-res/{uuid}": "exclusive" for uuid in master.nodes}
    assert held == {"cluster/BGL": "shared", f"instance/{WEB}": "shared", **res}
