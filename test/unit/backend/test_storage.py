"""Procedures for storage units, volumes and volume groups, on a simulated machine with the programs of LVM."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from simulated import Machine, World
from support.standinlvm import StandInLvm

from ganeti import backend, errors, pathutils, runtime

FIELDS = ["name", "size", "used", "free", "allocatable"]


class Node:
    """A machine with two volume groups; ``Serve`` is one call of a procedure."""

    def __init__(self) -> None:
        self.machine: Machine = World(1).AddMachine("node1")
        self.lvm = StandInLvm(self.machine)
        for name, group, size in (("/dev/sda", "vg", 1024), ("/dev/sdb", "vg", 1024), ("/dev/sdc", "other", 512)):
            self.lvm.AddPv(name, group, size)
        for argv in ("lvcreate -Wn -L100m -nX_data -i1 vg /dev/sda", "lvcreate -Wn -L8m -nX_meta -i1 vg /dev/sda",
                     "lvcreate -Wn -L200m -nswap -i1 other"):  # fmt: skip
            self.machine.Call(runtime.RunCmd, argv.split())
        self.machine.Call(self._Furnish)

    def _Furnish(self) -> None:
        runtime.MakeDirs("/proc/sys/kernel/random")
        runtime.WriteFile("/proc/sys/kernel/random/boot_id", "boot\n")
        runtime.MakeDirs(pathutils.RUN_DIR)

    def Serve(self, procedure: str, *args: Any) -> Any:
        return self.machine.Call(backend.Handlers()[procedure], *args)


@pytest.fixture
def node() -> Node:
    return Node()


def test_volumes_of_a_node(node: Node) -> None:
    node.lvm.lvs["vg", "X_data"].open = True
    node.lvm.lvs["other", "swap"].active = False
    assert node.Serve("lv_list", []) == {
        "vg/X_data": ["100.00", False, True],
        "vg/X_meta": ["8.00", False, False],
        "other/swap": ["200.00", True, False],
    }
    assert set(node.Serve("lv_list", ["other"])) == {"other/swap"}
    assert node.Serve("vg_list") == {"vg": 2048, "other": 512}
    assert node.Serve("node_volumes")[2] == {
        "name": "swap",
        "size": "200.00",
        "dev": "/dev/sdc",
        "vg": "other",
        "health": "",
    }


@pytest.mark.req("D21-STOR-01", "D21-STOR-03", "D21-REPAIR-05")
def test_units_of_every_type_are_listed(node: Node) -> None:
    assert node.Serve("storage_list", "lvm-vg", [], None, FIELDS) == [
        ["other", 512, 200, 312, True],
        ["vg", 2048, 108, 1940, True],
    ]
    assert node.Serve("storage_list", "lvm-pv", [], "/dev/sda", FIELDS) == [["/dev/sda", 1024, 108, 916, True]]
    [[name, size, used, free, allocatable]] = node.Serve("storage_list", "file", [["/"]], None, FIELDS)
    assert (name, allocatable) == ("/", True) and size == used + free > 0
    assert node.Serve("storage_list", "lvm-vg", [], "nowhere", FIELDS) == []
    with pytest.raises(errors.StorageError, match="'tape' has no units; those that have: lvm-pv"):
        node.Serve("storage_list", "tape", [], None, FIELDS)
    with pytest.raises(errors.StorageError, match="no field 'colour'"):
        node.Serve("storage_list", "lvm-vg", [], None, ["colour"])


@pytest.mark.req("D21-STOR-05", "D21-REPAIR-06")
def test_a_physical_volume_takes_nothing_new(node: Node) -> None:
    node.Serve("storage_modify", "lvm-pv", [], "/dev/sda", {"allocatable": False})
    assert node.Serve("storage_list", "lvm-pv", [], "/dev/sda", ["allocatable"]) == [[False]]
    node.Serve("storage_modify", "lvm-pv", [], "/dev/sda", {"allocatable": True})
    assert node.lvm.pvs["/dev/sda"].allocatable
    for changes, name, match in (
        ({"size": 5}, "/dev/sda", "size cannot be changed"),
        ({"allocatable": True}, "/dev/sdz", "is not on this node"),
    ):
        with pytest.raises(errors.StorageError, match=match):
            node.Serve("storage_modify", "lvm-pv", [], name, changes)
    with pytest.raises(errors.StorageError, match="lvm-vg: changing vg is not possible"):
        node.Serve("storage_modify", "lvm-vg", [], "vg", {"allocatable": False})


@pytest.mark.req("D21-STOR-07", "D21-STOR-08", "D21-STOR-09", "D21-REPAIR-01")
def test_a_volume_group_is_repaired(node: Node) -> None:
    node.Serve("storage_execute", "lvm-vg", [], "vg", "fix-consistency")
    assert node.lvm.Count("vgreduce") == 0, "it is whole"
    node.lvm.pvs["/dev/sda"].missing = True
    node.Serve("storage_execute", "lvm-vg", [], "vg", "fix-consistency")
    assert node.lvm.Volumes() == ["other/swap"]
    # The effect on the other type belongs to this operation alone.
    assert node.Serve("storage_list", "lvm-pv", [], None, ["name"]) == [["/dev/sdb"], ["/dev/sdc"]]
    assert [argv for argv in node.lvm.runs if argv[0] == "vgreduce"] == [
        ["vgreduce", "--removemissing", "vg"],
        ["vgreduce", "--removemissing", "--force", "vg"],
    ]
    with pytest.raises(errors.StorageError, match="Volume group gone is not on this node"):
        node.Serve("storage_execute", "lvm-vg", [], "gone", "fix-consistency")
    with pytest.raises(errors.StorageError, match="lvm-pv: repairing /dev/sdb is not possible"):
        node.Serve("storage_execute", "lvm-pv", [], "/dev/sdb", "fix-consistency")
    with pytest.raises(errors.RpcCallError, match="cannot do 'format'"):
        node.Serve("storage_execute", "lvm-vg", [], "vg", "format")


def test_a_repair_that_changes_nothing_is_an_error(node: Node) -> None:
    node.lvm.pvs["/dev/sda"].missing = True
    node.machine.programs["vgreduce"] = lambda invocation: 0
    with pytest.raises(errors.StorageError, match="still missing after its repair"):
        node.Serve("storage_execute", "lvm-vg", [], "vg", "fix-consistency")


def test_a_disk_that_is_back_is_not_taken_out_and_its_path_is_one_word_of_the_command(node: Node) -> None:
    path = "/dev/mapper/shelf 1; disk 2"
    node.lvm.AddPv(path, "vg", 1024)
    node.lvm.pvs[path].flagged = True
    with pytest.raises(errors.StorageError, match=f"left as it is: {path} is there again") as caught:
        node.Serve("storage_execute", "lvm-vg", [], "vg", "fix-consistency")
    command = re.search(r"'(vgextend .*)' takes it back", str(caught.value))
    assert command is not None and shlex.split(command[1]) == ["vgextend", "--restoremissing", "vg", path]


@pytest.mark.req("RM-NODE-13")
@pytest.mark.parametrize(
    "unit, space",
    [
        (["lvm-vg", "vg", [False]], (1940, 2048)),
        (["lvm-vg", "vg", [True]], (994, 1988)),
        (["lvm-pv", "vg", [True]], (1, 2)),
        (["lvm-pv", "vg", [False]], (0, 0)),
        (["lvm-vg", "gone", [False]], (None, None)),
        (["rados", "pool", None], (None, None)),
    ],
)
def test_what_is_not_there_hides_nothing(node: Node, unit: list[Any], space: tuple[Any, Any]) -> None:
    boot, storage, _ = node.Serve("node_info", [unit, ["lvm-vg", "other", [False]]], None)
    assert boot == "boot"
    assert storage == [
        {"type": unit[0], "name": unit[1], "storage_free": space[0], "storage_size": space[1]},
        {"type": "lvm-vg", "name": "other", "storage_free": 312, "storage_size": 512},
    ]
    assert node.lvm.Count("vgs") == 1 if unit[0] != "lvm-pv" else True


def _Verify(node: Node, **wanted: Any) -> dict[str, Any]:
    request = {name.replace("_", "-"): value for name, value in wanted.items()}
    return dict(node.Serve("node_verify", request, "cluster", {}))


def test_what_verify_asks(node: Node) -> None:
    found = _Verify(node, lvlist="vg", vglist=None, pvlist=["vg"], exclusive_pvs=True)
    assert set(found["lvlist"]) == {"vg/X_data", "vg/X_meta", "other/swap"}
    assert found["vglist"] == {"vg": 2048, "other": 512}
    assert [(pv["name"], pv["vg_name"], pv["size"]) for pv in found["pvlist"]] == [
        ("/dev/sda", "vg", 1024),
        ("/dev/sdb", "vg", 1024),
    ]
    assert found["exclusive-pvs"] == [], "both halves of a mirror may be on one disk"
    node.machine.Call(runtime.RunCmd, ["lvcreate", "-Wn", "-L100m", "-nY_data", "-i1", "vg", "/dev/sda"])
    assert _Verify(node, pvlist=["vg"], exclusive_pvs=True)["exclusive-pvs"] == [
        ["/dev/sda", ["X_data", "X_meta", "Y_data"]]
    ]
    assert "exclusive-pvs" not in _Verify(node, exclusive_pvs=True)


def test_verify_without_lvm(node: Node) -> None:
    for name in ("lvs", "vgs", "pvs"):
        del node.machine.programs[name]
    found = _Verify(node, lvlist="vg", vglist=None, pvlist=["vg"])
    assert "LVM cannot be asked: 'lvs' failed" in found.pop("lvlist")
    assert found == {}
