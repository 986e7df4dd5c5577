"""Instances that are reserved first and made later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from support.moving import Ids, RunWithJobs

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.instance.create import LUInstanceCreate

NEW = "new.example.org"
NIC = {"mac": "aa:00:00:11:22:33", "link": "br0"}


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True)


def _Reserve(master: Master, **values: Any) -> None:
    defaults: dict[str, Any] = {
        "disk_template": "drbd", "disks": [{"size": 1024}, {"size": "2g", "mode": "ro"}], "nics": [NIC], "os_type": "noop",
        "pnode": "node3", "snode": "node1", "beparams": {"maxmem": 512, "minmem": 256}, "tags": ["a"],
    }  # fmt: skip
    master.Run(
        opcodes.OpInstanceCreate(**{"instance_name": NEW, "mode": "create", "forthcoming": True, **defaults, **values})
    )


def _Commit(**values: Any) -> opcodes.OpInstanceCreate:
    return opcodes.OpInstanceCreate(
        **{"instance_name": NEW, "mode": "create", "commit": True, "disks": [], "nics": [], **values}
    )


_CHANGING = ("blockdev_create", "blockdev_assemble", "instance_start", "instance_os_add", "file_storage_dir_create")


def test_a_reservation_is_made_in_the_configuration_alone(three: Master) -> None:
    result = three.Run(
        opcodes.OpInstanceCreate(
            instance_name=NEW, mode="create", forthcoming=True, disk_template="drbd", disks=[{"size": 1024}], nics=[{}],
            os_type="noop", pnode="node3", snode="node1",
        )
    )  # fmt: skip
    assert result == [three[2].name, three[0].name]
    instance = three.Instance(NEW)
    [disk] = three.snapshot.InstanceDisks(instance)
    assert (instance.forthcoming, instance.admin_state, instance.disks_active) == (True, "down", False)
    assert disk.forthcoming and [child.forthcoming for child in disk.children] == [True, True]
    assert not [call for node in three.all for call in node.calls if call in _CHANGING]
    assert three.Stored().instances[instance.uuid] == instance
    with pytest.raises(errors.OpPrereqError, match="only a reservation"):
        three.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    with pytest.raises(errors.OpPrereqError, match="already in the cluster as a reservation") as caught:
        three.Run(
            opcodes.OpInstanceCreate(
                instance_name=NEW, mode="create", disk_template="plain", disks=[{"size": 1024}], nics=[], os_type="noop", pnode="node1"
            )
        )  # fmt: skip
    assert caught.value.hint == f"'gnt-instance add --commit {NEW}' makes it real"
    three.Run(opcodes.OpInstanceRemove(instance_name=NEW))
    assert NEW not in [inst.name for inst in three.snapshot.instances.values()]
    assert disk.uuid not in three.snapshot.disks
    assert not [call for node in three.all for call in node.calls if call in ("blockdev_remove", "instance_shutdown")]


def test_a_reservation_is_nothing_that_is_missing(three: Master) -> None:
    """Neither its disks nor the instance; its disks are no business of those who watch mirrors."""
    verify = opcodes.OpClusterVerifyGroup(group_name="default")
    three.Run(verify)
    before = [text for text in three.last.messages if "ERROR" in text or "WARNING" in text]
    _Reserve(three)
    three.Run(verify)
    assert [text for text in three.last.messages if "ERROR" in text or "WARNING" in text] == before
    assert three.Run(opcodes.OpGroupVerifyDisks(group_name="default")) == ({}, [], {})


def test_an_allocator_chooses_the_nodes_of_a_reservation(three: Master) -> None:
    _Reserve(three, pnode=None, snode=None, iallocator="hail")
    assert len(set(three.snapshot.AllNodes(three.Instance(NEW)))) == 2


def test_a_reservation_becomes_an_instance(three: Master) -> None:
    _Reserve(three)
    reserved, disks = three.Instance(NEW), three.snapshot.InstanceDisks(three.Instance(NEW))
    assert three.Run(_Commit(beparams={"maxmem": 1024}, start=True)) == [three[2].name, three[0].name]
    instance = three.Instance(NEW)
    assert instance.forthcoming is None and instance.admin_state == "up" and instance.disks_active
    assert (instance.uuid, instance.nics, instance.network_port) == (
        reserved.uuid,
        reserved.nics,
        reserved.network_port,
    )
    assert instance.nics[0].mac == NIC["mac"]
    assert dict(instance.beparams) == {"maxmem": 1024, "minmem": 256}
    assert (instance.os, instance.tags, instance.primary_node) == ("noop", ("a",), three.nodes[2])
    made = three.snapshot.InstanceDisks(instance)
    assert [(d.uuid, d.logical_id, d.size, d.mode, d.forthcoming) for d in made] == [
        (d.uuid, d.logical_id, d.size, d.mode, None) for d in disks
    ]
    assert not any(child.forthcoming for d in made for child in d.children)
    assert three[2].calls.count("instance_start") == 1
    env = next(env for path, phase, env in three[2].hook_runs if path == "instance-add" and "MAXMEM" in str(env))
    assert env["GANETI_INSTANCE_NAME"] == NEW
    three.Run(opcodes.OpInstanceMigrate(instance_name=NEW))
    assert three.Instance(NEW).primary_node == three.nodes[0]


def test_the_request_may_repeat_what_is_reserved(three: Master) -> None:
    _Reserve(three)
    three.Run(
        _Commit(
            instance_name="new", disk_template="drbd", disks=[{"size": 1024}, {"size": 2048}], pnode="node3", snode="node1",
            nics=[{**NIC, "ip": "pool"}], os_type="noop", start=False, tags=["b"],
        )
    )  # fmt: skip
    assert (three.Instance(NEW).admin_state, three.Instance(NEW).tags) == ("down", ("b",))


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"instance_name": "nobody"}, "'nobody' is not known"),
        ({"instance_name": "web.example.org"}, "already a real one"),
        ({"forthcoming": True}, "not both"),
        ({"iallocator": "hail"}, "an allocator cannot be given"),
        ({"pnode": "node2"}, r"reserved primary node node3\.example\.org, the request names node2"),
        ({"snode": "node2"}, r"reserved secondary node node1\.example\.org, the request names node2"),
        ({"disk_template": "plain"}, "reserved disk template drbd, the request names plain"),
        ({"disks": [{"size": 1024}]}, r"reserved disks of \(MiB\) \[1024, 2048\], the request names \[1024\]"),
        ({"nics": [{}, {}]}, "reserved a number of NICs of 1, the request names 2"),
        ({"nics": [{"mac": "aa:00:00:11:22:44"}]}, "reserved mac of NIC 0: aa:00:00:11:22:33"),
        ({"nics": [{"link": "br1"}]}, "reserved link of NIC 0: br0, the request names br1"),
        ({"beparams": {"maxmem": 128}}, "minimum memory"),
    ],
)
def test_what_differs_is_rejected(three: Master, values: dict[str, Any], match: str) -> None:
    _Reserve(three)
    before = three.snapshot
    with pytest.raises(errors.OpPrereqError, match=match):
        three.Run(_Commit(**values))
    assert three.snapshot is before


def test_a_reservation_moves_in_the_configuration_alone(three: Master) -> None:
    _Reserve(three)
    before = three.snapshot.InstanceDisks(three.Instance(NEW))
    three.Run(opcodes.OpInstanceFailover(instance_name=NEW))
    assert three.snapshot.AllNodes(three.Instance(NEW)) == (three.nodes[0], three.nodes[2])
    three.Run(
        opcodes.OpInstanceReplaceDisks(instance_name=NEW, mode="replace_new_secondary", disks=[], remote_node="node2")
    )
    assert three.snapshot.AllNodes(three.Instance(NEW)) == (three.nodes[0], three.nodes[1])
    disks = three.snapshot.InstanceDisks(three.Instance(NEW))
    assert [disk.uuid for disk in disks] == [disk.uuid for disk in before] and all(disk.forthcoming for disk in disks)
    minors = [minor for disk in three.snapshot.disks.values() for minor in disk.Minors()]
    assert len(set(minors)) == len(minors) == 2 * len(three.snapshot.disks)
    assert not [call for node in three.all for call in node.calls if call in _CHANGING]
    for op in (
        opcodes.OpInstanceMigrate(instance_name=NEW),
        opcodes.OpInstanceReplaceDisks(instance_name=NEW, mode="replace_on_primary", disks=[]),
        opcodes.OpInstanceReplaceDisks(instance_name=NEW, mode="replace_auto", disks=[]),
    ):
        with pytest.raises(errors.OpPrereqError, match="only a reservation"):
            three.Run(op)
    three.cfg.Update(three.snapshot.nodes[three.nodes[1]].Replace(drained=True))
    with pytest.raises(errors.OpPrereqError, match="drained"):
        three.Run(opcodes.OpInstanceFailover(instance_name=NEW))
    three.cfg.Update(three.snapshot.nodes[three.nodes[1]].Replace(drained=False))
    three.Run(_Commit())
    assert three.snapshot.AllNodes(three.Instance(NEW)) == (three.nodes[0], three.nodes[1])
    assert three.Instance(NEW).forthcoming is None


def test_a_node_is_emptied_of_reservations_too(three: Master) -> None:
    _Reserve(three)
    _Reserve(three, instance_name="other.example.org", pnode="node2", snode="node3", nics=[{}])
    jobs = RunWithJobs(three, opcodes.OpNodeEvacuate(node_name="node3", mode="all", iallocator="hail"))
    assert sorted(Ids(jobs)) == [["FAILOVER"], ["OP_NODE_EVACUATE"], ["REPLACE_DISKS"], ["REPLACE_DISKS"]]
    assert three.snapshot.NodeInstances(three.nodes[2]) == ((), ())


def test_existing_disks_are_not_reserved(three: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="need no reservation"):
        _Reserve(three, disk_template="plain", disks=[{"adopt": "x"}], snode=None)


def test_a_failure_leaves_the_reservation(three: Master) -> None:
    _Reserve(three)
    reserved = three.Instance(NEW)
    three[2].faults["blockdev_create"] = "disk full"
    with pytest.raises(errors.OpExecError, match="disk full"):
        three.Run(_Commit())
    assert three.Instance(NEW) == reserved
    del three[2].faults["blockdev_create"]
    three.Run(_Commit())
    assert three.Instance(NEW).forthcoming is None


def test_what_changes_before_the_locks_is_noticed(three: Master) -> None:
    """The reservation was removed, or another job committed it."""
    _Reserve(three)

    class Late(LUInstanceCreate):
        def DeclareLocks(self, level: int) -> None:
            super().DeclareLocks(level)
            if level == locking.LEVEL_NODE:
                with three.Elsewhere():
                    instance = three.Instance(NEW)
                    three.cfg.Update(instance.Replace(tags=("c",)))

    op = _Commit()
    with pytest.raises(errors.OpPrereqError, match="changed while this job waited"):
        three.Run(op, units={op.OP_ID: Late})
    found: objects.Instance = three.Instance(NEW)
    assert found.forthcoming
