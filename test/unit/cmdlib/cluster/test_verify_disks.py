"""Disks that should be there and active, and their sizes."""

from __future__ import annotations

import pytest
from support.machine import Device, Identity
from support.master import Master

from ganeti import errors, opcodes

WEB = "web.example.org"


def _Verify(master: Master, **options: bool) -> tuple[dict[str, str], list[str], dict[str, list[list[str]]]]:
    bad, sleeping, missing = master.Run(opcodes.OpGroupVerifyDisks(group_name="default", **options))
    return bad, sleeping, missing


def _Devices(master: Master, number: int, kind: str) -> dict[str, Device]:
    return {key: device for key, device in master[number].devices.items() if key.startswith(kind)}


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


def test_all_is_well(master: Master) -> None:
    assert _Verify(master) == ({}, [], {})
    assert _Verify(master, is_strict=False) == ({}, [], {})
    assert [machine.calls.count("lv_list") for machine in master.machines.values()] == [2, 2]


def test_volumes_that_are_gone_or_asleep(master: Master) -> None:
    volumes = _Devices(master, 1, "plain:")
    gone, asleep = sorted(volumes)
    volumes[asleep].assembled = False
    assert _Verify(master) == ({}, [WEB], {})
    del master[1].devices[gone]
    assert _Verify(master) == ({}, [WEB], {WEB: [[master.nodes[1], gone.removeprefix("plain:")]]})
    # Those of an instance that does not use its disks are nobody's business.
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    assert _Verify(master) == ({}, [], {})


def test_mirrors_that_must_be_assembled_again(master: Master) -> None:
    (mirror,) = _Devices(master, 0, "drbd:").values()
    mirror.local = False
    assert _Verify(master) == ({}, [WEB], {})


def test_nodes_that_cannot_tell(master: Master) -> None:
    master[1].faults["lv_list"] = "lvm is broken"
    bad, sleeping, missing = _Verify(master)
    assert bad == {master.nodes[1]: "lvm is broken"} and sleeping == []
    assert {node for node, _ in missing[WEB]} == {master.nodes[1]}
    master[1].faults["drbd_needs_activation"] = "drbd is broken too"
    assert _Verify(master)[0] == {master.nodes[1]: "lvm is broken"}
    # Of a node that is off nothing is known, and nothing is said.
    master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(offline=True))
    assert _Verify(master) == ({}, [], {})


def test_sizes_are_corrected_by_the_devices(master: Master) -> None:
    assert master.Run(opcodes.OpClusterRepairDiskSizes()) == []
    disk = master.snapshot.InstanceDisks(master.Instance(WEB))[0]
    master[0].devices[Identity(disk.ToDict())].size = disk.size + 24
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
    with pytest.raises(errors.OpPrereqError, match="'hail' cannot be run"):
        master.Run(opcodes.OpNodeMigrate(node_name="node1", iallocator="hail"))
