"""How good a state is: twenty metrics and their weighted sum; lower is better (doc/reference/htools.md 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ganeti.htools.resources import Node, Ratio

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
    # Its value does not follow from single nodes: _SharedPairs.
    Metric("location_exclusion_score", 1.0, lambda n: 0.0, spread=False),
    Metric("reserved_mem_rtotal", 0.25, lambda n: n.reserved_part, spread=False),
)
_PAIRS: Final = "location_exclusion_score"


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


def _SharedPairs(nodes: Iterable[Node]) -> float:
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
            result.append(_SharedPairs(online))
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
        count = len(self._online)
        values = []
        for metric, base, moments in zip(METRICS, self._base, self._moments, strict=False):
            if metric.name == _PAIRS:
                values.append(self._PairsAfter(changes))
            elif metric.spread:
                total, variance = moments
                for before, after in changes:
                    if before.offline:
                        continue
                    x, y = metric.value(before), metric.value(after)
                    part = count * (y * y - x * x) - 2 * total * (y - x) - (y - x) * (y - x)
                    variance = max(0.0, variance + part / (count * count))
                    total += y - x
                values.append(math.sqrt(variance))
            else:
                value = base
                for before, after in changes:
                    if before.offline == metric.offline:
                        value += metric.value(after) - metric.value(before)
                values.append(value)
        return Total(metric.weight * value for metric, value in zip(METRICS, values, strict=False))

    def _PairsAfter(self, changes: Sequence[tuple[Node, Node]]) -> float:
        after = {node.index: other for node, other in changes}
        return _SharedPairs(after.get(node.index, node) for node in self._online)
