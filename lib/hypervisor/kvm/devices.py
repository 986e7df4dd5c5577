"""Disks, CDs and NICs of a guest as options, and where they are plugged; pure but for ``IsBlock`` (doc/reference/drivers.md b.3).

Every device of ours gets a fixed place: on PCI a slot behind those left to QEMU, on SCSI a target.  The place is kept
as ``hvinfo`` so that a reboot, a migration or a later change finds the same one.
"""

from __future__ import annotations

import posixpath
import stat
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ganeti import constants, errors, objects, runtime
from ganeti.hypervisor.base import GuestDisk
from ganeti.hypervisor.kvm.options import Opt
from ganeti.params import disk as disk_params

DISK_DRIVERS = {
    "paravirtual": "virtio-blk-pci",
    "ide": "ide-hd",
    "scsi": "scsi-hd",
    "scsi-hd": "scsi-hd",
    "scsi-cd": "scsi-cd",
    "scsi-block": "scsi-block",
    "scsi-generic": "scsi-generic",
}
NIC_DRIVERS = {"paravirtual": "virtio-net-pci"}
HOTPLUG_DISK_DRIVERS = frozenset(["virtio-blk-pci", "scsi-hd", "scsi-cd", "scsi-block", "scsi-generic"])
HOTPLUG_NIC_DRIVERS = frozenset(["virtio-net-pci"])
_TAKE_WRITE_CACHE = frozenset(["virtio-blk-pci", "ide-hd", "scsi-hd"])
_NOT_PCI_NICS = frozenset(["ne2k_isa"])

PCI_SLOTS = 32
_SCSI_TARGETS = {"lsi": 7}
_SCSI_TARGETS_OTHERWISE = 16
# Cache mode -> (write-cache, direct, no-flush).
_CACHE_MODES = {
    "none": (True, True, False),
    "default": (True, False, False),
    "writeback": (True, False, False),
    "writethrough": (False, False, False),
}

HvInfo = Mapping[str, Any]


def DeviceId(kind: str, uuid: str) -> str:
    """Return ``disk-`` or ``nic-`` and the first three groups of the uuid: QEMU accepts short ids only."""
    return f"{kind}-{'-'.join(uuid.split('-')[:3])}"


class Places:
    """PCI slots and SCSI targets, free and taken."""

    def __init__(self, hvp: Mapping[str, Any], machine: str, taken: Iterable[HvInfo | None] = ()):
        self._hvp = hvp
        self._bus = "pcie.0" if "q35" in machine.split(",")[0] else "pci.0"
        self._slots: set[int] = set()
        self._targets: set[int] = set()
        for info in taken:
            if info and "addr" in info:
                self._slots.add(int(str(info["addr"]), 16))
            if info and "scsi-id" in info:
                self._targets.add(int(info["scsi-id"]))

    def Pci(self) -> dict[str, Any]:
        first = int(self._hvp["kvm_pci_reservations"])
        for slot in range(first, PCI_SLOTS):
            if slot not in self._slots:
                self._slots.add(slot)
                return {"bus": self._bus, "addr": hex(slot)}
        raise errors.HypervisorError(
            f"All {PCI_SLOTS - first} PCI slots for disks and NICs are taken; "
            "remove a device or lower kvm_pci_reservations"
        )

    def Scsi(self) -> dict[str, Any]:
        for target in range(_SCSI_TARGETS.get(self._hvp["scsi_controller_type"], _SCSI_TARGETS_OTHERWISE)):
            if target not in self._targets:
                self._targets.add(target)
                return {"bus": "scsi.0", "channel": 0, "scsi-id": target, "lun": 0}
        raise errors.HypervisorError("All SCSI targets are taken; use scsi_controller_type virtio-scsi-pci for more")


