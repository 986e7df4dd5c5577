"""The life of disks of template ``tape`` and of the cellars that they lie in; ``test_template`` starts it with ``-p support.tape``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from support.playedtransfers import Transfers
from support.tape import CELLARS

from ganeti import errors, objects, opcodes
from ganeti.client.gnt_node import list_storage

NEW = "new.example.org"


@pytest.fixture
def taped(make: Callable[..., Master]) -> Master:
    return make(2, prepare=_Enable)


def _Enable(master: Master) -> None:
    cluster = master.snapshot.cluster
    templates = ["tape", *cluster.enabled_disk_templates]
    policy = {**cluster.ipolicy, "disk-templates": templates}
    master.cfg.Update(cluster.Replace(enabled_disk_templates=templates, ipolicy=policy))


def _Create(master: Master) -> None:
    master.Run(
        opcodes.OpInstanceCreate(
            instance_name=NEW,
            mode="create",
            disk_template="tape",
            disks=[{"size": 1024}],
            nics=[{}],
            os_type="debian+minimal",
            pnode="node1",
        )
    )


def _Disks(master: Master) -> tuple[objects.Disk, ...]:
    return master.snapshot.InstanceDisks(master.Instance(NEW))


def test_made_grown_moved_and_removed(taped: Master) -> None:
    _Create(taped)
    (disk,) = _Disks(taped)
    assert (disk.dev_type, disk.logical_id[0], len(disk.nodes)) == ("tape", "reel", 1)
    taped.Run(opcodes.OpInstanceGrowDisk(instance_name=NEW, disk=0, amount=512))
    taped.Run(opcodes.OpInstanceSetParams(instance_name=NEW, disks=[["add", -1, {"size": 2048}]]))
    assert [disk.size for disk in _Disks(taped)] == [1536, 2048]
    taped.Run(opcodes.OpInstanceShutdown(instance_name=NEW))
    Transfers(taped)
    taped.Run(opcodes.OpInstanceMove(instance_name=NEW, target_node="node2"))
    assert [taped.snapshot.NodeName(uuid) for disk in _Disks(taped) for uuid in disk.nodes] == ["node2.example.org"] * 2
    taped.Run(opcodes.OpInstanceRecreateDisks(instance_name=NEW, nodes=["node1"]))
    assert {disk.nodes for disk in _Disks(taped)} == {(taped.Instance(NEW).primary_node,)}
    assert taped.snapshot.NodeName(taped.Instance(NEW).primary_node).startswith("node1")
    (info,) = taped.Run(opcodes.OpInstanceQueryData(instances=[NEW], static=True)).values()
    assert info["disks"][0]["logical_id"][0] == "reel"
    taped.Run(opcodes.OpInstanceRemove(instance_name=NEW))
    assert not any(disk.dev_type == "tape" for disk in taped.snapshot.disks.values())


def test_what_it_cannot_do_is_refused(taped: Master) -> None:
    _Create(taped)
    for op in (
        opcodes.OpInstanceMigrate(instance_name=NEW),
        opcodes.OpInstanceReplaceDisks(instance_name=NEW, mode="replace_on_primary", disks=[]),
    ):
        before: Any = taped.snapshot.serial_no
        with pytest.raises(errors.OpPrereqError):
            taped.Run(op)
        assert taped.snapshot.serial_no == before


def test_its_units_are_listed_and_changed(taped: Master) -> None:
    fields = ["node", "type", "name", "free", "air"]
    # It is the type of the cluster's first template.
    rows = taped.Run(opcodes.OpNodeQueryStorage(output_fields=fields, nodes=["node2"]))
    assert rows == [["node2.example.org", "cellar", name, 60.0, "dry"] for name in ("left", "right")]
    assert "cellar" in (list_storage.STORAGE_TYPE.choices or ())
    with pytest.raises(errors.OpPrereqError, match="Unknown output fields selected: air"):
        taped.Run(opcodes.OpNodeQueryStorage(output_fields=["air"], storage_type="lvm-vg"))

    def change(**changes: str) -> None:
        op = opcodes.OpNodeModifyStorage(node_name="node1", storage_type="cellar", name="left", changes=changes)
        taped.Run(op)

    change(air="damp")
    assert CELLARS.done == [("left", {"air": "damp"})]
    for changes, problem in (({"air": "wet"}, "air must be .*damp"), ({"size": "1"}, "'cellar': size")):
        with pytest.raises(errors.OpPrereqError, match=problem):
            change(**changes)
    assert len(CELLARS.done) == 1


def test_a_unit_with_the_only_copy_is_not_repaired(taped: Master) -> None:
    def repair(name: str, **values: bool) -> None:
        op = opcodes.OpRepairNodeStorage(node_name="node1", storage_type="cellar", name=name, **values)
        taped.Run(op)

    CELLARS.done.clear()
    _Create(taped)
    with pytest.raises(errors.OpPrereqError, match=f"Cellar 'left' of node node1.*: {NEW} has disks on this node only"):
        repair("left")
    repair("right")
    repair("left", ignore_consistency=True)
    assert CELLARS.done == ["right", "left"]
    # Nothing is asked about volumes, which cellars do not hold.
    assert not {"node_volumes", "lv_list"}.intersection(taped[0].calls)
