"""What a cluster can bear: instances that would stay down if a node failed, and how many more fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ganeti.htools.choosing import allocate
from ganeti.htools.choosing.allocate import NoCandidates, Rules
from ganeti.htools.choosing.explain import WORDS
from ganeti.htools.choosing.space import Space
from ganeti.htools.model.entities import DRBD, NO_NODE, Failure, Group, Instance, Mirroring
from ganeti.htools.model.moves import Apply, Kind, Move
from ganeti.htools.model.resources import Node
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sizes import Size
from ganeti.htools.survival.effort import GIVEN_UP, MOST, Effort

_MUCH: Final = 1 << 60

ALONE: Final = "no copy of its disks elsewhere"
OFFLINE: Final = "its secondary node is offline"
DRAINED: Final = "its secondary node is drained"
NO_TARGET: Final = "no node of the group has room"


@dataclass(frozen=True)
class Loss:
    """An instance that would stay down, and why; ``node``: where it should have gone, or "" if there is none.

    ``missing``: the MiB of memory that the node with the most lacks for it, where that is the reason.
    """

    instance: str
    reason: str
    node: str = ""
    missing: int = field(default=0, compare=False)

    @property
    def alone(self) -> bool:
        """Whether no other node has its disks, which is how it was made."""
        return self.reason == ALONE

    @property
    def text(self) -> str:
        if self.reason in (OFFLINE, DRAINED):
            return self.reason.replace("node", f"node {self.node}")
        return f"{self.reason} on {self.node}" if self.node else self.reason


@dataclass(frozen=True)
class Room:
    """How many more instances fit, up to a limit, and what is short then.

    ``given_up``: there may be room for more, but whether max-node-failures is kept then takes too long to find out.
    """

    count: int
    limited: bool
    reason: str
    given_up: bool = False


def Losses(state: State, index: int) -> Iterator[Loss]:
    """Yield what would stay down if a node failed and its running instances were failed over, one after the other."""
    node = state.nodes[index]
    running = [state.instances[guest] for guest in sorted(node.primaries) if state.instances[guest].running]
    others = {inst.secondary for inst in running} - {NO_NODE, index}
    changed = [_WithSpace(state.nodes[other]) for other in others]
    state = state.With([*changed, node.WithFacts(replace(node.facts, offline=True))])
    # Those that have no choice come first, then the largest, as they find room least easily.
    for inst in sorted(running, key=_Claimed):
        after = _FailOver(state, inst)
        if isinstance(after, Loss):
            yield after
        else:
            state = after


def _Claimed(inst: Instance) -> int:
    return -1 if inst.mirroring is not Mirroring.EXTERNAL else _MUCH - inst.memory


def _WithSpace(node: Node) -> Node:
    """Return a node on whose disks there is room for anything: what fails over to it has its disks there already."""
    other = node.Copy()
    other.free_disk = other.free_spindles = _MUCH
    return other


def _FailOver(state: State, inst: Instance) -> State | Loss:
    if inst.mirroring is Mirroring.EXTERNAL:
        return _FailOverAnywhere(state, inst)
    if inst.mirroring is Mirroring.NONE or inst.secondary == NO_NODE:
        return Loss(inst.name, ALONE)
    secondary = state.nodes[inst.secondary]
    if secondary.offline:
        return Loss(inst.name, DRAINED if secondary.facts.drained else OFFLINE, secondary.facts.name)
    after = Apply(state, inst, Move(Kind.FAILOVER), force=True)
    if isinstance(after, Failure):
        return Loss(inst.name, WORDS[after], secondary.facts.name)
    return after


def _FailOverAnywhere(state: State, inst: Instance) -> State | Loss:
    """Start an instance on the node of its group that has the most memory, of those that can take it.

    Which node an allocator would choose by its score takes far longer to find, and what fits does not depend on it much.
    """
    targets = [node for node in state.Of(state.nodes[inst.primary].facts.group) if not node.offline]
    missing = 0
    for target in sorted(targets, key=lambda node: -node.unallocated):
        after = Apply(state, inst, Move(Kind.FAILOVER_TO_ANY, target.index), force=True)
        if not isinstance(after, Failure):
            return after
        if after is Failure.MEM:
            missing = Missing(target, target.facts.Claim(inst))
            break  # the others have less
    return Loss(inst.name, NO_TARGET, missing=missing)


def Missing(node: Node, needed: int) -> int:
    """Return how much memory a node lacks for so much more; some must be left."""
    return max(0, needed + 1 - node.unallocated)


def Fitting(
    cluster: Cluster,
    group: Group,
    template: str,
    size: Size,
    limit: int,
    late: Callable[[], bool] = lambda: False,
    tries: int = MOST,
) -> Room:
    """Return how many instances of a size a group takes without a loss of redundancy; raise TimeoutError once it is late.

    ``tries``: what is made of them for each instance to find out whether failures are survived.
    """
    state = cluster.GroupState(group.index)
    rules = Rules(effort=Effort(tries))
    try:
        candidates = allocate.Candidates(state.Ordered(), 2 if template == DRBD else 1, rules)
    except NoCandidates as err:
        return Room(0, limited=False, reason=str(err))
    run = Space(template, size.spindles, candidates, rules).Standard(state, size, limit, late=late)
    if len(run.instances) >= limit:
        return Room(limit, limited=True, reason="")
    if rules.effort.given_up:
        return Room(len(run.instances), limited=False, reason=GIVEN_UP, given_up=True)
    return Room(len(run.instances), limited=False, reason=WORDS[run.reason])


def TemplateFor(group: Group, enabled: Sequence[str]) -> str:
    """Return the first enabled disk template that a group allows, or else the first one."""
    return next((name for name in enabled if name in group.policy.templates), enabled[0])


def StandardSize(group: Group) -> Size:
    """Return the size of the standard instance of a group's policy."""
    spec = group.policy.standard
    return Size(spec.disk_size, spec.memory, spec.cpus, spec.spindle_use)


def Weaknesses(cluster: Cluster, group: Group) -> Sequence[tuple[str, Sequence[Loss]]]:
    """Return the nodes of a group whose failure would leave instances down, with these."""
    working = [node for node in cluster.state.Of(group.index) if node.facts.working]
    found = [(node.facts.name, tuple(Losses(cluster.state, node.index))) for node in working]
    return [(name, losses) for name, losses in found if losses]
