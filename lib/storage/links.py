"""Links from an instance and a disk number to the device (RUN/instance-disks), what a hypervisor is given; and for which
start each disk was opened (RUN/ext/openings; doc/design-migration.rst, "Calls that arrive late").
"""

from __future__ import annotations

from typing import NamedTuple

from ganeti import errors, pathutils, runtime, serializer
from ganeti.utils import owndirs

_LIMIT = 4096


class Opening(NamedTuple):
    """A disk is open here for the ``attempt`` to start its instance, which ``hypervisor`` runs."""

    attempt: str
    hypervisor: str


def Own(hypervisor: str) -> Opening:
    """Return an opening that no start names: the instance is here by another way, or not at all."""
    return Opening(runtime.NewUuid(), hypervisor)


def _Check(instance_name: str) -> None:
    """Raise BlockDeviceError for a name that would lead out of the directories."""
    if not instance_name or instance_name[0] == "." or "/" in instance_name or not instance_name.isprintable():
        raise errors.BlockDeviceError(f"Instance name {instance_name[:80]!r} cannot be used in file names")


def Make(instance_name: str, device_path: str | None, index: int, opening: Opening) -> str | None:
    """Note the opening of disk ``index``, make or correct its link and return the link's path.

    A disk without a device, which its hypervisor reaches by a URI, has no link.  The note is first: a link is never
    taken for an older attempt's.
    """
    _Check(instance_name)
    link = pathutils.InstanceDiskLink(instance_name, index)
    try:
        # Both directories are gone with a restart of the machine.
        owndirs.MakeOwn(pathutils.DISK_OPENINGS_DIR, 0o700)
        runtime.WriteFile(
            pathutils.InstanceDiskOpening(instance_name, index), serializer.DumpBytes(list(opening)), sync=False
        )
        if not device_path:
            return None
        owndirs.MakeOwn(pathutils.DISK_LINKS_DIR)
        try:
            runtime.Symlink(device_path, link)
        except FileExistsError:
            if runtime.ReadLink(link) != device_path:
                runtime.RemoveFile(link)
                runtime.Symlink(device_path, link)
    except OSError as err:
        raise errors.BlockDeviceError(f"Cannot link disk {index} of instance {instance_name}: {err}") from err
    return link


def IsMade(instance_name: str, device_path: str, index: int) -> bool:
    """Return whether the link of disk ``index`` leads to the device: the disk was opened here and not closed since."""
    try:
        return runtime.ReadLink(pathutils.InstanceDiskLink(instance_name, index)) == device_path
    except OSError:
        return False


def Numbers() -> set[int]:
    """Return the numbers of the devices that instances of this node use, or have not let go."""
    found = set()
    for name in runtime.ListDir(pathutils.DISK_LINKS_DIR) if runtime.Exists(pathutils.DISK_LINKS_DIR) else ():
        try:
            found.add(runtime.Stat(f"{pathutils.DISK_LINKS_DIR}/{name}").st_rdev)
        except OSError:
            continue  # of a device that is gone
    return found - {0}


def OpeningOf(instance_name: str, index: int) -> Opening | None:
    """Return for what disk ``index`` is open here; None if it is closed, or was opened by an older release."""
    try:
        attempt, hypervisor = serializer.Load(
            runtime.ReadFile(pathutils.InstanceDiskOpening(instance_name, index), limit=_LIMIT)
        )
    except (OSError, errors.ParseError, TypeError, ValueError):
        return None
    return Opening(str(attempt), str(hypervisor))


def Remove(instance_name: str, count: int) -> None:
    """Remove the links and openings of the instance's first ``count`` disks, as far as they are there."""
    _Check(instance_name)
    for index in range(count):
        for path in (
            pathutils.InstanceDiskLink(instance_name, index),
            pathutils.InstanceDiskOpening(instance_name, index),
        ):
            try:
                runtime.RemoveFile(path)
            except OSError as err:
                raise errors.BlockDeviceError(f"Cannot remove {path}, which opens a disk: {err}") from err
