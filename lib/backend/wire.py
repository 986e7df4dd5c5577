"""What arrives in a call's arguments, as objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti import errors, objects

# Of the backend parameters; a hypervisor's own are checked by its driver.
_NEEDED = ("minmem", "maxmem", "vcpus")


def Instance(data: Mapping[str, Any]) -> objects.Instance:
    """Read INST: filled parameters, disks in ``disks_info``."""
    try:
        found = objects.Instance.FromDict(data, runtime=True)
    except errors.ConfigurationError as err:
        raise errors.RpcCallError(f"Instance in the call's arguments: {err}") from err
    missing = [name for name in _NEEDED if not isinstance(found.beparams.get(name), int)]
    if missing:
        raise errors.RpcCallError(f"Instance in the call's arguments: {', '.join(missing)} is not a number")
    return found


def Disk(data: Mapping[str, Any]) -> objects.Disk:
    """Read DISK: filled parameters and ``dynamic_params``, children alike."""
    try:
        return objects.Disk.FromDict(data, runtime=True)
    except errors.ConfigurationError as err:
        raise errors.RpcCallError(f"Disk in the call's arguments: {err}") from err


def Disks(data: Iterable[Mapping[str, Any]]) -> list[objects.Disk]:
    return [Disk(item) for item in data]


def Nic(data: Mapping[str, Any]) -> objects.NIC:
    try:
        return objects.NIC.FromDict(data, runtime=True)
    except errors.ConfigurationError as err:
        raise errors.RpcCallError(f"NIC in the call's arguments: {err}") from err


def InstanceDisks(instance: objects.Instance) -> tuple[objects.Disk, ...]:
    """Return the instance's disks in order."""
    return instance.disks_info or ()
