"""What a cluster can bear: instances that would stay down if a node failed, and how many more fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ganeti.htools import allocate
from ganeti.htools.allocate import NoCandidates, Rules
from ganeti.htools.entities import DRBD, Failure, Group, Instance, Mirroring
from ganeti.htools.explain import WORDS
from ganeti.htools.moves import Apply, Kind, Move
from ganeti.htools.redundancy import BestFailover
from ganeti.htools.space import Size, Space
from ganeti.htools.state import Cluster, State

ALONE: Final = "no copy of its disks elsewhere"
NO_TARGET: Final = "no node of the group has room"


@dataclass(frozen=True)
class Loss:
    """An instance that would stay down, and why; ``node``: where it should have gone, or "" if there is none."""

    instance: str
    reason: str
    node: str = ""


@dataclass(frozen=True)
class Room:
    """How many more instances fit, up to a limit, and what is short then."""

    count: int
    limited: bool
    reason: str


def Losses(state: State, index: int) -> Iterator[Loss]:
    """Yield what would stay down if a node failed and its running instances were failed over, one after the other."""
    node = state.nodes[index]
    state = state.With((node.WithFacts(replace(node.facts, offline=True)),))
    for guest in sorted(node.primaries):
        inst = state.instances[guest]
        if not inst.running:
            continue
        after = _FailOver(state, inst)
        if isinstance(after, Loss):
            yield after
        else:
            state = after


def _FailOver(state: State, inst: Instance) -> State | Loss:
    if inst.mirroring is Mirroring.NONE:
        return Loss(inst.name, ALONE)
    if inst.mirroring is Mirroring.EXTERNAL:
        group = state.nodes[inst.primary].facts.group
        targets = [node.index for node in state.Of(group) if not node.offline]
        found = BestFailover(state, inst, targets, force=True)
        return found if isinstance(found, State) else Loss(inst.name, NO_TARGET)
    secondary = state.nodes[inst.secondary]
    if secondary.offline:
        return Loss(inst.name, "its secondary node is offline", secondary.facts.name)
    after = Apply(state, inst, Move(Kind.FAILOVER), force=True)
    if isinstance(after, Failure):
        return Loss(inst.name, WORDS[after], secondary.facts.name)
    return after


def Fitting(cluster: Cluster, group: Group, template: str, size: Size, limit: int) -> Room:
    """Return how many instances of a size a group takes without a loss of redundancy."""
    state = cluster.GroupState(group.index)
    rules = Rules()
    try:
        candidates = allocate.Candidates(state.Ordered(), 2 if template == DRBD else 1, rules)
    except NoCandidates as err:
        return Room(0, limited=False, reason=str(err))
    run = Space(template, size.spindles, candidates, rules).Standard(state, size, limit)
    if len(run.instances) >= limit:
        return Room(limit, limited=True, reason="")
    return Room(len(run.instances), limited=False, reason=WORDS[run.reason])


def StandardSize(group: Group) -> Size:
    """Return the size of the standard instance of a group's policy."""
    spec = group.policy.standard
    return Size(spec.disk_size, spec.memory, spec.cpus, spec.spindle_use)


def Weaknesses(cluster: Cluster, group: Group) -> Sequence[tuple[str, Sequence[Loss]]]:
    """Return the nodes of a group whose failure would leave instances down, with these."""
    state = cluster.GroupState(group.index)
    found = [(node.facts.name, tuple(Losses(state, node.index))) for node in state.Online()]
    return [(name, losses) for name, losses in found if losses]
