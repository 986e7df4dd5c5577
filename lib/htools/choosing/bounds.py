"""A bound that the score after a move cannot be below, for all moves at little cost.

Two or three nodes change with a move.  Let x and y be a node's value of a metric before and after, m the mean and V the
variance over the n online nodes.  The new variance is exactly::

    V + q,   q = sum of u - (sum of (y - x) / n)^2,   u = ((y - m)^2 - (x - m)^2) / n

The root of V + q is concave in q, so between two values of q it lies above the straight line (chord) through its ends.  On
this line each node counts by itself: a metric adds ``slope * u`` for each node that changes.  So what a node adds to the
bound is one number (``_Chords.Prices``), whichever move it is part of, and the bound of a move is the sum of two or three of them:
what the old nodes become is worked out once for each instance, what targets become once for all instances of the same
shape, that is those that are equal in everything that counts for a node.  The last term of q is bounded by the largest steps.
So are the ends of the chord, by the smallest and the largest u of the shape.

What a node becomes may depend on more than the shape.  Then the best case counts, which is what a bound may do:

* the memory that a secondary keeps already for instances of the same primary: between none and all that it keeps
* location tags that both nodes have: none (``Family.Bound`` adds them where they are known)
* pairs of location and exclusion tags: the instance's own all go
* checks that a move might skip are skipped; what fails even so is infinitely bad

Numbers that are not finite have no order; ``exact`` is false where there are any, and then nothing can be left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import mul, sub
from typing import Final, NamedTuple

from ganeti.htools.model.entities import NO_NODE, Instance
from ganeti.htools.model.moves import Kind, Leaving
from ganeti.htools.model.resources import AddPrimary, AddSecondary, Node
from ganeti.htools.model.score import (
    LOCATION,
    METRICS,
    PAIRS_WEIGHT,
    RESERVED,
    SPREAD_WEIGHTS,
    SPREADS,
    SharedPairs,
    Total,
    Vector,
)
from ganeti.htools.model.state import State
from ganeti.htools.sources.loading import SharedLocations

_NOTHING: Final = (0.0,) * len(SPREADS)


class _Change(NamedTuple):
    """A node that becomes another: n times u for each spread, the steps y - x, and what the sums add to the score."""

    squares: Sequence[float]
    steps: Sequence[float]
    added: float


# What the nodes of an instance may become, in the order of ``Bounds._Leave``; None where they cannot.
_Old = tuple[_Change | None, ...]
_PRIMARY_GONE, _PRIMARY_AGAIN, _PRIMARY_AS_SECONDARY, _SECONDARY_GONE, _SECONDARY_AGAIN, _SECONDARY_AS_PRIMARY = range(
    6
)
_OF_PRIMARY: Final = 3

# Kind of move -> what the old nodes become, and whether the target becomes primary.
_PARTS: Final = {
    Kind.FAILOVER_TO_ANY: ((_PRIMARY_GONE,), True),
    Kind.REPLACE_SECONDARY: ((_SECONDARY_GONE, _PRIMARY_AGAIN), False),
    Kind.REPLACE_AND_FAILOVER: ((_SECONDARY_GONE, _PRIMARY_AS_SECONDARY), True),
    Kind.REPLACE_PRIMARY: ((_PRIMARY_GONE, _SECONDARY_AGAIN), True),
    Kind.FAILOVER_AND_REPLACE: ((_PRIMARY_GONE, _SECONDARY_AS_PRIMARY), False),
}
_STAYS_WITH_PRIMARY: Final = (Kind.REPLACE_SECONDARY, Kind.REPLACE_AND_FAILOVER)

Moves = tuple[int, Leaving, Sequence[Kind]]
"""An instance with a number that says its place among all, and the kinds of its moves."""

_Shape = tuple[object, ...]


def _ShapeOf(inst: Instance, forced: bool) -> _Shape:
    """Return what counts of an instance for the nodes that take it, and whether soft checks are skipped."""
    return (
        inst.memory, inst.disk, inst.disks, inst.vcpus, inst.status, inst.template, inst.spindle_use, inst.forthcoming,
        inst.load, inst.exclusion_tags, inst.desired_locations, inst.auto_balance, inst.least_memory, forced,
    )  # fmt: skip


class Family(NamedTuple):
    """The moves of one kind of an instance.

    ``fixed`` + ``targets[i]`` is the bound of the move to the i-th online node, ``least`` the smallest one.  ``partner``: the
    node whose location tags count with the target's.
    """

    least: float
    number: int
    leaving: Leaving
    kind: Kind
    fixed: float
    targets: Sequence[float]
    partner: Node | None

    def Bound(self, place: int, target: Node) -> float:
        bound = self.fixed + self.targets[place]
        if self.partner is not None:
            bound += METRICS[LOCATION].weight * SharedLocations(self.partner.facts, target.facts)
        return bound


class _Chords:
    """The chords of all spreads for the changes of one shape: ``base`` + prices of the nodes that change is a bound."""

    def __init__(self, groups: Iterable[Sequence[_Change]], variances: Sequence[float], count: int, sums: float):
        """A move changes at most one node of each group in ``groups``; ``sums``: the part of the score that is not a spread."""
        lows, highs, steps = list(_NOTHING), list(_NOTHING), list(_NOTHING)
        for group in groups:
            for i, column in enumerate(zip(*(change.squares for change in group), strict=True)):
                lows[i] += min(0.0, *column)
                highs[i] += max(0.0, *column)
            for i, column in enumerate(zip(*(change.steps for change in group), strict=True)):
                steps[i] += max(max(column), -min(column))
        self.base = sums
        self._slopes = []
        for weight, variance, low, high, step in zip(SPREAD_WEIGHTS, variances, lows, highs, steps, strict=True):
            rest = (step / count) ** 2
            start, end = max(-variance, low / count - rest), high / count
            least = math.sqrt(max(0.0, variance + start))
            slope = (math.sqrt(variance + end) - least) / (end - start) if end > start else 0.0
            self.base += weight * (least - slope * (rest + start))
            self._slopes.append(weight * slope / count)

    def Prices(self, changes: Iterable[_Change | None]) -> list[float]:
        """Return what each change adds to the bound."""
        slopes = self._slopes
        return [math.inf if c is None else sum(map(mul, slopes, c.squares)) + c.added for c in changes]


class Bounds:
    """The bounds of moves from one state."""

    def __init__(self, state: State):
        self.online = state.Online()
        self._count = len(self.online)
        self._vectors = {node.index: Vector(node) for node in state.nodes.values()}
        columns = list(zip(*(self._vectors[node.index][0] for node in self.online), strict=True))
        self._means = [Total(column) / self._count for column in columns]
        self._variances = [
            Total((x - mean) * (x - mean) for x in column) / self._count
            for column, mean in zip(columns, self._means, strict=True)
        ]
        self._squares = {
            index: [(x - mean) * (x - mean) for x, mean in zip(values, self._means, strict=True)] if values else []
            for index, (values, _) in self._vectors.items()
        }
        self._sums = Total(added for _, added in self._vectors.values())
        self._pairs = SharedPairs(self.online)
        self._tags = max((len(node.facts.location_tags) for node in self.online), default=0)
        self.exact = bool(self.online) and all(map(math.isfinite, [*self._variances, self._sums]))

    # --- changes of nodes ---------------------------------------------------------------------------------------------------

    def _ChangeTo(self, after: Node, kept: tuple[float, float] | None = None) -> _Change:
        """Return the change to a node; ``kept``: the least and the largest part of memory that it may keep."""
        index = after.index
        values, added = Vector(after)
        before, added_before = self._vectors[index]
        if not before:
            return _Change(_NOTHING, _NOTHING, added - added_before)
        means, old = self._means, self._squares[index]
        squares = [(y - mean) * (y - mean) - square for y, mean, square in zip(values, means, old, strict=True)]
        steps = list(map(sub, values, before))
        if kept is not None:
            least, most = kept
            nearest = min(max(means[RESERVED], least), most) - means[RESERVED]
            squares[RESERVED] = nearest * nearest - old[RESERVED]
            steps[RESERVED] = max(most - before[RESERVED], before[RESERVED] - least)
        return _Change(squares, steps, added - added_before)

    def _WithPrimary(self, node: Node, inst: Instance, forced: bool) -> _Change | None:
        after = AddPrimary(node, inst, forced)
        return self._ChangeTo(after) if isinstance(after, Node) else None

    def _WithSecondary(self, node: Node, inst: Instance, forced: bool) -> _Change | None:
        """Return the change if the instance becomes secondary there, whatever its primary is."""
        after = AddSecondary(node, inst, NO_NODE, forced)
        if not isinstance(after, Node):
            return None
        if node.offline or not inst.needs_secondary_memory or inst.forthcoming:
            return self._ChangeTo(after)
        memory = node.facts.total_memory
        return self._ChangeTo(after, (after.reserved / memory, (node.reserved + node.facts.Claim(inst)) / memory))

    def _Leave(self, leaving: Leaving, forced: bool) -> _Old:
        """Return what the nodes of an instance may become."""
        inst = leaving.inst.On(leaving.inst.primary, leaving.inst.secondary, 0)
        gone = self._ChangeTo(leaving.without_primary)
        if not inst.mirrored:
            return (gone,)
        primary, secondary = leaving.without_primary, leaving.without_secondary
        # It runs there while it is moved.
        as_primary = self._WithPrimary(secondary, inst, forced)
        return (
            gone,
            self._WithPrimary(primary, inst, True),
            self._WithSecondary(primary, inst, forced),
            self._ChangeTo(secondary),
            None if as_primary is None else self._WithSecondary(secondary, inst, forced),
            as_primary,
        )

    # --- bounds of moves ----------------------------------------------------------------------------------------------------

    def Families(self, moves: Iterable[Moves], force: bool) -> list[Family]:
        """Return the moves of all instances, those with the smallest bounds first."""
        shapes: dict[_Shape, list[Moves]] = {}
        for item in moves:
            leaving = item[1]
            forced = force or leaving.primary.offline or (leaving.secondary is not None and leaving.secondary.offline)
            shapes.setdefault(_ShapeOf(leaving.inst, forced), []).append(item)
        families = [family for shape, items in shapes.items() for family in self._OfShape(items, bool(shape[-1]))]
        return sorted(families, key=lambda family: family.least)

    def _OfShape(self, items: Sequence[Moves], forced: bool) -> Iterator[Family]:
        first = items[0][1].inst
        inst = first.On(first.primary, first.secondary, 0)
        primaries = [self._WithPrimary(node, inst, forced) for node in self.online]
        secondaries = [self._WithSecondary(node, inst, forced) for node in self.online]
        olds = [self._Leave(leaving, forced) for _, leaving, _ in items]
        groups = (
            [*primaries, *secondaries],
            [change for old in olds for change in old[:_OF_PRIMARY]],
            [change for old in olds for change in old[_OF_PRIMARY:]],
        )
        known = [[change for change in group if change is not None] for group in groups]
        # The pairs of location and exclusion tag of the instance may be those that others have, too.
        pairs = max(0, self._pairs - len(inst.exclusion_tags) * self._tags)
        chords = _Chords(known, self._variances, self._count, self._sums + PAIRS_WEIGHT * pairs)
        prices = (chords.Prices(secondaries), chords.Prices(primaries))
        least = [min(targets) for targets in prices]
        for (number, leaving, kinds), old in zip(items, olds, strict=True):
            own = chords.Prices(old)
            for kind in kinds:
                parts, as_primary = _PARTS[kind]
                fixed = chords.base + sum(own[part] for part in parts)
                if fixed + least[as_primary] < math.inf:
                    partner = self._Partner(leaving, kind)
                    yield Family(fixed + least[as_primary], number, leaving, kind, fixed, prices[as_primary], partner)

    def _Partner(self, leaving: Leaving, kind: Kind) -> Node | None:
        """Return the node that has the instance beside the target, if location tags of both count."""
        if not self._tags or kind is Kind.FAILOVER_TO_ANY or leaving.inst.forthcoming:
            return None
        if kind is Kind.REPLACE_SECONDARY and leaving.primary.offline:
            return None
        return leaving.primary if kind in _STAYS_WITH_PRIMARY else leaving.Secondary()
