"""Instances that are reserved first and made later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Played
from support.master import Callbacks, Master
from support.moving import Ids, RunWithJobs
from support.sidejobs import Held, SideJob

from ganeti import errors, locking, mcpu, objects, opcodes, params, store
from ganeti.cmdlib.disk.reserved import IsBegun, MarkDisk
from ganeti.cmdlib.instance.create import LUInstanceCreate
from ganeti.cmdlib.instance.moving.migrate import LUInstanceFailover

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
    _CheckVerifies(three, before)
    three.Run(opcodes.OpInstanceRemove(instance_name=NEW))
    # Nor what an interrupted commit has left, or has not made yet.
    _Reserve(three, disk_template="plain", snode=None)
    _Interrupt(three)
    _CheckVerifies(three, before)
    [disk, *_] = three.snapshot.InstanceDisks(three.Instance(NEW))
    three.rpc.call_blockdev_remove(three.nodes[2], (disk, three.Instance(NEW))).Raise("it stays")
    _CheckVerifies(three, before)


def _CheckVerifies(three: Master, before: list[str]) -> None:
    three.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    assert [text for text in three.last.messages if "ERROR" in text or "WARNING" in text] == before
    assert three.Run(opcodes.OpGroupVerifyDisks(group_name="default")) == ({}, [], {})


def test_one_disk_that_was_begun_may_have_left_something(three: Master) -> None:
    _Reserve(three)
    assert not IsBegun(three.snapshot, three.Instance(NEW))
    first, _ = three.snapshot.InstanceDisks(three.Instance(NEW))
    three.cfg.Update(MarkDisk(first, False))
    assert IsBegun(three.snapshot, three.Instance(NEW))


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
    with pytest.raises(errors.OpPrereqError, match=r"changed while this job waited.*try again"):
        three.Run(op, units={op.OP_ID: Late})
    found: objects.Instance = three.Instance(NEW)
    assert found.forthcoming


def test_every_try_for_the_locks_takes_the_reservation_of_its_time(three: Master) -> None:
    """The queue hands the same opcode to each try; meanwhile the reservation is another one, on other nodes."""
    _Reserve(three, tags=["old"], nics=[{}])
    held = Held(three, 2, "test_delay")
    delay = SideJob(three, opcodes.OpTestDelay(duration=0, on_nodes=[three[2].name], on_master=False), 950)
    held.Begun()
    op = opcodes.OpCode.FromDict(_Commit(start=False).ToDict())
    with pytest.raises(errors.LockAcquireTimeout):
        mcpu.Processor(three.context, 960).ExecOpCode(op, Callbacks(), 2.0)
    held.Go()
    delay.Result()
    three.Run(opcodes.OpInstanceRemove(instance_name=NEW))
    _Reserve(three, tags=["fresh"], nics=[{}], pnode="node2", snode="node3", beparams={"maxmem": 2048, "minmem": 2048})
    assert mcpu.Processor(three.context, 960).ExecOpCode(op, Callbacks()) == [three[1].name, three[2].name]
    instance = three.Instance(NEW)
    assert (instance.forthcoming, instance.tags) == (None, ("fresh",))
    assert dict(instance.beparams) == {"maxmem": 2048, "minmem": 2048}


# --- commits that do not end as they should ---------------------------------------------------------------------------------


def _Volumes(master: Master) -> set[tuple[str, str]]:
    """Node and name of all volumes."""
    lists = master.rpc.call_lv_list(master.nodes, [])
    return {(uuid, name) for uuid, result in lists.items() for name in result.payload}


def _Wanted(master: Master) -> set[tuple[str, str]]:
    """Node and name of the volumes of the instance's disks."""
    disks = master.snapshot.InstanceDisks(master.Instance(NEW))
    return {(uuid, name) for disk in disks for uuid in disk.nodes for name in disk.VolumeNames()}


class _Ends(LUInstanceCreate):
    """Its master ends when the disks are there and nothing is stored yet."""

    def _AddToConfig(self, *args: Any) -> objects.Instance:
        raise store.MasterEnded("another master has taken over")


