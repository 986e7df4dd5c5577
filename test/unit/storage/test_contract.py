"""What every block device driver promises, told as one disk's life; all drivers that need no special machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import MakeNodes, Node
from support.virtual import MakeDisk

from ganeti import errors, objects, pathutils, storage
from ganeti.storage import BlockDev, fake, links, tree

MIB = 1024 * 1024
OWNER = "guest.example.com"


class Kind:
    """One driver and how to make a disk for it."""

    def __init__(self, template: str, drivers: dict[str, str], node: Node, base: Path):
        self.template = template
        self.drivers = drivers
        self.node = node
        self.base = base

    def Disk(self, name: str, size: int = 8) -> objects.Disk:
        if self.template in ("file", "sharedfile"):
            return MakeDisk(self.template, ["loop", f"{self.base}/{name}"], size)
        if self.template == "drbd":
            data, meta = MakeDisk("plain", ["vg", f"{name}_data"], size), MakeDisk("plain", ["vg", f"{name}_meta"], 4)
            identity = ["uuid-a", "uuid-b", 11000, 0, 0, "secret"]
            return MakeDisk("drbd", identity, size, [data, meta], dynamic_params={"local-minor": 0})
        return MakeDisk(self.template, ["vg", name], size)


ALL = ["file", "sharedfile", "fake plain", "fake drbd", "fake rbd"]
# In a node of the laboratory, which has a volume group "vg" (lab.stories).
REAL = ["plain"]
if "GANETI_LAB_NODE" in os.environ:
    ALL = REAL
mirrors_only = pytest.mark.parametrize("kind", ["fake drbd"], indirect=True)


@pytest.fixture(params=ALL)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    faked, _, template = request.param.rpartition(" ")
    [node] = MakeNodes(tmp_path, "node1")
    base = tmp_path / "disks"
    base.mkdir()
    node.AllowFileStorage(base)
    with node:
        storage.UseDrivers(fake.DRIVERS if faked else {})
        yield Kind(template, fake.DRIVERS if faked else {}, node, base)
        storage.UseDrivers({})


def Build(disk: objects.Disk, on_primary: bool = True) -> BlockDev:
    """Every layer from below, as the master asks for them."""
    for child in disk.children:
        Build(child, on_primary)
    return tree.Create(disk, disk.size, OWNER, on_primary, f"originstname+{OWNER}")


def test_life_from_creation_to_removal(kind: Kind) -> None:
    disk = kind.Disk("one")
    assert tree.Find(disk) is None

    Build(disk)
    device = tree.FindOrFail(disk)
    assert device.attached
    assert device.Dimensions()[0] == 8 * MIB
    assert tree.CombinedStatus(device).is_degraded is False
    assert device.dev_path is not None
    assert Path(pathutils.BdevCacheFile(device.dev_path)).read_text() == f"{OWNER} primary disk/0\n"

    device.Close()
    tree.Shutdown(disk)
    tree.Shutdown(disk)  # done already is fine
    assert not Path(pathutils.BdevCacheFile(device.dev_path)).exists()

    again = tree.Assemble(disk, OWNER, as_primary=True)
    assert again is not None and again.dev_path == device.dev_path
    assert tree.Assemble(disk, OWNER, as_primary=True) is not None

    tree.Remove(disk)
    tree.Remove(disk)
    assert tree.Find(disk) is None
    if kind.template == "drbd":  # comes up without local data, as a mirror may
        assert tree.Assemble(disk, OWNER, as_primary=True) is not None
    else:
        with pytest.raises(errors.BlockDeviceError, match=kind.template):
            tree.Assemble(disk, OWNER, as_primary=True)


def test_existing_storage_is_never_taken_over(kind: Kind) -> None:
    disk = kind.Disk("precious")
    Build(disk)
    device = tree.FindOrFail(disk)
    _Fill(device, b"precious" * MIB)
    with pytest.raises(errors.BlockDeviceError):
        tree.Create(disk, 8, "somebody.else", True, "")
    assert _Content(tree.FindOrFail(disk)) == b"precious" * MIB


def _Fill(device: BlockDev, data: bytes) -> None:
    subprocess.run(device.ImportCommand(), input=data, check=True, capture_output=True)


def _Content(device: BlockDev) -> bytes:
    return subprocess.run(device.ExportCommand(), check=True, capture_output=True).stdout


def test_a_missing_device_is_reported_with_what_to_look_at(kind: Kind) -> None:
    """Nothing activates a file, and a guest may still have it open."""
    with pytest.raises(errors.BlockDeviceError, match="not found on this node") as caught:
        tree.FindOrFail(kind.Disk("gone"))
    is_file = kind.template in ("file", "sharedfile")
    assert ("are the instance's disks active?" in str(caught.value)) == (not is_file)
    assert ("copy it from inside first" in str(caught.value)) == is_file


def test_content_survives_everything_but_removal(kind: Kind) -> None:
    disk = kind.Disk("data")
    Build(disk)
    device = tree.FindOrFail(disk)
    _Fill(device, b"0123456789abcdef" * (MIB // 2))
    device.Close()
    tree.Shutdown(disk)
    tree.Assemble(disk, OWNER, as_primary=True)
    for dry_run, backing_store, size in ((True, True, 8), (False, True, 12), (False, False, 12)):
        tree.Grow(disk, 4, dry_run, backing_store, exclusive=False)
        device = tree.FindOrFail(disk)
        data = device if device.DATA_CHILD is None else device.children[device.DATA_CHILD]
        assert data is not None and data.Dimensions()[0] == size * MIB
    assert device.Dimensions()[0] == 12 * MIB
    assert _Content(device) == b"0123456789abcdef" * (MIB // 2) + bytes(4 * MIB)


def test_nothing_shrinks(kind: Kind) -> None:
    disk = kind.Disk("big")
    Build(disk)
    with pytest.raises(errors.BlockDeviceError, match="shrink"):
        tree.Grow(disk, -4, dry_run=False, backing_store=True, exclusive=False)
    device = tree.FindOrFail(disk)
    assert device.Dimensions()[0] == 8 * MIB


def test_secondary_assembles_only_what_it_must(kind: Kind) -> None:
    disk = kind.Disk("other")
    Build(disk, on_primary=False)
    driver = storage.GetDriver(disk.dev_type)
    device = tree.Assemble(disk, OWNER, as_primary=False)
    assert (device is not None) == driver.ASSEMBLED_ON_SECONDARY


def test_renamed_storage_keeps_its_content(kind: Kind) -> None:
    disk, target = kind.Disk("old"), kind.Disk("new")
    Build(disk)
    device = tree.FindOrFail(disk)
    if kind.template == "drbd":
        with pytest.raises(errors.BlockDeviceError, match="not possible"):
            device.Rename(target.logical_id)
        return
    _Fill(device, b"x" * MIB * 8)
    device.Rename(target.logical_id)
    assert tree.Find(disk) is None
    assert _Content(tree.FindOrFail(target)) == b"x" * MIB * 8
    Build(disk)
    with pytest.raises(errors.BlockDeviceError, match="exists already"):
        tree.FindOrFail(disk).Rename(target.logical_id)


@mirrors_only
def test_mirror_loses_and_regains_its_other_side(kind: Kind) -> None:
    disk = kind.Disk("mirror")
    Build(disk)
    device = tree.FindOrFail(disk)
    assert isinstance(device, storage.base.Mirror)
    device.DisconnectNet()
    assert device.Connection().standalone and device.NeedsActivation()
    assert tree.CombinedStatus(device).is_degraded
    device.AttachNet(multimaster=True)
    assert device.Connection().connected and not device.NeedsActivation()
    with pytest.raises(errors.BlockDeviceError, match="connected"):
        device.AttachNet(multimaster=False)


@mirrors_only
def test_mirror_bears_the_loss_of_its_own_storage(kind: Kind) -> None:
    disk = kind.Disk("mirror")
    Build(disk)
    tree.Shutdown(disk)
    for child in disk.children:
        tree.Remove(child)
    device = tree.Assemble(disk, OWNER, as_primary=True)
    assert device is not None
    assert tree.CombinedStatus(device).ldisk_status == 4


@mirrors_only
def test_device_that_needs_its_children_fails_without_them(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = kind.Disk("strict")
    Build(disk)
    tree.Shutdown(disk)
    tree.Remove(disk.children[1])
    monkeypatch.setattr(fake.FakeMirror, "CHILDREN_NEEDED", None)
    with pytest.raises(errors.BlockDeviceError, match="strict_meta: does not exist"):
        tree.Assemble(disk, OWNER, as_primary=True)


def test_link_points_to_the_device_and_is_corrected(kind: Kind) -> None:
    path = links.Make(OWNER, "/dev/wrong", 0)
    assert links.Make(OWNER, "/dev/right", 0) == path
    assert Path(path).readlink() == Path("/dev/right")
    links.Remove(OWNER, 3)
    assert not Path(path).is_symlink()
