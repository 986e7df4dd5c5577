"""A helper: a machine that is started in the place of a stopped instance, does one task with its disks, and powers off.

Its first disk has an image of the cluster, then come the instance's, then perhaps one that tells it what to do.  The disks of its
own are in no configuration: of a job that is cut off a volume or file of each is left, which ``gnt-cluster verify`` names
(doc/design-transfers.rst, doc/design-install.rst, drivers.md d.11).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ganeti import constants, errors, objects, params, runtime
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.common import InstanceInfo
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk.devices import (
    AssembleDisks,
    CreateDisks,
    ExclusiveStorage,
    OpenDisks,
    RemoveEmptied,
    ShutdownDisks,
    Undo,
    WipeOrUndo,
)
from ganeti.cmdlib.instance.image import FileSize
from ganeti.cmdlib.instance.room import CheckRoom, LimitStart, MakeRoom
from ganeti.master import imagesize
from ganeti.params import checks, hv
from ganeti.params import disk as disk_params

# Seconds between two looks whether it has started, or has ended.
_START_PAUSE, _END_PAUSE = 5.0, 20.0
_REPORT_SECONDS = 60.0
# How long its node may be silent.
_SILENCE_SECONDS = 300.0


class Helper:
    """One run of a helper on an instance; a class for each task.

    ``SETTING``: the cluster parameter with its image.  ``SET``: the command that sets it, up to ``=``.  ``DOING``: what it does, in
    words that follow "is".  ``UNDONE``: what is to be said if it does not end.  ``OWN_DISKS``: how many it has besides those
    of the instance.  ``BEFORE_REMOVAL``: what has to be done before these are removed by hand, up to "then".
    """

    SETTING: ClassVar[str]
    SET: ClassVar[str]
    DOING: ClassVar[str]
    UNDONE: ClassVar[str]
    OWN_DISKS: ClassVar[int] = 1
    BEFORE_REMOVAL: ClassVar[str] = ""

    def __init__(self, lu: LogicalUnit[Any], instance: objects.Instance, feedback: Feedback | None = None):
        self._lu = lu
        self._instance = instance
        self._feedback = feedback or (lambda text: None)
        self._node = lu.snapshot.NodeName(instance.primary_node)
        self._image = str(getattr(lu.snapshot.cluster, self.SETTING))
        # From its start until it has ended for sure: its disks must not be touched.
        self.may_run = False

    # --- for each task ------------------------------------------------------------------------------------------------

    def _Refused(self, why: str, hint: str | None = None) -> errors.OpPrereqError:
        """Return the error that says what cannot be done, and why."""
        raise NotImplementedError

    def _MoreTime(self) -> str:
        """Return what gives it more time, if anything does."""
        return ""

    def _Boot(self) -> dict[str, Any]:
        """Return the hypervisor parameters of its start."""
        return dict(hv.TRAITS[self._instance.hypervisor].boot_disk or {})

    # --- can it be done -----------------------------------------------------------------------------------------------

    def Check(self, disks: int, besides: Mapping[str, int] | None = None) -> None:
        """Raise OpPrereqError unless it can run on the instance, which has so many disks; the instance may still run, too.

        ``besides``: MiB of each volume group that will be taken before it needs its own.
        """
        lu, instance = self._lu, self._instance
        if not self._image:
            raise self._Refused(
                "the cluster has no image of the helper",
                f"'{self.SET}=FILE-OR-URL' sets one",
            )
        most = constants.MAX_DISKS - self.OWN_DISKS
        if not 0 < disks <= most:
            adds = "one" if self.OWN_DISKS == 1 else str(self.OWN_DISKS)
            raise self._Refused(f"it has {disks} disks; 1 to {most} are supported, as the helper adds {adds}")
        if hv.TRAITS[instance.hypervisor].boot_disk is None:
            able = ", ".join(sorted(one for one, traits in hv.TRAITS.items() if traits.boot_disk is not None))
            raise self._Refused(f"hypervisor {instance.hypervisor} cannot boot the helper from a disk; {able} can")
        template = disk_params.TEMPLATES[self._Template()]
        unit = getattr(lu.snapshot.cluster, str(template.unit_type.space))
        needed = self._Request().size + self._Besides() + (besides or {}).get(str(unit), 0)
        diskgen.CheckFreeSpace(lu, [instance.primary_node], {str(unit): needed}, template.storage_type)
        # What a running guest has is free when it has been stopped.
        if InstanceInfo(lu, instance).get("state") != constants.INST_RUNNING:
            CheckRoom(lu, *self._Memory(), but=instance.uuid)

    def _Besides(self) -> int:
        """Return the MiB of its other own disks; raise OpPrereqError if they cannot be made."""
        return 0

    def _Template(self) -> str:
        """Return the template of its disks, which its node alone has: a volume if there can be one, or else a file."""
        cluster = self._lu.snapshot.cluster
        alone = [disk_params.TEMPLATES[name] for name in disk_params.With(copyable=True)]
        for template in sorted(alone, key=lambda template: not template.volume):
            if template.unit_type.space is not None and getattr(cluster, template.unit_type.space):
                return template.name
        raise self._Refused(
            "the cluster has neither a volume group nor a directory for the disk of the helper",
            "'gnt-cluster modify --vg-name=VG' or 'gnt-cluster modify --file-storage-dir=DIRECTORY' sets one",
        )

    def _Request(self) -> diskgen.DiskRequest:
        """Return what its first disk must be like to hold the image as it is now."""
        return self._Sized(self._ImageSize())

    def _Sized(self, size: int) -> diskgen.DiskRequest:
        """Return what a disk for so many bytes must be like."""
        spindles = 1 if ExclusiveStorage(self._lu, self._instance.primary_node) else None
        return diskgen.DiskRequest(size=max(1, -(-size // (1024 * 1024))), spindles=spindles)

    def _ImageSize(self) -> int:
        """Return the bytes of the image, a file of the node or a URL; raise OpPrereqError if nobody can say."""
        if not checks.IsUrl(self._image):
            return FileSize(self._lu, self._instance.primary_node, self._image)
        size, problem = imagesize.OfUrl(self._image)
        if size is None:
            raise errors.OpPrereqError(
                f"The size of image {self._image}, for which a disk must be made, is not known: {problem}",
                errors.ECODE_ENVIRON,
                hint=f"copy it to a file on the master, then 'gnt-cluster copyfile FILE' and '{self.SET}=FILE'",
            )
        return size

    def _Memory(self) -> tuple[str, str, int, str]:
        """Return where how much memory must be free for the helper, and for what: see room.CheckRoom."""
        instance = self._instance
        least = params.FillBE(self._lu.snapshot, instance)["minmem"]
        return instance.primary_node, f"the helper on instance {instance.name}", least, instance.hypervisor

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Run(self, start_seconds: float, seconds: float) -> None:
        """Have the stopped instance's disks worked on; raise OpExecError.

        The helper has so many seconds to start, and after that to end.  When this returns it has ended, and the disks are
        active if they were before.  Locks: the instance exclusively, and its primary node's resources where memory is shared.
        """
        with self._OwnDisk(self._Request()) as first:
            self._feedback(f"* making the helper's disk from {self._image}")
            result = self._lu.rpc.call_blockdev_image(
                self._instance.primary_node, (first, self._instance), self._image, first.size
            )
            result.Raise(f"Could not make the helper's disk on node {self._node}")
            self._Work(first, start_seconds, seconds)

    def _Work(self, first: objects.Disk, start_seconds: float, seconds: float) -> None:
        """Start it from its first disk, and wait until it has ended."""
        self._RunFrom(first, (), start_seconds, seconds)

    @contextlib.contextmanager
    def _OwnDisk(self, request: diskgen.DiskRequest) -> Iterator[objects.Disk]:
        """Make a disk that is in no configuration; remove it in the end, unless the helper may still have it."""
        lu, instance = self._lu, self._instance
        template = self._Template()
        directory = diskgen.FileDirectory(lu.snapshot, template, None, instance.name)
        plan = diskgen.PlanDisks(lu.snapshot, template, instance.uuid, instance.primary_node, directory=directory)
        [disk] = diskgen.GenerateDisks(lu, plan, [request])
        disk = disk.Replace(iv_name=constants.HELPER_DISK)
        made = CreateDisks(lu, instance, [disk], template)
        if lu.snapshot.cluster.prealloc_wipe_disks:
            WipeOrUndo(lu, instance, [(disk, 0)], made)
        try:
            yield disk
        finally:
            if not self.may_run:
                Undo(lu, made, instance)
                RemoveEmptied(lu, instance, disk)
        if self.may_run:
            raise errors.OpExecError(f"It is not known whether the helper on instance {instance.name} has ended")

    def _RunFrom(self, first: objects.Disk, last: Sequence[objects.Disk], start_seconds: float, seconds: float) -> None:
        """Start the instance with these disks more; wait until it has ended: it has when this raises, unless ``may_run``."""
        lu = self._lu
        if self._Runs():
            # Its start would succeed, and the end of the helper would be that of the other one.
            raise errors.OpExecError(
                f"A guest of the name {self._instance.name} runs on node {self._node}, where the helper was to be started",
                hint=f"'gnt-cluster verify' and 'gnt-instance info {self._instance.name}' say more about it",
            )
        active = self._instance.disks_active
        # While they are in use their mirrors are looked after.
        instance = lu.cfg.MarkInstanceDisksActive(self._instance.uuid)
        disks = (first, *lu.snapshot.InstanceDisks(instance), *last)
        extended = instance.Replace(disks=[one.uuid for one in disks], disks_info=disks)
        try:
            self._Start(extended, disks, start_seconds, active)
            self._WaitForEnd(seconds)
        finally:
            self._End(extended, (first, *last))
            if not (active or self.may_run):
                ShutdownDisks(lu, instance)

    def _Start(self, extended: objects.Instance, disks: Sequence[objects.Disk], seconds: float, active: bool) -> None:
        lu, name = self._lu, extended.name
        free = MakeRoom(lu, *self._Memory(), self._feedback, but=extended.uuid)
        if active:
            opened = OpenDisks(lu, extended, disks)
        else:
            assembled = AssembleDisks(lu, extended, disks)
            if not assembled.all_well:
                raise errors.OpExecError(f"The disks of instance {name} could not be set up for the helper")
            opened = assembled.instance
        self._feedback(f"* starting the helper on instance {name}")
        self.may_run = True
        result = lu.rpc.call_instance_start(extended.primary_node, (opened, self._Boot(), None), False, lu.op.reason)
        result.Raise(f"Could not start the helper on instance {name} on node {self._node}")
        deadline = runtime.Monotonic() + seconds
        while not self._Runs():
            if runtime.Monotonic() >= deadline:
                raise errors.OpExecError(
                    f"The helper on instance {name} did not start within {seconds:.0f} seconds on node {self._node}",
                    hint=f"check that an instance with image {self._image} as its disk boots with hypervisor"
                    f" {extended.hypervisor}",
                )
            lu.Pause(_START_PAUSE)
        LimitStart(lu, extended, free)

    def _Runs(self) -> bool | None:
        """Return whether the helper runs; None where its node does not say so."""
        instance = self._instance
        hvparams: Mapping[str, Any] = self._lu.snapshot.cluster.hvparams.get(instance.hypervisor, {})
        result = self._lu.rpc.call_instance_info(instance.primary_node, instance.name, instance.hypervisor, hvparams)
        if result.fail_msg:
            return None
        return bool(result.payload) and result.payload["state"] != constants.INST_USER_SHUTDOWN

    def _WaitForEnd(self, seconds: float) -> None:
        name = self._instance.name
        self._feedback(f"* the helper is {self.DOING}, for {seconds:.0f} seconds at most")
        begun = reported = heard = runtime.Monotonic()
        while (runs := self._Runs()) is not False:
            now = runtime.Monotonic()
            heard = now if runs else heard
            if now - heard >= _SILENCE_SECONDS:
                raise errors.OpExecError(
                    f"Node {self._node} has not said for {now - heard:.0f} seconds whether the helper on instance {name} has ended;"
                    f" {self.UNDONE}"
                )
            left = begun + seconds - now
            if left <= 0:
                watching = f"while it runs, 'gnt-instance console {name}' shows what it does"
                raise errors.OpExecError(
                    f"The helper on instance {name} has not ended within {seconds:.0f} seconds; {self.UNDONE}",
                    hint="; ".join(filter(None, (self._MoreTime(), watching))),
                )
            if now - reported >= _REPORT_SECONDS:
                reported = now
                self._feedback(f"  {self.DOING} for {now - begun:.0f} seconds now")
            self._lu.Pause(min(_END_PAUSE, left))
        self._feedback("* the helper has ended")

    def _End(self, extended: objects.Instance, own: Sequence[objects.Disk]) -> None:
        """End the helper if it runs; remove what the node keeps of it."""
        result = self._lu.rpc.call_instance_shutdown(extended.primary_node, extended, 0, self._lu.op.reason)
        # Whatever else goes wrong here, it may still run.
        self.may_run = bool(result.fail_msg)
        if result.fail_msg:
            by_hand = ", ".join(disk_params.Of(disk).Removal(disk, extended.primary_node) for disk in own)
            self._lu.LogWarning(
                f"The helper on instance {extended.name} could not be ended on node {self._node}, and may still write to its disks:"
                f" {result.fail_msg}",
                hint=f"'gnt-instance shutdown --timeout 0 {extended.name}' ends it; after that, {self.BEFORE_REMOVAL}{by_hand}",
            )
