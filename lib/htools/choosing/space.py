"""How much still fits (doc/reference/htools.md 15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ganeti.htools.choosing import allocate
from ganeti.htools.choosing.allocate import Candidate, Outcome, Rules
from ganeti.htools.model.entities import DRBD, NO_NODE, AllocPolicy, Disk, Failure, Group, Instance, Status
from ganeti.htools.model.resources import Node
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sizes import Size
from ganeti.htools.survival.redundancy import Evacuable

UNLIMITED = -1


@dataclass(frozen=True)
class Run:
    """What came of a run: the state then, the new instances in order, and why the last attempt failed."""

    state: State
    instances: tuple[Instance, ...] = ()
    failures: Counter[Failure] = field(default_factory=Counter)

    def Sorted(self) -> list[Failure]:
        """Return all failures, the rarest first; of equals in their fixed order."""
        return sorted(Failure, key=lambda mode: self.failures[mode])

    @property
    def reason(self) -> Failure:
        """The most frequent failure, of equals the first in the fixed order."""
        return max(Failure, key=lambda mode: self.failures[mode])


class Space:
    """Allocates instances of one kind on a cluster.

    ``candidates`` stay the same during all runs; ``required`` nodes take each instance.
    """

    def __init__(self, template: str, spindle_use: int, candidates: Sequence[Candidate], rules: Rules):
        self._template = template
        self._spindle_use = spindle_use
        self._candidates = candidates
        self._rules = rules
        # Of the one state that further attempts are made on.
        self._state: State | None = None
        self._tried: dict[tuple[Size, bool], Outcome] = {}
        self._smaller: dict[tuple[Failure, Size], Size | None] = {}

    def _Instance(self, state: State, size: Size, number: int) -> Instance:
        name = f"new-{number}"
        return Instance(
            max(state.instances, default=-1) + 1,
            name,
            memory=size.memory,
            least_memory=size.LeastMemory(),
            disk=size.disk,
            vcpus=size.cpus,
            status=Status.RUNNING,
            template=self._template,
            primary=NO_NODE,
            disks=(Disk(size.disk, size.spindles),),
            spindle_use=self._spindle_use,
            alias=name,
        )

    def _Forget(self, state: State) -> None:
        """Forget what was found out on another state."""
        if state is not self._state:
            self._state, self._tried, self._smaller = state, {}, {}

    def _Attempt(self, state: State, size: Size, number: int, checks: bool) -> Outcome:
        """Try to allocate one more instance; what was found out on the newest state is remembered."""
        self._Forget(state)
        known = self._tried.get((size, checks))
        if known is None:
            judge = allocate.ByScore(state, self._Instance(state, size, number), self._rules.force)
            rules = replace(self._rules, capacity_checks=checks)
            known = self._tried[size, checks] = allocate.Choose(judge, self._candidates, rules)
        return known

    def Standard(
        self, state: State, size: Size, limit: int, first: int = 0, late: Callable[[], bool] = lambda: False
    ) -> Run:
        """Allocate instances of one size until none fits, or there are ``limit`` of them (15.3).

        Raise TimeoutError if ``late`` says so between two of them.
        """
        several = any(node.facts.policy.max_failures > 1 for node in state.nodes.values())
        checks = self._rules.capacity_checks and (several or self._template != DRBD)
        instances: list[Instance] = []
        refused = False
        while True:
            if late():
                raise TimeoutError(f"only {len(instances)} instances were tried in the time that there was")
            full = limit >= 0 and len(instances) >= limit
            # The attempt beyond the limit only shows why no more would fit.
            outcome = self._Attempt(state, size, first + len(instances), checks and (refused or not full))
            refused = refused or outcome.failures[Failure.N1] > 0
            if full or outcome.solution is None:
                return Run(state, tuple(instances), outcome.failures)
            state = outcome.solution.state
            instances.append(outcome.solution.instance)

    def Tiered(self, state: State, size: Size, limit: int, before: int = 0) -> Run:
        """Allocate as many as possible, then smaller ones, until nothing fits (15.4)."""
        result = Run(state)
        # Sizes of which nothing fitted since the last instance: what failed, and the limit then.
        waiting: list[tuple[Size, Run, int]] = []
        next_size: Size | None = size
        while next_size is not None:
            size = next_size
            run = self.Standard(result.state, size, limit, before + len(result.instances))
            if run.instances:
                result = Run(run.state, result.instances + run.instances, run.failures)
                waiting = []
            elif not waiting:
                result = replace(result, failures=run.failures)
            total = before + len(result.instances)
            stopped = limit >= 0 and limit <= total
            if not stopped:
                limit = limit - total if limit >= 0 else limit
                waiting.append((size, run, limit))
                next_size = size.Shrink(run.Sorted()[-1])
                if next_size is not None:
                    continue
            next_size = None
            while waiting and next_size is None:
                size, run, limit = waiting.pop()
                next_size = self._Smaller(result.state, size, run, total)
        return result

    def _Smaller(self, state: State, size: Size, run: Run, number: int) -> Size | None:
        """Return a size that fits, smaller in one way only; the most frequent failure is tried first."""
        for mode in reversed(run.Sorted()):
            if not run.failures[mode]:
                break
            smaller = self._SmallerIn(mode, state, size, number)
            if smaller is not None:
                return smaller
        return None

    def _SmallerIn(self, mode: Failure, state: State, size: Size, number: int) -> Size | None:
        """Return the first size that fits if only what a failure is about is made smaller.

        The answer is the same for all sizes on the way, and many attempts begin with one of these.
        """
        self._Forget(state)
        passed = []
        known = self._smaller
        found = size.Shrink(mode)
        while found is not None:
            if (mode, size) in known:
                found = known[mode, size]
                break
            passed.append(size)
            outcome = self._Attempt(state, found, number, self._rules.capacity_checks)
            if outcome.solution is not None:
                break
            size, found = found, found.Shrink(mode) if outcome.failures[mode] else None
        known.update(((mode, each), found) for each in passed)
        return found


# --- which groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grounds:
    """Where instances may go, and what speaks against it: indices of nodes and groups."""

    bad_nodes: Sequence[Node]
    bad_groups: Sequence[int]
    unallocable: frozenset[int]
    allowed: bool
    """Whether anything may be allocated at all."""


def Stuck(cluster: Cluster, group: Group) -> Iterator[str]:
    """Yield the names of a group's nodes that could not be emptied."""
    part = cluster.GroupState(group.index)
    return (node.facts.name for index, node in part.nodes.items() if not Evacuable(part, index))


