"""Devices that exist anyway, on a simulated machine: template ``blockdev``."""

from __future__ import annotations

import os

import pytest
from simulated import Machine, World
from simulated.disk import Device
from support import standinstorage
from support.virtual import MakeDisk

from ganeti import errors, runtime
from ganeti.storage import tree
from ganeti.storage.drivers import device

OWNER = "guest.example.com"
PATH = "/dev/disk/by-id/lun0"
MIB = 1 << 20


@pytest.fixture
def node() -> Machine:
    machine = World(1).AddMachine("node1")
    standinstorage.AddBlockTools(machine)
    standinstorage.AddDevice(machine, "/dev/sdb", 100 * MIB, os.makedev(8, 16))
    machine.Call(runtime.MakeDirs, "/dev/disk/by-id")
    machine.Call(runtime.Symlink, "../../sdb", PATH)
    return machine


def test_an_adopted_device_is_named_and_never_touched(node: Machine) -> None:
    disk = MakeDisk("blockdev", ["manual", PATH], 100)
    device = node.Call(tree.Create, disk, 100, OWNER, True)
    assert (device.dev_path, device.major, device.minor) == (PATH, 8, 16)
    assert node.Call(device.Dimensions) == (100 * MIB, None)
    assert device.UserspaceUri("kvm") is None
    node.Call(tree.Remove, disk)
    assert node.Call(tree.FindOrFail, disk).dev_path == PATH, "it is still there"


def test_a_device_smaller_than_asked_for(node: Machine) -> None:
    with pytest.raises(errors.BlockDeviceError, match="has 104857600 bytes only, 101 MiB were asked for"):
        node.Call(tree.Create, MakeDisk("blockdev", ["manual", PATH], 101), 101, OWNER, True)


def test_what_is_no_device(node: Machine) -> None:
    node.Call(runtime.WriteFile, "/dev/disk/by-id/file", b"")
    node.Call(runtime.WriteFile, "/etc/shadow", b"")
    for path, match in (
        ("/dev/disk/by-id/file", "is not a block device"),
        ("/dev/../etc/shadow", "is not the plain path of a device below /dev"),
        ("/etc/shadow", "is not the plain path of a device below /dev"),
    ):
        with pytest.raises(errors.BlockDeviceError, match=match):
            node.Call(tree.Create, MakeDisk("blockdev", ["manual", path]), 8, OWNER, True)
    with pytest.raises(errors.BlockDeviceError, match=r"does not exist on this node; is its storage connected\?"):
        node.Call(tree.Assemble, MakeDisk("blockdev", ["manual", "/dev/disk/by-id/lun1"]), OWNER, True)


@pytest.mark.parametrize("output", ["", "rubbish", "-5"])
def test_a_size_that_cannot_be_read(node: Machine, output: str) -> None:
    node.programs["blockdev"] = lambda invocation: invocation.Print(output)
    device = node.Call(tree.FindOrFail, MakeDisk("blockdev", ["manual", PATH]))
    with pytest.raises(errors.BlockDeviceError, match="'blockdev --getsize64 /dev/disk/by-id/lun0' printed"):
        node.Call(device.Dimensions)


@pytest.mark.parametrize("printed", ["\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT TWO}", "9" * 5000, ""])
def test_what_is_no_size_is_quoted(node: Machine, printed: str) -> None:
    node.programs["blockdev"] = lambda invocation: invocation.Print(f"{printed}\n")
    with pytest.raises(errors.BlockDeviceError, match="instead of a size"):
        node.Call(device.SizeOf, PATH, "disk")


def test_a_device_that_the_node_uses_itself_is_not_used_for_a_guest(node: Machine) -> None:
    """It was there and free when it was looked at first, and is mounted now."""
    disk = MakeDisk("blockdev", ["manual", PATH], 100)
    device = node.Call(tree.FindOrFail, disk)
    assert device.dev_path == PATH
    file = node.disk.Find(PATH)
    assert isinstance(file, Device)
    file.held = True
    with pytest.raises(errors.BlockDeviceError, match=rf"in use itself \(mounted.*'lsblk {PATH}' shows by what"):
        node.Call(device.Assemble)
    assert (device.attached, device.dev_path, device.major, device.minor) == (False, None, None, None)
    with pytest.raises(errors.BlockDeviceError, match="in use itself"):
        node.Call(tree.Create, disk, 100, OWNER, True)
    file.held = False
    node.Call(device.Assemble)
    assert device.dev_path == PATH
