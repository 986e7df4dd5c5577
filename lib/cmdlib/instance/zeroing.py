"""The helper that overwrites free space on an instance's disks with zeros (doc/design-transfers.rst, drivers.md d.11).

The stopped instance is started with one disk more, its first one, on which is the cluster's image (``zeroing_image``).  What is
there fills the file systems of the other disks with zeros and shuts itself down.  The disk is in no configuration: of a job that
is cut off a volume or file is left, which ``gnt-cluster verify`` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, objects, params, runtime
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.common import InstanceInfo
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk.devices import (
    AssembleDisks,
    CreateDisks,
    ExclusiveStorage,
    RemovalByHand,
    RemoveEmptied,
    ShutdownDisks,
    Undo,
)
from ganeti.cmdlib.instance.image import FileSize
from ganeti.cmdlib.instance.room import CheckRoom, LimitStart, MakeRoom
from ganeti.master import imagesize
from ganeti.params import checks, hv
from ganeti.params import disk as disk_params

# Seconds that the helper has to start, and between two looks whether it has, or has ended.
_START_SECONDS, _START_PAUSE = 300.0, 5.0
_END_PAUSE = 20.0
_REPORT_SECONDS = 60.0
_NAME = "helper"


def CheckZeroing(lu: LogicalUnit[Any], instance: objects.Instance) -> None:
    """Raise OpPrereqError unless the free space of an instance's disks can be zeroed; it may still run."""
    snapshot, name, node = lu.snapshot, instance.name, instance.primary_node
    if not snapshot.cluster.zeroing_image:
        raise errors.OpPrereqError(
            "Free space cannot be zeroed: the cluster has no image of the helper that does it",
            errors.ECODE_STATE,
            hint="'gnt-cluster modify --zeroing-image=FILE-OR-URL' sets one",
        )
    if not 0 < len(instance.disks) < constants.MAX_DISKS:
        raise errors.OpPrereqError(
            f"Free space of instance {name} cannot be zeroed: it has {len(instance.disks)} disks; 1 to"
            f" {constants.MAX_DISKS - 1} are supported, as the helper adds one",
            errors.ECODE_STATE,
        )
    if hv.TRAITS[instance.hypervisor].boot_disk is None:
        able = ", ".join(sorted(one for one, traits in hv.TRAITS.items() if traits.boot_disk is not None))
        raise errors.OpPrereqError(
            f"Free space of instance {name} cannot be zeroed: hypervisor {instance.hypervisor} cannot boot the helper from a"
            f" disk; {able} can",
            errors.ECODE_STATE,
        )
    template = disk_params.TEMPLATES[_Template(snapshot)]
    unit = snapshot.cluster.volume_group_name if template.volume else snapshot.cluster.file_storage_dir
    diskgen.CheckFreeSpace(lu, [node], {str(unit): _Request(lu, node).size}, template.storage_type)
    # What a running guest has is free when it has been stopped.
    if InstanceInfo(lu, instance).get("state") != constants.INST_RUNNING:
        CheckRoom(lu, *_Memory(lu, instance), but=instance.uuid)


def ZeroFreeSpace(
    lu: LogicalUnit[Any],
    feedback: Feedback,
    instance: objects.Instance,
    timeout_fixed: int | None,
    timeout_per_mib: float | None,
) -> None:
    """Zero the free space of a stopped instance's disks; raise OpExecError.

    The helper has ``timeout_fixed`` seconds, and ``timeout_per_mib`` more for each MiB; None: a default.  When this returns it has
    ended, and the disks are active if they were before.  Locks: the instance exclusively, and its primary node's resources.
    """
    fixed = constants.ZEROING_SECONDS if timeout_fixed is None else timeout_fixed
    per_mib = constants.ZEROING_SECONDS_PER_MIB if timeout_per_mib is None else timeout_per_mib
    size = sum(disk.size for disk in lu.snapshot.InstanceDisks(instance))
    _Helper(lu, feedback, instance).Run(max(0.0, fixed + per_mib * size))


