"""What fits on a node, and what a node is after an instance was added or removed (doc/reference/htools.md 5).

A ``Node`` is never changed: each operation returns another one, or the ``Failure`` of the first check that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, nan
from typing import TypeVar

from ganeti.htools.model.entities import DISKLESS, NO_LOAD, Failure, Instance, Load, NodeFacts, Policy, Spec

_Key = TypeVar("_Key")


def Ratio(part: float, whole: float) -> float:
    """Divide as IEEE numbers do, also by 0."""
    if whole:
        return part / whole
    return nan if part == 0 or part != part else inf if part > 0 else -inf


class Node:
    """A node in one state: its facts and what its instances take.

    ``promised``: what its instances may have at most together; ``instance_memory`` is what they must have.
    ``primaries`` and ``secondaries`` have the indices of real instances, the newest first.  ``peers``: primary node ->
    memory that this node needs if it fails.  ``primary_tags``: exclusion tag -> how many primaries have it, forthcoming
    ones included.  ``pairs``: (location tag, exclusion tag) -> how many real primaries have it.
    """

    __slots__ = (
        "facts",
        "failing",
        "free_disk",
        "free_disk_f",
        "free_memory_f",
        "free_spindles",
        "free_spindles_f",
        "instance_memory",
        "load",
        "location_score",
        "pairs",
        "peers",
        "primaries",
        "primary_tags",
        "promised",
        "reserved",
        "secondaries",
        "unallocated",
        "used_cpus",
        "used_cpus_f",
        "used_spindles",
        "used_spindles_f",
    )

    def __init__(self, facts: NodeFacts):
        self.facts = facts
        self.instance_memory = self.promised = 0
        self.unallocated = 0
        self.free_disk = self.free_disk_f = facts.free_disk
        self.free_spindles = self.free_spindles_f = facts.free_spindles
        self.used_cpus = self.used_cpus_f = facts.node_cpus
        self.used_spindles = self.used_spindles_f = 0
        self.free_memory_f = facts.free_memory
        self.load = NO_LOAD
        self.peers: Mapping[int, int] = {}
        self.reserved = 0
        self.failing = False
        self.primaries: tuple[int, ...] = ()
        self.secondaries: tuple[int, ...] = ()
        self.primary_tags: Mapping[str, int] = {}
        self.location_score = 0
        self.pairs: Mapping[tuple[str, str], int] = {}
        self.Settle()

    # --- quantities ---------------------------------------------------------------------------------------------------

    @property
    def index(self) -> int:
        return self.facts.index

    @property
    def offline(self) -> bool:
        return self.facts.offline

    @property
    def record_free(self) -> int:
        """Memory that is free according to the records."""
        facts = self.facts
        return int(facts.total_memory) - facts.node_memory - self.instance_memory

    def Settle(self) -> None:
        """Work out what follows from the memory of instances."""
        self.unallocated = self.record_free - max(0, self.facts.missing_memory)

    @property
    def available_memory(self) -> int:
        return max(0, self.unallocated - self.reserved)

    @property
    def free_memory_part(self) -> float:
        return Ratio(self.unallocated, self.facts.total_memory)

    @property
    def reserved_part(self) -> float:
        return Ratio(self.reserved, self.facts.total_memory)

    @property
    def free_memory_part_f(self) -> float:
        return Ratio(self.free_memory_f, self.facts.total_memory)

    @property
    def cpu_part(self) -> float:
        return Ratio(self.used_cpus, self.facts.total_cpus)

    @property
    def cpu_part_f(self) -> float:
        return Ratio(self.used_cpus_f, self.facts.total_cpus)

    @property
    def available_cpus(self) -> int:
        return max(0, self.facts.max_cpus - self.used_cpus)

    @property
    def free_disk_part(self) -> float:
        return self._DiskPart(self.free_disk, self.free_spindles)

    @property
    def free_disk_part_f(self) -> float:
        return self._DiskPart(self.free_disk_f, self.free_spindles_f)

    def _DiskPart(self, free: int, spindles: int) -> float:
        facts = self.facts
        if facts.exclusive_storage:
            return spindles / facts.total_spindles if facts.total_spindles else 1.0
        return free / facts.total_disk if facts.total_disk else 1.0

    @property
    def available_disk(self) -> int:
        return 0 if self.free_disk < self.facts.least_disk else self.free_disk - self.facts.least_disk

    @property
    def used_disk(self) -> int:
        return int(self.facts.total_disk) - self.free_disk

    @property
    def overpromised(self) -> bool:
        """Whether the instances may together have more memory than the policy's ratio allows."""
        ratio = self.facts.policy.memory_ratio
        return ratio is not None and self.promised > ratio * self.facts.memory_for_instances

    @property
    def policy_violation(self) -> Failure | None:
        """What the instances of the node exceed together."""
        if self.used_spindles > self.facts.max_spindles:
            return Failure.DISK
        if self.overpromised:
            return Failure.MEM
        return Failure.CPU if self.cpu_part > self.facts.vcpu_ratio else None

    def Copy(self) -> Node:
        """Return a node that may be changed; ``copy.copy`` takes many times as long."""
        other = object.__new__(Node)
        other.facts = self.facts
        other.failing = self.failing
        other.free_disk = self.free_disk
        other.free_disk_f = self.free_disk_f
        other.free_memory_f = self.free_memory_f
        other.free_spindles = self.free_spindles
        other.free_spindles_f = self.free_spindles_f
        other.instance_memory = self.instance_memory
        other.load = self.load
        other.location_score = self.location_score
        other.pairs = self.pairs
        other.peers = self.peers
        other.primaries = self.primaries
        other.primary_tags = self.primary_tags
        other.promised = self.promised
        other.reserved = self.reserved
        other.secondaries = self.secondaries
        other.unallocated = self.unallocated
        other.used_cpus = self.used_cpus
        other.used_cpus_f = self.used_cpus_f
        other.used_spindles = self.used_spindles
        other.used_spindles_f = self.used_spindles_f
        return other

    def WithFacts(self, facts: NodeFacts) -> Node:
        """Return the node with other facts, such as another policy or ``offline``."""
        other = self.Copy()
        other.facts = facts
        return other


