"""What every block device driver promises, told as one disk's life; all drivers that need no special machine.

Drivers whose storage cannot be here are told it on a simulated machine, where programs stand in for the real ones.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from simulated import Machine, World
from simulated.disk import Device
from simulation.migration.world import Host
from simulation.migration.world import World as Hosts
from simulation.mirrors.driver import MirrorHalf, Volume
from simulation.mirrors.kernel import Kernel
from support import drivers, standinstorage
from support.mirrors import MakeMirror
from support.nodes import MakeNodes
from support.standindrbd import Links, StandInDrbd
from support.standinlvm import StandInLvm
from support.virtual import MakeDisk

from ganeti import constants, errors, objects, pathutils, runtime, storage
from ganeti.storage import BlockDev, links, tree
from ganeti.storage.drivers import fake

MIB = 1024 * 1024
OWNER = "guest.example.com"


class Kind:
    """One driver and how to make a disk for it."""

    def __init__(self, template: str, drivers: dict[str, str], base: str):
        self.template = template
        self.drivers = drivers
        self.base = base

    @property
    def adopts(self) -> bool:
        """Disks are only named: they are there before and stay."""
        return self.template == "blockdev"

    def Disk(self, name: str, size: int = 8) -> objects.Disk:
        if self.template in ("file", "sharedfile"):
            return MakeDisk(self.template, ["loop", f"{self.base}/{name}"], size)
        if self.template == "drbd":
            data, meta = MakeDisk("plain", ["vg", f"{name}_data"], size), MakeDisk("plain", ["vg", f"{name}_meta"], 4)
            identity = ["uuid-a", "uuid-b", 11000, 0, 0, "secret"]
            return MakeDisk("drbd", identity, size, [data, meta], dynamic_params={"local-minor": 0})
        identity = {
            "blockdev": ["manual", f"/dev/disk/by-id/{name}"],
            "rbd": ["rbd", name],
            "gluster": ["loop", f"ganeti/{name}"],
            "ext": ["san", name],
        }
        return MakeDisk(
            self.template, ["vg", name] if self.drivers else identity.get(self.template, ["vg", name]), size
        )

    def Do(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function where the storage is."""
        return function(*args)

    def Settle(self, device: BlockDev) -> None:
        """Wait until a new disk is as it will stay."""

    def AttachNet(self, device: storage.base.Mirror, multimaster: bool) -> None:
        """Connect both sides of a mirror, of which this one is not connected."""
        device.AttachNet(multimaster)

    def Fill(self, device: BlockDev, data: bytes) -> None:
        subprocess.run(device.ImportCommand(), input=data, check=True, capture_output=True)

    def Content(self, device: BlockDev) -> bytes:
        return subprocess.run(device.ExportCommand(), check=True, capture_output=True).stdout


