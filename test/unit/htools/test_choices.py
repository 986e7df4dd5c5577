"""Who is chosen: groups by their policy, of equals the later one, and never a node that cannot take an instance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ganeti.htools.choosing import allocate, evacuate, explain
from ganeti.htools.choosing.evacuate import Mode
from ganeti.htools.model import records
from ganeti.htools.model.entities import NO_NODE, Disk, Failure, Instance, NodeFacts, Record, Status
from ganeti.htools.model.moves import Apply, Kind, Move
from ganeti.htools.model.resources import AddPrimary, AddSecondary, Node
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sources import loading, text


def _Cluster(guests: list[str], free: list[list[int]], policies: tuple[str, ...] = ()) -> Cluster:
    """Groups of nodes with 8192 MiB each, of which ``free`` are free; nodes are n0, n1, ... through all groups."""
    groups = [
        f"g{i}|u{i}|{policies[i] if policies else 'preferred'}||" for i in range(len(free))
    ]  # fmt: skip
    rooms = [(group, room) for group, rooms in enumerate(free) for room in rooms]
    nodes = [
        f"n{i}|8192|512|{room}|100000|90000|8|N|u{group}|4||N|0|1|1.0" for i, (group, room) in enumerate(rooms)
    ]  # fmt: skip
    return loading.Build(text.Parse("\n".join([*groups, "", *nodes, "", *guests, "", "", ""])), loading.Wishes())


def _Guest(name: str, primary: str, secondary: str = "", template: str = "drbd") -> str:
    return f"{name}|1000|10000|1|running|Y|{primary}|{secondary}|{template}||1|-|N"


def _New(template: str, memory: int = 1000) -> Instance:
    return Instance(
        99, "new", memory, 1024, 1, Status.RUNNING, template, NO_NODE, disks=(Disk(1024),), alias="new"
    )  # fmt: skip


def _Facts(cluster: Cluster, node: int, **facts: Any) -> Cluster:
    """Return the cluster where something else is true of a node."""
    found = cluster.state.nodes[node]
    return cluster.WithState(cluster.state.With([found.WithFacts(replace(found.facts, **facts))]))


# --- new instances ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resort", [0, 1])
def test_a_last_resort_is_not_chosen_because_it_is_better(resort: int) -> None:
    """The groups differ, so one of them has the better score; it does not matter which one."""
    policies = ("last_resort", "preferred") if resort == 0 else ("preferred", "last_resort")
    cluster = _Cluster([_Guest("a", "n0", template="plain")], [[6680, 7680], [7680, 7680]], policies)
    chosen = allocate.AllocateInGroups(cluster, _New("plain"), 1, allocate.Rules()).group
    assert chosen is not None and chosen.index == 1 - resort


@pytest.mark.parametrize(("template", "nodes"), [("plain", (1,)), ("drbd", (1, 0))])
def test_of_equal_places_the_later_one_is_chosen(template: str, nodes: tuple[int, ...]) -> None:
    cluster = _Cluster([], [[7680, 7680]])
    inst = _New(template)
    placed = allocate.AllocateInGroups(cluster, inst, len(inst.nodes), allocate.Rules()).placement
    assert placed is not None and placed.instance.nodes == nodes


def test_of_equal_groups_the_later_one_is_chosen() -> None:
    cluster = _Cluster([], [[7680, 7680], [7680, 7680]])
    chosen = allocate.AllocateInGroups(cluster, _New("plain"), 1, allocate.Rules()).group
    assert chosen is not None and chosen.index == 1


def test_a_secondary_needs_more_than_the_memory_of_its_instance() -> None:
    node = _Cluster([], [[7680, 3000]]).state.nodes[1]
    for memory, fits in ((3000, False), (2999, True)):
        found = AddSecondary(node, _New("drbd", memory).On(0, 1, 0), 0)
        assert isinstance(found, Node) if fits else found is Failure.MEM


@pytest.mark.parametrize(("ratio", "fits"), [(0.0, False), (-1.0, True)])
def test_a_ratio_of_zero_allows_nothing_and_a_negative_one_everything(ratio: float, fits: bool) -> None:
    cluster = _Facts(_Cluster([], [[7680]]), 0, vcpu_ratio=ratio)
    found = AddPrimary(cluster.state.nodes[0], _New("plain").On(0, NO_NODE, 0))
    assert isinstance(found, Node) if fits else found is Failure.CPU


# --- instances that leave their nodes ----------------------------------------------------------------------------------------


def test_a_mirror_does_not_go_to_the_primary_node() -> None:
    cluster = _Cluster([_Guest("a", "n0", "n1")], [[6680, 7680]])
    result = evacuate.NodeEvacuate(cluster.state, [cluster.state.instances[0]], Mode.SECONDARY, force=False)
    assert [inst.name for inst, _ in result.failed] == ["a"] and result.moved == []


def test_each_instance_changes_its_group_after_the_one_before() -> None:
    """The second group has room for one of them, the third one for the other."""
    guests = [_Guest(name, "n0", template="ext") for name in ("a", "b")]
    cluster = _Cluster(guests, [[5680, 7680], [1500, 1500], [1500, 1500]])
    cluster = _Facts(_Facts(cluster, 3, offline=True), 5, offline=True)
    instances = list(cluster.state.instances.values())
    rules = allocate.Rules(capacity_checks=False)
    result = evacuate.ChangeGroup(cluster, instances, (), rules)
    assert result.failed == []
    assert {moved.instance.primary for moved in result.moved} == {2, 4}


@pytest.mark.parametrize("offline", [2, 3])
def test_no_instance_changes_to_a_node_that_is_offline(offline: int) -> None:
    cluster = _Facts(_Cluster([_Guest("a", "n0", template="ext")], [[6680, 7680], [7680, 7680]]), offline, offline=True)
    result = evacuate.ChangeGroup(
        cluster, [cluster.state.instances[0]], (), allocate.Rules(capacity_checks=False)
    )  # fmt: skip
    assert [moved.instance.primary for moved in result.moved] == [5 - offline]


def test_soft_limits_count_no_more_when_the_secondary_is_offline() -> None:
    """The old primary, which becomes the secondary, has too little memory to take the instance back."""
    cluster = _Cluster([_Guest("a", "n0", "n1")], [[0, 7680, 7680]])
    move, guest = Move(Kind.REPLACE_AND_FAILOVER, 2), cluster.state.instances[0]
    assert Apply(cluster.state, guest, move) is Failure.MEM
    after = Apply(_Facts(cluster, 1, offline=True).state, guest, move)
    assert isinstance(after, State) and after.instances[0].nodes == (2, 0)


# --- recorded disks ----------------------------------------------------------------------------------------------------------


def test_disks_that_are_only_reserved_are_not_taken_from_what_is_recorded() -> None:
    facts = NodeFacts(0, "n0", 0, total_disk=100000.0, free_disk=90000, record=Record(total_disk=100000))
    guest = _New("plain").With(disk=60000, primary=0)
    assert records.Apply(facts, [guest], 0).free_disk == 40000
    assert records.Apply(facts, [guest.With(forthcoming=True)], 0).free_disk == 90000


# --- why others were not chosen ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "free", "chosen", "reasons"),
    [
        (
            "plain",
            [[7680, 7680], [7680]],
            [0],
            [
                "1 node: suitable, but with a worse score, or with too little reserve afterwards (for example n1)",
                "1 node: suitable, but in another node group than the chosen one (for example n2)",
            ],
        ),
        ("plain", [[7680, 7680]], [], ["2 nodes: suitable, but with too little reserve afterwards (for example n0)"]),
        (
            "drbd",
            [[7680, 600], [7680]],
            [],
            [
                "2 nodes: suitable alone, but without a partner (for example n0)",
                "1 node: not enough free memory (for example n1)",
            ],
        ),
        (
            "drbd",
            [[7680, 7680], [7680]],
            [],
            [
                "2 nodes: suitable, but with too little reserve afterwards (for example n0)",
                "1 node: suitable alone, but without a partner (for example n2)",
            ],
        ),
    ],
)
def test_each_reason_stands_alone(template: str, free: list[list[int]], chosen: list[int], reasons: list[str]) -> None:
    cluster, inst = _Cluster([], free), _New(template)
    assert explain.Reasons(cluster, inst, len(inst.nodes), allocate.Rules(), None, chosen) == reasons
