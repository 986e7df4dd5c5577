"""What is found the short way is what the textbook finds: trying everything, in full, in the specified order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ganeti.htools.choosing import allocate, balance
from ganeti.htools.choosing.allocate import ByScore, Candidate, Outcome, Placement, Rules
from ganeti.htools.choosing.bounds import Bounds
from ganeti.htools.model.entities import NO_NODE, Disk, Failure, Instance, Status
from ganeti.htools.model.moves import Apply, Leaving, Move
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sources import loading, text
from ganeti.htools.sources.loading import Wishes
from ganeti.htools.survival.redundancy import Redundant

_SIZES = [256, 1024, 3000]
_DISKS = [1024, 20000]
_TAGS = ["", "", "x:a", "x:b,x:a", "where:east"]
_NODE_TAGS = ["", "where:east", "where:west", "where:east,hw:old", "hw:old"]
_CLUSTER_TAGS = [
    "htools:iextags:x", "htools:nlocation:where", "htools:migration:hw", "htools:desiredlocation:where",
]  # fmt: skip


def _Often(draw: Any, usual: Any, *others: Any) -> Any:
    return draw(st.sampled_from([*[usual] * 3, *others]))


@st.composite
def clusters(draw: Any, sizes: Sequence[int] = (2, 3, 4, 5, 6), guests: Sequence[int] = (3, 6, 9, 12)) -> Cluster:
    """A cluster with some of everything: equal nodes and instances, and nodes that are offline, full or short of memory."""
    count = draw(st.sampled_from(sizes))
    groups = draw(st.integers(1, 2)) if count > 3 else 1
    uniform = draw(st.booleans())
    usual = lambda *values: values[0] if uniform else _Often(draw, *values)  # noqa: E731
    # With little memory, emptying a node is what fails.
    memory_of, tagged = draw(st.sampled_from([32768, 16384, 6000])), draw(st.booleans())
    balanced = draw(st.sampled_from(["Y", "YN"]))
    shared = draw(st.booleans())
    instances, used = [], [[0, 0] for _ in range(count)]
    for number in range(draw(st.sampled_from(guests))):
        template = _Often(draw, "drbd", "plain", "ext", "file", "diskless")
        primary = draw(st.integers(0, count - 1))
        secondary = (primary + draw(st.integers(1, count - 1))) % count
        memory, disk = draw(st.sampled_from(_SIZES)), draw(st.sampled_from(_DISKS))
        status = usual("running", "ADMIN_down", "ADMIN_offline")
        forthcoming = usual("N", "Y")
        if forthcoming == "N":
            used[primary][0] += memory if status == "running" else 0
            for node in {"drbd": [primary, secondary], "plain": [primary]}.get(template, []):
                used[node][1] += disk
        other = f"n{secondary}" if template == "drbd" else ""
        least = _Often(draw, "", memory // 2, memory // 4) if shared else ""
        cpus, auto, tags, spindles = usual(1, 4), draw(st.sampled_from(balanced)), usual(*_TAGS), usual("1", "-")
        instances.append(
            f"i{number}|{memory}|{disk}|{cpus}|{status}|{auto}|n{primary}|{other}|{template}|{tags}|1|{spindles}|{forthcoming}"
            f"|{least}"
        )
    nodes = []
    for i in range(count):
        memory, disk = usual(memory_of, 8192, 5000), usual(100_000, 45_000)
        missing, role, exclusive = usual(0, 2500), _Often(draw, "N", "N", "Y"), usual("N", "N", "Y")
        spindles, cpus = usual(4, 8), usual(8, 2)
        tags = draw(st.sampled_from(_NODE_TAGS)) if tagged else ""
        free = memory - 512 - used[i][0] - missing
        nodes.append(
            f"n{i}|{memory}|512|{free}|{disk}|{disk - used[i][1]}|{cpus}|{role}|u{i % groups}|{spindles}|{tags}|{exclusive}|2"
        )
    ratio, spindle_ratio = usual("4.0", "1.0"), usual("32.0", "1.0", "0.0")
    bounds = "128,1,1024,1,1,1;2048,8,30000,16,8,12" if usual(False, True) else "0,0,0,0,0,0;9999,8,99999,16,8,12"
    policy = f"|256,1,1024,1,1,1|{bounds}|drbd,plain,ext,file,diskless|{ratio}|{spindle_ratio}"
    ratios = [_Often(draw, "1.5", "1.0", "3.0", "") if shared else "" for _ in range(groups)]
    policies = [f"g{i}{policy}|{ratios[i]}|1" for i in range(groups)]
    tags = [tag for tag in _CLUSTER_TAGS if draw(st.booleans())]
    group_lines = [f"g{i}|u{i}|preferred||" for i in range(groups)]
    sections = [group_lines, nodes, instances, tags, [policy, *policies]]
    written = "\n".join("".join(f"{line}\n" for line in section) for section in sections)
    return loading.Build(text.Parse(written), Wishes())


# --- allocation -------------------------------------------------------------------------------------------------------------


def _Textbook(judge: ByScore, candidates: Sequence[Candidate], rules: Rules) -> Outcome:
    """Section 10.3, word by word."""
    total = Outcome()
    together = [[(primary, None) for primary, _ in candidates]]
    if any(others is not None for _, others in candidates):
        together = [[(primary, second) for second in others or ()] for primary, others in candidates]
    for places in together:
        results = [judge.Single(p) if s is None else judge.Pair(p, s) for p, s in places]
        failures = Counter(result for result in results if isinstance(result, Failure))
        found = [result for result in results if isinstance(result, Placement)]
        found.reverse()
        found.sort(key=lambda placement: placement.metric)
        while rules.capacity_checks and found:
            if Redundant(found[0].state, rules.ignored, rules.accept_offline):
                break
            del found[0]
            failures[Failure.N1] += 1
        total.successes += len(found)
        total.failures.update(failures)
        if found and (total.solution is None or not total.solution.metric < found[0].metric):
            total.solution = found[0]
    return total


@st.composite
def new_instances(draw: Any, template: str) -> Instance:
    """An instance to be allocated; its index is set later."""
    memory, disk = draw(st.sampled_from(_SIZES)), draw(st.sampled_from(_DISKS))
    return Instance(
        99, "new", memory=memory, disk=disk, vcpus=draw(st.sampled_from([1, 4])), template=template, primary=NO_NODE,
        status=_Often(draw, Status.RUNNING, Status.ADMIN_DOWN), disks=(Disk(disk, _Often(draw, 1, None)),), alias="new",
        forthcoming=_Often(draw, False, True), auto_balance=_Often(draw, True, False),
        exclusion_tags=_Often(draw, (), ("x:a",)), least_memory=_Often(draw, None, memory // 2),
    )  # fmt: skip


@st.composite
def allocations(draw: Any) -> tuple[State, Instance, list[Candidate], Rules]:
    """An instance and where it might go."""
    cluster: Cluster = draw(clusters())
    inst = draw(new_instances(draw(st.sampled_from(["drbd", "drbd", "drbd", "plain", "ext"]))))
    ignored = _Often(draw, (), (1,))
    checks, force, accept = draw(st.booleans()), _Often(draw, False, True), draw(st.booleans())
    rules = Rules(force=force, capacity_checks=checks, accept_offline=accept, ignored=ignored)
    try:
        candidates = allocate.Candidates(cluster.state.Ordered(), len(inst.nodes), rules)
    except allocate.NoCandidates:
        candidates = []
    return cluster.state, inst, candidates, rules


@given(allocations())
@settings(max_examples=150)
def test_an_allocation_is_the_textbooks(case: tuple[State, Instance, list[Candidate], Rules]) -> None:
    state, inst, candidates, rules = case
    found, wanted = (
        choose(ByScore(state, inst, rules.force), candidates, rules) for choose in (allocate.Choose, _Textbook)
    )
    assert (found.successes, +found.failures) == (wanted.successes, +wanted.failures)
    if wanted.failures[Failure.N1]:
        event("refused for redundancy")
    if wanted.solution is None or found.solution is None:
        assert found.solution is wanted.solution
        return
    event("placed")
    assert found.solution.instance == wanted.solution.instance
    # NaN does not equal itself.
    assert repr(found.solution.metric) == repr(wanted.solution.metric)


@given(allocations())
@settings(max_examples=150)
def test_every_pair_has_the_textbooks_score_and_redundancy(
    case: tuple[State, Instance, list[Candidate], Rules],
) -> None:
    state, inst, candidates, rules = case
    judge = ByScore(state, inst, rules.force)
    safe, tried_out = judge.Guard(rules), allocate.TriedOut(rules)
    for primary, secondaries in candidates:
        if secondaries is not None:
            assert repr(judge.Pairs(primary, secondaries)) == repr(allocate.MetricsOfPairs(judge, primary, secondaries))
        for secondary in secondaries or [NO_NODE]:
            placed = judge.Single(primary) if secondary == NO_NODE else judge.Pair(primary, secondary)
            if isinstance(placed, Failure):
                continue
            after = placed.state
            wanted = tried_out(primary, secondary, lambda after=after: after)  # type: ignore[misc]
            assert safe(primary, secondary, lambda after=after: after) == wanted  # type: ignore[misc]
            event(f"redundant: {wanted}")


@pytest.mark.parametrize(
    ("guests", "free", "place", "memory", "safe"),
    [
        (["i|3000|0|drbd"], [4000, 4000, 4000], (1, 2), 900, True),
        (["i|3000|0|drbd"], [4000, 4000, 4000], (1, 2), 1000, False),  # takes what i needs on its secondary
        (["i|3000|0|drbd"], [4000, 4000, 4000], (0, 1), 900, True),
        (["i|3000|0|drbd"], [4000, 4000, 4000], (0, 1), 1000, False),  # both leave for the same node
        (["i|3000|0|plain"], [4000, 4000, 1300], (2, 1), 1000, True),
        (["i|3000|0|plain"], [4000, 4000, 1100], (1, 2), 1000, False),  # takes the only room for i
        (["i|3000|0|plain"], [4000, 4000, 4000], (1, 2), 1000, True),
        # There is room, though on no node for both.
        (["i|3000|0|plain", "j|1500|0|plain"], [4000, 3200, 1700], (2, 1), 128, True),
        (["i|3000|0|plain", "j|1500|0|plain"], [4000, 3200, 1700], (2, 1), 250, False),
    ],
)
def test_a_guard_knows_what_an_instance_spoils(
    guests: list[str], free: list[int], place: tuple[int, int], memory: int, safe: bool
) -> None:
    """Nodes with so much free memory; the instances, which nobody keeps memory for, are on the first node."""
    instances = []
    for guest in guests:
        name, size, node, template = guest.split("|")
        other = "n1" if template == "drbd" else ""
        instances.append(f"{name}|{size}|1024|1|running|N|n{node}|{other}|{template}|")
    taken = sum(int(guest.split("|")[1]) for guest in guests)
    nodes = [f"n{i}|{room + (taken if i == 0 else 0)}|0|{room}|100000|90000|64|N|u|9" for i, room in enumerate(free)]
    state = loading.Build(
        text.Parse("\n".join(["g|u|preferred||", "", *nodes, "", *instances, "", ""]) + "\n"), Wishes()
    ).state
    new = Instance(
        99, "new", memory=memory, disk=1024, vcpus=1, status=Status.RUNNING, template="drbd", primary=NO_NODE,
        disks=(Disk(1024, 1),), auto_balance=False,
    )  # fmt: skip
    judge = ByScore(state, new, force=True)
    placed = judge.Pair(*place)
    assert isinstance(placed, Placement)
    assert Redundant(placed.state) is safe
    assert judge.Guard(Rules())(*place, lambda: placed.state) is safe


# --- balancing --------------------------------------------------------------------------------------------------------------


def _TextbookStep(state: State, score: float, rules: balance.Rules) -> balance.Step | None:
    """Section 8, word by word."""
    best: balance.Step | None = None
    for inst in balance.Candidates(state, rules):
        for move in balance.Moves(state, inst, rules):
            after = Apply(state, inst, move, rules.ignore_soft_errors)
            if isinstance(after, Failure) or not after.Score() < score:
                continue
            score = after.Score()
            best = balance.Step(inst, after.instances[inst.index], move, after, score)
    return best


_RULES = st.builds(
    balance.Rules,
    instance_moves=st.sampled_from([True, True, True, False]),
    disk_moves=st.sampled_from([True, True, True, False]),
    restricted_migration=st.sampled_from([False, False, True]),
    evacuation=st.sampled_from([False, False, False, True]),
    ignore_soft_errors=st.sampled_from([False, False, True]),
)


def _Whole(cluster: Cluster) -> State:
    """The group with the most nodes: balancing never sees more than one."""
    states = [cluster.GroupState(group.index) for group in cluster.groups]
    state = max(states, key=lambda state: len(state.nodes))
    inside = {i: inst for i, inst in state.instances.items() if inst.secondary in (NO_NODE, *state.nodes)}
    return State(state.nodes, inside)


@given(clusters(), _RULES)
@settings(max_examples=150)
def test_the_best_step_is_the_textbooks(cluster: Cluster, rules: balance.Rules) -> None:
    state = _Whole(cluster)
    for number in range(4):
        found, wanted = (best(state, state.Score(), rules) for best in (balance.BestStep, _TextbookStep))
        assert (found is None) == (wanted is None)
        if found is None or wanted is None:
            event(f"steps: {number}")
            return
        assert (found.move, found.moved, found.score) == (wanted.move, wanted.moved, wanted.score)
        state = found.state


# The more nodes there are, the closer are the bounds.
@given(clusters(sizes=(8, 12), guests=(12, 20)), _RULES)
@settings(max_examples=30)
def test_no_move_is_better_than_its_bound(cluster: Cluster, rules: balance.Rules) -> None:
    state = _Whole(cluster)
    bounds = Bounds(state)
    event(f"exact: {bounds.exact}")
    if not bounds.exact:
        return
    scores = {}
    families = []
    for number, inst in enumerate(balance.Candidates(state, rules)):
        leaving = Leaving(state, inst)
        _, kinds = balance.KindsOfMoves(state, inst, rules)
        families.append((number, leaving, kinds))
        for kind in kinds:
            for place, target in enumerate(bounds.online):
                if target.index in (inst.primary, inst.secondary):
                    continue
                after = Apply(state, inst, Move(kind, target.index), rules.ignore_soft_errors)
                if not isinstance(after, Failure):
                    scores[number, kind, place] = after.Score()
    for family in bounds.Families(families, rules.ignore_soft_errors):
        for place, target in enumerate(bounds.online):
            score = scores.pop((family.number, family.kind, place), None)
            if score is not None:
                event("move")
                assert family.least <= family.Bound(place, target) + 1e-9
                assert family.Bound(place, target) <= score + 1e-9
    assert not scores, "a move that is possible belongs to no family"


# --- the cost of moves ---------------------------------------------------------------------------------------------------


def _Value(state: State, instance: Any, move: Move, cost: float) -> float | None:
    after = Apply(state, instance, move)
    return None if isinstance(after, Failure) else after.Score() + cost * balance.Copied(instance, move)


@given(clusters(sizes=(2, 3, 4), guests=(3, 5)), st.sampled_from([0.003, 0.02, 0.1]))
@settings(max_examples=40, deadline=None)
def test_the_chosen_move_is_the_best_one_with_its_cost(cluster: Cluster, cost: float) -> None:
    """Shortcuts that know only the score leave nothing out."""
    state, rules = cluster.GroupState(0), balance.Rules(cost=cost)
    state = State(state.nodes, {i: inst for i, inst in state.instances.items() if set(inst.nodes) <= set(state.nodes)})
    score = state.Score()
    if not score < float("inf"):
        return
    values = [
        value
        for inst in balance.Candidates(state, rules)
        for move in balance.Moves(state, inst, rules)
        if (value := _Value(state, inst, move, cost)) is not None
    ]
    step = balance.BestStep(state, score, rules)
    best = min(values, default=score)
    if step is None:
        assert not best < score
    else:
        assert step.score + cost * balance.Copied(step.instance, step.move) == best < score
