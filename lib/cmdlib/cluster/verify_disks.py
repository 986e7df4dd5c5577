"""Are the disks that should be there, there; and as large as recorded? (doc/reference/drivers.md c.3, d.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import locking, objects, opcodes
from ganeti.cmdlib.base import Feedback, NoHooksLU, ResultWithJobs
from ganeti.cmdlib.cluster.verify_storage import AskForDisks
from ganeti.cmdlib.common import (
    REPLACE,
    ExpandGroup,
    ExpandInstance,
    LockInstancesNodes,
    ShareAll,
    StillThere,
    VolumesOf,
)
from ganeti.cmdlib.disk.devices import ExclusiveStorage
from ganeti.params import disk as disk_params
from ganeti.utils.text import NiceSort

_MIB = 1 << 20
# Seconds for one call, and for the whole look, which holds locks of instances and nodes meanwhile: whoever wants to move
# instances away from a node that hangs has to wait for them.
_CALL_SECONDS, _LOOK_SECONDS = 30.0, 90.0

Volume = tuple[str, str]


class LUClusterVerifyDisks(NoHooksLU[opcodes.OpClusterVerifyDisks]):
    """Submits the verification of every group's disks."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        wanted = None if self.op.group_name is None else [ExpandGroup(self.snapshot, self.op.group_name).uuid]
        self.needed_locks = {locking.LEVEL_NODEGROUP: locking.ALL_SET if wanted is None else wanted}
        self.share_locks = ShareAll()

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        snapshot = self.snapshot
        templates = {snapshot.DiskTemplate(instance) for instance in snapshot.WholeInstances()}
        if templates <= disk_params.With(looked_after=True):
            return ResultWithJobs([])
        names = NiceSort(snapshot.nodegroups[uuid].name for uuid in self.owned_locks(locking.LEVEL_NODEGROUP))
        return ResultWithJobs(
            [[opcodes.OpGroupVerifyDisks(group_name=name, is_strict=self.op.is_strict)] for name in names]
        )


