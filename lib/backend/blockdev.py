"""Procedures for block devices (doc/reference/drivers.md a.5, doc/reference/noderpc.md 6): the wire's face of ``storage``."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Any

from ganeti import errors, hypervisor, runtime
from ganeti.backend import guestnotes, wire
from ganeti.backend.instance import CheckGone
from ganeti.params import checks
from ganeti.storage import base, links, paths, shown, tree
from ganeti.storage.drivers.device import BuildSize, IsSize

Dict = dict[str, Any]

_REMOVE_SECONDS = 30.0
_REMOVE_STEP = 3.0
# Copying a disk has no natural limit; the caller's own time-out is shorter.
_COPY_SECONDS = 86400.0
_DD_MISSES_DIRECT = "Invalid argument"
_SHELL = ["bash", "-o", "errexit", "-o", "pipefail", "-c"]
# Exit code: an image is larger than the disk.  Neither curl nor dd nor setpriv nor the shell has it.
_LARGER = 120
_NOBODY = 65534


def Create(bdev: Dict, size: int, owner: str, on_primary: bool, info: str, exclusive_storage: bool) -> list[Any]:
    """blockdev_create: make one layer, whose children exist; return its id."""
    disk = wire.Disk(bdev)
    device = tree.Create(disk, size, owner, on_primary, info, exclusive_storage)
    shown.Forget(disk.uuid)
    return list(device.unique_id)


def Assemble(disk: Dict, instance: Dict, on_primary: bool, idx: int) -> list[Any]:
    """blockdev_assemble: return [device path, link, URI], or [true, true] where nothing has to be assembled.

    The instance can be started by the attempt that it names, and by no other one.
    """
    owner = wire.Instance(instance)
    device = tree.Assemble(wire.Disk(disk), owner.name, on_primary)
    if device is None:
        return [True, True]
    if not on_primary:
        return [device.dev_path, None, None]
    opening = links.Opening(owner.attempt, owner.hypervisor) if owner.attempt else links.Own(owner.hypervisor)
    link = links.Make(owner.name, device.dev_path, idx, opening)
    return [device.dev_path, link, device.UserspaceUri(owner.hypervisor)]


def Shutdown(disk: Dict) -> None:
    """blockdev_shutdown: take the device off this node, then its children."""
    tree.Shutdown(wire.Disk(disk))


def Remove(bdev: Dict) -> None:
    """blockdev_remove: destroy the data; try a busy device again for a while."""
    disk = wire.Disk(bdev)
    deadline = runtime.Monotonic() + _REMOVE_SECONDS
    while True:
        try:
            tree.Remove(disk)
            shown.Forget(disk.uuid)
            return
        except errors.BlockDeviceError:
            if runtime.Monotonic() + _REMOVE_STEP > deadline:
                raise
        runtime.Sleep(_REMOVE_STEP)


def Open(instance_name: str, disks: list[Dict], exclusive: bool) -> None:
    """blockdev_open: make the disks writable here, and link them if an instance is named; nothing can be started from that."""
    opening = links.Own("")
    for index, disk in enumerate(wire.Disks(disks)):
        device = tree.Reach(disk) or tree.FindOrFail(disk)
        device.Open(exclusive=exclusive)
        if instance_name:
            links.Make(instance_name, device.dev_path, index, opening)


def Close(instance_name: str, disks: list[Dict]) -> None:
    """blockdev_close: undo blockdev_open; try every disk; one that is not set up counts as closed.

    Raises RpcCallError if a guest was started or has arrived here from these disks and its process is still there.
    """
    if instance_name:
        with guestnotes.Locked(instance_name):
            for name in _Users(instance_name, len(disks)):
                CheckGone(hypervisor.GetHypervisor(name), instance_name, "its disks cannot be closed")
            links.Remove(instance_name, len(disks))
    problems = []
    for disk in wire.Disks(disks):
        try:
            device = tree.Find(disk)
            if device is not None:
                device.Close()
        except errors.BlockDeviceError as err:
            problems.append(str(err))
    if problems:
        raise errors.BlockDeviceError("Disks could not be closed: " + "; ".join(problems))


def _Users(instance_name: str, count: int) -> set[str]:
    """Return the hypervisors for which the instance's first ``count`` disks are open."""
    openings = [links.OpeningOf(instance_name, index) for index in range(count)]
    return {opening.hypervisor for opening in openings if opening is not None and opening.hypervisor}


def Find(disk: Dict) -> Dict | None:
    """blockdev_find: return the status of the disk and all below it; null when it does not exist."""
    device = tree.Find(wire.Disk(disk))
    return None if device is None else tree.CombinedStatus(device).ToDict()


