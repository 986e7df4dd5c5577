"""What allocators are told of policies and of memory, and what the htools read from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Answering, AskOn
from support.master import Master

from ganeti import opcodes, serializer
from ganeti.cmdlib.allocation import requests
from ganeti.htools.sources import request

WEB = "web.example.org"
NOTHING = requests.NodeEvacuate(instances=(), mode="all")


@pytest.fixture
def master(make: Callable[..., Master]) -> Master:
    return make(2, lvm=True)


def _Message(master: Master) -> dict[str, Any]:
    played = Answering([[], [], []])
    master[0].AddAllocator("mine", played)
    AskOn(master, "mine", NOTHING)
    return played.asked[-1]


@pytest.mark.req("RM-LIM-05")
def test_memory_that_a_guest_may_still_claim_is_not_free(master: Master) -> None:
    """A guest under KVM takes memory only when it touches it."""
    node = master[0].name
    master[0].StartGuest(WEB, memory=512)
    all_used = _Message(master)["nodes"][node]
    master[0].StartGuest(WEB, memory=200)
    some_used = _Message(master)["nodes"][node]
    # The node reports 312 MiB more as free, and they are taken off again.
    assert all_used["free_memory"] == some_used["free_memory"]
    master[0].StartGuest(WEB, memory=600)
    assert _Message(master)["nodes"][node]["free_memory"] == all_used["free_memory"] - 88


def _Create(master: Master, name: str, **values: Any) -> None:
    plan = {"disk_template": "plain", "disks": [{"size": 1024}], "nics": [{}], "os_type": "noop", "pnode": "node2"}
    master.Run(opcodes.OpInstanceCreate(instance_name=name, mode="create", **plan, **values))


def test_a_guest_counts_on_its_primary_node_only(master: Master) -> None:
    """While it is being migrated both nodes report it; what the target says is not what it has."""
    _Create(master, "other.example.org", start=True)
    master[0].StartGuest(WEB, memory=512)
    before = _Message(master)["nodes"][master[0].name]
    master[1].StartGuest(WEB, memory=100)
    assert _Message(master)["nodes"][master[0].name]["free_memory"] == before["free_memory"]


def test_a_reservation_has_no_memory_yet_and_is_marked(master: Master) -> None:
    before = _Message(master)["nodes"][master[1].name]
    _Create(master, "later.example.org", forthcoming=True)
    after = _Message(master)
    assert {key: after["nodes"][master[1].name][key] for key in ("i_pri_memory", "i_pri_up_memory", "free_memory")} == {
        key: before[key] for key in ("i_pri_memory", "i_pri_up_memory", "free_memory")
    }
    assert {name: one.get("forthcoming") for name, one in after["instances"].items()} == {
        WEB: None,
        "later.example.org": True,
    }


@pytest.mark.req("RM-ISPEC-12", "RM-LIM-19")
def test_policies_stand_in_the_configuration_and_are_sent_by_group(master: Master) -> None:
    pair = {end: dict.fromkeys(("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use"), n)
            for end, n in (("min", 1), ("max", 99))}  # fmt: skip
    before = _Message(master)
    master.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"minmax": [pair], "vcpu-ratio": 7.5}))
    after = _Message(master)
    assert after["ipolicy"] == before["ipolicy"], "a group's values are not those of the cluster"
    (group,) = after["nodegroups"].values()
    assert group["ipolicy"]["minmax"] == [pair]
    assert group["ipolicy"]["vcpu-ratio"] == 7.5
    assert group["ipolicy"]["spindle-ratio"] == after["ipolicy"]["spindle-ratio"]
    (read,) = request.Parse(serializer.Dump(after)).raw.groups
    ((least, most),) = read.policy.minmax
    assert (read.policy.vcpu_ratio, least.memory, most.memory) == (7.5, 1, 99)


@pytest.mark.req("RM-ALLOC-05")
def test_ratios_and_failures_are_exported_by_group_and_as_they_are(master: Master) -> None:
    before = _Message(master)
    assert not any("minimum_memory" in inst for inst in before["instances"].values()), "3.1's shape"
    mine = {"vcpu-ratio": 7.5, "spindle-ratio": 3.5, "memory-ratio": 1.5, "max-node-failures": 2}
    master.Run(opcodes.OpGroupAdd(group_name="other"))
    master.Run(opcodes.OpGroupSetParams(group_name="other", ipolicy=mine))
    after = _Message(master)
    assert after["ipolicy"] == before["ipolicy"]
    policies = {group["name"]: group["ipolicy"] for group in after["nodegroups"].values()}
    assert {key: policies["other"][key] for key in mine} == mine
    assert policies["default"] == next(iter(before["nodegroups"].values()))["ipolicy"], "groups are not merged"
    assert after["instances"][WEB]["minimum_memory"] == 512
    read = request.Parse(serializer.Dump(after)).raw
    assert {group.name: (group.policy.memory_ratio, group.policy.max_failures) for group in read.groups} == {
        "default": (None, 1),
        "other": (1.5, 2),
    }
