"""Logical volumes on a simulated machine with the programs of LVM (doc/reference/drivers.md a.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulated import Invocation, Machine, World
from support.mirrorpair import Pair
from support.standinlvm import StandInLvm
from support.virtual import MakeDisk

from ganeti import constants, errors, objects, runtime
from ganeti.storage import looks, tree, units
from ganeti.storage.utilities import lvmtools

OWNER = "guest.example.com"
NOTE = f"originstname+{OWNER}"
TAG = "originstname+guest.example.com"
MIB = 1 << 20


class Node:
    """A machine with a volume group ``vg`` of two equal disks; ``Do`` runs what a node daemon would."""

    def __init__(self) -> None:
        self.machine: Machine = World(1).AddMachine("node1")
        self.lvm = StandInLvm(self.machine)
        for letter in "ab":
            self.lvm.AddPv(f"/dev/sd{letter}", "vg", 1024)

    def Do(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.machine.Call(function, *args)

    def Create(
        self, name: str, size: int = 100, exclusive: bool = False, note: str = NOTE, **values: Any
    ) -> objects.Disk:
        disk = Volume(name, size, **values)
        self.Do(tree.Create, disk, size, OWNER, True, note, exclusive)
        return disk

    def Pvs(self, name: str) -> list[str]:
        return [pv for pv, _ in self.lvm.lvs["vg", name].segments]


def Volume(name: str, size: int = 100, **values: Any) -> objects.Disk:
    return MakeDisk("plain", ["vg", name], size, **values)


@pytest.fixture
def node() -> Iterator[Node]:
    yield Node()


def test_a_volume_that_is_partly_on_a_missing_disk_is_faulty(node: Node) -> None:
    """Whatever works with it, such as a mirror that has not touched the disk since, may not see it yet."""
    node.Create("one")
    node.Create("two")
    [pv] = node.Pvs("one")
    node.lvm.lvs["vg", "two"].segments = [("/dev/sdb" if pv == "/dev/sda" else "/dev/sda", 100)]

    def status(name: str) -> Any:
        device = node.Do(tree.FindOrFail, Volume(name))
        return node.Do(tree.CombinedStatus, device).ldisk_status

    assert (status("one"), status("two")) == (constants.LDS_OKAY, constants.LDS_OKAY)
    node.lvm.pvs[pv].missing = True
    assert (status("one"), status("two")) == (constants.LDS_FAULTY, constants.LDS_OKAY)
    node.lvm.pvs[pv].missing, node.lvm.pvs[pv].flagged = False, True
    assert (status("one"), status("two")) == (constants.LDS_FAULTY, constants.LDS_OKAY)


@pytest.mark.parametrize(
    ("attributes", "devices", "partial"),
    [
        ("rwi-aor---", "root_rimage_0(0),root_rimage_1(0)", False),
        ("rwi-aor-p-", "root_rimage_0(0),root_rimage_1(0)", True),
        ("-wi-ao--p-", "/dev/sda(0)", True),
        ("-wi-ao----", "/dev/sda(0)", False),
        ("-wi-ao", "/dev/sda(0)", False),
        ("-wi-ao", "unknown device(0)", True),
    ],
)
def test_lvm_itself_says_which_volumes_are_partial(attributes: str, devices: str, partial: bool) -> None:
    [volume] = lvmtools.ParseLvs(f"  vg|one|{attributes}|253|0|4096|1|8||{devices}\n")
    assert volume.partial == partial


def test_life_of_a_volume(node: Node) -> None:
    disk = Volume("one")
    assert node.Do(tree.Find, disk) is None
    node.Create("one")
    device = node.Do(tree.FindOrFail, disk)
    assert (device.dev_path, device.major, device.minor) == ("/dev/vg/one", 253, 0)
    assert node.Do(device.Dimensions) == (100 * MIB, 1)
    assert node.lvm.lvs["vg", "one"].tags == [TAG]
    assert node.Do(tree.CombinedStatus, device).is_degraded is False
    node.lvm.lvs["vg", "one"].active = False
    assert node.Do(tree.FindOrFail, disk).major is None
    assert node.Do(tree.Assemble, disk, OWNER, False).major == 253
    node.Do(tree.Shutdown, disk)
    node.Do(tree.Remove, disk)
    node.Do(tree.Remove, disk)
    assert node.lvm.Volumes() == []
    with pytest.raises(
        errors.BlockDeviceError, match=r"plain vg/one: this node has no such logical volume.*gnt-cluster verify"
    ):
        node.Do(tree.Assemble, disk, OWNER, True)


def test_a_volume_that_is_not_ours_is_left_alone(node: Node) -> None:
    disk = node.Create("precious")
    node.Do(lambda: runtime.WriteFile("/dev/vg/precious", b"data"))
    with pytest.raises(errors.BlockDeviceError, match=r"exists already.*left as it is"):
        node.Do(tree.Create, disk, 100, "somebody.else", True, "")
    assert node.Do(runtime.ReadFile, "/dev/vg/precious") == b"data"
    assert node.lvm.Count("lvcreate") == 1


def test_the_emptiest_physical_volume_is_taken(node: Node) -> None:
    node.lvm.pvs["/dev/sda"].free = 500
    node.Create("one", note="")
    assert node.Pvs("one") == ["/dev/sdb"]


@pytest.mark.req("D20-DISK-11")
def test_volumes_of_an_instance_lie_close_together(node: Node) -> None:
    node.Create("one", 600)
    assert node.Pvs("one") == ["/dev/sda"]
    node.Create("stranger", 100, note="originstname+other")
    assert node.Pvs("stranger") == ["/dev/sdb"]
    node.Create("two", 300)
    assert node.Pvs("two") == ["/dev/sda"], "beside its own, though there is more room elsewhere"
    node.Create("three", 300)
    assert node.Pvs("three") == ["/dev/sdb"], "there is no room beside its own"


@pytest.mark.req("D20-DISK-11")
def test_both_volumes_of_a_mirror_lie_on_one_physical_volume() -> None:
    side = Pair().one
    side.lvm.AddPv("/dev/sdb", "vg", side.lvm.pvs["/dev/sda"].free)
    for layer in side.Disk().children:
        side.Do("blockdev_create", layer, layer.size, "guest", True, "originstname+guest", False)
    lying = {name: [pv for pv, _ in volume.segments] for (_, name), volume in side.lvm.lvs.items()}
    assert lying["one_data"] == lying["one_meta"] == ["/dev/sda"]


@pytest.mark.req("RM-DISK-06")
def test_stripes_as_many_as_there_can_be(node: Node) -> None:
    node.Create("striped", 200, params={"stripes": 4})
    assert node.lvm.lvs["vg", "striped"].stripes == 2
    assert node.Do(node.Do(tree.FindOrFail, Volume("striped")).Dimensions) == (200 * MIB, 2)
    node.lvm.pvs["/dev/sda"].free = 8
    node.Create("narrow", 200, params={"stripes": 2})
    assert node.lvm.lvs["vg", "narrow"].stripes == 1


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda lvm: lvm.pvs.clear(), "volume group vg is not on this node"),
        (lambda lvm: [setattr(pv, "allocatable", False) for pv in lvm.pvs.values()], "no physical volume that may be"),
        (lambda lvm: [setattr(pv, "free", 10) for pv in lvm.pvs.values()], "not enough space: 100 MiB wanted, 20 MiB"),
        (lambda lvm: lvm.AddPv("/dev/disk/by-path/pci-0:0", "vg", 1024), "a colon in the name of a physical volume"),
    ],
)
def test_no_room(node: Node, change: Callable[[StandInLvm], Any], match: str) -> None:
    change(node.lvm)
    with pytest.raises(errors.BlockDeviceError, match=match):
        node.Create("one")
    assert node.lvm.Volumes() == []


@pytest.mark.parametrize("name", ["-ay", "a/b", "..", "snapshot", "x_mlog", "a b", "", "x" * 129, "a\nb"])
def test_names_that_no_program_gets(node: Node, name: str) -> None:
    for disk in (MakeDisk("plain", ["vg", name], 100), MakeDisk("plain", [name, "one"], 100)):
        with pytest.raises(errors.BlockDeviceError, match="is not the name of a volume group and of a logical volume"):
            node.Do(tree.Create, disk, 100, OWNER, True, "")
    assert node.lvm.runs == []


def test_content_survives_a_new_name(node: Node) -> None:
    disk, target = node.Create("old"), Volume("new")
    node.Do(lambda: runtime.WriteFile("/dev/vg/old", b"data"))
    node.Do(lambda: tree.FindOrFail(disk).Rename(target.logical_id))
    assert node.Do(tree.Find, disk) is None
    assert node.Do(runtime.ReadFile, node.Do(tree.FindOrFail, target).dev_path) == b"data"
    node.Create("old")
    with pytest.raises(errors.BlockDeviceError, match="vg/new exists already"):
        node.Do(lambda: tree.FindOrFail(disk).Rename(target.logical_id))
    with pytest.raises(errors.ProgrammerError, match="cannot be moved to group other"):
        node.Do(lambda: tree.FindOrFail(disk).Rename(["other", "new"]))


def test_growing(node: Node) -> None:
    disk = node.Create("one", 100)
    device = node.Do(tree.FindOrFail, disk)
    node.Do(device.Grow, 50, True, True)
    node.Do(device.Grow, 50, False, False)
    assert node.Do(device.Dimensions)[0] == 100 * MIB
    node.Do(device.Grow, 50, False, True)
    assert node.Do(device.Dimensions)[0] == 152 * MIB, "to whole extents"
    with pytest.raises(errors.BlockDeviceError, match=r"cannot be grown by 5000 MiB.*insufficient"):
        node.Do(device.Grow, 5000, False, True)
    with pytest.raises(errors.BlockDeviceError, match="cannot shrink"):
        node.Do(device.Grow, -4, False, True)


def test_growing_takes_what_is_nearest_first(node: Node) -> None:
    node.Create("one", 1000)
    disk = Volume("one")
    node.Do(node.Do(tree.FindOrFail, disk).Grow, 100, False, True)
    node.Do(node.Do(tree.FindOrFail, disk).Grow, 100, False, True)
    policies = [argv[argv.index("--alloc") + 1] for argv in node.lvm.runs if argv[0] == "lvextend"]
    assert policies == ["contiguous", "contiguous", "cling"]


def test_a_snapshot_replaces_the_older_one(node: Node) -> None:
    disk = node.Create("one", 100)
    device = node.Do(tree.FindOrFail, disk)
    assert node.Do(device.Snapshot, None, 40) == ["vg", "one.snap"]
    assert node.Do(device.Snapshot) == ["vg", "one.snap"]
    assert node.lvm.lvs["vg", "one.snap"].size == 100
    with pytest.raises(errors.BlockDeviceError, match="not enough space"):
        node.Do(device.Snapshot, "big", 5000)


def test_notes_replace_each_other(node: Node) -> None:
    disk = node.Create("one")
    device = node.Do(tree.FindOrFail, disk)
    node.Do(device.SetInfo, "-originstname+new name/ü")
    assert node.lvm.lvs["vg", "one"].tags == ["_originstname+new_name__"]
    before = len(node.lvm.runs)
    node.Do(device.SetInfo, "-originstname+new name/ü")
    assert [argv[0] for argv in node.lvm.runs[before:]] == ["lvs"], "it is noted already"


def test_exclusive_storage_shares_no_physical_volume(node: Node) -> None:
    for letter in "cd":
        node.lvm.AddPv(f"/dev/sd{letter}", "vg", 1024)
    node.Create("one", 1500, exclusive=True, spindles=2)
    assert node.Pvs("one") == ["/dev/sda", "/dev/sdb"]
    with pytest.raises(errors.BlockDeviceError, match=r"needs? 2 physical volumes, 1 spindles"):
        node.Create("two", 1500, exclusive=True, spindles=1)
    with pytest.raises(errors.BlockDeviceError, match="needs to know the number of spindles"):
        node.Create("two", 500, exclusive=True)
    node.Create("two", 500, exclusive=True, spindles=1)
    with pytest.raises(errors.BlockDeviceError, match="2 empty physical volumes are needed, this node has 1"):
        node.Create("three", 1500, exclusive=True, spindles=2)
    device = node.Do(tree.FindOrFail, Volume("two"))
    with pytest.raises(errors.BlockDeviceError, match="room for 494 MiB more"):
        node.Do(device.Grow, 600, False, True, True)
    node.Do(device.Grow, 400, False, True, True)
    assert set(node.Pvs("two")) == {"/dev/sdc"}


def test_many_disks_are_looked_at_once(node: Node) -> None:
    disks = [node.Create(f"disk{number}", 8) for number in range(20)]

    def look() -> list[Any]:
        with looks.Sharing():
            return [tree.FindOrFail(disk).Dimensions() for disk in disks]

    before = node.lvm.Count("lvs")
    assert node.Do(look) == [(8 * MIB, 1)] * 20
    assert node.lvm.Count("lvs") == before + 1


def test_what_changed_is_looked_at_again(node: Node) -> None:
    def change() -> bool:
        with looks.Sharing():
            found = tree.Find(Volume("one"))
            tree.Create(Volume("one"), 100, OWNER, True)
            return found is None and tree.Find(Volume("one")) is not None

    assert node.Do(change)


@pytest.mark.parametrize(
    "output", ["  vg|one|rubbish\n", "  vg|one|-wi-a-----|x|0|4096|1|8|t|/dev/sda(0)\n", "  vg|one|-|0|0|4|1|8||\n"]
)
def test_output_that_cannot_be_read(output: str) -> None:
    with pytest.raises(errors.BlockDeviceError, match="lvs printed"):
        lvmtools.ParseLvs(output)


_GUESTS = ("  vg|{}|-wi-------|-1|-1|4096.00|1|{}||/dev/sdx(0)\n", "  vg|380.00|wz--n-|1016.00\n")


def test_a_group_that_a_guest_made_on_its_disk_is_not_taken_for_the_nodes(node: Node) -> None:
    """What matters is a name; the node's own volumes of other names can be used."""
    node.Create("mine")
    node.Create("other")
    lvm = {name: node.machine.programs[name] for name in ("lvs", "vgs")}

    def also(row: str) -> Callable[[Invocation], int]:
        def run(invocation: Invocation) -> int:
            result = lvm[invocation.argv[0]](invocation)
            invocation.Print(row)
            return result or 0

        return run

    node.machine.programs["lvs"] = also(_GUESTS[0].format("mine", "65536.00"))
    for act, *more in ((tree.Find,), (tree.Assemble, OWNER, True), (tree.Remove,)):
        with pytest.raises(errors.BlockDeviceError, match=r"two volume groups.*global_filter"):
            node.Do(act, Volume("mine"), *more)
    assert node.Do(tree.Find, Volume("other")) is not None
    node.machine.programs["vgs"] = also(_GUESTS[1])
    with pytest.raises(errors.BlockDeviceError, match=r"2 volume groups are called vg on.*'vgrename UUID NAME'"):
        node.Create("new")
    # Others of one name, such as those of a guest, are in nobody's way.
    node.machine.programs["vgs"] = also(_GUESTS[1].replace("vg|", "evil|") * 2)
    node.Create("new")
    assert set(node.Do(lvmtools.GroupSizes)) == {"vg"}


