"""Allocating a new instance (doc/reference/htools.md 10, 12)."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from ganeti.htools.choosing.pairs import Pairs
from ganeti.htools.model.entities import NO_NODE, PLAIN, AllocPolicy, Failure, Group, Instance, NodeFacts, Status
from ganeti.htools.model.resources import AddPrimary, AddSecondary, CheckPolicy, Node
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.numbers import Fixed
from ganeti.htools.sources.loading import SharedLocations
from ganeti.htools.survival.effort import GIVEN_UP, Effort, GivenUp
from ganeti.htools.survival.failures import FirstBreakdown
from ganeti.htools.survival.redundancy import Guard, Redundant


class NoCandidates(Exception):
    """There are no nodes to try."""


class Placement(NamedTuple):
    """An instance with its place, the state then, and how good that is; a smaller metric is better."""

    state: State
    instance: Instance
    metric: Any


@dataclass(frozen=True)
class Rules:
    """What counts when an instance is placed.

    ``restrict``: names of the only nodes to use.  ``unallocable``: groups that get nothing (hspace).  ``ignored``: groups
    that need not be redundant.  ``accept_offline``: offline nodes need not be redundant.  ``effort``: what all placements by these
    rules may cost together; a group where that was not enough gets nothing more.
    """

    force: bool = False
    capacity_checks: bool = True
    restrict: Collection[str] | None = None
    unallocable: Collection[int] = ()
    ignored: Collection[int] = ()
    accept_offline: bool = False
    effort: Effort = field(default_factory=Effort, compare=False, repr=False)


@dataclass
class Outcome:
    """What came of all candidates together."""

    solution: Placement | None = None
    successes: int = 0
    failures: Counter[Failure] = field(default_factory=Counter)
    given_up: bool = False

    def Add(self, other: Outcome) -> None:
        """Count further candidates, too."""
        self.successes += other.successes
        self.failures.update(other.failures)

    def Describe(self, show: Callable[[Any], str]) -> str:
        """Return the description that messages use; ``show``: a metric as text."""
        modes = ", ".join(f"{mode.value}: {self.failures[mode]}" for mode in Failure if self.failures[mode])
        if self.solution is None:
            reasons = modes or "unknown reasons"
            unknown = f"; {GIVEN_UP}" if self.given_up else ""
            return f"No valid allocation solutions, failure reasons: {reasons}{unknown}"
        placed = self.solution
        names = "/".join(placed.state.nodes[index].facts.name for index in placed.instance.nodes)
        return (
            f"score: {show(placed.metric)}, successes {self.successes}, failures {self.failures.total()}"
            f" ({modes}) for node(s) {names}"
        )


# --- candidates -----------------------------------------------------------------------------------------------------------

# A primary with the secondaries to try; None where an instance has one node.
Candidate = tuple[int, Sequence[int] | None]


def Candidates(nodes: Iterable[Node], required: int, rules: Rules) -> list[Candidate]:
    """Return the places to try, in order; raises NoCandidates."""
    usable = [
        node
        for node in nodes
        if not node.offline
        and node.facts.group not in rules.unallocable
        and (rules.restrict is None or node.facts.name in rules.restrict)
    ]
    if required == 1:
        if not usable:
            raise NoCandidates("No online nodes")
        return [(node.index, None) for node in usable]
    if required != 2:
        raise NoCandidates("Unsupported number of nodes, only one or two  supported")
    pairs = []
    for node in usable:
        others = [o.index for o in usable if o.index != node.index and o.facts.group == node.facts.group]
        if others:
            pairs.append((node.index, others))
    if not pairs:
        raise NoCandidates("Not enough online nodes")
    return list(pairs)


# --- placing ----------------------------------------------------------------------------------------------------------------


# Whether an instance on a primary and a secondary leaves a state that is redundant; the last argument returns that state.
Safe = Callable[[int, int, Callable[[], State]], bool]


def TriedOut(rules: Rules) -> Safe:
    """Return a ``Safe`` that tries to empty all nodes."""
    return lambda _primary, _secondary, after: Redundant(after(), rules.ignored, rules.accept_offline)


def _Bearing(judge: Judge, safe: Safe, effort: Effort) -> Safe:
    """Return a ``Safe`` that demands, too, that the group survives as many failures as its policy says.

    Nothing is tried in a group that does not survive them as it is, or once it was given up.
    """
    hopeless: dict[int, bool] = {}
    doubtful: dict[int, tuple[str, ...]] = {}

    def survives(group: int, count: int, after: Callable[[], State]) -> bool:
        found = FirstBreakdown(after(), group, count, effort, doubtful.get(group, ()))
        if found is None:
            return True
        # What was too much with the instance in one place often is with it in another one.
        doubtful[group] = found.nodes
        if group not in hopeless:
            hopeless[group] = FirstBreakdown(judge.Before(), group, count, effort, found.nodes) is not None
        return False

    def holds(primary: int, secondary: int, after: Callable[[], State]) -> bool:
        facts = judge.Facts(primary)
        group, count = facts.group, facts.policy.max_failures
        if count == 1:
            return safe(primary, secondary, after)
        if hopeless.get(group) or effort.UsedUp(group) or not safe(primary, secondary, after):
            return False
        try:
            return survives(group, count, after)
        except GivenUp:
            return False

    return holds


class Judge(Protocol):
    """Places an instance on one candidate and says how good that is."""

    def Single(self, primary: int) -> Placement | Failure: ...

    def Pair(self, primary: int, secondary: int) -> Placement | Failure: ...

    def Pairs(self, primary: int, secondaries: Sequence[int]) -> Sequence[Any]:
        """Return for each pair what ``Pair`` does: its metric or its failure."""
        ...

    def Guard(self, rules: Rules) -> Safe:
        """Return what says whether all nodes can be emptied then."""
        ...

    def Facts(self, node: int) -> NodeFacts: ...

    def Before(self) -> State:
        """Return the state without the instance."""
        ...

    def Show(self, metric: Any) -> str: ...


def MetricsOfPairs(judge: Judge, primary: int, secondaries: Sequence[int]) -> list[Any]:
    """Return for each pair its metric or its failure, looking at them one by one."""
    results = (judge.Pair(primary, secondary) for secondary in secondaries)
    return [result if isinstance(result, Failure) else result.metric for result in results]


def _OnPrimary(state: State, inst: Instance, primary: int, force: bool) -> Node | Failure:
    """Return the primary node with the instance, if the policy of its group and its room allow it."""
    node = state.nodes[primary]
    failure = CheckPolicy(node.facts.policy, inst, node.facts.exclusive_storage)
    return failure if failure is not None else AddPrimary(node, inst, force)


def _Pair(
    state: State, inst: Instance, primary: int, secondary: int, force: bool
) -> tuple[Instance, Node, Node] | Failure:
    """Return the instance and both nodes with it."""
    shared = SharedLocations(state.nodes[primary].facts, state.nodes[secondary].facts)
    placed = replace(inst, primary=primary, secondary=secondary, location_score=shared)
    first = _OnPrimary(state, placed, primary, force)
    if isinstance(first, Failure):
        return first
    second = AddSecondary(state.nodes[secondary], placed, primary)
    return second if isinstance(second, Failure) else (placed, first, second)


class ByScore:
    """Judges by the score of all nodes of a state."""

    def __init__(self, state: State, inst: Instance, force: bool = False):
        self._state = state
        self._inst = inst
        self._force = force

    @functools.cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self._state.nodes, self._state.statistics, self._inst)

    def Single(self, primary: int) -> Placement | Failure:
        placed = replace(self._inst, primary=primary, secondary=NO_NODE, location_score=0)
        node = _OnPrimary(self._state, placed, primary, self._force)
        if isinstance(node, Failure):
            return node
        after = self._state.With((node,), (placed,))
        return Placement(after, placed, after.Score())

    def Pair(self, primary: int, secondary: int) -> Placement | Failure:
        found = _Pair(self._state, self._inst, primary, secondary, self._force)
        if isinstance(found, Failure):
            return found
        placed, first, second = found
        before = self._state.nodes
        score = self._state.statistics.Score(((before[primary], first), (before[secondary], second)))
        return Placement(self._state.With((first, second), (placed,)), placed, score)

    def Pairs(self, primary: int, secondaries: Sequence[int]) -> Sequence[float | Failure]:
        first = _OnPrimary(self._state, self._inst.On(primary, NO_NODE, 0), primary, self._force)
        if isinstance(first, Failure):
            return [first] * len(secondaries)
        if not self._state.statistics.finite:
            return MetricsOfPairs(self, primary, secondaries)
        return self._pairs.Scores(first, secondaries)

    def Guard(self, rules: Rules) -> Safe:
        return Guard(self._state, self._inst, rules.ignored, rules.accept_offline).Holds

    def Facts(self, node: int) -> NodeFacts:
        return self._state.nodes[node].facts

    def Before(self) -> State:
        return self._state

    def Show(self, metric: Any) -> str:
        return Fixed(metric, 8)


class ByLostRoom:
    """Judges by what no longer fits, for nodes whose instances share no spindle (12)."""

    def __init__(self, state: State, inst: Instance, force: bool = False):
        self._state = state
        self._inst = inst
        self._force = force

    def Single(self, primary: int) -> Placement | Failure:
        placed = replace(self._inst, primary=primary, secondary=NO_NODE, location_score=0)
        node = _OnPrimary(self._state, placed, primary, self._force)
        if isinstance(node, Failure):
            return node
        lost = _Lost(self._state.nodes[primary], node)
        return Placement(self._state.With((node,), (placed,)), placed, (lost, node.free_disk))

    def Pair(self, primary: int, secondary: int) -> Placement | Failure:
        found = _Pair(self._state, self._inst, primary, secondary, self._force)
        if isinstance(found, Failure):
            return found
        placed, first, second = found
        lost = [
            a + b
            for a, b in zip(
                _Lost(self._state.nodes[primary], first),
                _Lost(self._state.nodes[secondary], second),
                strict=False,
            )
        ]
        return Placement(
            self._state.With((first, second), (placed,)), placed, (lost, first.free_disk + second.free_disk)
        )

    def Pairs(self, primary: int, secondaries: Sequence[int]) -> Sequence[Any]:
        return MetricsOfPairs(self, primary, secondaries)

    def Guard(self, rules: Rules) -> Safe:
        return TriedOut(rules)

    def Facts(self, node: int) -> NodeFacts:
        return self._state.nodes[node].facts

    def Before(self) -> State:
        return self._state

    def Show(self, metric: Any) -> str:
        lost, disk = metric
        return f"([{','.join(map(str, lost))}],{disk})"


def _TestInstances(node: Node) -> list[Instance]:
    specs = [least for least, _ in node.facts.policy.minmax]
    return [
        Instance(
            NO_NODE,
            "",
            memory=spec.memory,
            disk=spec.disk_size,
            vcpus=spec.cpus,
            status=Status.RUNNING,
            template=PLAIN,
            primary=node.index,
            auto_balance=False,
            spindle_use=spec.spindle_use,
        )
        for spec in sorted(specs, key=lambda spec: -spec.disk_size)
    ]


def _Room(node: Node, inst: Instance) -> int:
    """Return how often an instance can be added."""
    count = 0
    after = AddPrimary(node, inst)
    while isinstance(after, Node):
        count += 1
        after = AddPrimary(after, inst)
    return count


def _Lost(before: Node, after: Node) -> list[int]:
    return [_Room(before, inst) - _Room(after, inst) for inst in _TestInstances(before)]


# A place that was tried: the metric or the failure, the primary and the secondary.
_Tried = tuple[Any, int, int]

# --- choosing -------------------------------------------------------------------------------------------------------------


def _InOrder(results: Iterable[_Tried]) -> tuple[list[_Tried], Counter[Failure]]:
    """Return the places that fit, the best first, of equals the later one; and why others do not."""
    failures: Counter[Failure] = Counter()
    found = []
    for result in results:
        if isinstance(result[0], Failure):
            failures[result[0]] += 1
        else:
            found.append(result)
    found.reverse()
    found.sort(key=operator.itemgetter(0))
    return found, failures


def _Choose(judge: Judge, tried: Iterable[_Tried], safe: Safe | None) -> tuple[_Tried | None, Outcome]:
    """Return the best of the places that are sorted together, and the outcome without a solution."""
    found, failures = _InOrder(tried)
    best: _Tried | None = None
    refused = 0
    for place in found:
        if safe is None or safe(place[1], place[2], functools.partial(_StateAt, judge, place)):
            best = place
            break
        refused += 1
    if refused:
        failures[Failure.N1] += refused
    return best, Outcome(None, len(found) - refused, failures)


def _StateAt(judge: Judge, place: _Tried) -> State:
    return _Placed(judge, place).state


def _Placed(judge: Judge, place: _Tried) -> Placement:
    _, primary, secondary = place
    result = judge.Single(primary) if secondary == NO_NODE else judge.Pair(primary, secondary)
    assert isinstance(result, Placement), "what fitted a moment ago fits"
    return result


def _Pairs(judge: Judge, candidate: Candidate) -> Iterator[_Tried]:
    primary, secondaries = candidate
    others = secondaries or ()
    return ((metric, primary, other) for metric, other in zip(judge.Pairs(primary, others), others, strict=True))


def Choose(judge: Judge, candidates: Sequence[Candidate], rules: Rules) -> Outcome:
    """Try all candidates (10.3); a state is made of the chosen one only."""
    safe = _Bearing(judge, judge.Guard(rules), rules.effort) if rules.capacity_checks else None
    if all(secondaries is None for _, secondaries in candidates):
        metrics = ((judge.Single(primary), primary) for primary, _ in candidates)
        tried = ((m if isinstance(m, Failure) else m.metric, primary, NO_NODE) for m, primary in metrics)
        best, total = _Choose(judge, tried, safe)
    elif safe is not None and any(judge.Facts(primary).policy.max_failures > 1 for primary, _ in candidates):
        # To try failures takes long: only the best pairs of all are tried, up to the first that is safe.
        best, total = _Choose(judge, (pair for candidate in candidates for pair in _Pairs(judge, candidate)), safe)
    else:
        best, total = None, Outcome()
        for candidate in candidates:
            found, outcome = _Choose(judge, _Pairs(judge, candidate), safe)
            total.Add(outcome)
            # Of equals the later one wins.
            if found is not None and (best is None or not best[0] < found[0]):
                best = found
    if best is not None:
        total.solution = _Placed(judge, best)
        rules.effort.Renew()
    total.given_up = any(rules.effort.UsedUp(judge.Facts(primary).group) for primary, _ in candidates)
    return total


def JudgeFor(cluster: Cluster, group: int | None = None) -> Callable[..., Judge]:
    """Return how to judge placements: by lost room where all groups that count have exclusive storage only (12)."""
    if group is not None:
        counting = {group}
    else:
        counting = {g.index for g in cluster.groups if g.alloc_policy is not AllocPolicy.UNALLOCABLE}
    nodes = [node for node in cluster.state.nodes.values() if node.facts.group in counting]
    return ByLostRoom if all(node.facts.exclusive_storage for node in nodes) else ByScore


# --- groups ---------------------------------------------------------------------------------------------------------------


class GroupChoice(NamedTuple):
    """What came of groups: the chosen one with its placement, and a message for each."""

    group: Group | None
    placement: Placement | None
    messages: list[str]


def Unconnected(group: Group, inst: Instance) -> bool:
    """Return whether the instance needs a network that the group does not have."""
    return any(network not in group.networks for network in inst.networks)


def _NoNetwork(group: Group, inst: Instance) -> str:
    return f"group {group.name} is not connected to a network required by instance {inst.name}"


def AllocateInGroups(
    cluster: Cluster,
    inst: Instance,
    required: int,
    rules: Rules,
    make_judge: Callable[..., Judge] = ByScore,
    allowed: Collection[int] | None = None,
) -> GroupChoice:
    """Choose the group, too (10.5).  ``allowed``: indices of the only groups to try."""
    used = [group for group in cluster.UsedGroups() if allowed is None or group.index in allowed]
    messages = []
    connected = []
    dedicated = make_judge is ByLostRoom
    for group in used:
        if not Unconnected(group, inst):
            connected.append(group)
        elif dedicated:
            messages.append(f"Group {group.name}: error The {_NoNetwork(group, inst)}")
        else:
            messages.append(_NoNetwork(group, inst))
    judge = make_judge(cluster.state, inst, rules.force)
    found = []
    for group in connected:
        try:
            candidates = Candidates(cluster.state.Of(group.index), required, rules)
        except NoCandidates as err:
            messages.append(f"Group {group.name}: error {err}")
            continue
        outcome = Choose(judge, candidates, _JudgesRedundancy(rules, dedicated))
        messages.append(f"Group {group.name} ({group.alloc_policy.word}): {outcome.Describe(judge.Show)}")
        if outcome.solution is not None and group.alloc_policy is not AllocPolicy.UNALLOCABLE:
            found.append((group, outcome.solution))
    if not used:
        return GroupChoice(None, None, ["no groups for evacuation: allowed groups was none that has nodes"])
    if not found:
        return GroupChoice(None, None, messages)
    # Of equals the later group is first.
    found.reverse()
    found.sort(key=lambda item: (item[0].alloc_policy, item[1].metric))
    group, placement = found[0]
    return GroupChoice(group, placement, messages)


def _JudgesRedundancy(rules: Rules, dedicated: bool) -> Rules:
    return replace(rules, capacity_checks=False) if dedicated else rules


def AllocateInGroup(
    cluster: Cluster,
    inst: Instance,
    required: int,
    rules: Rules,
    group: Group,
    make_judge: Callable[..., Judge] = ByScore,
) -> GroupChoice:
    """Allocate in a named group, on the part of the cluster that it is; its policy of allocation does not count."""
    if Unconnected(group, inst):
        return GroupChoice(group, None, [f"The {_NoNetwork(group, inst)}"])
    part = cluster.GroupState(group.index)
    judge = make_judge(part, inst, rules.force)
    try:
        candidates = Candidates(part.Ordered(), required, rules)
    except NoCandidates as err:
        return GroupChoice(group, None, [f"Group {group.name}: error {err}"])
    outcome = Choose(judge, candidates, _JudgesRedundancy(rules, make_judge is ByLostRoom))
    message = f"Group {group.name} ({group.alloc_policy.word}): {outcome.Describe(judge.Show)}"
    placement = outcome.solution
    if placement is not None:
        whole = cluster.state.With(placement.state.nodes.values(), (placement.instance,))
        placement = Placement(whole, placement.instance, placement.metric)
    return GroupChoice(group, placement, [message])
