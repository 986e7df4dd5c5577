"""What the target of a migration takes from its source: the machine type, and where devices are plugged.

A source may be in the wrong hands.  The command line on the target is built from the instance that the master sent;
nothing else of the runtime file that comes with a migration is looked at, and every value is checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import errors, objects, serializer
from ganeti.hypervisor.base import GuestDisk
from ganeti.hypervisor.kvm import cmdline, devices, runfile
from ganeti.hypervisor.kvm.caps import Capabilities
from ganeti.params import hv_kvm

_LIMIT = 4 * 1024 * 1024
_ACCELERATORS = (cmdline.ACCEL_KVM, cmdline.ACCEL_TCG)
_BUSES = frozenset(["pci.0", "pcie.0", "scsi.0"])
_SLOT = re.compile(r"0x[0-9a-f]{1,2}")
_NUMBERS = {"channel": 1, "scsi-id": 255, "lun": 255}
_NIC_DRIVERS = frozenset(devices.NIC_DRIVERS.get(kind, kind) for kind in hv_kvm.NIC_TYPES)
_DISK_DRIVERS = frozenset(devices.DISK_DRIVERS.values())
_SHOWN = 5


class _Device(NamedTuple):
    uuid: str
    info: dict[str, Any]


class Places(NamedTuple):
    """The machine of the guest and the places of its devices, in the order the guest has them."""

    machine_type: str
    accel: str
    nics: tuple[_Device, ...]
    disks: tuple[_Device, ...]


def ReadPlaces(name: str, text: str | None) -> Places:
    """Read the source's runtime file; HypervisorError if anything in it is not what a driver of ours writes."""
    try:
        command, nics, _, disks, *_ = serializer.Load(text or "", limit=_LIMIT)
        machine = cmdline.FindOption(_Words(command), "-machine") or ""
        machine_type, *options = machine.split(",")
        accel = next((option.removeprefix("accel=") for option in options if option.startswith("accel=")), "")
        if accel not in _ACCELERATORS:
            raise ValueError(f"accelerator {accel[:40]!r}")
        return Places(
            machine_type,
            accel,
            tuple(_ReadDevice("nic", nic, _NIC_DRIVERS) for nic in nics),
            tuple(_ReadDevice("disk", row[0], _DISK_DRIVERS) for row in disks),
        )
    except (TypeError, ValueError, LookupError, AttributeError, errors.ParseError) as err:
        raise errors.HypervisorError(
            f"The data that the source sent for instance {name} is not valid ({err}); the guest stays there"
        ) from err


def _Words(command: Any) -> list[str]:
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ValueError("the command is not a list of words")
    return command


def _ReadDevice(kind: str, data: Any, drivers: frozenset[str]) -> _Device:
    uuid, info = data["uuid"], dict(data["hvinfo"])
    if not isinstance(uuid, str) or info.get("id") != devices.DeviceId(kind, uuid) or info.get("driver") not in drivers:
        raise ValueError(f"driver or id of a {kind}")
    for key, value in info.items():
        if key in ("id", "driver"):
            continue
        if key == "bus":
            valid = value in _BUSES
        elif key == "addr":
            valid = isinstance(value, str) and bool(_SLOT.fullmatch(value)) and int(value, 16) < devices.PCI_SLOTS
        else:
            valid = type(value) is int and 0 <= value <= _NUMBERS[key]
        if not valid:
            raise ValueError(f"{key} of a {kind}")
    return _Device(uuid, info)


def Build(
    instance: objects.Instance, text: str | None, known: Capabilities, disks: Sequence[GuestDisk]
) -> runfile.RunFile:
    """Return what to start here so that the guest fits in: this node's paths, the master's values, the source's places."""
    places = ReadPlaces(instance.name, text)
    if places.machine_type not in known.machines:
        raise errors.HypervisorError(
            f"Instance {instance.name} has machine type '{places.machine_type[:80]}', which the QEMU of this node does not"
            " know; migrate it to a node with the same QEMU, or fail it over"
        )
    _CheckHardware(instance, places, known)
    command = BuildCommand(instance, known, places.machine_type, places.accel)
    own_nics = {nic.uuid: nic for nic in instance.nics}
    own_disks = {entry.disk.uuid: entry for entry in disks}
    _CheckKnown(instance.name, "NICs", places.nics, own_nics)
    _CheckKnown(instance.name, "disks", places.disks, own_disks)
    placed = []
    for device in places.disks:
        entry = own_disks[device.uuid]
        placed.append(GuestDisk(entry.disk.Replace(hvinfo=device.info), entry.path, entry.uri))
    nics = tuple(own_nics[device.uuid].Replace(hvinfo=device.info) for device in places.nics)
    return runfile.RunFile(tuple(command), nics, dict(instance.hvparams), tuple(placed))


