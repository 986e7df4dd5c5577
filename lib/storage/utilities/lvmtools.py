"""LVM's programs: how they are called, and what they answer (doc/reference/drivers.md a.2).

``Build...`` make command lines, ``Parse...`` read output; neither touches anything.  ``Volumes``, ``PhysicalVolumes``
and ``Groups`` look: within ``looks.Sharing`` each program runs once, however many disks are asked about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ganeti import errors, runtime
from ganeti.storage import looks
from ganeti.storage.utilities import programs

_NAME = re.compile(r"[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]*")
_RESERVED_NAMES = frozenset([".", "..", "snapshot", "pvmove"])
_RESERVED_PARTS = ("_mlog", "_mimage")

_PLAIN = ("--noheadings", "--nosuffix", "--separator=|")
_IN_MIB = (*_PLAIN, "--units=m", "--unbuffered")
_PV_FIELDS = "vg_name,pv_free,pv_attr,pv_size,lv_name"
_VG_FIELDS = "vg_name,vg_free,vg_attr,vg_size"
_AWAY_FIELDS = "vg_name,pv_uuid,pv_attr,pv_name"
_LV_FIELDS = "vg_name,lv_name,lv_attr,lv_kernel_major,lv_kernel_minor,vg_extent_size,stripes,lv_size,lv_tags,devices"

# Where a kernel's module is loaded, and how LVM is kept off its devices.
_KEPT_OFF = {"/proc/drbd": "r|^/dev/drbd|", "/sys/module/rbd": "r|^/dev/rbd|"}
_CONFIGS = ("/etc/lvm/lvm.conf", "/etc/lvm/lvmlocal.conf")
_CONFIG_LIMIT = 1 << 20
_FILTER = re.compile(r"(?m)^\s*(devices\s*[/{]\s*)?global_filter\s*=")

_TAG_CHARACTERS = re.compile(r"[^-A-Za-z0-9_+.]")
_MAX_TAG = 128

# How LVM names a device that is away.
_UNKNOWN = ("[unknown]", "unknown device")

# What is to be done about two groups of one name.
TWICE = (
    "a guest may have made one on its disk. 'vgs -o+vg_uuid,pv_name' shows on which devices they are: keep LVM off those of"
    " disks by global_filter in /etc/lvm/lvm.conf, or give the group that is not the node's another name with 'vgrename UUID NAME'"
)

ALLOCATION_POLICIES = ("contiguous", "cling", "normal")

# MiB; more than any program of LVM can mean.
_TOO_MUCH = 1e15

# Physical volumes of exclusive storage: sizes differ by this part at most, and so much of each is not for data.
_PV_MARGIN, _PV_RESERVED = 0.01, 0.02


@dataclass(frozen=True)
class PhysicalVolume:
    """Sizes in MiB; ``volumes``: the names of the logical volumes on it."""

    name: str
    group: str
    free: float
    attributes: str
    size: float
    volumes: tuple[str, ...] = ()

    @property
    def allocatable(self) -> bool:
        return self.attributes[:1] == "a"

    @property
    def missing(self) -> bool:
        return self.attributes[2:3] == "m"


@dataclass(frozen=True)
class Group:
    """Sizes in MiB."""

    name: str
    free: float
    attributes: str
    size: float

    @property
    def writable(self) -> bool:
        return self.attributes[:1] != "r"

    @property
    def partial(self) -> bool:
        """Return whether physical volumes are missing."""
        return self.attributes[3:4] == "p"


@dataclass(frozen=True)
class MissingVolumes:
    """The physical volumes of a group that LVM counts as missing: their UUIDs.

    ``returned``: the paths of those whose device is there again.  They count as missing, as the group was changed meanwhile.
    ``nameless``: the UUIDs of the others.
    """

    uuids: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    nameless: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogicalVolume:
    """Sizes in KiB; ``devices``: its physical volumes, each with the extent where a segment starts."""

    group: str
    name: str
    attributes: str
    major: int | None
    minor: int | None
    extent: float
    stripes: int
    size: float
    tags: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    # There is another one of this name, in another group of that name.
    ambiguous: bool = False

    @property
    def virtual(self) -> bool:
        return self.attributes[:1] == "v"

    @property
    def partial(self) -> bool:
        """Return whether a physical volume below it counts as missing: what ``vgreduce`` would remove.

        The paths of its devices do not show it: LVM has one again for a disk that came back, and it shows no paths for volumes
        on parts of their own (RAID).  Only releases of LVM without the attribute have nothing else.
        """
        return self.attributes[8:9] == "p" or any(device.startswith(_UNKNOWN) for device in self.devices)

    @property
    def active(self) -> bool:
        return self.attributes[4:5] == "a"

    @property
    def listed_inactive(self) -> bool:
        """As ``lv_list`` says it: only a volume without any state counts."""
        return self.attributes[4:5] == "-"

    @property
    def open(self) -> bool:
        return self.attributes[5:6] == "o"

    @property
    def pvs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(device.partition("(")[0] for device in self.devices))


# --- names ------------------------------------------------------------------------------------------------------------


def IsName(name: object) -> bool:
    """Return whether LVM takes this as the name of a group or a volume, and no program as an option."""
    return (
        isinstance(name, str)
        and len(name) <= _MAX_TAG
        and _NAME.fullmatch(name) is not None
        and name not in _RESERVED_NAMES
        and not any(part in name for part in _RESERVED_PARTS)
    )


def MakeTag(text: str) -> str:
    """Return a note as LVM can keep it."""
    tag = _TAG_CHARACTERS.sub("_", text)
    return ("_" + tag[1:] if tag.startswith("-") else tag)[:_MAX_TAG]


# --- command lines ----------------------------------------------------------------------------------------------------


def BuildListPvs(identity: str = "pv_name") -> list[str]:
    """Return the command; ``identity``: what tells them apart, ``pv_uuid`` where those without a device count too."""
    return ["pvs", *_IN_MIB, f"-o{identity},{_PV_FIELDS}"]


def BuildListAway() -> list[str]:
    return ["pvs", *_PLAIN, f"-o{_AWAY_FIELDS}"]


def BuildListVgs() -> list[str]:
    return ["vgs", *_IN_MIB, f"-o{_VG_FIELDS}"]


def BuildListLvs() -> list[str]:
    return ["lvs", *_PLAIN, "--units=k", f"-o{_LV_FIELDS}"]


def BuildCreate(group: str, name: str, size: int, stripes: int, pvs: Sequence[str]) -> list[str]:
    """Return the command; it must not ask about signatures of former contents, as nobody is there to answer."""
    return ["lvcreate", "-Wn", f"-L{size}m", f"-n{name}", f"-i{stripes}", group, *pvs]


def BuildActivate(path: str) -> list[str]:
    return ["lvchange", "-ay", path]


def BuildRemove(group: str, name: str) -> list[str]:
    return ["lvremove", "-f", f"{group}/{name}"]


def BuildRename(group: str, old: str, new: str) -> list[str]:
    return ["lvrename", group, old, new]


def BuildSnapshot(path: str, name: str, size: int) -> list[str]:
    return ["lvcreate", f"-L{size}m", "-s", f"-n{name}", path]


def BuildTags(path: str, old: Iterable[str], new: str) -> list[str]:
    return ["lvchange", *(word for tag in old for word in ("--deltag", tag)), "--addtag", new, path]


def BuildExtend(path: str, kib: int, policy: str, test: bool, pvs: Sequence[str] = ()) -> list[str]:
    return ["lvextend", "-L", f"+{kib}k", *(["--test"] if test else []), "--alloc", policy, path, *pvs]


def BuildRepair(group: str, force: bool) -> list[str]:
    return ["vgreduce", "--removemissing", *(["--force"] if force else []), group]


def BuildAllocatable(pv: str, allocatable: bool) -> list[str]:
    return ["pvchange", "-x", "y" if allocatable else "n", pv]


# --- answers ----------------------------------------------------------------------------------------------------------


def _Rows(output: str, width: int, program: str) -> Iterator[list[str]]:
    for line in output.splitlines():
        if line.strip():
            row = [part.strip() for part in line.split("|")]
            if len(row) != width:
                raise errors.BlockDeviceError(f"{program} printed a line that cannot be read: {line.strip()[:120]!r}")
            yield row


def _Number(text: str, program: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    # A comparison with NaN is false, too.
    if not abs(number) < _TOO_MUCH:
        raise errors.BlockDeviceError(f"{program} printed {text[:40]!r} where a number was expected")
    return number


def ParsePvs(output: str) -> list[PhysicalVolume]:
    """Return each physical volume once; LVM prints a line for each of its segments."""
    found: dict[str, PhysicalVolume] = {}
    for name, group, free, attributes, size, volume in _Rows(output, 6, "pvs"):
        before = found.get(name)
        volumes = (*(before.volumes if before else ()), *([volume] if volume else []))
        found[name] = PhysicalVolume(
            name, group, _Number(free, "pvs"), attributes, _Number(size, "pvs"), tuple(dict.fromkeys(volumes))
        )
    return list(found.values())


def ParseVgs(output: str) -> list[Group]:
    return [
        Group(name, _Number(free, "vgs"), attributes, _Number(size, "vgs"))
        for name, free, attributes, size in _Rows(output, 4, "vgs")
    ]


def ParseAway(output: str) -> dict[str, MissingVolumes]:
    """Return the missing physical volumes of each group: LVM has no name for a device that is away."""
    found: dict[str, list[tuple[str, str]]] = {}
    for group, uuid, attributes, name in _Rows(output, 4, "pvs"):
        if attributes[2:3] == "m":
            found.setdefault(group, []).append((uuid, name))
    return {
        group: MissingVolumes(
            tuple(sorted(uuid for uuid, _ in pairs)),
            tuple(sorted(name for _, name in pairs if name.startswith("/"))),
            tuple(sorted(uuid for uuid, name in pairs if not name.startswith("/"))),
        )
        for group, pairs in found.items()
    }


def ParseLvs(output: str) -> list[LogicalVolume]:
    """Return each volume once, with the devices of all its segments."""
    found: dict[tuple[str, str], LogicalVolume] = {}
    for group, name, attributes, major, minor, extent, stripes, size, tags, devices in _Rows(output, 10, "lvs"):
        if len(attributes) < 6:
            raise errors.BlockDeviceError(f"lvs printed attributes of volume {group}/{name} that cannot be read")
        before = found.get((group, name))
        volume = LogicalVolume(
            group,
            name,
            attributes,
            _KernelNumber(major),
            _KernelNumber(minor),
            _Number(extent, "lvs"),
            int(_Number(stripes, "lvs")),
            _Number(size, "lvs"),
            tuple(filter(None, tags.split(","))),
            tuple(filter(None, devices.split(","))),
        )
        found[group, name] = volume if before is None else _Joined(before, volume)
    return list(found.values())


def _Joined(before: LogicalVolume, more: LogicalVolume) -> LogicalVolume:
    """Return a volume with one more line of its segments, or as ambiguous if the line is another volume's."""
    same = replace(more, stripes=before.stripes, devices=before.devices, ambiguous=before.ambiguous) == before
    return replace(
        before, stripes=more.stripes, devices=(*before.devices, *more.devices), ambiguous=before.ambiguous or not same
    )


