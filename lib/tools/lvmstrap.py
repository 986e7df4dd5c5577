"""lvmstrap: shows the disks of this machine, and makes a volume group of those that are free.

A disk that somebody uses is never touched.  One with anything on it is left alone too, unless it is named and ``--force``
is given.  All checks come before the first change.
"""

from __future__ import annotations

import optparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence

from ganeti import constants, errors, pathutils, runtime
from ganeti.storage.utilities import lvmtools
from ganeti.tools import common, diskscan
from ganeti.tools.diskscan import Device, Uses

_USAGE = """\
%prog diskinfo
       %prog [options] {--alldisks | --disks=DISK,...} create

Shows the disks of this machine, or makes a volume group of those that are free"""
DEFAULT_VG = "xenvg"
_EXTENT = "64MB"
_LVM_TYPE = {"msdos": "8e", "gpt": "E6D6D379-F507-44C2-A23C-238F2A3DF928"}
# What the old kind of partition table can describe.
_MSDOS_LIMIT = 2 * 10**12
_SECONDS = 120.0
_APPEAR_SECONDS, _LOOK_SECONDS = 10.0, 0.2
_MIB = 1 << 20
_INFO_WIDTH = 45


def MakeParser() -> optparse.OptionParser:
    parser = common.Parser(_USAGE)
    parser.prog = "lvmstrap"
    parser.set_conflict_handler("resolve")  # -d is --disks here
    parser.add_option("-g", "--vg-name", dest="vg", metavar="NAME", default=DEFAULT_VG,
                      help="Name of the volume group, which must not exist [%default]")  # fmt: skip
    parser.add_option("--alldisks", action="store_true", default=False,
                      help="Use all disks that are free and empty; the others are listed with the reason")  # fmt: skip
    parser.add_option("-d", "--disks", dest="disks", metavar="DISK,...",
                      help="Use these disks or partitions (of at least 1 GiB), for example sdb,sdc")  # fmt: skip
    parser.add_option(
        "-r", "--allow-removable", action="store_true", default=False, help="Consider removable disks too"
    )
    parser.add_option(
        "--use-sfdisk", action="store_true", default=False, help="Make partitions with sfdisk instead of parted"
    )
    parser.add_option("--force", action="store_true", default=False,
                      help="DESTROYS what is on the disks named with --disks; disks in use are rejected nevertheless")  # fmt: skip
    return parser


def Main() -> int:
    parser = MakeParser()
    options, arguments = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if arguments == ["diskinfo"]:
        return common.RunTool(lambda: _OnThisMachine(ShowDisks))
    if arguments != ["create"]:
        parser.error("One command is expected: diskinfo or create")
    if options.alldisks == bool(options.disks):
        parser.error("Say which disks: either --alldisks or --disks")
    if options.alldisks and options.force:
        parser.error("--force works only for disks that --disks names")
    if not lvmtools.IsName(options.vg):
        parser.error(f"'{options.vg[:60]}' is not a valid name of a volume group")
    names = [name.strip().removeprefix("/dev/") for name in (options.disks or "").split(",") if name.strip()]
    return common.RunTool(
        lambda: _OnThisMachine(
            lambda: Create(options.vg, names, options.allow_removable, options.force, options.use_sfdisk)
        )
    )


def _OnThisMachine(action: Callable[[], int]) -> int:
    if os.geteuid() != 0:
        raise errors.OpPrereqError("Only root can look at disks; run this as root", errors.ECODE_ENVIRON)
    for path, what in (("/sys/block", "sysfs"), ("/proc/self/mountinfo", "procfs")):
        if not runtime.Exists(path):
            raise errors.OpPrereqError(f"{path} does not exist: {what} is not mounted", errors.ECODE_ENVIRON)
    return action()


# --- diskinfo -----------------------------------------------------------------------------------------------------------


