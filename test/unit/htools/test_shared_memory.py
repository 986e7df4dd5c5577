"""Memory between a minimum and a maximum, with a ratio for what is promised (doc/design-resource-model.rst)."""

from __future__ import annotations

import io
import pathlib
import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti.client.gnt_cluster import capacity
from ganeti.htools.choosing import allocate, balance, evacuate
from ganeti.htools.model.entities import NO_NODE, Disk, Failure, Instance, Status
from ganeti.htools.model.resources import AddPrimary, AddSecondary, Node
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sizes import Size
from ganeti.htools.sources import loading, rapidata, text
from ganeti.htools.survival import proof
from ganeti.tools.htools import main
from ganeti.tools.htools.output import Streams

SPEC = "0,0,0,0,0,0"
BOUNDS = f"{SPEC};65536,64,1048576,16,8,12"


def _Cluster(ratio: str, guests: list[str], count: int = 2, free: int | None = None) -> Cluster:
    """Nodes with 8192 MiB for instances, which report what is left of it by the maxima, unless ``free`` says otherwise."""
    used = [0] * count
    for line in guests:
        columns = line.split("|")
        used[int(columns[6][1:])] += int(columns[1]) if columns[4] == "running" else 0
    nodes = [
        f"n{i}|8704|512|{8192 - used[i] if free is None else free}|500000|400000|8|N|u|4||N|0|1|1.0"
        for i in range(count)
    ]
    policy = f"g|{SPEC}|{BOUNDS}|drbd,plain,ext|64.0|32.0|{ratio}|1"
    lines = ["g|u|preferred||", "", *nodes, "", *guests, "", "", policy, ""]
    return loading.Build(text.Parse("\n".join(lines)), loading.Wishes())


def _Guest(
    name: str, most: int, least: int, primary: int, secondary: int | None = None, status: str = "running"
) -> str:
    other, template = ("", "plain") if secondary is None else (f"n{secondary}", "drbd")
    return f"{name}|{most}|1000|1|{status}|Y|n{primary}|{other}|{template}||1|-|N|{least}"


def _New(most: int, least: int | None, template: str = "plain", status: Status = Status.RUNNING) -> Instance:
    return Instance(
        99, "new", most, 1000, 1, status, template, NO_NODE, disks=(Disk(1000, 1),), least_memory=least, alias="new"
    )


