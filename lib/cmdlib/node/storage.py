"""What nodes keep disks in: volumes and storage units, listed, changed, repaired (doc/reference/drivers.md d.7, design 2.1)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ganeti import constants, errors, locking, objects, opcodes, runtime, watchedgroups
from ganeti.cmdlib.base import Feedback, Filled, NoHooksLU
from ganeti.cmdlib.common import ExpandNode, VolumesOf
from ganeti.cmdlib.disk import mirrors
from ganeti.params import disk, units
from ganeti.utils.text import NiceSortKey

_VOLUME_FIELDS = ("node", "phys", "vg", "name", "size", "instance", "health")
_NOBODY = "-"
_PARTIAL = "partial"
_LOOK_SECONDS = 60.0


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
            hint=f"types in use: {', '.join(_UsedTypes(cluster)) or 'none'}; 'gnt-cluster modify --enabled-disk-templates=LIST'"
            " enables other templates, and replaces the list that there is",
        )


def _UsedTypes(cluster: objects.Cluster) -> list[str]:
    enabled = set(cluster.enabled_disk_templates)
    return [unit for unit, templates in disk.UnitTypes().items() if enabled.intersection(templates)]


def Health(volume: Mapping[str, Any]) -> str:
    """Return ``partial`` for a volume that is partly or wholly on a missing disk, as its node reports it, else nothing."""
    if "health" in volume:
        return str(volume["health"])
    # An older node: LVM has no path for a device that is away.
    return "" if str(volume["dev"]).startswith("/") else _PARTIAL


_NodesOp = TypeVar("_NodesOp", opcodes.OpNodeQueryvols, opcodes.OpNodeQueryStorage)


class _NodesLU(NoHooksLU[_NodesOp]):
    """A unit that looks at some nodes, or at all.

    It takes no locks: what it returns may be out of date when it arrives in any case, and if a node hangs, nobody has to
    wait for this look.
    """

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
        self.needed_locks = {}
        snapshot = self._seen = self.snapshot
        uuids = [ExpandNode(snapshot, name).uuid for name in self.op.nodes] or snapshot.nodes
        self._asked = sorted(set(uuids))

    def _Within(self) -> AbstractContextManager[None]:
        return self.rpc.Within(_LOOK_SECONDS, _LOOK_SECONDS)

    def _Answers(self, results: dict[str, Any]) -> Iterator[tuple[objects.Node, Any]]:
        """Return (node, payload) of those that answered, by name; skip offline ones and report failures."""
        nodes = self._seen.nodes
        for uuid in sorted(results, key=lambda uuid: NiceSortKey(nodes[uuid].name)):
            result = results[uuid]
            if result.offline:
                continue
            if result.fail_msg:
                self.LogWarning(f"Can't get storage data from node {result.node_name}: {result.fail_msg}")
                continue
            yield nodes[uuid], result.payload


class LUNodeQueryvols(_NodesLU[opcodes.OpNodeQueryvols]):
    """The logical volumes of nodes, and whose they are."""

    def CheckArguments(self) -> None:
        self._CheckFields(_VOLUME_FIELDS)

    def Exec(self, feedback: Feedback) -> list[list[str]]:
        owners = self._Owners()
        rows = []
        with self._Within():
            results = self.rpc.call_node_volumes(self._asked)
        for node, volumes in self._Answers(results):
            for volume in sorted(volumes, key=lambda volume: str(volume["dev"])):
                owner = owners.get((node.uuid, f"{volume['vg']}/{volume['name']}"), _NOBODY)
                facts = {
                    "node": node.name,
                    "phys": volume["dev"],
                    "vg": volume["vg"],
                    "name": volume["name"],
                    "size": int(float(volume["size"])),
                    "instance": owner,
                    "health": Health(volume),
                }
                rows.append([str(facts[name]) for name in self.op.output_fields])
        return rows

    def _Owners(self) -> dict[tuple[str, str], str]:
        """Return the names of instances by (node, vg/lv)."""
        snapshot = self.snapshot
        return {key: inst.known_as for inst in snapshot.instances.values() for key in VolumesOf(snapshot, inst)}


class LUNodeQueryStorage(_NodesLU[opcodes.OpNodeQueryStorage]):
    """The storage units of nodes."""

    def CheckArguments(self) -> None:
        cluster = self.snapshot.cluster
        if self.op.storage_type is None:
            self.op.storage_type = disk.TEMPLATES[cluster.enabled_disk_templates[0]].storage_type
        self._CheckFields((*units.OWN_FIELDS, *units.TYPES[self.op.storage_type].fields))
        CheckStorageType(cluster, self.op.storage_type)

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        kind = units.TYPES[Filled(self.op.storage_type)]
        fields = [units.NAME, *(name for name in self.op.output_fields if name not in units.OWN_FIELDS)]
        fields = list(dict.fromkeys(fields))
        arguments = kind.Arguments(self.snapshot.cluster)
        with self._Within():
            results = self.rpc.call_storage_list(self._asked, kind.name, arguments, self.op.name, fields)
        rows = []
        for node, found in self._Answers(results):
            for unit in sorted(found, key=lambda unit: NiceSortKey(str(unit[0]))):
                facts = {**dict(zip(fields, unit, strict=True)), "node": node.name, "type": kind.name}
                rows.append([facts[name] for name in self.op.output_fields])
        return rows


_UnitOp = TypeVar("_UnitOp", opcodes.OpNodeModifyStorage, opcodes.OpRepairNodeStorage)


class _UnitLU(NoHooksLU[_UnitOp]):
    """A unit that changes one storage unit of one node."""

    REQ_BGL = False

    def CheckArguments(self) -> None:
        if not self.op.name:
            raise errors.OpPrereqError("The name of the storage unit is missing", errors.ECODE_INVAL)
        self._type = units.TYPES[self.op.storage_type]

    def _CheckAble(self, what: str, able: Callable[[units.UnitType], object]) -> None:
        """Raise OpPrereqError unless something can be done to units of this type."""
        if not able(self._type):
            others = ", ".join(name for name, kind in units.TYPES.items() if able(kind))
            raise errors.OpPrereqError(
                f"Storage units of type '{self._type.name}' cannot be {what}, only {others}", errors.ECODE_INVAL
            )

    def ExpandNames(self) -> None:
        node = ExpandNode(self.snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name, self.op.node_uuid = node.name, node.uuid
        self.needed_locks = {locking.LEVEL_NODE: [node.uuid]}

    def CheckPrereq(self) -> None:
        CheckStorageType(self.snapshot.cluster, self.op.storage_type)


class LUNodeModifyStorage(_UnitLU[opcodes.OpNodeModifyStorage]):
    """Changes a storage unit, such as whether new volumes may lie on a physical volume."""

    def CheckArguments(self) -> None:
        super().CheckArguments()
        self._CheckAble("modified", lambda kind: kind.changes)
        known = self._type.changes
        unknown = sorted(set(self.op.changes) - set(known))
        if unknown:
            raise errors.OpPrereqError(
                f"The following fields cannot be modified for storage units of type '{self._type.name}': {', '.join(unknown)}",
                errors.ECODE_INVAL,
            )
        for key, value in self.op.changes.items():
            if not known[key].test(value):
                raise errors.OpPrereqError(f"{key} must be {known[key].text}", errors.ECODE_INVAL)

    def Exec(self, feedback: Feedback) -> None:
        arguments = self._type.Arguments(self.snapshot.cluster)
        self.rpc.call_storage_modify(
            Filled(self.op.node_uuid), self._type.name, arguments, Filled(self.op.name), self.op.changes
        ).Raise(f"Failed to modify storage unit '{self.op.name}' on {self.op.node_name}")


class LURepairNodeStorage(_UnitLU[opcodes.OpRepairNodeStorage]):
    """Remove what a storage unit has lost, such as the parts of a volume group that lie on missing disks.

    Rejected unless every instance with a disk there has a good copy elsewhere (design 2.1).  Mirrors that have lost
    volumes open let go of them first, under the locks of their instances: LVM removes no volume that is open.
    """

    _partial: Set[str] = frozenset()

    @property
    def _unit(self) -> str:
        return f"{self._type.text} '{self.op.name}' of node {self.op.node_name}"

    def CheckArguments(self) -> None:
        super().CheckArguments()
        self._CheckAble("repaired", lambda kind: units.FIX_CONSISTENCY in kind.operations)

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        self.needed_locks[locking.LEVEL_INSTANCE] = sorted(inst.name for inst, _ in self._Mirrored())

    def _Mirrored(self) -> Iterator[tuple[objects.Instance, list[objects.Disk]]]:
        """Return the instances with mirrored disks in the unit, with these disks."""
        internal = disk.With(mirror=disk.INTERNAL)
        for uuid, disks in self._Disks().items():
            if found := [dev for dev in disks if uuid is not None and dev.dev_type in internal]:
                yield self.snapshot.instances[str(uuid)], found

    def _Disks(self) -> dict[str | None, list[objects.Disk]]:
        """Return the disks that lie in the unit by the instance that has them."""
        snapshot = self.snapshot
        disks: dict[str | None, list[objects.Disk]] = {}
        for uuid in snapshot.NodeDisks(Filled(self.op.node_uuid)):
            found = snapshot.disks[uuid]
            if self._type.Holds(Filled(self.op.name), found):
                disks.setdefault(snapshot.DiskOwner(uuid), []).append(found)
        return disks

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        strange = {inst.name for inst, _ in self._Mirrored()} - self.owned_locks(locking.LEVEL_INSTANCE)
        if strange:
            raise errors.OpPrereqError(
                f"{self._unit}: mirrors of {', '.join(sorted(strange))} were put there since this job was submitted",
                errors.ECODE_STATE,
                hint=f"use 'gnt-node repair-storage {self.op.node_name} {self._type.name} {self.op.name}' again",
            )
        if self.op.missing is not None:
            self._CheckMissing(self.op.missing)
        problems = [*self._Problems(), *(self._Strangers() if self._type.volumes else ())]
        if not problems:
            return
        text = f"{self._unit} may hold the only good copy of data: {'; '.join(problems[:20])}"
        if not self.op.ignore_consistency:
            raise errors.OpPrereqError(
                text,
                errors.ECODE_STATE,
                hint="repair the copies on the other nodes first, or remove what is not mirrored; --ignore-consistency"
                " accepts the loss",
            )
        self.LogWarning(text)

    def _CheckMissing(self, expected: Sequence[str]) -> None:
        """Raise OpPrereqError unless exactly these physical volumes are missing: the caller saw no others."""
        node_uuid = Filled(self.op.node_uuid)
        fields = [units.NAME, units.MISSING, units.RETURNED]
        result = self.rpc.call_storage_list([node_uuid], self._type.name, [], self.op.name, fields)[node_uuid]
        result.Raise(f"Cannot see what is missing on node {self.op.node_name}", prereq=True, ecode=errors.ECODE_ENVIRON)
        back = sorted(path for _, _, returned in result.payload for path in returned)
        if back:
            raise errors.OpPrereqError(
                f"{self._unit} is left as it is: {', '.join(back)} is there again but counts as missing",
                errors.ECODE_STATE,
                hint=f"'vgextend --restoremissing {self.op.name} {shlex.join(back)}' on the node takes it back",
            )
        found = sorted(uuid for _, missing, _ in result.payload for uuid in missing)
        if found != sorted(expected):
            raise errors.OpPrereqError(
                f"{self._unit} is left as it is: the physical volumes missing"
                f" from it are {', '.join(found) or 'none'}, not {', '.join(sorted(expected)) or 'none'}",
                errors.ECODE_STATE,
            )

    def _Strangers(self) -> Iterator[str]:
        """Return which volumes of others would be lost: nobody can tell whether there is a copy of them."""
        node_uuid = Filled(self.op.node_uuid)
        result = self.rpc.call_node_volumes([node_uuid])[node_uuid]
        if result.fail_msg:
            yield f"node {self.op.node_name} did not report its volumes: {result.fail_msg}"
            return
        snapshot = self.snapshot
        disks = [snapshot.disks[uuid] for uuid in snapshot.NodeDisks(node_uuid)]
        ours = {name for found in disks for name in found.VolumeNames()}
        self._partial = {
            f"{row['vg']}/{row['name']}"
            for row in result.payload
            if row["vg"] == self.op.name and Health(row) == _PARTIAL
        }
        for name in sorted(self._partial - ours):
            yield f"volume {name}, which is partly or wholly on a missing disk, belongs to no instance"

    def _Problems(self) -> Iterator[str]:
        """Return why losing what lies in the unit would lose data."""
        snapshot, disks = self.snapshot, self._Disks()
        for found in disks.pop(None, []):
            yield f"disk {found.uuid} is attached to no instance, so that nobody can tell whether its copies are good"
        for inst in sorted(
            (snapshot.instances[str(uuid)] for uuid in disks), key=lambda inst: NiceSortKey(inst.known_as)
        ):
            yield from self._Lost(inst, disks[inst.uuid])

    def _Lost(self, inst: objects.Instance, disks: list[objects.Disk]) -> Iterator[str]:
        """Return why the copies that an instance has on other nodes are not enough."""
        if any(dev.dev_type not in disk.With(mirror=disk.INTERNAL) for dev in disks):
            yield f"{inst.known_as} has disks on this node only"
            return
        if not inst.disks_active:
            yield (
                f"{inst.name} does not use its disks: whether its other copy is good shows only when it does"
                f" ('gnt-instance activate-disks {inst.name}')"
            )
            return
        for other in sorted({uuid for dev in disks for uuid in dev.nodes} - {self.op.node_uuid}):
            yield from self._Faults(inst, disks, Filled(other))

    def _Faults(self, inst: objects.Instance, disks: list[objects.Disk], node_uuid: str) -> Iterator[str]:
        result = self.rpc.call_blockdev_getmirrorstatus(node_uuid, (disks, inst))
        if result.fail_msg:
            yield f"node {result.node_name} did not report the state of {inst.name}: {result.fail_msg}"
            return
        for dev, status in zip(disks, result.payload, strict=True):
            if status["ldisk_status"] != constants.LDS_OKAY or mirrors.BehindOn([dev], node_uuid):
                index = inst.disks.index(dev.uuid)
                yield f"the copy of disk/{index} of {inst.name} on node {result.node_name} is not good"

    def Exec(self, feedback: Feedback) -> None:
        feedback(f"Repairing storage unit '{self.op.name}' on {self.op.node_name} ...")
        arguments = self._type.Arguments(self.snapshot.cluster)
        node_uuid, name = Filled(self.op.node_uuid), Filled(self.op.name)
        # Before anything is done: the watcher of another master must not have it done a second time.
        self._Record(watchedgroups.PENDING)
        try:
            for inst, disks in list(self._Mirrored()):
                for dev in disks:
                    if self._partial & set(dev.VolumeNames()):
                        self._LetGo(inst, dev)
            result = self.rpc.call_storage_execute(node_uuid, self._type.name, arguments, name, units.FIX_CONSISTENCY)
            result.Raise(f"Failed to repair storage unit '{name}' on {self.op.node_name}")
        except errors.GenericError:
            self._Record(watchedgroups.FAILED)
            raise
        self._Record(watchedgroups.DONE)
        if self._type.volumes:
            self._SayWhatIsLost(node_uuid, name)

    def _Record(self, state: str) -> None:
        """Write to the node's tags how far the watcher's repair is; one by a person ends what there was to say."""
        node = self.snapshot.nodes[Filled(self.op.node_uuid)]
        name = Filled(self.op.name)
        tags = watchedgroups.WithoutRepairs(node.tags, name)
        if self.op.missing is not None:
            job = int(self.ec_id) if str(self.ec_id).isdecimal() else 0
            tags.append(watchedgroups.Repair(state, int(runtime.Time()), job, name).tag)
        elif state != watchedgroups.DONE:
            return
        if set(tags) != set(node.tags):
            self.cfg.Update(node.Replace(tags=sorted(tags)), self.ec_id)

    def _LetGo(self, inst: objects.Instance, dev: objects.Disk) -> None:
        """Have a mirror detach its volumes, if it is set up; before that record that the copy on this node is behind."""
        node_uuid = Filled(self.op.node_uuid)
        found = self.rpc.call_blockdev_find(node_uuid, (dev, inst))
        if not found.fail_msg and not found.payload:
            return
        if inst.disks_active and dev.behind is None:
            # Nothing in DRBD freezes a primary that has no disk itself, or whose connected peer has none.
            if inst.primary_node == node_uuid:
                dev = mirrors.GiveUpOwn(self, inst, dev)
            else:
                mirrors.CheckHasAll(self, inst, [dev])
                (dev,) = mirrors.RecordBehind(self, inst, [dev], node_uuid)
        self.LogInfo(f"Detaching {dev.iv_name} of instance {inst.name} from its lost volumes on {self.op.node_name}")
        result = self.rpc.call_blockdev_removechildren(node_uuid, (dev, inst), (dev.children, inst))
        result.Raise(
            f"{self._unit} is left as it is: {dev.iv_name} of instance {inst.name} does not let go of its lost volumes"
        )

    def _SayWhatIsLost(self, node_uuid: str, group: str) -> None:
        """Name the instances that lost volumes, with the command that makes these again."""
        result = self.rpc.call_lv_list([node_uuid], [group])[node_uuid]
        if result.fail_msg:
            self.LogWarning(f"Which volumes were lost is not known: {result.fail_msg}", hint="run 'gnt-cluster verify'")
            return
        snapshot = self.snapshot
        for uuid in snapshot.NodeDisks(node_uuid):
            found = snapshot.disks[uuid]
            lost = [n for n in found.VolumeNames() if n.startswith(f"{group}/") and n not in result.payload]
            owner = snapshot.DiskOwner(uuid)
            if not lost or owner is None:
                continue
            inst = snapshot.instances[owner]
            if found.dev_type in disk.With(mirror=disk.INTERNAL):
                hint = f"'gnt-instance replace-disks -a {inst.name}' makes them again from the other copy"
            else:
                index = inst.disks.index(uuid)
                hint = f"stop it; then 'gnt-instance recreate-disks --disk={index} {inst.name}' makes them again, empty"
            self.LogWarning(f"Instance {inst.name} lost {', '.join(lost)}", hint=hint)
