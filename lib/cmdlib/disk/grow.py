"""Growing a disk (doc/reference/drivers.md a.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti import errors, locking, objects, opcodes, params, runtime
from ganeti.cmdlib.base import Feedback
from ganeti.cmdlib.common import CheckNodeOnline, CheckViolations, InstanceInfo, ReleaseLocks
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.devices import (
    AssembleDisks,
    DiskNodes,
    ExclusiveStorage,
    ShutdownDisks,
    WaitForSync,
    WipeDisks,
)
from ganeti.cmdlib.instance.base import CheckNotForthcoming, InstanceLU
from ganeti.params import disk as disk_params
from ganeti.params import ipolicy

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult

_MIB = 1 << 20
# How long the sides of a mirror that was just activated may take to exchange their states, and to agree on a new size.
_SETTLE_SECONDS, _AGREE_SECONDS = 5.0, 30.0
_AGREE_PAUSE = 0.2


class LUInstanceGrowDisk(InstanceLU[opcodes.OpInstanceGrowDisk]):
    """Makes one disk larger, whether the instance runs or not."""

    LOCKS_NODES = True
    LOCKS_RES = True

    def OwnEnv(self) -> dict[str, Any]:
        return {"DISK": self.op.disk, "AMOUNT": self.op.amount, "ABSOLUTE": self.op.absolute}

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance, snapshot = self.instance, self.snapshot
        CheckNotForthcoming(instance)
        self._nodes = list(snapshot.AllNodes(instance))
        for uuid in self._nodes:
            CheckNodeOnline(snapshot.nodes[uuid])
        _, self._disk = diskgen.FindDevice(self.op.disk, snapshot.InstanceDisks(instance), "disk", instance.name)
        if not disk_params.Of(self._disk).growable:
            raise errors.OpPrereqError(f"Disks of template {self._disk.dev_type} cannot be grown", errors.ECODE_INVAL)
        self._FindSize()
        self._CheckPolicy()
        sizes = self._Measure()
        problem = self._TooLarge(sizes)
        if problem:
            raise errors.OpPrereqError(problem, errors.ECODE_STATE)
        if not any(ExclusiveStorage(self, uuid) for uuid in self._nodes):
            self._CheckSpace(sizes)

    def _FindSize(self) -> None:
        """Find what is to be added to the recorded size of the disk."""
        self._delta = self.op.amount - self._disk.size if self.op.absolute else self.op.amount
        if self._delta < 0:
            raise errors.OpPrereqError(
                f"Requested size ({self.op.amount} MiB) is smaller than the disk's current one"
                f" ({self._disk.size} MiB); disks cannot be made smaller",
                errors.ECODE_STATE,
            )

    @property
    def _data(self) -> objects.Disk:
        """The volume that holds the data."""
        return disk_params.Of(self._disk).Data(self._disk)

    @property
    def _wanted(self) -> int:
        """The MiB that this volume needs on each node."""
        return max(self._data.size, self._disk.size) + self._delta

    def _Measure(self) -> dict[str, int]:
        """Return the MiB that the volume with the data has on each node, rounded down.

        Nodes on which it is not set up are left out.  Raises OpPrereqError for a node that does not answer.
        """
        if disk_params.Of(self._data).grows_to_size:
            return {}
        found = {}
        for uuid in DiskNodes(self, self.instance, self._disk):
            result = self.rpc.call_blockdev_getdimensions(uuid, ([self._data], self.instance))
            result.Raise(f"Failed to retrieve disk size from node '{self._Name(uuid)}'", prereq=True)
            (dimensions,) = result.payload
            if dimensions is not None:
                found[uuid] = int(dimensions[0]) // _MIB
        return found

    def _Lack(self, sizes: Mapping[str, int], node_uuid: str) -> int:
        """Return the MiB to add on a node: less than asked for if an earlier try, or LVM's rounding, has added some."""
        return max(0, self._wanted - sizes[node_uuid]) if node_uuid in sizes else self._delta

    def _TooLarge(self, sizes: Mapping[str, int]) -> str:
        """Say what is wrong with a disk that has more than it is to have; a hypervisor told less would cut the data off.

        Volumes have more through LVM's rounding, and cannot be cut that way.
        """
        largest = max(sizes.values(), default=0)
        if disk_params.Of(self._data).volume or largest <= self._wanted:
            return ""
        return (
            f"Disk {self.op.disk} of instance {self.instance.name} is to have {self._wanted} MiB and has {largest} MiB already,"
            f" while {self._disk.size} MiB are recorded; 'gnt-cluster repair-disk-sizes {self.instance.name}' records what"
            " it has"
        )

    def _CheckSpace(self, sizes: Mapping[str, int]) -> None:
        """Check that the data volumes have room to grow; metadata does not grow."""
        data = self._data
        if not disk_params.Of(data).space_checked:
            return
        nodes: dict[int, list[str]] = {}
        for uuid in self._nodes:
            nodes.setdefault(self._Lack(sizes, uuid), []).append(uuid)
        for amount, names in nodes.items():
            diskgen.CheckFreeSpace(self, names, {disk_params.Of(data).Source(data): amount})

    def _CheckPolicy(self) -> None:
        snapshot, instance = self.snapshot, self.instance
        group = snapshot.nodegroups[snapshot.nodes[instance.primary_node].group]
        policy = params.FillIPolicy(snapshot, group)
        before = [disk.size for disk in snapshot.InstanceDisks(instance)]
        after = list(before)
        after[instance.disks.index(self._disk.uuid)] += self._delta
        filled = params.FillBE(snapshot, instance)
        allowed, found = (
            ipolicy.Violations(
                policy,
                filled["maxmem"],
                filled["vcpus"],
                len(instance.nics),
                sizes,
                filled["spindle_use"],
                [self._disk.dev_type],
            )
            for sizes in (before, after)
        )
        # Earlier violations are nothing that growing could be blamed for.
        new = [text for text in found if text not in allowed]
        CheckViolations(self, instance.name, group, new, self.op.ignore_ipolicy)

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> None:
        instance, disk = self.instance, self._disk
        wipe = self.snapshot.cluster.prealloc_wipe_disks
        self._stays_active = instance.disks_active
        try:
            if not AssembleDisks(self, instance, [disk]).all_well:
                raise errors.OpExecError(f"Cannot activate disk {self.op.disk} of instance {instance.name} to grow it")
            self._CheckWhole()
            self._GrowActive(feedback, wipe)
        finally:
            if not self._stays_active:
                ShutdownDisks(self, self.current, [self.snapshot.disks[disk.uuid]])

    def _CheckWhole(self) -> None:
        """Raise OpExecError unless both copies of a mirror are complete: DRBD makes none larger before."""
        what, nodes = f"cannot have its disk {self.op.disk} grown", [self.instance.primary_node]
        try:
            mirrors.CheckViews(self, self.instance, nodes, what, [self._disk], _SETTLE_SECONDS)
        except errors.OpExecError:
            # Taking it down would interrupt a copy that is being filled.
            self._stays_active = True
            raise

    def _GrowActive(self, feedback: Feedback, wipe: bool) -> None:
        instance, disk = self.instance, self._disk
        feedback(f"Growing disk {self.op.disk} of instance '{instance.name}' by {self._delta} MiB to"
                 f" {disk.size + self._delta} MiB")  # fmt: skip
        old_size = self._RealSize() if wipe else disk.size
        self._GrowVolumes()
        if wipe and old_size >= disk.size + self._delta > disk.size:
            self.LogWarning(
                f"Disk {self.op.disk} had {old_size} MiB already, {disk.size} MiB of which were recorded: what lies behind"
                " these is not wiped, because the guest may use it"
            )
        # Sides of a mirror are attached with the recorded size: one that comes back after a power cut from now on must
        # not be smaller than its peer, which would refuse it.
        disk = self._Record(disk.size + self._delta)
        self._GrowDevice()
        # Others may look at the instance and use its nodes from now on, while heavy work on the disks stays ours.
        ReleaseLocks(self, locking.LEVEL_NODE)
        self.glm.downgrade(locking.LEVEL_INSTANCE)
        if wipe:
            self._Wipe(disk, old_size)
        self._TellGuest(disk)
        self._Settle(disk)

    def _Wipe(self, disk: objects.Disk, start: int) -> None:
        """Wipe a disk from a MiB on, which the guest is not shown yet: it may write there as soon as it is."""
        try:
            WipeDisks(self, self.instance, [(disk, start)])
        except errors.OpExecError as err:
            instance = self.current
            name, node = instance.name, self._Name(instance.primary_node)
            # Unless the guest sees it on another node.
            shared = self.snapshot.DiskTemplate(instance) in disk_params.With(mirror=disk_params.EXTERNAL)
            restart = " restart its node daemon, so that no delayed call wipes again, and" if shared else ""
            raise errors.OpExecError(
                f"{err}. Disk {self.op.disk} of instance {name} has {disk.size} MiB now; the part after {start} MiB"
                " was not wiped and may contain old data, and a running guest does not see it before its next start",
                # A call that was not answered may be at work still.  One that begins later is refused: the guest has seen it.
                hint=f"when 'gnt-cluster command -n {node} \"pgrep -ax dd\"' shows that the node has stopped wiping,{restart} use"
                f" 'gnt-instance grow-disk --absolute {name} {instance.disks.index(disk.uuid)} {disk.size}m' to show the guest"
                " the new size; that does not wipe what is left",
            ) from err

    def _RealSize(self) -> int:
        """Return the device's real size, which may be larger than recorded: all behind its old end is to be wiped."""
        instance = self.instance
        result = self.rpc.call_blockdev_getdimensions(instance.primary_node, ([self._disk], instance))
        result.Raise(f"Failed to retrieve disk size from node '{result.node_name}'")
        (dimensions,) = result.payload
        if dimensions is None:
            raise errors.OpExecError(f"Failed to retrieve disk size from primary node '{result.node_name}'")
        return -(-int(dimensions[0]) // _MIB)

    def _GrowVolumes(self) -> None:
        """Grow what holds the data on every node, after all were asked whether they can."""
        sizes = self._MeasureAll()
        lacks = {uuid: self._Lack(sizes, uuid) for uuid in DiskNodes(self, self.instance, self._disk)}
        for uuid, amount in lacks.items():
            if amount:
                result = self._Grow(uuid, amount, True, backing=True)
                result.Raise(f"Disk {self.op.disk} cannot grow on node {self._Name(uuid)}; nothing was changed")
            elif self._delta:
                self.LogInfo(
                    f"The volume of disk {self.op.disk} on node {self._Name(uuid)} has {sizes[uuid]} MiB already,"
                    f" {self._wanted} MiB are needed"
                )
        for uuid, amount in lacks.items():
            if not amount:
                continue
            result = self._Grow(uuid, amount, False, backing=True)
            if result.fail_msg:
                self._Advise(sizes)
            result.Raise(f"Disk {self.op.disk} could not grow on node {self._Name(uuid)}")
            sizes[uuid] = self._wanted

    def _MeasureAll(self) -> dict[str, int]:
        """Return what ``_Measure`` does, now that the disk is set up everywhere; raise OpExecError if it is not."""
        try:
            sizes = self._Measure()
        except errors.OpPrereqError as err:
            raise errors.OpExecError(str(err.args[0])) from err
        problem = self._TooLarge(sizes)
        if problem:
            raise errors.OpExecError(problem)
        for uuid in DiskNodes(self, self.instance, self._disk):
            if uuid not in sizes and not disk_params.Of(self._data).grows_to_size:
                raise errors.OpExecError(
                    f"Disk {self.op.disk} of instance {self.instance.name} cannot be measured on node {self._Name(uuid)};"
                    f" 'gnt-instance info {self.instance.name}' shows its state there"
                )
        return sizes

    def _Advise(self, sizes: Mapping[str, int]) -> None:
        """Say what a growth that was cut off has left, given the volumes' sizes, and what to do about it."""
        name, needed = self.instance.name, self._wanted - self._delta
        larger = [f"{size} MiB on node {self._Name(uuid)}" for uuid, size in sizes.items() if size > needed]
        left = f"; its volume has {' and '.join(larger)}" if larger else ""
        self.LogWarning(
            f"Disk {self.op.disk} of instance {name} keeps its size of {self._disk.size} MiB{left}",
            hint=f"once what the error says is remedied, use 'gnt-instance activate-disks {name}' and try again; only what is"
            " missing then will be added",
        )

    def _GrowDevice(self) -> None:
        """Grow the device itself, on the primary; if that fails, record the size that it has.

        A request whose answer was lost may have been carried out.
        """
        primary, wanted = self.instance.primary_node, self._disk.size + self._delta
        result = self._Grow(primary, self._delta, dry_run=False, backing=False)
        if not result.fail_msg:
            self._WaitUntilGrown(wanted)
            return
        try:
            real = self._RealSize()
            if real >= wanted:
                result.Warn(f"Disk {self.op.disk} has its {wanted} MiB; the request to grow it", self.LogWarning)
                return
            self._Record(real)
            if real == self._disk.size:
                self._Advise(dict.fromkeys(DiskNodes(self, self.instance, self._disk), self._wanted))
        except errors.OpExecError as err:
            self.LogWarning(f"{err}; {wanted} MiB are recorded", hint=f"once that node answers, {self._Again(wanted)}")
        result.Raise(f"Disk {self.op.disk} could not grow on node {self._Name(primary)}")

    def _WaitUntilGrown(self, wanted: int) -> None:
        """Return when both sides of a mirror have agreed on its size, which is after the program has ended.

        Raises OpExecError if they do not.  The size stays recorded then, as they may still do it when they meet again.
        """
        disks, primary = mirrors.Mirrors([self._disk]), self.instance.primary_node
        deadline = runtime.Monotonic() + _AGREE_SECONDS
        while disks:
            view = mirrors.Look(self, self.instance, disks, [primary])[primary] or {}
            state = view.get(self._disk.uuid, {})
            size = state.get("size")
            if size is None or size >= wanted * _MIB:
                return
            # Without the link the guest waits, and what decides about that waits for this job.
            apart = not (state["connected"] or state["in_resync"])
            if apart or runtime.Monotonic() >= deadline:
                raise errors.OpExecError(
                    f"Disk {self.op.disk} of instance {self.instance.name} has {size // _MIB} MiB, and {wanted} MiB are recorded:"
                    " its two copies have not agreed on them",
                    hint=f"once they are connected, {self._Again(wanted)}",
                )
            runtime.Sleep(_AGREE_PAUSE)

    def _Again(self, wanted: int) -> str:
        """Return how a growth that was cut off is completed."""
        name, number = self.instance.name, self.instance.disks.index(self._disk.uuid)
        return f"use 'gnt-instance grow-disk --absolute {name} {number} {wanted}m'"

    def _Name(self, node_uuid: str) -> str:
        return self.snapshot.NodeName(node_uuid)

    def _Grow(self, node_uuid: str, amount: int, dry_run: bool, backing: bool) -> RpcResult:
        return self.rpc.call_blockdev_grow(
            node_uuid, (self._disk, self.instance), amount, dry_run, backing, ExclusiveStorage(self, node_uuid)
        )

    def _Record(self, size: int) -> objects.Disk:
        """Record a size; the volume of a mirror's data keeps what it has beyond."""
        disk = self.snapshot.disks[self._disk.uuid]
        children = disk.children
        if children:
            data, *rest = children
            children = (data.Replace(size=data.size + size - disk.size), *rest)
        return self.cfg.Update(disk.Replace(size=size, children=children), self.ec_id)

    def _TellGuest(self, disk: objects.Disk) -> None:
        instance = self.current
        try:
            running = bool(InstanceInfo(self, instance))
        except errors.OpPrereqError as err:
            self.LogWarning(str(err.args[0]))
            return
        if running:
            result = self.rpc.call_resize_disk(instance.primary_node, instance, (disk, instance), disk.size * _MIB)
            result.Warn(
                f"The hypervisor of node {result.node_name} could not show the new size to the guest; it will see it"
                " after its next start",
                self.LogWarning,
            )

    def _Settle(self, disk: objects.Disk) -> None:
        instance = self.current
        if self.op.wait_for_sync:
            if not WaitForSync(self, instance, [disk]):
                self.LogWarning(f"Disk {self.op.disk} is degraded; 'gnt-instance info {instance.name}' shows its state")
        elif not self._stays_active:
            self._stays_active = True
            self.LogWarning(
                "The disk stays active until its copies are complete (--no-wait-for-sync)",
                hint=f"then use 'gnt-instance deactivate-disks {instance.name}'",
            )