def _Space(cluster: Cluster, *words: str) -> dict[str, str]:
    """What hspace prints of a cluster."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "cluster"
        path.write_text(text.Write(cluster), encoding="utf-8")
        size = "--standard-alloc=1g,4000m,1"
        code = main.Run(
            "hspace",
            ["-t", str(path), "--machine-readable", "--disk-template=ext", size, f"--tiered-alloc{size[16:]}", *words],
            Streams(out, err, lambda name, content: None),
        )
    assert code == 0
    return dict(line.replace("'", "").split("=", 1) for line in out.getvalue().splitlines() if "=" in line)


def test_instances_between_a_minimum_and_a_maximum_are_counted() -> None:
    """8192 MiB on each of two nodes, of which one may fail; 16384 MiB may be promised on each."""
    shared = _Cluster("2.0", [])
    assert _Space(shared)["HTS_ALLOC_INSTANCES"] == "2", "all of 4000 MiB is the minimum"
    assert _Space(shared, "--minimum-memory=1000")["HTS_ALLOC_INSTANCES"] == "8"
    assert _Space(shared, "--minimum-memory=10g")["HTS_ALLOC_INSTANCES"] == "2", "a minimum is never above the maximum"
    assert _Space(_Cluster("", []), "--minimum-memory=1000")["HTS_ALLOC_INSTANCES"] == "2", (
        "without a ratio it is nothing"
    )
    for least, count in ((None, 2), (1000, 8)):
        assert proof.Fitting(shared, shared.groups[0], "ext", Size(1000, 4000, 1, least=least), 20).count == count
    line = list(capacity.Lines(shared, shared.groups[0], ["ext"], 1, least=0))[1]
    assert line.startswith("  more instances of 0 MiB memory (0 MiB at least), ")


@pytest.mark.req("RM-MEM-03", "RM-MEM-04")
def test_maxima_may_exceed_the_memory_as_far_as_the_ratio_says() -> None:
    node = _Cluster("1.5", [_Guest("a", 8000, 1000, 0)]).state.nodes[0]
    assert (node.promised, node.facts.memory_for_instances) == (8000, 8192)
    assert isinstance(AddPrimary(node, _New(4288, 1000)), Node), "8000 + 4288 is 1.5 times 8192"
    assert AddPrimary(node, _New(4289, 1000)) is Failure.MEM
    assert isinstance(AddPrimary(node, _New(4289, 1000), force=True), Node)
    without = _Cluster("", [_Guest("a", 8000, 1000, 0)]).state.nodes[0]
    assert AddPrimary(without, _New(4288, 1000)) is Failure.MEM, "as in 3.1, maxima count in full"


@pytest.mark.req("RM-MEM-02", "RM-MEM-07")
def test_minima_must_fit_beside_what_fail_overs_need() -> None:
    """The second node keeps room for the minimum of what would fail over to it, and may promise it meanwhile."""
    cluster = _Cluster("2.0", [_Guest("a", 6000, 4000, 0, 1), _Guest("b", 3000, 2000, 1)])
    node = cluster.state.nodes[1]
    assert (node.reserved, node.unallocated, node.available_memory) == (4000, 6192, 2192)
    assert isinstance(AddPrimary(node, _New(2500, 2191)), Node)
    assert AddPrimary(node, _New(2500, 2192)) is Failure.MEM, "the instance would be down after a fail-over"
    # All of its memory may be used for bursts, what is reserved too.
    assert isinstance(AddPrimary(node, _New(13384, 100)), Node)
    assert AddPrimary(node, _New(13385, 100)) is Failure.MEM


def test_a_secondary_reserves_the_minimum() -> None:
    node = _Cluster("2.0", [_Guest("b", 3000, 2000, 1)]).state.nodes[1]
    after = AddSecondary(node, _New(9000, 3000, "drbd"), 0)
    assert isinstance(after, Node)
    assert after.reserved == 3000
    assert AddSecondary(node, _New(9000, 6192, "drbd"), 0) is Failure.MEM


def test_stopped_instances_are_promised_and_offline_ones_are_not() -> None:
    guests = [_Guest("a", 6000, 1000, 0, status="ADMIN_down"), _Guest("b", 7000, 1000, 0, status="ADMIN_offline")]
    node = _Cluster("1.0", guests).state.nodes[0]
    assert (node.promised, node.instance_memory) == (6000, 0), "what does not run uses no memory"
    assert isinstance(AddPrimary(node, _New(2192, 100)), Node)
    assert AddPrimary(node, _New(2193, 100)) is Failure.MEM
    assert isinstance(AddPrimary(node, _New(9000, 100, status=Status.ADMIN_OFFLINE)), Node)


@pytest.mark.req("RM-LIM-06")
def test_ballooned_guests_do_not_change_the_model() -> None:
    """The node reports more free memory while guests are small; what they may have is promised nevertheless to others."""
    guests = [_Guest("a", 8000, 1000, 0), _Guest("b", 3000, 1000, 0)]
    usual = _Cluster("1.5", guests).state.nodes[0]
    small = _Cluster("1.5", guests, free=8192 - 2000).state.nodes[0]
    for node in (usual, small):
        assert (node.promised, node.unallocated, node.facts.memory_for_instances) == (11000, 6192, 8192)


def test_memory_that_nobody_explains_is_not_promised() -> None:
    node = _Cluster("2.0", [_Guest("a", 1000, 500, 0)], free=6192).state.nodes[0]
    assert node.facts.memory_for_instances == 7192
    assert AddPrimary(node, _New(13385, 100)) is Failure.MEM
    assert isinstance(AddPrimary(node, _New(13384, 100)), Node)


def test_the_text_format_keeps_both_keys_and_minima() -> None:
    cluster = _Cluster("1.5", [_Guest("a", 8000, 1000, 0, 1)])
    written = text.Write(cluster)
    again = loading.Build(text.Parse(written), loading.Wishes())
    assert text.Write(again) == written
    assert again.state.instances == cluster.state.instances
    assert again.groups[0].policy == cluster.groups[0].policy
    assert again.groups[0].policy.memory_ratio == 1.5
    plain = text.Write(_Cluster("", [_Guest("a", 8000, 1000, 0, 1)]))
    (guest,) = [line for line in plain.splitlines() if line.startswith("a|")]
    assert guest.count("|") == 12, "3.1's columns where nothing new is used"
    assert not [line for line in plain.splitlines() if line.startswith("g|0,") and line.count("|") != 5]


def test_over_rapi_the_maximum_counts_and_not_what_a_guest_uses() -> None:
    spec = dict.fromkeys(("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use"), 1)
    policy: dict[str, Any] = {
        "std": spec, "minmax": [], "disk-templates": ["plain"], "vcpu-ratio": 4.0, "spindle-ratio": 32.0,
    }  # fmt: skip
    group = {"uuid": "g", "name": "default", "alloc_policy": "preferred", "tags": []}
    node = {
        "name": "n", "offline": False, "drained": False, "ndparams": {"exclusive_storage": False, "spindle_count": 1},
        "tags": [], "mtotal": 2000, "mnode": 100, "mfree": 900, "ctotal": 4, "cnos": 1,
    }  # fmt: skip
    inst = {
        "name": "a", "beparams": {"minmem": 100, "maxmem": 400, "vcpus": 1, "auto_balance": True, "spindle_use": 1},
        "oper_ram": 250, "snodes": [], "disk.sizes": [], "disk.spindles": [], "disk_usage": 0, "status": "running",
        "disk_template": "plain", "pnode": "n", "tags": [],
    }  # fmt: skip
    info = {"master": "n", "tags": [], "ipolicy": policy}

    def read(**own: Any) -> tuple[Instance, int]:
        answers = [{**group, "ipolicy": {**policy, **own}}], [{**node, "group.uuid": "g"}], [inst], info
        raw = rapidata.Parse(rapidata.Answers(*answers))
        return raw.instances[0], raw.nodes[0].free_memory

    usual, free = read()
    assert (usual.memory, usual.least_memory, free) == (250, 100, 900)
    shared, free = read(**{"memory-ratio": 1.5})
    assert shared.memory == 400
    assert free == 900 - (400 - 250), "what the guest may still claim is not free"


@st.composite
def shared(draw: Any) -> Cluster:
    """A cluster with a ratio that nobody exceeds yet, and where all minima fit at the same time."""
    count, ratio = draw(st.integers(2, 4)), draw(st.sampled_from([1.0, 1.5, 2.5]))
    promised, needed, guests = [0] * count, [0] * count, []
    for number in range(draw(st.integers(0, 12))):
        most = draw(st.sampled_from([512, 1024, 4096]))
        least, primary = most // draw(st.sampled_from([1, 2, 4])), draw(st.integers(0, count - 1))
        if promised[primary] + most > ratio * 8192 or needed[primary] + least > 8192:
            continue
        promised[primary] += most
        needed[primary] += least
        secondary = (primary + draw(st.integers(1, count - 1))) % count if draw(st.booleans()) else None
        guests.append(_Guest(f"i{number}", most, least, primary, secondary))
    return _Cluster(str(ratio), guests, count)


def _CheckPromises(state: State) -> None:
    for node in state.nodes.values():
        ratio = node.facts.policy.memory_ratio
        here = [inst for inst in state.instances.values() if inst.primary == node.index]
        assert ratio is not None
        assert sum(inst.memory for inst in here) <= ratio * 8192


@given(shared(), st.sampled_from(["plain", "drbd"]), st.sampled_from([(1024, 512), (4096, 1024), (4096, 4096)]))
@settings(max_examples=60)
@pytest.mark.req("RM-MEM-03", "RM-MEM-05")
def test_allocation_never_promises_more_than_the_ratio(cluster: Cluster, template: str, size: tuple[int, int]) -> None:
    inst = _New(*size, template)
    found = allocate.AllocateInGroups(cluster, inst, len(inst.nodes), allocate.Rules())
    for _ in range(10):
        if found.placement is None:
            break
        state = found.placement.state
        _CheckPromises(state)
        for node in state.nodes.values():
            here = [one for one in state.instances.values() if one.primary == node.index]
            assert sum(one.least_memory or one.memory for one in here) <= 8192, "all minima fit at the same time"
        cluster = cluster.WithState(state)
        inst = inst.With(index=inst.index + 1)
        found = allocate.AllocateInGroups(cluster, inst, len(inst.nodes), allocate.Rules())


@given(shared())
@settings(max_examples=40)
def test_balancing_and_evacuating_never_promise_more_than_the_ratio(cluster: Cluster) -> None:
    for step in balance.Balance(cluster.state, balance.Rules(steps=20)):
        _CheckPromises(step.state)
    node = cluster.state.nodes[0]
    leaving = [cluster.state.instances[i] for i in node.primaries]
    _CheckPromises(evacuate.NodeEvacuate(cluster.state, leaving, evacuate.Mode.PRIMARY, force=False).state)