# --- bookkeeping of single quantities -----------------------------------------------------------------------------------


def _Spindles(node: Node, free: int, inst: Instance, sign: int) -> int:
    """Return the free spindles after ``inst`` was added (-1) or removed (+1)."""
    if not node.facts.exclusive_storage:
        return 0
    wanted = inst.spindles
    if wanted is None:
        return -1 if sign < 0 else free
    return free + sign * wanted


def _UsedSpindles(node: Node, used: int, inst: Instance, sign: int) -> int:
    return used + sign * inst.spindle_use if inst.local and not node.facts.exclusive_storage else used


def _PlusPrimary(load: Load, other: Load, sign: int) -> Load:
    return Load(
        load.cpu + sign * other.cpu,
        load.memory + sign * other.memory,
        load.disk + sign * other.disk,
        load.network + sign * other.network,
    )


def _PlusSecondary(load: Load, other: Load, sign: int) -> Load:
    return Load(load.cpu, load.memory, load.disk + sign * other.disk, load.network)


def _Count(counts: Mapping[_Key, int], keys: Iterable[_Key], step: int) -> Mapping[_Key, int]:
    """Return a multiset with ``step`` more of each key."""
    result = dict(counts)
    for key in keys:
        number = result.get(key, 0) + step
        if number > 0:
            result[key] = number
        else:
            result.pop(key, None)
    return result


def LocationScore(node: Node, inst: Instance) -> int:
    """Return what an instance adds to the location score of its primary node."""
    return inst.location_score + len(inst.desired_locations - node.facts.location_tags)


def _Pairs(node: Node, inst: Instance) -> list[tuple[str, str]]:
    return [(location, tag) for location in node.facts.location_tags for tag in inst.exclusion_tags]


def _Without(indices: tuple[int, ...], index: int) -> tuple[int, ...]:
    return tuple(i for i in indices if i != index)


# --- loading ------------------------------------------------------------------------------------------------------------


def AttachPrimary(node: Node, inst: Instance) -> None:
    """Put a primary that is part of what the source reports on its node, in place (5.3)."""
    if inst.exclusion_tags:
        node.primary_tags = _Count(node.primary_tags, inst.exclusion_tags, 1)
    if not inst.uses_memory and node.facts.Keeps(inst):
        node.free_memory_f -= inst.memory
    if inst.online:
        node.used_cpus_f += inst.vcpus
        node.promised += inst.memory
    node.used_spindles_f = _UsedSpindles(node, node.used_spindles_f, inst, 1)
    if inst.forthcoming:
        _AttachForthcoming(node, inst)
        return
    if inst.uses_memory:
        node.instance_memory += inst.memory
    if inst.online:
        node.used_cpus += inst.vcpus
    node.used_spindles = _UsedSpindles(node, node.used_spindles, inst, 1)
    node.load = _PlusPrimary(node.load, inst.load, 1)
    node.location_score += LocationScore(node, inst)
    if inst.exclusion_tags and node.facts.location_tags:
        node.pairs = _Count(node.pairs, _Pairs(node, inst), 1)
    node.primaries = (inst.index, *node.primaries)


