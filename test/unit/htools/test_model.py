"""What the model of a cluster counts, and how it follows simulated moves (doc/reference/htools.md 5, 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ganeti.htools.choosing import allocate, balance, space
from ganeti.htools.model import score
from ganeti.htools.model.entities import Disk, Failure, Instance, Load, Record, Status
from ganeti.htools.model.moves import Apply, Kind, Move
from ganeti.htools.model.resources import AddPrimary, AddSecondary, Node, RemovePrimary
from ganeti.htools.model.score import METRICS
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sources import loading, text

DRBD, PLAIN = "drbd", "plain"


def _Cluster(
    instances: list[str], free: tuple[int, int, int] = (6000, 7000, 7000), disk: tuple[int, int, int] = (90000,) * 3,
    spindles: tuple[int, int, int] = (4, 4, 4), policy: str = "", loads: dict[str, Load] | None = None,
) -> Cluster:  # fmt: skip
    """Three nodes with 8192 MiB, 512 of them their own, 100000 MiB of disk and 4 CPUs."""
    nodes = [
        f"n{i}|8192|512|{free[i]}|100000|{disk[i]}|4|N|uuid-0|{spindles[i]}||N|0|1|1.0" for i in range(3)
    ]  # fmt: skip
    lines = ["g0|uuid-0|preferred||", "", *nodes, "", *instances, "", "", policy, ""]
    return loading.Build(text.Parse("\n".join(lines)), loading.Wishes(loads=loads or {}))


def _Guest(
    name: str, primary: str, secondary: str = "", memory: int = 1000, status: str = "running", vcpus: int = 2
) -> str:
    return f"{name}|{memory}|10000|{vcpus}|{status}|Y|{primary}|{secondary}|{DRBD if secondary else PLAIN}||1|-|N"


def _New(memory: int = 1, vcpus: int = 1, spindle_use: int = 1) -> Instance:
    return Instance(99, "new", memory, 1, vcpus, Status.RUNNING, PLAIN, 0, spindle_use=spindle_use)


def _Moved(cluster: Cluster, index: int, move: Move) -> State:
    after = Apply(cluster.state, cluster.state.instances[index], move)
    assert isinstance(after, State), after
    return after


def _Metric(nodes: list[Node], name: str) -> float:
    return dict(zip((metric.name for metric in METRICS), score.Values(nodes), strict=True))[name]


@pytest.mark.req("RM-HT-01")
def test_disk_is_what_is_there_and_what_is_free() -> None:
    cluster = _Cluster([_Guest("a", "n0", "n1")])
    assert [(n.facts.total_disk, n.free_disk) for n in cluster.state.Ordered()] == [(100000.0, 90000)] * 3
    after = _Moved(cluster, 0, Move(Kind.REPLACE_SECONDARY, 2))
    assert [n.free_disk for n in after.Ordered()] == [90000, 100000, 80000]


@pytest.mark.req("RM-HT-02")
def test_disks_that_do_not_add_up_are_warned_of() -> None:
    # 100000 - 98976 - 0 is allowed, one more is not.
    good = _Cluster([], disk=(98976, 100000, 100000), free=(7680,) * 3)
    bad = _Cluster([], disk=(98975, 100000, 100000), free=(7680,) * 3)
    assert good.warnings == ()
    assert bad.warnings == ("  - node n0 is missing 0 MB ram and 1 GB disk",)


@pytest.mark.req("RM-HT-03", "RM-HT-04", "RM-HT-07", "RM-HT-08", "RM-HT-09")
def test_memory_of_a_node() -> None:
    guests = [_Guest("a", "n0"), _Guest("b", "n0", memory=500), _Guest("c", "n0", memory=4000, status="ADMIN_down")]
    node, other, _ = _Cluster(guests, free=(6000, 7900, 7680)).state.Ordered()
    facts = node.facts
    assert (facts.total_memory, facts.free_memory, facts.node_memory) == (8192.0, 6000, 512)
    assert node.instance_memory == 1500
    assert node.record_free == 8192 - 512 - 1500
    assert facts.missing_memory == node.record_free - 6000
    assert node.unallocated == 6000
    # Less is recorded as free than reported.
    assert (other.facts.missing_memory, other.unallocated) == (7680 - 7900, 7680)


@pytest.mark.req("RM-HT-05", "RM-HT-06", "RM-HT-11")
def test_memory_is_reserved_for_the_failure_of_one_peer() -> None:
    guests = [_Guest("a", "n0", "n2"), _Guest("b", "n0", "n2", 500), _Guest("c", "n1", "n2", 1200), _Guest("d", "n0")]
    first, _, third = _Cluster(guests, free=(5180, 6480, 1600)).state.Ordered()
    assert dict(third.peers) == {0: 1500, 1: 1200}
    assert (third.reserved, third.available_memory) == (1500, 100)
    assert (first.reserved, first.available_memory) == (0, first.unallocated)
    starved = _Cluster(guests, free=(5180, 6480, 1400)).state.Ordered()[2]
    assert (starved.available_memory, starved.failing) == (0, True)


@pytest.mark.req("RM-GEN-03", "RM-HT-10", "RM-HT-12", "RM-HT-13")
def test_memory_follows_simulated_moves() -> None:
    cluster = _Cluster([_Guest("a", "n0", "n1"), _Guest("b", "n2", "n0", 700)], free=(5000, 7680, 6980))
    before = cluster.state.Ordered()
    after = _Moved(cluster, 0, Move(Kind.FAILOVER, -1)).Ordered()
    for node, moved in zip(before, after, strict=True):
        assert moved.facts == node.facts
        assert moved.unallocated == moved.record_free - max(0, moved.facts.missing_memory)
    assert [n.instance_memory for n in after] == [0, 1000, 700]
    # 1680 were missing on the first node, and still are.
    assert [n.unallocated for n in after] == [6000, 6680, 6980]
    assert [dict(n.peers) for n in after] == [{2: 700, 1: 1000}, {}, {}]
    assert (after[0].reserved, after[0].available_memory) == (1000, 5000)
    assert [n.free_memory_f for n in after] == [6000, 6680, 6980]


@pytest.mark.req("RM-HT-14", "RM-HT-15")
def test_virtual_cpus_are_limited_by_the_ratio_of_the_policy() -> None:
    cluster = _Cluster([_Guest("a", "n0", vcpus=14), _Guest("off", "n0", vcpus=9, status="ADMIN_offline")])
    node = cluster.state.nodes[0]
    assert (node.used_cpus, node.facts.total_cpus, node.facts.max_cpus) == (15, 4.0, 16)
    fits = AddPrimary(node, _New(vcpus=1))
    assert isinstance(fits, Node) and fits.used_cpus == 16
    assert AddPrimary(node, _New(vcpus=2)) is Failure.CPU


@pytest.mark.req("RM-HT-16", "RM-HT-17")
def test_loads_are_summed_and_balanced() -> None:
    guests = [_Guest("a", "n0", "n2"), _Guest("b", "n0", "n2"), _Guest("c", "n1", "n2")]
    cluster = _Cluster(guests)
    first, second, third = cluster.state.Ordered()
    # Without measurements each instance counts as 1; of a secondary only the disk is used.
    assert first.load == Load(2.0, 2.0, 2.0, 2.0)
    assert third.load == Load(0.0, 0.0, 3.0, 0.0)
    measured = _Cluster(guests, loads={"a": Load(0.5, 2.0, 3.0, 4.0)}).state.Ordered()
    assert measured[0].load == Load(1.5, 3.0, 4.0, 5.0)
    even = [first, second, second]
    for name in ("cpu_load_cv", "mem_load_cv", "disk_load_cv", "net_load_cv"):
        assert _Metric([second, second], name) == 0.0 < _Metric(even, name)


@pytest.mark.req("RM-LIM-07", "RM-GEN-05")
def test_nodes_with_different_spindles_are_not_equal() -> None:
    cluster = _Cluster([_Guest("a", "n0"), _Guest("b", "n1")], spindles=(1, 4, 4))
    first, second, _ = cluster.state.Ordered()
    assert (first.used_spindles, second.used_spindles) == (1, 1)
    assert _Metric([first, second], "spindles_cv") > 0.0
    assert _Metric([second, second], "spindles_cv") == 0.0
    # 32 for each spindle.
    assert isinstance(AddPrimary(first, _New(spindle_use=31)), Node)
    assert AddPrimary(first, _New(spindle_use=32)) is Failure.DISK
    assert isinstance(AddPrimary(second, _New(spindle_use=32)), Node)


@pytest.mark.req("RM-LIM-21")
def test_of_equal_solutions_the_first_is_kept() -> None:
    """Both instances are alike, and so are both free nodes."""
    guests = [f"{name}|1000|10000|2|running|Y|n0||ext||1|-|N" for name in ("a", "b")]
    cluster = _Cluster(guests, free=(5680, 7680, 7680), disk=(100000,) * 3)
    step = balance.BestStep(cluster.state, cluster.state.Score(), balance.Rules())
    assert step is not None
    assert (step.instance.name, step.move) == ("a", Move(Kind.FAILOVER_TO_ANY, 1))
    assert step.score < cluster.state.Score()


def _Facts(node: Node, **facts: Any) -> Node:
    """Return the node where something else is true."""
    return node.WithFacts(replace(node.facts, **facts))


def test_the_last_mib_of_what_is_kept_free_is_not_given_away() -> None:
    """Free disk may become as little as is to be kept, also for a secondary; free memory never becomes none."""
    new = _New().With(disk=40000, template=DRBD, primary=1)
    for add in (AddPrimary, lambda node, inst: AddSecondary(node, inst, 1)):
        node = _Facts(_Cluster([]).state.nodes[0], least_disk=50000)
        assert isinstance(add(node, new), Node)
        assert add(node, new.With(disk=40001)) is Failure.DISK
    # 6000 are free: something must be left for the node itself.
    node = _Cluster([]).state.nodes[0]
    assert AddSecondary(node, new.With(memory=6000), 1) is Failure.MEM
    assert isinstance(AddSecondary(node, new.With(memory=5999), 1), Node)
    stopped = _Cluster([_Guest("down", "n0", memory=1000, status="ADMIN_down")]).state.nodes[0]
    assert (stopped.unallocated, stopped.free_memory_f) == (6000, 5000), "stopped instances keep their memory"
    assert AddSecondary(stopped, new.With(memory=5000), 1) is Failure.MEM
    assert isinstance(AddSecondary(stopped, new.With(memory=4999), 1), Node)


def test_a_ratio_of_nothing_allows_no_virtual_cpus() -> None:
    node = _Cluster([]).state.nodes[0]
    assert AddPrimary(_Facts(node, vcpu_ratio=0.0), _New()) is Failure.CPU
    assert isinstance(AddPrimary(_Facts(node, vcpu_ratio=-1.0), _New(vcpus=99)), Node), "none at all is no limit"


def test_on_exclusive_storage_spindles_are_those_of_the_disks() -> None:
    node = Node(replace(_Cluster([]).state.nodes[0].facts, exclusive_storage=True, free_spindles=3))
    known = _New().With(disks=(Disk(1, 2), Disk(1, 1)), template=PLAIN)
    after = AddPrimary(node, known)
    assert isinstance(after, Node) and (after.free_spindles, after.free_spindles_f) == (0, 0)
    assert RemovePrimary(after, known).free_spindles == 3
    assert AddPrimary(node, known.With(disks=(Disk(1, 2), Disk(1, 2)))) is Failure.SPINDLES
    # Disks of which nobody knows how many they have get none there; without them it does not matter.
    assert AddPrimary(node, known.With(disks=(Disk(1, 2), Disk(1, None)))) is Failure.SPINDLES
    usual = Node(replace(node.facts, exclusive_storage=False))
    assert isinstance(AddPrimary(usual, known.With(disks=(Disk(1, 9),))), Node)


def test_the_secondary_must_be_able_to_run_an_instance_whose_primary_is_replaced() -> None:
    """The second node has room for the disks and the memory; for two more virtual CPUs, or for one only."""
    for used, failure in ((13, None), (14, Failure.CPU)):
        cluster = _Cluster([_Guest("a", "n0", "n1"), _Guest("b", "n1", vcpus=used)], free=(6680, 6680, 7680))
        after = Apply(cluster.state, cluster.state.instances[0], Move(Kind.REPLACE_PRIMARY, 2))
        assert (after if isinstance(after, Failure) else None) is failure


def test_soft_limits_do_not_keep_an_instance_on_an_offline_node() -> None:
    """The third node has too little memory for what would fail over to it."""
    cluster = _Cluster([_Guest("a", "n0", "n1")], free=(6680, 7680, 500))
    move, state, guest = Move(Kind.FAILOVER_AND_REPLACE, 2), cluster.state, cluster.state.instances[0]
    assert Apply(state, guest, move) is Failure.MEM
    offline = state.With([_Facts(state.nodes[0], offline=True)])
    after = Apply(offline, guest, move)
    assert isinstance(after, State) and after.instances[0].nodes == (1, 2)


def test_what_is_reserved_counts_for_those_that_come_later() -> None:
    """32 of the spindle and 16 virtual CPUs of the node may be used."""
    node = _Cluster([], free=(7680,) * 3, spindles=(1, 4, 4)).state.nodes[0]
    after = AddPrimary(node, _New(1000, vcpus=10, spindle_use=20).With(forthcoming=True, disk=60000))
    assert isinstance(after, Node)
    assert (after.used_spindles, after.used_cpus, after.free_disk) == (node.used_spindles, node.used_cpus, 90000)
    for fits, exceeds, failure in (
        (_New(spindle_use=12), _New(spindle_use=13), Failure.DISK),
        (_New(vcpus=5), _New(vcpus=6), Failure.CPU),
        (_New(6679), _New(6680), Failure.MEM),
        (_New().With(disk=29999), _New().With(disk=30000), Failure.DISK),
    ):
        assert isinstance(AddPrimary(after, fits), Node)
        assert AddPrimary(after, exceeds) is failure
        assert isinstance(AddPrimary(after, exceeds, force=True), Node)


def _Allocations(cluster: Cluster) -> space.Run:
    rules = allocate.Rules()
    candidates = allocate.Candidates(cluster.state.Ordered(), 2, rules)
    return space.Space(DRBD, 1, candidates, rules).Standard(cluster.state, space.Size(1500, 1000, 1), -1)


@pytest.mark.req("RM-LIM-24", "RM-LIM-25")
def test_capacity_is_what_can_be_allocated_while_any_node_may_fail() -> None:
    run = _Allocations(_Cluster([], free=(7680,) * 3, disk=(100000,) * 3))
    # A node starts seven: its own, and those that come from one peer.  So 5, 5 and 4 are the most: of 15 some node would have
    # five and get three.
    assert (len(run.instances), run.reason) == (14, Failure.MEM)
    for lost in run.state.Ordered():
        for node in run.state.Ordered():
            if node is not lost:
                assert node.peers.get(lost.index, 0) <= node.unallocated, "all that it takes over starts there"
    assert not any(node.failing for node in run.state.Ordered())


@pytest.mark.req("RM-HTC-01", "RM-HTC-02")
def test_recorded_values_count_for_balancing_and_capacity() -> None:
    """The first node has half of its memory left by its record; nothing else tells the nodes apart."""
    nodes = [f"n{i}|8192|512|7680|100000|100000|4|N|uuid-0|4||N|0|1|1.0" for i in range(3)]
    raw = text.Parse("\n".join(["g0|uuid-0|preferred||", "", *nodes, "", "", "", ""]))
    usual = loading.Build(raw, loading.Wishes())
    first, *others = raw.nodes
    kept = replace(first, record=Record(total_memory=8192, node_memory=4352))
    changed = loading.Build(replace(raw, nodes=[kept, *others]), loading.Wishes())
    assert len(_Allocations(changed).instances) < len(_Allocations(usual).instances)
    assert usual.state.Score() == 0.0 < changed.state.Score()
