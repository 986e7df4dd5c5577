"""Changing the disks of an instance, one after the other (doc/reference/drivers.md d.4)."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, objects
from ganeti.cmdlib.base import LogicalUnit
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk.devices import (
    CreateDisks,
    DiskNodes,
    RemoveDevice,
    RemoveEmptied,
    ShutdownDisks,
    WaitForSync,
    WipeOrUndo,
)
from ganeti.cmdlib.instance.changes import ADD, ATTACH, DETACH, MODIFY, REMOVE, Change
from ganeti.cmdlib.instance.modify_nics import HOT_ADD, HOT_REMOVE
from ganeti.params import disk as disk_params

_PLAIN_KEYS = frozenset(["mode", "name"])
_IDENTIFIERS = ("name", "uuid")

Entry = tuple[str, Any]


class DiskChanges:
    """Checks all changes, then carries them out in their order; each is stored on its own.

    ``hot(action, device, index, extra)`` changes a running guest and returns entries about it; it is None
    when no guest runs.  ``template`` is that of all disks; the first ones of a diskless instance get the opcode's.
    """

    def __init__(self, lu: LogicalUnit, instance: objects.Instance, changes: list[Change]):
        self._lu = lu
        self._uuid = instance.uuid
        self.template: str = lu.snapshot.DiskTemplate(instance)
        if self.template in disk_params.With(has_disks=False) and lu.op.disk_template is not None:
            self.template = lu.op.disk_template
        self._changes = changes
        self._requests: dict[int, diskgen.DiskRequest] = {}

    @property
    def _instance(self) -> objects.Instance:
        return self._lu.snapshot.instances[self._uuid]

    @property
    def _disks(self) -> list[objects.Disk]:
        return list(self._lu.snapshot.InstanceDisks(self._instance))

    # --- can it be done -----------------------------------------------------------------------------------------------

    def Check(self, running: bool, hot: bool) -> list[objects.Disk | diskgen.DiskRequest]:
        """Return the disks as they will be; raise OpPrereqError."""
        planned: list[Any] = self._disks
        for number, change in enumerate(self._changes):
            if change.operation == ADD:
                self._CheckAdd(number, change, planned)
            elif change.operation == ATTACH:
                self._CheckAttach(change, planned)
            elif change.operation == MODIFY:
                _, disk = diskgen.FindDevice(change.where, planned, "disk", self._instance.name)
                self._CheckModify(change, disk)
            else:
                index, _ = diskgen.FindDevice(change.where, planned, "disk", self._instance.name)
                if running and not hot:
                    raise errors.OpPrereqError(
                        f"Cannot {change.operation} a disk of a running instance without hotplugging",
                        errors.ECODE_INVAL,
                        hint="stop the instance first",
                    )
                del planned[index]
        self._CheckResult(planned)
        return planned

    def _CheckAdd(self, number: int, change: Change, planned: list[Any]) -> None:
        if self.template in disk_params.With(has_disks=False):
            name = self._instance.name
            raise errors.OpPrereqError(
                f"Disk operations not supported for diskless instance {name} without a disk template",
                errors.ECODE_INVAL,
                hint=f"name the kind of storage: 'gnt-instance modify -t TEMPLATE --disk add:size=SIZE {name}'",
            )
        index = change.InsertIndex(len(planned), "disk")
        request = diskgen.ParseDisk(change.values, index, self.template)
        if request.adopt:
            raise errors.OpPrereqError("Disks of an existing instance cannot be adopted", errors.ECODE_INVAL)
        self._requests[number] = request
        planned.insert(index, request)

    def _CheckAttach(self, change: Change, planned: list[Any]) -> None:
        index = change.InsertIndex(len(planned), "disk")
        disk = self._FindDetached(change)
        snapshot, instance = self._lu.snapshot, self._instance
        if planned and disk.dev_type != self.template:
            raise errors.OpPrereqError(
                f"Disk {disk.uuid} has template {disk.dev_type}, the instance {self.template}", errors.ECODE_INVAL
            )
        foreign = set(disk.nodes) - set(snapshot.AllNodes(instance))
        if foreign or (disk.nodes and instance.primary_node not in disk.nodes):
            raise errors.OpPrereqError(
                f"Disk {disk.uuid} lies on other nodes than instance {instance.name}", errors.ECODE_INVAL
            )
        planned.insert(index, disk)

    def _FindDetached(self, change: Change) -> objects.Disk:
        given = [key for key in _IDENTIFIERS if key in change.values]
        if len(given) != 1 or len(change.values) != 1:
            raise errors.OpPrereqError(
                "Attaching a disk takes exactly one of its name and its uuid", errors.ECODE_INVAL
            )
        wanted = change.values[given[0]]
        snapshot = self._lu.snapshot
        found = [disk for disk in snapshot.disks.values() if getattr(disk, given[0]) == wanted]
        if len(found) != 1:
            raise errors.OpPrereqError(f"No disk has the {given[0]} '{wanted}'", errors.ECODE_NOENT)
        owner = snapshot.DiskOwner(found[0].uuid)
        if owner is not None:
            raise errors.OpPrereqError(
                f"Disk {wanted} is attached to instance {snapshot.instances[owner].name} already", errors.ECODE_INVAL
            )
        return found[0]

    def _CheckModify(self, change: Change, disk: Any) -> None:
        if isinstance(disk, diskgen.DiskRequest):
            raise errors.OpPrereqError("A disk cannot be added and modified in one request", errors.ECODE_INVAL)
        if "size" in change.values:
            raise errors.OpPrereqError(
                "Disk size change not possible, use grow-disk",
                errors.ECODE_INVAL,
                hint=f"'gnt-instance grow-disk {self._instance.name} DISK AMOUNT'",
            )
        allowed_others = disk_params.TEMPLATES[self.template].provider
        others = sorted(set(change.values) - _PLAIN_KEYS)
        if others and (not allowed_others or "provider" in others):
            raise errors.OpPrereqError(
                f"Only mode and name of a disk can be changed, not {', '.join(others)}", errors.ECODE_INVAL
            )
        # Whatever is stored already can be taken away.
        kept = {key: change.values[key] for key in others if change.values[key] != constants.VALUE_DEFAULT}
        diskgen.CheckProviderParams(kept, f"disk {change.where}")

    def _CheckResult(self, planned: Sequence[Any]) -> None:
        if len(planned) > constants.MAX_DISKS:
            raise errors.OpPrereqError(
                f"Instance has too many disks ({len(planned)}), cannot have more than {constants.MAX_DISKS}",
                errors.ECODE_STATE,
            )
        diskgen.CheckDeviceNames([disk.name for disk in planned], [disk.uuid for disk in planned if disk.uuid], "disk")
        added = list(self._requests.values())
        if not added:
            return
        nodes = self._lu.snapshot.AllNodes(self._instance)
        snapshot = self._lu.snapshot
        if not diskgen.CheckSpindles(snapshot, nodes, self.template, added):
            diskgen.CheckFreeSpace(self._lu, nodes, diskgen.SpaceNeeded(snapshot, self.template, added))

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Apply(self, hot: Any) -> list[Entry]:
        entries: list[Entry] = []
        for number, change in enumerate(self._changes):
            if change.operation == ADD:
                entries += self._Add(change, self._requests[number], hot)
            elif change.operation == ATTACH:
                entries += self._Attach(change, hot)
            elif change.operation == MODIFY:
                entries += self._Modify(change)
            else:
                entries += self._TakeAway(change, hot)
        return entries

    def _Add(self, change: Change, request: diskgen.DiskRequest, hot: Any) -> list[Entry]:
        instance, lu = self._instance, self._lu
        index = change.InsertIndex(len(instance.disks), "disk")
        secondaries = lu.snapshot.SecondaryNodes(instance)
        plan = diskgen.PlanDisks(
            lu.snapshot,
            self.template,
            instance.uuid,
            instance.primary_node,
            secondary=secondaries[0] if secondaries else None,
            directory=self._Directory(),
            driver=self._Driver(),
        )
        (disk,) = diskgen.GenerateDisks(lu, plan, [request], index)
        made = CreateDisks(lu, instance, [disk], self.template)
        if lu.snapshot.cluster.prealloc_wipe_disks:
            WipeOrUndo(lu, instance, [(disk, 0)], made)
        instance = lu.cfg.AddInstanceDisk(instance.uuid, disk, index)
        entries: list[Entry] = [(f"disk/{index}", f"add:size={disk.size},mode={disk.mode}")]
        disk = lu.snapshot.disks[disk.uuid]
        return entries + self._BringUp(disk, index, hot)

    def _BringUp(self, disk: objects.Disk, index: int, hot: Any) -> list[Entry]:
        """Set a new disk up and plug it into the guest; take it down again if the others are down."""
        instance, lu = self._instance, self._lu
        entries: list[Entry] = []
        result = self._Assemble(disk, index)
        if result is not None and hot is not None:
            entries = hot(HOT_ADD, disk, index, result)
        try:
            if lu.op.wait_for_sync and not WaitForSync(lu, instance, [disk]):
                lu.LogWarning(f"Disk {disk.iv_name} is degraded")
        finally:
            if not instance.disks_active:
                ShutdownDisks(lu, instance, [disk])
        return entries

    def _Assemble(self, disk: objects.Disk, index: int) -> list[Any] | None:
        """Return [link, URI] of the disk on the primary node, None if it cannot be set up."""
        instance, lu = self._instance, self._lu
        found = None
        for as_primary in (False, True):
            for node_uuid in DiskNodes(lu, instance, disk):
                if as_primary and node_uuid != instance.primary_node:
                    continue
                result = lu.rpc.call_blockdev_assemble(node_uuid, (disk, instance), instance, as_primary, index)
                if result.Warn(f"Could not set up disk {disk.iv_name} on node {result.node_name}", lu.LogWarning):
                    continue
                if as_primary:
                    found = list(result.payload[1:]) if isinstance(result.payload, list) else []
        return found

    def _Directory(self) -> str | None:
        for disk in self._disks:
            if directory := disk_params.Of(disk).Directory(disk):
                return directory
        below = self._lu.op.file_storage_dir
        return diskgen.FileDirectory(self._lu.snapshot, self.template, below, self._instance.name)

    def _Driver(self) -> str:
        for disk in self._disks:
            if disk_params.Of(disk).file_based:
                return disk_params.Of(disk).Source(disk)
        return str(self._lu.op.file_driver or constants.FD_LOOP)

    def _Attach(self, change: Change, hot: Any) -> list[Entry]:
        disk = self._FindDetached(change)
        index = change.InsertIndex(len(self._instance.disks), "disk")
        new_id = self._MoveFile(disk, inside=True)
        self._lu.cfg.AttachInstanceDisk(self._uuid, disk.uuid, index, new_id)
        disk = self._lu.snapshot.disks[disk.uuid]
        entries: list[Entry] = [(f"disk/{index}", f"attach:size={disk.size},mode={disk.mode}")]
        return entries + self._BringUp(disk, index, hot)

    def _TakeAway(self, change: Change, hot: Any) -> list[Entry]:
        """Remove or detach a disk."""
        lu, instance = self._lu, self._instance
        index, disk = diskgen.FindDevice(change.where, self._disks, "disk", self._instance.name)
        hot_entries: list[Entry] = [] if hot is None else hot(HOT_REMOVE, disk, index, None)
        ShutdownDisks(lu, instance, [disk])
        if change.operation == DETACH:
            new_id = self._MoveFile(disk, inside=False)
            lu.cfg.DetachInstanceDisk(self._uuid, disk.uuid, new_id)
            RemoveEmptied(lu, instance, disk)
            lu.LogInfo(
                f"disk/{index} is detached: 'gnt-instance modify --disk attach:uuid={disk.uuid} {instance.name}' attaches it again"
            )
            return [(f"disk/{index}", "detach"), *hot_entries]
        for node_uuid in DiskNodes(lu, instance, disk):
            result = RemoveDevice(lu, node_uuid, instance, disk)
            result.Warn(f"Could not remove disk/{index} on node {result.node_name}, continuing anyway", lu.LogWarning)
        lu.cfg.RemoveInstanceDisk(self._uuid, disk.uuid)
        RemoveEmptied(lu, instance, disk)
        return [(f"disk/{index}", REMOVE), *hot_entries]

    def _MoveFile(self, disk: objects.Disk, inside: bool) -> Sequence[str] | None:
        """Move the file of a disk into the instance's directory, or out of it: that directory goes with the instance.

        Return its new logical id, to be stored in one step with what the move is for: if the job ends before that, it can
        be repeated.
        """
        template = disk_params.Of(disk)
        if not template.name_in_path:
            return None
        lu, instance = self._lu, self._instance
        path = template.Place(disk)
        directory, name = posixpath.split(path)
        if inside:
            target = posixpath.join(directory, instance.name, name)
        else:
            target = posixpath.join(posixpath.dirname(directory), name)
        new_id = template.At(disk, target).logical_id
        result = lu.rpc.call_blockdev_rename(instance.primary_node, [((disk, instance), new_id)])
        result.Raise(f"Could not move the file of disk {disk.uuid} from '{path}' to '{target}'")
        return new_id

    def _Modify(self, change: Change) -> list[Entry]:
        index, disk = diskgen.FindDevice(change.where, self._disks, "disk", self._instance.name)
        entries: list[Entry] = []
        changes: dict[str, Any] = {}
        if "mode" in change.values:
            changes["mode"] = change.values["mode"]
            entries.append((f"disk.mode/{index}", change.values["mode"]))
        if "name" in change.values:
            changes["name"] = diskgen.DeviceName(change.values["name"])
            entries.append((f"disk.name/{index}", changes["name"]))
        own = dict(disk.params)
        for key in sorted(set(change.values) - _PLAIN_KEYS):
            value = change.values[key]
            if value == constants.VALUE_DEFAULT:
                own.pop(key, None)
            else:
                own[key] = value
            entries.append((f"disk.params:{key}/{index}", value))
        self._lu.cfg.Update(disk.Replace(params=own, **changes), self._lu.ec_id)
        return entries
