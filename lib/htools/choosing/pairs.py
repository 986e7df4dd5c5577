"""The score of a new instance on every pair of nodes, without a state for each pair (doc/reference/htools.md 6, 10).

A pair's score is made in two steps: the statistics of the first state are changed by the primary node, then by the
secondary one.  The digits depend on the order of all these operations.  They are all carried out as ``Statistics`` does it,
but what cannot differ between pairs is done once:

* What the primary becomes depends on the secondary by one thing only, the location tags that both have, and these add a
  whole number to one metric.  So the first step is done once for each primary (``_First``).
* What the secondary becomes depends on the primary by one thing only, the memory that it already keeps for instances of
  that primary.  Unless that exceeds what it must keep anyway, the secondary is the same for all primaries (``_Second``).
* A spread whose values stay the same keeps its variance, for what is added to it is exactly 0.

The weighted metrics are added in their order in the end.  All this is true of finite numbers only.  There may be others, such
as those of a node whose policy allows no spindles; ``Statistics.finite`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ganeti.htools.model.entities import NO_NODE, Failure, Instance
from ganeti.htools.model.resources import AddSecondary, Node
from ganeti.htools.model.score import LOCATION, METRICS, Statistics
from ganeti.htools.sources.loading import SharedLocations


class _First(NamedTuple):
    """The metrics after the primary was changed: weighted, and what the second step needs.

    ``values``: of the sums.  ``doubled``: twice the totals of the spreads.
    """

    weighted: list[float]
    values: list[float]
    doubled: list[float]
    variances: list[float]


class _Second(NamedTuple):
    """What a secondary changes.

    ``spreads``: place and weight of a metric, and three terms of section 6: n(y^2-x^2), y-x, (y-x)^2.
    ``sums``: place and weight of a metric, and the difference.
    """

    spreads: tuple[tuple[int, float, float, float, float], ...]
    sums: tuple[tuple[int, float, float], ...]


class Pairs:
    """Scores an instance on pairs of nodes."""

    def __init__(self, nodes: Mapping[int, Node], statistics: Statistics, inst: Instance):
        self._nodes = nodes
        self._statistics = statistics
        self._inst = inst
        self._count = statistics.count
        self._square = statistics.count * statistics.count
        self._located = not inst.forthcoming and any(node.facts.location_tags for node in nodes.values())
        self._keeps_memory = inst.needs_secondary_memory and not inst.forthcoming
        # Secondary -> what it becomes, and the memory that it keeps then.
        self._seconds: dict[int, tuple[_Second | Failure, int]] = {}

    def Scores(self, after: Node, secondaries: Sequence[int]) -> list[float | Failure]:
        """Return the score of each pair, or why the secondary does not fit; ``after``: the primary with the instance."""
        primary = after.index
        node = self._nodes[primary]
        first = self._FirstStep(node, after)
        result: list[float | Failure] = []
        for secondary in secondaries:
            second = self._SecondStep(primary, secondary)
            if isinstance(second, Failure):
                result.append(second)
                continue
            shared = SharedLocations(node.facts, self._nodes[secondary].facts) if self._located else 0
            result.append(self._Join(first, second, shared))
        return result

    def _FirstStep(self, before: Node, after: Node) -> _First:
        first = _First([], [], [], [])
        for place, metric in enumerate(METRICS):
            value, total, variance = self._statistics.After(place, ((before, after),))
            first.weighted.append(metric.weight * value)
            first.values.append(value)
            first.doubled.append(2 * total)
            first.variances.append(variance)
        return first

    def _SecondStep(self, primary: int, secondary: int) -> _Second | Failure:
        known = self._seconds.get(secondary)
        node = self._nodes[secondary]
        claim = node.facts.Claim(self._inst)
        if known is None:
            usual = self._Changes(node, NO_NODE)
            known = self._seconds[secondary] = usual, max(node.reserved, claim)
        second, kept = known
        if self._keeps_memory and primary in node.peers and node.peers[primary] + claim > kept:
            return self._Changes(node, primary)
        return second

    def _Changes(self, before: Node, primary: int) -> _Second | Failure:
        after = AddSecondary(before, self._inst, primary)
        if isinstance(after, Failure):
            return after
        spreads, sums = [], []
        for place, metric in enumerate(METRICS):
            if before.offline != metric.offline:
                continue
            x, y = metric.value(before), metric.value(after)
            if metric.spread and x != y:
                spreads.append((place, metric.weight, self._count * (y * y - x * x), y - x, (y - x) * (y - x)))
            elif x != y:
                sums.append((place, metric.weight, y - x))
        return _Second(tuple(spreads), tuple(sums))

    def _Join(self, first: _First, second: _Second, shared: int) -> float:
        """Return the score after both steps."""
        weighted = first.weighted.copy()
        doubled, variances, square, root = first.doubled, first.variances, self._square, math.sqrt
        for place, weight, squares, step, squared in second.spreads:
            variance = variances[place] + (squares - doubled[place] * step - squared) / square
            weighted[place] = weight * root(variance) if variance > 0 else 0.0
        for place, weight, difference in second.sums:
            weighted[place] = weight * (first.values[place] + difference)
        if shared:
            weighted[LOCATION] = METRICS[LOCATION].weight * (first.values[LOCATION] + shared)
        total = 0.0
        for value in weighted:
            total += value
        return total