def test_segments_with_other_stripes_are_one_volume() -> None:
    rows = ("|2|8||/dev/sda(0),/dev/sdb(0)", "|1|8||/dev/sda(9)")
    [volume] = lvmtools.ParseLvs("".join(f"  vg|one|-wi-a-----|253|0|4096{row}\n" for row in rows))
    assert volume.devices == ("/dev/sda(0)", "/dev/sdb(0)", "/dev/sda(9)") and not volume.ambiguous


def test_a_program_that_fails_or_is_missing(node: Node) -> None:
    del node.machine.programs["lvs"]
    with pytest.raises(errors.BlockDeviceError, match="LVM cannot be asked: 'lvs' failed"):
        node.Do(tree.Find, Volume("one"))


def _Recorded(name: str) -> str:
    """What a program of LVM 2.03.16 printed in a node of the laboratory."""
    return (Path(__file__).parents[2] / "data" / "lvm" / f"{name}-2.03.16.txt").read_text(encoding="utf-8")


def test_recorded_output() -> None:
    one, snap, two = lvmtools.ParseLvs(_Recorded("lvs"))
    assert (one.name, one.size, one.pvs, one.active, one.open) == (
        "one.disk0",
        503808,
        ("/dev/vda", "/dev/vdb"),
        True,
        False,
    )
    assert (two.stripes, two.tags, two.devices) == (2, ("originstname+x",), ("/dev/vda(25)", "/dev/vdb(0)"))
    assert (snap.minor, snap.extent, snap.virtual) == (4, 4096, False)
    full, other = lvmtools.ParsePvs(_Recorded("pvs"))
    assert (full.free, full.size, full.volumes, full.allocatable) == (0, 508, ("one.disk0", "two"), True)
    assert (other.free, other.volumes) == (380, ("two", "one.disk0", "one.snap"))
    [group] = lvmtools.ParseVgs(_Recorded("vgs"))
    assert (group.name, group.free, group.size, group.partial, group.writable) == ("vg", 380, 1016, False, True)


