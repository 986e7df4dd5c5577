"""What an allocator can be asked, and how it is written (doc/reference/interfaces.md d.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ganeti.params import disk as disk_params
from ganeti.params import ipolicy

if TYPE_CHECKING:
    from ganeti import objects

PRIMARY_ONLY, SECONDARY_ONLY, ALL = "primary-only", "secondary-only", "all"


def DiskSpace(template: str, sizes: Iterable[int]) -> int:
    """Return the MiB that disks take on each node (d.5)."""
    known = disk_params.TEMPLATES.get(template)
    if known is not None and (known.must_adopt or not known.has_disks):
        return 0
    overhead = 0 if known is None else known.overhead
    return sum(size + overhead for size in sizes)


def SharesMemory(snapshot: objects.Snapshot) -> bool:
    """Return whether some policy has a memory ratio, so that minima count."""
    policies = [snapshot.cluster.ipolicy, *(group.ipolicy for group in snapshot.nodegroups.values())]
    return any(ipolicy.MEMORY_RATIO in policy for policy in policies)


@dataclass(frozen=True)
class Allocate:
    """Nodes for a new instance.

    ``disks``: dictionaries with ``size``, ``mode``, ``spindles`` and what else the request says; ``nics``: dictionaries with
    ``mac``, ``ip``, ``mode``, ``link``.  ``group_uuid``: the only group to use.  ``whitelist``: names of the only nodes to
    use, those that could be locked; None allows all.  ``least_memory``: its minimum, if that is not ``memory``.
    ``ignore_policy``: nothing that policies say counts; 3.1 has no word for that in its message, allocators of a site may not know it.
    """

    TYPE: ClassVar[str] = "allocate"

    name: str
    disk_template: str
    tags: tuple[str, ...] = ()
    os: str | None = None
    vcpus: int = 1
    memory: int = 0
    spindle_use: int = 1
    disks: tuple[Mapping[str, Any], ...] = ()
    nics: tuple[Mapping[str, Any], ...] = ()
    hypervisor: str | None = None
    group_uuid: str | None = None
    whitelist: tuple[str, ...] | None = None
    least_memory: int | None = None
    ignore_policy: bool = False

    @property
    def required_nodes(self) -> int:
        return 2 if disk_params.TEMPLATES[self.disk_template].mirror == disk_params.INTERNAL else 1

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        """Return the request as it stands in the message."""
        entry = {
            "name": self.name,
            "disk_template": self.disk_template,
            "tags": list(self.tags),
            "os": self.os,
            "vcpus": self.vcpus,
            "memory": self.memory,
            "spindle_use": self.spindle_use,
            "disks": [dict(disk) for disk in self.disks],
            "disk_space_total": DiskSpace(self.disk_template, (disk["size"] for disk in self.disks)),
            "nics": [dict(nic) for nic in self.nics],
            "required_nodes": self.required_nodes,
            "hypervisor": self.hypervisor,
        }
        if self.group_uuid is not None:
            entry["group_name"] = snapshot.nodegroups[self.group_uuid].name
        if self.ignore_policy:
            entry["ignore_ipolicy"] = True
        if self.whitelist is not None:
            entry["restrict-to-nodes"] = list(self.whitelist)
        if self.least_memory is not None and SharesMemory(snapshot):
            entry["minimum_memory"] = self.least_memory
        return entry


@dataclass(frozen=True)
class Relocate:
    """Another node for an instance instead of those that it leaves, which are named."""

    TYPE: ClassVar[str] = "relocate"

    name: str
    relocate_from: tuple[str, ...]
    required_nodes: ClassVar[int] = 1

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        instance = snapshot.InstanceByName(self.name)
        assert instance is not None, f"{self.name} is not in the configuration"
        sizes = [disk.size for disk in snapshot.InstanceDisks(instance)]
        return {
            "name": self.name,
            "disk_space_total": DiskSpace(snapshot.DiskTemplate(instance), sizes),
            "required_nodes": self.required_nodes,
            "relocate_from": list(self.relocate_from),
        }


@dataclass(frozen=True)
class AllocateSecondary:
    """A secondary node for an instance that has none."""

    TYPE: ClassVar[str] = "allocate-secondary"

    name: str

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        del snapshot
        return {"name": self.name}


@dataclass(frozen=True)
class MultiAllocate:
    """Nodes for several new instances, one after the other; ``whitelist`` is that of all of them."""

    TYPE: ClassVar[str] = "multi-allocate"

    instances: tuple[Allocate, ...]
    whitelist: tuple[str, ...] | None = None

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        entries = [one.Entry(snapshot) for one in self.instances]
        if self.whitelist is not None:
            entries = [{**entry, "restrict-to-nodes": list(self.whitelist)} for entry in entries]
        # Allocators of 3.1 read the group of the request, not those of its entries.
        groups = {entry.get("group_name") for entry in entries}
        group = groups.pop() if len(groups) == 1 else None
        return {"instances": entries} if group is None else {"instances": entries, "group_name": group}


@dataclass(frozen=True)
class NodeEvacuate:
    """Moves that take instances off their primary nodes, their secondary nodes, or both (``mode``)."""

    TYPE: ClassVar[str] = "node-evacuate"

    instances: tuple[str, ...]
    mode: str
    ignore_soft_errors: bool = False

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        del snapshot
        return {"instances": list(self.instances), "evac_mode": self.mode}


@dataclass(frozen=True)
class ChangeGroup:
    """Moves that take instances to other groups; without ``target_groups`` (uuids) to any."""

    TYPE: ClassVar[str] = "change-group"

    instances: tuple[str, ...]
    target_groups: tuple[str, ...] = ()

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        del snapshot
        return {"instances": list(self.instances), "target_groups": list(self.target_groups)}


@dataclass(frozen=True)
class Balance:
    """At most so many moves that balance the cluster; ours, answered by hail."""

    TYPE: ClassVar[str] = "balance"

    max_moves: int

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        del snapshot
        return {"max_moves": self.max_moves}


@dataclass(frozen=True)
class Capacity:
    """Where instances like this one would go, one after the other, until nothing fits or there are ``limit``; ours."""

    TYPE: ClassVar[str] = "capacity"

    instance: Allocate
    limit: int

    def Entry(self, snapshot: objects.Snapshot) -> dict[str, Any]:
        return {**self.instance.Entry(snapshot), "limit": self.limit}


Request = Allocate | Relocate | AllocateSecondary | MultiAllocate | NodeEvacuate | ChangeGroup | Balance | Capacity


# --- what comes back ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allocated:
    """Names of instances with the uuids of their nodes, the primary first, in the allocator's order; names that found no place."""

    placed: list[tuple[str, list[str]]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Evacuation:
    """Where instances go, and the opcodes for it, one list a job.

    ``moved``: (instance, uuid of its group then, uuids of its nodes then); ``failed``: (instance, reason).
    """

    moved: list[tuple[str, str, list[str]]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    jobs: list[list[Any]] = field(default_factory=list)
