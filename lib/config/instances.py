"""Instances and their disks."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from typing import Any

from ganeti import constants, errors, objects
from ganeti.config.draft import Draft
from ganeti.config.values import Values
from ganeti.params import disk


class Instances(Values):
    """Changes of instances and disks.  Ports, minors and addresses are settled in the same step."""

    def AddInstance(
        self, instance: objects.Instance, ec_id: Any, disks: Sequence[objects.Disk] = (), replace: bool = False
    ) -> objects.Instance:
        """Add an instance, with its new ``disks`` if given; ``replace``: in the place of its reservation.

        Serial 1; what ``ec_id`` reserved of networks is taken.
        """

        def change(draft: Draft) -> objects.Instance:
            for dev in disks:
                self._AddDisk(draft, dev, replace)
            if replace:
                self._CheckReservation(draft.Get("instance", instance.uuid))
                added = draft.PutNew(instance)
            else:
                added = draft.Add(instance)
            self._CommitIps(draft, ec_id)
            return added

        return self.Transact(change)

    @staticmethod
    def _CheckReservation(stored: Any) -> None:
        if not stored.forthcoming:
            raise errors.ConfigurationError(f"{stored.label} is not a reservation and cannot be replaced")

    def RemoveInstance(self, inst_uuid: str) -> None:
        """Take an instance away with the disks that are attached; ports and addresses are free again."""

        def change(draft: Draft) -> None:
            instance: objects.Instance = draft.Remove("instance", inst_uuid)
            for uuid in instance.disks:
                draft.Remove("disk", uuid)
            self._ReleaseNicIps(draft, instance.nics)
            draft.BumpCluster()

        self.Transact(change)

    def RenameInstance(self, inst_uuid: str, new_name: str) -> objects.Instance:
        """Give a new name; the paths of its files follow.  The serial number stays, the cluster's grows."""

        def change(draft: Draft) -> objects.Instance:
            instance: objects.Instance = draft.Get("instance", inst_uuid)
            old_name = instance.name
            renamed = instance.Replace(name=new_name)
            draft.Put(renamed)
            for dev in draft.root.InstanceDisks(renamed):
                if disk.Of(dev).name_in_path:
                    draft.Put(_InDirectoryOf(dev, old_name, new_name))
            draft.BumpCluster()
            return renamed

        return self.Transact(change)

    # --- state --------------------------------------------------------------------------------------------------------

    def _SetStatus(
        self, inst_uuid: str, state: str | None, disks_active: bool | None, source: str | None
    ) -> objects.Instance:
        """Set what is not None; only a real change counts."""

        def change(draft: Draft) -> objects.Instance:
            instance: objects.Instance = draft.Get("instance", inst_uuid)
            wanted: dict[str, Any] = {
                "admin_state": state,
                "disks_active": disks_active,
                "admin_state_source": source,
            }
            changed = instance.Replace(**{name: value for name, value in wanted.items() if value is not None})
            return instance if changed == instance else draft.Touch(changed)

        return self.Transact(change)

    def MarkInstanceUp(self, inst_uuid: str) -> objects.Instance:
        """Record that it should run, with its disks."""
        return self._SetStatus(inst_uuid, constants.ADMINST_UP, True, constants.ADMIN_SOURCE)

    def MarkInstanceDown(self, inst_uuid: str) -> objects.Instance:
        """Record that it should not run; the disks stay as they are."""
        return self._SetStatus(inst_uuid, constants.ADMINST_DOWN, None, constants.ADMIN_SOURCE)

    def MarkInstanceUserDown(self, inst_uuid: str) -> objects.Instance:
        """Record that its user has shut it down."""
        return self._SetStatus(inst_uuid, constants.ADMINST_DOWN, None, constants.USER_SOURCE)

    def MarkInstanceOffline(self, inst_uuid: str) -> objects.Instance:
        """Record that it must not be started and its disks are not in use."""
        return self._SetStatus(inst_uuid, constants.ADMINST_OFFLINE, False, constants.ADMIN_SOURCE)

    def MarkInstanceDisksActive(self, inst_uuid: str) -> objects.Instance:
        return self._SetStatus(inst_uuid, None, True, None)

    def MarkInstanceDisksInactive(self, inst_uuid: str) -> objects.Instance:
        return self._SetStatus(inst_uuid, None, False, None)

    def SetInstancePrimaryNode(
        self, inst_uuid: str, node_uuid: str, alone: bool = False, as_recorded: bool = False
    ) -> objects.Instance:
        """Set the primary node after a fail-over or migration; the serial number stays.

        The copies on the new primary node count from now on; ``alone``: they alone (doc/design-drbd.rst).  ``as_recorded``:
        the records stay, as nothing was written since the node was the primary one before.
        """

        def change(draft: Draft) -> objects.Instance:
            instance: objects.Instance = draft.Get("instance", inst_uuid)
            moved = instance.Replace(primary_node=node_uuid)
            if moved != instance:
                draft.Put(moved)
            for dev in () if as_recorded else draft.root.InstanceDisks(moved):
                other = disk.OtherSide(dev, node_uuid)
                if other is not None and (alone or (dev.behind is not None and dev.behind["node"] == node_uuid)):
                    _PutBehind(draft, dev, other)
            return moved

        return self.Transact(change)

    # --- disks --------------------------------------------------------------------------------------------------------

    def _AddDisk(self, draft: Draft, dev: objects.Disk, replace: bool) -> objects.Disk:
        if replace and dev.uuid in draft.root.disks:
            owner = draft.root.DiskOwner(dev.uuid)
            # While a reservation is committed, its disks are being made.
            if owner is None or not draft.root.instances[owner].forthcoming:
                self._CheckReservation(draft.root.disks[dev.uuid])
            added = draft.PutNew(dev)
        else:
            added = draft.Add(dev)
        draft.BumpTop()
        draft.OnPublish(lambda: self.ReleaseDRBDMinors(dev.uuid))
        return added

    def AddDisk(self, dev: objects.Disk, replace: bool = False) -> objects.Disk:
        """Add a disk that belongs to no instance (yet), or (``replace``) put it in the place of its reservation."""
        return self.Transact(lambda draft: self._AddDisk(draft, dev, replace))

    def AddInstanceDisk(
        self, inst_uuid: str, dev: objects.Disk, index: int = -1, replace: bool = False
    ) -> objects.Instance:
        """Add a disk and attach it to an instance before its disk ``index``; -1: at the end."""

        def change(draft: Draft) -> objects.Instance:
            self._AddDisk(draft, dev, replace)
            return _Attach(draft, inst_uuid, dev.uuid, index)

        return self.Transact(change)

    def AttachInstanceDisk(
        self, inst_uuid: str, disk_uuid: str, index: int = -1, logical_id: Sequence[Any] | None = None
    ) -> objects.Instance:
        """Attach a disk that belongs to nobody; with ``logical_id`` it has this one from then on."""

        def change(draft: Draft) -> objects.Instance:
            if logical_id is not None:
                draft.Put(draft.Get("disk", disk_uuid).Replace(logical_id=logical_id))
            return _Attach(draft, inst_uuid, disk_uuid, index)

        return self.Transact(change)

    def DetachInstanceDisk(
        self, inst_uuid: str, disk_uuid: str, logical_id: Sequence[Any] | None = None
    ) -> objects.Instance:
        """Detach a disk, which stays in the configuration; with ``logical_id`` it has this one from then on."""

        def change(draft: Draft) -> objects.Instance:
            if logical_id is not None:
                draft.Put(draft.Get("disk", disk_uuid).Replace(logical_id=logical_id))
            return _Detach(draft, inst_uuid, disk_uuid)

        return self.Transact(change)

    def RemoveInstanceDisk(self, inst_uuid: str, disk_uuid: str) -> objects.Instance:
        """Detach a disk and takes it away."""

        def change(draft: Draft) -> objects.Instance:
            instance = _Detach(draft, inst_uuid, disk_uuid)
            draft.Remove("disk", disk_uuid)
            draft.BumpCluster()
            return instance

        return self.Transact(change)

    def ReplaceInstanceDisks(self, inst_uuid: str, disks: Sequence[objects.Disk]) -> objects.Instance:
        """Replace all disks of an instance by new ones: another template, in one step."""

        def change(draft: Draft) -> objects.Instance:
            instance: objects.Instance = draft.Get("instance", inst_uuid)
            for uuid in instance.disks:
                draft.Remove("disk", uuid)
            for dev in disks:
                self._AddDisk(draft, dev, False)
            draft.BumpCluster()
            return draft.Touch(instance.Replace(disks=[dev.uuid for dev in disks]))

        return self.Transact(change)

    def RemoveDisk(self, disk_uuid: str) -> None:
        """Take away a disk that belongs to nobody."""

        def change(draft: Draft) -> None:
            draft.Remove("disk", disk_uuid)
            draft.BumpCluster()

        self.Transact(change)

    def SetDisksBehind(self, disk_uuids: Iterable[str], node_uuid: str | None) -> list[objects.Disk]:
        """Record that the sides of mirrors on a node do not count from now on; None: all sides count again.

        A record that says so already keeps its time.
        """

        def change(draft: Draft) -> list[objects.Disk]:
            return [_PutBehind(draft, draft.Get("disk", uuid), node_uuid) for uuid in disk_uuids]

        return self.Transact(change)

    def RenewDisksBehind(self, disk_uuids: Iterable[str]) -> list[objects.Disk]:
        """Record anew what is recorded: calls that carry the record as it was come late from now on."""

        def change(draft: Draft) -> list[objects.Disk]:
            disks = [draft.Get("disk", uuid) for uuid in disk_uuids]
            return [draft.Touch(dev.Decide(dev.behind)) for dev in disks]

        return self.Transact(change)