def _Template(snapshot: objects.Snapshot) -> str:
    """Return the template of the helper's disk, which its node alone has: a volume if there can be one, or else a file."""
    alone = [disk_params.TEMPLATES[name] for name in disk_params.With(copyable=True)]
    for template in sorted(alone, key=lambda template: not template.volume):
        place = "volume_group_name" if template.volume else str(template.directory)
        if getattr(snapshot.cluster, place, None):
            return template.name
    raise errors.OpPrereqError(
        "Free space cannot be zeroed: the cluster has neither a volume group nor a directory for the disk of the helper that does it",
        errors.ECODE_STATE,
        hint="'gnt-cluster modify --vg-name=VG' or 'gnt-cluster modify --file-storage-dir=DIRECTORY' sets one",
    )


def _Request(lu: LogicalUnit[Any], node_uuid: str) -> diskgen.DiskRequest:
    """Return what the helper's disk must be like to hold the image as it is now."""
    size = _ImageSize(lu, node_uuid, lu.snapshot.cluster.zeroing_image)
    mib = max(1, -(-size // (1024 * 1024)))
    return diskgen.DiskRequest(size=mib, spindles=1 if ExclusiveStorage(lu, node_uuid) else None)


def _ImageSize(lu: LogicalUnit[Any], node_uuid: str, image: str) -> int:
    """Return the bytes of an image, a file of the node or a URL; raise OpPrereqError if nobody can say."""
    if not checks.IsUrl(image):
        return FileSize(lu, node_uuid, image)
    size, problem = imagesize.OfUrl(image)
    if size is None:
        raise errors.OpPrereqError(
            f"The size of image {image}, for which a disk must be made, is not known: {problem}",
            errors.ECODE_ENVIRON,
            hint="copy it to a file on the master, then 'gnt-cluster copyfile FILE' and 'gnt-cluster modify --zeroing-image=FILE'",
        )
    return size


def _Memory(lu: LogicalUnit[Any], instance: objects.Instance) -> tuple[str, str, int, str]:
    """Return where how much memory must be free for the helper, and for what: see room.CheckRoom."""
    least = params.FillBE(lu.snapshot, instance)["minmem"]
    return instance.primary_node, f"zeroing disks of instance {instance.name}", least, instance.hypervisor


class _Helper:
    """One run of the helper on an instance."""

    def __init__(self, lu: LogicalUnit[Any], feedback: Feedback, instance: objects.Instance):
        self._lu = lu
        self._feedback = feedback
        self._instance = instance
        self._node = lu.snapshot.NodeName(instance.primary_node)
        # Set when the shutdown failed, so that the disks must not be touched.
        self._may_run = False

    def Run(self, seconds: float) -> None:
        lu, instance = self._lu, self._instance
        template = _Template(lu.snapshot)
        disk = self._Disk(template)
        made = CreateDisks(lu, instance, [disk], template)
        try:
            self._Fill(disk)
            self._RunFrom(disk, seconds)
        finally:
            if not self._may_run:
                Undo(lu, made, instance)
                RemoveEmptied(lu, instance, disk)
        if self._may_run:
            raise errors.OpExecError(f"It is not known whether the helper on instance {instance.name} has ended")

    def _Disk(self, template: str) -> objects.Disk:
        lu, instance, snapshot = self._lu, self._instance, self._lu.snapshot
        directory = diskgen.FileDirectory(snapshot, template, None, instance.name)
        plan = diskgen.PlanDisks(snapshot, template, instance.uuid, instance.primary_node, directory=directory)
        [disk] = diskgen.GenerateDisks(lu, plan, [_Request(lu, instance.primary_node)])
        return disk.Replace(iv_name=_NAME)

    def _Fill(self, disk: objects.Disk) -> None:
        lu, instance, image = self._lu, self._instance, self._lu.snapshot.cluster.zeroing_image
        self._feedback(f"* making the helper's disk from {image}")
        result = lu.rpc.call_blockdev_image(instance.primary_node, (disk, instance), image, disk.size)
        result.Raise(f"Could not make the helper's disk on node {self._node}")

    def _RunFrom(self, disk: objects.Disk, seconds: float) -> None:
        """Start the instance from this disk, and wait until it has ended; it has when this raises, unless ``_may_run``."""
        lu = self._lu
        active = self._instance.disks_active
        # While they are in use their mirrors are looked after.
        instance = lu.cfg.MarkInstanceDisksActive(self._instance.uuid)
        disks = (disk, *lu.snapshot.InstanceDisks(instance))
        extended = instance.Replace(disks=[one.uuid for one in disks], disks_info=disks)
        try:
            self._Start(extended, disks)
            self._WaitForEnd(seconds)
        finally:
            self._End(extended, disk)
            if not (active or self._may_run):
                ShutdownDisks(lu, instance)

    def _Start(self, extended: objects.Instance, disks: Sequence[objects.Disk]) -> None:
        lu, name = self._lu, extended.name
        free = MakeRoom(lu, *_Memory(lu, extended), self._feedback, but=extended.uuid)
        assembled = AssembleDisks(lu, extended, disks)
        if not assembled.all_well:
            raise errors.OpExecError(f"The disks of instance {name} could not be set up for the helper")
        self._feedback(f"* starting the helper on instance {name}")
        boot = dict(hv.TRAITS[extended.hypervisor].boot_disk or {})
        result = lu.rpc.call_instance_start(
            extended.primary_node, (assembled.instance, boot, None), False, lu.op.reason
        )
        result.Raise(f"Could not start the helper on instance {name} on node {self._node}")
        deadline = runtime.Monotonic() + _START_SECONDS
        while not self._Runs():
            if runtime.Monotonic() >= deadline:
                raise errors.OpExecError(
                    f"The helper on instance {name} did not start within {_START_SECONDS:.0f} seconds on node {self._node}",
                    hint=f"check that an instance with image {lu.snapshot.cluster.zeroing_image} as its disk boots with hypervisor"
                    f" {extended.hypervisor}",
                )
            lu.Pause(_START_PAUSE)
        LimitStart(lu, extended, free)

    def _Runs(self) -> bool | None:
        """Return whether the helper runs; None where its node does not say so."""
        instance = self._instance
        hvparams = self._lu.snapshot.cluster.hvparams.get(instance.hypervisor, {})
        result = self._lu.rpc.call_instance_info(instance.primary_node, instance.name, instance.hypervisor, hvparams)
        if result.fail_msg:
            return None
        return bool(result.payload) and result.payload["state"] != constants.INST_USER_SHUTDOWN

    def _WaitForEnd(self, seconds: float) -> None:
        name = self._instance.name
        self._feedback(f"* the helper is zeroing free space, for {seconds:.0f} seconds at most")
        begun = reported = runtime.Monotonic()
        while self._Runs() is not False:
            now = runtime.Monotonic()
            left = begun + seconds - now
            if left <= 0:
                raise errors.OpExecError(
                    f"The helper on instance {name} has not ended within {seconds:.0f} seconds and is stopped; free space is not"
                    " zeroed",
                    hint="give it more time with --zeroing-timeout-per-mib; while it runs, 'gnt-instance console"
                    f" {name}' shows what it does",
                )
            if now - reported >= _REPORT_SECONDS:
                reported = now
                self._feedback(f"  zeroing free space for {now - begun:.0f} seconds now")
            self._lu.Pause(min(_END_PAUSE, left))
        self._feedback("* the helper has ended")

    def _End(self, extended: objects.Instance, disk: objects.Disk) -> None:
        """End the helper if it runs; remove what the node keeps of it."""
        result = self._lu.rpc.call_instance_shutdown(extended.primary_node, extended, 0, self._lu.op.reason)
        if result.fail_msg:
            self._may_run = True
            self._lu.LogWarning(
                f"The helper on instance {extended.name} could not be ended on node {self._node}, and may still write to its disks:"
                f" {result.fail_msg}",
                hint=f"'gnt-instance shutdown --timeout 0 {extended.name}' ends it; after that,"
                f" {RemovalByHand(disk, extended.primary_node)}",
            )
