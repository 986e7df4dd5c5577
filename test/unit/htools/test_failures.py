"""Several node failures, one after the other (doc/design-resource-model.rst)."""

from __future__ import annotations

import io
import itertools
import pathlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ganeti.client.gnt_cluster import capacity
from ganeti.htools.choosing import allocate, evacuate, space
from ganeti.htools.choosing.evacuate import Mode
from ganeti.htools.model.entities import NO_NODE, Disk, Failure, Instance, Status
from ganeti.htools.model.moves import Kind
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.options import PROGRAM_OPTIONS, Parser
from ganeti.htools.sources import loading, text
from ganeti.htools.survival import failures, sums
from ganeti.htools.survival.effort import GIVEN_UP, Effort, GivenUp
from ganeti.tools.htools import hspace
from ganeti.tools.htools.output import Streams

SPEC = "0,0,0,0,0,0"
BOUNDS = f"{SPEC};65536,64,1048576,16,8,12"


def _Cluster(guests: list[str], rooms: list[int], count: int, ratio: str = "") -> Cluster:
    """Nodes with so much memory for instances; a failure of any ``count`` of them must be survived."""
    used, disk = [0] * len(rooms), [0] * len(rooms)
    for line in guests:
        columns = line.split("|")
        used[int(columns[6][1:])] += int(columns[1]) if columns[4] == "running" else 0
        for node in filter(None, columns[6:8] if columns[8] == "drbd" else []):
            disk[int(node[1:])] += int(columns[2])
    nodes = [
        f"n{i}|{512 + room}|512|{room - used[i]}|90000|{90000 - disk[i]}|64|N|u|64||N|0|1|1.0"
        for i, room in enumerate(rooms)
    ]
    policy = f"g|{SPEC}|{BOUNDS}|drbd,plain,ext|64.0|32.0|{ratio}|{count}"
    lines = ["g|u|preferred||", "", *nodes, "", *guests, "", "", policy, ""]
    return loading.Build(text.Parse("\n".join(lines)), loading.Wishes())


def _Guest(number: int, memory: int, template: str, primary: int, secondary: int, least: int | None = None) -> str:
    other = f"n{secondary}" if template == "drbd" else ""
    columns = f"i{number}|{memory}|1000|1|running|Y|n{primary}|{other}|{template}||1|-|N"
    return columns if least is None else f"{columns}|{least}"


def _Survives(state: State, group: int, count: int) -> bool:
    return failures.FirstBreakdown(state, group, count, Effort()) is None


def _New(template: str, memory: int) -> Instance:
    return Instance(
        99, "new", memory, 1000, 1, Status.RUNNING, template, NO_NODE, disks=(Disk(1000, 1),), alias="new"
    )  # fmt: skip


@pytest.mark.req("RM-ALLOC-04")
@pytest.mark.parametrize("template", ["drbd", "ext"])
def test_allocation_stops_where_so_many_failures_would_be_too_many(template: str) -> None:
    """Three nodes with room for four instances each: with two failures one node must take all of them."""
    for count, most in ((1, 8), (2, 4)):
        cluster = _Cluster([], [4001] * 3, count)
        placed = 0
        while placed < 12:
            inst = replace(_New(template, 1000), index=100 + placed)
            choice = allocate.AllocateInGroups(cluster, inst, len(inst.nodes), allocate.Rules())
            if choice.placement is None:
                assert "FailN1" in choice.messages[0] or template == "drbd"
                break
            cluster, placed = cluster.WithState(choice.placement.state), placed + 1
        assert placed <= most
        # Mirrors bind an instance to two nodes, so a little less may fit.
        assert placed == most or (template == "drbd" and placed >= most - 2)
    unchecked = allocate.AllocateInGroups(cluster, inst, len(inst.nodes), allocate.Rules(capacity_checks=False))
    free = cluster.WithState(
        cluster.state.With(node.WithFacts(node.facts.WithoutPolicy()) for node in cluster.state.nodes.values())
    )
    ignoring = allocate.AllocateInGroups(free, inst, len(inst.nodes), allocate.Rules()).placement
    assert count == 1 or template == "drbd" or ignoring is not None, "--ignore-ipolicy lifts the rule as well"
    assert unchecked.placement is not None, "--no-capacity-checks leaves only 3.1's rules of single nodes"