def PlaceDisk(disk: objects.Disk, hvp: Mapping[str, Any], places: Places) -> objects.Disk:
    """Return the disk with its place; one that has a place keeps it."""
    if disk.hvinfo:
        return disk
    driver = DISK_DRIVERS.get(hvp["disk_type"])
    if driver is None:
        raise errors.HypervisorError(
            f"disk_type {hvp['disk_type']} cannot be used for disks of a PC; use one of {', '.join(DISK_DRIVERS)}"
        )
    info: dict[str, Any] = {"driver": driver, "id": DeviceId("disk", disk.uuid)}
    if driver == "virtio-blk-pci":
        info |= places.Pci()
    elif driver.startswith("scsi"):
        info |= places.Scsi()
    return disk.Replace(hvinfo=info)


def PlaceNic(nic: objects.NIC, hvp: Mapping[str, Any], places: Places) -> objects.NIC:
    if nic.hvinfo:
        return nic
    driver = NIC_DRIVERS.get(hvp["nic_type"], hvp["nic_type"])
    info: dict[str, Any] = {"driver": driver, "id": DeviceId("nic", nic.uuid)}
    if driver not in _NOT_PCI_NICS:
        info |= places.Pci()
    return nic.Replace(hvinfo=info)


def Placed(info: HvInfo | None, what: str) -> HvInfo:
    if not info:
        raise errors.ProgrammerError(f"{what} has no place in the guest")
    return info


# --- disks ------------------------------------------------------------------------------------------------------------


def IsBlock(entry: GuestDisk) -> bool:
    """Return whether the disk's link leads to a block device."""
    if entry.uri:
        return False
    try:
        return stat.S_ISBLK(runtime.Stat(entry.path).st_mode)
    except OSError as err:
        raise errors.HypervisorError(f"Disk {entry.disk.iv_name}: {entry.path} cannot be used: {err.strerror}") from err


def CacheMode(disk: objects.Disk, hvp: Mapping[str, Any]) -> str:
    """Storage that another node reaches too must not be cached here, or a migrated guest reads old data."""
    template = disk_params.TEMPLATES.get(disk.dev_type)
    return str(hvp["disk_cache"]) if template is None or template.cached else "none"