def BadGroups(cluster: Cluster) -> Iterator[int]:
    """Yield the groups that have a node which could not be emptied."""
    for group in cluster.UsedGroups():
        if any(Stuck(cluster, group)):
            yield group.index


def Survey(cluster: Cluster, accept_existing: bool, independent: bool) -> Grounds:
    """Look where instances may go (15.2)."""
    bad_nodes = [node for node in cluster.state.Ordered() if not node.offline and node.failing]
    bad_groups = list(BadGroups(cluster))
    unallocable = {g.index for g in cluster.groups if g.alloc_policy is AllocPolicy.UNALLOCABLE}
    if not accept_existing:
        unallocable |= {node.facts.group for node in bad_nodes}
    if independent:
        unallocable |= set(bad_groups)
    left = any(group.index not in unallocable for group in cluster.groups)
    allowed = not bad_nodes or accept_existing or (independent and left)
    return Grounds(bad_nodes, bad_groups, frozenset(unallocable), allowed)


NOTHING_TRIED: Counter[Failure] = Counter({Failure.N1: 1})


# --- statistics -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Totals:
    """Sums over all nodes of a state."""

    score: float
    instances: int
    memory: float
    memory_free: int
    memory_available: int
    memory_instances: int
    memory_overhead: int
    disk: float
    disk_free: int
    disk_available: int
    disk_instances: int
    spindles: int
    spindles_free: int
    cpus: float
    cpus_used: int
    cpus_normalized: float
    vcpus: int
    node_memory_available: int
    node_disk_available: int


def Sum(state: State) -> Totals:
    nodes = state.Ordered()
    memory = disk = cpus = normalized = 0.0
    for node in nodes:
        memory += node.facts.total_memory
        disk += node.facts.total_disk
        cpus += node.facts.total_cpus
        normalized += node.used_cpus / node.facts.vcpu_ratio
    return Totals(
        score=state.Score(),
        instances=sum(len(n.primaries) for n in nodes),
        memory=memory,
        memory_free=sum(n.unallocated for n in nodes),
        memory_available=sum(n.available_memory for n in nodes),
        memory_instances=sum(n.instance_memory for n in nodes),
        memory_overhead=sum(n.facts.missing_memory + n.facts.node_memory for n in nodes),
        disk=disk,
        disk_free=sum(n.free_disk for n in nodes),
        disk_available=sum(n.available_disk for n in nodes),
        disk_instances=sum(n.used_disk for n in nodes),
        spindles=sum(n.facts.total_spindles for n in nodes),
        spindles_free=sum(n.free_spindles for n in nodes),
        cpus=cpus,
        cpus_used=sum(n.used_cpus for n in nodes),
        cpus_normalized=normalized,
        vcpus=sum(n.facts.max_cpus for n in nodes),
        node_memory_available=max((n.available_memory for n in nodes), default=0),
        node_disk_available=max((n.available_disk for n in nodes), default=0),
    )
