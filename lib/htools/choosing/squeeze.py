"""Which nodes can be switched off, and which are needed (doc/reference/htools.md 19)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ganeti.htools.choosing import balance
from ganeti.htools.choosing.balance import Rules, Step
from ganeti.htools.model.entities import EXT, NO_NODE, Instance, Policy, Status
from ganeti.htools.model.resources import AddPrimary, Node
from ganeti.htools.model.state import State

STANDBY_PREFIX = "htools:standby:"
STANDBY_TAG = f"{STANDBY_PREFIX}auto"
_RULES = Rules(least_gain=0.0, gain_limit=0.0)


@dataclass(frozen=True)
class Plan:
    """Nodes that change, and the moves that come before (squeezing) or after (expanding)."""

    nodes: Sequence[int]
    steps: Sequence[Step]
    state: State
    enough: bool = True


def _TestInstance(policy: Policy, factor: float) -> Instance:
    return Instance(
        NO_NODE,
        "",
        memory=int(factor * policy.standard.memory // 1),
        disk=0,
        vcpus=int(factor * policy.standard.cpus // 1),
        status=Status.RUNNING,
        template=EXT,
        primary=NO_NODE,
    )


def HasRoom(state: State, policy: Policy, factor: float) -> bool:
    """Return whether every node, offline ones included, could take a test instance."""
    test = _TestInstance(policy, factor)
    return all(isinstance(AddPrimary(node, replace(test, primary=node.index)), Node) for node in state.nodes.values())


def OfflineCandidates(state: State) -> list[Node]:
    """Return the nodes that may be switched off, those with most primaries first."""
    found = [
        node
        for node in state.Online()
        if not node.facts.master
        and not node.secondaries
        and not any(state.instances[index].local for index in node.primaries)
    ]
    return sorted(found, key=lambda node: -len(node.primaries))


def OnlineCandidates(state: State) -> list[Node]:
    """Return the nodes that were switched off before and may be used again."""
    return [
        node
        for node in state.nodes.values()
        if node.offline and any(tag.startswith(STANDBY_PREFIX) for tag in node.facts.tags)
    ]


def _With(state: State, nodes: Iterable[int], offline: bool) -> State:
    return state.With(state.nodes[i].WithFacts(replace(state.nodes[i].facts, offline=offline)) for i in nodes)


def _Balance(state: State) -> tuple[State, list[Step]]:
    steps = list(balance.Balance(state, _RULES))
    return (steps[-1].state if steps else state), steps


def _Good(state: State, policy: Policy, factor: float) -> bool:
    """Return whether all primaries are on online nodes, and there is room."""
    return all(not (node.offline and node.primaries) for node in state.nodes.values()) and HasRoom(
        state, policy, factor
    )


def Expand(state: State, policy: Policy, least: float) -> Plan:
    """Return the shortest list of nodes to switch on; all of them if none is enough."""
    candidates = [node.index for node in OnlineCandidates(state)]
    plan = Plan((), (), state, False)
    for count in range(len(candidates) + 1):
        after, steps = _Balance(_With(state, candidates[:count], offline=False))
        plan = Plan(candidates[:count], steps, after, _Good(after, policy, least))
        if plan.enough:
            break
    return plan


def Squeeze(state: State, policy: Policy, target: float) -> Plan:
    """Return the nodes to switch off."""
    chosen: list[int] = []
    after, steps = state, list[Step]()
    for node in reversed(OfflineCandidates(state)):
        tried, moves = _Balance(_With(state, [node.index, *chosen], offline=True))
        if _Good(tried, policy, target):
            chosen.insert(0, node.index)
            after, steps = tried, moves
    return Plan(chosen, steps, after)
