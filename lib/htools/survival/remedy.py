"""What would help where a node's failure would leave instances down: a command for each instance, or what is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ganeti.htools.choosing.explain import WORDS
from ganeti.htools.model.entities import DRBD, NO_NODE, PLAIN, Failure, Instance, Mirroring
from ganeti.htools.model.moves import Apply, Kind, Move
from ganeti.htools.model.resources import AddSecondary, Node
from ganeti.htools.model.state import State
from ganeti.htools.survival.proof import DRAINED, Loss, Losses, Missing

# How many other nodes are tried for one instance, those with the most memory first.
_TRIES: Final = 8


def Remedies(state: State, index: int, losses: Sequence[Loss], templates: Collection[str]) -> Iterator[str]:
    """Yield what would help each instance that the failure of a node leaves down, as if those before had been helped.

    ``templates``: disk templates that the cluster allows.
    """
    by_name = {state.instances[guest].name: guest for guest in state.nodes[index].primaries}
    for loss in losses:
        inst = state.instances[by_name[loss.instance]]
        text, state = _Remedy(state, inst, loss, templates)
        yield text


def _Remedy(state: State, inst: Instance, loss: Loss, templates: Collection[str]) -> tuple[str, State]:
    match inst.mirroring:
        case Mirroring.INTERNAL if inst.secondary == NO_NODE:
            return f"a secondary node: none is recorded ('gnt-instance info {inst.name}' shows its disks)", state
        case Mirroring.INTERNAL:
            return _OtherSecondary(state, inst, loss)
        case Mirroring.EXTERNAL if loss.missing:
            return f"a node of its group needs {loss.missing} MiB more free memory", state
        case Mirroring.EXTERNAL:
            return "no node of its group can take it: add one to the group", state
    found = _WithCopy(state, inst, templates)
    if found is None:
        return "nothing but other storage: no node of its group can take a copy of its disks", state
    target, after = found
    return (
        f"after a shutdown, 'gnt-instance modify -t {DRBD} -n {target} {inst.name}' gives it a copy of its disks",
        after,
    )


def _OtherSecondary(state: State, inst: Instance, loss: Loss) -> tuple[str, State]:
    """Find a secondary node where the instance could run, and that leaves no other instance down."""
    own = state.nodes[inst.secondary]
    for target in _MostMemoryFirst(state, inst):
        after = Apply(state, inst, Move(Kind.REPLACE_SECONDARY, target.index))
        if isinstance(after, Failure):
            continue
        sources = {inst.primary, *(state.instances[guest].primary for guest in target.secondaries)}
        lost = _Lost(after, sources)
        if inst.name not in lost and lost <= _Lost(state, sources):
            return f"'gnt-instance replace-disks -n {target.facts.name} {inst.name}'", after
    if loss.reason == DRAINED:
        return (
            f"no other node has room: 'gnt-node modify --drained=no {own.facts.name}', or add one to the group",
            state,
        )
    if own.offline:
        return f"no other node has room: repair node {own.facts.name}, or add one to the group", state
    if loss.reason != WORDS[Failure.MEM]:
        return "no other node has room: add one to the group", state
    return f"no other node has room: node {own.facts.name} needs {_Short(state, own, inst)} MiB more free memory", state


def _Lost(state: State, sources: Collection[int]) -> set[str]:
    """Return the names of the instances that stay down if one of these nodes fails."""
    return {loss.instance for index in sources if state.nodes[index].facts.working for loss in Losses(state, index)}


def _MostMemoryFirst(state: State, inst: Instance) -> list[Node]:
    """Return nodes of the instance's group that it does not have yet."""
    own = (inst.primary, inst.secondary)
    group = state.nodes[inst.primary].facts.group
    others = [node for node in state.Of(group) if not node.offline and node.index not in own]
    return sorted(others, key=lambda node: -node.available_memory)[:_TRIES]


def _WithCopy(state: State, inst: Instance, templates: Collection[str]) -> tuple[str, State] | None:
    """Return a node that could hold a second copy of the disks of an instance, and the state then; None if there is none."""
    policy = state.nodes[inst.primary].facts.policy
    if inst.template != PLAIN or DRBD not in templates or DRBD not in policy.templates:
        return None
    for node in _MostMemoryFirst(state, inst):
        mirrored = inst.With(template=DRBD, secondary=node.index)
        target = AddSecondary(node, mirrored, inst.primary)
        if not isinstance(target, Failure):
            return node.facts.name, state.With((target,), (mirrored,))
    return None


def _Short(state: State, node: Node, inst: Instance) -> int:
    """Return how much memory a node lacks for all instances that would come to it with this one."""
    guests = [state.instances[guest] for guest in state.nodes[inst.primary].primaries]
    coming = [guest for guest in guests if guest.running and guest.secondary == node.index]
    return Missing(node, sum(node.facts.Claim(guest) for guest in coming))