def _KernelNumber(text: str) -> int | None:
    """Return the number of a device in the kernel; LVM prints -1 for a volume that is not active."""
    number = int(_Number(text, "lvs"))
    return None if number < 0 else number


# --- looking and acting -----------------------------------------------------------------------------------------------


def Volumes() -> dict[tuple[str, str], LogicalVolume]:
    """Return all logical volumes of this node by group and name."""
    return looks.Once("lvs", lambda: {(lv.group, lv.name): lv for lv in ParseLvs(_Look(BuildListLvs()))})


def PhysicalVolumes() -> list[PhysicalVolume]:
    return looks.Once("pvs", lambda: ParsePvs(_Look(BuildListPvs())))


def EachPhysicalVolume() -> list[PhysicalVolume]:
    """Return the physical volumes; those that are away, which LVM calls by one name, are called ``[unknown]:UUID``."""
    found = PhysicalVolumes()
    named = [pv for pv in found if pv.name not in _UNKNOWN]
    if len(named) == len(found):
        return found
    nameless = {uuid for away in Away().values() for uuid in away.nameless}
    by_uuid = ParsePvs(_Look(BuildListPvs("pv_uuid")))
    return named + [replace(pv, name=f"{_UNKNOWN[0]}:{pv.name}") for pv in by_uuid if pv.name in nameless]