def AttachSecondary(node: Node, inst: Instance) -> None:
    """Put a secondary that is part of what the source reports on its node, in place."""
    node.used_spindles_f = _UsedSpindles(node, node.used_spindles_f, inst, 1)
    if inst.forthcoming:
        _AttachForthcoming(node, inst)
        return
    node.used_spindles = _UsedSpindles(node, node.used_spindles, inst, 1)
    node.load = _PlusSecondary(node.load, inst.load, 1)
    if inst.needs_secondary_memory:
        node.peers = _Count(node.peers, [inst.primary], node.facts.Claim(inst))
        node.reserved = max(node.peers.values(), default=0)
    node.secondaries = (inst.index, *node.secondaries)


def _AttachForthcoming(node: Node, inst: Instance) -> None:
    if inst.local:
        node.free_disk_f -= inst.disk
    if node.facts.exclusive_storage:
        node.free_spindles_f = _Spindles(node, node.free_spindles_f, inst, -1)


def ShareMemory(node: Node, primaries: Iterable[Instance]) -> None:
    """Count the memory of a loaded node's instances again, in place: by their minimum.

    Until then it counts in full, because that is how sources say what is free.  In the shadow of forthcoming instances
    stopped ones count, too, unless they are offline.
    """
    facts, found = node.facts, list(primaries)
    node.instance_memory = sum(facts.Claim(inst) for inst in found if inst.uses_memory)
    node.free_memory_f = facts.memory_for_instances - sum(facts.Claim(inst) for inst in found if facts.Keeps(inst))
    node.Settle()
    node.failing = node.unallocated <= node.reserved


# --- a primary ------------------------------------------------------------------------------------------------------------


def _ApplyPrimary(node: Node, inst: Instance, sign: int) -> Node:
    """Return the node with a primary instance added (1) or removed (-1), whatever the checks would say."""
    other = node.Copy()
    if inst.exclusion_tags:
        other.primary_tags = _Count(node.primary_tags, inst.exclusion_tags, sign)
    claim = node.facts.Claim(inst)
    other.free_spindles_f = _Spindles(node, node.free_spindles_f, inst, -sign)
    other.used_spindles_f = _UsedSpindles(node, node.used_spindles_f, inst, sign)
    if inst.local:
        other.free_disk_f -= sign * inst.disk
    if node.facts.Keeps(inst):
        other.free_memory_f -= sign * claim
    if inst.online:
        other.used_cpus_f += sign * inst.vcpus
        other.promised += sign * inst.memory
    if inst.forthcoming:
        return other
    if inst.uses_memory:
        other.instance_memory += sign * claim
        other.Settle()
    if inst.local:
        other.free_disk -= sign * inst.disk
    if inst.online:
        other.used_cpus += sign * inst.vcpus
    other.free_spindles = _Spindles(node, node.free_spindles, inst, -sign)
    other.used_spindles = _UsedSpindles(node, node.used_spindles, inst, sign)
    other.load = _PlusPrimary(node.load, inst.load, sign)
    other.location_score += sign * LocationScore(node, inst)
    if inst.exclusion_tags and node.facts.location_tags:
        other.pairs = _Count(node.pairs, _Pairs(node, inst), sign)
    other.primaries = (inst.index, *node.primaries) if sign > 0 else _Without(node.primaries, inst.index)
    other.failing = other.unallocated <= other.reserved
    return other


def AddPrimary(node: Node, inst: Instance, force: bool = False) -> Node | Failure:
    """Add a primary instance (5.4)."""
    other = _ApplyPrimary(node, inst, 1)
    if not inst.forthcoming:
        failure = _PrimaryFailure(node, other, inst, force)
        if failure is not None:
            return failure
    return other if force else _PrimaryFailureF(node, other, inst) or other


def _PrimaryFailure(node: Node, other: Node, inst: Instance, force: bool) -> Failure | None:
    facts = node.facts
    soft = not force
    if other.unallocated <= 0:
        return Failure.MEM
    if inst.local:
        if other.free_disk <= 0 or (soft and other.free_disk < facts.least_disk):
            return Failure.DISK
        if facts.exclusive_storage and other.free_spindles < 0:
            return Failure.SPINDLES
        if soft and other.used_spindles > facts.max_spindles:
            return Failure.DISK
    if soft:
        if other.failing and not node.failing:
            return Failure.MEM
        if facts.vcpu_ratio >= 0 and other.cpu_part > facts.vcpu_ratio:
            return Failure.CPU
        if any(tag in node.primary_tags for tag in inst.exclusion_tags):
            return Failure.TAGS
    return None


def _PrimaryFailureF(node: Node, other: Node, inst: Instance) -> Failure | None:
    """Return what does not fit when forthcoming instances count."""
    facts = node.facts
    if other.free_memory_f <= 0 or (facts.policy.memory_ratio is not None and inst.online and other.overpromised):
        return Failure.MEM
    if inst.local:
        if other.free_disk_f <= 0 or other.free_disk_f < facts.least_disk:
            return Failure.DISK
        if facts.exclusive_storage and other.free_spindles_f < 0:
            return Failure.SPINDLES
        if other.used_spindles_f > facts.max_spindles:
            return Failure.DISK
    if facts.vcpu_ratio >= 0 and other.cpu_part_f > facts.vcpu_ratio:
        return Failure.CPU
    return None


