"""Disks that should be there and active, and their sizes."""

from __future__ import annotations

import pytest
from support.master import Master
from support.simnode import NameOf

from ganeti import errors, opcodes

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