def Away() -> dict[str, MissingVolumes]:
    """Return the physical volumes that are missing, by volume group."""
    return looks.Once("pvs away", lambda: ParseAway(_Look(BuildListAway())))


def Groups() -> dict[str, Group]:
    """Return the volume groups that can be written to, by name; none of those that share one.

    What a guest wrote to its disk may look like groups, too: it must not keep the node from its own.
    """
    groups = _AllGroups()
    names = [vg.name for vg in groups]
    return {vg.name: vg for vg in groups if vg.writable and names.count(vg.name) == 1}


def GroupNamed(name: str) -> Group | None:
    """Return the volume group of this name if there is one that can be written to; BlockDeviceError if two have it."""
    found = [vg for vg in _AllGroups() if vg.name == name]
    if len(found) > 1:
        raise errors.BlockDeviceError(f"{len(found)} volume groups are called {name} on this node; {TWICE}")
    return next((vg for vg in found if vg.writable), None)


def GroupSizes() -> dict[str, float]:
    """Return the MiB of each of ``Groups``."""
    return {vg.name: vg.size for vg in Groups().values()}


def _AllGroups() -> list[Group]:
    return looks.Once("vgs", lambda: ParseVgs(_Look(BuildListVgs())))


def _Look(argv: list[str]) -> str:
    return programs.Look(_KeptOff(argv), f"LVM cannot be asked: '{argv[0]}' failed")


