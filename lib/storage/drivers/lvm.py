"""Logical volumes: template ``plain``, and what lies below a mirror.  Logical id: [volume group, name]."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.storage.base import BlockDev, DeviceStatus
from ganeti.storage.utilities import lvmtools
from ganeti.storage.utilities.lvmtools import LogicalVolume, PhysicalVolume

_KIB = 1024
_STRIPES = "stripes"


class Volume(BlockDev):
    """A logical volume.  It is found whether it is active or not; its path is of use while it is active."""

    ASSEMBLED_ON_SECONDARY = True
    OPENED_ON_SECONDARY = True

    # --- looking ------------------------------------------------------------------------------------------------------

    def Attach(self) -> bool:
        self._SetGone()
        volume = self._Find()
        if volume is None:
            return False
        self._SetFound(self._DevPath(), volume.major, volume.minor)
        return True

    def Status(self) -> DeviceStatus:
        status = super().Status()
        volume = self._Known()
        if volume.virtual or volume.partial:
            return dataclasses.replace(status, ldisk_status=constants.LDS_FAULTY)
        return status

    def Dimensions(self) -> tuple[int, int | None]:
        volume = self._Known()
        return round(volume.size * _KIB), len(volume.pvs)

    # --- life ---------------------------------------------------------------------------------------------------------

    def Create(self, size: int, exclusive: bool = False) -> None:
        group, name = self._Id()
        if self._Find() is not None:
            raise errors.BlockDeviceError(
                f"{self}: exists already on this node; it is left as it is. Look at it with 'lvs {group}/{name}'"
            )
        pvs = self._Room(size)
        most = self.disk.params.get(_STRIPES, 1)
        if exclusive:
            pvs = self._Unshared(size, pvs)
            most = len(pvs)
        else:
            pvs = self._Close(size, pvs)
        # Rather fewer stripes than no volume.
        for stripes in range(min(len(pvs), most), 0, -1):
            try:
                lvmtools.Act(
                    lvmtools.BuildCreate(group, name, size, stripes, [pv.name for pv in pvs]),
                    f"{self}: cannot be created",
                )
                break
            except errors.BlockDeviceError as err:
                if stripes == 1:
                    raise
                logging.warning("%s; trying with fewer stripes than %d", err, stripes)
        self.Attach()

    def Assemble(self) -> None:
        if self._Find() is None:
            raise errors.BlockDeviceError(
                f"{self}: this node has no such logical volume; are all its disks there? 'vgs' shows"
                " it. 'gnt-cluster verify' names the command that makes a lost volume again"
            )
        lvmtools.Act(lvmtools.BuildActivate(self._DevPath()), f"{self}: cannot be activated")
        if not self.Attach():
            raise errors.BlockDeviceError(f"{self}: is gone after its activation")

    def Shutdown(self) -> None:
        """Do nothing: an active volume does no harm and stays active."""

    def Remove(self) -> None:
        group, name = self._Id()
        if self._Find() is not None:
            lvmtools.Act(lvmtools.BuildRemove(group, name), f"{self}: cannot be removed")
        self._SetGone()

    # --- change -------------------------------------------------------------------------------------------------------

    def Rename(self, new_id: Sequence[Any]) -> None:
        group, name = self._Id()
        renamed = type(self)(self.disk.Replace(logical_id=list(new_id)))
        new_group, new_name = renamed._Id()
        if new_group != group:
            raise errors.ProgrammerError(f"{self}: a volume cannot be moved to group {new_group} by a new name")
        if new_name == name:
            return
        if renamed._Find() is not None:
            raise errors.BlockDeviceError(f"{self}: cannot be renamed, {renamed} exists already")
        lvmtools.Act(lvmtools.BuildRename(group, name, new_name), f"{self}: cannot be renamed to {new_name}")
        self.disk = renamed.disk
        self.Attach()

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        self._CheckGrowth(amount)
        if not backing_store:
            return
        volume = self._Known()
        step = volume.extent * volume.stripes
        kib = round(math.ceil(amount * _KIB / step) * step)
        pvs = self._OwnPvs(volume, amount) if exclusive else []
        for policy in lvmtools.ALLOCATION_POLICIES:
            try:
                lvmtools.Act(
                    lvmtools.BuildExtend(self._DevPath(), kib, policy, dry_run, pvs),
                    f"{self}: cannot be grown by {amount} MiB",
                )
                break
            except errors.BlockDeviceError:
                if policy == lvmtools.ALLOCATION_POLICIES[-1]:
                    raise
        self.Attach()

    def Snapshot(self, name: str | None = None, size: int | None = None) -> list[Any]:
        group, own = self._Id()
        target = [group, name or f"{own}.snap"]
        old = type(self)(self.disk.Replace(logical_id=target))
        old.Remove()
        mib = size or math.ceil(self._Known().size / _KIB)
        self._Room(mib)
        lvmtools.Act(lvmtools.BuildSnapshot(self._DevPath(), target[1], mib), f"{self}: no snapshot can be made")
        return target

    def SetInfo(self, text: str) -> None:
        volume = self._Find()
        tag = lvmtools.MakeTag(text)
        if not tag or volume is None or volume.tags == (tag,):
            return
        lvmtools.Act(lvmtools.BuildTags(self._DevPath(), volume.tags, tag), f"{self}: cannot be tagged as {tag}")

    # --- room ---------------------------------------------------------------------------------------------------------

    def _Room(self, size: int) -> list[PhysicalVolume]:
        """Return the physical volumes that may be used, the emptiest first; they have room for ``size`` MiB together."""
        group, _ = self._Id()
        lvmtools.GroupNamed(group)  # fails if the physical volumes of two would be mixed up
        pvs = [pv for pv in lvmtools.PhysicalVolumes() if pv.group == group and pv.allocatable]
        if not pvs:
            raise errors.BlockDeviceError(
                f"{self}: volume group {group} is not on this node, or has no physical volume that may be used;"
                " 'vgs' and 'pvs' show what there is"
            )
        odd = [pv.name for pv in pvs if ":" in pv.name]
        if odd:
            raise errors.BlockDeviceError(f"{self}: a colon in the name of a physical volume is not possible: {odd[0]}")
        free = sum(pv.free for pv in pvs)
        if free < size:
            raise errors.BlockDeviceError(
                f"{self}: volume group {group} has not enough space: {size} MiB wanted, {free:.0f} MiB free;"
                f" 'vgextend {group} DEVICE' on this node adds some"
            )
        return sorted(pvs, key=lambda pv: pv.free, reverse=True)

    def _Close(self, size: int, pvs: list[PhysicalVolume]) -> list[PhysicalVolume]:
        """Return those that hold volumes of the same owner already, if they have room (design 2.0, LVM allocation)."""
        tag = lvmtools.MakeTag(self.note)
        ours = {pv for lv in lvmtools.Volumes().values() if tag and tag in lv.tags for pv in lv.pvs}
        near = [pv for pv in pvs if pv.name in ours]
        stripes = self.disk.params.get(_STRIPES, 1)
        return near if sum(pv.free for pv in near) >= size and len(near) >= min(stripes, len(pvs)) else pvs

    def _Unshared(self, size: int, pvs: list[PhysicalVolume]) -> list[PhysicalVolume]:
        """Return the empty physical volumes that the disk gets for itself: as many as it has spindles."""
        needed = lvmtools.PvsNeeded(size, pvs)
        spindles = self.disk.spindles
        if spindles is None:
            raise errors.BlockDeviceError(f"{self}: exclusive storage needs to know the number of spindles")
        if spindles < needed:
            raise errors.BlockDeviceError(
                f"{self}: {size} MiB need {needed} physical volumes, {spindles} spindles were asked for; ask for more spindles"
                " or a smaller disk"
            )
        empty = [pv for pv in pvs if not pv.volumes]
        if len(empty) < spindles:
            raise errors.BlockDeviceError(
                f"{self}: {spindles} empty physical volumes are needed, this node has {len(empty)}; 'vgextend"
                f" {pvs[0].group} DEVICE' on this node adds one"
            )
        return empty[:spindles]

    def _OwnPvs(self, volume: LogicalVolume, amount: int) -> list[str]:
        """Return the volume's physical volumes, which have room for ``amount`` MiB more."""
        pvs = [pv for pv in lvmtools.PhysicalVolumes() if pv.name in volume.pvs]
        standard = lvmtools.StandardSize(pv for pv in lvmtools.PhysicalVolumes() if pv.group == volume.group)
        free = sum(max(0.0, pv.free - (pv.size - standard)) for pv in pvs)
        if free < amount:
            raise errors.BlockDeviceError(
                f"{self}: its physical volumes have room for {free:.0f} MiB more, {amount} MiB were asked for; with exclusive"
                " storage a disk does not grow onto others: add a disk with 'gnt-instance modify --disk add INSTANCE'"
            )
        return [pv.name for pv in pvs]

    # --- identity -----------------------------------------------------------------------------------------------------

    def _Id(self) -> tuple[str, str]:
        if len(self.unique_id) != 2 or not all(map(lvmtools.IsName, self.unique_id)):
            raise errors.BlockDeviceError(f"{self}: is not the name of a volume group and of a logical volume")
        group, name = self.unique_id
        return group, name

    def _DevPath(self) -> str:
        return "/dev/{}/{}".format(*self._Id())

    def _Find(self) -> LogicalVolume | None:
        volume = lvmtools.Volumes().get(self._Id())
        if volume is not None and volume.ambiguous:
            raise errors.BlockDeviceError(
                f"{self}: two volume groups of this node have a volume of this name; {lvmtools.TWICE}"
            )
        return volume

    def _Known(self) -> LogicalVolume:
        volume = self._Find()
        if volume is None:
            raise errors.BlockDeviceError(f"{self}: this node has no such logical volume")
        return volume
