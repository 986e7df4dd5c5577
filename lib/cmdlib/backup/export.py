"""Exporting an instance, to a node or to another cluster (doc/reference/drivers.md d.5)."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ganeti import constants, errors, locking, objects, opcodes, pathutils
from ganeti.cmdlib import transfers
from ganeti.cmdlib.backup import remote
from ganeti.cmdlib.base import Feedback, Filled
from ganeti.cmdlib.common import (
    CheckNodeNotDrained,
    CheckNodeOnline,
    CopyNodeLocks,
    ExpandOtherNode,
    Invalid,
    ReleaseLocks,
)
from ganeti.cmdlib.disk.devices import RemovalByHand, ShutdownDisks, StartDisks
from ganeti.cmdlib.instance.base import CheckNotForthcoming, InstanceLU
from ganeti.cmdlib.instance.helper import CheckZeroing, ZeroFreeSpace
from ganeti.cmdlib.instance.life import RemoveInstanceDisks
from ganeti.cmdlib.instance.moving.looking import LookAround
from ganeti.cmdlib.instance.run import StartAgain
from ganeti.params import disk as disk_params

LOCAL, REMOTE = "local", "remote"

UP = constants.ADMINST_UP


class LUBackupExport(InstanceLU[opcodes.OpBackupExport]):
    """Writes the disks and the settings of an instance into a directory of a node, or sends the disks to another cluster."""

    _target: objects.Node | None = None
    _addresses: Sequence[transfers.Address] = ()
    _trust = transfers.CLUSTER
    # The instance is to be started again by this job; it has been.
    _returns = _runs = False

    # --- the request by itself ----------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        op = self.op
        if op.mode == REMOTE and not (op.x509_key_name and op.destination_x509_ca):
            raise Invalid(
                "An export to another cluster needs the name of the key that was made for it, and the other cluster's"
                " certificate",
                hint="an export to a node of this cluster has the mode '" + LOCAL + "'",
            )
        if isinstance(op.target_node, str) != (op.mode == LOCAL):
            raise Invalid(
                "A local export goes to a node, one to another cluster to a list of the disks' addresses there"
            )
        for name in ("zero_free_space", "long_sleep"):
            if getattr(op, name) and not op.shutdown:
                raise Invalid(f"Parameter {name} needs an instance that is shut down for the export")
        if op.zero_free_space and op.compress == transfers.NO_COMPRESSION:
            raise Invalid(
                "Zeroing free space saves nothing unless the export is compressed",
                hint="name a program with --transport-compression, or leave out --zero-free-space",
            )

    # --- locks --------------------------------------------------------------------------------------------------------

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        if self.op.mode == LOCAL:
            self._target = ExpandOtherNode(self, "target_node")
        # Given back before the data travels: nobody waits hours for a node because something is exported from or to it.
        self.needed_locks[locking.LEVEL_NODE] = []
        self.needed_locks[locking.LEVEL_NODE_RES] = []

    def DeclareLocks(self, level: int) -> None:
        assert self.needed_locks is not None
        if level == locking.LEVEL_NODE:
            instance = self.snapshot.instances.get(str(self.op.instance_uuid))
            nodes = [instance.primary_node] if instance is not None else []
            nodes += [self._target.uuid] if self._target is not None else []
            self.needed_locks[level] = list(dict.fromkeys(nodes))
        elif level == locking.LEVEL_NODE_RES:
            CopyNodeLocks(self)

    # --- hooks --------------------------------------------------------------------------------------------------------

    def OwnEnv(self) -> dict[str, Any]:
        op = self.op
        return {
            "EXPORT_MODE": op.mode,
            "EXPORT_NODE": op.target_node if op.mode == LOCAL else "",
            "EXPORT_DO_SHUTDOWN": op.shutdown,
            "SHUTDOWN_TIMEOUT": op.shutdown_timeout,
            "REMOVE_INSTANCE": op.remove_instance,
        }

    def BuildHooksEnv(self) -> dict[str, Any]:
        if self.instance.uuid in self.snapshot.instances:
            self._env = super().BuildHooksEnv()
        return self._env

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes = [self.snapshot.cluster.master_node, self.instance.primary_node]
        nodes += [self._target.uuid] if self._target is not None else []
        return nodes, nodes

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        op, snapshot, instance = self.op, self.snapshot, self.instance
        CheckNotForthcoming(instance)
        CheckNodeOnline(snapshot.nodes[instance.primary_node], f"Primary node of instance '{instance.name}' is offline")
        transfers.CheckCompression(snapshot, op.compress)
        self._was_up = instance.admin_state == UP
        if op.remove_instance and self._was_up and not op.shutdown:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' is to be removed after its export, so it must be shut down for it",
                errors.ECODE_STATE,
                hint="leave out --noshutdown, or keep the instance",
            )
        if op.mode == LOCAL:
            self._CheckTarget()
        else:
            self._CheckAddresses()
        self._CheckStopping()
        if op.zero_free_space:
            CheckZeroing(self, instance)

    def _CheckTarget(self) -> None:
        assert self._target is not None
        self._target = self.snapshot.nodes[self._target.uuid]
        CheckNodeOnline(self._target)
        CheckNodeNotDrained(self._target)

    def _CheckAddresses(self) -> None:
        """Check what came from the other cluster by way of a client: signatures under the secret of both."""
        op, secret = self.op, remote.ReadDomainSecret()
        infos = op.target_node
        if len(infos) != len(self.instance.disks):
            raise Invalid(
                f"Instance '{self.instance.name}' has {len(self.instance.disks)} disks, the other cluster gave addresses for"
                f" {len(infos)}"
            )
        key_name = remote.CheckKeyName(secret, op.x509_key_name)
        self._trust = transfers.Trust(key_name, remote.CheckCa(secret, Filled(op.destination_x509_ca)))
        checked = [remote.CheckDiskInfo(secret, index, info) for index, info in enumerate(infos)]
        self._addresses = [transfers.Address(*found) for found in checked]

    def _CheckStopping(self) -> None:
        """Check that the guest can be stopped, or its disks be read beside it."""
        instance = self.instance
        templates = {disk.dev_type for disk in self.snapshot.InstanceDisks(instance)}
        self._has_snapshots = not templates - disk_params.With(snapshots=True)
        if self.op.shutdown:
            situation = LookAround(self, instance)
            if not situation.StopsWith(instance.primary_node):
                raise situation.Refusal("cannot be exported")
        if self._has_snapshots or not self._was_up:
            return
        without = ", ".join(sorted(templates - disk_params.With(snapshots=True)))
        if not self.op.shutdown:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' cannot be exported while it runs: disks of template {without} have no snapshots",
                errors.ECODE_STATE,
                hint="leave out --noshutdown, and use --long-sleep",
            )
        if not (self.op.long_sleep or self.op.remove_instance):
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' would be down until all its data has been sent: disks of template {without} have no"
                " snapshots",
                errors.ECODE_STATE,
                hint="use --long-sleep if that is all right",
            )

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> list[Any]:
        op, instance = self.op, self.instance
        if op.shutdown:
            self._Stop(feedback)
        # In the other cluster it may run already, whatever is heard of it: two of it must not run.
        self._returns = op.shutdown and self._was_up and not (op.remove_instance and op.mode == REMOTE)
        try:
            if op.zero_free_space:
                ZeroFreeSpace(self, feedback, self.current, op.zeroing_timeout_fixed, op.zeroing_timeout_per_mib)
            with self._ActiveDisks():
                self._Export(feedback)
        except errors.GenericError:
            self._ReturnAnyway(feedback)
            raise
        if op.remove_instance:
            self._Remove(feedback)
        else:
            self._Return(feedback)
        if op.mode == LOCAL:
            self._RemoveOlder(feedback)
        return [True, [True] * len(instance.disks)]

    def _Stop(self, feedback: Feedback) -> None:
        instance = self.instance
        feedback(f"* shutting down instance {instance.name}")
        result = self.rpc.call_instance_shutdown(
            instance.primary_node, instance, self.op.shutdown_timeout, self.op.reason
        )
        result.Raise(f"Could not shutdown instance '{instance.name}' on node {result.node_name}")

    @contextmanager
    def _ActiveDisks(self) -> Iterator[None]:
        """Have the disks set up for the block; those that were not are taken down again, unless the guest runs on them."""
        were_active = self.current.disks_active
        if not were_active:
            StartDisks(self, self.instance, force=False)
        try:
            yield
        finally:
            if not (were_active or self._runs):
                ShutdownDisks(self, self.instance)

    def _Export(self, feedback: Feedback) -> None:
        """Send all disks; raise OpExecError if one of them, or the end of it all, fails."""
        ReleaseLocks(self, locking.LEVEL_NODE)
        disks = list(self.snapshot.InstanceDisks(self.instance))
        self._snapshots: list[objects.Disk] = []
        try:
            if self._has_snapshots and not self.op.remove_instance and (self._was_up or not self.op.shutdown):
                feedback("* taking snapshots of its disks")
                for disk in disks:
                    self._TakeSnapshot(disk)
                disks = list(self._snapshots)
                self._Return(feedback)
            ReleaseLocks(self, locking.LEVEL_NODE_RES)
            plan = [self._Transfer(index, disk) for index, disk in enumerate(disks)]
            self._Send(feedback, plan)
            if self.op.mode == LOCAL:
                self._Complete(feedback, disks)
        finally:
            while self._snapshots:
                self._RemoveSnapshot(self._snapshots[0])
            self._RemoveKey()

    def _Send(self, feedback: Feedback, plan: Sequence[transfers.DiskTransfer]) -> None:
        instance, compress = self.instance, self.op.compress
        if self._target is None:
            sent = transfers.SendDisks(self, feedback, instance, plan, self._addresses, self._trust, compress)
        else:
            source, target = instance.primary_node, self._target.uuid
            sent = transfers.TransferDisks(self, feedback, instance, source, target, plan, compress)
        failed = [f"disk {index}: {error}" for index, error in enumerate(sent) if error]
        if failed:
            raise self._Failed("; ".join(failed))

    def _Complete(self, feedback: Feedback, disks: Sequence[objects.Disk]) -> None:
        """Have the target write the settings and give the export its name; up to then an older one has it."""
        assert self._target is not None
        feedback(f"* completing the export on {self._target.name}")
        result = self.rpc.call_finalize_export(self._target.uuid, self.current, (list(disks), self.current))
        if result.fail_msg:
            raise self._Failed(f"it could not be completed on node {result.node_name}: {result.fail_msg}")

    def _Failed(self, why: str) -> errors.OpExecError:
        op, name = self.op, self.instance.name
        if op.mode == LOCAL:
            hint = f"an older export of it is kept; 'gnt-backup remove {name}' removes both"
        elif op.remove_instance and op.shutdown and self._was_up:
            hint = (
                f"{name} is down here and was not removed; make sure that the other cluster does not run it, then use"
                f" 'gnt-instance startup {name}'"
            )
        else:
            hint = "the job in the other cluster says what it has received"
        return errors.OpExecError(f"Export of instance {name} failed: {why}", hint=hint)

    def _Transfer(self, index: int, disk: objects.Disk) -> transfers.DiskTransfer:
        source: transfers.End = ("script", ((disk, self.instance), index))
        if not self.instance.os:
            source = ("raw", (disk, self.instance))
        directory = posixpath.join(pathutils.EXPORT_DIR, f"{self.instance.name}.new")
        read = functools.partial(self._RemoveSnapshot, disk)
        return transfers.DiskTransfer(f"disk{index}", source, ("file", posixpath.join(directory, disk.uuid)), read)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def _TakeSnapshot(self, disk: objects.Disk) -> None:
        """Make a snapshot of what holds a disk's data on the primary node; it has the uuid of the disk."""
        node = self.instance.primary_node
        result = self.rpc.call_blockdev_snapshot(node, (disk, self.instance), None, None)
        result.Raise(f"Could not make a snapshot of {disk.iv_name} on node {result.node_name}")
        held = disk_params.Of(disk).Data(disk)
        identity = tuple(result.payload)
        self._snapshots.append(
            held.Replace(
                uuid=disk.uuid, logical_id=identity, iv_name=disk.iv_name, name=disk.name, size=disk.size, nodes=[node]
            )
        )

    def _RemoveSnapshot(self, disk: objects.Disk) -> None:
        if disk not in self._snapshots:
            return
        self._snapshots.remove(disk)
        node = self.instance.primary_node
        result = self.rpc.call_blockdev_remove(node, (disk, self.instance))
        if result.fail_msg:
            self.LogWarning(
                f"Could not remove the snapshot of {disk.iv_name} on node {result.node_name}: {result.fail_msg}",
                hint=RemovalByHand(disk, node),
            )

    def _RemoveKey(self) -> None:
        """Remove the key that was made for a move to another cluster: it was for this one try."""
        if self._trust.key_name is not None:
            result = self.rpc.call_x509_cert_remove(self.instance.primary_node, self._trust.key_name)
            result.Warn(f"Could not remove the key of the transfer on node {result.node_name}", self.LogWarning)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _Return(self, feedback: Feedback) -> None:
        """Start the instance again if this job has stopped it and has not started it yet."""
        if self._returns:
            self._returns, self._runs = False, True
            StartAgain(self, feedback, self.current)

    def _ReturnAnyway(self, feedback: Feedback) -> None:
        """Do the same after a failure, which is what the job ends with."""
        try:
            self._Return(feedback)
        except errors.GenericError as err:
            self.LogWarning(str(err), hint=err.hint)

    def _Remove(self, feedback: Feedback) -> None:
        instance = self.instance
        feedback(f"* removing instance {instance.name}")
        RemoveInstanceDisks(self, self.current, self.op.ignore_remove_failures)
        self.cfg.RemoveInstance(instance.uuid)
        self.remove_locks[locking.LEVEL_INSTANCE] = instance.name

    def _RemoveOlder(self, feedback: Feedback) -> None:
        """Remove exports of the instance on other nodes: this one replaces them."""
        assert self._target is not None
        snapshot, name = self.snapshot, self.instance.name
        others = [node.uuid for node in snapshot.nodes.values() if not node.offline and node.uuid != self._target.uuid]
        for uuid, result in self.rpc.call_export_list(others).items():
            if result.fail_msg or name not in result.payload:
                continue
            feedback(f"* removing the older export on {result.node_name}")
            removed = self.rpc.call_export_remove(uuid, name)
            removed.Warn(f"Could not remove the older export of {name} on node {removed.node_name}", self.LogWarning)