def _PutBehind(draft: Draft, dev: objects.Disk, node_uuid: str | None) -> objects.Disk:
    if (dev.behind["node"] if dev.behind is not None else None) == node_uuid:
        return dev
    record = None if node_uuid is None else {"node": node_uuid, "since": draft.now}
    return draft.Touch(dev.Decide(record))


def _InDirectoryOf(dev: objects.Disk, old_name: str, new_name: str) -> objects.Disk:
    """Turn ``DIR/old/file`` into ``DIR/new/file``; a path of another shape stays."""
    folder, name = posixpath.split(disk.Of(dev).Place(dev))
    parent, owner = posixpath.split(folder)
    return dev if owner != old_name else disk.Of(dev).At(dev, posixpath.join(parent, new_name, name))


def _Attach(draft: Draft, inst_uuid: str, disk_uuid: str, index: int) -> objects.Instance:
    instance: objects.Instance = draft.Get("instance", inst_uuid)
    draft.Get("disk", disk_uuid)
    disks = list(instance.disks)
    if not -1 <= index <= len(disks):
        raise errors.ConfigurationError(
            f"{instance.label}: a disk cannot be inserted at {index}: it has {len(disks)} disks"
        )
    disks.insert(len(disks) if index == -1 else index, disk_uuid)
    return draft.Touch(instance.Replace(disks=disks))


def _Detach(draft: Draft, inst_uuid: str, disk_uuid: str) -> objects.Instance:
    instance: objects.Instance = draft.Get("instance", inst_uuid)
    if disk_uuid not in instance.disks:
        raise errors.ConfigurationError(f"{instance.label} has no disk {disk_uuid}")
    return draft.Touch(instance.Replace(disks=[uuid for uuid in instance.disks if uuid != disk_uuid]))
