"""Lost disks are made again (doc/reference/drivers.md a.6)."""

from __future__ import annotations

from typing import Any

import pytest
from support.master import Master

from ganeti import errors, objects, opcodes

WEB = "web.example.org"


@pytest.fixture
def lost(make: Any) -> Master:
    """A stopped instance whose disks are gone, on two of four nodes."""

    def lose(master: Master) -> None:
        master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
        for node in master.all:
            node.LoseDisks()

    master: Master = make(4, prepare=lose)
    return master


def _Recreate(master: Master, **values: Any) -> None:
    master.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, **values))


def _Disk(master: Master) -> objects.Disk:
    return master.snapshot.InstanceDisks(master.Instance(WEB))[0]


def test_in_the_same_place(lost: Master) -> None:
    before = _Disk(lost)
    _Recreate(lost)
    assert _Disk(lost) == before
    assert [len(machine.devices) for machine in lost.machines.values()] == [3, 3, 0, 0]
    lost.Run(opcodes.OpInstanceStartup(instance_name=WEB))


def test_with_another_size(lost: Master) -> None:
    _Recreate(lost, disks=[[0, {"size": 2048, "mode": "ro"}]])
    disk = _Disk(lost)
    assert (disk.size, disk.mode, disk.children[0].size) == (2048, "ro", 2048)
    assert {device.size for device in lost[0].devices.values()} == {2048, 128, None}, "volumes, and the mirror above"


def test_on_other_nodes(lost: Master) -> None:
    old = _Disk(lost)
    _Recreate(lost, nodes=["node3", "node4"])
    disk, web = _Disk(lost), lost.Instance(WEB)
    assert web.primary_node == lost.nodes[2] and lost.snapshot.SecondaryNodes(web) == (lost.nodes[3],)
    assert disk.logical_id == (lost.nodes[2], lost.nodes[3], old.logical_id[2], 0, 0, old.logical_id[5])
    assert [child.nodes for child in disk.children] == [tuple(lost.nodes[2:])] * 2
    assert [len(machine.devices) for machine in lost.machines.values()] == [0, 0, 3, 3]
    lost.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert WEB in lost[2].guests


def test_away_from_a_node_that_is_gone(lost: Master) -> None:
    lost.cfg.SetInstancePrimaryNode(lost.Instance(WEB).uuid, lost.nodes[1])
    lost.cfg.MarkInstanceUp(lost.Instance(WEB).uuid)
    with pytest.raises(errors.OpPrereqError, match="marked to be up"):
        _Recreate(lost, nodes=["node3", "node4"])
    lost.cfg.Update(lost.snapshot.nodes[lost.nodes[1]].Replace(offline=True))
    _Recreate(lost, nodes=["node3", "node4"])
    assert lost.Instance(WEB).primary_node == lost.nodes[2]


def test_what_is_there_is_not_overwritten(lost: Master) -> None:
    _Recreate(lost)
    with pytest.raises(errors.OpExecError, match="exists already"):
        _Recreate(lost)
    assert [len(machine.devices) for machine in lost.machines.values()] == [3, 3, 0, 0]


@pytest.mark.parametrize(
    ("match", "values"),
    [
        ("more than once: 0'", {"disks": [0, 0]}),
        ("cannot be changed when recreating", {"disks": [[0, {"vg": "x"}]]}),
        ("Invalid disk index '3'", {"disks": [3]}),
        ("2 nodes, but 1 replacement", {"nodes": ["node3"]}),
        ("A node was specified more than once: node3", {"nodes": ["node3", "node3"]}),
        ("both iallocator and node", {"iallocator": "hail", "nodes": ["node3", "node4"]}),
        ("Spindles in instance disks", {"disks": [[0, {"spindles": 2}]]}),
    ],
)
def test_what_cannot_be_is_refused(lost: Master, match: str, values: dict[str, Any]) -> None:
    before = lost.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Recreate(lost, **values)
    assert caught.value.args[1] == errors.ECODE_INVAL
    assert lost.snapshot is before
