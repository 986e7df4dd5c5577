"""An image in place of an operating system: parameter ``os-image`` (doc/reference/interfaces.md a.6).

The first disk is filled from a file of the primary node, or from a URL, and no script runs.  An instance keeps the parameter,
so that a reinstallation uses the image again unless it names an operating system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ganeti import constants, errors, objects
from ganeti.cmdlib.base import LogicalUnit
from ganeti.params import checks

OS_IMAGE = constants.OS_IMAGE


def ImageOf(own: Mapping[str, str], disks: Sequence[object]) -> str | None:
    """Return the image that an instance's own parameters name, None without one; raise OpPrereqError if it cannot be one."""
    image = own.get(OS_IMAGE)
    if not image:
        return None
    if not (checks.IsAbsNormPath(image) or checks.IsUrl(image)):
        raise errors.OpPrereqError(
            f"'{image[:80]}' is not a valid image: parameter '{OS_IMAGE}' takes the absolute path of a file on the primary"
            " node, or a URL",
            errors.ECODE_INVAL,
        )
    if not disks:
        raise errors.OpPrereqError("An image needs a disk; this instance has none", errors.ECODE_INVAL)
    return image


def FileSize(lu: LogicalUnit, node_uuid: str, image: str) -> int:
    """Return the bytes of an image that is a file of the node; raise OpPrereqError if it is not there."""
    result = lu.rpc.call_get_file_info(node_uuid, image)
    result.Raise(f"Could not look for image {image} on node {result.node_name}", prereq=True)
    exists, facts = result.payload
    if not exists:
        raise errors.OpPrereqError(
            f"Image {image} does not exist on node {result.node_name}",
            errors.ECODE_NOENT,
            hint=f"'gnt-cluster copyfile {image}', on the master, copies it to all nodes",
        )
    return int(facts["size"])


def CheckImage(lu: LogicalUnit, node_uuid: str, image: str, mib: int) -> None:
    """Check that the node has an image that fits on a disk of so many MiB; a URL is only looked at when it is used."""
    if checks.IsUrl(image):
        return
    size = FileSize(lu, node_uuid, image)
    if size > mib * 1024 * 1024:
        raise errors.OpPrereqError(
            f"Image {image} has {size / 1024 / 1024:.1f} MiB, the first disk only {mib} MiB",
            errors.ECODE_INVAL,
        )


def Fill(lu: LogicalUnit, instance: objects.Instance, disk: objects.Disk, image: str) -> None:
    """Fill the disk, which is usable on the primary node; raise OpExecError."""
    result = lu.rpc.call_blockdev_image(instance.primary_node, (disk, instance), image, disk.size)
    if result.fail_msg:
        raise errors.OpExecError(
            f"Could not fill the first disk of instance {instance.name} on node {result.node_name}: {result.fail_msg}",
            hint=f"'gnt-instance reinstall -O {OS_IMAGE}={image} {instance.name}' does it again",
        )
