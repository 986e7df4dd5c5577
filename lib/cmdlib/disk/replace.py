"""Replacing the disks of a mirror, or the node of its second half (doc/reference/drivers.md a.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ganeti import constants, errors, locking, objects, opcodes, runtime
from ganeti.cmdlib import lvmchecks
from ganeti.cmdlib.allocation.placement import Placement
from ganeti.cmdlib.allocation.requests import Relocate
from ganeti.cmdlib.base import Feedback, Filled
from ganeti.cmdlib.common import (
    CheckNodeGroupsUnchanged,
    CheckNodeOnline,
    CheckTarget,
    ExpandOtherNode,
    LockedInstance,
    LockInstancesNodesAnd,
    ReleaseLocks,
)
from ganeti.cmdlib.disk import mirrors
from ganeti.cmdlib.disk.devices import (
    CreateSingle,
    IsDegraded,
    Parts,
    ShutdownDisks,
    StartDisks,
    Undo,
    WaitForSync,
)
from ganeti.cmdlib.disk.reserved import RemoveLeftovers
from ganeti.cmdlib.instance.base import CheckNotForthcoming, CheckStillThere, CheckTargetPolicy, GroupsOf, InstanceLU
from ganeti.cmdlib.lvmchecks import REPLACED
from ganeti.params import disk as disk_params

ON_PRIMARY = "replace_on_primary"
ON_SECONDARY = "replace_on_secondary"
NEW_SECONDARY = "replace_new_secondary"
AUTO = "replace_auto"
_STEPS = 6


class LUInstanceReplaceDisks(InstanceLU[opcodes.OpInstanceReplaceDisks]):
    """Gives a mirror new storage on one of its nodes, or another secondary node."""

    # Simulations exchange these.
    storage_class: ClassVar[type[NewStorage]]
    secondary_class: ClassVar[type[NewSecondary]]

    LOCKS_NODES = True
    LOCKS_RES = True

    # --- the request by itself ----------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        op = self.op
        self._placement: Placement | None = None
        if op.mode == NEW_SECONDARY:
            if (op.remote_node is None) == (op.iallocator is None):
                raise errors.OpPrereqError(
                    "When changing the secondary, give either an iallocator script or the new node", errors.ECODE_INVAL
                )
            if op.iallocator is not None:
                self._placement = Placement(self, node_slot="remote_node")
        elif op.remote_node is not None or op.iallocator is not None:
            raise errors.OpPrereqError(
                "The iallocator and new node options can only be used when changing the secondary node",
                errors.ECODE_INVAL,
            )
        if op.mode in (NEW_SECONDARY, AUTO) and op.disks:
            raise errors.OpPrereqError("This mode takes no list of disks: all are looked at", errors.ECODE_INVAL)

    def ExpandNames(self) -> None:
        super().ExpandNames()
        ExpandOtherNode(self, "remote_node")
        if self._placement is not None:
            self._placement.Declare(
                self._Request,
                lambda: GroupsOf(self.snapshot, LockedInstance(self)),
                lambda: self.snapshot.AllNodes(LockedInstance(self)),
            )

    def _Request(self) -> Relocate:
        self._CheckLayout(LockedInstance(self))
        return Relocate(self.op.instance_name, (self.snapshot.NodeName(self._secondary),))

    def DeclareLocks(self, level: int) -> None:
        if self._placement is not None:
            self._placement.DeclareLocks(level)
        elif level == locking.LEVEL_NODE:
            LockInstancesNodesAnd(self, self.op.remote_node_uuid)
        else:
            super().DeclareLocks(level)

    # --- hooks --------------------------------------------------------------------------------------------------------

    def OwnEnv(self) -> dict[str, Any]:
        return {
            "MODE": self.op.mode,
            "NEW_SECONDARY": None if self._new is None else self.snapshot.NodeName(self._new),
            "OLD_SECONDARY": self.snapshot.nodes[self._secondary].name,
        }

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes = [self.snapshot.cluster.master_node, self._primary]
        if self._new is not None:
            nodes.append(self._new)
        return nodes, nodes

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance, snapshot = self.instance, self.snapshot
        self._CheckLayout(instance)
        self._new = self.op.remote_node_uuid
        if self._placement is not None:
            CheckNodeGroupsUnchanged(self, instance)
            (self._new,) = self._placement.Chosen()
        self._early_release = self.op.early_release
        self._ChooseWork()
        self._CheckNodes()
        if self._indexes:
            mirrors.CheckCounts(
                snapshot,
                instance,
                self._other,
                "would keep copies that do not count if these disks were replaced",
                indexes=self._indexes,
            )
        self._KeepLocks()

    def _CheckLayout(self, instance: objects.Instance) -> None:
        """Check that the disks are on two nodes, and remember which."""
        snapshot = self.snapshot
        if self.op.mode != NEW_SECONDARY:
            CheckNotForthcoming(instance)
        template = snapshot.DiskTemplate(instance)
        if template not in disk_params.With(mirror=disk_params.INTERNAL):
            raise errors.OpPrereqError(
                f"Instance {instance.name} has disks of template {template}, which have no second copy to rebuild from",
                errors.ECODE_INVAL,
                hint=f"'gnt-instance recreate-disks {instance.name}' makes lost disks again, empty",
            )
        secondaries = snapshot.SecondaryNodes(instance)
        if len(secondaries) != 1:
            raise errors.OpPrereqError(
                f"Instance {instance.name} has {len(secondaries)} secondary nodes, where mirrors have one",
                errors.ECODE_FAULT,
            )
        self._primary, self._secondary = instance.primary_node, secondaries[0]
        CheckStillThere(self, instance)

    def _ChooseWork(self) -> None:
        """Which disks, on which node; ``_target`` gets new storage, ``_other`` has the good half."""
        mode = self.op.mode
        disks = self.snapshot.InstanceDisks(self.instance)
        self._indexes = sorted(set(self.op.disks)) or list(range(len(disks)))
        if self._indexes[-1] >= len(disks):
            raise errors.OpPrereqError(
                f"Instance {self.instance.name} has no disk {self._indexes[-1]}: it has {len(disks)}, counted from 0",
                errors.ECODE_INVAL,
            )
        self._target, self._other = self._primary, self._secondary
        if mode in (ON_SECONDARY, NEW_SECONDARY):
            self._target, self._other = self._secondary, self._primary
        if mode == AUTO:
            self._FindFaulty()

    def _FindFaulty(self) -> None:
        instance = self.instance
        if not instance.disks_active:
            raise errors.OpPrereqError(
                f"The disks of instance {instance.name} are not active, so that nobody can see which are faulty",
                errors.ECODE_STATE,
                hint=f"use 'gnt-instance activate-disks {instance.name}' first",
            )
        faulty = {uuid: self._FaultyOn(uuid) for uuid in (self._primary, self._secondary)}
        if all(faulty.values()):
            raise errors.OpPrereqError(
                f"Instance {instance.name} has faulty disks on both nodes: {self._Faults(faulty)}",
                errors.ECODE_STATE,
                hint=_Advice(instance.name, faulty[self._primary], faulty[self._secondary]),
            )
        self._indexes = faulty[self._primary] or faulty[self._secondary]
        if faulty[self._secondary]:
            self._target, self._other = self._secondary, self._primary

    def _Faults(self, faulty: Mapping[str, Sequence[int]]) -> str:
        return "; ".join(f"{_Numbers(found)} on {self.snapshot.NodeName(uuid)}" for uuid, found in faulty.items())

    def _FaultyOn(self, node_uuid: str) -> list[int]:
        disks = self.snapshot.InstanceDisks(self.instance)
        result = self.rpc.call_blockdev_getmirrorstatus(node_uuid, (disks, self.instance))
        result.Raise(f"Failed to get disk status from node {result.node_name}", prereq=True)
        return [
            index
            for index, status in enumerate(result.payload)
            if status and status["ldisk_status"] == constants.LDS_FAULTY
        ]

    def _CheckNodes(self) -> None:
        snapshot, op = self.snapshot, self.op
        if op.mode != NEW_SECONDARY:
            for uuid in (self._primary, self._secondary):
                CheckNodeOnline(snapshot.nodes[uuid])
            return
        new = snapshot.nodes[Filled(self._new)]
        if new.uuid == self._primary:
            raise errors.OpPrereqError(
                f"The specified node {new.name} is the primary node of the instance", errors.ECODE_INVAL
            )
        if new.uuid == self._secondary:
            raise errors.OpPrereqError(
                f"The specified node {new.name} is already the secondary node of the instance",
                errors.ECODE_INVAL,
                hint=f"if its copy was being made, 'gnt-instance activate-disks --wait-for-sync {self.instance.name}' fills it",
            )
        CheckNodeOnline(snapshot.nodes[self._primary])
        CheckTarget(new)
        CheckTargetPolicy(self, self.instance, new.uuid, op.ignore_ipolicy)
        if snapshot.nodes[self._secondary].offline and not self._early_release:
            # There is nothing to be had back from it.
            self.LogInfo(f"Old secondary {snapshot.nodes[self._secondary].name} is offline, enabling early release")
            self._early_release = True

    def _KeepLocks(self) -> None:
        keep = {self._primary, self._secondary}
        if self._new is not None:
            keep.add(self._new)
        for level in (locking.LEVEL_NODE, locking.LEVEL_NODE_RES):
            ReleaseLocks(self, level, keep=keep)

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> None:
        instance = self.instance
        if instance.forthcoming:
            self._MoveReserved(feedback)
            return
        if not self._indexes:
            feedback(f"No disks need replacement for instance '{instance.name}'")
            return
        feedback(f"Replacing disk(s) {', '.join(map(str, self._indexes))} for instance '{instance.name}'")
        activated = not instance.disks_active
        if activated:
            # Of all ways only a new secondary does without what the old one holds.
            secondary = self.snapshot.NodeName(self._secondary)
            StartDisks(
                self,
                instance,
                force=self.op.mode == NEW_SECONDARY,
                hint=f"to give up the copy on node {secondary}, use 'gnt-instance activate-disks --behind {secondary}"
                f" {instance.name}', then try again",
            )
        try:
            if self.op.mode == NEW_SECONDARY:
                new = Filled(self._new)
                self.secondary_class(self, self._early_release, self._primary, self._secondary, new).Run()
            else:
                self.storage_class(self, self._early_release, self._target, self._other, self._indexes).Run()
        finally:
            if activated:
                ShutdownDisks(self, self.current)

    def _MoveReserved(self, feedback: Feedback) -> None:
        """Record another secondary node; all that can be on nodes is what an interrupted commit has left."""
        new = Filled(self._new)
        RemoveLeftovers(self, self.instance)
        feedback(f"Reserving the mirrors of instance '{self.instance.name}' on {self.snapshot.NodeName(new)}")
        disks = self.snapshot.InstanceDisks(self.instance)
        self.cfg.UpdateMany([_MovedMirror(self, disk, self._primary, new) for disk in disks], self.ec_id)


def _Numbers(indexes: Sequence[int]) -> str:
    return ",".join(map(str, indexes))


def _Advice(name: str, on_primary: Sequence[int], on_secondary: Sequence[int]) -> str:
    """Return what helps against faulty disks on both nodes: with each that is good on one side, that side is copied."""
    lost = sorted({*on_primary} & {*on_secondary})
    if lost:
        return (
            f"no good copy is left of disk {_Numbers(lost)}: stop the instance, make each of them anew with 'gnt-instance"
            f" recreate-disks --disk={lost[0]} {name}', which leaves it empty, and restore the data from a backup"
        )
    return (
        f"use 'gnt-instance replace-disks -p --disks={_Numbers(on_primary)} {name}', then 'gnt-instance replace-disks -s"
        f" --disks={_Numbers(on_secondary)} {name}'"
    )


class _Replacement:
    """The steps that both ways have in common; ``_old`` are the volumes that go at the end, on ``_old_node``."""

    def __init__(self, lu: InstanceLU[Any], early_release: bool, primary: str, old_node: str):
        self._lu = lu
        self._primary = primary
        self._early_release = early_release
        self._old_node = old_node
        self._old: list[objects.Disk] = []
        self._worked_on: list[objects.Disk] = []

    @property
    def _instance(self) -> objects.Instance:
        return self._lu.current

    def _Name(self, uuid: str) -> str:
        return self._lu.snapshot.nodes[uuid].name

    def _Step(self, number: int, text: str) -> None:
        self._lu.LogStep(number, _STEPS, text)

    def _CheckVolumeGroups(self, nodes: Sequence[str], disks: Iterable[objects.Disk]) -> None:
        wanted = {disk_params.Of(child).Source(child) for disk in disks for child in disk.children}
        for result in self._lu.rpc.call_vg_list(list(nodes)).values():
            result.Raise(f"Error checking node {result.node_name}")
            missing = sorted(wanted - set(result.payload))
            if missing:
                raise errors.OpExecError(
                    f"Volume group '{', '.join(missing)}' not found on node {result.node_name}",
                    hint=lvmchecks.HowToMake(missing[0]),
                )

    def _CheckExists(self, nodes: Sequence[str], disks: Iterable[objects.Disk]) -> None:
        for disk in disks:
            for uuid in nodes:
                self._lu.LogInfo(f"Checking {disk.iv_name} on {self._Name(uuid)}")
                result = self._lu.rpc.call_blockdev_find(uuid, (disk, self._instance))
                if result.fail_msg or not result.payload:
                    raise errors.OpExecError(
                        f"Can't find {disk.iv_name} on node {self._Name(uuid)}: {result.fail_msg or 'disk not found'}",
                        hint=f"use 'gnt-instance activate-disks {self._instance.name}' and try again",
                    )

    def _Finish(self) -> None:
        """Wait for the mirrors, then remove the old halves; with early release the other way round."""
        if self._early_release:
            self._Step(5, "Removing old storage")
            self._RemoveOld()
            ReleaseLocks(self._lu, locking.LEVEL_NODE)
            ReleaseLocks(self._lu, locking.LEVEL_NODE_RES)
            self._Step(6, "Sync devices")
            WaitForSync(self._lu, self._instance)
            self._CheckResult()
            return
        ReleaseLocks(self._lu, locking.LEVEL_NODE)
        self._SyncAndRemoveOld()

    def _SyncAndRemoveOld(self) -> None:
        self._Step(5, "Sync devices")
        try:
            WaitForSync(self._lu, self._instance)
        except errors.OpExecError as err:
            raise errors.OpExecError(f"{err}; {self._kept}", hint=self._kept_hint) from err
        self._CheckResult()
        self._Step(6, "Removing old storage")
        self._RemoveOld()

    @property
    def _kept(self) -> str:
        return f"the old volumes on {self._Name(self._old_node)} were not removed"

    @property
    def _kept_hint(self) -> str:
        return "'gnt-cluster verify' names them; remove them only when 'gnt-instance info' shows that both copies are complete"

    def _CheckResult(self) -> None:
        """Check that every mirror exists and is complete: only then may the old half go."""
        primary = self._instance.primary_node
        view = mirrors.Look(self._lu, self._instance, self._worked_on, [primary])[primary] or {}
        for disk in self._worked_on:
            if not mirrors.IsComplete(view.get(disk.uuid)):
                state = mirrors.DescribeState(view.get(disk.uuid))
                text = (
                    f"DRBD device {disk.iv_name} is not complete on both nodes: on {self._Name(primary)} it is {state}"
                )
                if self._early_release:
                    raise errors.OpExecError(text)
                raise errors.OpExecError(f"{text}; {self._kept}", hint=self._kept_hint)

    def _RemoveOld(self) -> None:
        for volume in self._old:
            result = self._lu.rpc.call_blockdev_remove(self._old_node, (volume, self._instance))
            if result.fail_msg:
                self._lu.LogWarning(
                    f"Can't remove old LV {_Named([volume])} on {self._Name(self._old_node)}: {result.fail_msg}",
                    hint=disk_params.Of(volume).Removal(volume, self._old_node),
                )


class NewStorage(_Replacement):
    """New volumes on one node of the mirror, under the names of the old ones."""

    def __init__(self, lu: InstanceLU[Any], early_release: bool, target: str, other: str, indexes: Sequence[int]):
        super().__init__(lu, early_release, lu.current.primary_node, target)
        self._target = target
        self._other = other
        disks = lu.snapshot.InstanceDisks(lu.current)
        self._worked_on = [disks[index] for index in indexes]
        self._indexes = list(indexes)

    def Run(self) -> None:
        lu = self._lu
        self._Step(1, "Check device existence")
        self._CheckExists([self._other, self._target], self._worked_on)
        self._CheckVolumeGroups([self._target, self._other], self._worked_on)
        self._Step(2, "Check peer consistency")
        for disk in self._worked_on:
            if IsDegraded(lu, self._other, self._instance, disk):
                raise errors.OpExecError(
                    f"Node {self._Name(self._other)} has degraded storage, unsafe to replace disks for instance"
                    f" {self._instance.name}",
                    hint=f"use 'gnt-instance activate-disks --wait-for-sync {self._instance.name}' and try again",
                )
        mirrors.CheckAgreement(lu, self._instance, self._worked_on, self._other, self._target)
        self._Step(3, "Allocate new storage")
        pairs = self._Allocate()
        self._Step(4, "Changing drbd configuration")
        for position, (disk, volumes) in enumerate(pairs):
            unused = pairs[position:]
            try:
                disk = self._GivenUp(disk)
                self._Detach(disk)
                unused = pairs[position + 1 :]
                self._Exchange(disk, volumes)
            except errors.GenericError:
                Undo(lu, [(self._target, volume) for _, made in unused for volume in made], self._instance)
                if self._old:
                    lu.LogWarning(self._kept, hint=self._kept_hint)
                raise
        self._Finish()
        now = [lu.snapshot.disks[disk.uuid] for disk in self._worked_on]
        behind = mirrors.BehindOn(now, self._target)
        if behind:
            mirrors.CountAgain(lu, self._instance, behind)

    def _GivenUp(self, disk: objects.Disk) -> objects.Disk:
        """Record that the target's copy is behind, before the primary writes without it; return the disk.

        Nothing in DRBD freezes a primary that has no disk itself, or whose connected peer has none.
        """
        if not self._lu.instance.disks_active:
            return disk
        if self._target == self._primary:
            mirrors.CheckServed(self._lu, self._instance, disk)
        else:
            mirrors.CheckHasAll(self._lu, self._instance, [disk])
        if disk.behind is not None:
            return disk
        (changed,) = mirrors.RecordBehind(self._lu, self._instance, [disk], self._target)
        self._worked_on = [changed if known.uuid == disk.uuid else known for known in self._worked_on]
        return changed

    def _Allocate(self) -> list[tuple[objects.Disk, list[objects.Disk]]]:
        lu = self._lu
        pairs: list[tuple[objects.Disk, list[objects.Disk]]] = []
        made: list[tuple[str, objects.Disk]] = []
        try:
            for index, disk in zip(self._indexes, self._worked_on, strict=True):
                lu.LogInfo(f"Adding storage on {self._Name(self._target)} for {disk.iv_name}")
                prefix = lu.cfg.GenerateUniqueID(lu.ec_id)
                volumes = disk_params.MirrorOf(disk).NewVolumes(disk, prefix, index)
                for volume, part in zip(volumes, Parts(lu, self._instance, disk), strict=True):
                    CreateSingle(lu, self._target, self._instance, volume.Replace(params=part.params), True, made)
                pairs.append((disk, volumes))
        except errors.GenericError:
            Undo(lu, made, self._instance)
            raise
        return pairs

    def _Detach(self, disk: objects.Disk) -> None:
        lu, instance = self._lu, self._instance
        lu.LogInfo(f"Detaching {disk.iv_name} from local storage")
        result = lu.rpc.call_blockdev_removechildren(self._target, (disk, instance), (disk.children, instance))
        result.Raise(
            f"Can't detach drbd from local storage on node {self._Name(self._target)} for device {disk.iv_name}"
        )

    def _Exchange(self, disk: objects.Disk, volumes: Sequence[objects.Disk]) -> None:
        """Give a mirror that was detached its new volumes, under the names of the old ones."""
        lu, instance, target = self._lu, self._instance, self._target
        suffix = f"{REPLACED}{int(runtime.Time())}"
        # Volumes that are lost are why this is done, often.
        present = [old for old in disk.children if self._Exists(old)]
        aside = [_Aside(old, suffix) for old in present]
        try:
            lu.LogInfo(f"Renaming the old LVs on {self._Name(target)}")
            self._Rename(present, aside)
            lu.LogInfo(f"Renaming the new LVs on {self._Name(target)}")
            self._Rename(volumes, disk.children)
        except errors.GenericError:
            Undo(lu, [(target, volume) for volume in volumes], instance)
            raise
        lu.LogInfo(f"Adding new mirror component on {self._Name(target)}")
        result = lu.rpc.call_blockdev_addchildren(target, (disk, instance), (disk.children, instance))
        if result.fail_msg:
            self._CheckAdded(disk, result.fail_msg, aside)
        self._old += aside

    def _CheckAdded(self, disk: objects.Disk, problem: str, aside: Sequence[objects.Disk]) -> None:
        """Raise OpExecError unless a mirror has its new volumes although the call failed; remove them if it has none."""
        lu, instance, target = self._lu, self._instance, self._target
        found = lu.rpc.call_blockdev_find(target, (disk, instance)).payload
        if found and found["ldisk_status"] != constants.LDS_FAULTY:
            lu.LogInfo(
                f"{disk.iv_name} has its new volumes on {self._Name(target)}, although the call failed: {problem}"
            )
            return
        # Of a mirror that is not seen they may be a complete copy.
        if found:
            Undo(lu, [(target, volume) for volume in disk.children], instance)
        old = _Named(aside)
        raise errors.OpExecError(
            f"Can't add local storage to drbd {disk.iv_name}: {problem}",
            hint=f"when both nodes answer, use 'gnt-instance activate-disks {instance.name}' and then"
            f" 'gnt-instance replace-disks --auto {instance.name}'"
            + (f"; the old volumes are called {old} now and are not removed" if old else ""),
        )

    def _Exists(self, volume: objects.Disk) -> bool:
        """Return whether a volume is on the target; one whose node does not say counts as present."""
        result = self._lu.rpc.call_blockdev_find(self._target, (volume, self._instance))
        return bool(result.fail_msg or result.payload)

    def _Rename(self, volumes: Sequence[objects.Disk], names: Sequence[objects.Disk]) -> None:
        if not volumes:
            return
        renames = [((volume, self._instance), named.logical_id) for volume, named in zip(volumes, names, strict=True)]
        result = self._lu.rpc.call_blockdev_rename(self._target, renames)
        result.Raise(f"Can't rename LVs on node {self._Name(self._target)}")


class NewSecondary(_Replacement):
    """The second half of the mirror goes to another node; ``lu`` holds the locks of all three."""

    def __init__(self, lu: InstanceLU[Any], early_release: bool, primary: str, old_secondary: str, new: str):
        super().__init__(lu, early_release, primary, old_secondary)
        self._new = new
        self._worked_on = list(lu.snapshot.InstanceDisks(lu.current))

    def Run(self) -> None:
        self.Move()
        self._Finish()

    def Complete(self) -> None:
        """Wait until the new half is complete, then remove the old one; all locks are kept."""
        self._SyncAndRemoveOld()

    def Move(self) -> None:
        """Make the new half and connect it, so that it is being filled."""
        lu = self._lu
        self._Step(1, "Check device existence")
        self._CheckExists([self._primary], self._worked_on)
        self._CheckVolumeGroups([self._primary, self._new], self._worked_on)
        self._Step(2, "Check peer consistency")
        self._CheckPrimaryDisks()
        mirrors.CheckAgreement(lu, self._instance, self._worked_on, self._primary, self._old_node)
        self._CheckNothingLeft()
        self._Step(3, "Allocate new storage")
        made: list[tuple[str, objects.Disk]] = []
        try:
            for disk in self._worked_on:
                lu.LogInfo(f"Adding new local storage on {self._Name(self._new)} for {disk.iv_name}")
                for child in Parts(lu, self._instance, disk):
                    CreateSingle(lu, self._new, self._instance, child, False, made)
            self._Step(4, "Changing drbd configuration")
            changed = self._MakeMirrors(made)
            # A disk of the primary may have failed meanwhile, and the guest gone on with the copy that is to go.
            mirrors.CheckHasAll(lu, self._instance, self._worked_on)
            self._Disconnect()
        except errors.GenericError:
            Undo(lu, made, self._instance)
            raise
        self._old = [child for disk in self._worked_on for child in disk.children]
        self._worked_on = lu.cfg.UpdateMany(changed, lu.ec_id)
        self._Connect()

    def _CheckPrimaryDisks(self) -> None:
        """Check that the primary node has all the data."""
        for disk in self._worked_on:
            result = self._lu.rpc.call_blockdev_find(self._primary, (disk, self._instance))
            status = None if result.fail_msg else result.payload
            if not status or status["ldisk_status"] != constants.LDS_OKAY:
                raise errors.OpExecError(
                    f"Node {self._Name(self._primary)} has degraded storage ({disk.iv_name}), unsafe to replace the"
                    f" secondary of instance {self._instance.name}",
                    hint=f"use 'gnt-instance activate-disks --wait-for-sync {self._instance.name}' and try again",
                )

    def _CheckNothingLeft(self) -> None:
        """Raise OpExecError if the new node has volumes of these disks already: a try that was cut off has left them.

        The primary node has all the data, but nobody else removes what might be a copy.
        """
        volumes = [volume for disk in self._worked_on for volume in disk.children]
        groups = sorted({disk_params.Of(volume).Source(volume) for volume in volumes})
        result = self._lu.rpc.call_lv_list([self._new], groups)[self._new]
        # A node that cannot say so refuses to make a volume that is there.
        found = {} if result.fail_msg else result.payload
        left = [name for volume in volumes for name in volume.VolumeNames() if name in found]
        if left:
            new = self._Name(self._new)
            commands = [f"lvremove {name}" for name in left]
            raise errors.OpExecError(
                f"Node {new} has volumes of instance {self._instance.name} already, which a job that was cut off has left there:"
                f" {', '.join(left)}",
                hint=f"the primary node has all the data: on node {new}, {self._EndUsers()}{disk_params.RunThere(*commands)}, then"
                " repeat the command",
            )

    def _EndUsers(self) -> str:
        """Return how devices of the new node are ended that belong to no disk, and may use what was left there."""
        states = self._lu.rpc.call_drbd_states([self._new])[self._new]
        minors = sorted(map(int, () if states.fail_msg else states.payload))
        unknown = [minor for minor in minors if minor not in self._lu.snapshot.UsedMinors(self._new)]
        return "".join(
            f"if 'drbdsetup show {minor}' shows one of them, run 'drbdsetup down resource{minor}'; "
            for minor in unknown
        )

    def _MakeMirrors(self, made: list[tuple[str, objects.Disk]]) -> list[objects.Disk]:
        """Make the new halves, not connected yet; return the disks as they will be."""
        lu = self._lu
        changed = []
        for disk in self._worked_on:
            new = _MovedMirror(lu, disk, self._primary, self._new)
            alone = disk_params.MirrorOf(new).Unconnected(new)
            CreateSingle(lu, self._new, self._instance, alone, False, made)
            changed.append(new)
        return changed

    def _Disconnect(self) -> None:
        """Disconnect the old half; a failure on its own node does not matter, one on the primary does."""
        lu, instance, old = self._lu, self._instance, self._Name(self._old_node)
        for disk in self._worked_on:
            lu.LogInfo(f"Shutting down drbd for {disk.iv_name} on {old}")
            result = lu.rpc.call_blockdev_shutdown(self._old_node, (disk, instance))
            if result.fail_msg:
                lu.LogWarning(
                    f"Failed to shutdown drbd for {disk.iv_name} on {old}: {result.fail_msg}",
                    hint=f"when it answers again, end minor {_Minor(disk, self._old_node)} there: 'drbdsetup show' names its"
                    " resource, 'drbdsetup down RESOURCE' ends it",
                )
        lu.LogInfo(f"Disconnecting the mirrors from node {old}")
        result = lu.rpc.call_drbd_disconnect_net([self._primary], (self._worked_on, instance))[self._primary]
        result.Raise(f"Can't detach the disks from the network on node {self._Name(self._primary)}")

    def _Connect(self) -> None:
        lu = self._lu
        lu.LogInfo(f"Connecting the mirrors to node {self._Name(self._new)}")
        pair = [self._primary, self._new]
        for result in lu.rpc.call_drbd_attach_net(pair, (self._worked_on, self._instance), False).values():
            if result.fail_msg:
                lu.LogWarning(
                    f"Can't attach drbd disks on node {result.node_name}: {result.fail_msg}",
                    hint=f"'gnt-instance activate-disks {self._instance.name}' connects both sides once these nodes reach each"
                    " other",
                )


def _Minor(disk: objects.Disk, node_uuid: str) -> int | None:
    return disk_params.Of(disk).Minor(disk, node_uuid)


def _MovedMirror(lu: InstanceLU[Any], disk: objects.Disk, primary: str, new_secondary: str) -> objects.Disk:
    """Return a mirror as it will be with another secondary node, whose minor is reserved for the job."""
    (minor,) = lu.cfg.AllocateDRBDMinor([new_secondary], disk.uuid, lu.ec_id)
    return disk_params.MirrorOf(disk).WithSecondary(disk.Decide(None), primary, new_secondary, minor)


def _Named(volumes: Iterable[objects.Disk]) -> str:
    return ", ".join(name for volume in volumes for name in volume.VolumeNames())


def _Aside(volume: objects.Disk, suffix: str) -> objects.Disk:
    template = disk_params.Of(volume)
    return template.At(volume, template.Place(volume) + suffix)


LUInstanceReplaceDisks.storage_class = NewStorage
LUInstanceReplaceDisks.secondary_class = NewSecondary
