"""What a cluster can bear: failures of nodes, more instances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ganeti.client.gnt_cluster import capacity
from ganeti.htools.choosing import allocate
from ganeti.htools.model.entities import NO_NODE, Disk, Instance, Status
from ganeti.htools.model.state import Cluster
from ganeti.htools.sizes import Size
from ganeti.htools.sources import loading, text
from ganeti.htools.sources.loading import Wishes
from ganeti.htools.survival import proof, remedy

_SPECS = "1024,1,1024,1,1,1"
_POLICY = f"g|{_SPECS}|128,1,512,1,1,1;32768,8,1048576,16,8,12|plain,drbd,ext|4.0|32.0"


def _Cluster(nodes: list[str], instances: list[str]) -> Cluster:
    """Nodes are NAME MEMORY FREE [OFFLINE], instances NAME MEMORY STATUS PRIMARY SECONDARY TEMPLATE [no auto-balance]."""
    hosts = []
    for line in nodes:
        name, memory, free, *offline = line.split()
        hosts.append(f"{name}|{memory}|1024|{free}|100000|90000|16|{'Y' if offline else 'N'}|u|10")
    guests = []
    for line in instances:
        name, memory, status, primary, secondary, template, *alone = line.split()
        guests.append(
            f"{name}|{memory}|1024|1|{status}|{'N' if alone else 'Y'}|{primary}|{secondary.strip('-')}|{template}|"
        )
    written = "\n".join(["g|u|preferred||", "", *hosts, "", *guests, "", "", _POLICY, ""])
    return loading.Build(text.Parse(written), Wishes())


def _Losses(cluster: Cluster) -> dict[str, list[proof.Loss]]:
    return {name: list(losses) for name, losses in proof.Weaknesses(cluster, cluster.groups[0])}


def test_a_mirrored_instance_needs_memory_on_its_secondary() -> None:
    guests = ["one 2048 running a b drbd", "two 2048 running a b drbd", "off 9000 ADMIN_down a b drbd"]
    # b has memory for both, then for one of them.
    assert _Losses(_Cluster(["a 8192 3072", "b 8192 7168"], guests)) == {}
    assert _Losses(_Cluster(["a 8192 3072", "b 4096 3072"], guests)) == {
        "a": [proof.Loss("two", "not enough free memory", "b")]
    }


def test_full_disks_keep_no_instance_down() -> None:
    cluster = _Cluster(["a 8192 5120", "b 8192 7168"], ["one 2048 running a b drbd"])
    full = [node.WithFacts(replace(node.facts, least_disk=5000)) for node in cluster.state.nodes.values()]
    for node in full:
        node.free_disk = 0
    assert list(proof.Losses(cluster.state.With(full), 0)) == []


def test_instances_that_are_on_one_node_only() -> None:
    cluster = _Cluster(["a 8192 3072", "b 8192 7168"], ["one 2048 running a - plain", "two 2048 ADMIN_down b - plain"])
    assert _Losses(cluster) == {"a": [proof.Loss("one", proof.ALONE)]}
    lines = list(capacity.Lines(cluster, cluster.groups[0], ["plain"], 10))
    assert lines[2] == "  if a failed, 1 instance would stay down:"
    assert (
        lines[3].startswith(f"    one: {proof.ALONE}; what would help: nothing but other storage") and len(lines) == 4
    )


@pytest.mark.req("RM-LIM-16")
def test_instances_that_all_nodes_reach() -> None:
    guests = ["one 4096 running a - ext", "two 2048 running a - ext"]
    assert _Losses(_Cluster(["a 8192 1024", "b 8192 7168"], guests)) == {}
    small = _Cluster(["a 8192 1024", "b 6144 5120", "c 8192 7168 offline"], guests)
    assert _Losses(small) == {"a": [proof.Loss("two", proof.NO_TARGET)]}


def test_the_largest_instances_are_given_room_first() -> None:
    guests = ["one 2048 running a - ext", "two 4096 running a - ext", "three 1024 running a b drbd"]
    assert _Losses(_Cluster(["a 16384 8192", "b 5120 4096", "c 6144 5120"], guests)) == {}
    full = _Cluster(["a 16384 8192", "b 4096 3072", "c 6144 5120"], guests)
    assert _Losses(full) == {"a": [proof.Loss("one", proof.NO_TARGET)]}


def test_a_secondary_that_is_offline_helps_nobody() -> None:
    cluster = _Cluster(["a 8192 5120", "b 8192 7168 offline"], ["one 2048 running a b drbd"])
    assert _Losses(cluster) == {"a": [proof.Loss("one", "its secondary node is offline", "b")]}


@pytest.mark.req("RM-GEN-01")
def test_how_much_more_fits() -> None:
    cluster = _Cluster(["a 8192 7168", "b 8192 7168"], [])
    (group,) = cluster.groups
    size = Size(1024, 1024, 1)
    # Each node could start six, its own three and those of the other one; something must be left.
    room = proof.Fitting(cluster, group, "drbd", size, 100)
    assert not room.limited and room.count == 6 and "memory" in room.reason
    assert proof.Fitting(cluster, group, "drbd", size, 2) == proof.Room(2, limited=True, reason="")
    alone = _Cluster(["a 8192 7168"], [])
    assert proof.Fitting(alone, alone.groups[0], "drbd", size, 9) == proof.Room(0, False, "Not enough online nodes")


@pytest.mark.req("RM-ISPEC-02")
def test_what_is_printed() -> None:
    guests = [f"i{number} 128 running a - plain" for number in range(7)]
    cluster = _Cluster(["a 65536 63616", "b 65536 64512"], guests)
    lines = list(capacity.Lines(cluster, cluster.groups[0], ["drbd", "plain"], 3))
    assert lines[0] == "Node group g: 2 nodes, 7 instances"
    assert lines[1].startswith("  more instances of 1024 MiB memory, 1024 MiB disk and 1 CPU(s), drbd: ")
    assert lines[2] == "  if a failed, 7 instances would stay down:"
    assert lines[3] == (
        f"    i0: {proof.ALONE}; what would help: after a shutdown, 'gnt-instance modify -t drbd -n b i0' gives it a copy of"
        " its disks"
    )
    assert lines[-1] == "    and 2 more" and len(lines) == 9
    empty = _Cluster(["a 65536 63616", "b 65536 64512"], [])
    assert list(capacity.Lines(empty, empty.groups[0], ["plain"], 3))[1:] == [
        "  more instances of 1024 MiB memory, 1024 MiB disk and 1 CPU(s), plain: at least 3",
        "  any one node may fail: all running instances could run elsewhere",
    ]


def test_what_keeps_hail_from_allocating_in_any_group_is_said() -> None:
    def cluster(memory: int) -> Cluster:
        nodes = [f"{name}|{memory}|1024|{memory - 5120}|100000|90000|16|N|u|10" for name in "ab"]
        nodes += [f"{name}|65536|1024|64512|100000|90000|16|N|v|10" for name in "cd"]
        guests = [f"{name}|4096|1024|1|running|Y|{name}||ext|" for name in "ab"]
        policies = [_POLICY, "h" + _POLICY[1:]]
        written = ["g|u|preferred||", "h|v|preferred||", "", *nodes, "", *guests, "", "", *policies, ""]
        return loading.Build(text.Parse("\n".join(written)), Wishes())

    def placed(cluster: Cluster, template: str) -> bool:
        new = Instance(
            99, "new", 1024, 1024, 1, Status.RUNNING, template, NO_NODE, disks=(Disk(1024, 1),), alias="new"
        )  # fmt: skip
        choice = allocate.AllocateInGroups(cluster, new, len(new.nodes), allocate.Rules())
        return choice.placement is not None

    full, roomy = cluster(8192), cluster(16384)
    assert list(capacity.Held(full)) == [
        "hail allocates nothing, in any group, while a, b of node group g could not be emptied: its other nodes have no room"
        " for all instances of one of these"
    ]
    assert not placed(full, "ext") and not placed(full, "drbd")
    assert list(capacity.Held(roomy)) == [] and placed(roomy, "ext") and placed(roomy, "drbd")


# --- what would help ------------------------------------------------------------------------------------------------------


def _Help(cluster: Cluster, node: str, templates: tuple[str, ...] = ("drbd", "plain")) -> dict[str, str]:
    [index] = [found.index for found in cluster.state.nodes.values() if found.facts.name == node]
    losses = list(proof.Losses(cluster.state, index))
    texts = remedy.Remedies(cluster.state, index, losses, templates)
    return {loss.instance: said for loss, said in zip(losses, texts, strict=True)}


def test_another_secondary_node_with_room_is_named() -> None:
    guests = ["one 2048 running a b drbd", "two 2048 running a b drbd", "three 2048 running a b drbd"]
    cluster = _Cluster(["a 8192 1024", "b 4096 3072", "c 8192 7168", "d 4096 3072"], guests)
    # c has the most memory, for two more; what helped one instance counts for the next.
    assert _Help(cluster, "a") == {
        "two": "'gnt-instance replace-disks -n c two'",
        "three": "'gnt-instance replace-disks -n c three'",
    }
    small = _Cluster(["a 8192 1024", "b 4096 3072", "c 4096 3072", "d 3584 2560"], guests)
    assert _Help(small, "a") == {
        "two": "'gnt-instance replace-disks -n c two'",
        "three": "'gnt-instance replace-disks -n d three'",
    }


def test_what_helps_one_instance_must_not_leave_another_one_down() -> None:
    guests = ["one 2048 running a b drbd", "two 2048 running a b drbd", "far 2048 running a c drbd unbalanced"]
    # c has room for one instance of a, and that is what it is for.
    cluster = _Cluster(["a 8192 1024", "b 4096 3072", "c 4096 3072"], guests)
    assert _Help(cluster, "a") == {"two": "no other node has room: node b needs 1025 MiB more free memory"}


def test_a_node_where_the_instance_could_not_run_is_no_help() -> None:
    """Nobody reserves memory for it (no auto-balance), so its mirror would fit there."""
    nodes = ["a 8192 5120", "b 2048 1024", "c 2048 1024"]
    cluster = _Cluster(nodes, ["one 2048 running a b drbd unbalanced"])
    assert _Help(cluster, "a") == {"one": "no other node has room: node b needs 1025 MiB more free memory"}


def test_a_secondary_that_is_offline_is_replaced() -> None:
    nodes = ["a 8192 5120", "b 8192 7168 offline", "c 8192 7168"]
    guest = ["one 2048 running a b drbd"]
    assert _Help(_Cluster(nodes, guest), "a") == {"one": "'gnt-instance replace-disks -n c one'"}
    assert _Help(_Cluster(nodes[:2], guest), "a") == {
        "one": "no other node has room: repair node b, or add one to the group"
    }


def test_what_helps_instances_on_other_storage() -> None:
    shared = _Cluster(["a 8192 3072", "b 4096 3072"], ["one 4096 running a - ext"])
    assert _Help(shared, "a") == {"one": "a node of its group needs 1025 MiB more free memory"}
    alone = _Cluster(["a 8192 5120", "b 8192 7168"], ["one 2048 running a - plain"])
    assert "'gnt-instance modify -t drbd -n b one'" in _Help(alone, "a")["one"]
    assert "nothing but other storage" in _Help(alone, "a", ("plain",))["one"]


def _With(cluster: Cluster, node: str, **facts: Any) -> Cluster:
    """Return the cluster where something else is true of a node."""
    [found] = [one for one in cluster.state.nodes.values() if one.facts.name == node]
    return cluster.WithState(cluster.state.With((found.WithFacts(replace(found.facts, **facts)),)))


def test_a_drained_node_may_fail_too_and_takes_nobody_over() -> None:
    guests = ["one 2048 running a b drbd", "two 2048 running b - plain"]
    cluster = _With(_Cluster(["a 8192 5120", "b 8192 5120"], guests), "b", offline=True, drained=True)
    assert _Losses(cluster) == {"a": [proof.Loss("one", proof.DRAINED, "b")], "b": [proof.Loss("two", proof.ALONE)]}
    [loss] = _Losses(cluster)["a"]
    assert loss.text == "its secondary node b is drained"
    help_text = "no other node has room: 'gnt-node modify --drained=no b', or add one to the group"
    assert _Help(cluster, "a") == {"one": help_text}
    policy = replace(cluster.state.nodes[1].facts.policy, memory_ratio=0.1)
    group = replace(cluster.groups[0], policy=policy)
    lines = list(capacity.Lines(_With(cluster, "b", policy=policy), group, ["plain"], 1))
    assert any("memory-ratio 0.1 is not kept: the instances of b may have 2048 MiB" in line for line in lines)
    assert any(line.startswith("  if b failed, 1 instance") for line in lines)


def test_a_mirrored_instance_without_a_secondary_stays_down() -> None:
    cluster = _Cluster(["a 8192 5120", "b 8192 7168"], ["one 2048 running a - drbd"])
    assert _Losses(cluster) == {"a": [proof.Loss("one", proof.ALONE)]}
    assert _Help(cluster, "a") == {
        "one": "a secondary node: none is recorded ('gnt-instance info one' shows its disks)"
    }


def test_a_copy_that_is_advised_takes_its_room() -> None:
    guests = ["one 2048 running a - plain", "two 2048 running a - plain", "three 2048 running a - plain"]
    cluster = _Cluster(["a 8192 1024", "b 4096 3072", "c 4096 3071"], guests)
    advised = _Help(cluster, "a", ("plain", "drbd"))
    assert [text.partition(" -n ")[2].partition(" ")[0] for text in advised.values()] == ["b", "c", ""]
    assert advised["three"].startswith("nothing but other storage")


def _Sharing(free: int, template: str) -> Cluster:
    """Return a cluster where two instances of a must fit into the memory of b, by their minimum."""
    guests = [f"{name} 4096 running a {'b' if template == 'drbd' else '-'} {template}" for name in ("one", "two")]
    cluster = _Cluster(["a 16384 7168", f"b {1024 + free} {free}"], guests)
    ratio = replace(cluster.state.nodes[0].facts.policy, memory_ratio=4.0)
    nodes = [node.WithFacts(replace(node.facts, policy=ratio)) for node in cluster.state.nodes.values()]
    smaller = [inst.With(least_memory=1500) for inst in cluster.state.instances.values()]
    return cluster.WithState(cluster.state.With(nodes, smaller))


@pytest.mark.parametrize("template", ["drbd", "ext"])
def test_the_memory_that_is_missing_is_enough_and_no_more_than_that(template: str) -> None:
    def needed(free: int) -> list[str]:
        return [
            word for text in _Help(_Sharing(free, template), "a").values() for word in text.split() if word.isdigit()
        ]

    assert needed(2000) == ["1001"]
    assert needed(3000) == ["1"]
    assert needed(3001) == []