class LUGroupVerifyDisks(NoHooksLU[opcodes.OpGroupVerifyDisks]):
    """Find nodes that do not answer, inactive disks and missing volumes, for instances that use their disks.

    Nothing can be said of an offline node, or one that does not answer: its volumes are not missing.  (3.1 names them, and so
    activates no disk of an instance whose other node is offline.)
    """

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        group = ExpandGroup(self.snapshot, self.op.group_name)
        self._group_uuid = group.uuid
        self.op.group_name = group.name
        self.needed_locks = {
            locking.LEVEL_INSTANCE: sorted(instance.name for instance in self._Instances()),
            locking.LEVEL_NODE_ALLOC: locking.ALL_SET,
            locking.LEVEL_NODEGROUP: [],
            locking.LEVEL_NODE: [],
        }
        self.share_locks = ShareAll()
        if not self.op.is_strict:
            self.opportunistic_locks[locking.LEVEL_INSTANCE] = self.opportunistic_locks[locking.LEVEL_NODE] = True

    def _Instances(self) -> list[objects.Instance]:
        """Return those that have a node in the group."""
        snapshot = self.snapshot
        members = set(snapshot.GroupNodes(self._group_uuid))
        return [inst for inst in snapshot.WholeInstances() if members.intersection(snapshot.AllNodes(inst))]

    def _Owned(self) -> list[objects.Instance]:
        found = [self.snapshot.InstanceByName(name) for name in NiceSort(self.owned_locks(locking.LEVEL_INSTANCE))]
        return [instance for instance in found if instance is not None]

    def DeclareLocks(self, level: int) -> None:
        snapshot = self.snapshot
        assert self.needed_locks is not None
        if level == locking.LEVEL_NODEGROUP:
            nodes = {uuid for instance in self._Owned() for uuid in snapshot.AllNodes(instance)}
            self.needed_locks[level] = sorted({self._group_uuid, *(snapshot.nodes[uuid].group for uuid in nodes)})
        elif level == locking.LEVEL_NODE:
            members = snapshot.GroupNodes(self._group_uuid)
            nodes = {uuid for instance in self._Owned() for uuid in snapshot.AllNodes(instance)}
            self.needed_locks[level] = sorted({*members, *nodes})

    def CheckPrereq(self) -> None:
        snapshot = self.snapshot
        StillThere(snapshot.nodegroups.get(self._group_uuid), "Group", self.op.group_name)

    def Exec(self, feedback: Feedback) -> tuple[dict[str, str], list[str], dict[str, list[list[str]]]]:
        snapshot = self.snapshot
        active = [instance for instance in self._Owned() if instance.disks_active]
        can_tell = {
            uuid
            for uuid in self.owned_locks(locking.LEVEL_NODE)
            if snapshot.nodes[uuid].vm_capable and not snapshot.nodes[uuid].offline
        }
        bad_nodes: dict[str, str] = {}
        sleeping: set[str] = set()
        with self.rpc.Within(_CALL_SECONDS, _LOOK_SECONDS):
            missing = self._LookForVolumes(active, can_tell, bad_nodes, sleeping)
            self._LookForFiles(active, can_tell, bad_nodes, missing)
            self._AskMirrors(active, can_tell, bad_nodes, sleeping)
        return (bad_nodes, NiceSort(sleeping), missing)

    def _LookForVolumes(
        self, active: Sequence[objects.Instance], can_tell: set[str], bad_nodes: dict[str, str], sleeping: set[str]
    ) -> dict[str, list[list[str]]]:
        owners: dict[Volume, str] = {}
        for instance in active:
            owners.update(dict.fromkeys(VolumesOf(self.snapshot, instance), instance.name))
        nodes = sorted(can_tell.intersection(node for node, _ in owners))
        for uuid, result in self.rpc.call_lv_list(nodes, []).items() if nodes else ():
            if result.fail_msg:
                bad_nodes[uuid] = result.fail_msg
                if result.failure is not None:
                    can_tell.discard(uuid)  # what hangs is asked only once
                continue
            for name, (_size, inactive, _open) in result.payload.items():
                owner = owners.pop((uuid, name), None)
                if owner is not None and inactive:
                    sleeping.add(owner)
        missing: dict[str, list[list[str]]] = {}
        for (uuid, name), owner in sorted(owners.items()):
            if uuid in can_tell and uuid not in bad_nodes:
                missing.setdefault(owner, []).append([uuid, name])
        return missing

    def _LookForFiles(
        self,
        active: Sequence[objects.Instance],
        can_tell: set[str],
        bad_nodes: dict[str, str],
        missing: dict[str, list[list[str]]],
    ) -> None:
        """Find files of disks that are gone; a file is named by its path, a volume by ``vg/lv``."""
        snapshot = self.snapshot
        templates = disk_params.With(file_based=True)
        chosen = [instance for instance in active if snapshot.DiskTemplate(instance) in templates]
        findings, failed = AskForDisks(self.rpc, snapshot, chosen, can_tell)
        bad_nodes.update({uuid: text for uuid, text in failed.items() if uuid not in bad_nodes})
        for found in findings:
            if found.problem is not None:
                disk = snapshot.InstanceDisks(found.instance)[found.number]
                missing.setdefault(found.instance.name, []).append([found.node, disk_params.Of(disk).Place(disk)])

    def _AskMirrors(
        self, active: Sequence[objects.Instance], can_tell: set[str], bad_nodes: dict[str, str], sleeping: set[str]
    ) -> None:
        snapshot = self.snapshot
        wanted: dict[str, list[Any]] = {}
        internal = disk_params.With(mirror=disk_params.INTERNAL)
        for instance in active:
            mirrors = [disk for disk in snapshot.InstanceDisks(instance) if disk.dev_type in internal]
            for uuid in can_tell.intersection(snapshot.AllNodes(instance)) if mirrors else ():
                wanted.setdefault(uuid, []).append((mirrors, instance))
        for uuid, pairs in sorted(wanted.items()):
            result = self.rpc.call_drbd_needs_activation(uuid, pairs)
            if result.fail_msg:
                bad_nodes.setdefault(uuid, result.fail_msg)
                continue
            waiting = set(result.payload)
            sleeping.update(inst.name for disks, inst in pairs if waiting.intersection(disk.uuid for disk in disks))