def ShowDisks() -> int:
    disks = diskscan.Disks()
    if not disks:
        raise errors.OpPrereqError("This machine has no disks of a known kind", errors.ECODE_NOENT)
    sys.stdout.write("".join(f"{line}\n" for line in Table(disks, diskscan.LookForUses())))
    return constants.EXIT_SUCCESS


def Table(disks: Sequence[Device], uses: Uses) -> list[str]:
    """Return the lines of ``diskinfo``; partitions are indented below their disk."""
    rows = [("Name", "Size[M]", "Used", "Mount", "LVM?", "Info")]
    rows += [_Row(device, uses) for disk in disks for device in (disk, *disk.partitions)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), row[1].rjust(widths[1]), *map(str.ljust, row[2:5], widths[2:]), row[5]]
        ).rstrip()
        for row in rows
    ]


def _Row(device: Device, uses: Uses) -> tuple[str, str, str, str, str, str]:
    return (
        ("  " if device.is_partition else "") + device.name,
        f"{device.size / _MIB:.2f}",
        "yes" if diskscan.WhyBusy(device, uses) else "no",
        uses.MountOf(device) or "-",
        _LvmState(device, uses),
        diskscan.Description(device)[:_INFO_WIDTH],
    )


def _LvmState(device: Device, uses: Uses) -> str:
    if device.path not in uses.groups:
        return "-"
    group = uses.groups[device.path]
    return f"in {group}" if group else "yes,free"


# --- create -------------------------------------------------------------------------------------------------------------


def Create(group: str, names: Sequence[str], removable: bool, force: bool, sfdisk: bool) -> int:
    """Make the volume group of the disks named, or of all that are free and empty."""
    uses = diskscan.LookForUses()
    if group in uses.groups.values():
        raise errors.OpPrereqError(
            f"Volume group '{group}' exists already ('vgs' shows it); extend it with 'vgextend', or choose another name"
            " with --vg-name",
            errors.ECODE_EXISTS,
        )
    disks = [disk for disk in diskscan.Disks() if removable or not disk.removable]
    chosen = _Named(disks, names, uses, force) if names else _AllFree(disks, uses)
    prepared: list[str] = []
    try:
        # One after the other, so that after a failure it is known how far it came.
        prepared.extend(Prepare(device, sfdisk) for device in chosen)
        _Act(BuildGroup(group, prepared), f"Volume group '{group}': cannot be created")
    except errors.OpExecError as err:
        left = f"; these are physical volumes now, 'pvremove' undoes it: {', '.join(prepared)}" if prepared else ""
        raise errors.OpExecError(f"{err}{left}") from err
    size = lvmtools.Groups()[group].size
    sys.stdout.write(f"Done! {group}: size {size / 1024:.2f} GiB, disks: {','.join(d.name for d in chosen)}\n")
    return constants.EXIT_SUCCESS


def _Named(disks: Iterable[Device], names: Sequence[str], uses: Uses, force: bool) -> list[Device]:
    """Return the devices of these names; all of them must be free, and empty unless ``force`` is given."""
    known = {device.name: (device, disk) for disk in disks for device in (disk, *disk.partitions)}
    chosen: list[Device] = []
    taken: set[str] = set()
    for name in names:
        if name not in known:
            raise errors.OpPrereqError(
                f"Disk {name[:60]} is not known, or is removable and --allow-removable was not given; known are:"
                f" {', '.join(known) or 'none'}",
                errors.ECODE_NOENT,
            )
        device, disk = known[name]
        covered = {device.name, *(part.name for part in device.partitions)}
        if covered & taken:
            raise errors.OpPrereqError(f"Disk {disk.name} or a part of it is named twice", errors.ECODE_INVAL)
        taken |= covered
        _Check(device, uses, force)
        chosen.append(device)
    return chosen


