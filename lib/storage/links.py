"""Links from an instance and a disk number to the device (RUN/instance-disks), what a hypervisor is given."""

from __future__ import annotations

from ganeti import errors, pathutils, runtime


def Make(instance_name: str, device_path: str, index: int) -> str:
    """Makes or corrects the link of disk ``index``; returns its path."""
    link = pathutils.InstanceDiskLink(instance_name, index)
    try:
        runtime.MakeDirs(pathutils.DISK_LINKS_DIR)  # gone with a restart of the machine
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
    """Removes the links of the instance's first ``count`` disks, as far as they are there."""
    for index in range(count):
        link = pathutils.InstanceDiskLink(instance_name, index)
        try:
            runtime.RemoveFile(link)
        except OSError as err:
            raise errors.BlockDeviceError(f"Cannot remove the disk link {link}: {err}") from err
