"""The recorded state of nodes: who may say what, and what is in force."""

from __future__ import annotations

from typing import Any

import pytest
from support import configs

from ganeti.params import nodestate


def _Recorded(cluster: dict[str, Any], group: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    root = configs.Example()
    root = root.Replace(cluster=root.cluster.Replace(hv_state_static=cluster))
    root = root.WithObject(root.nodegroups[configs.GROUP].Replace(hv_state_static=group))
    root = root.WithObject(root.nodes[configs.NODE1].Replace(hv_state_static=node))
    return nodestate.HVState(root, root.nodes[configs.NODE1])


def _Disks(cluster: dict[str, Any], group: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    root = configs.Example()
    root = root.Replace(cluster=root.cluster.Replace(disk_state_static=cluster))
    root = root.WithObject(root.nodegroups[configs.GROUP].Replace(disk_state_static=group))
    root = root.WithObject(root.nodes[configs.NODE1].Replace(disk_state_static=node))
    return nodestate.DiskState(root, root.nodes[configs.NODE1])


def test_nothing_is_recorded_at_first() -> None:
    assert _Recorded({}, {}, {}) == {}
    assert _Disks({}, {}, {}) == {}


@pytest.mark.req("RM-NODE-01", "RM-NODE-09", "RM-NODE-10")
def test_what_nodes_keep_is_inherited_by_hypervisor() -> None:
    cluster = {"kvm": {"cpu_node": 1, "mem_hv": 64, "mem_node": 512}, "fake": {"mem_hv": 1}}
    group = {"kvm": {"mem_node": 1024, "mem_hv": 32}}
    node = {"kvm": {"mem_node": 2048}}
    assert _Recorded(cluster, group, node) == {
        "kvm": {"cpu_node": 1, "mem_hv": 32, "mem_node": 2048},
        "fake": {"mem_hv": 1},
    }


@pytest.mark.req("RM-NODE-02", "RM-NODE-06")
def test_what_a_node_has_in_all_is_not_inherited() -> None:
    """3.1 fills what a cluster's record lacks with 1 CPU and no memory."""
    all_ = {"kvm": {"cpu_total": 1, "mem_total": 4096, "cpu_node": 2}}
    assert _Recorded(all_, all_, {}) == {"kvm": {"cpu_node": 2}}
    assert _Recorded({}, {}, all_) == all_


def test_zero_is_not_recorded_and_takes_back_what_is_inherited() -> None:
    assert _Recorded({"kvm": {"mem_node": 512, "cpu_node": 2}}, {}, {"kvm": {"mem_node": 0, "mem_total": -5}}) == {
        "kvm": {"cpu_node": 2}
    }
    assert _Recorded({"kvm": {"mem_node": 512}}, {}, {"kvm": {"mem_node": 0}}) == {}


@pytest.mark.req("RM-NODE-12")
def test_disks_are_recorded_by_storage_type_and_name() -> None:
    cluster = {"plain": {"xenvg": {"disk_reserved": 10, "disk_total": 5}}}
    group = {"plain": {"xenvg": {"disk_overhead": 3}, "other": {"disk_reserved": 7}}}
    node = {"plain": {"xenvg": {"disk_total": 1000, "disk_reserved": 20}, "gone": {"disk_total": 0}}}
    assert _Disks(cluster, group, node) == {
        "plain": {
            "xenvg": {"disk_reserved": 20, "disk_overhead": 3, "disk_total": 1000},
            "other": {"disk_reserved": 7},
        }
    }
