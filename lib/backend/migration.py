"""Procedures of a live migration and of devices changed while an instance runs (spec/drivers.md d.3.3, d.4)."""

from __future__ import annotations

import logging
from typing import Any

from ganeti import errors, hypervisor, objects, pathutils, runtime
from ganeti.backend import wire
from ganeti.backend.instance import LinkDisks, RemoveLinks
from ganeti.hypervisor.base import HOTPLUG_DISK, HOTPLUG_NIC, Hypervisor

Dict = dict[str, Any]


def _Load(data: Dict) -> tuple[objects.Instance, Hypervisor]:
    instance = wire.Instance(data)
    return instance, hypervisor.GetHypervisor(instance.hypervisor)


def Migratable(instance: Dict) -> None:
    """instance_migratable: fails unless the instance runs here."""
    guest, driver = _Load(instance)
    if driver.Info(guest.name, guest.hvparams) is None:
        raise errors.RpcCallError(f"Instance {guest.name} is not running")
    for index in range(len(wire.InstanceDisks(guest))):
        link = pathutils.InstanceDiskLink(guest.name, index)
        if not runtime.Exists(link):
            logging.warning("Instance %s is missing the link %s of disk %d", guest.name, link, index)


def Info(instance: Dict) -> str | None:
    """migration_info: what the target needs, opaque."""
    guest, driver = _Load(instance)
    return driver.MigrationInfo(guest)


def Accept(instance: Dict, info: str | None, target: str) -> None:
    """accept_instance: target; links the disks, then waits for the guest."""
    guest, driver = _Load(instance)
    try:
        driver.Accept(guest, info, target, LinkDisks(guest))
    except errors.HypervisorError:
        if driver.Info(guest.name, guest.hvparams) is None:
            RemoveLinks(guest)
        raise


def Migrate(cluster_name: str, instance: Dict, target: str, live: bool) -> None:
    """instance_migrate: source; starts sending."""
    guest, driver = _Load(instance)
    driver.Migrate(cluster_name, guest, target, live)


def Status(instance: Dict) -> Dict:
    """instance_get_migration_status: source."""
    guest, driver = _Load(instance)
    return driver.MigrationStatus(guest).ToDict()


def FinalizeSource(instance: Dict, success: bool, live: bool) -> None:
    """instance_finalize_migration_src"""
    guest, driver = _Load(instance)
    driver.FinalizeSource(guest, success, live)


def FinalizeDestination(instance: Dict, info: str | None, success: bool) -> None:
    """instance_finalize_migration_dst"""
    guest, driver = _Load(instance)
    driver.FinalizeDestination(guest, info, success)


# --- devices of a running instance ------------------------------------------------------------------------------------


def HotplugSupported(instance: Dict) -> None:
    """hotplug_supported"""
    guest, driver = _Load(instance)
    driver.HotplugSupported(guest)


def Hotplug(instance: Dict, action: str, dev_type: str, device: Dict, extra: Any, seq: int) -> Dict | None:
    """hotplug_device; a removal answers how the device was plugged."""
    guest, driver = _Load(instance)
    driver.HotplugSupported(guest)
    if dev_type == HOTPLUG_NIC:
        plugged: objects.NIC | objects.Disk = wire.Nic(device)
    elif dev_type == HOTPLUG_DISK:
        plugged = wire.Disk(device)
    else:
        raise errors.RpcCallError(f"Device type '{dev_type}' cannot be changed on a running instance")
    if action == "hotadd":
        driver.HotAdd(guest, dev_type, plugged, extra, seq)
    elif action == "hotremove":
        return driver.HotRemove(guest, dev_type, plugged, seq)
    elif action == "hotmod":
        driver.HotModify(guest, dev_type, plugged, extra, seq)
    else:
        raise errors.RpcCallError(f"Unknown action '{action}' for a device of a running instance")
    return None


def ResizeDisk(instance: Dict, disk: Dict, new_size: int) -> None:
    """resize_disk: ``new_size`` in bytes."""
    guest, driver = _Load(instance)
    driver.ResizeDisk(guest, wire.Disk(disk), new_size)


HANDLERS = {
    "accept_instance": Accept,
    "hotplug_device": Hotplug,
    "hotplug_supported": HotplugSupported,
    "instance_finalize_migration_dst": FinalizeDestination,
    "instance_finalize_migration_src": FinalizeSource,
    "instance_get_migration_status": Status,
    "instance_migratable": Migratable,
    "instance_migrate": Migrate,
    "migration_info": Info,
    "resize_disk": ResizeDisk,
}
