"""Moving an instance whose disks are on one node alone: they are copied to another (doc/design-transfers.rst, drivers.md a.6).

What the configuration says decides at every moment: until it names the target, the disks there are leftovers; from then on
those on the source are.  ``gnt-cluster verify`` names either with the command that removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ganeti import errors, locking, objects, opcodes, params, store
from ganeti.cmdlib import ratios, transfers
from ganeti.cmdlib.base import Feedback, Filled
from ganeti.cmdlib.common import (
    Briefly,
    CheckNicBridges,
    CheckNodeOnline,
    CheckTarget,
    CheckViolations,
    ExpandOtherNode,
    LockInstancesNodesAnd,
)
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk.devices import (
    CreateDisks,
    ExclusiveStorage,
    ShutdownDisks,
    Undo,
)
from ganeti.cmdlib.instance.base import UP, CheckHvOnNodes, CheckNotForthcoming, CheckTargetPolicy, InstanceLU
from ganeti.cmdlib.instance.moving.looking import EndLeftovers, LookAround, Situation
from ganeti.cmdlib.instance.moving.whereabouts import Kind
from ganeti.cmdlib.instance.room import CheckRoom, IsShared, MakeRoom
from ganeti.cmdlib.instance.run import StartAgain
from ganeti.params import disk as disk_params
from ganeti.params import runstate

_UNDO_SECONDS = 60.0
# Where how much memory must be free, and for what: see room.CheckRoom.
_Needed = tuple[str, str, int, str]


class LUInstanceMove(InstanceLU[opcodes.OpInstanceMove]):
    """Stops an instance, copies its disks to another node, which becomes the primary one, and starts it there if it was up."""

    LOCKS_NODES = True
    LOCKS_RES = True

    def ExpandNames(self) -> None:
        super().ExpandNames()
        ExpandOtherNode(self, "target_node")

    def DeclareLocks(self, level: int) -> None:
        if level == locking.LEVEL_NODE:
            LockInstancesNodesAnd(self, self.op.target_node_uuid)
        else:
            super().DeclareLocks(level)

    def OwnEnv(self) -> dict[str, Any]:
        return {"TARGET_NODE": self.op.target_node, "SHUTDOWN_TIMEOUT": self.op.shutdown_timeout}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes = [self.snapshot.cluster.master_node, self._source.uuid, self._target.uuid]
        return nodes, nodes

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance, snapshot = self.instance, self.snapshot
        CheckNotForthcoming(instance)
        transfers.CheckCompression(snapshot, self.op.compress)
        self._disks = list(snapshot.InstanceDisks(instance))
        self._source = snapshot.nodes[instance.primary_node]
        self._target = snapshot.nodes[Filled(self.op.target_node_uuid)]
        self._CheckWay(instance)
        CheckNodeOnline(self._source, f"Can't read the disks of instance '{instance.name}' on an offline node")
        CheckTarget(self._target)
        CheckTargetPolicy(self, instance, self._target.uuid, self.op.ignore_ipolicy)
        self._CheckRatios(instance)
        self._CheckStorage()
        CheckNicBridges(self, instance.nics, self._target.uuid)
        self._needed: _Needed | None = None
        if instance.admin_state == UP:
            # Before a copy is made that takes hours.
            CheckHvOnNodes(self, [self._target.uuid], instance.hypervisor, params.FillHV(snapshot, instance))
            self._needed = self._Memory(f"moving instance {instance.name}")
            CheckRoom(self, *self._needed, but=instance.uuid)
        situation = self._Look()
        if not situation.StopsWith(self._source.uuid):
            raise situation.Refusal("cannot be moved")

    def _CheckWay(self, instance: objects.Instance) -> None:
        """Check that the instance is one whose disks are copied, and goes to another node."""
        template = disk_params.TEMPLATES[self.snapshot.DiskTemplate(instance)]
        name, target = instance.name, self._target.name
        if self._target.uuid == self._source.uuid:
            raise errors.OpPrereqError(
                f"Node {target} is the primary node of instance {name} already; nothing was moved",
                errors.ECODE_STATE,
                hint=f"'gnt-instance list -o name,pnode,snodes,status {name}' shows where it is and whether it runs",
            )
        if not template.copyable:
            what = f"has disk template {template.name}" if self._disks else "has no disks"
            raise errors.OpPrereqError(
                f"Instance '{name}' {what}: nothing of it needs to be copied to another node",
                errors.ECODE_STATE,
                hint=f"'gnt-instance migrate -n {target} {name}' moves it while it runs, 'gnt-instance failover -n {target}"
                f" {name}' stops it and starts it there{_OfMirrors(template, target, name)}",
            )
        if any(disk.adopts is not None for disk in self._disks):
            raise errors.OpPrereqError(
                f"Instance {name} has not adopted its volumes completely: they are not moved",
                errors.ECODE_STATE,
                hint=f"'gnt-instance activate-disks {name}' completes it if the volumes are there under their new names; then"
                " try again",
            )

    def _CheckRatios(self, instance: objects.Instance) -> None:
        """Check the ratios of the target's group, as for any node that is named by hand."""
        snapshot, target = self.snapshot, self._target
        filled = params.FillBE(snapshot, instance)
        found = ratios.CpuViolations(self, target.uuid, filled["vcpus"], instance.hypervisor, instance.uuid)
        found += ratios.MemoryViolations(self, target.uuid, filled, instance.hypervisor, instance.uuid)
        if ratios.TakesSpindles(snapshot.DiskTemplate(instance)):
            found += ratios.SpindleViolations(self, target.uuid, filled["spindle_use"], instance.uuid)
        # A node that is to be emptied must get rid of its guests.
        ignore = self.op.ignore_ipolicy or self._source.drained
        CheckViolations(self, instance.name, snapshot.nodegroups[target.group], found, ignore)

    def _CheckStorage(self) -> None:
        """Check that the target can hold the disks, each in the volume group or directory that it has now."""
        template = disk_params.Of(self._disks[0])
        if ExclusiveStorage(self, self._target.uuid):
            requests = [diskgen.DiskRequest(size=disk.size, spindles=disk.spindles) for disk in self._disks]
            diskgen.CheckSpindles(self.snapshot, [self._target.uuid], template.name, requests)
        needed: dict[str, int] = {}
        for disk in self._disks:
            unit = template.Unit(self.snapshot.cluster, disk)
            if unit is not None:
                # A copy has no holes: of a file it takes all that the guest could ever write.
                needed[unit] = needed.get(unit, 0) + disk.size
        diskgen.CheckFreeSpace(self, [self._target.uuid], needed, template.storage_type)

    def _Memory(self, reason: str) -> _Needed:
        """Return what must be free on the target: the maximum, or the minimum where memory is shared."""
        node = self._target.uuid
        which = "minmem" if IsShared(self.snapshot, node) else "maxmem"
        return node, reason, params.FillBE(self.snapshot, self.instance)[which], self.instance.hypervisor

    def _Look(self) -> Situation:
        return LookAround(self, self.instance, [self._target.uuid])

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> None:
        instance = self.instance
        feedback(f"Moving instance {instance.name} from {self._source.name} to {self._target.name}")
        if self._needed is not None:
            MakeRoom(self, *self._needed, feedback, but=instance.uuid)
        moved = instance.Replace(primary_node=self._target.uuid)
        disks = [self._Moved(disk) for disk in self._disks]
        made: list[tuple[str, objects.Disk]] = []
        self._stopped = False
        try:
            # Before the guest is stopped, which a target without room for them should not cause.
            made = CreateDisks(self, moved, disks, disk_params.Of(disks[0]).name)
            self._StopGuest(feedback)
            self._Copy(feedback, moved, disks)
        except store.MasterEnded:
            raise
        except errors.GenericError:
            self._TakeBack(feedback, moved, disks, made)
            raise
        try:
            self.cfg.UpdateMany([self.current.Replace(primary_node=self._target.uuid), *disks], self.ec_id)
        except store.MasterEnded:
            # The target's disks may be the ones that count now.
            raise
        except errors.GenericError:
            self._TakeBack(feedback, moved, disks, made)
            raise
        moved = self.current
        try:
            if moved.admin_state == UP:
                self._StartOnTarget(feedback, moved)
            else:
                ShutdownDisks(self, moved)
        except store.MasterEnded:
            raise
        except errors.GenericError:
            if Briefly(self, "version", self._target.uuid, []).fail_msg:
                self._NameCopies()
            else:
                self._RemoveSource(feedback, instance)
            raise
        self._RemoveSource(feedback, instance)

    def _RemoveSource(self, feedback: Feedback, instance: objects.Instance) -> None:
        feedback(f"* removing the disks on {self._source.name}")
        self._RemoveFrom(self._source, instance, self._disks)

    def _Moved(self, disk: objects.Disk) -> objects.Disk:
        moved = disk_params.Of(disk).OnNodes(diskgen.JobReservations(self), disk, [self._target.uuid])
        # Elsewhere nobody counts spindles.
        return moved if ExclusiveStorage(self, self._target.uuid) else moved.Replace(spindles=None)

    def _StopGuest(self, feedback: Feedback) -> None:
        """Shut the guest down; raise OpExecError unless it is sure that it has ended."""
        instance, source = self.instance, self._source
        situation = self._Look()
        if not situation.StopsWith(source.uuid):
            raise situation.Error("cannot be moved")
        feedback(f"* shutting down the instance on {source.name}")
        ran = situation.State(source.uuid) not in (runstate.GONE, runstate.ENDED)
        result = self.rpc.call_instance_shutdown(source.uuid, instance, self.op.shutdown_timeout, self.op.reason)
        if result.fail_msg:
            after = self._Look()
            gone = after.verdict.kind is Kind.NOWHERE and after.State(source.uuid) == runstate.GONE
            self._stopped = ran and gone
            self._JudgeShutdown(str(result.fail_msg), gone, after)
        self._stopped = ran
        EndLeftovers(self, instance, situation, keep=source.uuid)

    def _JudgeShutdown(self, reason: str, gone: bool, situation: Situation) -> None:
        """Raise OpExecError for a shutdown that failed, unless the guest has ended and that is to be enough."""
        text = f"Could not shut down instance {self.instance.name} on node {self._source.name}: {reason}"
        if not gone:
            # A copy of disks that somebody still writes is worth nothing, whoever wants it.
            here = situation.IsHere(self._source.uuid)
            raise errors.OpExecError(
                f"{text}; nothing was moved, as it may still run ({situation.Text()})",
                hint=f"'gnt-instance shutdown {self.instance.name}' stops it" if here else situation.Hint() or None,
            )
        if not self.op.ignore_consistency:
            raise errors.OpExecError(
                f"{text}; nothing was moved", hint="it has ended nevertheless: with --ignore-consistency that is enough"
            )
        self.LogWarning(f"{text}; it has ended nevertheless, proceeding")

    def _Copy(self, feedback: Feedback, moved: objects.Instance, disks: Sequence[objects.Disk]) -> None:
        """Fill the target's disks; raise OpExecError if one is not complete."""
        instance, source, target = self.instance, self._source, self._target
        for index, disk in enumerate(self._disks):
            # Not opened: nothing can be started there from a disk that is only set up.
            result = self.rpc.call_blockdev_assemble(source.uuid, (disk, instance), instance, False, index)
            result.Raise(f"Could not set up {disk.iv_name} of instance {instance.name} on node {source.name}")
        feedback(f"* copying the disks to {target.name}")
        ways = [
            transfers.DiskTransfer(index, ("raw", (old, instance)), ("raw", (new, moved)))
            for index, (old, new) in enumerate(zip(self._disks, disks, strict=True))
        ]
        failed = transfers.TransferDisks(self, feedback, instance, source.uuid, target.uuid, ways, self.op.compress)
        if failed:
            raise errors.OpExecError(
                f"The disks of instance {instance.name} could not be copied to node {target.name}; it stays on"
                f" {source.name}: {failed}"
            )

    def _StartOnTarget(self, feedback: Feedback, moved: objects.Instance) -> None:
        try:
            StartAgain(self, feedback, moved)
        except store.MasterEnded:
            raise
        except errors.GenericError as err:
            raise errors.OpExecError(
                f"Instance {moved.name} has been moved to node {self._target.name}, but: {err}",
                hint=err.hint or f"'gnt-instance startup {moved.name}' starts it when that is repaired",
            ) from err

    # --- when it cannot be done ---------------------------------------------------------------------------------------

    def _TakeBack(
        self,
        feedback: Feedback,
        moved: objects.Instance,
        disks: Sequence[objects.Disk],
        made: Sequence[tuple[str, objects.Disk]],
    ) -> None:
        """Remove what was made on the target, and start on the source what was stopped there."""
        if self._stopped:
            try:
                StartAgain(self, feedback, self.current)
            except store.MasterEnded:
                raise
            except errors.GenericError as err:
                self.LogWarning(str(err), hint=err.hint)
        # The target may hang, and others wait for both nodes.
        with self.rpc.Within(_UNDO_SECONDS, _UNDO_SECONDS):
            Undo(self, made, moved)
            self._RemoveDirectory(self._target, disks[0])

    def _NameCopies(self) -> None:
        """Say that the disks stay on the source: the target, which has just got them, does not answer."""
        source, name = self._source, self.instance.name
        for disk in self._disks:
            self.LogWarning(
                f"The copy of {disk.iv_name} of instance {name} on node {source.name} is kept: node {self._target.name} does not"
                " answer",
                hint=f"when the instance runs, {disk_params.Of(disk).Removal(disk, source.uuid)}",
            )

    def _RemoveFrom(self, node: objects.Node, instance: objects.Instance, disks: Sequence[objects.Disk]) -> None:
        """Remove the disks on a node where they are in no configuration any longer; failures are only reported."""
        left = False
        for disk in disks:
            result = self.rpc.call_blockdev_remove(node.uuid, (disk, instance))
            if result.fail_msg:
                left = True
                self.LogWarning(
                    f"Could not remove {disk.iv_name} of instance {instance.name} on node {node.name}, where it is no longer"
                    f" used: {result.fail_msg}",
                    hint=disk_params.Of(disk).Removal(disk, node.uuid),
                )
        if not left:
            self._RemoveDirectory(node, disks[0])

    def _RemoveDirectory(self, node: objects.Node, disk: objects.Disk) -> None:
        """Remove the directory of the disks' files on a node that has none of them."""
        directory = disk_params.Of(disk).Directory(disk)
        if directory is not None:
            result = self.rpc.call_file_storage_dir_remove(node.uuid, directory)
            result.Warn(f"Could not remove directory '{directory}' on node {node.name}", self.LogWarning)


def _OfMirrors(template: disk_params.DiskTemplate, target: str, name: str) -> str:
    """Return what can be done besides with disks of which we keep a second copy."""
    if template.mirror != disk_params.INTERNAL:
        return ""
    return f"; 'gnt-instance replace-disks -n {target} {name}' moves its second copy there"
