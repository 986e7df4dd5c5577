"""The disks of this machine, who uses them and what is on them: what lvmstrap must know before it touches one.

``Parse...`` read the kernel's tables and the output of programs, ``Build...`` make command lines; neither touches anything.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from ganeti import errors, runtime
from ganeti.storage.utilities import lvmtools
from ganeti.utils import procfs
from ganeti.utils.text import NiceSort

SECTOR = 512
# A device that begins with as many zeros, and has no known signature, counts as empty.
LOOKED_AT = 1 << 20
SMALLEST_PARTITION = 1 << 30
_SYS_BLOCK = "/sys/block"
_KINDS = ("hd", "sd", "vd", "xvd", "nvme", "md", "ubd")
_SECONDS = 60.0
_MOUNTS_LIMIT = 16 * 1024 * 1024
_DIFFERENT = 1


@dataclass(frozen=True)
class Device:
    """A disk or a partition.  ``size`` in bytes; ``number``: ``major:minor``; ``holders``: devices made of it."""

    name: str
    size: int
    number: str
    holders: tuple[str, ...] = ()
    removable: bool = False
    read_only: bool = False
    is_partition: bool = False
    partitions: tuple[Device, ...] = ()

    @property
    def path(self) -> str:
        return f"/dev/{self.name}"

    @property
    def is_md(self) -> bool:
        return self.name.startswith("md")


@dataclass(frozen=True)
class Uses:
    """Who uses devices: mount points by device number or path, swap areas, volume groups by physical volume."""

    mounts: Mapping[str, str]
    swaps: frozenset[str]
    groups: Mapping[str, str]

    def MountOf(self, device: Device) -> str | None:
        return self.mounts.get(device.number) or self.mounts.get(device.path)


# --- command lines and answers ------------------------------------------------------------------------------------------


def BuildSignatures(path: str) -> list[str]:
    return ["wipefs", "--no-act", "--noheadings", "--output", "TYPE", path]


def BuildCompare(path: str) -> list[str]:
    """Return the command that ends with 0 if a device begins with zeros, with 1 if it does not."""
    return ["cmp", "--silent", f"--bytes={LOOKED_AT}", path, "/dev/zero"]


def BuildReread(path: str) -> list[str]:
    """Return the command that fails while a partition of the disk is in use."""
    return ["blockdev", "--rereadpt", path]


def BuildUsers(path: str) -> list[str]:
    """Return the command that succeeds if a process has the device open."""
    return ["fuser", "--silent", path]


def BuildDescription(path: str) -> list[str]:
    return ["file", "--brief", "--special-files", path]


def ParseSignatures(output: str) -> list[str]:
    return list(dict.fromkeys(output.split()))


def ParseMounts(text: str) -> dict[str, str]:
    """Return mount points by device number and by path; ``text``: /proc/self/mountinfo."""
    found: dict[str, str] = {}
    for line in procfs.Lines(text):
        front, _, back = line.partition(" - ")
        words, source = front.split(" "), back.split(" ")
        if len(words) >= 5 and len(source) >= 2:
            found.setdefault(words[2], words[4])
            if source[1].startswith("/dev/"):
                found.setdefault(source[1], words[4])
    return found


def ParseSwaps(text: str) -> frozenset[str]:
    """Return the paths of swap areas; ``text``: /proc/swaps, whose first line is a heading."""
    return frozenset(line.split()[0] for line in text.splitlines()[1:] if line.strip())


# --- looking ------------------------------------------------------------------------------------------------------------


def Disks() -> list[Device]:
    """Return the disks that could hold a volume group, with their partitions."""
    names = [name for name in runtime.ListDir(_SYS_BLOCK) if name.startswith(_KINDS)]
    found = [_Disk(name) for name in NiceSort(names) if _Fact(_SYS_BLOCK, name, "hidden") != "1"]
    return [disk for disk in found if disk.size]


def _Disk(name: str) -> Device:
    folder = posixpath.join(_SYS_BLOCK, name)
    inside = [part for part in NiceSort(runtime.ListDir(folder)) if runtime.Exists(f"{folder}/{part}/partition")]
    return Device(
        name=name,
        size=int(_Fact(folder, "size") or 0) * SECTOR,
        number=_Fact(folder, "dev"),
        holders=_Holders(folder),
        removable=_Fact(folder, "removable") == "1",
        read_only=_Fact(folder, "ro") == "1",
        partitions=tuple(_Partition(f"{folder}/{part}", part) for part in inside),
    )


def _Partition(folder: str, name: str) -> Device:
    return Device(
        name=name,
        size=int(_Fact(folder, "size") or 0) * SECTOR,
        number=_Fact(folder, "dev"),
        holders=_Holders(folder),
        read_only=_Fact(folder, "ro") == "1",
        is_partition=True,
    )


def _Holders(folder: str) -> tuple[str, ...]:
    path = f"{folder}/holders"
    return tuple(NiceSort(runtime.ListDir(path))) if runtime.Exists(path) else ()


def _Fact(*path: str) -> str:
    """Return what a file of sysfs says; nothing for one that is not there."""
    try:
        return runtime.ReadText(posixpath.join(*path), limit=4096).strip()
    except FileNotFoundError:
        return ""


def LookForUses() -> Uses:
    groups = {pv.name: pv.group for pv in lvmtools.PhysicalVolumes()}
    mounts = ParseMounts(procfs.ReadText("/proc/self/mountinfo", _MOUNTS_LIMIT))
    return Uses(mounts, ParseSwaps(runtime.ReadText("/proc/swaps")), groups)


def WhyBusy(device: Device, uses: Uses) -> str | None:
    """Return why a device must not be touched, whatever is on it; None if nobody uses it."""
    mount = uses.MountOf(device)
    if device.read_only:
        return "it is read-only"
    if mount is not None:
        return f"it is mounted on {mount}"
    if device.path in uses.swaps:
        return "it is a swap area"
    if uses.groups.get(device.path):
        return f"it is a physical volume of volume group {uses.groups[device.path]}"
    if device.holders:
        return f"it is used by {', '.join(device.holders)}"
    for part in device.partitions:
        reason = WhyBusy(part, uses)
        if reason is not None:
            return f"partition {part.name}: {reason}"
    return _ProgramsView(device)


def _ProgramsView(device: Device) -> str | None:
    if not device.is_partition and runtime.RunCmd(BuildReread(device.path), timeout=_SECONDS).failed:
        return "its partition table cannot be read again: the kernel has it in use"
    result = runtime.RunCmd(BuildUsers(device.path), timeout=_SECONDS)
    if not result.failed:
        return "a process has it open ('fuser -v' shows which)"
    if result.exit_code != _DIFFERENT:
        raise errors.OpExecError(
            f"Disk {device.name}: its users cannot be determined: 'fuser' failed: {result.fail_reason}"
        )
    return None


def Contents(device: Device) -> list[str]:
    """Return what is on a device that nobody uses, for people; nothing if it is empty."""
    result = runtime.RunCmd(BuildSignatures(device.path), timeout=_SECONDS)
    if result.failed:
        raise errors.OpExecError(f"Disk {device.name}: its content is not known: 'wipefs' failed: {result.fail_reason}")
    found = [*(f"partition {part.name}" for part in device.partitions), *ParseSignatures(result.stdout)]
    if not found:
        compared = runtime.RunCmd(BuildCompare(device.path), timeout=_SECONDS)
        if compared.failed and compared.exit_code != _DIFFERENT:
            raise errors.OpExecError(f"Disk {device.name}: it cannot be read: 'cmp' failed: {compared.fail_reason}")
        if compared.failed:
            found.append("data of an unknown kind")
    return found


def Description(device: Device) -> str:
    """Return what the program ``file`` says of the content, or nothing."""
    result = runtime.RunCmd(BuildDescription(device.path), timeout=_SECONDS)
    return "" if result.failed else " ".join(result.stdout.split())