def BlockNode(guest_disk: GuestDisk, is_block: bool, hvp: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of blockdev-add for a disk; ``is_block``: the path leads to a block device."""
    disk = guest_disk.disk
    _, direct, no_flush = _CACHE_MODES[CacheMode(disk, hvp)]
    if guest_disk.uri:
        source = UriNode(guest_disk.uri)
    else:
        source = {
            "driver": "host_device" if is_block else "file",
            "filename": guest_disk.path,
            "aio": hvp["disk_aio"],
        }
    cache = {"direct": direct, "no-flush": no_flush}
    return {
        "driver": "raw",
        "node-name": Placed(disk.hvinfo, f"disk {disk.uuid}")["id"],
        "read-only": disk.mode == constants.DISK_RDONLY,
        "discard": hvp["disk_discard"],
        "cache": cache,
        "file": {**source, "discard": hvp["disk_discard"], "cache": dict(cache)},
    }


def UriNode(uri: str) -> dict[str, Any]:
    """Return what QEMU's own storage clients need.

    ``rbd:POOL/NAME[:OPTION=VALUE...]``, ``gluster://HOST:PORT/VOLUME/PATH``; of external providers also
    ``nbd://HOST[:PORT]/EXPORT``, ``nbd+unix:///EXPORT?socket=PATH``, ``iscsi://HOST[:PORT]/TARGET/LUN``.
    """
    try:
        parsed = urllib.parse.urlsplit(uri)
        make = _URI_CLIENTS.get(parsed.scheme)
        node = make(parsed) if make else None
    except ValueError:
        node = None
    if node is None:
        raise errors.HypervisorError(
            f"Disk URI {uri[:200]} is of a kind QEMU has no client for; use access=kernelspace"
        )
    return node


def _RbdNode(uri: urllib.parse.SplitResult) -> dict[str, Any] | None:
    name, *options = uri.path.split(":")
    pool, _, image = name.partition("/")
    pairs = [option.partition("=") for option in options]
    if not pool or not image or not all(key in _RBD_OPTIONS and value for key, _, value in pairs):
        return None
    return {"driver": "rbd", "pool": pool, "image": image, **{_RBD_OPTIONS[key]: value for key, _, value in pairs}}


def _GlusterNode(uri: urllib.parse.SplitResult) -> dict[str, Any] | None:
    volume, _, path = uri.path.lstrip("/").partition("/")
    if not uri.hostname or not uri.port or not volume or not path:
        return None
    server = {"type": "inet", "host": uri.hostname, "port": str(uri.port)}
    return {"driver": "gluster", "volume": volume, "path": path, "server": [server]}


def _NbdNode(uri: urllib.parse.SplitResult) -> dict[str, Any] | None:
    if not uri.hostname:
        return None
    server = {"type": "inet", "host": uri.hostname, "port": str(uri.port or _NBD_PORT)}
    return {"driver": "nbd", "server": server, "export": uri.path.lstrip("/")}


def _NbdUnixNode(uri: urllib.parse.SplitResult) -> dict[str, Any] | None:
    paths = urllib.parse.parse_qs(uri.query).get("socket", [])
    if len(paths) != 1:
        return None
    return {"driver": "nbd", "server": {"type": "unix", "path": paths[0]}, "export": uri.path.lstrip("/")}


def _IscsiNode(uri: urllib.parse.SplitResult) -> dict[str, Any] | None:
    target, _, lun = uri.path.lstrip("/").partition("/")
    if not uri.hostname or not target or not lun.isdigit():
        return None
    host = f"[{uri.hostname}]" if ":" in uri.hostname else uri.hostname
    portal = f"{host}:{uri.port or _ISCSI_PORT}"
    return {"driver": "iscsi", "transport": "tcp", "portal": portal, "target": target, "lun": int(lun)}


# What rbd's URIs call an option of the client -> what QEMU calls it.
_RBD_OPTIONS = {"id": "user", "conf": "conf"}
_NBD_PORT, _ISCSI_PORT = 10809, 3260
_URI_CLIENTS: dict[str, Callable[[urllib.parse.SplitResult], dict[str, Any] | None]] = {
    "rbd": _RbdNode,
    "gluster": _GlusterNode,
    "nbd": _NbdNode,
    "nbd+unix": _NbdUnixNode,
    "iscsi": _IscsiNode,
}


def DiskDevice(disk: objects.Disk, hvp: Mapping[str, Any], boot_index: int | None = None) -> dict[str, Any]:
    """Return the arguments of device_add for a placed disk."""
    info = Placed(disk.hvinfo, f"disk {disk.uuid}")
    if disk.mode == constants.DISK_RDONLY and info["driver"] == "ide-hd":
        raise errors.HypervisorError(f"Disk {disk.iv_name}: IDE disks cannot be read-only; use another disk_type")
    device = {**info, "drive": info["id"]}
    if info["driver"] in _TAKE_WRITE_CACHE:
        device["write-cache"] = "on" if _CACHE_MODES[CacheMode(disk, hvp)][0] else "off"
    if boot_index is not None:
        device["bootindex"] = boot_index
    return device


def BuildDisk(
    guest_disk: GuestDisk, is_block: bool, hvp: Mapping[str, Any], boot_index: int | None = None
) -> list[str]:
    node, device = BlockNode(guest_disk, is_block, hvp), DiskDevice(guest_disk.disk, hvp, boot_index)
    return ["-blockdev", Opt("", Flatten(node)), "-device", DeviceOpt(device)]


def Flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested arguments as the dotted keys of the command line."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            flat |= Flatten(item, f"{prefix}{key}.")
        elif isinstance(item, (list, tuple)):
            for index, part in enumerate(item):
                flat |= Flatten(part, f"{prefix}{key}.{index}.")
        else:
            flat[prefix + key] = item
    return flat


def DeviceOpt(device: Mapping[str, Any]) -> str:
    return Opt(str(device["driver"]), {key: value for key, value in device.items() if key != "driver"})


# --- removable media --------------------------------------------------------------------------------------------------


def BuildRemovable(hvp: Mapping[str, Any]) -> list[str]:
    """CDs and the floppy disk."""
    argv: list[str] = []
    wanted = "" if hvp["kernel_path"] else hvp["boot_order"]
    kind = hvp["cdrom_disk_type"] or hvp["disk_type"]
    for number, name in enumerate(("cdrom_image_path", "cdrom2_image_path")):
        if not hvp[name]:
            continue
        boot = wanted == "cdrom" and number == 0
        driver = "scsi-cd" if kind.startswith("scsi") else "ide-cd"
        if kind == "paravirtual" and not boot:
            driver = "virtio-blk-pci"
        node = {"driver": "raw", "node-name": f"cdrom{number}", "read-only": True, "file": _MediaNode(hvp[name])}
        device = {"driver": driver, "id": f"cd{number}", "drive": f"cdrom{number}", "bootindex": 1 if boot else None}
        argv += ["-blockdev", Opt("", Flatten(node)), "-device", DeviceOpt(device)]
    if hvp["floppy_image_path"]:
        node = {"driver": "raw", "node-name": "floppy0", "file": _MediaNode(hvp["floppy_image_path"])}
        device = {"driver": "floppy", "drive": "floppy0", "bootindex": 1 if wanted == "floppy" else None}
        argv += ["-blockdev", Opt("", Flatten(node)), "-device", DeviceOpt(device)]
    return argv


def _MediaNode(source: str) -> dict[str, Any]:
    if posixpath.isabs(source):
        return {"driver": "file", "filename": source}
    return {"driver": urllib.parse.urlsplit(source).scheme, "url": source}


def DiskBootIndex(index: int, hvp: Mapping[str, Any]) -> int | None:
    """Return the boot index of a disk: the first one boots when disks do and no kernel is given."""
    return 1 if index == 0 and hvp["boot_order"] == "disk" and not hvp["kernel_path"] else None


# --- NICs -------------------------------------------------------------------------------------------------------------


def Queues(nic_driver: str, hvp: Mapping[str, Any]) -> int:
    return int(hvp["virtio_net_queues"]) if nic_driver == "virtio-net-pci" else 1


def NicBackend(ident: str, fds: Sequence[int], vhost: bool) -> str:
    """Return ``-netdev`` for taps that QEMU inherits."""
    key, value = ("fd", str(fds[0])) if len(fds) == 1 else ("fds", ":".join(map(str, fds)))
    return Opt("tap", {"id": ident, key: value, "vhost": True if vhost else None})


def NicDevice(nic: objects.NIC, queues: int, boot_index: int | None = None) -> dict[str, Any]:
    info = Placed(nic.hvinfo, f"NIC {nic.uuid}")
    device: dict[str, Any] = {**info, "netdev": info["id"], "mac": nic.mac}
    if queues > 1:
        device |= {"mq": "on", "vectors": 2 * queues + 2}
    if boot_index is not None:
        device["bootindex"] = boot_index
    return device


def BuildNic(nic: objects.NIC, fds: Sequence[int], vhost: bool, boot_index: int | None = None) -> list[str]:
    ident = str(Placed(nic.hvinfo, f"NIC {nic.uuid}")["id"])
    return ["-netdev", NicBackend(ident, fds, vhost), "-device", DeviceOpt(NicDevice(nic, len(fds), boot_index))]


def NicBootIndex(index: int, hvp: Mapping[str, Any]) -> int | None:
    return 1 if index == 0 and hvp["boot_order"] == "network" and not hvp["kernel_path"] else None
