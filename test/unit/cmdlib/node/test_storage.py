"""Storage units of nodes: what is rejected before a node is asked, what nodes report, and repairs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master

from ganeti import constants, errors, objects, opcodes, runtime
from ganeti.storage import units

WEB = "web.example.org"


@pytest.mark.parametrize(
    ("op", "match"),
    [
        (opcodes.OpNodeQueryStorage(output_fields=["name"], storage_type="diskless"), "no units to report"),
        (opcodes.OpNodeQueryStorage(output_fields=["name"], storage_type="file"), "none of its disk templates"),
        (opcodes.OpNodeQueryStorage(output_fields=["colour"]), "Unknown output fields"),
        (opcodes.OpNodeQueryvols(output_fields=["colour"]), "Unknown output fields"),
        (
            opcodes.OpNodeModifyStorage(
                node_name="node2", storage_type="lvm-vg", name="x", changes={"allocatable": True}
            ),
            "cannot be modified",
        ),
        (
            opcodes.OpNodeModifyStorage(
                node_name="node2", storage_type="lvm-pv", name="/dev/sda5", changes={"size": 1}
            ),
            "cannot be modified.*size",
        ),
        (
            opcodes.OpNodeModifyStorage(
                node_name="node2", storage_type="lvm-pv", name="/dev/sda5", changes={"allocatable": "no"}
            ),
            "true or false",
        ),
        (
            opcodes.OpNodeModifyStorage(node_name="node2", storage_type="lvm-pv", changes={"allocatable": True}),
            "name of the storage unit is missing",
        ),
        (
            opcodes.OpRepairNodeStorage(node_name="node1", storage_type="lvm-pv", name="/dev/sda5"),
            "cannot be repaired",
        ),
    ],
)
def test_what_storage_units_cannot_do(master: Master, op: opcodes.OpCode, match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(op)
    assert caught.value.args[1] == errors.ECODE_INVAL
    assert not [name for name in master[0].calls + master[1].calls if name.startswith(("storage_", "node_volumes"))]


# --- what nodes have ------------------------------------------------------------------------------------------------------


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    """Two nodes with LVM, their volumes those of the example's mirror."""
    return make(2, lvm=True)


@pytest.fixture
def plain(make: Callable[..., Master]) -> Master:
    """Two nodes with LVM; the instance's disk is on the first one only."""
    return make(2, lvm=True, change=_Plain)


def _Plain(root: objects.Snapshot) -> objects.Snapshot:
    [disk] = root.disks.values()
    first = disk.nodes[:1]
    plain = disk.Replace(dev_type="plain", logical_id=disk.children[0].logical_id, children=[], nodes=first)
    return root.Replace(disks={disk.uuid: plain})


@pytest.mark.req("D21-STOR-03", "D21-STOR-04", "D21-REPAIR-05")
def test_the_units_of_all_nodes_and_of_one(two: Master) -> None:
    fields = ["node", "type", "name", "size", "used", "free", "allocatable"]
    rows = two.Run(opcodes.OpNodeQueryStorage(output_fields=fields, storage_type="lvm-pv", nodes=["node2"]))
    assert rows == [
        ["node2.example.org", "lvm-pv", "/dev/sda", 65536, 10368, 55168, True],
        ["node2.example.org", "lvm-pv", "/dev/sdb", 65536, 0, 65536, True],
    ]
    two[1].lvm.pvs["/dev/sdb"].allocatable = False
    rows = two.Run(opcodes.OpNodeQueryStorage(output_fields=fields, storage_type="lvm-pv", nodes=["node2"]))
    assert [row[-1] for row in rows] == [True, False]
    rows = two.Run(opcodes.OpNodeQueryStorage(output_fields=["node", "free"], storage_type="lvm-vg", name="xenvg"))
    assert rows == [["node1.example.org", 120704], ["node2.example.org", 120704]]
    two[1].faults["storage_list"] = "LVM is broken"
    rows = two.Run(opcodes.OpNodeQueryStorage(output_fields=["node"], storage_type="lvm-vg"))
    assert rows == [["node1.example.org"]]
    assert any("node2.example.org: LVM is broken" in text for text in two.last.messages)


