"""hcheck: is the cluster healthy, and would balancing help?  (doc/reference/htools.md 16)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ganeti.htools.choosing import balance
from ganeti.htools.choosing.balance import Rules
from ganeti.htools.model.entities import Group
from ganeti.htools.model.score import Bound
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.numbers import Fixed
from ganeti.htools.options import Values
from ganeti.htools.survival.redundancy import Evacuable
from ganeti.tools.htools import machine, output, sources
from ganeti.tools.htools.hbal import RulesOf
from ganeti.tools.htools.output import Streams

_PREFIX = "HCHECK_"


class _Count(NamedTuple):
    key: str
    label: str
    value: int


class _Group(NamedTuple):
    """A group as it is, or would be: what is wrong, and its score."""

    group: Group
    state: State
    counts: Sequence[_Count]
    score: float


def _Examine(group: Group, state: State, capacity: bool) -> _Group:
    nodes = state.Ordered()
    offline = [node for node in nodes if node.offline]
    counts = [
        _Count("N1_FAIL", "Nodes not N+1 happy", len(output.BadNodes(nodes))),
        _Count(
            "CONFLICT_TAGS",
            "Nodes with conflicting instances",
            sum(any(number > 1 for number in node.primary_tags.values()) for node in nodes),
        ),
        _Count(
            "OFFLINE_PRI",
            "Instances having the primary node offline",
            sum(len(node.primaries) for node in offline),
        ),
        # The original counts nodes here, not instances.
        _Count("OFFLINE_SEC", "Instances having a secondary node offline", len(offline)),
    ]
    if capacity:
        stuck = sum(not Evacuable(state, node.index) for node in nodes)
        counts.append(_Count("GN1_FAIL", "Nodes not directly evacuateable", stuck))
    return _Group(group, state, counts, state.Score())


def _Sums(groups: Sequence[_Group]) -> list[_Count]:
    columns = zip(*(group.counts for group in groups), strict=True)
    return [_Count(column[0].key, column[0].label, sum(count.value for count in column)) for column in columns]


def _Balanced(group: _Group, rules: Rules, capacity: bool) -> _Group:
    if group.score < Bound(group.state.Ordered()) + rules.least_score:
        return group
    state = group.state
    for step in balance.Balance(state, rules):
        state = step.state
    return _Examine(group.group, state, capacity)


def Main(options: Values, streams: Streams) -> int:
    cluster = sources.Adjust(sources.Load(options, streams), options)
    capacity = not options.no_capacity_checks
    initial = [_Examine(group, cluster.GroupState(group.index), capacity) for group in cluster.UsedGroups()]
    needed = any(count.value for count in _Sums(initial))
    simulate = needed and not options.no_simulation
    final = [_Balanced(group, RulesOf(options), capacity) for group in initial] if simulate else initial
    if options.machine_readable:
        _PrintForPrograms(cluster, initial, final, needed, streams)
    elif options.verbosity >= 1:
        _PrintForPeople(initial, final if simulate else None, needed, options, streams)
    return 1 if needed and not options.no_simulation else 0


def _PrintForPrograms(
    cluster: Cluster, initial: Sequence[_Group], final: Sequence[_Group], needed: bool, streams: Streams
) -> None:
    machine.Print(streams, _PREFIX, [(f"GROUP_UUID_{group.index}", group.uuid) for group in cluster.groups])
    for word, groups in (("INIT", initial), ("FINAL", final)):
        for group in groups:
            pairs = [(count.key, str(count.value)) for count in group.counts]
            pairs.append(("SCORE", Fixed(group.score, 8)))
            machine.Print(streams, f"{_PREFIX}{word}_GROUP_{group.group.index}_", pairs)
        pairs = [(count.key, str(count.value)) for count in _Sums(groups)]
        machine.Print(streams, f"{_PREFIX}{word}_CLUSTER_", [*pairs, ("NEED_REBALANCE", str(int(needed)))])
    machine.Print(streams, _PREFIX, [("OK", "1")])


def _PrintForPeople(
    initial: Sequence[_Group], final: Sequence[_Group] | None, needed: bool, options: Values, streams: Streams
) -> None:
    if options.no_simulation:
        streams.Out("Running in no-simulation mode.")
    elif needed:
        streams.Out("Cluster needs rebalancing.")
    else:
        streams.Out("No need to rebalance cluster, no problems found.")
    _PrintBlocks(initial, "initially", needed, streams)
    if final is not None:
        _PrintBlocks(final, "after rebalancing", needed, streams)


def _PrintBlocks(groups: Sequence[_Group], when: str, needed: bool, streams: Streams) -> None:
    for group in groups:
        streams.Out("", f"Statistics for group {group.group.name} {when}", *_Lines(group.counts))
        streams.Out(f"    Group score: {Fixed(group.score, 8)}")
    streams.Out("", f"Cluster statistics {when}", *_Lines(_Sums(groups)), f"    Cluster is not healthy: {needed}")


def _Lines(counts: Sequence[_Count]) -> list[str]:
    return [f"    {count.label}: {count.value}" for count in counts]