@pytest.mark.req("RM-ALLOC-04")
@pytest.mark.parametrize("template", ["drbd", "ext"])
def test_capacity_stops_there_too(template: str) -> None:
    found = {}
    for count in (1, 2):
        cluster = _Cluster([], [4001] * 3, count)
        candidates = allocate.Candidates(cluster.state.Ordered(), 2 if template == "drbd" else 1, allocate.Rules())
        run = space.Space(template, 1, candidates, allocate.Rules()).Standard(
            cluster.state, space.Size(1000, 1000, 1), space.UNLIMITED
        )
        found[count] = len(run.instances)
        assert _Survives(run.state, 0, count)
        if count == 2:
            assert run.reason is Failure.N1
    assert found[2] <= 4 < found[1]


class _Counting(allocate.ByScore):
    """Counts the states of which failures are tried."""

    made = 0

    def Pair(self, primary: int, secondary: int) -> allocate.Placement | Failure:
        self.made += 1
        return super().Pair(primary, secondary)


def test_failures_are_tried_of_the_best_place_and_of_no_group_that_is_lost_already() -> None:
    def choose(room: int) -> tuple[int, allocate.Outcome]:
        cluster = _Cluster([_Guest(i, 1000, "drbd", i, (i + 1) % 3) for i in range(3)], [room] * 3, 2)
        judge = _Counting(cluster.state, _New("drbd", 500))
        candidates = allocate.Candidates(cluster.state.Ordered(), 2, allocate.Rules())
        outcome = allocate.Choose(judge, candidates, allocate.Rules())
        return judge.made, outcome

    made, outcome = choose(20001)
    assert outcome.solution is not None
    assert made == 2, "once to try failures, once more for the answer"
    made, outcome = choose(2501)
    assert outcome.solution is None
    assert made == 1
    assert outcome.failures[Failure.N1] == 6


def test_the_place_is_the_best_of_those_that_are_safe() -> None:
    guests = [_Guest(i, 1000, "drbd", i % 5, (i + 1) % 5) for i in range(8)]
    cluster = _Cluster(guests, [5001, 5001, 4001, 4001, 5001], 2)
    judge = allocate.ByScore(cluster.state, _New("drbd", 1500))
    candidates = allocate.Candidates(cluster.state.Ordered(), 2, allocate.Rules())
    places = [
        placed
        for primary, others in candidates
        for other in others or ()
        if isinstance(placed := judge.Pair(primary, other), allocate.Placement)
    ]
    safe = [placed.metric for placed in places if _Survives(placed.state, 0, 2)]
    found = allocate.Choose(judge, candidates, allocate.Rules()).solution
    assert found is not None
    assert found.metric == min(safe) > min(placed.metric for placed in places)


def test_a_group_of_two_nodes_can_bear_one_failure() -> None:
    cluster = _Cluster([_Guest(0, 100, "drbd", 0, 1)], [4001] * 2, 2)
    lines = list(capacity.Lines(cluster, cluster.groups[0], ["drbd"], 1))
    assert "  max-node-failures 2 needs 3 nodes that are online; 1 may fail" in lines
    assert not any("any 2 nodes" in line for line in lines)


def test_a_drained_node_gets_nothing_but_what_has_a_copy_there() -> None:
    guests = [_Guest(0, 1000, "drbd", 0, 3), _Guest(1, 1000, "ext", 3, 0)]

    def drained(rooms: list[int]) -> State:
        state = _Cluster(guests, rooms, 2).state
        node = state.nodes[3]
        return state.With((node.WithFacts(replace(node.facts, offline=True, drained=True)),))

    assert _Survives(drained([4001] * 4), 0, 2)
    # It may fail, too: what runs there finds no room on the others.
    found = failures.FirstBreakdown(drained([1501, 500, 500, 4001]), 0, 2, Effort())
    assert found is not None and "n3" in found.nodes