class LUClusterRepairDiskSizes(NoHooksLU[opcodes.OpClusterRepairDiskSizes]):
    """Makes the recorded sizes of disks those of the devices."""

    REQ_BGL = False
    CHANGES_NODES = False  # it looks at nodes and corrects the configuration

    def ExpandNames(self) -> None:
        self.share_locks[locking.LEVEL_NODE_ALLOC] = self.share_locks[locking.LEVEL_NODE_RES] = 1
        if self.op.instances:
            names = sorted({ExpandInstance(self.snapshot, name).name for name in self.op.instances})
            self.needed_locks = {locking.LEVEL_INSTANCE: names, locking.LEVEL_NODE_RES: []}
            self.recalculate_locks[locking.LEVEL_NODE_RES] = REPLACE
        else:
            levels = (locking.LEVEL_INSTANCE, locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODE_RES)
            self.needed_locks = dict.fromkeys(levels, locking.ALL_SET)

    def DeclareLocks(self, level: int) -> None:
        if level == locking.LEVEL_NODE_RES and level in self.recalculate_locks:
            LockInstancesNodes(self, primary_only=True, level=level)

    def CheckPrereq(self) -> None:
        """Collect the disks whose instances are locked, by primary node."""
        snapshot = self.snapshot
        self._by_node: dict[str, list[tuple[objects.Instance, int, objects.Disk]]] = {}
        for name in NiceSort(self.owned_locks(locking.LEVEL_INSTANCE)):
            instance = snapshot.InstanceByName(name)
            if instance is not None:
                disks = [(instance, index, disk) for index, disk in enumerate(snapshot.InstanceDisks(instance))]
                if disks:
                    self._by_node.setdefault(instance.primary_node, []).extend(disks)

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        changed: list[list[Any]] = []
        for node_uuid, entries in self._by_node.items():
            pairs = [([disk], instance) for instance, _, disk in entries]
            result = self.rpc.call_blockdev_getdimensions(node_uuid, pairs)
            if result.fail_msg:
                self.LogWarning(f"Node {result.node_name} did not report the sizes of disks: {result.fail_msg}")
                continue
            for (instance, index, disk), dimensions in zip(entries, result.payload, strict=True):
                if dimensions is None:
                    self.LogWarning(f"Disk {index} of instance {instance.name} did not return size information")
                else:
                    changed += self._Correct(instance, index, disk, dimensions)
        return changed

    def _Correct(
        self, instance: objects.Instance, index: int, disk: objects.Disk, dimensions: Sequence[Any]
    ) -> list[list[Any]]:
        """Store the sizes that differ; return the lines of the result."""
        changed: list[list[Any]] = []
        size, spindles = int(dimensions[0]) // _MIB, dimensions[1]
        fresh = disk
        if size != disk.size:
            self.LogInfo(
                f"Disk {index} of instance {instance.name} has {size} MiB, recorded were {disk.size}: corrected"
            )
            fresh = fresh.Replace(size=size)
            changed.append([instance.name, index, "size", size])
        if spindles is not None and spindles != disk.spindles and ExclusiveStorage(self, instance.primary_node):
            self.LogInfo(
                f"Disk {index} of instance {instance.name} has {spindles} spindles, recorded were {disk.spindles}: corrected"
            )
            fresh = fresh.Replace(spindles=spindles)
            changed.append([instance.name, index, "spindles", spindles])
        grown = _WithLargeChild(fresh)
        if grown is not fresh:
            self.LogInfo(f"Data of disk {index} of instance {instance.name} was recorded as too small: corrected")
            if not any(line[2] == "size" for line in changed):
                changed.append([instance.name, index, "size", grown.size])
        if grown is not disk:
            self.cfg.Update(grown, self.ec_id)
        return changed


def _WithLargeChild(disk: objects.Disk) -> objects.Disk:
    """Return the mirror with its data volume recorded at least as large as itself."""
    if not disk.children:
        return disk
    data, *rest = disk.children
    if data.size >= disk.size:
        return disk
    return disk.Replace(children=(data.Replace(size=disk.size), *rest))