def test_the_physical_volumes_that_are_away(two: Master) -> None:
    def seen() -> Any:
        op = opcodes.OpNodeQueryStorage(output_fields=["node", "name", "missing"], storage_type="lvm-vg")
        return two.Run(op)

    assert seen() == [["node1.example.org", "xenvg", []], ["node2.example.org", "xenvg", []]]
    for name in ("/dev/sda", "/dev/sdb"):
        two[1].lvm.pvs[name].missing = True
    assert seen()[1] == ["node2.example.org", "xenvg", ["uuid-of-sda", "uuid-of-sdb"]]
    # A look that nobody wants is not made.
    runs = two[0].lvm.Count("pvs")
    two.Run(opcodes.OpNodeQueryStorage(output_fields=["name", "free"], storage_type="lvm-vg"))
    assert two[0].lvm.Count("pvs") == runs


def test_each_physical_volume_that_is_away_is_listed(two: Master) -> None:
    def seen() -> list[list[Any]]:
        fields = ["name", "size", "free", "allocatable"]
        found: list[list[Any]] = two.Run(
            opcodes.OpNodeQueryStorage(output_fields=fields, storage_type="lvm-pv", nodes=["node2"])
        )
        return found

    two[1].lvm.AddPv("/dev/sdc", "xenvg", 1024)
    before = {row[0]: row[1:3] for row in seen()}
    runs = two[1].lvm.Count("pvs")
    seen()
    assert two[1].lvm.Count("pvs") == runs + 1, "one look suffices while none is away"
    for name in ("/dev/sda", "/dev/sdc"):
        two[1].lvm.pvs[name].missing = True
    rows = {row[0]: row[1:] for row in seen()}
    assert sorted(rows) == ["/dev/sdb", "[unknown]:uuid-of-sda", "[unknown]:uuid-of-sdc"]
    assert [rows[f"[unknown]:uuid-of-{name}"][:2] for name in ("sda", "sdc")] == [
        before["/dev/sda"],
        before["/dev/sdc"],
    ]
    # One that counts as missing and is there again has its path.
    two[1].lvm.pvs["/dev/sdc"].missing, two[1].lvm.pvs["/dev/sdc"].flagged = False, True
    assert sorted(row[0] for row in seen()) == ["/dev/sdb", "/dev/sdc", "[unknown]:uuid-of-sda"]


@pytest.mark.parametrize(
    ("procedure", "op"),
    [
        ("storage_list", opcodes.OpNodeQueryStorage(output_fields=["node"], storage_type="lvm-vg")),
        ("node_volumes", opcodes.OpNodeQueryvols(output_fields=["node"], nodes=["node1", "node2"])),
    ],
)
def test_a_look_holds_no_locks_and_gives_up_a_node_that_hangs(two: Master, procedure: str, op: opcodes.OpCode) -> None:
    held: list[Any] = []

    def hang(name: str, _args: object) -> None:
        if name == procedure:
            held.extend(row for row in two.glm.QueryLocks() if row.owner and row.name != "cluster/BGL")
            runtime.Sleep(7200)

    two[1].before = hang
    began = runtime.Monotonic()
    rows = two.Run(op)
    assert {row[0] for row in rows} == {"node1.example.org"} and held == []
    assert runtime.Monotonic() - began < 65
    assert any("Can't get storage data from node node2.example.org" in text for text in two.last.messages)


def test_a_node_of_an_older_release_rejects_the_field_and_is_not_listed(two: Master) -> None:
    two[1].faults["storage_list"] = "Storage units have no field 'missing'"
    rows = two.Run(opcodes.OpNodeQueryStorage(output_fields=["node", "missing"], storage_type="lvm-vg"))
    assert rows == [["node1.example.org", []]]


def test_only_volume_groups_have_missing_parts(two: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="Unknown output fields selected: missing"):
        two.Run(opcodes.OpNodeQueryStorage(output_fields=["missing"], storage_type="lvm-pv"))
    for kind in ("lvm-pv", "file"):
        with pytest.raises(errors.StorageError, match=f"type {kind} have no field 'missing'"):
            units.List(kind, [], None, ["missing"])


def test_volumes_with_their_owners(two: Master) -> None:
    two[1].Call(runtime.RunCmd, ["lvcreate", "-Wn", "-L100m", "-nmine", "-i1", "xenvg"])
    fields = ["node", "phys", "vg", "name", "size", "instance"]
    rows = two.Run(opcodes.OpNodeQueryvols(output_fields=fields, nodes=["node2"]))
    name = "00000077-aaaa-4bbb-8ccc-000000000077.disk0_"
    assert [row[3:] for row in rows] == [
        [f"{name}data", "10240", WEB], [f"{name}meta", "128", WEB], ["mine", "100", "-"]
    ]  # fmt: skip
    assert {tuple(row[:3]) for row in rows} == {("node2.example.org", "/dev/sda", "xenvg")}