class Simulated(Kind):
    """A driver on a simulated machine with the programs that it needs."""

    def __init__(self, template: str):
        super().__init__(template, {}, "")
        self.machine: Machine = World(1).AddMachine("node1")
        standinstorage.AddBlockTools(self.machine)
        services = {
            "rbd": standinstorage.Ceph,
            "gluster": standinstorage.Gluster,
            "ext": standinstorage.Provider,
        }
        if template in services:
            services[template]().Join(self.machine)
        elif template == "plain":
            StandInLvm(self.machine).AddPv("/dev/sda", "vg", 4096)

    def Disk(self, name: str, size: int = 8) -> objects.Disk:
        disk = super().Disk(name, size)
        if self.adopts and name != "gone":
            path = disk.logical_id[1]
            if self.machine.disk.Lookup(path) is None:
                standinstorage.AddDevice(self.machine, path, size * MIB)
        return disk

    def Do(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.machine.Call(function, *args)

    def Fill(self, device: BlockDev, data: bytes) -> None:
        assert not runtime.RunCmd(device.ImportCommand(), stdin=data).failed

    def Content(self, device: BlockDev) -> bytes:
        file = self.machine.disk.Find(str(device.dev_path))
        # The stand-in for LVM has its volumes as files, too.
        assert isinstance(file, Device) == (self.template not in ("gluster", "plain"))
        words = dict(word.split("=") for word in device.ExportCommand()[1:])
        assert words["if"] == device.dev_path
        return bytes(file.Read()[: int(words["bs"]) * int(words["count"])])  # type: ignore[attr-defined]


class InVolumes(Kind):
    """A driver in a node of the laboratory, whose devices are logical volumes that others made: a provider, or nobody."""

    def __init__(self, template: str, base: Path):
        super().__init__(template, {}, "")
        provider = base / "san"
        provider.mkdir()
        for name, text in _VOLUME_SCRIPTS.items():
            (provider / name).write_text(f"#!/bin/sh -e\nexec 9>&1 >&2\nvolume=vg/$VOL_NAME\n{text}\n")
            (provider / name).chmod(0o755)
        (provider / "parameters.list").write_text("")
        pathutils.ES_SEARCH_PATH = (str(base),)

    def Disk(self, name: str, size: int = 8) -> objects.Disk:
        if not self.adopts:
            return super().Disk(name, size)
        path = f"/dev/vg/{name}"
        if name != "gone" and not os.path.exists(path):
            subprocess.run(["lvcreate", "-q", "-Wn", "-n", name, f"-L{size}m", "vg"], check=True, capture_output=True)
        return MakeDisk("blockdev", ["manual", path], size)


def Connected(device: BlockDev) -> None:
    """Wait until a mirror is connected with its other side, and both are complete."""
    assert isinstance(device, storage.base.Mirror)
    end = runtime.Monotonic() + 60
    while not device.Connection().connected:
        assert runtime.Monotonic() < end, device.Connection()
        runtime.Sleep(0.1)


class MirrorPair:
    """Both sides of each mirror on one node, linked over its loopback interface; the other side is made with the disk.

    Goes before a ``Kind``, which says where that node is.
    """

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._made: dict[str, tuple[objects.Disk, objects.Disk]] = {}

    def Disk(self, name: str, size: int = 8) -> objects.Disk:
        if name not in self._made:
            number = len(self._made)
            ends, minors, port = ("127.0.0.1", "127.0.0.2"), (2 * number, 2 * number + 1), 11000 + number
            own = MakeMirror(*ends, *minors, name, size=size, port=port)
            other = MakeMirror(*reversed(ends), *reversed(minors), f"{name}_other", size=size, port=port)
            self._made[name] = own, other
            if name != "gone":
                # Its volume is larger, so that the mirror can grow.
                Build(other.Replace(children=[other.children[0].Replace(size=16), other.children[1]]), on_primary=False)
        return self._made[name][0]

    def Other(self, disk: objects.Disk) -> storage.base.Mirror:
        [other] = [other for own, other in self._made.values() if own.uuid == disk.uuid]
        found = tree.FindOrFail(other)
        assert isinstance(found, storage.base.Mirror)
        return found

    def Settle(self, device: BlockDev) -> None:
        Connected(device)

    def AttachNet(self, device: storage.base.Mirror, multimaster: bool) -> None:
        other = self.Other(device.disk)
        other.DisconnectNet()
        other.AttachNet(multimaster)
        device.AttachNet(multimaster)
        self.Settle(device)


class SimulatedPair(MirrorPair, Simulated):
    def __init__(self, template: str):
        super().__init__(template)
        lvm = StandInLvm(self.machine)
        lvm.AddPv("/dev/sda", "vg", 4096)
        StandInDrbd(self.machine, Links(), lvm)

    def Content(self, device: BlockDev) -> bytes:
        words = dict(word.split("=") for word in device.ExportCommand()[1:])
        assert words["if"] == device.dev_path
        return bytes(runtime.ReadFile(str(device.dev_path))[: int(words["bs"]) * int(words["count"])])


class Halves(Kind):
    """The mirrors that simulations play with: one half on each of two hosts.  There is one mirror, and no content."""

    DRIVERS: Mapping[str, type[BlockDev]] = {"drbd": MirrorHalf, "plain": Volume}

    def __init__(self) -> None:
        super().__init__("drbd", {}, "")
        world = Hosts(1)
        self.first, self.second = Host(world, "node1", "127.0.0.1"), Host(world, "node2", "127.0.0.2")
        self.kernel = Kernel(world, [self.first, self.second])
        world.mirrored, world.disk, world.live = True, self.kernel, self.kernel.Advance

    def _On(self, host: Host, function: Callable[..., Any], *args: Any) -> Any:
        before = runtime.CurrentSide()
        runtime.EnterSide(host.side)
        try:
            return function(*args)
        finally:
            runtime.EnterSide(before)

    def Do(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._On(self.first, function, *args)

    def Disk(self, name: str, size: int = 8) -> objects.Disk:
        disk, self.other = (
            MakeMirror(one.address, two.address, 0, 0, name, size=size)
            for one, two in ((self.first, self.second), (self.second, self.first))
        )
        self.kernel.data_volume = lambda: f"{name}_data"
        self._On(self.second, Build, self.other, False)
        return disk

    def Settle(self, device: BlockDev) -> None:
        Connected(device)

    def AttachNet(self, device: storage.base.Mirror, multimaster: bool) -> None:
        other = self._On(self.second, tree.FindOrFail, self.other)
        self._On(self.second, other.DisconnectNet)
        self._On(self.second, other.AttachNet, multimaster)
        device.AttachNet(multimaster)
        self.Settle(device)


_VOLUME_SCRIPTS = {
    "create": 'lvcreate -Wn -n "$VOL_NAME" -L "${VOL_SIZE}m" vg',
    "attach": 'lvs "$volume"; lvchange -ay "$volume"; echo "/dev/$volume" >&9',
    "detach": 'lvs "$volume" || exit 0; lvchange -an "$volume"',
    "remove": 'lvs "$volume" || exit 0; lvremove -f "$volume"',
    "grow": 'lvextend -L "${VOL_NEW_SIZE}m" "$volume"',
    "setinfo": 'lvchange --addtag "$VOL_METADATA" "$volume"',
    "verify": "exit 1",
}

SIMULATED = [
    "simulated plain",
    "simulated blockdev",
    "simulated rbd",
    "simulated gluster",
    "simulated ext",
    "simulated drbd",
]
ALL = ["file", "sharedfile", "fake plain", "fake drbd", "fake rbd", "played drbd", *SIMULATED]
HALVES = "halves drbd"
# The product's own, and those that tests decide about.
_FAKES = {"fake": fake.DRIVERS, "played": drivers.STORAGE}
# In a node of the laboratory, which has a volume group "vg" (lab.stories).
REAL = ["plain", "volumes blockdev", "volumes ext"]
if "GANETI_LAB_NODE" in os.environ:
    ALL = REAL
mirrors_only = pytest.mark.parametrize("kind", ["fake drbd", "played drbd", "simulated drbd", HALVES], indirect=True)
without_content = pytest.mark.parametrize("kind", ALL if ALL is REAL else [*ALL, HALVES], indirect=True)


@pytest.fixture(params=ALL)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    where, _, template = request.param.rpartition(" ")
    if where == "simulated":
        yield SimulatedPair(template) if template == "drbd" else Simulated(template)
        return
    if request.param == HALVES:
        storage.UseDrivers(Halves.DRIVERS)
        yield Halves()
        storage.UseDrivers({})
        return
    fakes = _FAKES.get(where, {})
    [node] = MakeNodes(tmp_path, "node1")
    base = tmp_path / "disks"
    base.mkdir()
    node.AllowFileStorage(base)
    with node:
        storage.UseDrivers(fakes)
        if where == "volumes":
            yield InVolumes(template, base)
        else:
            yield Kind(template, fakes, str(base))
        storage.UseDrivers({})
    if request.param in REAL:
        subprocess.run(["lvremove", "-q", "-f", "vg"], check=True, capture_output=True)


def inside(story: Callable[..., None]) -> Callable[..., None]:
    """Tell a story where the storage of its kind is."""

    @functools.wraps(story)
    def test(kind: Kind, **fixtures: Any) -> None:
        kind.Do(lambda: story(kind, **fixtures))

    return test


def Build(disk: objects.Disk, on_primary: bool = True) -> BlockDev:
    """Every layer from below, as the master asks for them."""
    for child in disk.children:
        Build(child, on_primary)
    return tree.Create(disk, disk.size, OWNER, on_primary, f"originstname+{OWNER}")


def test_every_driver_is_held_to_the_contract() -> None:
    told = {kind.rpartition(" ")[2] for kind in ALL if kind.partition(" ")[0] not in _FAKES}
    assert ALL is REAL or told == set(storage.DRIVERS)


@without_content
@inside
def test_life_from_creation_to_removal(kind: Kind) -> None:
    disk = kind.Disk("one")
    assert (tree.Find(disk) is None) == (not kind.adopts)

    Build(disk)
    device = tree.FindOrFail(disk)
    assert device.attached
    assert device.Dimensions()[0] == 8 * MIB
    kind.Settle(device)
    assert tree.CombinedStatus(device).is_degraded is False
    assert device.dev_path is not None
    assert runtime.ReadText(pathutils.BdevCacheFile(device.dev_path)) == f"{OWNER} primary disk/0\n"

    device.Close()
    tree.Shutdown(disk)
    tree.Shutdown(disk)  # done already is fine
    assert not runtime.Exists(pathutils.BdevCacheFile(device.dev_path))

    again = tree.Assemble(disk, OWNER, as_primary=True)
    assert again is not None and again.dev_path == device.dev_path
    assert tree.Assemble(disk, OWNER, as_primary=True) is not None

    tree.Remove(disk)
    tree.Remove(disk)
    assert (tree.Find(disk) is None) == (not kind.adopts)
    if kind.adopts:
        return
    if kind.template == "drbd":  # comes up without local data, as a mirror may
        assert tree.Assemble(disk, OWNER, as_primary=False) is not None
    else:
        with pytest.raises(errors.BlockDeviceError, match=kind.template):
            tree.Assemble(disk, OWNER, as_primary=True)


@inside
def test_existing_storage_is_never_taken_over(kind: Kind) -> None:
    disk = kind.Disk("precious")
    Build(disk)
    device = tree.FindOrFail(disk)
    kind.Fill(device, b"precious" * MIB)
    if kind.adopts:  # that is what it is for
        tree.Create(disk, 8, "somebody.else", True, "")
        tree.Remove(disk)
    else:
        with pytest.raises(errors.BlockDeviceError):
            tree.Create(disk, 8, "somebody.else", True, "")
    assert kind.Content(tree.FindOrFail(disk)) == b"precious" * MIB


@without_content
@inside
def test_a_missing_device_is_reported_with_what_to_look_at(kind: Kind) -> None:
    """Nothing activates a file, and a guest may still have it open."""
    with pytest.raises(errors.BlockDeviceError, match="not found on this node") as caught:
        tree.FindOrFail(kind.Disk("gone"))
    hints = {
        "file": "copy it from inside first",
        "sharedfile": "copy it from inside first",
        "blockdev": "is its storage connected?",
        "ext": "attach script of storage provider san failed",
    }
    said = str(caught.value)
    assert hints.get(kind.template, "are the instance's disks active?") in said
    # What makes a file anew refuses to while the instance runs, and the new one is empty.
    if "file" in kind.template or kind.template == "gluster":
        assert said.index("'gnt-instance shutdown INSTANCE'") < said.index("recreate-disks") < said.index("a backup")


@inside
def test_content_survives_everything_but_removal(kind: Kind) -> None:
    disk = kind.Disk("data")
    Build(disk)
    device = tree.FindOrFail(disk)
    kind.Fill(device, b"0123456789abcdef" * (MIB // 2))
    device.Close()
    tree.Shutdown(disk)
    tree.Assemble(disk, OWNER, as_primary=True)
    if kind.adopts:
        with pytest.raises(errors.BlockDeviceError, match="growing is not possible"):
            tree.Grow(disk, 4, dry_run=True, backing_store=True, exclusive=False)
        assert kind.Content(tree.FindOrFail(disk)) == b"0123456789abcdef" * (MIB // 2)
        return
    for dry_run, backing_store, size in ((True, True, 8), (False, True, 12), (False, False, 12)):
        tree.Grow(disk, 4, dry_run, backing_store, exclusive=False)
        device = tree.FindOrFail(disk)
        data = device if device.DATA_CHILD is None else device.children[device.DATA_CHILD]
        assert data is not None and data.Dimensions()[0] == size * MIB
    assert device.Dimensions()[0] == 12 * MIB
    assert kind.Content(device) == b"0123456789abcdef" * (MIB // 2) + bytes(4 * MIB)


@inside
def test_nothing_shrinks(kind: Kind) -> None:
    disk = kind.Disk("big")
    Build(disk)
    with pytest.raises(errors.BlockDeviceError, match="growing" if kind.adopts else "shrink"):
        tree.Grow(disk, -4, dry_run=False, backing_store=True, exclusive=False)
    device = tree.FindOrFail(disk)
    assert device.Dimensions()[0] == 8 * MIB


@without_content
@inside
def test_secondary_assembles_only_what_it_must(kind: Kind) -> None:
    disk = kind.Disk("other")
    Build(disk, on_primary=False)
    driver = storage.GetDriver(disk.dev_type)
    device = tree.Assemble(disk, OWNER, as_primary=False)
    assert (device is not None) == driver.ASSEMBLED_ON_SECONDARY


@inside
def test_renamed_storage_keeps_its_content(kind: Kind) -> None:
    disk, target = kind.Disk("old"), kind.Disk("new")
    Build(disk)
    device = tree.FindOrFail(disk)
    if kind.template == "drbd" or (isinstance(kind, Simulated | InVolumes) and kind.template != "plain"):
        with pytest.raises(errors.BlockDeviceError, match="renaming is not possible"):
            device.Rename(target.logical_id)
        return
    kind.Fill(device, b"x" * MIB * 8)
    device.Rename(target.logical_id)
    assert tree.Find(disk) is None
    assert kind.Content(tree.FindOrFail(target)) == b"x" * MIB * 8
    Build(disk)
    with pytest.raises(errors.BlockDeviceError, match="exists already"):
        tree.FindOrFail(disk).Rename(target.logical_id)


@mirrors_only
@inside
def test_mirror_loses_and_regains_its_other_side(kind: Kind) -> None:
    disk = kind.Disk("mirror")
    Build(disk)
    device = tree.FindOrFail(disk)
    assert isinstance(device, storage.base.Mirror)
    device.DisconnectNet()
    parted = device.Connection()
    assert parted.standalone and device.NeedsActivation()
    device.Release()
    assert device.Connection() == parted, "it counts, and has all of its data"
    assert tree.CombinedStatus(device).is_degraded
    kind.AttachNet(device, multimaster=True)
    assert device.Connection().connected and not device.NeedsActivation()
    device.AttachNet(multimaster=False)
    assert device.Connection().connected, "a link that is there is kept"


@mirrors_only
@inside
def test_a_call_that_comes_late_changes_nothing(kind: Kind) -> None:
    disk = kind.Disk("mirror")
    Build(disk)

    def decided(number: int, peer: str = constants.PEER_COUNTS) -> storage.base.Mirror:
        values = {**(disk.dynamic_params or {}), constants.PEER: peer, constants.DECISION: number}
        device = tree.FindOrFail(disk.Replace(dynamic_params=values))
        assert isinstance(device, storage.base.Mirror)
        return device

    for number in (3, 3, 7):
        decided(number).Follow()
    late = decided(6, constants.PEER_BEHIND)
    volumes = [child.Replace() for child in disk.children]
    for act in (late.Follow, late.Release, late.Assemble, late.Open, lambda: late.RemoveChildren(volumes)):
        with pytest.raises(
            errors.BlockDeviceError, match=r"outdated: it follows decision 6 .* already follows decision 7"
        ):
            act()
    decided(7).DisconnectNet()
    with pytest.raises(errors.BlockDeviceError, match="this call is outdated"):
        late.AttachNet(multimaster=False)
    assert decided(7).Connection().standalone
    kind.AttachNet(decided(8), multimaster=False)
    # What a mirror obeyed that had the number before does not matter.
    values = {**(disk.dynamic_params or {}), constants.DECISION: 1}
    with storage.GetDriver("drbd")(disk.Replace(uuid=disk.children[0].uuid, dynamic_params=values)).Obeying():
        pass


@mirrors_only
@inside
def test_mirror_bears_the_loss_of_its_own_storage(kind: Kind) -> None:
    disk = kind.Disk("mirror")
    Build(disk)
    tree.Shutdown(disk)
    for child in disk.children:
        tree.Remove(child)
    device = tree.Assemble(disk, OWNER, as_primary=False)
    assert device is not None
    assert tree.CombinedStatus(device).ldisk_status == 4


@pytest.mark.parametrize("kind", ["fake drbd"], indirect=True)
@inside
def test_device_that_needs_its_children_fails_without_them(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = kind.Disk("strict")
    Build(disk)
    tree.Shutdown(disk)
    tree.Remove(disk.children[1])
    monkeypatch.setattr(fake.FakeMirror, "CHILDREN_NEEDED", None)
    with pytest.raises(errors.BlockDeviceError, match="strict_meta: does not exist"):
        tree.Assemble(disk, OWNER, as_primary=True)


def test_link_points_to_the_device_and_is_corrected(kind: Kind) -> None:
    path = links.Make(OWNER, "/dev/wrong", 0, links.Own("kvm"))
    assert links.Make(OWNER, "/dev/right", 0, links.Own("kvm")) == path
    assert Path(path).readlink() == Path("/dev/right")
    links.Remove(OWNER, 3)
    assert not Path(path).is_symlink()
