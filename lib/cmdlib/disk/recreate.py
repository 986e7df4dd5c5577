"""Making the lost disks of an instance again, empty (doc/reference/drivers.md a.6)."""

from __future__ import annotations

import dataclasses
from typing import Any

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.allocation.placement import Placement
from ganeti.cmdlib.allocation.requests import Allocate
from ganeti.cmdlib.base import Feedback
from ganeti.cmdlib.common import (
    STATE_NOT_RUNNING,
    CheckInstanceState,
    CheckNodeOnline,
    ExpandNode,
    LockedInstance,
    LockInstancesNodes,
)
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk.devices import CreateDisks, Undo, WipeOrUndo
from ganeti.cmdlib.instance.base import CheckNotForthcoming, InstanceLU
from ganeti.cmdlib.instance.shape import OfInstance
from ganeti.params import disk as disk_params
from ganeti.utils.text import Repeated

_CHANGEABLE = frozenset(["size", "mode", "spindles"])


class LUInstanceRecreateDisks(InstanceLU[opcodes.OpInstanceRecreateDisks]):
    """Makes missing disks of a stopped instance again, with other sizes or on other nodes if wanted."""

    LOCKS_NODES = True
    LOCKS_RES = True

    # --- the request by itself ----------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        op = self.op
        pairs = [(item, {}) if isinstance(item, int) else (item[0], dict(item[1])) for item in op.disks]
        indexes = [index for index, _ in pairs]
        if again := Repeated(indexes):
            named = ", ".join(str(index) for index in again)
            raise errors.OpPrereqError(f"Some disks have been specified more than once: {named}", errors.ECODE_INVAL)
        for index, values in pairs:
            unknown = sorted(set(values) - _CHANGEABLE)
            if unknown:
                raise errors.OpPrereqError(
                    f"Parameters of disk {index} cannot be changed when recreating it: {', '.join(unknown)}",
                    errors.ECODE_INVAL,
                )
        self._placement = Placement(self, node_slot="nodes", required=False)
        self._wanted: dict[int, dict[str, Any]] = dict(pairs)

    def ExpandNames(self) -> None:
        super().ExpandNames()
        nodes = [ExpandNode(self.snapshot, name) for name in self.op.nodes]
        self.op.nodes = [node.name for node in nodes]
        self.op.node_uuids = [node.uuid for node in nodes]
        if self._placement.allocator:
            self._placement.Declare(self._Request, self._AllowedGroups)

    def _AllowedGroups(self) -> list[str]:
        return [self.snapshot.nodes[LockedInstance(self).primary_node].group]

    def _Request(self) -> Allocate:
        instance = LockedInstance(self)
        self._PlanDisks(instance)
        (group,) = self._AllowedGroups()
        request = OfInstance(self.snapshot, instance, self._planned, group)
        return self._WithoutOldNodes(instance, request)

    def _WithoutOldNodes(self, instance: objects.Instance, request: Allocate) -> Allocate:
        """Return the request for nodes that have no volumes of the instance: none is ever made over an old one."""
        snapshot = self.snapshot
        old = [uuid for uuid in snapshot.AllNodes(instance) if self._HasVolumes(instance, uuid)]
        if not old:
            return request
        names = ", ".join(map(snapshot.NodeName, old))
        others = [node for node in snapshot.nodes.values() if node.group == request.group_uuid and node.uuid not in old]
        usable = [node for node in others if not (node.offline or node.drained) and node.vm_capable]
        if len(usable) < request.required_nodes:
            raise errors.OpPrereqError(
                f"Old volumes of instance {instance.name} are still on {names}, where no new ones can be made; it needs"
                f" {request.required_nodes} other nodes of its node group, and {len(usable)} can be used",
                errors.ECODE_STATE,
                hint="remove the old volumes by hand if nothing on them is needed, and try again; a mirror whose secondary side"
                f" alone is lost gets it again with 'gnt-instance replace-disks -n NODE {instance.name}'",
            )
        self.LogInfo(f"Not offered to the allocator because old volumes are still there: {names}")
        return dataclasses.replace(request, whitelist=tuple(sorted(node.name for node in others)))

    def _HasVolumes(self, instance: objects.Instance, uuid: str) -> bool:
        """Return whether a node has volumes of the instance; a silent one is not chosen anyway."""
        disks = [disk for disk in self.snapshot.InstanceDisks(instance) if uuid in disk.nodes]
        volumes = [part for disk in disks for part in disk.children or (disk,)]
        found = (self.rpc.call_blockdev_find(uuid, (volume, instance)) for volume in volumes)
        return any(not result.fail_msg and result.payload for result in found)

    def DeclareLocks(self, level: int) -> None:
        assert self.needed_locks is not None
        if self._placement.allocator:
            self._placement.DeclareLocks(level)
        elif level == locking.LEVEL_NODE and self.op.node_uuids:
            self.needed_locks[level] = list(dict.fromkeys(self.op.node_uuids))
        elif level == locking.LEVEL_NODE:
            LockInstancesNodes(self)
        else:
            super().DeclareLocks(level)

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance, snapshot = self.instance, self.snapshot
        self._PlanDisks(instance)
        old_nodes = snapshot.AllNodes(instance)
        new_nodes = self._placement.Chosen() if self._placement.allocator else list(self.op.node_uuids or ())
        if new_nodes and len(new_nodes) != len(old_nodes):
            raise errors.OpPrereqError(
                f"Instance {instance.name} currently has {len(old_nodes)} nodes, but {len(new_nodes)} replacement"
                " nodes were specified",
                errors.ECODE_INVAL,
            )
        if again := Repeated(new_nodes):
            named = ", ".join(snapshot.nodes[uuid].name for uuid in again)
            raise errors.OpPrereqError(f"A node was specified more than once: {named}", errors.ECODE_INVAL)
        self._nodes = new_nodes or list(old_nodes)
        CheckNodeOnline(snapshot.nodes[self._nodes[0]])
        # Where the old primary node is gone for good, what it might run does not matter.
        if not (new_nodes and snapshot.nodes[instance.primary_node].offline):
            CheckInstanceState(self, instance, STATE_NOT_RUNNING)
        self._CheckDisks(instance, bool(new_nodes))

    def _PlanDisks(self, instance: objects.Instance) -> None:
        """Work out the disks as they will be."""
        CheckNotForthcoming(instance)
        if not instance.disks:
            raise errors.OpPrereqError(f"Instance '{instance.name}' has no disks", errors.ECODE_INVAL)
        count = len(instance.disks)
        if not self._wanted:
            self._wanted = {index: {} for index in range(count)}
        too_high = max(self._wanted)
        if too_high >= count:
            raise errors.OpPrereqError(f"Invalid disk index '{too_high}': there are {count}", errors.ECODE_INVAL)
        self._planned = [self._Changed(disk, index) for index, disk in self._Chosen(instance)]

    def _CheckDisks(self, instance: objects.Instance, other_nodes: bool) -> None:
        if other_nodes and len(self._wanted) != len(instance.disks):
            raise errors.OpPrereqError(
                "Can't recreate disks partially and change the nodes at the same time", errors.ECODE_INVAL
            )
        if any(disk.adopts is not None for _, disk in self._Chosen(instance)):
            raise errors.OpPrereqError(
                f"Instance {instance.name} has not adopted its volumes completely: no new ones are made in their place",
                errors.ECODE_STATE,
                hint=f"'gnt-instance remove {instance.name}' gives them their own names back; adopt them again then",
            )
        template = self.snapshot.DiskTemplate(instance)
        requests = [diskgen.DiskRequest(size=disk.size, spindles=disk.spindles) for disk in self._planned]
        diskgen.CheckSpindles(self.snapshot, self._nodes, template, requests)

    def _Chosen(self, instance: objects.Instance) -> list[tuple[int, objects.Disk]]:
        disks = self.snapshot.InstanceDisks(instance)
        return [(index, disks[index]) for index in sorted(self._wanted)]

    def _Changed(self, disk: objects.Disk, index: int) -> objects.Disk:
        values = self._wanted[index]
        changes: dict[str, Any] = {key: values[key] for key in ("mode", "spindles") if key in values}
        if "size" in values:
            changes["size"] = diskgen.ParseSize(values["size"], f"disk {index}")
            if disk.children:
                data, *rest = disk.children
                changes["children"] = (data.Replace(size=changes["size"]), *rest)
        # Both sides are new.
        return (disk if disk.behind is None else disk.Decide(None)).Replace(**changes)

    # --- doing it -----------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> None:
        instance = self.instance
        planned = self._planned
        moved = self._nodes != list(self.snapshot.AllNodes(instance))
        if moved:
            planned = [self._Moved(disk) for disk in planned]
            self.LogInfo("The old devices are left as they are on the old nodes")
        changed: list[objects.ConfigObject] = list(planned)
        if moved:
            instance = instance.Replace(primary_node=self._nodes[0])
            changed.append(instance)
        # What is recorded of the old devices holds until there are new ones.
        made = CreateDisks(self, instance, planned, self.snapshot.DiskTemplate(instance))
        try:
            self.cfg.UpdateMany(changed, self.ec_id)
        except BaseException:
            Undo(self, made, instance)
            raise
        instance = self.current
        disks = [disk for _, disk in self._Chosen(instance)]
        if self.snapshot.cluster.prealloc_wipe_disks:
            WipeOrUndo(self, instance, [(disk, 0) for disk in disks], made)

    def _Moved(self, disk: objects.Disk) -> objects.Disk:
        return disk_params.Of(disk).OnNodes(diskgen.JobReservations(self), disk, self._nodes)