def MirrorStatus(disks: list[Dict]) -> list[Dict]:
    """blockdev_getmirrorstatus: return each disk's status; a missing disk is a failure."""
    return [tree.CombinedStatus(tree.FindOrFail(disk)).ToDict() for disk in wire.Disks(disks)]


def MirrorStatusMulti(node_disks: list[Dict]) -> list[list[Any]]:
    """blockdev_getmirrorstatus_multi: return [true, status] or [false, text] per disk."""
    rows: list[list[Any]] = []
    for disk in wire.Disks(node_disks):
        try:
            rows.append([True, tree.CombinedStatus(tree.FindOrFail(disk)).ToDict()])
        except errors.GenericError as err:
            rows.append([False, str(err)])
    return rows


def Dimensions(disks: list[Dict]) -> list[list[int | None] | None]:
    """blockdev_getdimensions: return [bytes, spindles] per disk, null for one that cannot be measured."""
    rows: list[list[int | None] | None] = []
    for disk in wire.Disks(disks):
        try:
            device = tree.Find(disk)
            rows.append(None if device is None else list(device.Dimensions()))
        except errors.BlockDeviceError:
            rows.append(None)
    return rows


def Grow(cf_bdev: Dict, amount: int, dryrun: bool, backingstore: bool, es_flag: bool) -> None:
    """blockdev_grow: add ``amount`` MiB."""
    tree.Grow(wire.Disk(cf_bdev), amount, dryrun, backingstore, es_flag)


def Rename(devlist: list[list[Any]]) -> None:
    """blockdev_rename: give each disk of [[disk, new id]] its new id; try all.  Can be repeated."""
    problems = []
    for data, new_id in devlist:
        disk = wire.Disk(data)
        try:
            if tree.FindAlone(disk) is None and tree.FindAlone(disk.Replace(logical_id=new_id)) is not None:
                # An earlier try was cut off after this step.
                continue
            tree.FindOrFail(disk).Rename(new_id)
        except errors.BlockDeviceError as err:
            problems.append(str(err))
    if problems:
        raise errors.BlockDeviceError("; ".join(problems))


def SetInfo(disk: Dict, info: str) -> None:
    """blockdev_setinfo: record the owner on the storage itself."""
    tree.SetInfo(tree.FindOrFail(wire.Disk(disk)), info)


def Snapshot(cf_bdev: Dict, snap_name: str | None, snap_size: int | None) -> list[Any]:
    """blockdev_snapshot: make a snapshot and return its id."""
    return tree.Snapshot(wire.Disk(cf_bdev), snap_name, snap_size)


def AddChildren(bdev: Dict, ndevs: list[Dict]) -> None:
    """blockdev_addchildren: give a mirror its local storage."""
    children = [tree.FindOrFail(child) for child in wire.Disks(ndevs)]
    tree.FindOrFail(wire.Disk(bdev)).AddChildren(children)


def RemoveChildren(bdev: Dict, ndevs: list[Dict]) -> None:
    """blockdev_removechildren: take a mirror's local storage away."""
    tree.FindOrFail(wire.Disk(bdev)).RemoveChildren(wire.Disks(ndevs))


def PauseResumeSync(disks: list[Dict], pause: bool) -> list[list[Any]]:
    """blockdev_pause_resume_sync: return [true, null] or [false, text] per disk."""
    rows: list[list[Any]] = []
    for disk in wire.Disks(disks):
        try:
            tree.FindOrFail(disk).PauseResumeSync(pause)
            rows.append([True, None])
        except errors.BlockDeviceError as err:
            rows.append([False, f"{'Pausing' if pause else 'Resuming'} the sync failed: {err}"])
    return rows


# --- content ----------------------------------------------------------------------------------------------------------


def Wipe(bdev: Dict, offset: int, size: int) -> None:
    """blockdev_wipe: write zeros over ``size`` MiB from ``offset``, never beyond the end, nor over what a guest has seen."""
    disk = wire.Disk(bdev)
    device = tree.FindOrFail(disk)
    mib = (device.Dimensions()[0] + base.BLOCK_BYTES - 1) // base.BLOCK_BYTES
    if offset > mib or offset + size > mib:
        raise errors.RpcCallError(f"{device}: cannot wipe {size} MiB from {offset}, it has {mib} MiB")
    CheckWritable(device)
    with shown.Unseen(str(device), disk.uuid, offset):
        result = RunDd(device.WipeCommand(offset, size))
    if result.failed:
        raise errors.RpcCallError(f"{device}: wiping failed: {result.fail_reason}")