@pytest.mark.parametrize("size", ["inf", "-inf", "nan", "1e999", "9" * 5000, "much"])
def test_what_is_no_size_is_not_counted_with(size: str) -> None:
    with pytest.raises(errors.BlockDeviceError, match="where a number was expected"):
        lvmtools.ParseVgs(f"  xenvg|{size}|wz--n-|2.0\n")


def test_a_group_whose_name_two_have_is_neither_repaired_nor_said_to_be_away(node: Node) -> None:
    """As if a guest had made one on its disk: the node's own is there, and nobody can tell which is meant."""
    group = units.GetUnits("lvm-vg")
    assert node.Do(group.Space, "vg", False) == (2048, 2048)
    vgs = node.machine.programs["vgs"]

    def twice(invocation: Invocation) -> int:
        invocation.Print(_GUESTS[1])
        return vgs(invocation) or 0

    node.machine.programs["vgs"] = twice
    node.lvm.pvs["/dev/sda"].missing = True
    for act, *more in ((group.Space, "vg", False), (group.Space, "vg", True), (group.Repair, "vg")):
        with pytest.raises(errors.BlockDeviceError, match=r"2 volume groups are called vg on.*'vgrename UUID NAME'"):
            node.Do(act, *more)
    assert node.lvm.Count("vgreduce") == 0
    with pytest.raises(errors.StorageError, match="Volume group data is not on this node"):
        node.Do(group.Space, "data", False)