def test_what_breaks_down_is_named() -> None:
    cluster = _Cluster([_Guest(0, 3000, "ext", 0, 1), _Guest(1, 3000, "ext", 1, 2)], [4001] * 3, 2)
    found = failures.FirstBreakdown(cluster.state, 0, 2, Effort())
    assert found is not None
    assert len(found.nodes) == 2
    assert found.instance in ("i0", "i1")
    assert _Survives(cluster.state, 0, 1)


def test_a_mirror_on_an_offline_node_does_not_survive() -> None:
    cluster = _Cluster([_Guest(0, 100, "drbd", 0, 1)], [4001] * 4, 2)
    assert _Survives(cluster.state, 0, 2)
    node = cluster.state.nodes[1]
    without = cluster.state.With((node.WithFacts(replace(node.facts, offline=True)),))
    assert failures.FirstBreakdown(without, 0, 2, Effort()) == failures.Breakdown(("n0",), "i0")


def test_what_the_administrator_sees() -> None:
    guests = [_Guest(i, 3000, "ext", i, 0) for i in range(2)]
    kept, broken = _Cluster(guests, [6001] * 3, 2), _Cluster(guests, [4001] * 3, 2)
    lines = list(capacity.Lines(kept, kept.groups[0], ["ext"], 3))
    assert "  any 2 nodes may fail, one after the other (max-node-failures)" in lines
    (line,) = [line for line in capacity.Lines(broken, broken.groups[0], ["ext"], 3) if "is not kept" in line]
    assert line.startswith("  max-node-failures 2 is not kept: if n0, then n1 failed, there would be no room for i")
    forced = _Cluster(
        [_Guest(0, 3000, "ext", 0, 1, 100), _Guest(1, 3000, "ext", 0, 1, 100)], [4001] * 3, 1, ratio="1.0"
    )
    assert (
        "  memory-ratio 1 is not kept: the instances of n0 may have 6000 MiB together, it has 4001 MiB for them"
    ) in list(capacity.Lines(forced, forced.groups[0], ["ext"], 3))
    usual = _Cluster(guests, [4001] * 3, 1)
    assert not [
        line for line in capacity.Lines(usual, usual.groups[0], ["ext"], 3) if "max-node" in line or "ratio" in line
    ]


def test_minima_are_what_must_fit() -> None:
    guests = [_Guest(i, 3000, "ext", i % 3, 0, least=1000) for i in range(4)]
    assert not _Survives(_Cluster(guests, [4001] * 3, 2).state, 0, 2)
    assert _Survives(_Cluster(guests, [4001] * 3, 2, ratio="3.0").state, 0, 2)


def test_room_in_pieces_is_no_room() -> None:
    cluster = _Cluster([_Guest(i, 2500, "ext", i, 0) for i in range(3)], [4001] * 3, 1)
    assert not _Survives(cluster.state, 0, 1), "two nodes have 8002 MiB for 7500, and each has room for one"


@st.composite
def clusters(draw: Any) -> tuple[Cluster, int]:
    """A cluster that is half full, and a number of failures."""
    size = draw(st.integers(3, 5))
    rooms = [draw(st.sampled_from([4001, 6001])) for _ in range(size)]
    kinds = draw(st.sampled_from([["drbd"], ["ext"], ["drbd", "ext"]]))
    guests = []
    for number in range(draw(st.integers(0, 10))):
        primary = draw(st.integers(0, size - 1))
        secondary = (primary + draw(st.integers(1, size - 1))) % size
        guests.append(
            _Guest(number, draw(st.sampled_from([500, 1000, 2000])), draw(st.sampled_from(kinds)), primary, secondary)
        )
    count = draw(st.sampled_from([2, 2, 3]))
    return _Cluster(guests, rooms, count), min(count, size - 1)


