"""What nodes keep disks in: volumes and storage units, listed, changed, repaired (doc/reference/drivers.md d.7, design 2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from ganeti import constants, errors, locking, objects, opcodes
from ganeti.cmdlib.base import Feedback, Filled, NoHooksLU
from ganeti.cmdlib.common import ExpandNode, VolumesOf
from ganeti.params import disk
from ganeti.utils.text import NiceSortKey

_VOLUME_FIELDS = ("node", "phys", "vg", "name", "size", "instance")
_UNIT_FIELDS = ("node", "type", "name", "size", "used", "free", "allocatable")
# What the caller knows by itself.
_OWN_FIELDS = ("node", "type")
LVM_PV, LVM_VG = "lvm-pv", "lvm-vg"
_ALLOCATABLE = "allocatable"
_FIX_CONSISTENCY = "fix-consistency"
_NOBODY = "-"


def CheckStorageType(cluster: objects.Cluster, storage_type: str) -> None:
    """Raise OpPrereqError unless units of this type can be reported, and the cluster uses them."""
    types = disk.UnitTypes()
    if storage_type not in types:
        raise errors.OpPrereqError(
            f"Storage type '{storage_type}' has no units to report; those that have: {', '.join(types)}",
            errors.ECODE_INVAL,
        )
    if not set(types[storage_type]).intersection(cluster.enabled_disk_templates):
        raise errors.OpPrereqError(
            f"Storage type '{storage_type}' is not used: none of its disk templates"
            f" ({', '.join(sorted(types[storage_type]))}) is enabled",
            errors.ECODE_INVAL,
        )


def StorageArguments(cluster: objects.Cluster, storage_type: str) -> list[Any]:
    """Return a node's arguments besides the type: directories of file storage."""
    fields = [disk.TEMPLATES[name].directory for name in disk.UnitTypes().get(storage_type, ())]
    return [[getattr(cluster, field) for field in fields if field]] if any(fields) else []


_NodesOp = TypeVar("_NodesOp", opcodes.OpNodeQueryvols, opcodes.OpNodeQueryStorage)


class _NodesLU(NoHooksLU[_NodesOp]):
    """A unit that looks at some nodes, or at all."""

    REQ_BGL = False
    CHANGES_NODES = False

    def _CheckFields(self, known: tuple[str, ...]) -> None:
        unknown = [name for name in self.op.output_fields if name not in known]
        if unknown:
            raise errors.OpPrereqError(
                f"Unknown output fields selected: {', '.join(unknown)[:200]}",
                errors.ECODE_INVAL,
                hint=f"known are: {', '.join(known)}",
            )

    def ExpandNames(self) -> None:
        self.share_locks[locking.LEVEL_NODE] = self.share_locks[locking.LEVEL_NODE_ALLOC] = 1
        if self.op.nodes:
            uuids = [ExpandNode(self.snapshot, name).uuid for name in self.op.nodes]
            self.needed_locks = {locking.LEVEL_NODE: list(dict.fromkeys(uuids))}
        else:
            self.needed_locks = dict.fromkeys((locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODE), locking.ALL_SET)

    def _Answers(self, results: dict[str, Any]) -> Iterator[tuple[objects.Node, Any]]:
        """Return (node, payload) of those that answered, by name; skip offline ones and report failures."""
        nodes = self.snapshot.nodes
        for uuid in sorted(results, key=lambda uuid: NiceSortKey(nodes[uuid].name)):
            result = results[uuid]
            if result.offline:
                continue
            if result.fail_msg:
                self.LogWarning(f"Can't get storage data from node {result.node_name}: {result.fail_msg}")
                continue
            yield nodes[uuid], result.payload

    def _Asked(self) -> list[str]:
        return sorted(self.owned_locks(locking.LEVEL_NODE))


class LUNodeQueryvols(_NodesLU[opcodes.OpNodeQueryvols]):
    """The logical volumes of nodes, and whose they are."""

    def CheckArguments(self) -> None:
        self._CheckFields(_VOLUME_FIELDS)

    def Exec(self, feedback: Feedback) -> list[list[str]]:
        owners = self._Owners()
        rows = []
        for node, volumes in self._Answers(self.rpc.call_node_volumes(self._Asked())):
            for volume in sorted(volumes, key=lambda volume: str(volume["dev"])):
                owner = owners.get((node.uuid, f"{volume['vg']}/{volume['name']}"), _NOBODY)
                facts = {
                    "node": node.name,
                    "phys": volume["dev"],
                    "vg": volume["vg"],
                    "name": volume["name"],
                    "size": int(float(volume["size"])),
                    "instance": owner,
                }
                rows.append([str(facts[name]) for name in self.op.output_fields])
        return rows

    def _Owners(self) -> dict[tuple[str, str], str]:
        """Return the names of instances by (node, vg/lv)."""
        snapshot = self.snapshot
        return {key: inst.name for inst in snapshot.instances.values() for key in VolumesOf(snapshot, inst)}


class LUNodeQueryStorage(_NodesLU[opcodes.OpNodeQueryStorage]):
    """The storage units of nodes."""

    def CheckArguments(self) -> None:
        self._CheckFields(_UNIT_FIELDS)
        cluster = self.snapshot.cluster
        if self.op.storage_type is None:
            self.op.storage_type = disk.TEMPLATES[cluster.enabled_disk_templates[0]].storage_type
        CheckStorageType(cluster, self.op.storage_type)

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        kind = Filled(self.op.storage_type)
        fields = ["name", *(name for name in self.op.output_fields if name not in ("name", *_OWN_FIELDS))]
        fields = list(dict.fromkeys(fields))
        arguments = StorageArguments(self.snapshot.cluster, kind)
        results = self.rpc.call_storage_list(self._Asked(), kind, arguments, self.op.name, fields)
        rows = []
        for node, units in self._Answers(results):
            for unit in sorted(units, key=lambda unit: NiceSortKey(str(unit[0]))):
                facts = {**dict(zip(fields, unit, strict=True)), "node": node.name, "type": kind}
                rows.append([facts[name] for name in self.op.output_fields])
        return rows


