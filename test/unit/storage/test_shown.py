"""What a guest has seen of a disk is not wiped any more (storage.shown)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from simulated import Invocation, Machine, World
from support.mirrorpair import Pair, Side
from support.virtual import MakeInstance

from ganeti import errors, hypervisor, objects, pathutils, runtime
from ganeti.hypervisor.fake import FakeHypervisor
from ganeti.storage import shown


@pytest.fixture
def machine() -> Machine:
    machine: Machine = World(1).AddMachine("node1")
    machine.Call(runtime.MakeDirs, pathutils.RUN_DIR)
    return machine


def _Wipe(mib: int, seconds: float = 0.0) -> None:
    with shown.Unseen("disk/0", "uuid", mib):
        runtime.Sleep(seconds)


def test_only_what_lies_behind_may_be_wiped(machine: Machine) -> None:
    machine.Call(_Wipe, 0)
    for mib in (100, 64):
        machine.Call(shown.Note, "disk/0", "uuid", mib)
    for mib in (0, 99):
        with pytest.raises(
            errors.BlockDeviceError, match=f"seen its first 100 MiB, so it is not wiped from {mib} MiB on"
        ):
            machine.Call(_Wipe, mib)
    machine.Call(_Wipe, 100)
    machine.Call(shown.Forget, "uuid")
    machine.Call(_Wipe, 0)


def test_nothing_is_shown_while_it_is_wiped(machine: Machine) -> None:
    def show(after: float) -> None:
        runtime.Sleep(after)
        shown.Note("disk/0", "uuid", 64)

    machine.StartProcess(lambda: _Wipe(0, 100.0), "a call that nobody waits for")
    with pytest.raises(errors.BlockDeviceError, match=r"disk/0: is being wiped .*'pgrep -ax dd'"):
        machine.Call(show, 1.0)
    machine.Call(show, 100.0)


# --- in the node's calls ----------------------------------------------------------------------------------------------


@pytest.fixture
def side() -> Side:
    side: Side = Pair().one
    _Create(side)
    return side


def _Create(side: Side) -> None:
    side.Do("blockdev_create", _Volume(side), 64, "guest", True, "note", False)


def _Volume(side: Side) -> objects.Disk:
    return side.Disk().children[0]


def _WipeAll(side: Side) -> None:
    side.Do("blockdev_wipe", _Volume(side), 0, 64)


def test_a_disk_that_is_made_anew_or_removed_has_been_seen_by_nobody(side: Side) -> None:
    uuid = _Volume(side).uuid
    side.machine.Call(shown.Note, "disk/0", uuid, 64)
    side.Fail("so it is not wiped from 0 MiB on", "blockdev_wipe", _Volume(side), 0, 64)
    side.Do("blockdev_remove", _Volume(side))
    assert not side.machine.Call(runtime.Exists, f"{pathutils.DISKS_SHOWN_DIR}/{uuid}")
    # As on a node that was told of the removal by nobody.
    side.machine.Call(shown.Note, "disk/0", uuid, 64)
    _Create(side)
    _WipeAll(side)
    side.machine.Call(shown.Note, "disk/0", uuid, 64)
    side.Fail("exist", "blockdev_create", _Volume(side), 64, "guest", True, "note", False)
    side.Fail("so it is not wiped", "blockdev_wipe", _Volume(side), 0, 64)


def test_it_is_locked_until_all_is_written(side: Side) -> None:
    path = f"{pathutils.DISKS_SHOWN_DIR}/{_Volume(side).uuid}"
    held: list[bool] = []

    def dd(_: Invocation) -> int:
        try:
            runtime.LockFile(path, timeout=0).release()
            held.append(False)
        except runtime.LockBusy:
            held.append(True)
        return 0

    side.machine.programs["dd"] = dd
    _WipeAll(side)
    assert held == [True]


class _Plugging(FakeHypervisor):
    """A guest whose devices can be changed."""

    def HotplugSupported(self, instance: objects.Instance) -> None: ...

    def HotAdd(self, *args: Any) -> None: ...

    def HotModify(self, *args: Any) -> None: ...

    def ResizeDisk(self, *args: Any) -> None: ...


@pytest.fixture
def plugging() -> Iterator[None]:
    hypervisor.UseDrivers({"fake": _Plugging})
    yield
    hypervisor.UseDrivers({})


@pytest.mark.usefixtures("plugging")
def test_what_a_running_guest_gets_has_been_seen(side: Side) -> None:
    guest, disk = MakeInstance().ToDict(runtime=True), _Volume(side)
    plug = "hotplug_device", guest
    side.Do(*plug, "hotmod", "disk", disk.ToDict(runtime=True), None, 0)
    _WipeAll(side)
    side.Do(*plug, "hotadd", "disk", disk.ToDict(runtime=True), None, 0)
    side.Fail("seen its first 64 MiB", "blockdev_wipe", disk, 0, 64)
    # A part of a MiB has been seen as well.
    side.Do("resize_disk", guest, disk, (64 << 20) + 1)
    with pytest.raises(errors.BlockDeviceError, match="seen its first 65 MiB"):
        side.machine.Call(_WipeFrom, disk.uuid, 64)


def _WipeFrom(uuid: str, mib: int) -> None:
    with shown.Unseen("disk/0", uuid, mib):
        pass