def _Emptied(state: State, index: int) -> State:
    """The state after a node failed and an administrator emptied it with both steps of ``gnt-node evacuate``."""
    node = state.nodes[index]
    state = state.With((node.WithFacts(replace(node.facts, offline=True)),))
    for mode in (Mode.PRIMARY, Mode.SECONDARY):
        here = state.nodes[index].primaries if mode is Mode.PRIMARY else state.nodes[index].secondaries
        result = evacuate.NodeEvacuate(state, [state.instances[i] for i in sorted(here)], mode, force=True)
        assert not result.failed, (mode, result.failed)
        state = result.state
    return state


@given(clusters())
@settings(max_examples=80, deadline=None)
@pytest.mark.req("RM-ALLOC-04", "RM-LIM-26")
def test_nodes_can_be_emptied_one_after_the_other_where_failures_are_survived(case: tuple[Cluster, int]) -> None:
    cluster, count = case
    survives = _Survives(cluster.state, 0, count)
    event(f"survives {count}: {survives}")
    # A node that has too little memory for its instances as it is keeps them while others fail.
    if not survives or any(node.unallocated <= 0 for node in cluster.state.nodes.values()):
        return
    for order in itertools.permutations(cluster.state.nodes, count):
        state = cluster.state
        for index in order[:-1]:
            state = _Emptied(state, index)
        last = state.nodes[order[-1]]
        state = state.With((last.WithFacts(replace(last.facts, offline=True)),))
        leaving = [state.instances[i] for i in sorted(last.primaries)]
        result = evacuate.NodeEvacuate(state, leaving, Mode.PRIMARY, force=True)
        assert not result.failed
        for node in result.state.Online():
            if node.primaries == cluster.state.nodes[node.index].primaries:
                continue  # one that has too many as it is gets no more
            assert sum(result.state.instances[i].memory for i in node.primaries) < node.facts.memory_for_instances


def _Textbook(state: State, count: int) -> bool:
    """Whether a group survives: all orders of failures are tried, every instance is moved for each."""
    for node in state.nodes.values():
        if not node.facts.working:
            continue
        after = state.With((node.WithFacts(replace(node.facts, offline=True, drained=False)),))
        targets = [other.index for other in after.Online()]
        for number in sorted(node.primaries):
            moved = failures.Restart(after, after.instances[number], targets)
            if moved is None:
                return False
            after = moved
        if count == 1:
            continue
        for number in sorted(after.nodes[node.index].secondaries):
            inst = after.instances[number]
            moved = failures.MoveTo(after, inst, Kind.REPLACE_SECONDARY, [t for t in targets if t != inst.primary])
            if moved is None:
                return False
            after = moved
        if not _Textbook(after, count - 1):
            return False
    return True


@st.composite
def tight(draw: Any) -> tuple[Cluster, int]:
    """A cluster of any fill, also of disks, with all kinds of instances, some down, and maybe a node that is offline or drained."""
    size = draw(st.integers(3, 6))
    count = draw(st.sampled_from([2, 2, 3]))
    room = draw(st.sampled_from([4001, 8001, 16001]))
    kinds = draw(st.sampled_from([["drbd"], ["drbd"], ["ext", "drbd"], ["plain", "drbd", "ext"]]))
    guests = []
    for number in range(draw(st.integers(1, 14))):
        primary = draw(st.integers(0, size - 1))
        secondary = (primary + draw(st.integers(1, size - 1))) % size
        line = _Guest(number, draw(st.sampled_from([100, 500, 2000])), draw(st.sampled_from(kinds)), primary, secondary)
        down = draw(st.sampled_from(["running", "running", "running", "ADMIN_down"]))
        disk = draw(st.sampled_from(["1000", "1000", "12000", "30000"]))
        guests.append(line.replace("|running|", f"|{down}|").replace("|1000|1|", f"|{disk}|1|"))
    cluster = _Cluster(guests, [room] * size, count)
    odd = draw(st.sampled_from([None, None, None, {"offline": True}, {"offline": True, "drained": True}]))
    if odd is not None:
        node = cluster.state.nodes[size - 1]
        cluster = cluster.WithState(cluster.state.With((node.WithFacts(replace(node.facts, **odd)),)))
    return cluster, count


