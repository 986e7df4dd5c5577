"""How good a state is: twenty metrics and their weighted sum; lower is better (doc/reference/htools.md 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ganeti.htools.model.resources import Node, Ratio

Value = Callable[[Node], float]


class Metric(NamedTuple):
    """One metric: its value follows from the online nodes, or from the offline ones.

    ``spread``: the population standard deviation of ``value``; otherwise their sum.
    """

    name: str
    weight: float
    value: Value
    spread: bool = True
    offline: bool = False


def _Failing(node: Node) -> float:
    return len(node.primaries) + len(node.secondaries) if node.failing else 0


def _TagConflicts(node: Node) -> float:
    return sum(node.primary_tags.values()) - len(node.primary_tags)


METRICS: Final = (
    Metric("free_mem_cv", 0.5, lambda n: n.free_memory_part),
    Metric("free_disk_cv", 0.5, lambda n: n.free_disk_part),
    Metric("n1_cnt", 1.0, _Failing, spread=False),
    Metric("reserved_mem_cv", 1.0, lambda n: n.reserved_part),
    Metric("offline_all_cnt", 4.0, lambda n: len(n.primaries) + len(n.secondaries), spread=False, offline=True),
    Metric("offline_pri_cnt", 16.0, lambda n: len(n.primaries), spread=False, offline=True),
    Metric("vcpu_ratio_cv", 0.5, lambda n: Ratio(n.cpu_part, n.facts.speed)),
    Metric("cpu_load_cv", 1.0, lambda n: n.load.cpu),
    Metric("mem_load_cv", 1.0, lambda n: n.load.memory),
    Metric("disk_load_cv", 1.0, lambda n: n.load.disk),
    Metric("net_load_cv", 1.0, lambda n: n.load.network),
    Metric("pri_tags_score", 2.0, _TagConflicts, spread=False),
    Metric("spindles_cv", 0.5, lambda n: Ratio(n.used_spindles, n.facts.max_spindles)),
    Metric("free_mem_cv_forth", 0.5, lambda n: n.free_memory_part_f),
    Metric("free_disk_cv_forth", 0.5, lambda n: n.free_disk_part_f),
    Metric("vcpu_ratio_cv_forth", 0.5, lambda n: Ratio(n.cpu_part_f, n.facts.speed)),
    Metric("spindles_cv_forth", 0.5, lambda n: Ratio(n.used_spindles_f, n.facts.max_spindles)),
    Metric("location_score", 1.0, lambda n: n.location_score, spread=False),
    # Its value does not follow from single nodes: SharedPairs.
    Metric("location_exclusion_score", 1.0, lambda n: 0.0, spread=False),
    Metric("reserved_mem_rtotal", 0.25, lambda n: n.reserved_part, spread=False),
)
LOCATION: Final = next(place for place, metric in enumerate(METRICS) if metric.name == "location_score")
_PAIRS: Final = "location_exclusion_score"
PAIRS_WEIGHT: Final = next(metric.weight for metric in METRICS if metric.name == _PAIRS)


def Total(values: Iterable[float]) -> float:
    """Add one after the other; ``sum`` would compensate for rounding from Python 3.12 on."""
    total = 0.0
    for value in values:
        total += value
    return total


def Spread(values: Sequence[float]) -> float:
    """Return the population standard deviation."""
    mean = Total(values) / len(values)
    return math.sqrt(Total((value - mean) * (value - mean) for value in values) / len(values))


def SharedPairs(nodes: Iterable[Node]) -> float:
    """Return how many pairs of location and exclusion tag there are beyond the first of each."""
    counts: dict[tuple[str, str], int] = {}
    for node in nodes:
        for pair, number in node.pairs.items():
            counts[pair] = counts.get(pair, 0) + number
    return sum(counts.values()) - len(counts)


def Values(nodes: Sequence[Node]) -> list[float]:
    """Return the value of each metric in the order of METRICS; an empty list where no node is online."""
    online = [node for node in nodes if not node.offline]
    if not online:
        return []
    offline = [node for node in nodes if node.offline]
    result = []
    for metric in METRICS:
        if metric.name == _PAIRS:
            result.append(SharedPairs(online))
            continue
        values = [metric.value(node) for node in (offline if metric.offline else online)]
        result.append(Spread(values) if metric.spread else Total(values))
    return result


def Score(nodes: Sequence[Node]) -> float:
    """Return the score of a state."""
    return Total(metric.weight * value for metric, value in zip(METRICS, Values(nodes), strict=False))


def Bound(nodes: Sequence[Node]) -> float:
    """Return a score that no balancing can go below, due to reserved memory."""
    if len(nodes) < 2:
        return 0.0
    total = Total(node.facts.total_memory for node in nodes)
    rest = total - max(node.facts.total_memory for node in nodes)
    if rest <= 0:
        return 0.0
    needed = sum(sum(node.peers.values()) for node in nodes)
    return 0.25 * (needed / rest - needed / total)


class Statistics:
    """The score while the values of one or two nodes change, from the statistics of a first state.

    Rounding differs in the last digits from ``Score``; allocations on pairs of nodes are compared this way (section 6).
    """

    def __init__(self, nodes: Sequence[Node]):
        self._online = [node for node in nodes if not node.offline]
        self._base = Values(nodes)
        self._moments = [self._Moments(metric) for metric in METRICS]
        self._tagged = any(node.pairs for node in nodes)
        self.count = len(self._online)
        numbers = [*self._base, *(number for moments in self._moments for number in moments)]
        self.finite = bool(self._online) and all(map(math.isfinite, numbers))

    def _Moments(self, metric: Metric) -> tuple[float, float]:
        """Return sum and variance of a metric's values."""
        values = [metric.value(node) for node in self._online] if metric.spread else []
        if not values:
            return 0.0, 0.0
        total = Total(values)
        mean = total / len(values)
        return total, Total((value - mean) * (value - mean) for value in values) / len(values)

    def Score(self, changes: Sequence[tuple[Node, Node]]) -> float:
        """Return the score after nodes became others: (before, after), one after the other."""
        values = (self.After(place, changes)[0] for place in range(len(self._base)))
        return Total(metric.weight * value for metric, value in zip(METRICS, values, strict=False))

    def After(self, place: int, changes: Sequence[tuple[Node, Node]]) -> tuple[float, float, float]:
        """Return a metric after nodes became others, with the sum and the variance of a spread's values."""
        metric, value = METRICS[place], self._base[place]
        if metric.name == _PAIRS:
            return self._PairsAfter(changes), 0.0, 0.0
        if not metric.spread:
            for before, after in changes:
                if before.offline == metric.offline:
                    value += metric.value(after) - metric.value(before)
            return value, 0.0, 0.0
        count = self.count
        total, variance = self._moments[place]
        for before, after in changes:
            if before.offline:
                continue
            x, y = metric.value(before), metric.value(after)
            part = count * (y * y - x * x) - 2 * total * (y - x) - (y - x) * (y - x)
            variance = max(0.0, variance + part / (count * count))
            total += y - x
        return math.sqrt(variance), total, variance

    def _PairsAfter(self, changes: Sequence[tuple[Node, Node]]) -> float:
        if not self._tagged and not any(after.pairs for _, after in changes):
            return 0.0
        after = {node.index: other for node, other in changes}
        return SharedPairs(after.get(node.index, node) for node in self._online)