def _Check(device: Device, uses: Uses, force: bool) -> None:
    busy = diskscan.WhyBusy(device, uses)
    if busy is not None:
        raise errors.OpPrereqError(f"Disk {device.name} is in use: {busy}", errors.ECODE_STATE)
    if device.is_partition and device.size < diskscan.SMALLEST_PARTITION:
        raise errors.OpPrereqError(f"Partition {device.name} is smaller than 1 GiB", errors.ECODE_INVAL)
    found = [] if force else diskscan.Contents(device)
    if found:
        raise errors.OpPrereqError(
            f"Disk {device.name} is not empty: {', '.join(found)}; nothing was changed",
            errors.ECODE_STATE,
            hint="--force destroys what is on it",
        )


def _AllFree(disks: Sequence[Device], uses: Uses) -> list[Device]:
    """Return the whole disks that nobody uses and that have nothing on them; say why the others are left out."""
    chosen = []
    for disk in disks:
        busy = diskscan.WhyBusy(disk, uses)
        reason = f"in use: {busy}" if busy else ", ".join(diskscan.Contents(disk))
        if reason:
            sys.stderr.write(f"Leaving out disk {disk.name}: {reason}\n")
        else:
            chosen.append(disk)
    if not chosen:
        raise errors.OpPrereqError(
            f"No disk is free and empty, of {len(disks)} that this machine has ('{pathutils.LVMSTRAP} diskinfo' shows them)",
            errors.ECODE_NORES,
        )
    return chosen


def Prepare(device: Device, sfdisk: bool) -> str:
    """Make a physical volume of a device, or of a new partition that fills it; return its path.

    ``wipefs`` opens the device exclusively, as the first of all: it fails, before anything is written, if the kernel gave
    the device to somebody since it was looked at.
    """
    _Act(BuildWipe(device.path), f"Disk {device.name}: cannot be cleared, nothing was written to it")
    path = device.path
    if not (device.is_md or device.is_partition):
        label = "gpt" if device.size > _MSDOS_LIMIT else "msdos"
        argv, stdin = BuildSfdisk(path, label) if sfdisk else (BuildParted(path, label), None)
        _Act(argv, f"Disk {device.name}: cannot be partitioned", stdin)
        path = PartitionPath(path)
        _WaitFor(path)
    _Act(BuildPv(path), f"Disk {device.name}: {path} cannot become a physical volume")
    return path


def _WaitFor(path: str) -> None:
    deadline = runtime.Monotonic() + _APPEAR_SECONDS
    while not runtime.Exists(path):
        if runtime.Monotonic() > deadline:
            raise errors.OpExecError(f"Partition {path} was made, but did not appear within {_APPEAR_SECONDS:g} s")
        runtime.Sleep(_LOOK_SECONDS)


def _Act(argv: Sequence[str], trouble: str, stdin: str | None = None) -> None:
    result = runtime.RunCmd(argv, stdin=stdin, timeout=_SECONDS)
    if result.failed:
        said = " ".join((result.stderr or result.stdout).split())[:500]
        raise errors.OpExecError(f"{trouble}: '{argv[0]}' failed: {said or result.fail_reason}")


# --- command lines ------------------------------------------------------------------------------------------------------


def PartitionPath(path: str) -> str:
    """Return the path of the first partition: /dev/sda1, /dev/nvme0n1p1."""
    return f"{path}p1" if path[-1].isdigit() else f"{path}1"


def BuildWipe(path: str) -> list[str]:
    return ["wipefs", "--all", "--quiet", path]


def BuildParted(path: str, label: str) -> list[str]:
    return ["parted", "--script", "--align=optimal", path,
            "mklabel", label, "mkpart", "primary", "1MiB", "100%", "set", "1", "lvm", "on"]  # fmt: skip


def BuildSfdisk(path: str, label: str) -> tuple[list[str], str]:
    """Return the command and its input."""
    return ["sfdisk", "--quiet", path], f"label: {'dos' if label == 'msdos' else label}\ntype={_LVM_TYPE[label]}\n"


def BuildPv(path: str) -> list[str]:
    return ["pvcreate", "-yff", path]


def BuildGroup(name: str, pvs: Sequence[str]) -> list[str]:
    return ["vgcreate", "-s", _EXTENT, name, *pvs]
