"""What arrives in a call's arguments, as objects (spec/noderpc.md 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ganeti import errors, objects


def Instance(data: Mapping[str, Any]) -> objects.Instance:
    """INST: filled parameters, disks in ``disks_info``."""
    try:
        return objects.Instance.FromDict(data, runtime=True)
    except errors.ConfigurationError as err:
        raise errors.RpcCallError(f"Instance in the call's arguments: {err}") from err


def Disk(data: Mapping[str, Any]) -> objects.Disk:
    """DISK: filled parameters and ``dynamic_params``, children alike."""
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
    """The instance's disks in order."""
    return instance.disks_info or ()