@pytest.mark.req("D21-STOR-05", "D21-REPAIR-06")
def test_no_new_volume_on_a_physical_volume_that_is_closed(two: Master) -> None:
    def change(allocatable: bool) -> None:
        changes = {"allocatable": allocatable}
        two.Run(opcodes.OpNodeModifyStorage(node_name="node1", storage_type="lvm-pv", name="/dev/sda", changes=changes))

    change(False)
    rows = two.Run(
        opcodes.OpNodeQueryStorage(output_fields=["name", "allocatable"], storage_type="lvm-pv", nodes=["node1"])
    )
    assert rows == [["/dev/sda", False], ["/dev/sdb", True]]
    used = two[0].lvm.pvs["/dev/sda"].free
    two.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["add", -1, {"size": 2048}]]))
    assert two[0].lvm.pvs["/dev/sda"].free == used and two[0].lvm.pvs["/dev/sdb"].free < 65536
    change(True)
    assert two[0].lvm.pvs["/dev/sda"].allocatable


# --- repair ---------------------------------------------------------------------------------------------------------------


def _Repair(master: Master, node: str = "node2", name: str = "xenvg", **values: Any) -> None:
    master.Run(opcodes.OpRepairNodeStorage(node_name=node, storage_type="lvm-vg", name=name, **values))


def _Rejects(master: Master, match: str, **values: Any) -> None:
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Repair(master, **values)
    assert caught.value.args[1] == errors.ECODE_STATE and "--ignore-consistency" in str(caught.value.hint)
    assert not {"storage_execute"} & {*master[0].calls, *master[1].calls}


@pytest.mark.req("D21-REPAIR-01")
def test_a_volume_group_is_repaired_if_the_other_copies_are_good(two: Master) -> None:
    two[1].lvm.pvs["/dev/sda"].missing = True
    _Repair(two)
    assert list(two[1].lvm.pvs) == ["/dev/sdb"]
    [lost] = [text for text in two.last.messages if f"Instance {WEB} lost" in text]
    assert lost.count("xenvg/") == 2
    assert f"'gnt-instance replace-disks -a {WEB}'" in str(two.last.log)


def test_nothing_else_is_repaired_than_what_was_looked_at(two: Master) -> None:
    two[1].lvm.pvs["/dev/sda"].missing = True
    for expected in ([], ["uuid-of-sdb"], ["uuid-of-sda", "uuid-of-sdb"]):
        with pytest.raises(errors.OpPrereqError, match=r"is left as it is.*uuid-of-sda, not") as caught:
            _Repair(two, missing=expected)
        assert caught.value.args[1] == errors.ECODE_STATE
    two[1].faults["storage_list"] = "LVM is broken"
    with pytest.raises(errors.OpPrereqError, match=r"node2.example.org: LVM is broken"):
        _Repair(two, missing=["uuid-of-sda"])
    two[1].faults.clear()
    assert "storage_execute" not in two[1].calls
    _Repair(two, missing=["uuid-of-sda"])
    assert list(two[1].lvm.pvs) == ["/dev/sdb"]


def test_not_while_a_volume_of_somebody_else_would_be_lost(two: Master) -> None:
    """Such as the node's own root file system, or a disk that was detached and forgotten."""

    def make(name: str, device: str) -> None:
        two[1].Call(runtime.RunCmd, ["lvcreate", "-Wn", "-L100m", f"-n{name}", "-i1", "xenvg", device])

    make("root", "/dev/sda")
    make("swap", "/dev/sdb")
    two[1].lvm.pvs["/dev/sda"].missing = True
    _Rejects(two, r": volume xenvg/root, which .* on a missing disk, belongs to no instance")
    two[1].faults["node_volumes"] = "LVM is broken"
    _Rejects(two, "did not report its volumes: LVM is broken")
    two[1].faults.clear()
    _Repair(two, ignore_consistency=True)
    assert two[1].lvm.Volumes() == ["xenvg/swap"]


def test_the_path_of_a_disk_that_is_back_is_one_word_of_the_command_that_takes_it_back(two: Master) -> None:
    path = "/dev/mapper/shelf 1; disk 2"
    two[1].lvm.AddPv(path, "xenvg", 65536)
    two[1].lvm.pvs[path].flagged = two[1].lvm.pvs["/dev/sda"].flagged = True
    with pytest.raises(errors.OpPrereqError, match=f"{path}, /dev/sda is there again") as caught:
        _Repair(two, missing=[two[1].lvm.pvs[path].uuid])
    command = re.search(r"'(vgextend .*)' on the node takes it back", str(caught.value.hint))
    assert command is not None
    two[1].Call(runtime.RunCmd, shlex.split(command[1]))
    assert not any(pv.flagged for pv in two[1].lvm.pvs.values())


