"""The fakes on a simulated machine: what a node keeps and what it loses when its power fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from simulated import World
from support.virtual import MakeDisk, MakeInstance

from ganeti import errors, objects, storage
from ganeti.backend import blockdev, drbd, instance, migration
from ganeti.storage.drivers import fake

Dict = dict[str, Any]


@pytest.fixture(autouse=True)
def drivers() -> Iterator[None]:
    storage.UseDrivers(fake.DRIVERS)
    yield
    storage.UseDrivers({})


def Mirror(local_minor: int = 0) -> objects.Disk:
    data, meta = MakeDisk("plain", ["vg", "d_data"], 8), MakeDisk("plain", ["vg", "d_meta"], 4)
    identity = ["uuid-a", "uuid-b", 11000, 0, 0, "secret"]
    return MakeDisk("drbd", identity, 8, [data, meta], dynamic_params={"local-minor": local_minor})


GUEST = MakeInstance(disks=[Mirror()])
DATA: Dict = GUEST.ToDict(runtime=True)
[DISK] = DATA["disks_info"]


def Create() -> None:
    for disk in (*DISK["children"], DISK):
        blockdev.Create(disk, disk["size"], GUEST.name, True, "", False)


def Use() -> None:
    blockdev.Assemble(DISK, DATA, True, 0)
    instance.Start(DATA, False, [])


def Running() -> list[str]:
    return instance.List(["fake"], {})


def test_power_failure_stops_guests_and_keeps_disks() -> None:
    world = World(7)
    node = world.AddMachine("node1")
    node.Call(Create)
    node.Call(Use)
    assert node.Call(Running) == [GUEST.name]
    assert node.Call(blockdev.Find, DISK)["is_degraded"] is False
    node.PowerOff()
    node.PowerOn()
    assert node.Call(Running) == []
    assert node.Call(drbd.NeedsActivation, [DISK]) == [DISK["uuid"]]
    with pytest.raises(errors.BlockDeviceError, match="exists already"):
        node.Call(Create)
    node.Call(Use)
    assert node.Call(Running) == [GUEST.name]
    assert world.failures == []


def test_mirrored_guest_moves_between_machines() -> None:
    world = World(8)
    first, second = world.AddMachine("node1"), world.AddMachine("node2")
    for node in (first, second):
        node.Call(Create)
        node.Call(blockdev.Assemble, DISK, DATA, False, 0)
    first.Call(Use)
    for node in (first, second):
        node.Call(drbd.DisconnectNet, [DISK])
        node.Call(drbd.AttachNet, [DISK], True)
        assert node.Call(drbd.WaitSync, [DISK]) == [True, 100.0]
    second.Call(blockdev.Open, "", [DISK], False)
    second.Call(migration.Accept, DATA, None, "192.0.2.2")
    first.Call(migration.Migrate, "cluster", DATA, "192.0.2.2", True)
    second.Call(migration.FinalizeDestination, DATA, None, True)
    sent = first.Call(migration.RunState, GUEST.name, "fake", {})
    first.Call(migration.EndSent, DATA, sent["ident"], sent["attempt"], True)
    assert (first.Call(Running), second.Call(Running)) == ([], [GUEST.name])
    first.Call(blockdev.Close, GUEST.name, [DISK])


def test_a_target_is_not_prepared_on_a_closed_side_of_a_mirror() -> None:
    """A call that comes when its migration was cleaned up; the next source would find it waiting, and send the guest there."""
    node = World(10).AddMachine("node1")
    node.Call(Create)
    node.Call(blockdev.Assemble, DISK, DATA, False, 0)
    node.Call(blockdev.Open, "", [DISK], False)
    node.Call(blockdev.Close, GUEST.name, [DISK])
    with pytest.raises(
        errors.BlockDeviceError, match="is not open on this node; the call that opened it may be overtaken"
    ):
        node.Call(migration.Accept, DATA, None, "192.0.2.2")
    assert node.Call(Running) == []
    # Nothing is left of it: the next migration is received.
    node.Call(blockdev.Open, "", [DISK], False)
    node.Call(migration.Accept, DATA, None, "192.0.2.2")


def test_full_disk_is_told_and_nothing_is_half_made() -> None:
    world = World(9)
    node = world.AddMachine("node1")
    node.disk_full = True
    with pytest.raises(errors.BlockDeviceError, match="cannot be created"):
        node.Call(Create)
    node.disk_full = False
    node.Call(Create)