def _Interrupt(master: Master) -> None:
    op = _Commit(start=False)
    with pytest.raises(store.MasterEnded):
        master.Run(op, units={op.OP_ID: _Ends})


@pytest.mark.parametrize("values", [{}, {"disk_template": "plain", "snode": None}])
def test_an_interrupted_commit_can_be_repeated(three: Master, values: dict[str, Any]) -> None:
    before = _Volumes(three)
    _Reserve(three, **values)
    _Interrupt(three)
    assert three.Instance(NEW).forthcoming and _Volumes(three) - before == _Wanted(three)
    with pytest.raises(errors.OpPrereqError, match="only a reservation"):
        three.Run(opcodes.OpInstanceStartup(instance_name=NEW))
    three.Run(_Commit(start=False))
    instance = three.Instance(NEW)
    assert instance.forthcoming is None and instance.disks_active
    assert _Volumes(three) - before == _Wanted(three)


def test_what_an_interrupted_commit_left_goes_with_the_reservation(three: Master) -> None:
    before = _Volumes(three)
    _Reserve(three)
    _Interrupt(three)
    assert _Volumes(three) != before
    three.Run(opcodes.OpInstanceRemove(instance_name=NEW))
    assert _Volumes(three) == before


def test_what_an_interrupted_commit_left_does_not_move(three: Master) -> None:
    before = _Volumes(three)
    _Reserve(three)
    for op in (
        opcodes.OpInstanceReplaceDisks(instance_name=NEW, mode="replace_new_secondary", disks=[], remote_node="node2"),
        opcodes.OpInstanceFailover(instance_name=NEW),
    ):
        _Interrupt(three)
        assert _Volumes(three) != before
        three.Run(op)
        assert _Volumes(three) == before
    three.Run(_Commit())
    assert _Volumes(three) - before == _Wanted(three)


def test_volumes_of_others_stay(three: Master) -> None:
    """Volumes that have the names of the reserved disks: whoever made them, it was no commit."""
    _Reserve(three, disk_template="plain", snode=None)
    disks = three.snapshot.InstanceDisks(three.Instance(NEW))
    for disk in disks:
        made = disk.Replace(forthcoming=None)
        three.rpc.call_blockdev_create(
            three.nodes[2], (made, three.Instance("web")), disk.size, "web.example.org", True, "", False
        ).Raise("no volume")
    theirs = _Volumes(three)
    three.Run(_Commit(start=False))
    three.Run(opcodes.OpInstanceRemove(instance_name=NEW))
    assert _Volumes(three) == theirs


def test_leftovers_that_cannot_be_removed_are_reported(three: Master) -> None:
    before = _Volumes(three)
    _Reserve(three)
    _Interrupt(three)
    left = _Volumes(three)
    three[0].faults["blockdev_remove"] = "disk broken"
    with pytest.raises(errors.OpExecError, match="What an earlier commit has left") as caught:
        three.Run(_Commit())
    assert caught.value.hint == "repair the nodes that the log names, and try again"
    assert any(f"on node {three[0].name}" in text for text in three.last.messages)
    assert three.Instance(NEW).forthcoming and _Volumes(three) <= left
    del three[0].faults["blockdev_remove"]
    three.Run(_Commit())
    assert _Volumes(three) - before == _Wanted(three)


def test_disks_that_stay_degraded_leave_the_reservation(three: Master) -> None:
    """As disks that cannot be made."""
    before = _Volumes(three)
    _Reserve(three)
    reserved = three.Instance(NEW)
    three[2].faults["blockdev_getmirrorstatus"] = "no answer"
    with pytest.raises(errors.OpExecError):
        three.Run(_Commit(start=False, beparams={"maxmem": 1024}))
    again = three.Instance(NEW)
    assert again.Replace(serial_no=1, mtime=0, ctime=0) == reserved.Replace(serial_no=1, mtime=0, ctime=0)
    assert all(disk.forthcoming for disk in three.snapshot.InstanceDisks(again))
    assert _Volumes(three) == before
    assert (
        f" - INFO: Instance {NEW} is still reserved; 'gnt-instance add --commit {NEW}' tries again"
        in three.last.messages
    )
    del three[2].faults["blockdev_getmirrorstatus"]
    three.Run(_Commit())
    assert three.Instance(NEW).forthcoming is None


