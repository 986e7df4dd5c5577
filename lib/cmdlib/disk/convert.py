"""Another disk template for an instance that is down (doc/reference/drivers.md a.6)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ganeti import constants, errors, objects
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.common import CheckTarget
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.copies import KeptCopies
from ganeti.cmdlib.disk.devices import (
    AssembleDisks,
    CreateDisks,
    CreateSingle,
    DiskNodes,
    Parts,
    RemoveEmptied,
    ShutdownDisks,
    Undo,
    WaitForSync,
)
from ganeti.cmdlib.instance.base import CheckTargetPolicy
from ganeti.params import disk as disk_params


class Conversion:
    """Turns all disks of an instance into another template.

    ``release()`` of Exec gives back what is not needed once the configuration is right.
    """

    def __init__(self, lu: LogicalUnit, instance: objects.Instance):
        self._lu = lu
        self._uuid = instance.uuid
        self._old = lu.snapshot.DiskTemplate(instance)
        self._new: str = lu.op.disk_template
        self._to = disk_params.TEMPLATES[self._new]
        # The disk becomes the data of a mirror, or the mirror is taken off its data: nothing is copied.
        self._gains_mirror = self._to.mirror_of == self._old
        self._loses_mirror = self._old in disk_params.With(mirror_of=self._new)

    @property
    def _instance(self) -> objects.Instance:
        return self._lu.snapshot.instances[self._uuid]

    def _Name(self, node_uuid: str) -> str:
        return self._lu.snapshot.NodeName(node_uuid)

    @property
    def _disks(self) -> tuple[objects.Disk, ...]:
        return self._lu.snapshot.InstanceDisks(self._instance)

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckTemplates(self) -> None:
        """Check that there is a way from the one template to the other."""
        if self._old == self._new:
            raise errors.OpPrereqError(f"Instance already has disk template {self._new}", errors.ECODE_INVAL)
        diskgen.CheckTemplateEnabled(self._lu.snapshot, self._new)
        old, new = disk_params.TEMPLATES.get(self._old), self._to
        if old is None or not old.convertible_from or not new.convertible_to:
            raise errors.OpPrereqError(
                f"Conversion from {self._old} to {self._new} disk template is not supported", errors.ECODE_INVAL
            )

    def Check(self) -> None:
        lu, snapshot = self._lu, self._lu.snapshot
        self.CheckTemplates()
        if self._to.mirror_of:
            self._CheckSecondary()
        mirrors.CheckCounts(
            snapshot,
            self._instance,
            self._instance.primary_node,
            "cannot be converted",
            f"the other node has newer data: use 'gnt-instance failover {self._instance.name}' first",
        )
        self._requests = self._Requests()
        nodes = [self._instance.primary_node, *([lu.op.remote_node_uuid] if self._to.mirror_of else [])]
        diskgen.CheckSpindles(snapshot, nodes, self._new, self._requests)
        self._CheckSpace(nodes)
        self._directory = diskgen.FileDirectory(snapshot, self._new, lu.op.file_storage_dir, self._instance.name)

    def _CheckSecondary(self) -> None:
        lu, snapshot, instance = self._lu, self._lu.snapshot, self._instance
        node = snapshot.nodes[lu.op.remote_node_uuid]
        if node.uuid == instance.primary_node:
            raise errors.OpPrereqError(
                f"Given new secondary node {node.name} is the same as the primary node of the instance",
                errors.ECODE_STATE,
            )
        CheckTarget(node)
        CheckTargetPolicy(lu, instance, node.uuid, lu.op.ignore_ipolicy)
        if snapshot.nodes[instance.primary_node].group != node.group:
            lu.LogWarning(
                "The primary and secondary nodes are in two different node groups;"
                " the disk parameters of the primary node's group are used"
            )

    def _Requests(self) -> list[diskgen.DiskRequest]:
        ext = self._lu.op.ext_params
        if self._to.provider and not ext.get("provider"):
            raise errors.OpPrereqError(f"Conversion to template {self._new} needs a provider", errors.ECODE_INVAL)
        if ext and not self._to.provider:
            raise errors.OpPrereqError(f"Template {self._new} takes no parameters of a provider", errors.ECODE_INVAL)
        diskgen.CheckProviderParams(ext, "the disks")
        return [
            diskgen.DiskRequest(
                size=disk.size,
                mode=disk.mode,
                name=disk.name,
                vg=disk_params.Of(disk).Source(disk) if disk_params.TEMPLATES[self._old].volume else None,
                provider=ext.get("provider"),
                ext={key: value for key, value in ext.items() if key != "provider"},
            )
            for disk in self._disks
        ]

    def _CheckSpace(self, nodes: Sequence[str]) -> None:
        """Check that there is room; from plain to drbd only the metadata is new on the primary node."""
        needed = diskgen.SpaceNeeded(self._lu.snapshot, self._new, self._requests)
        if self._loses_mirror:
            return
        if self._gains_mirror:
            nodes = nodes[1:]
        diskgen.CheckFreeSpace(self._lu, nodes, needed)

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback, release: Callable[[], None]) -> None:
        self._TakeDown()
        if self._gains_mirror:
            self._GainMirror(feedback, release)
        elif self._loses_mirror:
            self._LoseMirror(feedback, release)
        else:
            self._Copy(feedback, release)

    def _TakeDown(self) -> None:
        if not ShutdownDisks(self._lu, self._instance):
            raise errors.OpExecError(
                f"Can't shut down the disks of instance {self._instance.name}, unable to proceed with disk template conversion;"
                " nothing was changed"
            )

    def _Plan(self) -> diskgen.DiskPlan:
        op = self._lu.op
        return diskgen.PlanDisks(
            self._lu.snapshot,
            self._new,
            self._uuid,
            self._instance.primary_node,
            secondary=op.remote_node_uuid if self._to.mirror_of else None,
            directory=self._directory,
            driver=op.file_driver or constants.FD_LOOP,
        )

    def _Store(self, new_disks: Sequence[objects.Disk]) -> None:
        """Replace the old disk objects by the new ones in one step."""
        self._lu.cfg.ReplaceInstanceDisks(self._uuid, new_disks)

    def _GainMirror(self, feedback: Feedback, release: Callable[[], None]) -> None:
        lu, instance, old_disks = self._lu, self._instance, self._disks
        feedback(f"Converting disk template from '{self._old}' to '{self._new}'")
        new_disks = [
            _OnVolumeOf(old, new)
            for old, new in zip(old_disks, diskgen.GenerateDisks(lu, self._Plan(), self._requests), strict=True)
        ]
        secondary = lu.op.remote_node_uuid
        made: list[tuple[str, objects.Disk]] = []
        try:
            feedback("Creating additional volumes...")
            for disk in new_disks:
                data, meta = Parts(lu, instance, disk)
                for node_uuid, child in ((instance.primary_node, meta), (secondary, data), (secondary, meta)):
                    CreateSingle(lu, node_uuid, instance, child, node_uuid == instance.primary_node, made)
            feedback("Initializing DRBD devices...")
            for disk in new_disks:
                for node_uuid in (instance.primary_node, secondary):
                    CreateSingle(lu, node_uuid, instance, disk, node_uuid == instance.primary_node, made)
        except errors.GenericError:
            feedback("The mirrors could not be made; removing what was made of them...")
            Undo(lu, made, instance)
            raise
        self._Store(new_disks)
        release()
        if not WaitForSync(lu, self._instance, oneshot=not lu.op.wait_for_sync):
            name = self._instance.name
            raise errors.OpExecError(
                f"There are some degraded disks for this instance: its data is on node {self._Name(instance.primary_node)},"
                f" the copy on node {self._Name(secondary)} is not complete",
                hint=f"when node {self._Name(secondary)} answers, use 'gnt-instance activate-disks --wait-for-sync {name}'",
            )

    def _LoseMirror(self, feedback: Feedback, release: Callable[[], None]) -> None:
        lu, instance, old_disks = self._lu, self._instance, self._disks
        feedback(f"Converting disk template from '{self._old}' to '{self._new}'")
        (secondary,) = lu.snapshot.SecondaryNodes(instance)
        # The metadata, which alone says whether the data is complete, goes with the mirror.
        KeptCopies(lu, instance, instance.primary_node, secondary).CheckIdle(False, feedback)
        self._TakeDown()
        new_disks = [
            disk_params.Of(disk)
            .Data(disk)
            .Replace(mode=disk.mode, name=disk.name, iv_name=disk.iv_name, nodes=[instance.primary_node], params={})
            for disk in old_disks
        ]
        self._Store(new_disks)
        release()
        feedback("Removing volumes on the secondary node...")
        for disk in old_disks:
            result = lu.rpc.call_blockdev_remove(secondary, (disk, instance))
            result.Warn(
                f"Could not remove block device {disk.iv_name} on node {result.node_name}, continuing anyway",
                functools.partial(lu.LogWarning, hint=disk_params.Of(disk).Removal(disk, secondary)),
            )
        feedback("Removing unneeded volumes on the primary node...")
        for disk in old_disks:
            # The mirror itself and its metadata; the data volume is the instance's disk now.
            metadata = disk_params.MirrorOf(disk).Metadata(disk)
            left = disk.Replace(children=[metadata])
            result = lu.rpc.call_blockdev_shutdown(instance.primary_node, (disk, instance))
            if not result.fail_msg:
                result = lu.rpc.call_blockdev_remove(instance.primary_node, (metadata, instance))
            result.Warn(
                f"Could not remove metadata for {disk.iv_name} on node {result.node_name}, continuing anyway",
                functools.partial(lu.LogWarning, hint=disk_params.Of(left).Removal(left, instance.primary_node)),
            )

    def _Copy(self, feedback: Feedback, release: Callable[[], None]) -> None:
        """Between all others: new disks are made, filled from the old ones, and take their place."""
        lu, instance, old_disks = self._lu, self._instance, self._disks
        feedback(f"Converting disk template from '{self._old}' to '{self._new}'")
        new_disks = diskgen.GenerateDisks(lu, self._Plan(), self._requests)
        made = CreateDisks(lu, instance, new_disks, self._new)
        try:
            self._Fill(feedback, old_disks, new_disks)
        except errors.GenericError:
            Undo(lu, made, instance)
            RemoveEmptied(lu, instance, new_disks[0])
            raise
        old_nodes = {disk.uuid: DiskNodes(lu, instance, disk) for disk in old_disks}
        self._Store(new_disks)
        release()
        feedback("Removing old block devices...")
        for disk in old_disks:
            for node_uuid in old_nodes[disk.uuid]:
                result = lu.rpc.call_blockdev_remove(node_uuid, (disk, instance))
                result.Warn(
                    f"Failed to remove block device {disk.iv_name} on node {result.node_name}, continuing anyway",
                    functools.partial(lu.LogWarning, hint=disk_params.Of(disk).Removal(disk, node_uuid)),
                )
        RemoveEmptied(lu, instance, old_disks[0])
        ShutdownDisks(lu, self._instance)

    def _Fill(self, feedback: Feedback, old_disks: Sequence[objects.Disk], new_disks: Sequence[objects.Disk]) -> None:
        lu, instance = self._lu, self._instance
        node = instance.primary_node
        for index, (old, new) in enumerate(zip(old_disks, new_disks, strict=True)):
            feedback(f" - copying data (disk {index}), size {old.size} MiB...")
            try:
                # On all its nodes: one side of a mirror does not know whether the other one has newer data.
                if not AssembleDisks(lu, instance, [old]).all_well:
                    raise errors.OpExecError(f"Can't set up disk {index} on its nodes")
                result = lu.rpc.call_blockdev_convert(node, (old, instance), (new, instance))
                result.Raise(f"Could not copy disk {index} on node {result.node_name}")
            finally:
                ShutdownDisks(lu, instance, [old])


def _OnVolumeOf(old: objects.Disk, new: objects.Disk) -> objects.Disk:
    """Return the mirror ``new`` above the volume of ``old``, which keeps its name.

    Were it renamed, a master that dies then would leave data that no disk names, and that looks like a leftover.
    """
    return disk_params.MirrorOf(new).OnVolumeOf(new, old)
