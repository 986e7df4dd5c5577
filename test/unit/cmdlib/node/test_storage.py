"""Volumes and storage units of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.configs import WEB
from support.master import Master

from ganeti import constants, errors, opcodes

ALL_FIELDS = ["node", "type", "name", "size", "used", "free", "allocatable"]


def _Refused(master: Master, op: opcodes.OpCode, match: str, ecode: str = errors.ECODE_INVAL) -> errors.OpPrereqError:
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(op)
    assert caught.value.args[1] == ecode
    return caught.value


def _Messages(master: Master) -> str:
    return "\n".join(master.last.messages)


# --- listing ------------------------------------------------------------------------------------------------------------


def test_volumes_and_whose_they_are(make: Callable[..., Master]) -> None:
    master = make(2)
    fields = ["node", "phys", "vg", "name", "size", "instance"]
    rows = master.Run(opcodes.OpNodeQueryvols(output_fields=fields))
    mine = [row for row in rows if row[-1] == "web.example.org"]
    assert {row[0] for row in mine} == {"node1.example.org", "node2.example.org"} and mine == rows
    assert all(isinstance(cell, str) for row in rows for cell in row)
    # One that belongs to nobody, on one node only.
    device = next(iter(master[1].devices.values()))
    master[1].devices["plain:xenvg/left"] = device
    rows = master.Run(opcodes.OpNodeQueryvols(output_fields=["name", "instance"], nodes=["node2"]))
    assert ["left", "-"] in rows and len(rows) == len(mine) / 2 + 1
    _Refused(master, opcodes.OpNodeQueryvols(output_fields=["colour"]), "Unknown output fields")


def test_nodes_that_say_nothing_are_left_out(master: Master) -> None:
    master[1].faults["node_volumes"] = "lvm is broken"
    rows = master.Run(opcodes.OpNodeQueryvols(output_fields=["node"]))
    assert {row[0] for row in rows} == {"node1.example.org"} and "node2.example.org: lvm is broken" in _Messages(master)
    master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(offline=True))
    rows = master.Run(opcodes.OpNodeQueryvols(output_fields=["node"]))
    assert {row[0] for row in rows} == {"node1.example.org"} and master.last.messages == []


@pytest.mark.req("D21-REPAIR-05")
def test_storage_units(master: Master) -> None:
    rows = master.Run(opcodes.OpNodeQueryStorage(output_fields=ALL_FIELDS))
    assert rows == [[f"node{n}.example.org", "lvm-vg", "xenvg", 500000, 100000, 400000, True] for n in (1, 2)]
    rows = master.Run(
        opcodes.OpNodeQueryStorage(output_fields=["allocatable", "node"], storage_type="lvm-pv", nodes=["node2"])
    )
    assert rows == [[True, "node2.example.org"]]
    assert master[1].arguments["storage_list"] == ("lvm-pv", [], None, ["name", "allocatable"])


def test_file_storage_has_directories(master: Master) -> None:
    cluster = master.cfg.GetClusterInfo()
    master.cfg.Update(cluster.Replace(enabled_disk_templates=["file", "drbd"]))
    rows = master.Run(opcodes.OpNodeQueryStorage(output_fields=["type"], name="/srv/ganeti/file-storage"))
    assert rows == [["file"], ["file"]]
    assert master[0].arguments["storage_list"][:3] == (
        "file",
        [["/srv/ganeti/file-storage"]],
        "/srv/ganeti/file-storage",
    )


def test_types_without_units(master: Master) -> None:
    for kind, match in (("diskless", "no units to report"), ("file", "none of its disk templates")):
        _Refused(master, opcodes.OpNodeQueryStorage(output_fields=["name"], storage_type=kind), match)
    _Refused(master, opcodes.OpNodeQueryStorage(output_fields=["colour"]), "Unknown output fields")


def test_listing_shares_what_it_locks(master: Master) -> None:
    held: set[str] = set()
    master[0].before = lambda name, args: held.update(
        f"{row.name} {row.mode}" for row in master.glm.QueryLocks() if row.owner and row.name != "cluster/BGL"
    )
    master.Run(opcodes.OpNodeQueryvols(output_fields=["name"], nodes=["node1"]))
    assert held == {f"node/{master.nodes[0]} shared"}
    held.clear()
    master.Run(opcodes.OpNodeQueryStorage(output_fields=["name"]))
    assert {"node-alloc/NAL shared", *(f"node/{uuid} shared" for uuid in master.nodes)} <= held


# --- changing -----------------------------------------------------------------------------------------------------------


def test_a_physical_volume_takes_no_more(master: Master) -> None:
    def op(**values: Any) -> opcodes.OpCode:
        options = {
            "node_name": "node2",
            "storage_type": "lvm-pv",
            "name": "/dev/sda5",
            "changes": {"allocatable": False},
        }
        return opcodes.OpNodeModifyStorage(**{**options, **values})

    assert master.Run(op()) is None
    assert master[1].arguments["storage_modify"] == ("lvm-pv", [], "/dev/sda5", {"allocatable": False})
    _Refused(master, op(storage_type="lvm-vg"), "can not be modified")
    _Refused(master, op(changes={"size": 1}), "can not be modified.*size")
    _Refused(master, op(changes={"allocatable": "no"}), "true or false")
    _Refused(master, op(name=None), "name of the storage unit is missing")
    master[1].faults["storage_modify"] = "no such volume"
    with pytest.raises(errors.OpExecError, match=r"Failed to modify storage unit '/dev/sda5'.*no such volume"):
        master.Run(op())


# --- repairing ----------------------------------------------------------------------------------------------------------


def _Repair(**values: Any) -> opcodes.OpCode:
    options = {"node_name": "node1", "storage_type": "lvm-vg", "name": "xenvg"}
    return opcodes.OpRepairNodeStorage(**{**options, **values})


@pytest.mark.req("D21-REPAIR-01", "D21-REPAIR-02", "D21-REPAIR-03")
def test_a_volume_group_is_repaired_when_all_has_a_good_copy(master: Master) -> None:
    master[1].sync = [{"ldisk_status": constants.LDS_FAULTY}]
    error = _Refused(master, _Repair(), "disk 0 of web.example.org is not good on node node2", errors.ECODE_STATE)
    assert "--ignore-consistency" in str(error.hint) and "storage_execute" not in master[0].calls
    master[1].faults["blockdev_getmirrorstatus"] = "who knows"
    _Refused(master, _Repair(), "did not report the state of web.example.org: who knows", errors.ECODE_STATE)
    master[1].faults.clear()
    assert master.Run(_Repair()) is None
    assert master[0].arguments["storage_execute"] == ("lvm-vg", [], "xenvg", "fix-consistency")


@pytest.mark.req("D21-REPAIR-03")
def test_what_lies_here_only_forbids_it(master: Master) -> None:
    master.cfg.MarkInstanceDisksInactive(WEB)
    _Refused(master, _Repair(), "web.example.org is stopped", errors.ECODE_STATE)
    inst = master.snapshot.instances[WEB]
    (drbd,) = master.snapshot.InstanceDisks(inst)
    master.cfg.Transact(
        lambda draft: draft.Touch(
            drbd.Replace(dev_type="plain", logical_id=("xenvg", "lv"), children=(), nodes=[master.nodes[0]])
        )
    )
    _Refused(master, _Repair(), "web.example.org has disks on this node only", errors.ECODE_STATE)
    assert master.Run(_Repair(ignore_consistency=True)) is None
    assert "only good copy of data: web.example.org" in _Messages(master)
    assert master.Run(_Repair(node_name="node2")) is None, "nothing lies there"
    _Refused(master, _Repair(storage_type="lvm-pv"), "can not be repaired")