# The metrics in the order of Vector: those that are spreads, then those that are sums.
SPREADS: Final = tuple(metric for metric in METRICS if metric.spread)
RESERVED: Final = next(place for place, metric in enumerate(SPREADS) if metric.name == "reserved_mem_cv")
SPREAD_WEIGHTS: Final = tuple(metric.weight for metric in SPREADS)
_SUMS: Final = tuple(metric for metric in METRICS if not metric.spread and metric.name != _PAIRS)
_FAILING, _OFFLINE_ALL, _OFFLINE_PRIMARY, _TAGS, _LOCATION, _RESERVED = (metric.weight for metric in _SUMS)


def Vector(node: Node) -> tuple[tuple[float, ...], float]:
    """Return a node's values of the spreads, and what it adds to the score by the sums.

    METRICS written out: this is where balancing spends its time.
    """
    facts = node.facts
    if facts.offline:
        primaries = len(node.primaries)
        return (), _OFFLINE_ALL * (primaries + len(node.secondaries)) + _OFFLINE_PRIMARY * primaries
    memory, cpus, load = facts.total_memory, facts.total_cpus, node.load
    if not (memory and cpus and facts.speed and facts.max_spindles):
        return tuple([metric.value(node) for metric in SPREADS]), _Added(node)
    reserved = node.reserved / memory
    spindles = facts.max_spindles
    capacity = cpus * facts.speed
    values = (
        node.unallocated / memory,
        node.free_disk_part,
        reserved,
        node.used_cpus / capacity,
        load.cpu,
        load.memory,
        load.disk,
        load.network,
        node.used_spindles / spindles,
        node.free_memory_f / memory,
        node.free_disk_part_f,
        node.used_cpus_f / capacity,
        node.used_spindles_f / spindles,
    )
    added = _RESERVED * reserved + _LOCATION * node.location_score
    if node.failing:
        added += _FAILING * (len(node.primaries) + len(node.secondaries))
    if node.primary_tags:
        added += _TAGS * _TagConflicts(node)
    return values, added


