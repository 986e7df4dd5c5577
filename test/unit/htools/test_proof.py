"""What a cluster can bear: failures of nodes, more instances."""

from __future__ import annotations

from ganeti.client.gnt_cluster import capacity
from ganeti.htools import loading, proof, text
from ganeti.htools.loading import Wishes
from ganeti.htools.space import Size
from ganeti.htools.state import Cluster

_SPECS = "1024,1,1024,1,1,1"
_POLICY = f"g|{_SPECS}|128,1,512,1,1,1;32768,8,1048576,16,8,12|plain,drbd,ext|4.0|32.0"


def _Cluster(nodes: list[str], instances: list[str]) -> Cluster:
    """Nodes are NAME MEMORY FREE [OFFLINE], instances NAME MEMORY STATUS PRIMARY SECONDARY TEMPLATE."""
    hosts = []
    for line in nodes:
        name, memory, free, *offline = line.split()
        hosts.append(f"{name}|{memory}|1024|{free}|100000|90000|16|{'Y' if offline else 'N'}|u|10")
    guests = []
    for line in instances:
        name, memory, status, primary, secondary, template = line.split()
        guests.append(f"{name}|{memory}|1024|1|{status}|Y|{primary}|{secondary.strip('-')}|{template}|")
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


def test_instances_that_are_on_one_node_only() -> None:
    cluster = _Cluster(["a 8192 3072", "b 8192 7168"], ["one 2048 running a - plain", "two 2048 ADMIN_down b - plain"])
    assert _Losses(cluster) == {"a": [proof.Loss("one", proof.ALONE)]}
    lines = list(capacity.Lines(cluster, cluster.groups[0], ["plain"], 10))
    assert lines[2:] == ["  if a failed, 1 instance(s) would stay down:", f"    one: {proof.ALONE}"]


def test_instances_that_all_nodes_reach() -> None:
    guests = ["one 4096 running a - ext", "two 2048 running a - ext"]
    assert _Losses(_Cluster(["a 8192 1024", "b 8192 7168"], guests)) == {}
    small = _Cluster(["a 8192 1024", "b 6144 5120", "c 8192 7168 offline"], guests)
    assert _Losses(small) == {"a": [proof.Loss("two", proof.NO_TARGET)]}


def test_a_secondary_that_is_offline_helps_nobody() -> None:
    cluster = _Cluster(["a 8192 5120", "b 8192 7168 offline"], ["one 2048 running a b drbd"])
    assert _Losses(cluster) == {"a": [proof.Loss("one", "its secondary node is offline", "b")]}


def test_how_much_more_fits() -> None:
    cluster = _Cluster(["a 8192 7168", "b 8192 7168"], [])
    (group,) = cluster.groups
    size = Size(1024, 1024, 1)
    # Each node holds seven, but must have room for those of the other one.
    room = proof.Fitting(cluster, group, "drbd", size, 100)
    assert not room.limited and 0 < room.count <= 7 and "memory" in room.reason
    assert proof.Fitting(cluster, group, "drbd", size, 2) == proof.Room(2, limited=True, reason="")
    alone = _Cluster(["a 8192 7168"], [])
    assert proof.Fitting(alone, alone.groups[0], "drbd", size, 9) == proof.Room(0, False, "Not enough online nodes")


def test_what_is_printed() -> None:
    guests = [f"i{number} 128 running a - plain" for number in range(7)]
    cluster = _Cluster(["a 65536 63616", "b 65536 64512"], guests)
    lines = list(capacity.Lines(cluster, cluster.groups[0], ["drbd", "plain"], 3))
    assert lines[0] == "Node group g: 2 nodes, 7 instances"
    assert lines[1].startswith("  more instances of 1024 MiB memory, 1024 MiB disk and 1 CPU(s), drbd: ")
    assert lines[2] == "  if a failed, 7 instance(s) would stay down:"
    assert lines[3] == f"    i0: {proof.ALONE}" and lines[-1] == "    and 2 more" and len(lines) == 9
    empty = _Cluster(["a 65536 63616", "b 65536 64512"], [])
    assert list(capacity.Lines(empty, empty.groups[0], ["plain"], 3))[1:] == [
        "  more instances of 1024 MiB memory, 1024 MiB disk and 1 CPU(s), plain: at least 3",
        "  any one node may fail: all running instances could run elsewhere",
    ]