def Act(argv: list[str], trouble: str) -> None:
    """Run a program that changes something; what was looked at before no longer counts."""
    programs.Act(_KeptOff(argv), trouble)


def _KeptOff(argv: list[str]) -> list[str]:
    """Have a program of LVM look for physical volumes anywhere but on disks, unless the node's own filter decides.

    LVM reads the start of every device.  A mirror that is frozen answers nobody, and the program could not even be killed;
    what a guest has written to its disk may look like a volume group of the node.
    """
    patterns = [pattern for path, pattern in _KEPT_OFF.items() if runtime.Exists(path)]
    if not patterns:
        return argv
    for path in _CONFIGS:
        try:
            if _FILTER.search(runtime.ReadText(path, _CONFIG_LIMIT)):
                return argv
        except (OSError, ValueError):
            continue
    shown = ",".join(f'"{pattern}"' for pattern in patterns)
    return [argv[0], "--config", f"devices/global_filter=[{shown}]", *argv[1:]]


# --- exclusive storage ------------------------------------------------------------------------------------------------


def StandardSize(pvs: Iterable[PhysicalVolume]) -> float:
    """Return the MiB for data that each physical volume surely has."""
    return min(pv.size for pv in pvs) / (1 + _PV_MARGIN + _PV_RESERVED)


def PvsNeeded(size: int, pvs: Sequence[PhysicalVolume]) -> int:
    return max(1, math.ceil(size / StandardSize(pvs)))