def test_a_disk_that_is_back_is_not_given_up(two: Master) -> None:
    """LVM counts it as missing, and would remove what is on it, until it is told otherwise."""
    pv = two[1].lvm.pvs["/dev/sda"]
    pv.flagged = True
    for values in ({}, {"ignore_consistency": True}):
        with pytest.raises(errors.OpExecError, match="'vgextend --restoremissing xenvg /dev/sda' takes it back"):
            _Repair(two, **values)
    with pytest.raises(errors.OpPrereqError, match="/dev/sda is there again") as caught:
        _Repair(two, missing=[pv.uuid])
    assert "'vgextend --restoremissing xenvg /dev/sda'" in str(caught.value.hint)
    assert two[1].lvm.Count("vgreduce") == 0
    two[1].Call(runtime.RunCmd, ["lvcreate", "-Wn", "-L100m", "-nroot", "-i1", "xenvg", "/dev/sdb"])
    two[1].lvm.lvs["xenvg", "root"].segments = [("/dev/sda", 100)]
    two[1].calls.clear()
    _Rejects(two, r": volume xenvg/root, which .* on a missing disk, belongs to no instance")


def test_volumes_that_are_used_are_not_given_up(two: Master) -> None:
    two[1].lvm.pvs["/dev/sda"].missing = True
    next(iter(two[1].lvm.lvs.values())).open = True
    with pytest.raises(errors.OpExecError, match=r"in use"):
        _Repair(two)
    assert list(two[1].lvm.pvs) == ["/dev/sda", "/dev/sdb"]


@pytest.mark.req("D21-REPAIR-02", "D21-REPAIR-03")
def test_not_while_the_other_copy_is_not_good(two: Master) -> None:
    two[1].lvm.pvs["/dev/sda"].missing = True
    two[0].SetMirrors({"ldisk_status": constants.LDS_FAULTY, "is_degraded": True})
    _Rejects(two, r"the copy of disk/0 of web.example.org on node node1.example.org is not good")
    two[0].SetMirrors({})
    two[0].faults["blockdev_getmirrorstatus"] = "no answer"
    _Rejects(two, r"node node1.example.org did not report the state of web.example.org: no answer")
    two[0].faults.clear()
    two[0].answers["blockdev_getmirrorstatus"] = []
    _Rejects(two, r"node node1.example.org did not report the state of web.example.org: .* it has 0 entries for 1")
    two[0].answers.clear()
    # The configuration may know better than DRBD, which still calls old data good.
    [disk] = two.snapshot.disks.values()
    two.cfg.Update(disk.Replace(behind={"node": two.nodes[0], "since": 1.0}))
    _Rejects(two, r"the copy of disk/0 of web.example.org on node node1.example.org is not good")
    two.cfg.Update(two.snapshot.disks[disk.uuid].Replace(behind=None))
    two.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    _Rejects(two, r"web.example.org does not use its disks.*'gnt-instance activate-disks web.example.org'")
    _Repair(two, ignore_consistency=True)
    assert any("may hold the only good copy" in text for text in two.last.messages)
    assert list(two[1].lvm.pvs) == ["/dev/sdb"]


@pytest.mark.req("D21-REPAIR-03")
def test_not_while_there_is_no_other_copy(plain: Master) -> None:
    _Rejects(
        plain,
        r"Volume group 'xenvg' of node node1.example.org.*: web.example.org has disks on this node only",
        node="node1",
    )
    _Repair(plain, node="node2")
    plain[0].InstallLvm(65536, group="other")
    _Repair(plain, node="node1", name="other")
    plain.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    plain.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["detach", 0, {}]], ignore_ipolicy=True))
    plain[0].calls.clear()
    plain[1].calls.clear()
    _Rejects(plain, "is attached to no instance", node="node1")


def test_what_is_lost_is_named(plain: Master) -> None:
    plain[0].lvm.pvs["/dev/sda"].missing = True
    _Repair(plain, node="node1", ignore_consistency=True)
    assert f"Instance {WEB} lost xenvg/" in str(plain.last.messages)
    assert f"'gnt-instance recreate-disks --disk=0 {WEB}' makes them again, empty" in str(plain.last.log)
    # The advice works.
    plain.Run(opcodes.OpInstanceShutdown(instance_name=WEB, force=True))
    plain.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, disks=[[0, {}]]))
    plain.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpExecError, match="Volume group gone is not on this node"):
        _Repair(plain, node="node1", name="gone", ignore_consistency=True)