def test_a_commit_with_another_hypervisor(three: Master) -> None:
    """A port that it got stays with the reservation if it fails; the reserved parameters are none of the other hypervisor."""
    three.cfg.Update(three.snapshot.cluster.Replace(enabled_hypervisors=["fake", "kvm"]))
    _Reserve(three, hypervisor="fake")
    assert three.Instance(NEW).network_port is None
    three[2].faults["blockdev_getmirrorstatus"] = "no answer"
    with pytest.raises(errors.OpExecError):
        three.Run(_Commit(start=False, hypervisor="kvm"))
    port = three.Instance(NEW).network_port
    assert port is not None and three.Instance(NEW).hypervisor == "fake"
    del three[2].faults["blockdev_getmirrorstatus"]
    three.Run(_Commit(start=False, hypervisor="kvm"))
    made = three.Instance(NEW)
    assert (made.hypervisor, made.network_port) == ("kvm", port)
    three.Run(opcodes.OpInstanceRemove(instance_name=NEW))
    _Reserve(three, hypervisor="kvm", hvparams={"acpi": False})
    three.Run(_Commit(start=False, hypervisor="fake"))
    assert (three.Instance(NEW).hypervisor, dict(three.Instance(NEW).hvparams)) == ("fake", {})


# --- moving what is only reserved, and where it cannot be made --------------------------------------------------------------


def test_a_reservation_is_failed_over_to_its_secondary_node_alone(three: Master) -> None:
    _Reserve(three)
    three[0].AddAllocator("none", Played(lambda message: pytest.fail("nobody is asked")))
    first, third = three[0].name, three[2].name
    for values, match, code in (
        (
            {"iallocator": "none"},
            "secondary node alone, not to one that an allocator chooses",
            errors.ECODE_INVAL,
        ),
        ({"target_node": "node2"}, f"its secondary node {first}, not to {three[1].name}", errors.ECODE_INVAL),
        ({"target_node": "node3"}, f"{third} is the primary node of instance {NEW} already", errors.ECODE_STATE),
    ):
        with pytest.raises(errors.OpPrereqError, match=match) as caught:
            three.Run(opcodes.OpInstanceFailover(instance_name=NEW, **values))
        assert caught.value.args[1] == code
    three.Run(opcodes.OpInstanceFailover(instance_name=NEW, target_node="node1"))
    assert three.snapshot.AllNodes(three.Instance(NEW)) == (three.nodes[0], three.nodes[2])


def test_the_policy_holds_for_reservations(three: Master) -> None:
    _Reserve(three)
    [group] = three.snapshot.nodegroups.values()
    policy = {"minmax": [{**pair, "max": {**pair["max"], "memory-size": 256}} for pair in _MinMax(three)]}
    other = group.Replace(uuid="0000aaaa-0000-4000-8000-00000000000b", name="other", ipolicy=policy)
    three.cfg.Transact(lambda draft: draft.Add(other))
    three.cfg.Update(three.snapshot.nodes[three.nodes[0]].Replace(group=other.uuid))
    before = three.snapshot
    with pytest.raises(errors.OpPrereqError, match="violates the policy"):
        three.Run(opcodes.OpInstanceFailover(instance_name=NEW))
    assert three.snapshot is before
    three.Run(opcodes.OpInstanceFailover(instance_name=NEW, ignore_ipolicy=True))
    assert three.Instance(NEW).primary_node == three.nodes[0]


def _MinMax(master: Master) -> Any:
    return params.FillIPolicy(master.snapshot, next(iter(master.snapshot.nodegroups.values())))["minmax"]


