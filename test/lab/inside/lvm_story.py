"""What only a real LVM can show of the driver; runs in a node with the volume group ``vg`` on two disks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from support.virtual import MakeDisk

from ganeti import errors, objects
from ganeti.backend import storage as procedures
from ganeti.storage import tree, units
from ganeti.storage.utilities import lvmtools

OWNER = "guest.example.com"
NOTE = f"originstname+{OWNER}"
MIB = 1 << 20


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    yield
    subprocess.run(["lvremove", "-q", "-f", "vg"], check=True, capture_output=True)


def Create(name: str, size: int, note: str = NOTE, **values: object) -> objects.Disk:
    disk = MakeDisk("plain", ["vg", name], size, **values)
    tree.Create(disk, size, OWNER, True, note)
    return disk


def test_stripes_and_sizes() -> None:
    device = tree.FindOrFail(Create("striped", 104, params={"stripes": 2}))
    assert device.Dimensions() == (104 * MIB, 2)
    device.Grow(10, dry_run=True, backing_store=True)
    assert device.Dimensions()[0] == 104 * MIB
    device.Grow(10, dry_run=False, backing_store=True)
    assert device.Dimensions() == (120 * MIB, 2), "16 MiB: whole extents on both"
    got = subprocess.run(["blockdev", "--getsize64", "/dev/vg/striped"], check=True, capture_output=True, text=True)
    assert int(got.stdout) == 120 * MIB


def test_growing_over_both_disks() -> None:
    device = tree.FindOrFail(Create("one", 100))
    Create("wall", 8, note="")
    device.Grow(700, dry_run=False, backing_store=True)
    assert device.Dimensions() == (800 * MIB, 2)
    with pytest.raises(errors.BlockDeviceError, match="cannot be grown by 700 MiB"):
        device.Grow(700, dry_run=False, backing_store=True)
    with pytest.raises(errors.BlockDeviceError, match="cannot be grown by 700 MiB"):
        device.Grow(700, dry_run=True, backing_store=True)


def test_a_snapshot_keeps_the_moment() -> None:
    device = tree.FindOrFail(Create("origin", 64))
    subprocess.run(device.ImportCommand(), input=b"before" * 1000, check=True, capture_output=True)
    assert device.Snapshot(None, 32) == ["vg", "origin.snap"]
    subprocess.run(device.ImportCommand(), input=b"after!" * 1000, check=True, capture_output=True)
    with open("/dev/vg/origin.snap", "rb") as stream:
        assert stream.read(6000) == b"before" * 1000
    assert device.Snapshot() == ["vg", "origin.snap"]
    with open("/dev/vg/origin.snap", "rb") as stream:
        assert stream.read(6000) == b"after!" * 1000


def test_notes_and_neighbours() -> None:
    device = tree.FindOrFail(Create("one", 100))
    assert lvmtools.Volumes()["vg", "one"].tags == (NOTE,)
    device.SetInfo("originstname+other name")
    assert lvmtools.Volumes()["vg", "one"].tags == ("originstname+other_name",)
    device.SetInfo(NOTE)
    Create("stranger", 100, note="originstname+stranger")
    Create("two", 100)
    one, two, stranger = (lvmtools.Volumes()["vg", name].pvs for name in ("one", "two", "stranger"))
    assert one == two != stranger


def test_inactive_and_missing_volumes() -> None:
    disk = Create("one", 100)
    subprocess.run(["lvchange", "-an", "vg/one"], check=True, capture_output=True)
    assert procedures.LvList([]) == {"vg/one": ["100.00", True, False]}
    device = tree.FindOrFail(disk)
    assert device.major is None
    assert tree.Assemble(disk, OWNER, as_primary=True).major == 253
    with open("/dev/vg/one", "rb"):
        assert procedures.LvList(["vg"]) == {"vg/one": ["100.00", False, True]}
        with pytest.raises(
            errors.BlockDeviceError, match=r"cannot be removed.*in use|used by another|contains a filesystem"
        ):
            tree.Remove(disk)
    tree.Remove(disk)
    with pytest.raises(errors.BlockDeviceError, match="this node has no such logical volume"):
        tree.Assemble(disk, OWNER, as_primary=True)
    with pytest.raises(errors.BlockDeviceError, match="not enough space"):
        Create("huge", 5000)
    with pytest.raises(errors.BlockDeviceError, match="volume group gone is not on this node"):
        tree.Create(MakeDisk("plain", ["gone", "x"], 8), 8, OWNER, True)


def test_units() -> None:
    Create("one", 100, note="")
    [[name, size, free, allocatable]] = units.List("lvm-vg", [], "vg", ["name", "size", "free", "allocatable"])
    assert (name, size - free, allocatable) == ("vg", 100, True)
    volumes = units.GetUnits("lvm-pv")
    volumes.Modify("/dev/vda", {"allocatable": False})
    try:
        assert units.List("lvm-pv", [], "/dev/vda", ["allocatable"]) == [[False]]
        Create("two", 100, note="")
        assert lvmtools.Volumes()["vg", "two"].pvs == ("/dev/vdb",)
    finally:
        volumes.Modify("/dev/vda", {"allocatable": True})
    units.GetUnits("lvm-vg").Repair("vg")
    assert units.GetUnits("lvm-vg").Space("vg", True)[1] == units.GetUnits("lvm-pv").Space("vg", True)[1] * 493
    assert {row["vg"] for row in procedures.NodeVolumes()} == {"vg"}
    assert [pv["lv_list"] for pv in procedures.PvList(["vg"])]


def _Lvm(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_another_group_of_the_same_name() -> None:
    """Somebody has brought a disk with one: nothing that may be its volume is used until one of the two has another name."""
    ours = Create("one", 100)
    # Made where ours is not seen, neither its disks nor its devices, as on the machine that the disk comes from.
    _Lvm("vgchange", "-q", "-an", "vg")
    away = ["--config", 'devices/global_filter=["a|^/dev/vdc$|","r|.*|"]']
    _Lvm("vgcreate", "-q", "-y", *away, "vg", "/dev/vdc")
    try:
        _Lvm("lvcreate", "-q", "-an", "-Zn", "-Wn", *away, "-n", "one", "-L", "64m", "vg")
        with pytest.raises(
            errors.BlockDeviceError, match=r"two volume groups of this node have a volume.*'vgrename UUID NAME'"
        ):
            tree.Find(ours)
        with pytest.raises(
            errors.BlockDeviceError, match=r"2 volume groups are called vg on this node.*'vgrename UUID NAME'"
        ):
            Create("new", 64)
        uuid = _Lvm("vgs", "--noheadings", "-o", "vg_uuid", *away, "vg")
        _Lvm("vgrename", "-q", uuid, "brought")
        assert tree.FindOrFail(ours).Dimensions()[0] == 100 * MIB
        Create("new", 64)
    finally:
        _Lvm("vgremove", "-q", "-f", *away, _Lvm("vgs", "--noheadings", "-o", "vg_name", *away))
    assert tree.FindOrFail(ours).Dimensions()[0] == 100 * MIB