def Image(bdev: Dict, image: str, size: int) -> None:
    """blockdev_image: fill the disk from a file of this node or a URL; ``size``: MiB there is room for."""
    device = tree.FindOrFail(wire.Disk(bdev))
    CheckWritable(device)
    FillFromImage(device.ImportCommand(), image, size, f"{device}: cannot be filled from {image}")


def FillFromImage(filling: Sequence[str], image: str, mib: int, trouble: str) -> None:
    """Copy an image, a file or the content of a URL, to where a command of ``dd`` copies standard input; at most ``mib`` MiB.

    What reads it has the rights of nobody: a file that not every user may read stays unread, whatever somebody makes of
    its path meanwhile.  RpcCallError, which begins with ``trouble`` where the copying itself fails; then a part may have
    been written.
    """
    reading = BuildDownload(image) if checks.IsUrl(image) else BuildRead(_RealImage(image, mib))
    result = RunDd(BuildFill(_AsNobody(reading), filling, mib))
    if result.exit_code == _LARGER:
        raise errors.RpcCallError(f"{trouble}: it is larger than the disk, which has {mib} MiB")
    if result.failed:
        raise errors.RpcCallError(f"{trouble}: {result.fail_reason}")


def _RealImage(image: str, mib: int) -> str:
    """Return where the file of an image really is; RpcCallError if it cannot be used."""
    try:
        real = paths.WithoutLinks(image)
        found = runtime.Stat(real, follow=False)
    except errors.FileStoragePathError as err:
        raise errors.RpcCallError(f"Image {image} cannot be used on this node: {err}") from err
    except OSError as err:
        raise errors.RpcCallError(f"Image {image} cannot be used on this node: {err.strerror}") from err
    _CheckImage(image, real, found, mib)
    return real


def _CheckImage(image: str, real: str, found: os.stat_result, mib: int) -> None:
    """Raise RpcCallError unless what an image really is, is a file that every user may read, and has room on a disk."""
    if not stat.S_ISREG(found.st_mode):
        raise errors.RpcCallError(f"Image {image} is not a regular file; give the path of a file or a URL")
    if not found.st_mode & stat.S_IROTH:
        # Whoever may create instances would read keys with it.
        raise errors.RpcCallError(
            f"Image {image} may not be read by every user of this node; if it holds no secrets: chmod o+r {image}"
        )
    folder = os.path.dirname(real)
    while folder != "/":
        if not runtime.Stat(folder, follow=False).st_mode & stat.S_IXOTH:
            raise errors.RpcCallError(
                f"Image {image} may not be read by every user of this node, as {folder} may not be entered by all; if the image holds"
                " no secrets, move it to a directory that every user may enter"
            )
        folder = os.path.dirname(folder)
    if found.st_size > mib * base.BLOCK_BYTES:
        raise errors.RpcCallError(f"Image {image} has {found.st_size} bytes, the disk only {mib} MiB")


def Convert(bdev_src: Dict, bdev_dest: Dict) -> None:
    """blockdev_convert: copy one local disk to another."""
    source, target = tree.FindOrFail(wire.Disk(bdev_src)), tree.FindOrFail(wire.Disk(bdev_dest))
    if target.Dimensions()[0] < source.Dimensions()[0]:
        raise errors.RpcCallError(f"{target}: is smaller than {source}; nothing was copied")
    _Pipe(source.ExportCommand(), target.ImportCommand(), f"{source}: cannot be copied to {target}")


def BuildRead(path: str) -> list[str]:
    """Return the command that copies a file to standard output; not one that a pipe or a link has taken the place of."""
    return ["dd", f"if={path}", f"bs={base.BLOCK_BYTES}", "iflag=nofollow,nonblock", "status=none"]


def _AsNobody(argv: Sequence[str]) -> list[str]:
    if os.geteuid() != 0:
        return list(argv)
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs", "--", *argv]


def BuildDownload(url: str) -> list[str]:
    """Return the command that copies the content of a URL to standard output; an error page is a failure."""
    options = ["--fail", "--silent", "--show-error", "--location", "--connect-timeout", "20"]
    # What looks like a pattern is a part of the address; a server must not lead elsewhere than to another server.
    options += ["--globoff", "--proto", "=http,https,ftp,ftps,tftp"]
    return ["curl", *options, "--", url]