_FLAGS = [
    ("node3", {"offline": True}, f"'gnt-instance failover {NEW}' makes node2"),
    ("node3", {"drained": True}, f"'gnt-instance failover {NEW}' makes node2"),
    ("node2", {"offline": True}, f"'gnt-instance replace-disks -n NODE {NEW}'"),
]


@pytest.mark.parametrize(("node", "flags", "hint"), _FLAGS)
def test_an_unusable_node_is_named_with_the_way_out(
    three: Master, node: str, flags: dict[str, bool], hint: str
) -> None:
    _Reserve(three, snode="node2")
    found = three.snapshot.ExpandName("node", node)
    three.cfg.Update(found.Replace(**flags))
    with pytest.raises(errors.OpPrereqError, match=rf"Instance '{NEW}' cannot be committed.* on node {node}") as caught:
        three.Run(_Commit())
    assert hint in str(caught.value.hint)
    # What it says works.
    if node == "node3":
        three.Run(opcodes.OpInstanceFailover(instance_name=NEW))
    three.Run(
        opcodes.OpInstanceReplaceDisks(instance_name=NEW, mode="replace_new_secondary", disks=[], remote_node="node1")
    )
    three.Run(_Commit())
    assert three.Instance(NEW).forthcoming is None


def _Overtake(three: Master, op: opcodes.OpCode, unit: type[Any], change: Callable[[], Any]) -> str:
    """Run an opcode; ``change`` happens when the nodes are to be locked.  Return the error."""

    class Late(unit):  # type: ignore[misc]
        def DeclareLocks(self, level: int) -> None:
            super().DeclareLocks(level)
            if level == locking.LEVEL_NODE:
                with three.Elsewhere():
                    change()

    with pytest.raises(errors.OpPrereqError) as caught:
        three.Run(op, units={op.OP_ID: Late})
    assert caught.value.args[1] == errors.ECODE_STATE
    return str(caught.value.args[0])


def test_what_was_committed_meanwhile_is_said(three: Master) -> None:
    """By another commit; there is nothing to try again."""
    _Reserve(three)

    def commit() -> None:
        disks = [MarkDisk(disk, False) for disk in three.snapshot.InstanceDisks(three.Instance(NEW))]
        three.cfg.AddInstance(three.Instance(NEW).Replace(forthcoming=None), 77, disks, replace=True)

    text = _Overtake(three, _Commit(), LUInstanceCreate, commit)
    assert text == f"Instance '{NEW}' was committed by another job while this one waited for its locks"


def test_a_reservation_that_was_removed_meanwhile(three: Master) -> None:
    _Reserve(three)
    text = _Overtake(three, _Commit(), LUInstanceCreate, lambda: three.cfg.RemoveInstance(three.Instance(NEW).uuid))
    assert text == f"The reservation of instance '{NEW}' was removed while this job waited for its locks"


def test_a_reservation_whose_nodes_changed_meanwhile(three: Master) -> None:
    """The instance itself is as it was: its secondary node is that of its disks."""
    _Reserve(three)

    def move() -> None:
        disks = three.snapshot.InstanceDisks(three.Instance(NEW))
        nodes = (three.nodes[2], three.nodes[1])
        three.cfg.UpdateMany(
            [disk.Replace(nodes=nodes, logical_id=(*nodes, *disk.logical_id[2:])) for disk in disks], 77
        )

    assert "changed while this job waited" in _Overtake(three, _Commit(), LUInstanceCreate, move)


def test_a_fail_over_of_what_was_committed_meanwhile(three: Master) -> None:
    """It must not be treated as a reservation: its guest may run."""
    _Reserve(three)

    def commit() -> None:
        disks = [MarkDisk(disk, False) for disk in three.snapshot.InstanceDisks(three.Instance(NEW))]
        three.cfg.AddInstance(three.Instance(NEW).Replace(forthcoming=None), 77, disks, replace=True)

    text = _Overtake(three, opcodes.OpInstanceFailover(instance_name=NEW), LUInstanceFailover, commit)
    assert "was committed while this job waited" in text
    assert three.Instance(NEW).primary_node == three.nodes[2]
