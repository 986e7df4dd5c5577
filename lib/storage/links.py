"""Links from an instance and a disk number to the device (RUN/instance-disks), what a hypervisor is given."""

from __future__ import annotations

from ganeti import errors, pathutils, runtime
from ganeti.utils import owndirs


def _Path(instance_name: str, index: int) -> str:
    """Return the path of a link; a name that would lead out of the directory is a BlockDeviceError."""
    if not instance_name or instance_name[0] == "." or "/" in instance_name or not instance_name.isprintable():
        raise errors.BlockDeviceError(f"Instance name {instance_name[:80]!r} cannot be used in file names")
    return pathutils.InstanceDiskLink(instance_name, index)


def Make(instance_name: str, device_path: str, index: int) -> str:
    """Make or correct the link of disk ``index``; return its path."""
    link = _Path(instance_name, index)
    try:
        owndirs.MakeOwn(pathutils.DISK_LINKS_DIR)  # gone with a restart of the machine
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


def Remove(instance_name: str, count: int) -> None:
    """Remove the links of the instance's first ``count`` disks, as far as they are there."""
    for index in range(count):
        link = _Path(instance_name, index)
        try:
            runtime.RemoveFile(link)
        except OSError as err:
            raise errors.BlockDeviceError(f"Cannot remove the disk link {link}: {err}") from err
