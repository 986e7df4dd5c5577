"""Groups, nodes, instances and policies as a source describes them (doc/reference/htools.md 2, 5.6)."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from ganeti import constants
from ganeti.params import disk as disk_params

NO_NODE: Final = -1
"""The index of a node that is none."""

# In the order of the enumeration, which decides between templates.
TEMPLATES: Final = constants.DISK_TEMPLATES
DISKLESS: Final = constants.DT_DISKLESS
(DRBD,) = disk_params.With(mirror=disk_params.INTERNAL)
PLAIN: Final = str(disk_params.TEMPLATES[DRBD].mirror_of)
(EXT,) = disk_params.With(provider=True)


class Mirroring(enum.Enum):
    """Who keeps a second copy of the data."""

    NONE = None
    INTERNAL = disk_params.INTERNAL
    EXTERNAL = disk_params.EXTERNAL


_LOCAL: Final = disk_params.With(lvm=True)


class Status(enum.Enum):
    """What runs, as queries say it."""

    RUNNING = "running"
    ADMIN_DOWN = "ADMIN_down"
    ADMIN_OFFLINE = "ADMIN_offline"
    ERROR_DOWN = "ERROR_down"
    ERROR_UP = "ERROR_up"
    ERROR_NODEDOWN = "ERROR_nodedown"
    ERROR_NODEOFFLINE = "ERROR_nodeoffline"
    ERROR_WRONGNODE = "ERROR_wrongnode"
    USER_DOWN = "USER_down"


_RUNNING: Final = frozenset([Status.RUNNING, Status.ERROR_UP])
_USES_MEMORY: Final = _RUNNING | {Status.ERROR_NODEDOWN, Status.ERROR_NODEOFFLINE, Status.ERROR_WRONGNODE}


class AllocPolicy(enum.IntEnum):
    """Whether new instances may go to a group; in the order of preference."""

    PREFERRED = 0
    LAST_RESORT = 1
    UNALLOCABLE = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Spec:
    """The size of an instance, MiB for memory and disk."""

    memory: int
    cpus: int
    disk_size: int
    disk_count: int
    nic_count: int
    spindle_use: int


@dataclass(frozen=True)
class Policy:
    """What instances may look like; ``minmax``: pairs of the least and the largest.

    ``memory_ratio``: None counts the memory of instances in full; see doc/design-resource-model.rst for both last values.
    """

    standard: Spec = Spec(128, 1, 1024, 1, 1, 1)
    minmax: tuple[tuple[Spec, Spec], ...] = ((Spec(128, 1, 1024, 1, 1, 1), Spec(32768, 8, 1048576, 16, 8, 12)),)
    templates: tuple[str, ...] = TEMPLATES
    vcpu_ratio: float = 4.0
    spindle_ratio: float = 32.0
    memory_ratio: float | None = None
    max_failures: int = 1


DEFAULT_POLICY: Final = Policy()
_NO_LIMIT: Final = 1e12


@dataclass(frozen=True)
class Group:
    index: int
    name: str
    uuid: str
    alloc_policy: AllocPolicy = AllocPolicy.PREFERRED
    networks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    policy: Policy = DEFAULT_POLICY


class Record(NamedTuple):
    """What an administrator recorded of a node; None for the rest.  MiB for memory and disk."""

    total_memory: int | None = None
    node_memory: int | None = None
    hypervisor_memory: int | None = None
    total_cpus: int | None = None
    node_cpus: int | None = None
    total_disk: int | None = None
    disk_overhead: int | None = None
    disk_reserved: int | None = None


@dataclass(frozen=True)
class NodeFacts:
    """A node as its source describes it, and what loading adds; simulated moves change none of it.

    Memory and disk in MiB; ``free_memory`` and ``free_disk`` as reported.
    """

    index: int
    name: str
    group: int
    total_memory: float = 0.0
    node_memory: int = 0
    free_memory: int = 0
    total_disk: float = 0.0
    free_disk: int = 0
    total_cpus: float = 0.0
    node_cpus: int = 0
    speed: float = 1.0
    total_spindles: int = 0
    free_spindles: int = 0
    exclusive_storage: bool = False
    offline: bool = False
    drained: bool = False
    """Whether a node that counts as offline is only drained: it runs its instances and gets no others."""
    master: bool = False
    tags: tuple[str, ...] = ()
    hypervisor: str | None = None
    record: Record | None = None
    # Added while loading (section 4).
    alias: str = ""
    policy: Policy = DEFAULT_POLICY
    vcpu_ratio: float = 4.0
    least_disk: int = 0
    """Free disk that is not given away (recorded, or ``--min-disk``)."""
    location_tags: frozenset[str] = frozenset()
    migration_tags: frozenset[str] = frozenset()
    receivable_tags: frozenset[str] = frozenset()
    missing_memory: int = 0
    """What records say is free and the node does not report; constant from loading on."""
    from_records: bool = False
    """Whether free memory follows from records alone."""

    @functools.cached_property
    def max_cpus(self) -> int:
        """Virtual CPUs that the policy allows."""
        return int(self.vcpu_ratio * self.total_cpus // 1)

    @functools.cached_property
    def max_spindles(self) -> float:
        return self.policy.spindle_ratio * self.total_spindles

    @property
    def working(self) -> bool:
        """Whether instances may run there now."""
        return self.drained or not self.offline

    @functools.cached_property
    def memory_for_instances(self) -> int:
        """Memory that the node does not keep, and that does not go anywhere unexplained."""
        return int(self.total_memory) - self.node_memory - max(0, self.missing_memory)

    def WithoutPolicy(self) -> NodeFacts:
        """Return a node whose policy allows everything."""
        ratio = None if self.policy.memory_ratio is None else _NO_LIMIT
        policy = replace(
            self.policy,
            minmax=((Spec(0, 0, 0, 0, 0, 0), Spec(*[int(_NO_LIMIT)] * 6)),),
            templates=TEMPLATES,
            vcpu_ratio=_NO_LIMIT,
            spindle_ratio=_NO_LIMIT,
            memory_ratio=ratio,
            max_failures=1,
        )
        return replace(self, policy=policy, vcpu_ratio=_NO_LIMIT)

    def Keeps(self, inst: Instance) -> bool:
        """Return whether the memory of an instance is kept for it while it is stopped.

        As in 3.1 that of an offline one is, too, unless a ratio or records say what memory there is.
        """
        return inst.online or not (self.from_records or self.policy.memory_ratio is not None)

    def Claim(self, inst: Instance) -> int:
        """Return the memory that must be there for an instance on this node: its minimum where memory is shared."""
        if self.policy.memory_ratio is None or inst.least_memory is None:
            return inst.memory
        return inst.least_memory


@dataclass(frozen=True)
class Disk:
    size: int
    spindles: int | None = None


class Load(NamedTuple):
    """Utilisation by one instance, or of one node."""

    cpu: float = 1.0
    memory: float = 1.0
    disk: float = 1.0
    network: float = 1.0


USUAL_LOAD: Final = Load()
NO_LOAD: Final = Load(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Instance:
    """An instance; ``primary`` and ``secondary`` are indices of nodes, NO_NODE for none.

    ``least_memory``: its minimum, where the source has one.
    """

    index: int
    name: str
    memory: int
    disk: int
    vcpus: int
    status: Status
    template: str
    primary: int
    secondary: int = NO_NODE
    disks: tuple[Disk, ...] = ()
    auto_balance: bool = True
    spindle_use: int = 1
    tags: tuple[str, ...] = ()
    forthcoming: bool = False
    networks: tuple[str, ...] = ()
    least_memory: int | None = None
    load: Load = USUAL_LOAD
    # Added while loading (section 4).
    alias: str = ""
    movable: bool = True
    exclusion_tags: tuple[str, ...] = ()
    desired_locations: frozenset[str] = field(default=frozenset())
    location_score: int = 0

    def On(self, primary: int, secondary: int, location_score: int) -> Instance:
        """Return the instance on other nodes."""
        return self.With(primary=primary, secondary=secondary, location_score=location_score)

    def With(self, **changes: Any) -> Instance:
        """Return the instance with other values; much cheaper than ``dataclasses.replace``."""
        other = object.__new__(Instance)
        values = other.__dict__
        values.update(self.__dict__)
        values.update(changes)
        return other

    @property
    def running(self) -> bool:
        return self.status in _RUNNING

    @property
    def online(self) -> bool:
        return self.status is not Status.ADMIN_OFFLINE

    @property
    def uses_memory(self) -> bool:
        return not self.forthcoming and self.status in _USES_MEMORY

    @property
    def needs_secondary_memory(self) -> bool:
        return self.online and self.auto_balance

    @property
    def traits(self) -> disk_params.DiskTemplate:
        return disk_params.TEMPLATES[self.template]

    @property
    def local(self) -> bool:
        """Whether it takes space in a node's volume group."""
        return self.template in _LOCAL

    @property
    def mirrored(self) -> bool:
        """Whether it has a secondary by its template."""
        return self.template == DRBD

    @property
    def mirroring(self) -> Mirroring:
        return Mirroring(self.traits.mirror)

    @property
    def freely_movable(self) -> bool:
        """Whether it runs on any node as it is."""
        return self.mirroring is Mirroring.EXTERNAL and not self.traits.must_adopt

    @property
    def initially_movable(self) -> bool:
        return self.mirroring is not Mirroring.NONE and self.traits.has_disks

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.primary, self.secondary) if self.mirrored else (self.primary,)

    @property
    def spindles(self) -> int | None:
        """The spindles of all disks; None if those of one are not known."""
        total = 0
        for disk in self.disks:
            if disk.spindles is None:
                return None
            total += disk.spindles
        return total


class Failure(enum.Enum):
    """Why something does not fit, in the order of lists."""

    MEM = "FailMem"
    DISK = "FailDisk"
    CPU = "FailCPU"
    N1 = "FailN1"
    TAGS = "FailTags"
    MIG = "FailMig"
    DISK_COUNT = "FailDiskCount"
    SPINDLES = "FailSpindles"
    INTERNAL = "FailInternal"
