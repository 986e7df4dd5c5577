"""Answers an allocator's request on a model (doc/reference/htools.md 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ganeti import serializer
from ganeti.htools.choosing import allocate, balance, evacuate, solution
from ganeti.htools.choosing.allocate import GroupChoice, Placement, Rules
from ganeti.htools.choosing.evacuate import Mode
from ganeti.htools.model.entities import DRBD, NO_NODE, Failure, Group, Instance, Mirroring, NodeFacts
from ganeti.htools.model.resources import RemovePrimary
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.numbers import Fixed
from ganeti.htools.sources.loading import NewInstanceTags
from ganeti.htools.sources.request import New, Request, Type


class Impossible(Exception):
    """The request cannot be fulfilled; the text is the reason."""


@dataclass(frozen=True)
class Answer:
    """What comes back: the result as JSON, the text beside it, and the cluster then."""

    result: Any
    text: str
    cluster: Cluster


def Message(answer: Answer | Impossible) -> dict[str, Any]:
    """Return what an allocator answers."""
    if isinstance(answer, Impossible):
        return {"success": False, "info": f"Request failed: {answer}", "result": []}
    return {"success": True, "info": f"Request successful: {answer.text}", "result": answer.result}


def Dump(answer: Answer | Impossible) -> str:
    """Return the line of JSON that an allocator prints."""
    return serializer.Dump(Message(answer)).rstrip("\n")


def Reply(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    """Fulfil a request; raises Impossible."""
    return _REPLIES[request.type](cluster, request, rules)


# --- new instances --------------------------------------------------------------------------------------------------------


def _FindGroup(cluster: Cluster, word: str) -> Group:
    group = cluster.FindGroup(word)
    if group is None:
        raise Impossible(f"Wrong number of elems found with name {word}")
    return group


def RulesFor(new: New, rules: Rules) -> Rules:
    """Return the rules with the restriction of the request, unless they have one of their own."""
    return rules if rules.restrict is not None else replace(rules, restrict=new.restrict)


def Bound(cluster: Cluster, new: New) -> Cluster:
    """Return the cluster with the policies that count for a new instance."""
    if not new.ignore_policy:
        return cluster
    nodes = cluster.state.nodes.values()
    return cluster.WithState(cluster.state.With(node.WithFacts(node.facts.WithoutPolicy()) for node in nodes))


def _Place(cluster: Cluster, new: New, group: Group | None, rules: Rules, index: int) -> GroupChoice:
    choice = _PlaceBound(Bound(cluster, new), new, group, rules, index)
    placed = choice.placement
    if placed is None or not new.ignore_policy:
        return choice
    nodes = (node.WithFacts(cluster.state.nodes[index].facts) for index, node in placed.state.nodes.items())
    return choice._replace(placement=placed._replace(state=placed.state.With(nodes)))


def _PlaceBound(cluster: Cluster, new: New, group: Group | None, rules: Rules, index: int) -> GroupChoice:
    inst = replace(NewInstanceTags(new.instance, cluster.tags), index=index, alias=new.instance.name)
    chosen = RulesFor(new, rules)
    judge = allocate.JudgeFor(cluster, None if group is None else group.index)
    if group is not None:
        return allocate.AllocateInGroup(cluster, inst, new.required, chosen, group, judge)
    return allocate.AllocateInGroups(cluster, inst, new.required, chosen, judge)


def _Index(state: State) -> int:
    return max(state.instances, default=-1) + 1


def _Text(choice: GroupChoice, named: bool) -> str:
    messages = (
        choice.messages if named or choice.group is None else [f"Selected group: {choice.group.name}", *choice.messages]
    )
    return ", ".join(messages)


def _Names(state: State, inst: Instance) -> list[str]:
    return [state.nodes[index].facts.name for index in inst.nodes]


def _Allocate(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    group = None if request.group is None else _FindGroup(cluster, request.group)
    (new,) = request.new
    choice = _Place(cluster, new, group, rules, _Index(cluster.state))
    if choice.placement is None:
        raise Impossible(", ".join(choice.messages))
    state = choice.placement.state
    return Answer(_Names(state, choice.placement.instance), _Text(choice, group is not None), cluster.WithState(state))


class Placing(NamedTuple):
    """What came of one of several new instances; ``cluster`` is what it met: those before it have their places."""

    new: New
    cluster: Cluster
    group: Group | None
    choice: GroupChoice


def Placings(cluster: Cluster, request: Request, rules: Rules) -> Iterator[Placing]:
    """Place new instances one after the other; those that fit nowhere leave the cluster as it is.

    The group of the request counts, or else that of the instance, which is ours.  Raises Impossible for an unknown one.
    """
    for new in request.new:
        word = new.group if request.group is None else request.group
        group = None if word is None else _FindGroup(cluster, word)
        choice = _Place(cluster, new, group, rules, _Index(cluster.state))
        yield Placing(new, cluster, group, choice)
        if choice.placement is not None:
            cluster = cluster.WithState(choice.placement.state)


def _MultiAllocate(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    """Place one after the other; without a group, one that fits nowhere fails the request."""
    placed: list[Any] = []
    failed: list[Any] = []
    for new, _, group, choice in Placings(cluster, request, rules):
        if choice.placement is not None:
            cluster = cluster.WithState(choice.placement.state)
            placed.append([new.instance.name, _Names(cluster.state, choice.placement.instance)])
        elif group is None:
            raise Impossible(", ".join(choice.messages))
        else:
            failed.append([new.instance.name, ", ".join(choice.messages)])
    text = f"{len(failed)} instances failed to allocate and {len(placed)} were allocated successfully"
    return Answer([placed, failed], text, cluster)


def _AllocateSecondary(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    inst = _Existing(cluster, request.instances[0])
    if inst.secondary != NO_NODE:
        raise Impossible("Instance already has a secondary")
    primary = cluster.state.nodes[inst.primary]
    without = cluster.state.With((RemovePrimary(primary, inst),))
    mirrored = replace(inst, template=DRBD)
    judge = allocate.ByScore(without, mirrored, rules.force)
    # Offline nodes have no room and are counted among the failures, as in 3.1; drained ones have some, and must not be chosen.
    others = [n.index for n in without.Of(primary.facts.group) if n.index != inst.primary and not n.facts.drained]
    # Whether nodes can be emptied is looked at as if the instance stayed what it was.
    outcome = allocate.Choose(_AsItWas(judge, inst), [(inst.primary, others)], rules)
    if outcome.solution is None:
        raise Impossible(outcome.Describe(judge.Show))
    solved = outcome.solution
    final = replace(solved.instance, template=DRBD)
    state = solved.state.With((), (final,))
    described = replace(outcome, solution=Placement(state, final, solved.metric))
    return Answer(state.nodes[final.secondary].facts.name, described.Describe(judge.Show), cluster.WithState(state))


class _AsItWas:
    """Shows the states of another judge with the instance as it was: plain, on its primary alone."""

    def __init__(self, judge: allocate.Judge, inst: Instance):
        self._judge = judge
        self._inst = inst

    def Single(self, primary: int) -> Placement | Failure:
        return self._judge.Single(primary)

    def Pair(self, primary: int, secondary: int) -> Placement | Failure:
        found = self._judge.Pair(primary, secondary)
        if isinstance(found, Failure):
            return found
        shown = replace(self._inst, secondary=NO_NODE)
        placed = replace(found.instance, template=self._inst.template)
        return Placement(found.state.With((), (shown,)), placed, found.metric)

    def Pairs(self, primary: int, secondaries: Sequence[int]) -> Sequence[Any]:
        return self._judge.Pairs(primary, secondaries)

    def Guard(self, rules: Rules) -> allocate.Safe:
        return allocate.TriedOut(rules)

    def Facts(self, node: int) -> NodeFacts:
        return self._judge.Facts(node)

    def Before(self) -> State:
        return self._judge.Before()

    def Show(self, metric: Any) -> str:
        return self._judge.Show(metric)


def _Capacity(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    """Place the same instance again and again, up to the limit; the first one that does not fit ends it."""
    group = None if request.group is None else _FindGroup(cluster, request.group)
    (new,) = request.new
    places: list[list[str]] = []
    reason = "the limit of the request was reached"
    while len(places) < request.limit:
        choice = _Place(cluster, new, group, rules, _Index(cluster.state))
        if choice.placement is None:
            reason = ", ".join(choice.messages)
            break
        cluster = cluster.WithState(choice.placement.state)
        places.append(_Names(cluster.state, choice.placement.instance))
    return Answer(places, f"{len(places)} instances fit; then: {reason}", cluster)


# --- the whole cluster ----------------------------------------------------------------------------------------------------


def _Balance(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    """Balance one group after the other, with so many moves for all of them; each move is a job, in their order."""
    before = {group.index: cluster.GroupState(group.index).Score() for group in cluster.UsedGroups()}
    moved: dict[int, list[Any]] = {}
    jobs: list[Sequence[Any]] = []
    for group in cluster.UsedGroups():
        part = cluster.GroupState(group.index)
        wishes = balance.Rules(ignore_soft_errors=rules.force, steps=request.limit - len(jobs))
        for step in balance.Balance(part, wishes) if wishes.steps > 0 else ():
            moved[step.moved.index] = [step.moved.name, group.name, _Names(step.state, step.moved)]
            jobs.append(solution.Opcodes(step.instance, step.move, cluster.NodeName(step.move.target)))
            part = step.state
        cluster = cluster.WithState(cluster.state.With(part.nodes.values(), part.instances.values()))
    scores = ", ".join(
        f"group {group.name} {Fixed(before[group.index], 8)} -> {Fixed(cluster.GroupState(group.index).Score(), 8)}"
        for group in cluster.UsedGroups()
    )
    return Answer([list(moved.values()), [], jobs], f"{len(jobs)} moves, scores: {scores}", cluster)


# --- existing instances -----------------------------------------------------------------------------------------------------


def _Existing(cluster: Cluster, name: str) -> Instance:
    return next(inst for inst in cluster.state.instances.values() if inst.name == name)


def _Relocate(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    inst = _Existing(cluster, request.instances[0])
    if inst.mirroring is Mirroring.NONE:
        raise Impossible("Can't relocate non-mirrored instances")
    if request.required != 1:
        raise Impossible(f"Exchange {request.required} nodes mode is not implemented")
    internal = inst.mirroring is Mirroring.INTERNAL
    leaving = inst.secondary if internal else inst.primary
    indices = {node.facts.name: node.index for node in cluster.state.nodes.values()}
    unknown = [name for name in request.relocate_from if name not in indices]
    if unknown:
        raise Impossible(f"Unknown node '{unknown[0]}'")
    given = [indices[name] for name in request.relocate_from]
    if given != [leaving]:
        what = "secondary" if internal else "primary"
        listed = ",".join(map(str, given))
        raise Impossible(
            f"Unsupported request: excluded nodes not equal to instance's {what}({leaving} versus [{listed}])"
        )
    mode = Mode.SECONDARY if internal else Mode.PRIMARY
    result = evacuate.NodeEvacuate(cluster.state, [inst], mode, rules.force)
    if result.failed:
        raise Impossible(result.failed[0][1])
    moved = result.moved[0].instance
    target = moved.secondary if internal else moved.primary
    return Answer([result.state.nodes[target].facts.name], "success", cluster.WithState(result.state))


def _NodeEvacuate(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    instances = [_Existing(cluster, name) for name in request.instances]
    return _Evacuated(cluster, evacuate.NodeEvacuate(cluster.state, instances, request.mode, rules.force))


def _ChangeGroup(cluster: Cluster, request: Request, rules: Rules) -> Answer:
    instances = [_Existing(cluster, name) for name in request.instances]
    wanted = [_FindGroup(cluster, word).index for word in request.target_groups]
    return _Evacuated(cluster, evacuate.ChangeGroup(cluster, instances, wanted, rules))


def _Evacuated(cluster: Cluster, result: evacuate.Result) -> Answer:
    nodes = result.state.nodes
    groups = {group.index: group for group in cluster.groups}
    moved = []
    jobs: list[Sequence[Any]] = []
    for item in result.moved:
        group = groups[nodes[item.instance.primary].facts.group]
        moved.append([item.instance.name, group.name, _Names(result.state, item.instance)])
        jobs.append(
            [
                opcode
                for inst, move in item.steps
                for opcode in solution.Opcodes(inst, move, cluster.NodeName(move.target))
            ]
        )
    failed = [[inst.name, reason] for inst, reason in result.failed]
    text = f"{len(failed)} instances failed to move and {len(moved)} were moved successfully"
    return Answer([moved, failed, jobs], text, cluster.WithState(result.state))


_REPLIES: dict[Type, Callable[[Cluster, Request, Rules], Answer]] = {
    Type.ALLOCATE: _Allocate,
    Type.ALLOCATE_SECONDARY: _AllocateSecondary,
    Type.RELOCATE: _Relocate,
    Type.NODE_EVACUATE: _NodeEvacuate,
    Type.CHANGE_GROUP: _ChangeGroup,
    Type.MULTI_ALLOCATE: _MultiAllocate,
    Type.BALANCE: _Balance,
    Type.CAPACITY: _Capacity,
}
