"""Whom a job calls, and what it locks."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable

import pytest
from support import sources
from support.master import Master
from support.virtualnode import TOP

from ganeti import opcodes
from ganeti.cmdlib import LU_MAPPING

WEB = "web.example.org"
# Everything else takes locks per object.
ALONE = {
    "OP_CLUSTER_ACTIVATE_MASTER_IP",
    "OP_CLUSTER_DEACTIVATE_MASTER_IP",
    "OP_CLUSTER_DESTROY",
    "OP_CLUSTER_POST_INIT",
    "OP_CLUSTER_RENAME",
    "OP_NODE_ADD",
    "OP_NODE_REMOVE",
    "OP_TEST_ALLOCATOR",
}


@pytest.mark.req("D20-CORE-01")
def test_only_a_few_units_run_alone() -> None:
    assert {op_id for op_id, unit in LU_MAPPING.items() if unit.REQ_BGL} == ALONE & LU_MAPPING.keys()


@pytest.mark.req("D20-CORE-06")
def test_units_know_no_transport() -> None:
    """They call ``rpc.call_*`` of whatever runner they are given; what carries a call is not theirs to know."""
    transports = (
        "ganeti.rpc.curl",
        "ganeti.http",
        "ganeti.http.tls",
        "ganeti.rpc.server",
        "pycurl",
        "ssl",
        "socket",
    )
    wrong = []
    for folder, _, names in os.walk(os.path.join(TOP, "lib", "cmdlib")):
        for name in (name for name in names if name.endswith(".py")):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                tree = sources.Parse(stream.read())
            for node in ast.walk(tree):
                found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                wrong += [(name, module) for module in found if module.startswith(transports)]
    assert wrong == []


def _Calls(master: Master) -> dict[str, list[str]]:
    """What each node served of a stop and a start, but for what the store does."""
    for node in master.all:
        node.calls.clear()
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    return {node.name: sorted(name for name in node.calls if not name.startswith("store_")) for node in master.all}


@pytest.fixture
def large(make: Callable[..., Master]) -> Master:
    """Nine nodes, three of them candidates; the instance lives on the first two."""
    return make(9, candidates=3)


@pytest.mark.req("D21-GEN-01")
def test_a_routine_job_calls_the_nodes_of_its_instance_only(large: Master) -> None:
    called = _Calls(large)
    assert {name for name, calls in called.items() if calls} == {large[0].name, large[1].name}
    assert sum(map(len, called.values())) < 30


@pytest.mark.req("D20-FLAG-04", "D20-FLAG-09")
def test_a_change_is_copied_to_the_candidates_however_many_nodes_there_are(large: Master) -> None:
    for node in large.all[3:]:
        node.machine.PowerOff()
    for node in large.all:
        node.calls.clear()
    large.Run(opcodes.OpTagsSet(kind="cluster", tags=["changed"]))
    assert "changed" in large.snapshot.cluster.tags
    assert {node.name for node in large.all if "store_append" in node.calls} <= {node.name for node in large.all[:3]}
    assert large.lost == [], "what is no candidate disturbs nothing"