def _Added(node: Node) -> float:
    """Return what an online node adds to the score by the sums."""
    return Total(metric.weight * metric.value(node) for metric in _SUMS if not metric.offline)


class Estimate:
    """The score of states that differ from a first one in a few nodes, up to rounding, at little cost.

    Good for finding the few moves that may be the best; which one is decides ``Score``.
    """

    # Near a variance of 0 its root makes a rounding error of 1e-15 one of 3e-8.
    TOLERANCE = 1e-6

    def __init__(self, nodes: Sequence[Node]):
        online = [node for node in nodes if not node.offline]
        self._online = online
        self._count = len(online)
        self._vectors = {node.index: Vector(node) for node in nodes}
        columns = list(zip(*(self._vectors[node.index][0] for node in online), strict=True))
        self._totals = [Total(column) for column in columns]
        self._variances = [Spread(column) ** 2 for column in columns]
        self._spreads = [weight * math.sqrt(v) for weight, v in zip(SPREAD_WEIGHTS, self._variances, strict=True)]
        self._pairs = any(node.pairs for node in nodes)
        self._sum = Total(added for _, added in self._vectors.values())
        if self._pairs:
            self._sum += PAIRS_WEIGHT * SharedPairs(online)
            self._first_pairs = PAIRS_WEIGHT * SharedPairs(online)

    def Score(self, changed: Iterable[Node]) -> float:
        """Return the score after nodes became others."""
        result = self._sum
        moves: list[tuple[tuple[float, ...], tuple[float, ...]]] = []
        for node in changed:
            before, added_before = self._vectors[node.index]
            after, added = Vector(node)
            result += added - added_before
            if before:
                moves.append((before, after))
        if self._pairs:
            after_pairs = {node.index: node for node in changed}
            nodes = (after_pairs.get(node.index, node) for node in self._online)
            result += PAIRS_WEIGHT * SharedPairs(nodes) - self._first_pairs
        count = self._count
        square = count * count
        for i, spread in enumerate(self._spreads):
            total, variance = self._totals[i], self._variances[i]
            for before, after in moves:
                x, y = before[i], after[i]
                if x != y:
                    variance += (count * (y * y - x * x) - 2 * total * (y - x) - (y - x) * (y - x)) / square
                    total += y - x
                    spread = -1.0
            result += spread if spread >= 0 else SPREAD_WEIGHTS[i] * math.sqrt(variance if variance > 0 else 0.0)
        return result
