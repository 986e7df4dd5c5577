"""What holds on every cluster: balancing, evacuation and allocation keep their promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti.htools.choosing import allocate, balance, evacuate, space
from ganeti.htools.choosing.allocate import Rules
from ganeti.htools.choosing.evacuate import Mode
from ganeti.htools.choosing.space import Space
from ganeti.htools.model.entities import NO_NODE, Disk, Instance, Status
from ganeti.htools.model.resources import CheckPolicy, Node
from ganeti.htools.model.score import Estimate
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sizes import Size
from ganeti.htools.sources import loading, text
from ganeti.htools.sources.loading import Raw, Wishes
from ganeti.htools.survival.redundancy import Redundant

_GROUP = "g0|uuid-0|preferred||"


@st.composite
def clusters(draw: Any) -> Cluster:
    """A cluster of one group whose records and reports agree, as the text of a file."""
    count = draw(st.integers(2, 5))
    memory = [draw(st.sampled_from([8192, 16384])) for _ in range(count)]
    disk = [draw(st.sampled_from([100_000, 200_000])) for _ in range(count)]
    used_memory, used_disk = [0] * count, [0] * count
    instances = []
    for number in range(draw(st.integers(0, 7))):
        template = draw(st.sampled_from(["drbd", "drbd", "plain", "ext"]))
        primary = draw(st.integers(0, count - 1))
        secondary = (primary + draw(st.integers(1, count - 1))) % count
        size, space_taken = draw(st.sampled_from([512, 1024])), draw(st.sampled_from([1024, 5000]))
        used_memory[primary] += size
        for node in {"drbd": [primary, secondary], "plain": [primary], "ext": []}[template]:
            used_disk[node] += space_taken
        other = f"n{secondary}" if template == "drbd" else ""
        instances.append(f"i{number}|{size}|{space_taken}|1|running|Y|n{primary}|{other}|{template}|")
    nodes = [
        f"n{i}|{memory[i]}|512|{memory[i] - 512 - used_memory[i]}|{disk[i]}|{disk[i] - used_disk[i]}|8|N|uuid-0|4"
        for i in range(count)
    ]
    lines = [_GROUP, "", *nodes, "", *instances, "", ""]
    raw: Raw = text.Parse("\n".join(lines) + "\n")
    return loading.Build(raw, Wishes())


def _Offline(cluster: Cluster, index: int) -> State:
    node = cluster.state.nodes[index]
    return cluster.state.With((node.WithFacts(replace(node.facts, offline=True)),))


def _Recomputed(cluster: Cluster, state: State) -> dict[int, tuple[Any, ...]]:
    """What each node holds if all instances are put on it anew."""
    fresh = {index: Node(node.facts) for index, node in state.nodes.items()}
    found = {}
    for index, node in fresh.items():
        primaries = {i.index for i in state.instances.values() if i.primary == index}
        secondaries = {i.index for i in state.instances.values() if i.mirrored and i.secondary == index}
        memory = sum(state.instances[i].memory for i in primaries)
        peers: dict[int, int] = {}
        for i in secondaries:
            inst = state.instances[i]
            peers[inst.primary] = peers.get(inst.primary, 0) + inst.memory
        found[index] = (primaries, secondaries, memory, max(peers.values(), default=0), node.facts.name)
    return found


def _Held(state: State) -> dict[int, tuple[Any, ...]]:
    return {
        index: (set(node.primaries), set(node.secondaries), node.instance_memory, node.reserved, node.facts.name)
        for index, node in state.nodes.items()
    }


@given(clusters(), st.integers(0, 4))
@settings(max_examples=60)
def test_balancing_only_improves_and_ends(cluster: Cluster, offline: int) -> None:
    state = _Offline(cluster, offline % len(cluster.state.nodes))
    score = state.Score()
    for step in balance.Balance(state, balance.Rules(steps=30)):
        assert step.score < score
        assert abs(step.score - step.state.Score()) < 1e-12
        changed = [node for index, node in step.state.nodes.items() if node is not state.nodes[index]]
        assert abs(Estimate(state.Ordered()).Score(changed) - step.score) < Estimate.TOLERANCE
        score, state = step.score, step.state
        assert _Held(state) == _Recomputed(cluster, state), "no step loses or doubles an instance"


@given(clusters(), st.sampled_from(list(Mode)))
@settings(max_examples=60)
def test_evacuated_instances_have_left(cluster: Cluster, mode: Mode) -> None:
    index = next(iter(cluster.state.nodes))
    node = cluster.state.nodes[index]
    # As the master daemon asks: of which role the node is to be rid.
    primaries = () if mode is Mode.SECONDARY else node.primaries
    secondaries = () if mode is Mode.PRIMARY else node.secondaries
    leaving = [cluster.state.instances[i] for i in (*primaries, *secondaries)]
    result = evacuate.NodeEvacuate(cluster.state, leaving, mode, force=False)
    assert len(result.moved) + len(result.failed) == len(leaving)
    assert _Held(result.state) == _Recomputed(cluster, result.state)
    after = result.state.nodes[index]
    stay = {inst.index for inst, _ in result.failed}
    assert mode is Mode.SECONDARY or set(after.primaries) <= stay, "nothing runs on an evacuated node"
    assert mode is Mode.PRIMARY or set(after.secondaries) <= stay, "nor does a mirror go there"
    for moved in result.moved:
        before = cluster.state.instances[moved.instance.index]
        if mode is not Mode.SECONDARY:
            assert moved.instance.primary != before.primary
        if mode is Mode.SECONDARY:
            assert moved.instance.secondary != before.secondary
        if mode is Mode.ALL and before.mirrored:
            assert not set(moved.instance.nodes) & set(before.nodes)


def _New(state: State, template: str, memory: int) -> Instance:
    return Instance(
        max(state.instances, default=-1) + 1, "new", memory=memory, disk=2048, vcpus=1, status=Status.RUNNING,
        template=template, primary=NO_NODE, disks=(Disk(2048, 1),), alias="new",
    )  # fmt: skip


@given(clusters(), st.sampled_from(["drbd", "plain", "ext"]), st.sampled_from([64, 1024, 3072, 5000]))
@settings(max_examples=100)
def test_an_allocation_keeps_policy_and_redundancy(cluster: Cluster, template: str, memory: int) -> None:
    inst = _New(cluster.state, template, memory)
    choice = allocate.AllocateInGroups(cluster, inst, len(inst.nodes), Rules())
    if choice.placement is None:
        assert "No valid allocation solutions" in choice.messages[0]
        return
    placed, state = choice.placement.instance, choice.placement.state
    assert len(set(placed.nodes)) == len(placed.nodes)
    assert CheckPolicy(state.nodes[placed.primary].facts.policy, placed, False) is None
    assert Redundant(state)
    for index in placed.nodes:
        assert not state.nodes[index].failing or cluster.state.nodes[index].failing


@given(clusters(), st.sampled_from(["drbd", "ext", "plain"]), st.booleans())
@settings(max_examples=30)
def test_what_is_said_to_fit_does_one_by_one(cluster: Cluster, template: str, checks: bool) -> None:
    """``hspace`` never looks whether nodes can be emptied when mirrored instances are added (15.3), and ``hail`` does: so the
    two agree on mirrored instances only where the rules of single nodes ensure it.
    """
    if template == "drbd":
        mirrored = all(inst.mirrored for inst in cluster.state.instances.values())
        checks = checks and mirrored and Redundant(cluster.state)
    rules = Rules(capacity_checks=checks)
    required = 2 if template == "drbd" else 1
    candidates = allocate.Candidates(cluster.state.Ordered(), required, rules)
    run = Space(template, 1, candidates, rules).Standard(cluster.state, Size(5000, 1024, 1), space.UNLIMITED)
    state = cluster.state
    for inst in run.instances:
        one = loading.NewInstanceTags(_New(state, template, 1024), cluster.tags)
        one = Instance(**{**one.__dict__, "disk": 5000, "disks": (Disk(5000, 1),), "name": inst.name})
        choice = allocate.AllocateInGroups(cluster.WithState(state), one, required, rules)
        assert choice.placement is not None
        state = choice.placement.state
    assert state.Score() == run.state.Score()
    again = allocate.AllocateInGroups(
        cluster.WithState(state),
        Instance(**{**_New(state, template, 1024).__dict__, "disk": 5000, "disks": (Disk(5000, 1),)}),
        required,
        rules,
    )
    assert again.placement is None, "nothing more fits"
