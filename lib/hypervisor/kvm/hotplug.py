"""Devices of a running guest: added, removed, resized over QMP (doc/reference/drivers.md b.3).

A guest's process may run as another user in a chroot: files and taps are opened here and handed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import errors, objects, runtime
from ganeti.hypervisor.base import GuestDisk
from ganeti.hypervisor.kvm import devices, network, qmp, runfile

# What a guest may take to let go of a device.
_REMOVAL_SECONDS = 30.0


def Add(
    monitor: qmp.Monitor,
    instance: objects.Instance,
    device: objects.Disk | objects.NIC,
    extra: Any,
    seq: int,
) -> None:
    """Plug a device in and record it in the runtime file."""
    content = runfile.Load(instance.name)
    hvp = content.Effective(instance.hvparams)
    taken = [nic.hvinfo for nic in content.nics] + [entry.disk.hvinfo for entry in content.disks]
    places = devices.Places(hvp, content.machine, taken)
    if isinstance(device, objects.NIC):
        nic = devices.PlaceNic(device, hvp, places)
        _CheckPluggable(nic.hvinfo, devices.HOTPLUG_NIC_DRIVERS, f"nic_type {hvp['nic_type']}")
        _AddNic(monitor, instance, nic, hvp, seq)
        nics = list(content.nics)
        nics.insert(seq, nic)
        content = runfile.RunFile(content.command, tuple(nics), content.hvparams, content.disks)
    else:
        disk = devices.PlaceDisk(device, hvp, places)
        _CheckPluggable(disk.hvinfo, devices.HOTPLUG_DISK_DRIVERS, f"disk_type {hvp['disk_type']}")
        entry = _DiskEntry(instance.name, disk, extra)
        _AddDisk(monitor, entry, hvp)
        disks = list(content.disks)
        disks.insert(seq, entry)
        content = runfile.RunFile(content.command, content.nics, content.hvparams, tuple(disks))
    runfile.Save(instance.name, content)


def _CheckPluggable(info: Mapping[str, Any] | None, drivers: frozenset[str], what: str) -> None:
    if devices.Placed(info, what)["driver"] not in drivers:
        raise errors.HotplugError(f"Devices with {what} cannot be changed on a running instance; stop it first")


def _DiskEntry(name: str, disk: objects.Disk, extra: Any) -> GuestDisk:
    if not isinstance(extra, (list, tuple)) or len(extra) < 2:
        raise errors.HotplugError(f"Instance {name}: the new disk's [link, URI] is missing")
    link, uri = extra[-2:]
    return GuestDisk(disk, link or "", uri)


def _AddDisk(monitor: qmp.Monitor, entry: GuestDisk, hvp: Mapping[str, Any]) -> None:
    is_block = devices.IsBlock(entry)
    ident = str(devices.Placed(entry.disk.hvinfo, "disk")["id"])
    node = devices.BlockNode(entry, is_block, hvp)
    if not entry.uri:
        descriptor = runtime.OpenDevice(entry.path)
        try:
            node["file"]["filename"] = monitor.AddFd(descriptor.fileno(), ident)
        finally:
            descriptor.close()
    try:
        monitor.Execute("blockdev-add", node)
        try:
            monitor.Execute("device_add", devices.DiskDevice(entry.disk, hvp))
        except errors.HypervisorError:
            monitor.TryExecute("blockdev-del", {"node-name": ident})
            raise
    except errors.HypervisorError:
        monitor.RemoveFds(ident)
        raise


def _AddNic(
    monitor: qmp.Monitor, instance: objects.Instance, nic: objects.NIC, hvp: Mapping[str, Any], seq: int
) -> None:
    info = devices.Placed(nic.hvinfo, "NIC")
    ident, driver = str(info["id"]), str(info["driver"])
    queues = devices.Queues(driver, hvp)
    vhost = network.CanVhost(instance.name, hvp, driver)
    tap = network.OpenTap(bool(hvp["vnet_hdr"]) and driver == "virtio-net-pci", queues)
    opened = [runtime.OpenDevice(network.VHOST_DEVICE) for _ in range(queues)] if vhost else []
    try:
        network.Configure(instance, nic, seq, tap.name)
        names = [f"{ident}-{index}" for index in range(queues)]
        vhost_names = [f"{ident}-vhost-{index}" for index in range(len(opened))]
        for name, fd in zip(names + vhost_names, tap.fds + [each.fileno() for each in opened], strict=True):
            monitor.SendFd(name, fd)
    finally:
        tap.Close()
        for each in opened:
            each.close()
    monitor.Execute("netdev_add", NetdevArguments(ident, names, vhost_names))
    try:
        monitor.Execute("device_add", devices.NicDevice(nic, queues))
    except errors.HypervisorError:
        monitor.TryExecute("netdev_del", {"id": ident})
        raise


def NetdevArguments(ident: str, names: list[str], vhost_names: list[str]) -> dict[str, Any]:
    """Return the arguments of netdev_add for descriptors that were passed under these names."""
    single = len(names) == 1
    values: dict[str, Any] = {"type": "tap", "id": ident, "fd" if single else "fds": ":".join(names)}
    if vhost_names:
        values |= {"vhost": True, "vhostfd" if single else "vhostfds": ":".join(vhost_names)}
    return values


def Remove(monitor: qmp.Monitor, name: str, device: objects.Disk | objects.NIC) -> dict[str, Any]:
    """Pull a device out, wait until the guest releases it, and return its place."""
    content = runfile.Load(name)
    if isinstance(device, objects.NIC):
        found = next((nic for nic in content.nics if nic.uuid == device.uuid), None)
        info = found.hvinfo if found else None
        kept_nics = tuple(nic for nic in content.nics if nic.uuid != device.uuid)
        left = runfile.RunFile(content.command, kept_nics, content.hvparams, content.disks)
    else:
        entry = next((each for each in content.disks if each.disk.uuid == device.uuid), None)
        info = entry.disk.hvinfo if entry else None
        kept_disks = tuple(each for each in content.disks if each.disk.uuid != device.uuid)
        left = runfile.RunFile(content.command, content.nics, content.hvparams, kept_disks)
    if not info:
        raise errors.HotplugError(f"Instance {name}: device {device.uuid} was not plugged in when it was started")
    ident = str(info["id"])
    monitor.Execute("device_del", {"id": ident})
    if monitor.WaitEvent(lambda event: _IsGone(event, ident), _REMOVAL_SECONDS) is None:
        raise errors.HotplugError(
            f"Instance {name}: its system did not let go of device {ident} within {_REMOVAL_SECONDS:g} s; "
            "does it know hot-plugging (ACPI)?"
        )
    if isinstance(device, objects.NIC):
        monitor.Execute("netdev_del", {"id": ident})
    else:
        monitor.Execute("blockdev-del", {"node-name": ident})
        monitor.RemoveFds(ident)
    runfile.Save(name, left)
    return dict(info)


def _IsGone(event: qmp.Event, ident: str) -> bool:
    return event.get("event") == "DEVICE_DELETED" and event.get("data", {}).get("device") == ident


def Resize(monitor: qmp.Monitor, name: str, disk: objects.Disk, new_size: int) -> None:
    """Show the guest a disk with ``new_size`` bytes; do nothing if it has as many, as it does for a call that comes late.

    QEMU would make it smaller, and cut a file off.  Nobody else resizes in between: the socket serves one client at a time.
    """
    content = runfile.Load(name)
    entry = next((each for each in content.disks if each.disk.uuid == disk.uuid), None)
    if entry is None or not entry.disk.hvinfo:
        raise errors.HotplugError(f"Instance {name}: disk {disk.uuid} is not plugged in")
    node = entry.disk.hvinfo["id"]
    if _Bytes(monitor, name, node) < new_size:
        monitor.Execute("block_resize", {"node-name": node, "size": new_size})


def _Bytes(monitor: qmp.Monitor, name: str, node: str) -> int:
    """Return the size that a plugged disk has for the guest."""
    try:
        sizes = [
            int(found["image"]["virtual-size"])
            for found in monitor.Execute("query-named-block-nodes")
            if found.get("node-name") == node
        ]
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as err:
        raise errors.HotplugError(
            f"Instance {name}: QEMU describes its disks in a way that cannot be read: {err!r}"
        ) from err
    if not sizes:
        raise errors.HotplugError(f"Instance {name}: QEMU does not report the size of disk {node}")
    return sizes[0]
