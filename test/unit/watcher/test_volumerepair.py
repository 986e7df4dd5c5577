"""A disk goes away: what the watcher reports and repairs, with the real master over simulated nodes with LVM and DRBD."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import configs
from support.master import Master
from support.sidejobs import Held, SideJob
from support.volumewatch import DB, MINUTE, PERMIT, WEB, Cluster

from ganeti import constants, errors, objects, opcodes, pathutils, runtime, watchedgroups, watcherpause
from ganeti.server import metering
from ganeti.watcher import state

NODE2 = "Node node2.example.org, volume group xenvg: "


def _Empty(root: objects.Snapshot) -> objects.Snapshot:
    return root.Replace(instances={}, disks={})


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What the watcher logged about volume groups since the last call, with its level."""
    caplog.set_level(logging.INFO)

    def take() -> list[str]:
        found = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
        caplog.clear()
        return [line.replace(NODE2, "") for line in found if "volume group" in line]

    yield take


Said = Callable[[], list[str]]


@pytest.mark.req("D20-DISK-14", "D20-DISK-15", "D20-DISK-16", "D20-DISK-17")
def test_a_group_is_repaired_and_its_mirrors_are_made_again(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Look()
    assert cluster.States() == dict.fromkeys([f"node{number}.example.org" for number in (1, 2, 3)], "good")
    node = three.snapshot.nodes[three.nodes[1]]
    before = f"{node.uuid}-{node.serial_no}"
    cluster.Disk(1, missing=True)
    cluster.Look()
    assert said() == [
        "WARNING physical volumes uuid-of-sda are missing; if the disk is lost,"
        " 'gnt-node repair-storage node2.example.org lvm-vg xenvg' repairs the group"
    ]
    cluster.Watch(25)
    assert said() == [] and "vgreduce" not in [argv[0] for argv in three[1].lvm.runs]
    cluster.Watch(5)
    [repair] = cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")
    [maker] = cluster.jobs.Of("OP_INSTANCE_REPLACE_DISKS")
    # The volumes of the other instance lie on the disk that is left.
    assert said()[0] == f"WARNING it is repaired by job {repair}; then mirrors are made again of {WEB} (job {maker})"
    op = cluster.jobs.Op(repair)
    assert (op["node_name"], op["name"], op["missing"]) == ("node2.example.org", "xenvg", ["uuid-of-sda"])
    assert op["if_match"] == before and not op["ignore_consistency"]
    op = cluster.jobs.Op(maker)
    assert (op["instance_name"], op["mode"], op["disks"]) == (WEB, "replace_on_secondary", [0])
    assert op["depends"] == [[repair, ["success"]]] and op["priority"] == constants.OP_PRIO_LOW
    assert op["if_match"].startswith(three.Instance(WEB).uuid) and op["if_primary"] == "node1.example.org"
    assert [cluster.jobs.Status(job_id) for job_id in (repair, maker)] == ["success"] * 2
    assert list(three[1].lvm.pvs) == ["/dev/sdb"] and len(three[1].lvm.Volumes()) == 4
    said()
    cluster.Watch(5)
    assert said() == [f"INFO job {repair} has repaired it"]
    assert cluster.States()["node2.example.org"] == "good"
    three.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    assert not [text for text in three.last.messages if "ERROR" in text and ("volume" in text or "degraded" in text)]


def test_mirrors_let_go_of_lost_volumes_before_these_are_removed(three: Master) -> None:
    """LVM removes no volume that a mirror has open; a secondary that gave up its volumes does not count any more."""
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    seen = []

    def note(name: str, _args: Any) -> None:
        if name in ("blockdev_removechildren", "storage_execute"):
            root = three.snapshot
            [disk] = root.InstanceDisks(three.Instance(WEB))
            seen.append((name, (disk.behind or {}).get("node"), cluster.mirrors[1].Minor(0).disk))

    three[1].before = note
    three.Run(opcodes.OpRepairNodeStorage(node_name="node2", storage_type="lvm-vg", name="xenvg"))
    node2 = three.nodes[1]
    # The other instance has its volumes on the disk that is left.
    assert seen == [("blockdev_removechildren", node2, "UpToDate"), ("storage_execute", node2, "Diskless")]
    assert list(three[1].lvm.pvs) == ["/dev/sdb"]
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    assert cluster.mirrors[1].Minor(0).disk == "UpToDate"


def test_a_mirror_that_does_not_let_go_leaves_the_group_as_it_is(three: Master) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    three[1].faults["blockdev_removechildren"] = "DRBD hangs"
    with pytest.raises(errors.OpExecError, match=rf"left as it is: disk/0 of instance {WEB} .*: DRBD hangs"):
        three.Run(opcodes.OpRepairNodeStorage(node_name="node2", storage_type="lvm-vg", name="xenvg"))
    assert "storage_execute" not in three[1].calls


def test_mirrors_that_came_while_the_repair_waited_for_the_node(three: Master) -> None:
    """Their instances are not locked by the job."""
    Cluster(three)
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    held = Held(three, 2, "blockdev_create")
    move = SideJob(
        three, opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3")
    )
    held.Begun()
    repair = SideJob(three, opcodes.OpRepairNodeStorage(node_name="node3", storage_type="lvm-vg", name="xenvg"), 901)
    while not any(row.pending for row in three.glm.QueryLocks()):
        runtime.Sleep(0.1)
    held.Go()
    move.Result()
    with pytest.raises(errors.OpPrereqError, match=rf"xenvg.*mirrors of {WEB} were put there since"):
        repair.Result()
    assert "storage_execute" not in three[2].calls


def test_the_primary_side_too(three: Master) -> None:
    cluster = Cluster(three)
    cluster.Disk(0, missing=True)
    cluster.Watch(40)
    [maker] = cluster.jobs.Of("OP_INSTANCE_REPLACE_DISKS")
    op = cluster.jobs.Op(maker)
    assert (op["instance_name"], op["mode"]) == (WEB, "replace_on_primary")
    assert cluster.jobs.Status(maker) == "success", cluster.jobs.Result(maker)


def test_a_disk_that_comes_back_in_time(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Look()
    cluster.Disk(1, missing=True)
    cluster.Watch(30)
    said()
    cluster.Disk(1, missing=False)
    cluster.Watch(5)
    assert said() == ["INFO it is complete again: the disk came back, or somebody has repaired the group"]
    cluster.Disk(1, missing=True)
    cluster.Watch(30)
    assert cluster.jobs.Of("OP_REPAIR_NODE_STORAGE") == []
    cluster.Disk(1, missing=True, name="/dev/sdb")
    cluster.Watch(30)
    assert cluster.jobs.Of("OP_REPAIR_NODE_STORAGE") == []


def test_a_disk_that_is_back_but_counts_as_missing_is_not_given_up(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    cluster.Change(1)
    cluster.Watch(25)
    cluster.Disk(1, missing=False)
    said()
    cluster.Watch(60)
    assert said() == [
        "WARNING /dev/sda is there again but counts as missing, as the group was changed meanwhile;"
        " 'vgextend --restoremissing xenvg /dev/sda' on the node takes it back"
    ]
    assert cluster.States()["node2.example.org"] == "returned" and not cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")
    three[1].Call(runtime.RunCmd, ["vgextend", "--restoremissing", "xenvg", "/dev/sda"])
    cluster.Watch(5)
    assert cluster.States()["node2.example.org"] == "good"


def test_the_path_of_a_disk_that_is_back_is_one_word_of_the_command_that_takes_it_back(
    three: Master, said: Said
) -> None:
    path = "/dev/mapper/shelf 1; disk 2"
    three[1].lvm.AddPv(path, "xenvg", 65536)
    cluster = Cluster(three)
    for name in (path, "/dev/sda"):
        cluster.Disk(1, missing=True, name=name)
    cluster.Change(1)
    cluster.Watch(10)
    for name in (path, "/dev/sda"):
        cluster.Disk(1, missing=False, name=name)
    said()
    cluster.Watch(10)
    [text] = said()
    command = re.search(r"'(vgextend .*)' on the node takes it back", text)
    assert command is not None, text
    three[1].Call(runtime.RunCmd, shlex.split(command[1]))
    cluster.Watch(5)
    assert cluster.States()["node2.example.org"] == "good"


def test_a_disk_that_is_back_before_the_repair_begins_is_not_given_up(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    cluster.Change(1)
    for _ in range(8):
        runtime.Sleep(5 * MINUTE)
        cluster.Look(work=False)
    cluster.Disk(1, missing=False)
    cluster.Watch(5)
    said()
    cluster.Watch(5)
    [line] = [line for line in said() if "changed nothing" in line]
    assert "/dev/sda is there again but counts as missing" in line
    assert cluster.States()["node2.example.org"] == "returned" and three[1].lvm.Count("vgreduce") == 0


def _NotWanted(cluster: Cluster) -> None:
    cluster.options = []


def _NoTag(cluster: Cluster) -> None:
    tags = [PERMIT]
    cluster.master.Run(opcodes.OpTagsDel(kind="instance", name=WEB, tags=tags))


def _Suspended(cluster: Cluster) -> None:
    _NoTag(cluster)
    cluster.master.Run(opcodes.OpTagsSet(kind="cluster", tags=["ganeti:watcher:autorepair:suspend"]))


def _Failed(cluster: Cluster) -> None:
    tag = "ganeti:watcher:autorepair:result:fix-storage:id1:900000:failure:1"
    cluster.master.Run(opcodes.OpTagsSet(kind="instance", name=WEB, tags=[tag]))


def _SecondNode(cluster: Cluster) -> None:
    cluster.Disk(2, missing=True)


def _GoneElsewhere(cluster: Cluster) -> None:
    """The third node comes up without its enclosure, but with the disk of its system."""
    cluster.Look()
    lvm = cluster.master[2].lvm
    lvm.AddPv("/dev/sdy", "system", 1024)
    cluster.master[2].faults["storage_list"] = "LVM cannot be asked"
    cluster.Look()
    cluster.master[2].faults.clear()
    lvm.lvs.clear()
    for name in ("/dev/sda", "/dev/sdb"):
        del lvm.pvs[name]


def _SilentVolumes(cluster: Cluster) -> None:
    cluster.master[1].faults["node_volumes"] = "LVM cannot be asked"


def _Silent(cluster: Cluster) -> None:
    cluster.master[2].faults["storage_list"] = "LVM cannot be asked"


def _Paused(cluster: Cluster) -> None:
    watcherpause.Write(runtime.Time() + 7200)


def _Busy(cluster: Cluster) -> None:
    cluster.jobs.locks = [[f"instance/{DB}", "exclusive", ["job7"], []]]


def _JobOnNode(cluster: Cluster) -> None:
    cluster.jobs.SubmitManyJobs([[opcodes.OpTestDelay(duration=1.0, on_nodes=["node2"], on_master=False)]])


@pytest.mark.req("D20-DISK-15")
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_NotWanted, "ganeti-watcher runs without --repair-volume-groups"),
        (_NoTag, f"instance {WEB}: no tag {PERMIT} permits it"),
        (_Suspended, f"instance {WEB}: repairs are suspended by a tag"),
        (_Failed, f"instance {WEB}: its tags say 'Failure'"),
        (_SecondNode, "node node3.example.org has a volume group with missing physical volumes too"),
        (_Silent, "how the volume groups of node node3.example.org are is not known"),
        (_GoneElsewhere, "node node3.example.org has lost volume group xenvg"),
        (_SilentVolumes, "its instances and volumes could not be looked at"),
        (_Paused, "the watcher is paused"),
        (_Busy, f"instance {DB}: it is locked by job7"),
        (_JobOnNode, "job 1 acts on the node"),
    ],
)
def test_what_keeps_it_from_a_repair(three: Master, said: Said, spoil: Callable[[Cluster], None], why: str) -> None:
    cluster = Cluster(three)
    spoil(cluster)
    cluster.Disk(1, missing=True)
    for _ in range(8):
        runtime.Sleep(5 * MINUTE)
        cluster.Look(work=False)
    assert f"WARNING it is not repaired: {why}" in said()
    assert not cluster.jobs.Of("OP_REPAIR_NODE_STORAGE") and three[1].lvm.Count("vgreduce") == 0


def test_a_group_without_volumes_of_instances_is_the_administrators(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    three[1].lvm.AddPv("/dev/sdy", "system", 1024)
    three[1].lvm.AddPv("/dev/sdz", "system", 1024)
    cluster.Disk(1, missing=True, name="/dev/sdz")
    cluster.Watch(40)
    line = "WARNING Node node2.example.org, volume group system: it is not repaired: no instance has a volume in it"
    assert line in said() and three[1].lvm.Count("vgreduce") == 0


@pytest.mark.parametrize("how", ["plain", "other copy", "stranger"])
def test_the_unit_itself_says_no(three: Master, said: Said, how: str) -> None:
    """It looks under its locks; nothing was changed, so the watcher begins anew."""
    cluster = Cluster(three)
    if how == "plain":
        three.Run(_Plain("node2"))
    elif how == "other copy":
        cluster.mirrors[0].broken.clear()
        device = next(iter(cluster.mirrors[0].devices.values()))
        device.disk = "Inconsistent"
        cluster.links.Publish()
    else:
        three[1].Call(runtime.RunCmd, ["lvcreate", "-Wn", "-L100m", "-nroot", "-i1", "xenvg", "/dev/sda"])
    cluster.Disk(1, missing=True)
    cluster.Watch(35)
    [repair] = cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")
    assert cluster.jobs.Status(repair) == "error"
    assert {cluster.jobs.Status(job) for job in cluster.jobs.Of("OP_INSTANCE_REPLACE_DISKS")} == {"error"}
    said()
    cluster.Watch(5)
    assert [line for line in said() if f"WARNING its repair, job {repair}, changed nothing: " in line]
    cluster.Watch(25)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1
    cluster.Watch(5)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 2 and three[1].lvm.Count("vgreduce") == 0


def test_a_copy_on_a_disk_that_is_away_is_not_good(three: Master) -> None:
    """The mirror itself calls it so until it touches the disk."""
    cluster = Cluster(three)
    for node in (0, 1):
        cluster.Disk(node, missing=True)
    op = opcodes.OpRepairNodeStorage(node_name="node2", storage_type="lvm-vg", name="xenvg")
    with pytest.raises(
        errors.OpPrereqError, match=f"the copy of disk/0 of {WEB} on node node1.example.org is not good"
    ):
        three.Run(op)


def _Plain(node: str) -> opcodes.OpCode:
    from support.creation import OnDisks

    return OnDisks("plain.example.org", {"size": 128}, pnode=node, disk_template="plain", start=True, tags=[PERMIT])


@pytest.mark.req("D20-DISK-16")
def test_a_repair_that_fails_is_reported_once_a_day_and_not_repeated(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    three[1].faults["storage_execute"] = "vgreduce failed"
    cluster.Disk(1, missing=True)
    cluster.Watch(40)
    failures = [line for line in said() if line.startswith("ERROR")]
    [repair] = cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")
    assert (
        len(failures) == 1 and f"its repair, job {repair}, failed: " in failures[0] and "vgreduce failed" in failures[0]
    )
    assert "'gnt-node repair-storage node2.example.org lvm-vg xenvg' repairs the group" in failures[0]
    assert {cluster.jobs.Status(job) for job in cluster.jobs.Of("OP_INSTANCE_REPLACE_DISKS")} == {"error"}
    three[1].faults.clear()
    cluster.Watch(23 * 60, every=60)
    assert said() == [] and cluster.States()["node2.example.org"] == "failed"
    cluster.Watch(65)
    assert len([line for line in said() if line.startswith("ERROR its repair")]) == 1
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1
    cluster.Disk(1, missing=False)
    cluster.Watch(5)
    assert cluster.States()["node2.example.org"] == "good"


def _RepairByHand(three: Master) -> None:
    for argv in ("drbdsetup detach 0", "vgreduce --removemissing --force xenvg"):
        assert not three[1].Call(runtime.RunCmd, argv.split()).failed


def test_a_repair_that_fails_when_the_group_is_complete_leaves_mirrors_to_make(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    repair = _Waiting(cluster)
    _RepairByHand(three)
    cluster.jobs._End(repair, "error", [errors.EncodeException(errors.OpExecError("the connection was lost"))])
    said()
    cluster.Watch(5)
    [line] = [line for line in said() if line.startswith("ERROR")]
    assert (
        f"its repair, job {repair}, failed: the connection was lost; mirrors that lost volumes were not made again"
        in line
    )
    assert "'gnt-instance replace-disks -a INSTANCE'" in line and cluster.States()["node2.example.org"] == "good"


def test_a_job_that_waits_is_neither_repeated_nor_kept_when_the_disk_is_back(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    for _ in range(12):
        runtime.Sleep(5 * MINUTE)
        cluster.Look(work=False)
    [repair] = cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")
    assert cluster.jobs.Status(repair) == "queued" and cluster.States()["node2.example.org"] == "repairing"
    said()
    cluster.Disk(1, missing=False)
    cluster.Look(work=False)
    assert said() == [f"INFO it is complete again, so its repair, job {repair}, was canceled before it began"]
    assert cluster.jobs.Status(repair) == "canceled" and cluster.States()["node2.example.org"] == "good"
    cluster.jobs.Work()
    assert {cluster.jobs.Status(job) for job in cluster.jobs.Of("OP_INSTANCE_REPLACE_DISKS")} == {"canceled"}
    assert three[1].lvm.Count("vgreduce") == 0


def _Waiting(cluster: Cluster) -> int:
    """Have a repair submitted that waits for its turn."""
    cluster.Disk(1, missing=True)
    for _ in range(8):
        runtime.Sleep(5 * MINUTE)
        cluster.Look(work=False)
    [repair] = cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")
    return repair


def test_a_repair_that_somebody_cancels_has_changed_nothing(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    repair = _Waiting(cluster)
    assert cluster.jobs.CancelJob(repair)[0]
    said()
    cluster.Watch(5)
    assert said() == [f"WARNING its repair, job {repair}, changed nothing: it was canceled"]
    assert cluster.States()["node2.example.org"] == "bad"
    cluster.Watch(30)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 2, "the node was not repaired within a day"


def test_a_repair_that_the_queue_does_not_take_is_submitted_later(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    cluster.Watch(25)
    submit = cluster.jobs.SubmitManyJobs

    def reject(jobs: Any) -> Any:
        if len(jobs) > 1:
            raise errors.JobQueueDrainError("Job queue is drained, refusing job")
        return submit(jobs)

    cluster.jobs.SubmitManyJobs = reject  # type: ignore[method-assign]
    with pytest.raises(errors.JobQueueDrainError):
        cluster.Watch(15)
    assert cluster.States()["node2.example.org"] == "bad"
    cluster.jobs.SubmitManyJobs = submit  # type: ignore[method-assign]
    cluster.Watch(10)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1
    assert cluster.States()["node2.example.org"] == "good"


def test_a_repair_that_ends_while_the_nodes_are_asked_is_not_one_without_effect(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    _Waiting(cluster)
    submit = cluster.jobs.SubmitJob

    def work_afterwards(ops: Any) -> int:
        found = submit(ops)
        cluster.jobs.Work()
        return found

    cluster.jobs.SubmitJob = work_afterwards  # type: ignore[method-assign]
    cluster.Watch(5)
    assert cluster.States()["node2.example.org"] == "repairing"
    cluster.Watch(5)
    assert cluster.States()["node2.example.org"] == "good"


# --- another master -----------------------------------------------------------------------------------------------------


def _Records(master: Master) -> list[watchedgroups.Repair]:
    return list(watchedgroups.Repairs(master.snapshot.nodes[master.nodes[1]].tags).values())


def _NewMaster(cluster: Cluster) -> None:
    """Another node is the master: its watcher has seen nothing yet."""
    runtime.RemoveFile(pathutils.WatcherStateFile(configs.GROUP))


@pytest.mark.req("D20-DISK-15")
def test_the_next_master_knows_of_a_repair(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    three[1].lvm.AddPv("/dev/sdc", "xenvg", 65536)
    cluster.Disk(1, missing=True)
    cluster.Watch(45)
    cluster.links.Finish()
    [record] = _Records(three)
    assert (record.state, record.group) == ("done", "xenvg") and runtime.Time() - record.time < 30 * MINUTE
    _NewMaster(cluster)
    cluster.Disk(1, missing=True, name="/dev/sdb")
    said()
    cluster.Watch(60)
    assert "WARNING it is not repaired: a volume group of this node was repaired within the last 24 hours" in said()
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1


def test_the_next_master_does_not_repeat_a_repair_that_failed(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    _Waiting(cluster)
    three[1].faults["storage_execute"] = "vgreduce failed"
    cluster.jobs.Work()
    assert [record.state for record in _Records(three)] == ["failed"]
    _NewMaster(cluster)
    said()
    cluster.Watch(60)
    [line] = said()
    assert line.startswith("ERROR its repair, job ") and "physical volumes uuid-of-sda are missing" in line
    runtime.Sleep(48 * 60 * MINUTE)
    _NewMaster(cluster)
    cluster.Watch(60)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1, (
        "a failure is not forgotten before somebody has repaired it"
    )
    # Somebody does, on the node itself.
    three[1].faults.clear()
    three[1].Call(runtime.RunCmd, ["vgreduce", "--removemissing", "--force", "xenvg"])
    cluster.Watch(10)
    assert [record.state for record in _Records(three)] == ["done"]
    assert cluster.States()["node2.example.org"] == "good"


def test_a_repair_that_was_cut_off_with_its_master_leaves_mirrors_to_make(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    repair = _Waiting(cluster)
    _RepairByHand(three)
    cluster.jobs._End(repair, "error", [errors.EncodeException(errors.OpExecError("the master was restarted"))])
    pending = watchedgroups.Repair("pending", int(runtime.Time()), repair, "xenvg")
    three.cfg.AddTags("node", three.nodes[1], [pending.tag])
    _NewMaster(cluster)
    said()
    cluster.Watch(10)
    [line] = [line for line in said() if line.startswith("ERROR")]
    assert (
        f"its repair, job {repair}, failed: the master was restarted; mirrors that lost volumes were not made" in line
    )
    assert [record.state for record in _Records(three)] == ["done"]


def test_a_repair_by_a_person_ends_what_the_tags_said(three: Master) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    failed, other = (watchedgroups.Repair("failed", 5, 1, group) for group in ("xenvg", "data"))
    three.cfg.AddTags("node", three.nodes[1], [failed.tag, other.tag, "rack:2"])
    op = opcodes.OpRepairNodeStorage(node_name="node2.example.org", storage_type="lvm-vg", name="xenvg")
    three.Run(op)
    assert sorted(three.snapshot.nodes[three.nodes[1]].tags) == [other.tag, "rack:2"]


def test_what_this_watcher_saw_since_counts_for_more_than_the_record(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    stale = watchedgroups.Repair("failed", int(runtime.Time()) - 60, 77, "xenvg")
    cluster.Look()
    three.cfg.AddTags("node", three.nodes[1], [stale.tag])
    cluster.Disk(1, missing=True)
    said()
    cluster.Look()
    assert said()[0].startswith("WARNING physical volumes uuid-of-sda are missing")
    assert cluster.States()["node2.example.org"] == "bad"


def _Restarted(cluster: Cluster) -> None:
    cluster.master[1].Call(runtime.WriteFile, "/proc/sys/kernel/random/boot_id", "another\n")


@pytest.mark.req("D20-DISK-15")
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_NotWanted, "ganeti-watcher runs without --repair-volume-groups"),
        (_NoTag, f"instance {WEB}: no tag {PERMIT} permits it"),
        (_Suspended, f"instance {WEB}: repairs are suspended by a tag"),
        (_SecondNode, "node node3.example.org has a volume group with missing physical volumes too"),
        (_Restarted, "the node was restarted"),
    ],
)
def test_what_keeps_a_repair_that_waits_from_beginning(
    three: Master, said: Said, spoil: Callable[[Cluster], None], why: str
) -> None:
    cluster = Cluster(three)
    repair = _Waiting(cluster)
    cluster.Look(work=False)
    assert cluster.jobs.Status(repair) == "queued"
    spoil(cluster)
    cluster.Watch(5)
    assert f"WARNING its repair, job {repair}, was canceled before it began: {why}" in said()
    assert cluster.jobs.Status(repair) == "canceled" and cluster.States()["node2.example.org"] == "bad"
    assert three[1].lvm.Count("vgreduce") == 0


def test_a_second_disk_on_the_same_day(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    three[1].lvm.AddPv("/dev/sdc", "xenvg", 65536)
    cluster.Disk(1, missing=True)
    cluster.Watch(45)
    cluster.links.Finish()
    cluster.Disk(1, missing=True, name="/dev/sdb")
    cluster.Watch(45)
    assert "WARNING it is not repaired: a volume group of this node was repaired within the last 24 hours" in said()
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1
    runtime.Sleep(21 * 60 * MINUTE)
    cluster.Watch(45)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1, "the last hours count too"
    runtime.Sleep(2 * 60 * MINUTE)
    cluster.Watch(45)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 2


def test_a_run_that_is_cut_off_while_it_submits_leads_to_no_second_repair(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    cluster.Watch(25)
    submit = cluster.jobs.SubmitManyJobs

    class Ended(Exception):
        pass

    def end(jobs: Any) -> Any:
        submit(jobs)
        if len(jobs) > 1:
            raise Ended
        return [[True, len(cluster.jobs.jobs)]]

    cluster.jobs.SubmitManyJobs = end  # type: ignore[method-assign]
    with pytest.raises(Ended):
        cluster.Watch(20)
    cluster.jobs.SubmitManyJobs = submit  # type: ignore[method-assign]
    assert cluster.States()["node2.example.org"] == "repairing"
    cluster.Watch(60)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1


def test_an_instance_whose_primary_node_is_in_another_group_counts(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    _NoTag(cluster)
    three.Run(opcodes.OpGroupAdd(group_name="far"))
    three.Run(opcodes.OpGroupAssignNodes(group_name="far", nodes=["node1"], force=True))
    cluster.Disk(1, missing=True)
    cluster.Watch(40)
    assert f"WARNING it is not repaired: instance {WEB}: no tag {PERMIT} permits it" in said()
    assert three[1].lvm.Count("vgreduce") == 0
    three.Run(opcodes.OpTagsSet(kind="nodegroup", name="far", tags=[PERMIT]))
    cluster.Watch(10)
    assert three[1].lvm.Count("vgreduce") > 0


def test_a_node_that_is_held_or_restarted_begins_anew(three: Master, said: Said) -> None:
    cluster = Cluster(three)
    cluster.Disk(1, missing=True)
    cluster.Watch(25)
    cluster.jobs.locks = [[f"node/{three.nodes[1]}", "exclusive", ["job7"], []]]
    calls = three[1].calls.count("storage_list")
    cluster.Watch(5)
    assert three[1].calls.count("storage_list") == calls, "the question would wait for the job"
    cluster.jobs.locks = []
    cluster.Watch(30)
    three[1].Call(runtime.WriteFile, "/proc/sys/kernel/random/boot_id", "another\n")
    cluster.Watch(30)
    assert cluster.jobs.Of("OP_REPAIR_NODE_STORAGE") == []
    cluster.Watch(5)
    assert len(cluster.jobs.Of("OP_REPAIR_NODE_STORAGE")) == 1


def test_a_look_that_does_not_end_is_given_up(three: Master) -> None:
    cluster = Cluster(three)
    cluster.jobs.stuck = "queued"
    cluster.Look(work=False)
    [look] = cluster.jobs.Of("OP_NODE_QUERY_STORAGE")
    assert cluster.jobs.Status(look) == "canceled" and cluster.States() == {}


def test_metrics_count_groups_by_state_and_only_while_somebody_looks(three: Master) -> None:
    cluster = Cluster(three, permitted=False)
    assert metering._VolumeGroups(three.snapshot) == {}
    cluster.Disk(1, missing=True)
    cluster.Look()
    counts = {"good": 2, "bad": 1, "returned": 0, "gone": 0, "repairing": 0, "failed": 0}
    assert metering._VolumeGroups(three.snapshot) == {(name,): count for name, count in counts.items()}
    path = pathutils.WatcherVolumeGroupsFile(configs.GROUP)
    assert runtime.ReadText(path, 1000).splitlines()[1] == "node2.example.org xenvg bad"
    assert runtime.Stat(path).st_mode & 0o777 == 0o644, "the master daemon may have a user of its own"
    three[0].faults["storage_list"] = "LVM cannot be asked"
    cluster.Look()
    assert metering._VolumeGroups(three.snapshot)[("good",)] == 1, "a node that does not answer is not good"
    runtime.Sleep(3700)
    assert metering._VolumeGroups(three.snapshot) == {}


def test_the_state_stays_locked_when_it_was_saved(three: Master) -> None:
    file = state.File(configs.GROUP)
    file.Save(state.State({"a": state.Tries(1, 1.0)}, {}))
    with pytest.raises(runtime.LockBusy):
        state.File(configs.GROUP)
    file.Close()
    state.File(configs.GROUP).Close()
