"""Disks of forthcoming instances: reserved, being made, and what an interrupted commit has left of them.

A reserved disk has ``forthcoming`` set, and nothing of it is on nodes.  Before a commit makes it, it is stored without that
mark and under a name that was never used before: whatever has this name on a node comes from that commit, and may be
removed again, however the commit ended.
"""

from __future__ import annotations

from ganeti import errors, objects
from ganeti.cmdlib.base import LogicalUnit
from ganeti.cmdlib.disk.devices import RemoveDisks
from ganeti.cmdlib.disk.generate import JobReservations
from ganeti.params import disk as disk_params


def MarkDisk(disk: objects.Disk, forthcoming: bool) -> objects.Disk:
    """Return a disk that is only reserved, or no longer is, with its children."""
    return disk.Replace(
        forthcoming=True if forthcoming else None,
        children=tuple(MarkDisk(child, forthcoming) for child in disk.children),
    )


def IsBegun(snapshot: objects.Snapshot, instance: objects.Instance) -> bool:
    """Return whether something of a reservation's disks may be on nodes."""
    return not all(disk.forthcoming for disk in snapshot.InstanceDisks(instance))


def BeginDisks(lu: LogicalUnit, instance: objects.Instance) -> list[objects.Disk]:
    """Store that the disks of a reservation are made from now on; return them.  What an earlier commit left is removed."""
    RemoveLeftovers(lu, instance)
    ids = JobReservations(lu)
    begun = [
        disk_params.Of(disk).Anew(MarkDisk(disk, False), ids.UniqueId()) for disk in lu.snapshot.InstanceDisks(instance)
    ]
    lu.cfg.UpdateMany(begun, lu.ec_id)
    return list(lu.snapshot.InstanceDisks(instance))


def RemoveLeftovers(lu: LogicalUnit, instance: objects.Instance) -> None:
    """Remove what a commit that did not end has left of a reservation; raise OpExecError if some of it cannot be removed."""
    if not PutBack(lu, instance):
        raise errors.OpExecError(
            f"What an earlier commit has left of the disks of instance {instance.name} cannot be removed",
            hint="repair the nodes that the log names, and try again",
        )


def PutBack(lu: LogicalUnit, instance: objects.Instance) -> bool:
    """Remove what was made of a reservation's disks; if nothing is left they are only reserved again.  Return whether so."""
    if not IsBegun(lu.snapshot, instance):
        return True
    if not RemoveDisks(lu, instance):
        return False
    lu.cfg.UpdateMany([MarkDisk(disk, True) for disk in lu.snapshot.InstanceDisks(instance)], lu.ec_id)
    return True
