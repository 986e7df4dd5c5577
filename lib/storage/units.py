"""Storage units: what a node keeps disks in (doc/reference/noderpc.md 3.6, 3.7; design 2.1, storage space reporting).

``GetUnits(type)`` gives the object for a type.  Sizes are MiB.  Every failure is ``errors.StorageError``; its text names
the unit, what happened and what to do.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from ganeti import constants, errors, runtime
from ganeti.params.units import ALLOCATABLE, FREE, MISSING, NAME, RETURNED, SIZE, USED, Of
from ganeti.storage.drivers import gluster
from ganeti.storage.utilities import lvmtools

_MIB = 1024 * 1024

# Free, and in all.
Space = tuple[int, int]
Row = Mapping[str, Any]


class Units:
    """All units of one type on this node."""

    type: str

    def Rows(self, arguments: Sequence[Any]) -> list[Row]:
        """Return every unit with all FIELDS; ``arguments`` as the master gives them for the type."""
        raise NotImplementedError

    def More(self, rows: Sequence[Row], fields: Collection[str]) -> list[Row]:
        """Return the rows with those of the ``fields`` that are not among FIELDS."""
        del fields
        return list(rows)

    def Space(self, name: str, exclusive: bool) -> Space:
        """Return (free, in all) of a unit; ``exclusive``: the node has exclusive storage on."""
        raise NotImplementedError

    def Modify(self, name: str, changes: Mapping[str, Any]) -> None:
        self._Unsupported(f"changing {name}")

    def Repair(self, name: str) -> None:
        """Give up what is lost for good, so that the rest can be used again."""
        self._Unsupported(f"repairing {name}")

    def _Unsupported(self, what: str) -> NoReturn:
        raise errors.StorageError(f"Storage units of type {self.type}: {what} is not possible")


class PhysicalVolumes(Units):
    type = constants.ST_LVM_PV

    def Rows(self, arguments: Sequence[Any]) -> list[Row]:
        del arguments
        return [
            {NAME: pv.name, SIZE: pv.size, FREE: pv.free, USED: pv.size - pv.free, ALLOCATABLE: pv.allocatable}
            for pv in lvmtools.EachPhysicalVolume()
        ]

    def Space(self, name: str, exclusive: bool) -> Space:
        """Return spindles: the physical volumes of group ``name`` that are empty, and all of them."""
        if not exclusive:
            return 0, 0
        pvs = [pv for pv in lvmtools.PhysicalVolumes() if pv.group == name]
        return sum(not pv.volumes for pv in pvs), len(pvs)

    def Modify(self, name: str, changes: Mapping[str, Any]) -> None:
        unknown = sorted(set(changes) - {ALLOCATABLE})
        if unknown:
            raise errors.StorageError(f"Physical volume {name}: {', '.join(unknown)} cannot be changed")
        if name not in {pv.name for pv in lvmtools.PhysicalVolumes()}:
            raise errors.StorageError(f"Physical volume {name} is not on this node; 'pvs' shows those that are")
        if ALLOCATABLE in changes:
            lvmtools.Act(
                lvmtools.BuildAllocatable(name, bool(changes[ALLOCATABLE])),
                f"Physical volume {name} cannot be changed",
            )


class VolumeGroups(Units):
    type = constants.ST_LVM_VG

    def Rows(self, arguments: Sequence[Any]) -> list[Row]:
        del arguments
        return [
            {NAME: vg.name, SIZE: vg.size, FREE: vg.free, USED: vg.size - vg.free, ALLOCATABLE: True}
            for vg in lvmtools.Groups().values()
        ]

    def More(self, rows: Sequence[Row], fields: Collection[str]) -> list[Row]:
        if not {MISSING, RETURNED}.intersection(fields):
            return list(rows)
        away = lvmtools.Away()
        found = [away.get(row[NAME], lvmtools.MissingVolumes()) for row in rows]
        return [
            {**row, MISSING: list(missing.uuids), RETURNED: list(missing.returned)}
            for row, missing in zip(rows, found, strict=True)
        ]

    def Space(self, name: str, exclusive: bool) -> Space:
        group = self._Group(name)
        if not exclusive:
            return round(group.free), round(group.size)
        pvs = [pv for pv in lvmtools.PhysicalVolumes() if pv.group == name]
        standard = lvmtools.StandardSize(pvs)
        return int(standard * sum(not pv.volumes for pv in pvs)), int(standard * len(pvs))

    def Repair(self, name: str) -> None:
        """Take missing physical volumes out of the group, and what was on them if it must be."""
        if self._Group(name).partial:
            back = lvmtools.Away().get(name, lvmtools.MissingVolumes()).returned
            if back:
                raise errors.StorageError(
                    f"Volume group {name} is left as it is: {', '.join(back)} is there again but counts as missing, so its volumes"
                    f" would be lost; 'vgextend --restoremissing {name} {shlex.join(back)}' takes it back. To give it up, detach it"
                )
            try:
                lvmtools.Act(lvmtools.BuildRepair(name, force=False), f"Volume group {name} cannot be repaired")
            except errors.BlockDeviceError:
                lvmtools.Act(lvmtools.BuildRepair(name, force=True), f"Volume group {name} cannot be repaired")
        if self._Group(name).partial:
            raise errors.StorageError(
                f"Physical volumes of volume group {name} are still missing after its repair; 'pvs' shows them"
            )

    def _Group(self, name: str) -> lvmtools.Group:
        group = lvmtools.GroupNamed(name)
        if group is None:
            raise errors.StorageError(f"Volume group {name} is not on this node; 'vgs' shows those that are")
        return group


class Directories(Units):
    """File systems, named by the directories in them that hold disks."""

    def __init__(self, kind: str):
        self.type = kind

    def Rows(self, arguments: Sequence[Any]) -> list[Row]:
        return [self._Row(posixpath.normpath(path)) for path in (arguments[0] if arguments else [])]

    def _Row(self, path: str) -> Row:
        try:
            size, free = runtime.DiskSize(path), runtime.DiskFree(path)
        except OSError as err:
            raise errors.StorageError(f"Directory {path}: cannot be looked at: {err.strerror}") from err
        return {NAME: path, SIZE: size / _MIB, FREE: free / _MIB, USED: (size - free) / _MIB, ALLOCATABLE: True}

    def Space(self, name: str, exclusive: bool) -> Space:
        del exclusive
        row = self._Row(name)
        return int(row[FREE]), int(row[SIZE])


class GlusterMounts(Directories):
    """Gluster volumes, named by the directories where this node mounts them."""

    def __init__(self) -> None:
        super().__init__(constants.ST_GLUSTER)

    def _Row(self, path: str) -> Row:
        """Return the space of a volume that is mounted; below it lies the node's own file system."""
        if gluster.MountedAt(path) is None:
            raise errors.StorageError(
                f"Directory {path}: no Gluster volume is mounted there; it is mounted when a disk on it is activated"
            )
        return super()._Row(path)


UNITS: dict[str, Units] = {
    units.type: units
    for units in (
        PhysicalVolumes(),
        VolumeGroups(),
        Directories(constants.ST_FILE),
        Directories(constants.ST_SHARED_FILE),
        GlusterMounts(),
    )
}


def GetUnits(kind: str) -> Units:
    """Return the units of a type."""
    if kind not in UNITS:
        raise errors.StorageError(f"Storage type '{kind}' has no units; those that have: {', '.join(UNITS)}")
    return UNITS[kind]


def List(kind: str, arguments: Sequence[Any], name: str | None, fields: Collection[str]) -> list[list[Any]]:
    """Return the given fields of the units of a type, or of one of them."""
    units = GetUnits(kind)
    known = Of(kind).fields
    unknown = [field for field in fields if field not in known]
    if unknown:
        raise errors.StorageError(
            f"Storage units of type {kind} have no field '{unknown[0]}'; fields are: {', '.join(known)}"
        )
    rows = units.More(units.Rows(arguments), fields)
    return [[row[field] for field in fields] for row in rows if name is None or row[NAME] == name]
