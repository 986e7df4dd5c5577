"""The unit that shows questions and answers of allocators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Played, Success
from support.master import Master

from ganeti import errors, opcodes, serializer

NEW: dict[str, Any] = {
    "name": "new.example.org",
    "disk_template": "drbd",
    "memory": 256,
    "vcpus": 1,
    "os": "noop",
    "disks": [{"size": 1024, "mode": "rw"}],
    "nics": [{"mac": "aa:00:00:11:22:33"}],
}


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True)


def _Ask(master: Master, direction: str, mode: str, **values: Any) -> Any:
    return serializer.Load(master.Run(opcodes.OpTestAllocator(direction=direction, mode=mode, **values)))


def test_every_mode_has_a_question(three: Master) -> None:
    master = three
    (web,) = master.snapshot.instances.values()
    group = next(iter(master.snapshot.nodegroups))
    name = web.name
    asked = {
        "allocate": NEW,
        "multi-allocate": {**NEW, "count": 2},
        "capacity": {**NEW, "count": 7},
        "relocate": {"name": name},
        "allocate-secondary": {"name": name},
        "node-evacuate": {"name": name, "instances": [name], "evac_mode": "primary-only"},
        "change-group": {"name": name, "instances": [name], "target_groups": ["default"]},
        "balance": {"name": "x", "count": 3},
    }
    found = {mode: _Ask(master, "in", mode, **values)["request"] for mode, values in asked.items()}
    assert {mode: request["type"] for mode, request in found.items()} == {mode: mode for mode in asked}
    assert found["allocate"]["disk_space_total"] == 1024 + 128 and found["allocate"]["required_nodes"] == 2
    assert [one["name"] for one in found["multi-allocate"]["instances"]] == ["new.example.org0", "new.example.org1"]
    assert found["capacity"]["limit"] == 7 and found["balance"]["max_moves"] == 3
    (secondary,) = master.snapshot.SecondaryNodes(web)
    disks = [disk.size for disk in master.snapshot.InstanceDisks(web)]
    assert found["relocate"] == {
        "type": "relocate",
        "name": name,
        "disk_space_total": sum(disks) + 128 * len(disks),
        "required_nodes": 1,
        "relocate_from": [master.snapshot.NodeName(secondary)],
    }
    assert found["node-evacuate"] == {"type": "node-evacuate", "instances": [name], "evac_mode": "primary-only"}
    assert found["change-group"] == {"type": "change-group", "instances": [name], "target_groups": [group]}
    assert "iallocator_runner" not in master[0].calls
    # The whole schema of modes was tried.
    assert set(asked) == set(opcodes.OpTestAllocator.OP_PARAMS["mode"].type.Schema()["enum"])


@pytest.mark.req("D21-IALLOC-07")
def test_a_capacity_is_what_can_be_placed_one_by_one(three: Master) -> None:
    """Three empty nodes that hold few instances of this size."""
    master = three
    (web,) = master.snapshot.instances.values()
    master.Run(opcodes.OpInstanceRemove(instance_name=web.name))
    large = {**NEW, "memory": 8192, "iallocator": "hail"}
    answer = _Ask(master, "out", "capacity", **large, count=100)
    places = answer["result"]
    assert (
        answer["success"]
        and 1 < len(places) < 100
        and answer["info"].startswith(f"Request successful: {len(places)} instances fit; then: ")
    )
    several = _Ask(master, "out", "multi-allocate", **large, count=len(places))
    assert several["success"] and [nodes for _, nodes in several["result"][0]] == places
    assert not _Ask(master, "out", "multi-allocate", **large, count=len(places) + 1)["success"]


def test_answers_are_shown_as_they_are(three: Master) -> None:
    master = three
    master[0].AddAllocator("mine", Played(lambda message: Success(["nonsense"])))
    assert _Ask(master, "out", "allocate", iallocator="mine", **NEW) == Success(["nonsense"])
    # Ours answers in the process, to its own two kinds of requests, too.
    answer = _Ask(master, "out", "allocate", iallocator="hail", **NEW)
    assert answer["success"] and len(answer["result"]) == 2
    answer = _Ask(master, "out", "capacity", iallocator="hail", count=2, **NEW)
    assert answer["success"] and [len(nodes) for nodes in answer["result"]] == [2, 2]
    assert master[0].calls.count("iallocator_runner") == 1


@pytest.mark.req("D21-IALLOC-06")
def test_balancing_makes_no_more_moves_than_allowed(three: Master) -> None:
    """All is on two of three nodes: each move takes something to the third one, and the answer says where everything is."""
    for number in range(4):
        three.Run(
            opcodes.OpInstanceCreate(
                instance_name=f"more{number}.example.org", mode="create", disk_template="drbd", disks=[{"size": 1024}],
                nics=[{}], os_type="noop", pnode="node1", snode="node2", start=False,
            )
        )  # fmt: skip
    empty = three[2].name
    assert three.snapshot.NodeInstances(three.nodes[2]) == ((), ())
    counts = []
    for most in (1, 2, 9):
        moved, failed, jobs = _Ask(three, "out", "balance", iallocator="hail", name="x", count=most)["result"]
        assert failed == [] and len(moved) == len({name for name, _, _ in moved}) == len(jobs) <= most
        assert all(empty in nodes for _, _, nodes in moved)
        counts.append(len(jobs))
    assert counts[:2] == [1, 2] and counts[2] > 2


@pytest.mark.req("D21-IALLOC-01", "D21-IALLOC-03")
def test_the_default_allocator_is_meant_by_a_dot(three: Master) -> None:
    master = three
    cluster = master.snapshot.cluster.Replace(default_iallocator="")
    master.cfg.Transact(lambda draft: draft.Put(cluster))
    for none in (".", None):
        with pytest.raises(errors.OpPrereqError, match="Missing allocator name"):
            _Ask(master, "out", "allocate", iallocator=none, **NEW)
    master[0].AddAllocator("full", Played(lambda message: {"success": False, "info": "full", "result": []}))
    master[0].AddAllocator("mine", Played(lambda message: Success([])))
    listed = master.snapshot.cluster.Replace(default_iallocator="full,mine")
    master.cfg.Transact(lambda draft: draft.Put(listed))
    assert _Ask(master, "out", "allocate", iallocator=".", **NEW) == Success([])
    assert _Ask(master, "out", "allocate", iallocator="none,full", **NEW)["info"] == "full"


@pytest.mark.parametrize(
    ("mode", "values", "words"),
    [
        ("allocate", {**NEW, "memory": None}, "Missing attribute 'memory'"),
        ("allocate", {**NEW, "disk_template": None}, "Missing attribute 'disk_template'"),
        ("allocate", {**NEW, "disks": [{"size": "big"}]}, "Invalid contents of the 'disks' parameter"),
        ("allocate", {**NEW, "disks": [{"size": 1, "mode": "x"}]}, "Invalid contents of the 'disks' parameter"),
        ("allocate", {**NEW, "name": "web1.example.org"}, "already in the cluster"),
        ("allocate", {**NEW, "group_name": "nowhere"}, "Group 'nowhere' not known"),
        ("relocate", {"name": "nobody"}, "Instance 'nobody' not known"),
        ("node-evacuate", {"name": "x"}, "Missing instances"),
        ("change-group", {"name": "x", "instances": []}, "Missing instances"),
        ("change-group", {"name": "x", "instances": ["nobody"]}, "Instance 'nobody' not known"),
    ],
)
def test_questions_that_make_no_sense(three: Master, mode: str, values: dict[str, Any], words: str) -> None:
    values = dict(values)
    if values["name"] == "web1.example.org":
        values["name"] = next(iter(three.snapshot.instances.values())).name
    with pytest.raises(errors.OpPrereqError, match=words):
        _Ask(three, "in", mode, **values)