def BuildFill(source: Sequence[str], filling: Sequence[str], mib: int) -> list[str]:
    """Return the command of a shell that copies at most ``mib`` MiB of what a command writes; exit code ``_LARGER`` if there is more."""
    left, right = map(_Quoted, (source, [*filling, f"count={mib}"]))
    more = f'{{ [ "$(head -c 1 | wc -c)" = 0 ] || exit {_LARGER}; }}'
    return [*_SHELL, f"{left} | {{ {right} && {more}; }}"]


def BuildPipe(source: Sequence[str], target: Sequence[str]) -> list[str]:
    """Return the command of a shell that pipes one command into another; the words are quoted for it."""
    return [*_SHELL, f"{_Quoted(source)} | {_Quoted(target)}"]


def _Quoted(argv: Sequence[str]) -> str:
    return " ".join(runtime.ShellQuote(word) for word in argv)


def CheckWritable(device: base.BlockDev) -> None:
    """Raise RpcCallError for a device whose content only its hypervisor can reach."""
    if device.dev_path is None:
        raise errors.RpcCallError(f"{device}: is reachable by its hypervisor only; its content cannot be written here")


def RunDd(argv: list[str], stdin: bytes | None = None) -> runtime.RunResult:
    """Run dd, alone or in a shell's line, past the cache, or through it where the file system cannot do without."""
    result = runtime.RunCmd(argv, stdin=stdin, timeout=_COPY_SECONDS)
    if result.failed and _DD_MISSES_DIRECT in result.stderr:
        result = runtime.RunCmd(ThroughCache(argv), stdin=stdin, timeout=_COPY_SECONDS)
    return result


def ThroughCache(argv: Sequence[str]) -> list[str]:
    """Return a command of dd, alone or in a shell's line, so that it reads and writes through the cache; it is as durable."""
    return [word.replace("oflag=direct", "oflag=dsync").replace("iflag=direct", "iflag=fullblock") for word in argv]


def _Pipe(source: Sequence[str], target: Sequence[str], trouble: str) -> None:
    result = runtime.RunCmd(BuildPipe(source, target), timeout=_COPY_SECONDS)
    if result.failed:
        raise errors.RpcCallError(f"{trouble}: {result.fail_reason}")


def Sizes(devices: list[str]) -> Dict:
    """bdev_sizes: return {path: MiB} of those that are block devices below /dev."""
    sizes = {}
    for path in devices:
        if _DeviceAt(path) is None:
            continue
        result = runtime.RunCmd(BuildSize(path), timeout=30)
        if not result.failed and IsSize(result.stdout.strip()):
            sizes[path] = int(result.stdout) // base.BLOCK_BYTES
    return sizes


def Identities(devices: list[str]) -> Dict:
    """bdev_identities: return {path: [major, minor, real path, in use]} of those that are block devices below /dev.

    Two names of one device have the same numbers.  What a guest has open is not in use as far as the system knows, but
    linked for it.
    """
    found: Dict = {}
    linked = links.Numbers()
    for path in devices:
        number = _DeviceAt(path)
        if number is None:
            continue
        try:
            held = number in linked or runtime.IsHeld(path)
        except OSError as err:
            raise errors.RpcCallError(f"Device {path}: cannot be opened: {err.strerror}") from err
        found[path] = [os.major(number), os.minor(number), paths.WithoutLinks(path), held]
    return found


def _DeviceAt(path: str) -> int | None:
    """Return the number of a block device below /dev, links followed; None where there is none."""
    try:
        node = runtime.Stat(path)
    except OSError:
        return None
    return node.st_rdev if stat.S_ISBLK(node.st_mode) and path.startswith("/dev/") else None


HANDLERS = {
    "bdev_identities": Identities,
    "bdev_sizes": Sizes,
    "blockdev_addchildren": AddChildren,
    "blockdev_assemble": Assemble,
    "blockdev_close": Close,
    "blockdev_convert": Convert,
    "blockdev_create": Create,
    "blockdev_find": Find,
    "blockdev_getdimensions": Dimensions,
    "blockdev_getmirrorstatus": MirrorStatus,
    "blockdev_getmirrorstatus_multi": MirrorStatusMulti,
    "blockdev_grow": Grow,
    "blockdev_image": Image,
    "blockdev_open": Open,
    "blockdev_pause_resume_sync": PauseResumeSync,
    "blockdev_remove": Remove,
    "blockdev_removechildren": RemoveChildren,
    "blockdev_rename": Rename,
    "blockdev_setinfo": SetInfo,
    "blockdev_shutdown": Shutdown,
    "blockdev_snapshot": Snapshot,
    "blockdev_wipe": Wipe,
}
