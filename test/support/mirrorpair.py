"""Two simulated machines with the programs of DRBD and LVM, and the two sides of mirrors on them."""

from __future__ import annotations

from typing import Any

import pytest
from simulated import Machine, World

from ganeti import backend, errors, objects, pathutils, runtime
from support.mirrors import SECRET, MakeMirror
from support.standindrbd import Device, Links, StandInDrbd
from support.standinlvm import StandInLvm
from support.virtual import MakeInstance


class Side:
    """One machine and its end of the mirrors; ``Do`` serves a procedure as the node daemon would."""

    def __init__(self, world: World, number: int, links: Links):
        self.machine: Machine = world.AddMachine(f"node{number}")
        self.lvm = StandInLvm(self.machine)
        self.lvm.AddPv("/dev/sda", "vg", 65536)
        self.drbd = StandInDrbd(self.machine, links, self.lvm)
        self.ends = f"192.0.2.{number}", f"192.0.2.{3 - number}"
        self.machine.Call(self._Furnish)

    def _Furnish(self) -> None:
        for path in ("/proc/sys/kernel/random", pathutils.RUN_DIR, pathutils.DISK_LINKS_DIR):
            runtime.MakeDirs(path)

    def Disk(self, peer: str | None = "counts", **values: Any) -> objects.Disk:
        return MakeMirror(*self.ends, peer=peer, **values)

    def Do(self, name: str, *args: Any) -> Any:
        words = [arg.ToDict(runtime=True) if isinstance(arg, objects.Disk) else arg for arg in args]
        words = [
            [disk.ToDict(runtime=True) if isinstance(disk, objects.Disk) else disk for disk in word]
            if isinstance(word, list)
            else word
            for word in words
        ]
        return self.machine.Call(backend.Handlers()[name], *words)

    def Fail(self, match: str, name: str, *args: Any) -> None:
        with pytest.raises(errors.GenericError, match=match) as caught:
            self.Do(name, *args)
        assert SECRET not in str(caught.value)

    def Create(self, primary: bool, disk: objects.Disk | None = None) -> None:
        disk = disk or self.Disk()
        for layer in (*disk.children, disk):
            self.Do("blockdev_create", layer, layer.size, "guest", primary, "note", False)

    def Assemble(self, disk: objects.Disk, primary: bool = False) -> None:
        self.Do("blockdev_assemble", disk, MakeInstance().ToDict(runtime=True), primary, 0)

    @property
    def device(self) -> Device:
        return self.drbd.devices[0]

    def State(self) -> tuple[str, str, str, bool]:
        return self.device.link, self.device.role, self.device.disk, self.device.frozen


class Pair:
    def __init__(self) -> None:
        world = World(1)
        self.links = Links()
        self.one, self.two = Side(world, 1, self.links), Side(world, 2, self.links)

    def Create(self) -> Pair:
        self.one.Create(True)
        self.two.Create(False)
        return self


def Layers(side: Side, disk: objects.Disk) -> list[objects.Disk]:
    """Make the volumes of a disk, and return the disk."""
    for child in disk.children:
        side.Do("blockdev_create", child, child.size, "x", True, "", False)
    return [disk]