@given(tight())
@settings(max_examples=100, deadline=None)
def test_sums_and_short_cuts_say_what_trying_says(case: tuple[Cluster, int]) -> None:
    cluster, most = case
    count = failures.Bearable(cluster.state, 0, most)
    textbook = _Textbook(cluster.state, count)
    by_sums = sums.Sums(cluster.state, count)
    event(f"{count} failures: {textbook}, sums: {by_sums.Survives()}, too much: {by_sums.TooMuch() != ()}")
    assert textbook or not by_sums.Survives()
    assert not (textbook and by_sums.TooMuch())
    assert _Survives(cluster.state, 0, most) == textbook


@pytest.mark.parametrize(
    ("guests", "room", "survives"),
    [
        # What comes from two nodes for sure.
        ([_Guest(0, 1000, "drbd", 0, 2), _Guest(1, 1000, "drbd", 1, 2)], 2000, False),
        ([_Guest(0, 1000, "drbd", 0, 2), _Guest(1, 1000, "drbd", 1, 2)], 2001, True),
        # What is on two nodes that fail, and then on the only one that is left.
        ([_Guest(0, 2000, "drbd", 0, 1)], 2000, False),
        ([_Guest(0, 2000, "drbd", 0, 1)], 2001, True),
        # What may go anywhere.
        ([_Guest(0, 1000, "ext", 0, 0), _Guest(1, 1000, "drbd", 1, 2)], 2000, False),
        ([_Guest(0, 1000, "ext", 0, 0), _Guest(1, 1000, "drbd", 1, 2)], 2001, True),
    ],
)
def test_sums_are_exact_on_three_nodes(guests: list[str], room: int, survives: bool) -> None:
    state = _Cluster(guests, [9001, 9001, room], 2).state
    assert sums.Sums(state, 2).Survives() == _Textbook(state, 2) == survives


