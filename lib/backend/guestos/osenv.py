"""The environment of an operating system's scripts (doc/reference/interfaces.md a.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors, objects
from ganeti.backend import wire
from ganeti.backend.guestos.osdef import OsDefinition, SplitName
from ganeti.hypervisor.nics import NetworkValues
from ganeti.params import disk as disk_params
from ganeti.storage import base, tree

# An OS of API version 10 sees what version 10 had (design 2.0), and its script's own variables.
_API10_NAMES = frozenset(
    ["PATH", "OS_API_VERSION", "OS_NAME", "DEBUG_LEVEL", "INSTANCE_NAME", "HYPERVISOR", "DISK_COUNT", "NIC_COUNT"]
    + ["INSTANCE_REINSTALL", "OLD_INSTANCE_NAME", "EXPORT_DEVICE", "EXPORT_INDEX", "IMPORT_DEVICE", "IMPORT_INDEX"]
)
_API10_DISK = ("PATH", "ACCESS", "FRONTEND_TYPE", "BACKEND_TYPE")
_API10_NIC = ("MAC", "IP", "BRIDGE", "FRONTEND_TYPE")

Environment = dict[str, str]


def ParameterVariable(name: str) -> str:
    """Return ``OSP_FILESYSTEM_TYPE`` for ``filesystem-type``."""
    return "OSP_" + name.upper().replace("-", "_")


def Core(found: OsDefinition, full_name: str, osparams: Mapping[str, Any], debug: int = 0) -> Environment:
    """Return the environment that every script gets, ``verify`` included."""
    variant = SplitName(full_name)[1]
    if not found.variants or found.api_version < constants.OS_API_V15:
        variant = ""
    elif not variant:
        variant = found.variants[0]
    found.CheckForced(variant)
    env = {
        "PATH": constants.SCRIPT_PATH,
        "OS_API_VERSION": str(found.api_version),
        "OS_NAME": found.name,
        "OS_VARIANT": variant,
        "DEBUG_LEVEL": str(debug),
    }
    env.update({ParameterVariable(name): str(value) for name, value in osparams.items()})
    return _ForVersion(found, env)


def ForInstance(
    found: OsDefinition,
    instance: objects.Instance,
    debug: int = 0,
    extra: Mapping[str, str] | None = None,
) -> Environment:
    """Return the environment of an instance's scripts; its disks must be active."""
    env = Core(found, instance.os, instance.osparams, debug)
    env.update(
        {
            "INSTANCE_NAME": instance.name,
            "INSTANCE_OS": instance.os,
            "INSTANCE_UUID": instance.uuid,
            "INSTANCE_CTIME": str(instance.ctime),
            "INSTANCE_MTIME": str(instance.mtime),
            "INSTANCE_PRIMARY_NODE": instance.primary_node,
            "INSTANCE_SECONDARY_NODES": " ".join(instance.secondary_nodes or ()),
            "HYPERVISOR": instance.hypervisor,
            "DISK_COUNT": str(len(wire.InstanceDisks(instance))),
            "NIC_COUNT": str(len(instance.nics)),
        }
    )
    for index, disk in enumerate(wire.InstanceDisks(instance)):
        env.update(_Prefixed(f"DISK_{index}_", _Disk(instance, disk)))
    for index, nic in enumerate(instance.nics):
        env.update(_Prefixed(f"NIC_{index}_", _Nic(instance, nic)))
    env.update({f"INSTANCE_BE_{key}": str(value) for key, value in instance.beparams.items()})
    env.update({f"INSTANCE_HV_{key}": str(value) for key, value in instance.hvparams.items()})
    env.update(extra or {})
    return _ForVersion(found, env)


def OpenDisk(disk: objects.Disk) -> base.BlockDev:
    """Return the device of a disk, open for writing."""
    device = tree.Find(disk)
    if device is None:
        raise errors.BlockDeviceError(
            f"Disk {disk.iv_name or disk.uuid} is not active on this node; activate the instance's disks first"
        )
    device.Open()
    return device


def _Disk(instance: objects.Instance, disk: objects.Disk) -> dict[str, Any]:
    device = OpenDisk(disk)
    values: dict[str, Any] = {
        "PATH": device.dev_path,
        "URI": device.UserspaceUri(instance.hypervisor),
        "ACCESS": disk.mode,
        "UUID": disk.uuid,
        "NAME": disk.name,
        "SIZE": disk.size,
        "FRONTEND_TYPE": instance.hvparams.get("disk_type"),
        "BACKEND_TYPE": "block",
    }
    template = disk_params.Of(disk)
    if template.file_based:
        values["BACKEND_TYPE"] = f"file:{template.Source(disk)}"
    return values


def _Nic(instance: objects.Instance, nic: objects.NIC) -> dict[str, Any]:
    mode, link = nic.nicparams.get("mode"), nic.nicparams.get("link")
    values: dict[str, Any] = {
        "MAC": nic.mac,
        "UUID": nic.uuid,
        "NAME": nic.name,
        "IP": nic.ip,
        "MODE": mode,
        "LINK": link,
        "BRIDGE": link if mode == constants.NIC_MODE_BRIDGED else None,
        "FRONTEND_TYPE": instance.hvparams.get("nic_type"),
    }
    values.update(_Prefixed("NETWORK_", NetworkValues(nic)))
    return values


def _Prefixed(prefix: str, values: Mapping[str, Any]) -> Environment:
    """Return the variables of the values that are set."""
    return {prefix + name: str(value) for name, value in values.items() if value is not None}


def _ForVersion(found: OsDefinition, env: Environment) -> Environment:
    if found.api_version > constants.OS_API_V10:
        return env
    return {name: value for name, value in env.items() if _IsApi10(name)}


def _IsApi10(name: str) -> bool:
    if name in _API10_NAMES:
        return True
    kind, _, rest = name.partition("_")
    number, _, what = rest.partition("_")
    known = {"DISK": _API10_DISK, "NIC": _API10_NIC}.get(kind, ())
    return number.isdigit() and what in known
