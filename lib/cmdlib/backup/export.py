"""Exporting an instance, to a node or to another cluster (doc/reference/drivers.md d.5)."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ganeti import constants, errors, locking, objects, opcodes, pathutils, store
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
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.devices import ShutdownDisks, StartDisks
from ganeti.cmdlib.instance.base import CheckNotForthcoming, CheckScript, InstanceLU
from ganeti.cmdlib.instance.life import RemoveInstanceDisks
from ganeti.cmdlib.instance.moving.looking import LookAround
from ganeti.cmdlib.instance.moving.whereabouts import Kind
from ganeti.cmdlib.instance.room import IsShared
from ganeti.cmdlib.instance.run import StartAgain
from ganeti.cmdlib.instance.zeroing import CheckZeroing, ZeroFreeSpace
from ganeti.params import disk as disk_params
from ganeti.params import exported, runstate

UP = constants.ADMINST_UP
_DISCARD_SECONDS = 60.0
# What a script writes may be more than the disk has.
_SCRIPT_EXTRA_MIB = 1024


class LUBackupExport(InstanceLU[opcodes.OpBackupExport]):
    """Writes the disks and the settings of an instance into a directory of a node, or sends the disks to another cluster."""

    _target: objects.Node | None = None
    _addresses: Sequence[transfers.Address] = ()
    _trust = transfers.CLUSTER
    # The instance is to be started again by this job; it has been.
    _restart_due = _restarted = False

    # --- the request by itself ----------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        op = self.op
        if op.mode == constants.EXPORT_REMOTE and not (op.x509_key_name and op.destination_x509_ca):
            raise Invalid(
                "An export to another cluster needs the name of the key that was made for it, and the other cluster's"
                " certificate",
                hint="an export to a node of this cluster has the mode '" + constants.EXPORT_LOCAL + "'",
            )
        if isinstance(op.target_node, str) != (op.mode == constants.EXPORT_LOCAL):
            raise Invalid(
                f"Mode {constants.EXPORT_LOCAL} needs the name of a node, mode {constants.EXPORT_REMOTE} a list of disk addresses"
            )
        for name in ("zero_free_space", "long_sleep"):
            if getattr(op, name) and not op.shutdown:
                raise Invalid(
                    f"Parameter {name} needs an instance that is shut down for the export",
                    hint="leave out --noshutdown",
                )
        if op.zero_free_space and op.mode == constants.EXPORT_REMOTE:
            raise Invalid("Free space is zeroed before local exports only: the other cluster does not wait that long")
        if op.zero_free_space and op.compress == constants.NO_COMPRESSION:
            raise Invalid(
                "Zeroing free space saves nothing unless the export is compressed",
                hint="name a program with --transport-compression, or leave out --zero-free-space",
            )

    # --- locks --------------------------------------------------------------------------------------------------------

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        if self.op.mode == constants.EXPORT_LOCAL:
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
            "EXPORT_NODE": op.target_node if op.mode == constants.EXPORT_LOCAL else "",
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
        if instance.os and instance.disks:
            CheckScript(self, instance.primary_node, instance.os, constants.OS_SCRIPT_EXPORT)
        self._was_up = instance.admin_state == UP
        if op.remove_instance and self._was_up and not op.shutdown:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' is to be removed after its export, so it must be shut down for it",
                errors.ECODE_STATE,
                hint="leave out --noshutdown, or keep the instance",
            )
        if op.mode == constants.EXPORT_LOCAL:
            self._CheckNames()
            self._CheckTarget()
        else:
            self._CheckAddresses()
        self._CheckStopping()
        if op.zero_free_space:
            CheckZeroing(self, instance)

    def _CheckNames(self) -> None:
        """Refuse what would be written where another instance's export is."""
        name, end = self.instance.name, exported.UNFINISHED
        for other in (name + end, name.removesuffix(end)):
            if other != name and self.snapshot.InstanceByName(other) is not None:
                raise errors.OpPrereqError(
                    f"Exports of the instances '{name}' and '{other}' would be in each other's way: an unfinished one has a"
                    f" name that ends in '{end}'",
                    errors.ECODE_STATE,
                    hint=f"shut one of them down and rename it: 'gnt-instance shutdown {name}', then 'gnt-instance rename {name}"
                    " NEWNAME'",
                )

    def _CheckTarget(self) -> None:
        assert self._target is not None
        self._target = self.snapshot.nodes[self._target.uuid]
        CheckNodeOnline(self._target)
        CheckNodeNotDrained(self._target)
        name = self._unfinished
        result = self.rpc.call_export_info(self._target.uuid, posixpath.join(pathutils.EXPORT_DIR, name))
        try:
            owner = None if result.fail_msg else exported.Parse(str(result.payload)).name
        except errors.ParseError:
            owner = None
        if owner == name:
            raise errors.OpPrereqError(
                f"Node {self._target.name} keeps an export of a former instance '{name}'; an unfinished export of"
                f" '{self.instance.name}' would have the same name",
                errors.ECODE_EXISTS,
                hint=f"choose another node, or remove it with 'gnt-backup remove {name}'",
            )

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
        situation = LookAround(self, instance)
        if self.op.shutdown:
            if not situation.StopsWith(instance.primary_node):
                raise situation.Refusal("cannot be exported")
        elif situation.verdict.kind is not Kind.NOWHERE and not (
            self._was_up and situation.IsHere(instance.primary_node)
        ):
            # Whatever it is marked to be: somebody may write, and would go on when its disks are removed.
            if situation.IsHere(instance.primary_node):
                raise errors.OpPrereqError(
                    f"Instance '{instance.name}' cannot be exported without being shut down: it runs although it is marked to be"
                    " down",
                    errors.ECODE_STATE,
                    hint=f"leave out --noshutdown, or use 'gnt-instance startup {instance.name}' if it is to run",
                )
            raise situation.Refusal("cannot be exported without being shut down")
        if self._TakesSnapshots():
            self._CheckRoomForSnapshots()
            if self._was_up:
                self._CheckOwnSides()
        if self._has_snapshots or not self._was_up:
            return
        without = ", ".join(sorted(templates - disk_params.With(snapshots=True)))
        if not self.op.shutdown:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' cannot be exported while it runs: disks of template {without} have no snapshots",
                errors.ECODE_STATE,
                hint="leave out --noshutdown, and add --long-sleep",
            )
        if not (self.op.long_sleep or self.op.remove_instance):
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' would be down until all its data has been sent: disks of template {without} have no"
                " snapshots",
                errors.ECODE_STATE,
                hint="add --long-sleep to accept that",
            )

    @property
    def _unfinished(self) -> str:
        """The name that the export has until it is complete."""
        return self.instance.name + exported.UNFINISHED

    def _TakesSnapshots(self) -> bool:
        op = self.op
        return self._has_snapshots and not op.remove_instance and (self._was_up or not op.shutdown)

    def _CheckRoomForSnapshots(self) -> None:
        """Check that the volume groups have room: a snapshot may grow as large as its disk."""
        needed: dict[str, int] = {}
        for disk in self.snapshot.InstanceDisks(self.instance):
            data = disk_params.Of(disk).Data(disk)
            if disk_params.Of(data).volume:
                group = disk_params.Of(data).Source(data)
                needed[group] = needed.get(group, 0) + disk.size
        diskgen.CheckFreeSpace(self, [self.instance.primary_node], needed)

    def _CheckOwnSides(self) -> None:
        """Check that the volumes of which snapshots are made hold the data: a mirror may be read from its other side."""
        disks, primary = mirrors.Mirrors(self.snapshot.InstanceDisks(self.instance)), self.instance.primary_node
        if not disks:
            return
        view = mirrors.Look(self, self.instance, disks, [primary])[primary]
        node, name = self.snapshot.NodeName(primary), self.instance.name
        if view is None:
            raise errors.OpPrereqError(
                f"Node {node} did not report the state of the mirrors of instance '{name}'; try again",
                errors.ECODE_STATE,
            )
        if any(disk.uuid not in view for disk in disks):
            raise errors.OpPrereqError(
                f"Instance '{name}' cannot be exported: its mirrors are not set up on its primary node {node}",
                errors.ECODE_STATE,
                hint=f"'gnt-instance activate-disks {name}' sets them up",
            )
        lacking = [
            f"{disk.iv_name} is {'recorded as outdated' if behind else mirrors.DescribeState(view[disk.uuid])}"
            for disk in disks
            if (behind := mirrors.Names(disk, primary)) or not view[disk.uuid].get("local_uptodate")
        ]
        if lacking:
            older = mirrors.BehindOn(disks, primary)
            lost = f"; {mirrors.HintIfLost(self.snapshot, self.instance, primary)}" if older else ""
            raise errors.OpPrereqError(
                f"Instance '{name}' cannot be exported: the copies on its primary node {node} are not up to date:"
                f" {', '.join(lacking)}",
                errors.ECODE_STATE,
                hint=f"wait until they are in sync, or make new ones with 'gnt-instance replace-disks -p {name}'{lost}",
            )

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> list[Any]:
        op = self.op
        self._restart_due = op.shutdown and self._was_up
        try:
            if op.shutdown:
                self._Stop(feedback)
            if op.zero_free_space:
                self._ZeroFreeSpace(feedback)
            with self._ActiveDisks():
                self._Export(feedback)
        except store.MasterEnded:
            # The next master finds the job cut off, and says so.
            raise
        except Exception:
            self._StartGuestAfterFailure(feedback)
            raise
        finally:
            self._RemoveKey()
        if not op.remove_instance:
            with self._Complete():
                self._StartGuestAgain(feedback)
        if op.mode == constants.EXPORT_LOCAL:
            self._RemoveOlder(feedback)
        if op.remove_instance:
            with self._Complete():
                self._Remove(feedback)
        return [True, [True] * len(self.instance.disks)]

    @contextmanager
    def _Complete(self) -> Iterator[None]:
        """Let an error say that the data is where it should be: nobody need repeat hours of copying."""
        try:
            yield
        except errors.OpExecError as err:
            where = f"on node {self._target.name}" if self._target is not None else "in the other cluster"
            raise errors.OpExecError(
                f"The export of instance {self.instance.name} is complete {where}, but: {err}", hint=err.hint
            ) from err

    def _Stop(self, feedback: Feedback) -> None:
        instance = self.instance
        feedback(f"* shutting down instance {instance.name}")
        result = self.rpc.call_instance_shutdown(
            instance.primary_node, instance, self.op.shutdown_timeout, self.op.reason
        )
        if not result.fail_msg:
            return
        text = f"Could not shut down instance '{instance.name}' on node {result.node_name}: {result.fail_msg}"
        if LookAround(self, instance).State(instance.primary_node) == runstate.GONE:
            raise errors.OpExecError(text)  # it has ended nevertheless, and is started again
        self._restart_due = False
        raise errors.OpExecError(
            text, hint=f"it may still end: 'gnt-instance list {instance.name}' shows whether it runs"
        )

    def _ZeroFreeSpace(self, feedback: Feedback) -> None:
        op, name = self.op, self.instance.name
        ReleaseLocks(self, locking.LEVEL_NODE)
        ReleaseLocks(self, locking.LEVEL_NODE_RES, keep=[self.instance.primary_node])
        try:
            ZeroFreeSpace(self, feedback, self.current, op.zeroing_timeout_fixed, op.zeroing_timeout_per_mib)
        except errors.OpExecError:
            if LookAround(self, self.instance).State(self.instance.primary_node) != runstate.GONE:
                # It would be taken for the instance.
                self._restart_due = False
                self.LogWarning(
                    f"Instance {name} is not started again: the helper may still run in its place",
                    hint=f"when the helper has been ended with 'gnt-instance shutdown --timeout 0 {name}' and its disk removed,"
                    f" 'gnt-instance startup {name}' starts the instance",
                )
            raise

    @contextmanager
    def _ActiveDisks(self) -> Iterator[None]:
        """Have the disks set up for the block; those that were not are taken down again, unless the guest runs on them."""
        were_active = self.current.disks_active
        if not were_active:
            StartDisks(self, self.instance, force=False)
        try:
            yield
        finally:
            if not (were_active or self._restarted):
                ShutdownDisks(self, self.instance)

    def _Export(self, feedback: Feedback) -> None:
        """Send all disks; raise OpExecError if one of them, or the end of it all, fails."""
        ReleaseLocks(self, locking.LEVEL_NODE)
        primary = self.instance.primary_node
        disks = list(self.snapshot.InstanceDisks(self.instance))
        self._snapshots: list[objects.Disk] = []
        try:
            if self._TakesSnapshots():
                self._CheckOwnSides()
                feedback("* taking snapshots of its disks")
                for disk in disks:
                    self._TakeSnapshot(disk)
                disks = list(self._snapshots)
                self._StartGuestAgain(feedback)
            # Nobody else may count on the memory that it needs to run again.
            keeps = self._restart_due and IsShared(self.snapshot, primary)
            ReleaseLocks(self, locking.LEVEL_NODE_RES, keep=[primary] if keeps else [])
            plan = [self._Transfer(index, disk) for index, disk in enumerate(disks)]
            self._Send(feedback, plan)
            if self.op.mode == constants.EXPORT_LOCAL:
                self._Finalize(feedback, disks)
        finally:
            for disk in list(self._snapshots):
                self._RemoveSnapshot(disk, last=True)

    def _Send(self, feedback: Feedback, plan: Sequence[transfers.DiskTransfer]) -> None:
        if self._target is None and self.op.remove_instance and self._restart_due:
            # From now on it may run in the other cluster, whatever is heard of that: two of it must not.
            self._restart_due = False
            self.cfg.MarkInstanceDown(self.instance.uuid)
        try:
            failed = self._Sent(feedback, plan)
        except errors.OpExecError as err:
            # An administrator has ended the job.
            raise self._Failed(str(err)) from err
        if failed:
            raise self._Failed(failed)

    def _Sent(self, feedback: Feedback, plan: Sequence[transfers.DiskTransfer]) -> str | None:
        """Send all disks; return None or what went wrong."""
        instance, compress = self.instance, self.op.compress
        if self._target is None:
            return transfers.SendDisks(self, feedback, instance, plan, self._addresses, self._trust, compress)
        source, target = instance.primary_node, self._target.uuid
        return transfers.TransferDisks(self, feedback, instance, source, target, plan, compress)

    def _Finalize(self, feedback: Feedback, disks: Sequence[objects.Disk]) -> None:
        """Have the target write the settings and give the export its name; up to then an older one has it."""
        assert self._target is not None
        feedback(f"* completing the export on {self._target.name}")
        result = self.rpc.call_finalize_export(self._target.uuid, self.current, (list(disks), self.current))
        if result.failure is not None:
            raise errors.OpExecError(
                f"It is not known whether the export of instance {self.instance.name} is complete: node {result.node_name} did"
                f" not answer: {result.fail_msg}",
                hint=f"while 'gnt-backup list -n {result.node_name}' shows {self._unfinished}, it is not"
                " complete: export it again",
            )
        if result.fail_msg:
            raise self._Failed(f"it could not be completed on node {result.node_name}: {result.fail_msg}")

    def _Failed(self, why: str) -> errors.OpExecError:
        op, name = self.op, self.instance.name
        if op.mode == constants.EXPORT_LOCAL:
            self._Discard()
            hint = "an older export of it, if there is one, is kept"
        elif op.remove_instance and op.shutdown and self._was_up:
            hint = (
                f"{name} is down here and was not removed; make sure that the other cluster does not run it, then use"
                f" 'gnt-instance startup {name}'"
            )
        else:
            hint = "the job in the other cluster says what it has received"
        return errors.OpExecError(f"Export of instance {name} failed: {why}", hint=hint)

    def _Discard(self) -> None:
        """Remove what has arrived of an export that failed: the disk may be full of it."""
        assert self._target is not None
        # The guest may be down until this is over.
        with self.rpc.Within(_DISCARD_SECONDS, _DISCARD_SECONDS):
            result = self.rpc.call_export_remove(self._target.uuid, self._unfinished)
        if result.fail_msg and not exported.SaysThereIsNone(result.fail_msg):
            self.LogWarning(
                f"Could not remove what has arrived on node {result.node_name}: {result.fail_msg}",
                hint=f"'gnt-backup remove {self._unfinished}' removes it",
            )

    def _Transfer(self, index: int, disk: objects.Disk) -> transfers.DiskTransfer:
        target: transfers.End | None = None
        if self._target is not None:
            directory = posixpath.join(pathutils.EXPORT_DIR, self._unfinished)
            target = ("file", posixpath.join(directory, exported.DumpName(disk)))
        read = functools.partial(self._RemoveSnapshot, disk)
        limit = 2 * disk.size + _SCRIPT_EXTRA_MIB
        return transfers.DiskTransfer(index, transfers.DiskEnd(self.instance, disk, index), target, read, limit)

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

    def _RemoveSnapshot(self, disk: objects.Disk, last: bool = False) -> None:
        """Remove a snapshot; one that is still read, or cannot be removed, is tried once more at the end (``last``)."""
        if disk not in self._snapshots:
            return
        node = self.instance.primary_node
        result = self.rpc.call_blockdev_remove(node, (disk, self.instance))
        if not result.fail_msg:
            self._snapshots.remove(disk)
        elif last:
            self.LogWarning(
                f"Could not remove the snapshot of {disk.iv_name} on node {result.node_name}: {result.fail_msg}",
                hint=disk_params.Of(disk).Removal(disk, node),
            )

    def _RemoveKey(self) -> None:
        """Remove the key that was made for a move to another cluster: it was for this one try."""
        if self._trust.key_name is not None:
            transfers.RemoveKey(self, self.instance.primary_node, self._trust.key_name)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _StartGuestAgain(self, feedback: Feedback) -> None:
        """Start the instance again if this job has stopped it and has not started it yet."""
        if self._restart_due:
            self._restart_due, self._restarted = False, True
            StartAgain(self, feedback, self.current)

    def _StartGuestAfterFailure(self, feedback: Feedback) -> None:
        """Do the same after a failure, which is what the job ends with."""
        try:
            self._StartGuestAgain(feedback)
        except errors.GenericError as err:
            self.LogWarning(str(err), hint=err.hint)

    def _Remove(self, feedback: Feedback) -> None:
        instance = self.instance
        feedback(f"* removing instance {instance.name}")
        if self.current.admin_state == UP:
            # What is half removed is not to be started.
            self.cfg.MarkInstanceDown(instance.uuid)
        RemoveInstanceDisks(self, self.current, self.op.ignore_remove_failures)
        self.cfg.RemoveInstance(instance.uuid)
        self.remove_locks[locking.LEVEL_INSTANCE] = instance.name

    def _RemoveOlder(self, feedback: Feedback) -> None:
        """Remove exports of the instance on other nodes: this one replaces them."""
        assert self._target is not None
        snapshot, name = self.snapshot, self.instance.name
        path = posixpath.join(pathutils.EXPORT_DIR, name)
        hint = f"the next export of {name} removes it; 'gnt-backup remove {name}' would remove the new one as well"
        made = self.rpc.call_export_info(self._target.uuid, path)
        others = [node.uuid for node in snapshot.nodes.values() if not node.offline and node.uuid != self._target.uuid]
        for uuid, result in self.rpc.call_export_list(others).items():
            if result.failure is not None:
                self.LogWarning(
                    f"Node {result.node_name} did not answer; it may still have an older export of {name}", hint=hint
                )
            if result.fail_msg or name not in result.payload:
                continue
            found = self.rpc.call_export_info(uuid, path)
            if made.fail_msg or found.fail_msg:
                why = made.fail_msg or found.fail_msg
                self.LogWarning(
                    f"The older export of {name} on node {result.node_name} was not removed, as it may be this one: {why}",
                    hint=hint,
                )
                continue
            if found.payload == made.payload:
                # Nodes may share the directory: it is this one.
                continue
            feedback(f"* removing the older export on {result.node_name}")
            removed = self.rpc.call_export_remove(uuid, name)
            removed.Warn(
                f"Could not remove the older export of {name} on node {removed.node_name}",
                functools.partial(self.LogWarning, hint=hint),
            )