def RemovePrimary(node: Node, inst: Instance) -> Node:
    return _ApplyPrimary(node, inst, -1)


# --- a secondary ----------------------------------------------------------------------------------------------------------


def _ApplySecondary(node: Node, inst: Instance, primary: int, sign: int) -> Node:
    """Return the node with a secondary added (1) or removed (-1), whatever the checks would say."""
    other = node.Copy()
    other.free_spindles_f = _Spindles(node, node.free_spindles_f, inst, -sign)
    other.used_spindles_f = _UsedSpindles(node, node.used_spindles_f, inst, sign)
    other.free_disk_f -= sign * inst.disk
    if inst.forthcoming:
        return other
    other.free_disk -= sign * inst.disk
    other.free_spindles = _Spindles(node, node.free_spindles, inst, -sign)
    other.used_spindles = _UsedSpindles(node, node.used_spindles, inst, sign)
    other.load = _PlusSecondary(node.load, inst.load, sign)
    if inst.needs_secondary_memory:
        before = node.peers.get(primary, 0)
        peers = dict(node.peers)
        peers[primary] = before + sign * node.facts.Claim(inst)
        if peers[primary] <= 0:
            del peers[primary]
        other.peers = peers
        if sign > 0:
            other.reserved = max(node.reserved, peers.get(primary, 0))
        elif before >= node.reserved:
            other.reserved = max(peers.values(), default=0)
    other.secondaries = (inst.index, *node.secondaries) if sign > 0 else _Without(node.secondaries, inst.index)
    other.failing = other.unallocated <= other.reserved
    return other


def AddSecondary(
    node: Node, inst: Instance, primary: int, force: bool = False, ignore_disks: bool = False
) -> Node | Failure:
    """Add a secondary whose primary is on the node ``primary`` (5.5)."""
    if not inst.mirrored:
        return Failure.DISK
    other = _ApplySecondary(node, inst, primary, 1)
    facts = node.facts
    need = facts.Claim(inst) if inst.needs_secondary_memory else 0
    if not inst.forthcoming:
        if other.free_disk <= 0 and not ignore_disks:
            return Failure.DISK
        if not force and other.free_disk < facts.least_disk:
            return Failure.DISK
        if facts.exclusive_storage and other.free_spindles < 0:
            return Failure.SPINDLES
    if force:
        return other
    if not inst.forthcoming:
        if other.used_spindles > facts.max_spindles:
            return Failure.DISK
        if need >= node.unallocated or (other.failing and not node.failing):
            return Failure.MEM
    if other.free_disk_f <= 0 or other.free_disk_f < facts.least_disk:
        return Failure.DISK
    if facts.exclusive_storage and other.free_spindles_f < 0:
        return Failure.SPINDLES
    if other.used_spindles_f > facts.max_spindles:
        return Failure.DISK
    return Failure.MEM if need >= node.free_memory_f else other


def RemoveSecondary(node: Node, inst: Instance, primary: int) -> Node:
    return _ApplySecondary(node, inst, primary, -1)


# --- policies -----------------------------------------------------------------------------------------------------------


def CheckPolicy(policy: Policy, inst: Instance, exclusive_storage: bool) -> Failure | None:
    """Return how a new instance breaks the policy of its primary's group (5.6); None: it complies."""
    failure: Failure | None = None
    for least, largest in reversed(policy.minmax):
        failure = _Compare(inst, least, exclusive_storage, -1) or _Compare(inst, largest, exclusive_storage, 1)
        if failure is None:
            break
    if failure is not None:
        return failure
    return None if inst.template in policy.templates else Failure.DISK


def _Compare(inst: Instance, spec: Spec, exclusive_storage: bool, sign: int) -> Failure | None:
    """Return what is below (-1) or above (1) the spec, in the order of the tests."""

    def beyond(value: int, bound: int) -> bool:
        return sign * (value - bound) > 0

    if beyond(inst.memory, spec.memory):
        return Failure.MEM
    if any(beyond(disk.size, spec.disk_size) for disk in inst.disks):
        return Failure.DISK
    if beyond(inst.vcpus, spec.cpus):
        return Failure.CPU
    spindles = inst.spindles if exclusive_storage else inst.spindle_use
    if spindles is None or beyond(spindles, spec.spindle_use):
        return Failure.SPINDLES
    if inst.template != DISKLESS and beyond(len(inst.disks), spec.disk_count):
        return Failure.DISK_COUNT
    return None