def test_sums_know_a_large_group_with_room_and_where_one_lacks_it() -> None:
    """Thirty nodes with twenty mirrors each: nothing is tried of the roomy group, and of the other one order of failures."""
    guests = [_Guest(i, 1000, "drbd", i % 30, (i + 1 + i // 30) % 30) for i in range(600)]
    roomy, full = (_Cluster(guests, [room] * 30, 2).state for room in (26001, 21500))
    assert sums.Sums(roomy, 2).Survives() and _Survives(roomy, 0, 2)
    by_sums = sums.Sums(full, 2)
    found = failures.FirstBreakdown(full, 0, 2, Effort())
    assert not by_sums.Survives() and found is not None and found.nodes[0] == by_sums.TooMuch()[0]


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_the_short_cut_never_says_more_than_trying(case: tuple[Cluster, int]) -> None:
    cluster, count = case
    if failures._MuchRoom(cluster.state, count):
        assert failures._Trial(0, Effort()).Breakdown(cluster.state, count) is None


@pytest.mark.parametrize(("room", "survives"), [(3000, False), (3001, True)])
def test_sums_know_which_three_nodes_are_too_much(room: int, survives: bool) -> None:
    """Large mirrors elsewhere are not taken for what comes to a node that never gets them."""
    guests = [_Guest(i, 1000, "drbd", i, 6) for i in range(3)]
    guests += [_Guest(3 + i, 100, "drbd", 3 + i, 3 + (i + 1) % 3) for i in range(3)]
    state = _Cluster(guests, [9001] * 6 + [room], 3).state
    by_sums = sums.Sums(state, 3)
    assert by_sums.Survives() == survives
    assert by_sums.Doubtful() == (set() if survives else {0, 1, 2})
    assert _Survives(state, 0, 3) == survives


def _Dense(size: int, room: int) -> Cluster:
    """A group with twenty mirrored instances a node that is to survive three failures."""
    pairs = itertools.cycle((i, (i + step) % size) for step in range(1, size) for i in range(size))
    guests = [_Guest(i, 500 + i % 7 * 100, "drbd", *next(pairs)) for i in range(20 * size)]
    return _Cluster(guests, [room] * size, 3)


def test_sums_know_of_three_failures_in_large_groups_with_some_room() -> None:
    state = _Dense(40, 28001).state
    assert sums.Sums(state, 3).Survives() and _Survives(state, 0, 3)


@pytest.mark.req("RM-ALLOC-04")
def test_three_failures_are_not_tried_for_ever() -> None:
    """Where sums say nothing and there is too much to try, nothing is placed, and why is said."""
    cluster, inst = _Dense(24, 21501), _New("drbd", 500)
    other = _Cluster([], [20001] * 4, 3)
    rules = allocate.Rules(effort=Effort(400))
    assert allocate.AllocateInGroups(other, inst, 2, rules).placement is not None
    begun = Effort(400)
    with pytest.raises(GivenUp):
        failures.FirstBreakdown(cluster.state, 0, 3, begun)
    assert begun.given_up
    choice = allocate.AllocateInGroups(cluster, inst, 2, rules)
    assert choice.placement is None
    (message,) = choice.messages
    assert "FailN1: " in message and message.endswith(GIVEN_UP)
    # Those that come after it are not tried at all, whatever their size.
    judge = _Counting(cluster.state, replace(inst, memory=10))
    candidates = allocate.Candidates(cluster.state.Ordered(), 2, rules)
    outcome = allocate.Choose(judge, candidates, rules)
    assert outcome.solution is None and outcome.given_up and judge.made == 0
    assert allocate.AllocateInGroups(cluster, inst, 2, allocate.Rules(capacity_checks=False)).placement is not None


def test_each_instance_has_tries_of_its_own() -> None:
    effort = Effort(10)
    for _ in range(3):
        effort.Spend(0, 8)
        effort.Renew()
    with pytest.raises(GivenUp):
        effort.Spend(1, 11)
    effort.Renew()
    assert effort.UsedUp(1) and not effort.UsedUp(0), "a group is given up alone, and for good"
    cluster, rules = _Cluster([], [20001] * 4, 3), allocate.Rules(effort=Effort(3))
    for number in range(8):
        choice = allocate.AllocateInGroups(cluster, replace(_New("drbd", 500), index=number), 2, rules)
        assert choice.placement is not None, "its tries are not those of the ones before it"
        cluster = cluster.WithState(choice.placement.state)


def test_what_was_given_up_is_said_by_capacity_and_hspace(tmp_path: pathlib.Path) -> None:
    cluster = _Dense(24, 21501)
    lines = list(capacity.Lines(cluster, cluster.groups[0], ["drbd"], 3, tries=400))
    assert f"  max-node-failures 3: {GIVEN_UP}" in lines
    assert lines[1].endswith(f"drbd: at least 0; then: {GIVEN_UP}")
    out, err = io.StringIO(), io.StringIO()
    (tmp_path / "cluster").write_text(text.Write(cluster), encoding="utf-8")
    options = [
        "-t",
        str(tmp_path / "cluster"),
        "--disk-template=drbd",
        "--tiered-alloc=1g,500,1",
        "--standard-alloc=1g,500,1",
    ]
    streams = Streams(out, err, lambda path, content: None)
    assert hspace.Main(Parser(PROGRAM_OPTIONS["hspace"]).Parse(options), streams, 400) == 0
    assert f"Warning: more instances may fit: {GIVEN_UP}\n" in err.getvalue()
    assert "  - no instances allocated" in out.getvalue()