_UnitOp = TypeVar("_UnitOp", opcodes.OpNodeModifyStorage, opcodes.OpRepairNodeStorage)


class _UnitLU(NoHooksLU[_UnitOp]):
    """A unit that changes one storage unit of one node."""

    REQ_BGL = False

    def CheckArguments(self) -> None:
        if not self.op.name:
            raise errors.OpPrereqError("The name of the storage unit is missing", errors.ECODE_INVAL)

    def ExpandNames(self) -> None:
        node = ExpandNode(self.snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name, self.op.node_uuid = node.name, node.uuid
        self.needed_locks = {locking.LEVEL_NODE: [node.uuid]}

    def CheckPrereq(self) -> None:
        CheckStorageType(self.snapshot.cluster, self.op.storage_type)


class LUNodeModifyStorage(_UnitLU[opcodes.OpNodeModifyStorage]):
    """Says whether new volumes may lie on a physical volume."""

    def CheckArguments(self) -> None:
        super().CheckArguments()
        if self.op.storage_type != LVM_PV:
            raise errors.OpPrereqError(
                f"Storage units of type '{self.op.storage_type}' cannot be modified, only {LVM_PV}", errors.ECODE_INVAL
            )
        unknown = sorted(set(self.op.changes) - {_ALLOCATABLE})
        if unknown:
            raise errors.OpPrereqError(
                f"The following fields cannot be modified for storage units of type '{LVM_PV}': {', '.join(unknown)}",
                errors.ECODE_INVAL,
            )
        if not isinstance(self.op.changes.get(_ALLOCATABLE, True), bool):
            raise errors.OpPrereqError(f"{_ALLOCATABLE} must be true or false", errors.ECODE_INVAL)

    def Exec(self, feedback: Feedback) -> None:
        arguments = StorageArguments(self.snapshot.cluster, self.op.storage_type)
        self.rpc.call_storage_modify(
            Filled(self.op.node_uuid), self.op.storage_type, arguments, Filled(self.op.name), self.op.changes
        ).Raise(f"Failed to modify storage unit '{self.op.name}' on {self.op.node_name}")


class LURepairNodeStorage(_UnitLU[opcodes.OpRepairNodeStorage]):
    """Remove the parts of a volume group that lie on missing disks.

    Rejected unless every instance with a volume there has a good copy elsewhere (design 2.1).
    """

    def CheckArguments(self) -> None:
        super().CheckArguments()
        if self.op.storage_type != LVM_VG:
            raise errors.OpPrereqError(
                f"Storage units of type '{self.op.storage_type}' cannot be repaired, only {LVM_VG}", errors.ECODE_INVAL
            )

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        problems = [text for inst in self._Instances() for text in self._Problems(inst)]
        if not problems:
            return
        text = f"Storage of node {self.op.node_name} may hold the only good copy of data: {'; '.join(problems[:20])}"
        if not self.op.ignore_consistency:
            raise errors.OpPrereqError(
                text, errors.ECODE_STATE, hint="mend the other copies first; --ignore-consistency accepts the loss"
            )
        self.LogWarning(text)

    def _Instances(self) -> list[objects.Instance]:
        """Return the instances with a volume on the node, by name."""
        snapshot = self.snapshot
        node = snapshot.NodeInstances(Filled(self.op.node_uuid))
        found = {uuid: snapshot.instances[uuid] for uuids in node for uuid in uuids}
        lvm = disk.With(lvm=True)
        return sorted(
            (inst for inst in found.values() if any(dev.dev_type in lvm for dev in snapshot.InstanceDisks(inst))),
            key=lambda inst: NiceSortKey(inst.name),
        )

    def _Problems(self, inst: objects.Instance) -> Iterator[str]:
        """Return why the copies on the other nodes are not enough."""
        snapshot = self.snapshot
        internal = disk.With(mirror=disk.INTERNAL)
        disks = [dev for dev in snapshot.InstanceDisks(inst) if self.op.node_uuid in dev.nodes]
        if any(dev.dev_type not in internal for dev in disks):
            yield f"{inst.name} has disks on this node only"
            return
        if not inst.disks_active:
            yield f"{inst.name} is stopped: whether its other copy is good shows only with active disks"
            return
        for other in {uuid for dev in disks for uuid in dev.nodes} - {self.op.node_uuid}:
            yield from self._Faults(inst, disks, other)

    def _Faults(self, inst: objects.Instance, disks: list[objects.Disk], node_uuid: str) -> Iterator[str]:
        result = self.rpc.call_blockdev_getmirrorstatus(node_uuid, (disks, inst))
        if result.fail_msg:
            yield f"node {result.node_name} did not report the state of {inst.name}: {result.fail_msg}"
            return
        for index, status in enumerate(result.payload):
            if status["ldisk_status"] != constants.LDS_OKAY:
                yield f"disk {index} of {inst.name} is not good on node {result.node_name}"

    def Exec(self, feedback: Feedback) -> None:
        feedback(f"Repairing storage unit '{self.op.name}' on {self.op.node_name} ...")
        arguments = StorageArguments(self.snapshot.cluster, self.op.storage_type)
        self.rpc.call_storage_execute(
            Filled(self.op.node_uuid), self.op.storage_type, arguments, Filled(self.op.name), _FIX_CONSISTENCY
        ).Raise(f"Failed to repair storage unit '{self.op.name}' on {self.op.node_name}")