def BuildCommand(instance: objects.Instance, known: Capabilities, machine_type: str, accel: str) -> list[str]:
    """Return the saved part of the command line for a guest that has a machine already."""
    _, comma, options = str(instance.hvparams["machine_version"]).partition(",")
    return cmdline.BuildSaved(instance, known, accel, machine_type + comma + options)


def _CheckHardware(instance: objects.Instance, places: Places, known: Capabilities) -> None:
    """Raise HypervisorError unless machine and devices are of the kinds that the configuration asks for.

    Otherwise a source could plug a disk in as ``scsi-generic``, which lets its guest send commands to the target's disks
    past the boundaries of its volume, or choose old machines for the holes in them.
    """
    hvp = instance.hvparams
    kinds = [("machine_version", _Family(known.Machine(hvp["machine_version"])), _Family(places.machine_type))]
    wanted = devices.DISK_DRIVERS.get(hvp["disk_type"])
    kinds += [("disk_type", str(wanted), str(device.info["driver"])) for device in places.disks]
    wanted = devices.NIC_DRIVERS.get(hvp["nic_type"], hvp["nic_type"])
    kinds += [("nic_type", str(wanted), str(device.info["driver"])) for device in places.nics]
    changes = [f"{name}: '{found}' -> '{expected}'" for name, expected, found in kinds if found != expected]
    if changes:
        raise _Changed(instance.name, list(dict.fromkeys(changes)))


def _Family(machine_type: str) -> str:
    """Return the kind of a machine type, whatever its version: ``q35`` for ``pc-q35-7.2``."""
    name = machine_type.partition(",")[0]
    return next((kind for kind in ("q35", "i440fx") if kind in name), name.partition("-")[0])


def _Changed(name: str, changes: Sequence[str]) -> errors.HypervisorError:
    return errors.HypervisorError(
        f"Instance {name} was changed since it was started ({'; '.join(changes[:_SHOWN])}) and cannot be"
        f" migrated before its next start; use 'gnt-instance reboot -t full {name}', or undo the change"
    )


def _CheckKnown(name: str, what: str, found: Sequence[_Device], own: Mapping[str, Any]) -> None:
    uuids = [device.uuid for device in found]
    if len(set(uuids)) != len(uuids):
        raise errors.HypervisorError(f"The source names {what} of instance {name} twice; the guest stays there")
    unknown = [uuid[:80] for uuid in uuids if uuid not in own]
    if unknown:
        raise errors.HypervisorError(
            f"Instance {name} has {what} that the configuration does not know: {', '.join(unknown[:_SHOWN])};"
            " remove them from the running guest, or restart it"
        )


def CheckUnchanged(instance: objects.Instance, content: runfile.RunFile, known: Capabilities) -> None:
    """On the source: HypervisorError if the target would build another machine than the one that runs here.

    Changes of parameters that wait for the next start are the usual reason.
    """
    places = ReadPlaces(instance.name, content.Text())
    expected = BuildCommand(instance, known, places.machine_type, places.accel)
    running = list(content.command)
    changes = [f"'{old}' -> '{new}'" for old, new in _Differences(running[1:], expected[1:])]
    if changes:
        raise _Changed(instance.name, changes)
    _CheckHardware(instance, places, known)


def _Differences(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """Return options that differ, each with its argument."""
    olds, news = _Options(old), _Options(new)
    gone = [option for option in olds if option not in news]
    added = [option for option in news if option not in olds]
    width = max(len(gone), len(added))
    padded = [*gone, *[""] * (width - len(gone))], [*added, *[""] * (width - len(added))]
    return list(zip(*padded, strict=True))


def _Options(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        if word.startswith("-") or not found:
            found.append(word)
        else:
            found[-1] += f" {word}"
    return found
