"""Nodes that do not answer the master daemon: the htools take them for offline, and say so."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ganeti.client.gnt_cluster import capacity
from ganeti.htools.options import PROGRAM_OPTIONS, Parser
from ganeti.htools.sources import loading, luxidata
from ganeti.htools.sources.loading import LoadError, Wishes
from ganeti.tools.htools import sources
from ganeti.tools.htools.output import Streams

_POLICY = {
    "std": {"memory-size": 128, "cpu-count": 1, "disk-size": 1024, "disk-count": 1, "nic-count": 1, "spindle-use": 1},
    "minmax": [], "disk-templates": ["plain"], "vcpu-ratio": 4.0, "spindle-ratio": 32.0,
}  # fmt: skip
_GROUP = {"uuid": "g", "name": "default", "alloc_policy": "preferred", "ipolicy": _POLICY, "tags": []}
_INFO = {"tags": [], "ipolicy": _POLICY, "master": "node1", "default_hypervisor": "kvm", "volume_group_name": "xenvg"}
_LIVE = {"mtotal": 16384, "mnode": 900, "mfree": 9000, "dtotal": 100000, "dfree": 60000, "ctotal": 8, "cnos": 1}
_NODE = {
    "offline": False, "drained": False, "vm_capable": True, "ndp/spindle_count": 1, "group.uuid": "g", "tags": [],
    "ndp/exclusive_storage": False, "ndp/cpu_speed": 1.0,
}  # fmt: skip


def _Rows(names: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"data": [[[0, row[name]] if name in row else [2, None] for name in names] for row in rows]}


def _Raw(*nodes: dict[str, Any]) -> loading.Raw:
    rows = [{**_NODE, "name": f"node{number}", **values} for number, values in enumerate(nodes, 1)]
    return luxidata.Parse(
        _Rows(luxidata.NODE_FIELDS, rows),
        _Rows(luxidata.INSTANCE_FIELDS, []),
        _INFO,
        _Rows(luxidata.GROUP_FIELDS, [_GROUP]),
    )


def test_a_node_without_an_answer_counts_as_offline_and_is_named() -> None:
    raw = _Raw(_LIVE, {}, {"offline": True}, {"vm_capable": False})
    assert [node.offline for node in raw.nodes] == [False, True, True, True]
    assert raw.silent == ("node2",), "the others are not expected to answer"
    cluster = loading.Build(raw, Wishes())
    err = io.StringIO()
    options = Parser(PROGRAM_OPTIONS["hinfo"]).Parse([])
    sources.Complete(cluster, options, Streams(io.StringIO(), err, lambda *_: None))
    assert "Warning: these nodes do not answer and count as offline: node2" in err.getvalue()
    assert next(iter(capacity.Lines(cluster, cluster.groups[0], ["plain"], 1))).startswith(
        "Node group default: 4 nodes"
    )


def test_an_answer_that_lacks_something_is_an_error_as_in_3_1() -> None:
    with pytest.raises(LoadError, match="ctotal"):
        _Raw({name: value for name, value in _LIVE.items() if name != "ctotal"})


def test_what_guests_may_still_claim_is_not_free_where_memory_is_shared() -> None:
    guest = {
        "name": "a", "be/memory": 8000, "be/minmem": 1000, "oper_ram": 3000, "be/vcpus": 1, "be/auto_balance": True,
        "be/spindle_use": 1, "status": "running", "pnode": "node1", "snodes": [], "tags": [], "disk_template": "plain",
        "disk_usage": 0, "disk.sizes": [], "disk.spindles": [], "forthcoming": False,
    }  # fmt: skip
    # 2000 MiB are used by something that nobody knows.
    node = {**_NODE, **_LIVE, "name": "node1", "mfree": 16384 - 900 - 3000 - 2000}

    def read(**own: Any) -> loading.Cluster:
        raw = luxidata.Parse(
            _Rows(luxidata.NODE_FIELDS, [node]),
            _Rows(luxidata.INSTANCE_FIELDS, [guest]),
            {**_INFO, "default_hypervisor": "fake"},
            _Rows(luxidata.GROUP_FIELDS, [{**_GROUP, "ipolicy": {**_POLICY, **own}}]),
        )
        return loading.Build(raw, Wishes())

    shared = read(**{"memory-ratio": 1.5}).state.nodes[0]
    assert shared.facts.missing_memory == 2000
    assert shared.facts.memory_for_instances == 16384 - 900 - 2000
    usual = read().state.nodes[0]
    assert usual.facts.missing_memory == 2000 + 3000 - 8000, "as in 3.1"
    assert usual.instance_memory == 8000
