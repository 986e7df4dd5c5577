"""Disks that should be there and active, and their sizes."""

from __future__ import annotations

import pytest
from support.master import Master
from support.simnode import NameOf

from ganeti import errors, opcodes, runtime

WEB = "web.example.org"


def test_one_job_for_each_group(master: Master) -> None:
    result = master.Run(opcodes.OpClusterVerifyDisks(is_strict=False))
    assert result == {"jobs": [[True, 100]]}
    [[job]] = master.last.jobs
    assert (job.OP_ID, job.group_name, job.is_strict) == ("OP_GROUP_VERIFY_DISKS", "default", False)
    assert len(master.Run(opcodes.OpClusterVerifyDisks(group_name="default"))["jobs"]) == 1
    with pytest.raises(errors.OpPrereqError, match="nowhere"):
        master.Run(opcodes.OpClusterVerifyDisks(group_name="nowhere"))
    web = master.Instance(WEB)
    master.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert WEB not in [instance.name for instance in master.snapshot.instances.values()] and web.disks
    assert master.Run(opcodes.OpClusterVerifyDisks()) == {"jobs": []}


def test_sizes_are_corrected_by_the_devices(master: Master) -> None:
    assert master.Run(opcodes.OpClusterRepairDiskSizes()) == []
    disk = master.snapshot.InstanceDisks(master.Instance(WEB))[0]
    data = disk.children[0]
    master[0].Resize(NameOf(data), disk.size + 24)
    serial = master.snapshot.serial_no
    assert master.Run(opcodes.OpClusterRepairDiskSizes(instances=["web"])) == [[WEB, 0, "size", disk.size + 24]]
    fresh = master.snapshot.disks[disk.uuid]
    assert (fresh.size, fresh.children[0].size) == (disk.size + 24, disk.size + 24)
    assert fresh.children[1].size == disk.children[1].size
    assert any("recorded were" in text for text in master.last.messages)
    assert master.snapshot.serial_no == serial + 1
    assert master.Run(opcodes.OpClusterRepairDiskSizes()) == []


def test_a_mirror_larger_than_its_data_is_corrected_as_well(master: Master) -> None:
    disk = master.snapshot.InstanceDisks(master.Instance(WEB))[0]
    data, meta = disk.children
    master.cfg.Update(disk.Replace(children=(data.Replace(size=100), meta)))
    assert master.Run(opcodes.OpClusterRepairDiskSizes()) == [[WEB, 0, "size", disk.size]]
    assert master.snapshot.disks[disk.uuid].children[0].size == disk.size


def test_sizes_nobody_tells_stay_as_they_are(master: Master) -> None:
    master[0].faults["blockdev_getdimensions"] = "no idea"
    assert master.Run(opcodes.OpClusterRepairDiskSizes()) == []
    assert any("no idea" in text for text in master.last.messages)
    with pytest.raises(errors.OpPrereqError, match="nobody"):
        master.Run(opcodes.OpClusterRepairDiskSizes(instances=["nobody"]))


@pytest.mark.req("D21-REPAIR-10")
def test_every_primary_instance_of_a_node_gets_a_migration(master: Master) -> None:
    result = master.Run(opcodes.OpNodeMigrate(node_name="node1", mode="live", ignore_ipolicy=True))
    assert result == {"jobs": [[True, 100]]}
    [[job]] = master.last.jobs
    assert (job.OP_ID, job.instance_name, job.mode, job.ignore_ipolicy) == ("OP_INSTANCE_MIGRATE", WEB, "live", True)
    env = next(env for path, _, env in master[0].hook_runs if path == "node-migrate")
    assert (env["GANETI_NODE_NAME"], env["GANETI_ALLOW_RUNTIME_CHANGES"]) == ("node1.example.org", "True")
    assert master.Run(opcodes.OpNodeMigrate(node_name="node2")) == {"jobs": []}
    with pytest.raises(errors.OpPrereqError, match="cannot be migrated to itself"):
        master.Run(opcodes.OpNodeMigrate(node_name="node1", target_node="node1"))
    with pytest.raises(errors.OpPrereqError, match="Only one of"):
        master.Run(opcodes.OpNodeMigrate(node_name="node1", mode="live", live=True))
    with pytest.raises(errors.OpPrereqError, match="Do not specify both"):
        master.Run(opcodes.OpNodeMigrate(node_name="node1", target_node="node2", iallocator="hail"))


def _Hang(master: Master, number: int, *procedures: str) -> None:
    """Have a node answer these calls when nobody waits for the answer anymore."""

    def sleep(name: str, _args: object) -> None:
        if name in procedures:
            runtime.Sleep(7200)

    master[number].before = sleep


def test_a_node_that_hangs_does_not_keep_the_locks_of_all_for_long(master: Master) -> None:
    _Hang(master, 1, "lv_list", "drbd_needs_activation")
    began = runtime.Monotonic()
    bad_nodes, _, missing = master.Run(opcodes.OpGroupVerifyDisks(group_name="default"))
    assert missing == {} and "time" in bad_nodes[master.nodes[1]] and runtime.Monotonic() - began < 35, bad_nodes
    assert "drbd_needs_activation" not in master[1].calls and "drbd_needs_activation" in master[0].calls


def test_a_verification_of_all_gives_up_a_node_that_hangs(master: Master) -> None:
    _Hang(master, 1, "node_verify", "all_instances_info", "blockdev_getmirrorstatus_multi", "lv_list", "drbd_views")
    began = runtime.Monotonic()
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    assert any("node node2.example.org: while contacting node" in text for text in master.last.messages)
    assert runtime.Monotonic() - began < 300
    # Of a node on which calls hang already nobody expects much.
    master[1].answers["node_long_calls"] = [["lv_list", 90.0, True, "lvs, process 7"]]
    began = runtime.Monotonic()
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    assert runtime.Monotonic() - began < 90


def test_many_calls_under_the_same_locks_have_an_end_together(master: Master) -> None:
    _Hang(master, 1, "lv_list")
    nodes = [master.nodes[1]]
    began = runtime.Monotonic()
    with master.context.rpc.Within(30, 40):
        for _ in range(5):
            assert master.context.rpc.call_lv_list(nodes, [])[nodes[0]].fail_msg
    assert runtime.Monotonic() - began < 42
    began = runtime.Monotonic()
    assert master.context.rpc.call_lv_list(nodes, [])[nodes[0]].fail_msg
    assert runtime.Monotonic() - began > 50, "later calls have their own time again"
