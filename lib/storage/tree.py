"""A disk and what lies below it, walked one driver call at a time (doc/reference/drivers.md a.5)."""

from __future__ import annotations

import logging
from typing import Any

from ganeti import errors, objects
from ganeti.storage import GetDriver, cache
from ganeti.storage.base import BlockDev, DeviceStatus


def Make(disk: objects.Disk) -> BlockDev:
    """Make the driver objects of a disk and its children without looking for any device."""
    return GetDriver(disk.dev_type)(disk, [Make(child) for child in disk.children or ()])


def Find(disk: objects.Disk) -> BlockDev | None:
    """Return the device if it exists, with those of its children that exist; change nothing."""
    device = _Look(disk)
    return device if device.attached else None


def FindAlone(disk: objects.Disk) -> BlockDev | None:
    """Return the device if it exists, without looking at its children."""
    device = GetDriver(disk.dev_type)(disk, [])
    device.Attach()
    return device if device.attached else None


def FindOrFail(disk: objects.Disk) -> BlockDev:
    device = _Look(disk)
    if not device.attached:
        raise errors.BlockDeviceError(f"{device}: not found on this node; {device.if_missing}")
    return device


def Reach(disk: objects.Disk) -> BlockDev | None:
    """Return the device if it exists, set up first if that is all it takes to reach the storage from here."""
    device = _Look(disk)
    if not device.attached and device.OPEN_ASSEMBLES:
        device.Assemble()
    return device if device.attached else None


def _Look(disk: objects.Disk) -> BlockDev:
    device = GetDriver(disk.dev_type)(disk, [Find(child) for child in disk.children or ()])
    device.Attach()
    return device


def Create(
    disk: objects.Disk, size: int, owner: str, on_primary: bool, info: str = "", exclusive: bool = False
) -> BlockDev:
    """Make one layer.  Its children exist already, made by calls of their own, and are assembled first."""
    driver = GetDriver(disk.dev_type)
    children = []
    for child in disk.children or ():
        below = Assemble(child, owner, on_primary)
        if below is not None and (on_primary or driver.ASSEMBLED_ON_SECONDARY):
            below.Open()
        children.append(below)
    device = driver(disk, children)
    device.note = info
    device.Create(size, exclusive)
    try:
        if on_primary or driver.ASSEMBLED_ON_SECONDARY:
            device.Assemble()
            if on_primary or driver.OPENED_ON_SECONDARY:
                device.Open(force=True)
            cache.Update(device.dev_path, owner, on_primary, disk.iv_name)
        device.SetInfo(info)
    except errors.BlockDeviceError as err:
        raise errors.BlockDeviceError(f"{err}; {_TakeBack(device)}") from err
    return device


def _TakeBack(device: BlockDev) -> str:
    """Remove a layer that was just made and cannot be used; return what became of it."""
    path = device.dev_path
    try:
        device.Remove()
    except errors.BlockDeviceError as err:
        return f"what was made of it is left over, remove it by hand: {err}"
    cache.Remove(path)
    return "what was made of it was removed again"


def SetInfo(device: BlockDev, info: str) -> None:
    """Note on every layer of a device whose it is."""
    for child in device.children:
        if child is not None:
            SetInfo(child, info)
    device.SetInfo(info)


def Assemble(disk: objects.Disk, owner: str, as_primary: bool) -> BlockDev | None:
    """Make the disk usable on this node; None where nothing has to be assembled (not primary, not needed there)."""
    driver = GetDriver(disk.dev_type)
    device = driver(disk, _AssembleChildren(disk, driver, owner, as_primary))
    if not (as_primary or driver.ASSEMBLED_ON_SECONDARY):
        return None
    device.Assemble()
    if as_primary or driver.OPENED_ON_SECONDARY:
        device.Open()
    cache.Update(device.dev_path, owner, as_primary, disk.iv_name)
    return device


def _AssembleChildren(
    disk: objects.Disk, driver: type[BlockDev], owner: str, as_primary: bool
) -> list[BlockDev | None]:
    """Children that fail are None; more failures than the driver bears are an error."""
    children: list[BlockDev | None] = []
    wanted = disk.children or ()
    needed = len(wanted) if driver.CHILDREN_NEEDED is None else driver.CHILDREN_NEEDED
    failed = 0
    for child in wanted:
        try:
            children.append(Assemble(child, owner, as_primary))
        except errors.BlockDeviceError as err:
            failed += 1
            if len(wanted) - failed < needed:
                raise
            logging.error("Child device of %s %s cannot be activated, going on: %s", disk.dev_type, disk.uuid, err)
            children.append(None)
    return children


def Shutdown(disk: objects.Disk) -> None:
    """Take the disk off this node, top layer first; try every layer and report all failures together."""
    problems = []
    device = Find(disk)
    if device is not None:
        path = device.dev_path
        try:
            device.Shutdown()
            cache.Remove(path)
        except errors.BlockDeviceError as err:
            problems.append(str(err))
    for child in disk.children or ():
        try:
            Shutdown(child)
        except errors.BlockDeviceError as err:
            problems.append(str(err))
    _RaiseAll(problems)


def Remove(disk: objects.Disk) -> None:
    """Destroy the disk's data on this node, top layer first; try every layer."""
    problems = []
    device = GetDriver(disk.dev_type)(disk, [Find(child) for child in disk.children or ()])
    try:
        device.Attach()
        path = device.dev_path
        device.Remove()
        cache.Remove(path)
    except errors.BlockDeviceError as err:
        problems.append(str(err))
    for child in disk.children or ():
        try:
            Remove(child)
        except errors.BlockDeviceError as err:
            problems.append(str(err))
    _RaiseAll(problems)


def Grow(disk: objects.Disk, amount: int, dry_run: bool, backing_store: bool, exclusive: bool) -> None:
    """Add ``amount`` MiB to the layer that holds the data, or (in a second call) to those above it, the lowest first."""
    *above, below = _DataPath(FindOrFail(disk))
    for device in [below] if backing_store else reversed(above):
        device.Grow(amount, dry_run, backing_store, exclusive)


def Snapshot(disk: objects.Disk, name: str | None, size: int | None) -> list[Any]:
    """Make a snapshot of the layer that holds the data, whether those above it are set up or not; return its id."""
    driver = GetDriver(disk.dev_type)
    while driver.DATA_CHILD is not None:
        if len(disk.children) <= driver.DATA_CHILD:
            raise errors.BlockDeviceError(f"{Make(disk)}: has no data on this node")
        disk = disk.children[driver.DATA_CHILD]
        driver = GetDriver(disk.dev_type)
    return FindOrFail(disk).Snapshot(name, size)


def _DataPath(device: BlockDev) -> list[BlockDev]:
    """Return the layers from the top one down to that which holds the data; all of them must be there."""
    path = [device]
    while device.DATA_CHILD is not None:
        below = device.children[device.DATA_CHILD] if len(device.children) > device.DATA_CHILD else None
        if below is None:
            raise errors.BlockDeviceError(
                f"{device}: its data is missing on this node; for a mirror 'gnt-instance replace-disks -a INSTANCE' makes"
                " it again"
            )
        path.append(below)
        device = below
    return path


def CombinedStatus(device: BlockDev) -> DeviceStatus:
    """Return the status of a device and everything below it."""
    status = device.Status()
    for child in device.children:
        if child is not None:
            status = status.Combine(CombinedStatus(child))
    return status


def _RaiseAll(problems: list[str]) -> None:
    if problems:
        raise errors.BlockDeviceError("; ".join(problems))
