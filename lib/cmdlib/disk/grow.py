"""Growing a disk (doc/reference/drivers.md a.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors, locking, objects, opcodes, params
from ganeti.cmdlib.base import Feedback
from ganeti.cmdlib.common import CheckNodeOnline, CheckViolations, InstanceInfo, ReleaseLocks
from ganeti.cmdlib.disk import generate as diskgen
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
        _, self._disk = diskgen.FindDevice(self.op.disk, snapshot.InstanceDisks(instance), "disk")
        if not disk_params.TEMPLATES[self._disk.dev_type].growable:
            raise errors.OpPrereqError(f"Disks of template {self._disk.dev_type} cannot be grown", errors.ECODE_INVAL)
        self._FindSize()
        self._CheckPolicy()
        if not any(ExclusiveStorage(self, uuid) for uuid in self._nodes):
            self._CheckSpace()

    def _FindSize(self) -> None:
        if not self.op.absolute:
            self._delta = self.op.amount
            return
        self._delta = self.op.amount - self._disk.size
        if self._delta < 0:
            raise errors.OpPrereqError(
                f"Requested size ({self.op.amount} MiB) is smaller than the disk's current one"
                f" ({self._disk.size} MiB); disks cannot be made smaller",
                errors.ECODE_STATE,
            )

    def _CheckSpace(self) -> None:
        """Check that the data volumes have room to grow; metadata does not grow."""
        data = self._disk.children[0] if self._disk.children else self._disk
        if disk_params.TEMPLATES[data.dev_type].space_checked:
            diskgen.CheckFreeSpace(self, self._nodes, {data.logical_id[0]: self._delta})

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
        if not AssembleDisks(self, instance, [disk]).all_well:
            raise errors.OpExecError("Cannot activate block device to grow")
        feedback(f"Growing disk {self.op.disk} of instance '{instance.name}' by {self._delta} MiB to"
                 f" {disk.size + self._delta} MiB")  # fmt: skip
        old_size = self._RealSize() if wipe else disk.size
        self._GrowVolumes()
        # Sides of a mirror are attached with the recorded size: one that comes back after a power cut from now on must
        # not be smaller than its peer, which would refuse it.
        disk = self._Record(disk.size + self._delta)
        self._GrowDevice()
        # Others may look at the instance and use its nodes from now on, while heavy work on the disks stays ours.
        ReleaseLocks(self, locking.LEVEL_NODE)
        self.glm.downgrade(locking.LEVEL_INSTANCE)
        self._TellGuest(disk)
        if wipe:
            WipeDisks(self, instance, [(disk, old_size)])
        self._Settle(disk)

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
        nodes = DiskNodes(self, self.instance, self._disk)
        for uuid in nodes:
            self._Grow(uuid, True, backing=True).Raise(f"Dry-run grow request failed to node {self._Name(uuid)}")
        larger: list[str] = []
        for uuid in nodes:
            result = self._Grow(uuid, False, backing=True)
            if result.fail_msg:
                self._Advise(larger)
            result.Raise(f"Grow request failed to node {self._Name(uuid)}")
            larger.append(self._Name(uuid))

    def _Advise(self, larger: Sequence[str]) -> None:
        """Say what a growth that was cut off has left, and what to do about it."""
        name = self.instance.name
        left = f"; on {', '.join(larger)} its volume has {self._delta} MiB more than it needs" if larger else ""
        self.LogWarning(
            f"Disk {self.op.disk} of instance {name} keeps its size of {self._disk.size} MiB{left}",
            hint=f"when the node answers again, use 'gnt-instance activate-disks {name}' and try again",
        )

    def _GrowDevice(self) -> None:
        """Grow the device itself, on the primary; if that fails, record the size that it has."""
        primary = self.instance.primary_node
        result = self._Grow(primary, dry_run=False, backing=False)
        if not result.fail_msg:
            return
        try:
            real = self._RealSize()
            self._Record(real)
            if real == self._disk.size:
                self._Advise([self._Name(uuid) for uuid in DiskNodes(self, self.instance, self._disk)])
        except errors.OpExecError as err:
            self.LogWarning(
                str(err), hint=f"use 'gnt-cluster repair-disk-sizes {self.instance.name}' once that node answers"
            )
        result.Raise(f"Grow request failed to node {self._Name(primary)}")

    def _Name(self, node_uuid: str) -> str:
        return self.snapshot.NodeName(node_uuid)

    def _Grow(self, node_uuid: str, dry_run: bool, backing: bool) -> RpcResult:
        return self.rpc.call_blockdev_grow(
            node_uuid, (self._disk, self.instance), self._delta, dry_run, backing, ExclusiveStorage(self, node_uuid)
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
                self.LogWarning("Disk syncing has not returned a good status; check the instance")
            if not instance.disks_active:
                ShutdownDisks(self, instance, [disk])
        elif not instance.disks_active:
            self.LogWarning(
                "Not shutting down the disk even if the instance is not supposed to be running,"
                " because no wait for sync mode was requested"
            )
