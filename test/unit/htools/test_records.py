"""Recorded values of nodes in the model: they take the place of what is reported and guessed."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti import serializer
from ganeti.htools.model.entities import Failure, Instance, Status
from ganeti.htools.model.resources import AddPrimary, Node, RemovePrimary
from ganeti.htools.model.state import Cluster
from ganeti.htools.sources import loading, luxidata, rapidata, request
from ganeti.htools.sources.loading import LoadError, Wishes

POLICY = {
    "std": dict.fromkeys(("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use"), 1),
    "minmax": [], "disk-templates": ["plain"], "vcpu-ratio": 2.0, "spindle-ratio": 32.0,
}  # fmt: skip
NODE = {
    "name": "node1", "mtotal": 16384, "mnode": 900, "mfree": 3000, "dtotal": 100000, "dfree": 60000, "ctotal": 8, "cnos": 1,
    "offline": False, "drained": False, "vm_capable": True, "ndp/spindle_count": 1, "group.uuid": "g", "tags": [],
    "ndp/exclusive_storage": False, "sptotal": 0, "spfree": 0, "ndp/cpu_speed": 1.0,
}  # fmt: skip
INSTANCE = {
    "disk_usage": 20000, "be/memory": 2048, "be/vcpus": 2, "pnode": "node1", "snodes": [], "tags": [],
    "be/auto_balance": True, "disk_template": "plain", "be/spindle_use": 1, "disk.sizes": [20000], "disk.spindles": [None],
    "forthcoming": False,
}  # fmt: skip
INFO = {"tags": [], "ipolicy": POLICY, "master": "node1", "default_hypervisor": "kvm", "volume_group_name": "xenvg"}
GROUP = {"uuid": "g", "name": "default", "alloc_policy": "preferred", "ipolicy": POLICY, "tags": []}
COMPLETE = {"mem_total": 16000, "mem_node": 1000, "mem_hv": 500}


def _Rows(names: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"data": [[[0, row[name]] if name in row else [3, None] for name in names] for row in rows]}


def _Cluster(hv: Any = None, disk: Any = None, static: int = 4096, reported: Any = None, **info: Any) -> Cluster:
    """One node with an instance that runs, one that is down and one that is offline; read over LUXI."""
    node = {
        **NODE,
        **(reported or {}),
        **({} if hv is None else {"hv_state": hv}),
        **({} if disk is None else {"disk_state": disk}),
    }
    statuses = ("running", "ADMIN_down", "ADMIN_offline")
    guests = [{**INSTANCE, "name": f"inst{i}", "status": word} for i, word in enumerate(statuses)]
    raw = luxidata.Parse(
        _Rows(luxidata.NODE_FIELDS, [node]),
        _Rows(luxidata.INSTANCE_FIELDS, guests),
        {**INFO, **info},
        _Rows(luxidata.GROUP_FIELDS, [GROUP]),
    )
    return loading.Build(raw, Wishes(static_kvm_memory=static))


def _Node(*args: Any, **more: Any) -> Node:
    return _Cluster(*args, **more).state.nodes[0]


def _Guest(memory: int, vcpus: int = 1, disk: int = 1) -> Instance:
    return Instance(9, "new", memory, disk, vcpus, Status.RUNNING, "plain", 0)


@pytest.mark.req("RM-LIM-01")
def test_without_a_record_the_model_is_that_of_3_1() -> None:
    node = _Node()
    assert (node.facts.node_memory, node.facts.total_memory, node.unallocated) == (4096, 16384.0, 3000)
    assert (node.free_disk, node.used_cpus, node.facts.max_cpus, node.facts.least_disk) == (60000, 5, 16, 0)


@pytest.mark.req("RM-NODE-03", "RM-NODE-05", "RM-SOR-03", "RM-HTC-03", "RM-GEN-04")
def test_the_node_s_own_memory_is_not_guessed() -> None:
    assert _Node({"kvm": {"mem_node": 1000}}).facts.node_memory == 1000
    assert _Node({"kvm": {"mem_node": 1000, "mem_hv": 200}}).facts.node_memory == 1200
    # What the hypervisor needs comes on top of the guess, and of what a node reports.
    assert _Node({"kvm": {"mem_hv": 200}}).facts.node_memory == 4296
    assert _Node({"kvm": {"mem_hv": 200}}, static=0).facts.node_memory == 1100
    # The node reports 3000 free, which is less than follows from the records; without a total that counts.
    assert _Node({"kvm": {"mem_node": 1000}}).unallocated == 3000


@pytest.mark.req("RM-SOR-01", "RM-SOR-07", "RM-LIM-02", "RM-NODE-02")
def test_complete_records_decide_what_is_free() -> None:
    """16000 - 1000 - 500 - 2048 of the instance that runs; the node reports 3000, most of the rest is cached."""
    node = _Node({"kvm": COMPLETE})
    assert (node.unallocated, node.facts.missing_memory, node.free_memory_f) == (12452, 0, 12452 - 2048)
    assert isinstance(AddPrimary(node, _Guest(10404)), Failure), "stopped instances keep their memory"
    assert isinstance(AddPrimary(node, _Guest(10403)), Node), "offline ones do not"
    assert AddPrimary(_Node(), _Guest(8000)) is Failure.MEM


@pytest.mark.req("RM-SOR-09", "RM-SOR-13")
@pytest.mark.parametrize("records", [None, {"kvm": COMPLETE}])
def test_stopped_instances_keep_what_they_need(records: dict[str, Any] | None) -> None:
    """Of offline ones others may use the virtual CPUs, and the memory where records say how much there is.

    Without records it stays reserved as in 3.1, whose output the htools have.
    """
    cluster = _Cluster(records)
    node = cluster.state.nodes[0]
    _, stopped, offline = cluster.state.instances.values()
    free = node.free_memory_f
    assert AddPrimary(node, _Guest(free)) is Failure.MEM and isinstance(AddPrimary(node, _Guest(free - 1)), Node)
    without = RemovePrimary(node, stopped)
    assert (without.free_memory_f, without.used_cpus) == (free + stopped.memory, node.used_cpus - stopped.vcpus)
    without = RemovePrimary(node, offline)
    freed = 0 if records else offline.memory
    assert (without.free_memory_f, without.used_cpus) == (free + freed, node.used_cpus)


@pytest.mark.req("RM-SOR-08")
def test_what_a_node_reports_does_not_change_what_is_free() -> None:
    """With complete records all of it follows from the configuration.

    That a node which does not answer counts as offline to allocators is another matter: what is free there cannot be used,
    as every job needs its daemon.
    """
    records = {"kvm": {**COMPLETE, "cpu_total": 4, "cpu_node": 1}}
    disks = {"plain": {"xenvg": {"disk_total": 90000}}}
    usual = _Node(records, disks)
    free = (usual.unallocated, usual.free_memory_f, usual.free_disk, usual.facts.max_cpus - usual.used_cpus)
    assert free == (12452, 12452 - 2048, 30000, 3)
    for reported in (
        {"mfree": 16000},
        {"mfree": 1},
        {"mtotal": 99999, "mnode": 1},
        {"ctotal": 99, "cnos": 9},
        {"dfree": 99999},
    ):
        node = _Cluster(records, disks, reported=reported).state.nodes[0]
        assert not node.offline
        assert (node.unallocated, node.free_memory_f, node.free_disk, node.facts.max_cpus - node.used_cpus) == free


@pytest.mark.req("RM-CHK-04")
def test_memory_that_no_record_explains_is_noticed() -> None:
    assert _Cluster({"kvm": COMPLETE}).warnings == ("  - node node1 is missing 9452 MB ram and -20 GB disk",)


@pytest.mark.req("RM-NODE-06", "RM-NODE-07", "RM-SOR-02")
def test_recorded_cpus() -> None:
    node = _Node({"kvm": {**COMPLETE, "cpu_total": 4, "cpu_node": 3}})
    assert (node.facts.total_cpus, node.used_cpus, node.facts.max_cpus) == (4.0, 3 + 2 * 2, 8)
    assert AddPrimary(node, _Guest(1, vcpus=2)) is Failure.CPU
    assert isinstance(AddPrimary(node, _Guest(1, vcpus=1)), Node)


@pytest.mark.req("RM-NODE-14", "RM-NODE-16", "RM-SOR-04", "RM-SOR-06")
def test_recorded_disks() -> None:
    # 3 * 20000 are taken.
    node = _Node(None, {"plain": {"xenvg": {"disk_total": 90000, "disk_overhead": 5000}}})
    assert (node.facts.total_disk, node.free_disk) == (85000.0, 25000)
    # What unknown volumes take is not handed out.
    assert _Node(None, {"plain": {"xenvg": {"disk_total": 500000}}}).free_disk == 60000
    assert _Node(None, {"plain": {"xenvg": {"disk_total": 50000}}}).free_disk == 0


@pytest.mark.req("RM-NODE-15")
def test_reserved_disk_space_stays_free() -> None:
    node = _Node(None, {"plain": {"xenvg": {"disk_reserved": 50000}}})
    assert (node.facts.least_disk, node.free_disk) == (50000, 60000)
    node = _Node({"kvm": COMPLETE}, {"plain": {"xenvg": {"disk_reserved": 50000}}})
    assert AddPrimary(node, _Guest(1, disk=10001)) is Failure.DISK
    assert isinstance(AddPrimary(node, _Guest(1, disk=10000)), Node)


@pytest.mark.req("RM-NODE-11")
def test_only_the_first_hypervisor_and_the_cluster_s_volume_group_count() -> None:
    usual = _Node()
    node = _Node({"xen-pvm": COMPLETE}, {"plain": {"other": {"disk_total": 1, "disk_reserved": 1}}})
    assert (node.facts, node.unallocated) == (usual.facts, usual.unallocated)
    assert _Node(None, {"plain": {"xenvg": {"disk_reserved": 1}}}, volume_group_name=None).facts.least_disk == 0
    assert _Node({"xen-pvm": COMPLETE}, default_hypervisor="xen-pvm").facts.node_memory == 1500


def test_an_offline_instance_uses_no_cpus() -> None:
    """The three instances have 2 virtual CPUs and 2048 MiB each; the node itself has one CPU."""
    node = _Node({"kvm": COMPLETE})
    assert node.used_cpus == 1 + 2 * 2
    assert node.instance_memory == 2048


def test_a_master_of_3_1_has_no_records() -> None:
    """It answers that the fields are not available; over RAPI they do not exist."""
    answers = rapidata.Answers(
        [GROUP], [{**NODE, "ndparams": {"spindle_count": 1, "exclusive_storage": False}}], [], INFO
    )
    assert rapidata.Parse(answers).nodes[0].record is None


@pytest.mark.parametrize(
    ("hv", "disk"),
    [
        ([], None),
        ({"kvm": 7}, None),
        ({"kvm": {"mem_node": "much"}}, None),
        (None, {"plain": []}),
        (None, {"plain": {"xenvg": {"disk_total": 1.5}}}),
    ],
)
def test_records_of_another_shape_are_errors_in_words(hv: Any, disk: Any) -> None:
    with pytest.raises(LoadError, match="node1"):
        _Cluster(hv, disk)


def test_requests_of_allocators_carry_records() -> None:
    node = {
        "tags": [], "offline": False, "drained": False, "vm_capable": True, "group": "g", "total_memory": 16384,
        "reserved_memory": 900, "free_memory": 3000, "total_disk": 100000, "free_disk": 60000, "total_cpus": 8,
        "reserved_cpus": 1, "free_spindles": 0, "total_spindles": 0,
        "ndparams": {"spindle_count": 1, "exclusive_storage": False},
        "hv_state": {"kvm": COMPLETE}, "disk_state": {"plain": {"xenvg": {"disk_reserved": 5}}},
    }  # fmt: skip
    group = {"name": "default", "alloc_policy": "preferred", "networks": [], "ipolicy": POLICY, "tags": []}
    message = {
        "cluster_tags": [], "enabled_hypervisors": ["kvm"], "nodegroups": {"g": group}, "nodes": {"node1": node},
        "instances": {}, "request": {"type": "node-evacuate", "instances": [], "evac_mode": "all"},
    }  # fmt: skip
    raw = request.Parse(serializer.Dump(message)).raw
    facts = loading.Build(raw, Wishes()).state.nodes[0].facts
    assert (facts.node_memory, facts.total_memory, facts.free_memory, facts.least_disk) == (1500, 16000.0, 14500, 5)
