"""Instances on LVM: adoption, volume groups that are full or missing, exclusive storage from creation to verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master

from ganeti import constants, errors, objects, opcodes, pathutils, runtime
from ganeti.params.disk import TEMPLATES

WEB = "web.example.org"
VG = "xenvg"


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    """Two nodes with LVM, two physical volumes of 64 GiB each; no instance."""
    return make(2, lvm=True, change=_Empty)


@pytest.fixture
def exclusive(make: Callable[..., Master]) -> Master:
    """As ``two``, with exclusive storage on five physical volumes of each node."""
    return make(2, lvm=True, change=_Empty, prepare=_Exclusive)


def _Empty(root: objects.Snapshot) -> objects.Snapshot:
    return root.Replace(instances={}, disks={})


def _Exclusive(master: Master) -> None:
    for node in master.all:
        node.InstallLvm(10000, 10100, 10000, 10000, 10000)
    master.Run(opcodes.OpClusterSetParams(ndparams={"exclusive_storage": True}))


def _Add(master: Master, *disks: dict[str, Any], **values: Any) -> None:
    master.Run(OnDisks(WEB, *disks, **{"disk_template": "plain", **values}))


def _Volumes(master: Master, number: int = 0) -> list[str]:
    return list(master[number].lvm.Volumes())


def _Grow(master: Master, disk: int, amount: int) -> None:
    master.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=disk, amount=amount))


def _Findings(master: Master) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True))
    codes = (":ENODELVM:", ":ENODEORPHANLV:", ":EINSTANCEM", ":EINSTANCEU", ":EGROUP")
    return [text for text in master.last.messages if any(code in text for code in codes)]


# --- adoption -------------------------------------------------------------------------------------------------------------


def _Foreign(master: Master, name: str = "foreign") -> None:
    command = ["lvcreate", "-Wn", "-L2000m", f"-n{name}", "-i1", VG]
    assert not master[0].Call(runtime.RunCmd, command).failed


def test_a_volume_is_adopted(two: Master) -> None:
    """As the command line asks for it: with size 0."""
    _Foreign(two)
    _Add(two, {"adopt": "foreign", "size": 0}, no_install=True)
    [disk] = two.snapshot.disks.values()
    assert disk.size == 2000 and _Volumes(two) == ["/".join(disk.logical_id)]
    assert _Findings(two) == []


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["gone"], "Missing logical volume.*node1.example.org: xenvg/gone"),
        (["busy"], "Online logical volumes found, cannot adopt: xenvg/busy"),
        (["foreign", "foreign"], "adopted more than once: xenvg/foreign'"),
    ],
)
def test_a_volume_that_cannot_be_adopted(two: Master, names: list[str], match: str) -> None:
    _Foreign(two)
    _Foreign(two, "busy")
    two[0].lvm.lvs[VG, "busy"].open = True
    with pytest.raises(errors.OpPrereqError, match=match):
        _Add(two, *({"adopt": name, "size": 0} for name in names), no_install=True)
    assert _Volumes(two) == [f"{VG}/busy", f"{VG}/foreign"] and two.snapshot.instances == {}


# --- no room --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("RM-CHK-01")
@pytest.mark.parametrize(
    ("disk", "match"),
    [
        ({"size": 140000}, "Not enough disk space on target node node1.example.org vg xenvg: required 140000 MiB"),
        ({"size": 2048, "vg": "gone"}, "did not report the free space of volume group 'gone'.*list-storage"),
        ({"size": 2048, "spindles": 2}, "Spindles in instance disks cannot be specified"),
    ],
)
def test_a_disk_that_has_no_place(two: Master, disk: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match):
        _Add(two, disk)
    assert _Volumes(two) == [] and two.snapshot.instances == {}


def test_a_group_that_fills_up_meanwhile(two: Master) -> None:
    """What was made of the instance is removed again."""

    def fill(name: str, args: tuple[Any, ...]) -> None:
        if name == "blockdev_create" and _Volumes(two):
            for pv in two[0].lvm.pvs.values():
                pv.free = 0

    two[0].before = fill
    with pytest.raises(
        errors.OpExecError, match=r"disk/1.*volume group xenvg has not enough space: 2048 MiB wanted, 0"
    ):
        _Add(two, {"size": 1024}, {"size": 2048})
    assert _Volumes(two) == [] and two.snapshot.instances == {} and two.snapshot.disks == {}


def test_a_volume_of_our_name_that_is_not_ours(two: Master) -> None:
    """It is left as it is, and named."""
    _Add(two, {"size": 1024})
    [disk] = two.snapshot.disks.values()
    name = disk.logical_id[1]
    two[0].lvm.lvs[VG, name].tags = ["somebody"]
    with pytest.raises(
        errors.OpExecError, match=f"plain {VG}/{name}: exists already on this node; it is left as it is"
    ):
        two.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB))
    assert two[0].lvm.lvs[VG, name].tags == ["somebody"]


# --- exclusive storage ----------------------------------------------------------------------------------------------------


def test_exclusive_storage_from_creation_to_removal(exclusive: Master) -> None:
    """A physical volume of 10000 MiB has room for 9708; sizes may differ a little."""
    master = exclusive
    _Add(master, {"size": 15000, "spindles": 2}, {"size": 1024, "spindles": 1})
    large, small = (master.snapshot.disks[uuid] for uuid in master.Instance(WEB).disks)
    assert (large.spindles, small.spindles) == (2, 1)
    lvs = master[0].lvm.lvs
    of_large, of_small = ({name for name, _ in lvs[disk.logical_id].segments} for disk in (large, small))
    assert len(of_large) == 2 and len(of_small) == 1 and not of_large & of_small
    assert lvs[large.logical_id].stripes == 2
    assert _Findings(master) == []

    # Free space is what empty physical volumes have.
    info = master.rpc.call_node_info([master.nodes[0]], [("lvm-vg", VG), ("lvm-pv", VG)], None)[master.nodes[0]].payload
    assert [(unit["storage_free"], unit["storage_size"]) for unit in info[1]] == [(19417, 48543), (2, 5)]

    # A disk grows within what it has, not into others.
    _Grow(master, 1, 8000)
    assert {name for name, _ in lvs[small.logical_id].segments} == of_small
    with pytest.raises(
        errors.OpExecError, match=r"its physical volumes have room for 6.. MiB more, 2000 MiB were asked for"
    ):
        _Grow(master, 1, 2000)
    assert master.snapshot.disks[small.uuid].size == 9024 and _Findings(master) == []

    # Another one: with spindles, and as many as there are.
    added = opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["add", -1, {"size": 1024, "spindles": 1}]])
    master.Run(added)
    master.Run(added)
    assert _Findings(master) == []
    with pytest.raises(errors.OpExecError, match="1 empty physical volumes are needed, this node has 0"):
        master.Run(added)
    master.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["remove", 3, {}]]))
    assert len(_Volumes(master)) == 3 and _Findings(master) == []
    master.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert _Volumes(master) == [] and all(pv.free == pv.size for pv in master[0].lvm.pvs.values())


@pytest.mark.parametrize(
    ("disk", "match"),
    [
        ({"size": 1024}, "Exclusive storage needs the number of spindles of disk 0"),
        ({"size": 1024, "spindles": 0}, "spindles of disk 0 must be positive"),
    ],
)
def test_spindles_are_needed(exclusive: Master, disk: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match):
        _Add(exclusive, disk)


@pytest.mark.parametrize(
    ("disk", "match"),
    [
        ({"size": 15000, "spindles": 1}, "15000 MiB need 2 physical volumes, 1 spindles were asked for"),
        ({"size": 15000, "spindles": 6}, "6 empty physical volumes are needed, this node has 5"),
    ],
)
def test_spindles_that_do_not_fit(exclusive: Master, disk: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.OpExecError, match=match):
        _Add(exclusive, disk)
    assert _Volumes(exclusive) == [] and exclusive.snapshot.instances == {}


def test_mirrors_do_not_go_with_exclusive_storage(exclusive: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="Disk template drbd is not supported with exclusive storage"):
        _Add(exclusive, {"size": 1024, "spindles": 1}, disk_template="drbd", snode="node2")


def test_spindles_of_volumes_from_before_are_recorded(two: Master) -> None:
    _Add(two, {"size": 1024})
    two.Run(opcodes.OpGroupSetParams(group_name="default", ndparams={"exclusive_storage": True}))
    assert [text.split(":")[1] for text in _Findings(two)] == ["EINSTANCEMISSINGCFGPARAMETER"]
    two.Run(opcodes.OpClusterRepairDiskSizes(instances=[WEB]))
    assert [disk.spindles for disk in two.snapshot.disks.values()] == [1] and _Findings(two) == []


def test_it_is_a_parameter_of_groups_not_of_nodes(two: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="exclusive_storage"):
        two.Run(opcodes.OpNodeSetParams(node_name="node1", ndparams={"exclusive_storage": True}))


# --- disk parameters and the state of copies --------------------------------------------------------------------------------


def _Lvs(master: Master, number: int, part: str) -> list[Any]:
    return [lv for (_, name), lv in master[number].lvm.lvs.items() if name.endswith(part)]


@pytest.mark.req(
    "RM-LIM-09",
    "RM-LIM-11",
    "RM-LIM-12",
    "RM-LIM-13",
    "RM-LIM-14",
    "RM-DISK-03",
    "RM-DISK-06",
    "RM-DISK-07",
    "RM-DISK-08",
    "RM-DISK-09",
    "D21-PARAM-06",
)
def test_stripes_and_volume_groups_of_new_disks(two: Master) -> None:
    for node in two.all:
        for letter in "xyz":
            node.lvm.AddPv(f"/dev/sd{letter}", "meta", 8192)
    parameters = {
        "plain": {"stripes": 2},
        "drbd": {"data-stripes": 2, "meta-stripes": 3, "metavg": "meta"},
    }
    two.Run(opcodes.OpClusterSetParams(diskparams=parameters))
    stored = two.Stored().cluster.ToDict()["diskparams"]
    assert (stored["plain"]["stripes"], stored["drbd"]["data-stripes"]) == (2, 2)
    _Add(two, {"size": 1024}, {"size": 1024, "metavg": VG}, disk_template="drbd", snode="node2")
    for number in (0, 1):
        assert [(lv.group, lv.stripes) for lv in _Lvs(two, number, "_data")] == [(VG, 2), (VG, 2)]
        # A disk may name its own group for metadata; there, fewer stripes are better than no volume.
        assert [(lv.group, lv.stripes) for lv in _Lvs(two, number, "_meta")] == [("meta", 3), (VG, 2)]
        assert {lv.size for lv in _Lvs(two, number, "_meta")} == {128}, "stripes do not make them larger"
    # Volumes that are made later get the same: in place of others, and for a mirror of a plain disk.
    two.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary", disks=[0]))
    assert {(lv.group, lv.stripes) for lv in _Lvs(two, 1, "disk0_meta")} == {("meta", 3)}
    two.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    _Add(two, {"size": 1024})
    two.Run(
        opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="drbd", remote_node="node2", ignore_ipolicy=True)
    )
    assert [[(lv.group, lv.stripes) for lv in _Lvs(two, n, "_meta")] for n in (0, 1)] == [[("meta", 3)]] * 2
    two.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    # Other values of a group count for its nodes.
    two.Run(opcodes.OpGroupSetParams(group_name="default", diskparams={"plain": {"stripes": 1}}))
    _Add(two, {"size": 1024}, {"size": 1024, "vg": "meta"})
    assert [(lv.group, lv.stripes) for part in ("disk0", "disk1") for lv in _Lvs(two, 0, part)] == [
        (VG, 1),
        ("meta", 1),
    ]


@pytest.mark.req("D21-REPAIR-04", "D21-REPAIR-07")
def test_the_state_of_every_copy_is_shown(two: Master) -> None:
    """One that is good, one that is degraded, one whose device is missing: the node says which, and the query too."""
    _Add(two, {"size": 1024}, disk_template="drbd", snode="node2")
    two.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    instance = two.Instance(WEB)
    [disk] = two.snapshot.InstanceDisks(instance)

    def states() -> list[tuple[bool, int]]:
        nodes = list(two.nodes[:2])
        found = two.rpc.call_blockdev_getmirrorstatus_multi(nodes, {uuid: [((disk,), instance)] for uuid in nodes})
        rows = [found[uuid].payload[0] for uuid in nodes]
        return [(row[1]["is_degraded"], row[1]["ldisk_status"]) if row[0] else row[1] for row in rows]

    def shown() -> tuple[Any, Any]:
        result = two.Run(opcodes.OpInstanceQueryData(instances=[WEB], use_locking=True))
        [found] = result[WEB]["disks"]
        return found["pstatus"], found["sstatus"]

    assert states() == [(False, constants.LDS_OKAY)] * 2
    first, second = shown()
    assert first[5] is False and second[5] is False
    two[1].SetMirrors({"is_degraded": True, "ldisk_status": constants.LDS_FAULTY})
    assert states() == [(False, constants.LDS_OKAY), (True, constants.LDS_FAULTY)]
    first, second = shown()
    assert (first[5], first[6]) == (False, constants.LDS_OKAY) and (second[5], second[6]) == (
        True,
        constants.LDS_FAULTY,
    )
    two[1].SetMirrors({})
    two[1].Call(_Forget)
    assert "not found on this node" in str(states()[1])
    assert shown()[1] is None


def _Forget() -> None:
    runtime.RemoveTree(f"{pathutils.RUN_EXT_DIR}/fake-storage")


@pytest.mark.req("D20-DISK-01")
def test_templates_of_former_releases_are_unknown(two: Master) -> None:
    with pytest.raises(errors.ParseError, match=r"'disk_template': expected diskless, .*, got 'remote_raid1'"):
        _Add(two, {"size": 1024}, disk_template="remote_raid1", snode="node2")
    assert [name for name in constants.DISK_TEMPLATES if "raid" in name or "md" in name] == []
    assert [name for name, template in TEMPLATES.items() if template.mirror == "internal"] == ["drbd"]
