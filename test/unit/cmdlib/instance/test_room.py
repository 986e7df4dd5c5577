"""Guests give memory back when another one needs it, down to their minimum (doc/design-resource-model.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.asking import Answering
from support.master import KilledInPause, Master
from support.moving import RunWithJobs
from support.standinlvm import StandInLvm
from support.virtual import MakeInstance

from ganeti import errors, locking, opcodes, params, pathutils, runtime
from ganeti.cmdlib.instance import room
from ganeti.params import runstate

WEB = "web.example.org"
# What a node keeps for itself under KVM, unless something is recorded.
_OWN = 4096


@pytest.fixture
def master(make: Callable[..., Master]) -> Master:
    """The example's instance runs on node1 with 512 MiB; two others on node2, whose minimum is 256 MiB."""
    made = make(2, prepare=_Prepare)
    assert isinstance(made, Master)
    return made


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    """The example's instance on nodes with volumes."""
    made = make(3, prepare=_Prepare)
    assert isinstance(made, Master)
    for node in made.all:
        node.answers["vg_list"] = {"xenvg": 100_000.0}
        StandInLvm(node.machine).AddPv("/dev/sda", "xenvg", 102_400)
    return made


def _Prepare(master: Master) -> None:
    root = master.snapshot
    wide = {end: dict.fromkeys(_SPECS, size) for end, size in (("min", 0), ("max", 1 << 20))}
    policy = {**root.cluster.ipolicy, "minmax": [wide], "disk-templates": ["drbd", "diskless"], "memory-ratio": 16.0}
    templates = ["drbd", "diskless"]
    hypervisor = master.Instance(WEB).hypervisor
    master.cfg.Update(
        root.cluster.Replace(ipolicy=policy, enabled_disk_templates=templates, enabled_hypervisors=[hypervisor])
    )


_MIGRATE = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": WEB}
_SPECS = ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use")


def _Add(master: Master, name: str, most: int = 2048, least: int = 256, node: str = "node2") -> None:
    master.Run(
        opcodes.OpInstanceCreate(
            instance_name=name, mode="create", start=True, hypervisor=master.Instance(WEB).hypervisor, disks=[], nics=[],
            disk_template="diskless", os_type="noop", pnode=node, beparams={"minmem": least, "maxmem": most},
        )
    )  # fmt: skip


def _Fill(master: Master, number: int = 1) -> None:
    """Two guests use 4096 MiB of a node, usually node2, and 100 MiB are free."""
    for name in ("one.example.org", "two.example.org"):
        _Add(master, name, node=master[number].name)
    master[number].SetMemory(_OWN + 4096 + 100)


def _NoRatio(master: Master) -> None:
    master.Run(opcodes.OpClusterSetParams(ipolicy={"memory-ratio": "default"}))


@pytest.mark.req("RM-MEM-05", "RM-MEM-08")
def test_a_fail_over_has_other_guests_give_back_what_is_missing(master: Master) -> None:
    _Fill(master)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    # 412 MiB were missing, and 32 are to spare; the first of two equal guests had them.
    assert master[1].guests == {"one.example.org": 1604, "two.example.org": 2048, WEB: 512}
    assert any("asking instance one.example.org to go from 2048 to 1604 MiB" in text for text in master.last.messages)


def test_a_start_does_so_and_nobody_goes_below_the_minimum(master: Master) -> None:
    _Fill(master)
    master[1].SetMemory(_OWN + 4096)
    for number, left in enumerate((1760, 1472)):
        _Add(master, f"new{number}.example.org", most=300)
        assert master[1].guests["one.example.org"] + master[1].guests["two.example.org"] == 2048 + left
    master[1].StartGuest("one.example.org", 256)
    master[1].StartGuest("two.example.org", 300)
    master[1].SetMemory(_OWN + 4 * 256)
    text = "needed 512 MiB, guests have 108 MiB more than the node has for them, and other guests can give back 108 MiB"
    with pytest.raises(errors.OpPrereqError, match=text):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))


@pytest.mark.req("RM-MEM-05")
def test_all_end_at_their_minimum_and_nobody_below(master: Master) -> None:
    _Fill(master)
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    master[1].SetMemory(_OWN + 256 + 256 + 512)
    master[1].StartGuest("one.example.org", 300)
    master[1].StartGuest("two.example.org", 700)
    master.cfg.SetInstancePrimaryNode(master.Instance(WEB).uuid, master.nodes[1])
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert master[1].guests == {"one.example.org": 256, "two.example.org": 256, WEB: 512}


@pytest.mark.req("RM-MEM-06", "RM-MEM-08")
def test_a_migration_makes_room_on_its_target(master: Master) -> None:
    _Fill(master)
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert master[1].guests == {"one.example.org": 1604, "two.example.org": 2048, WEB: 512}


@pytest.mark.req("RM-MEM-05", "RM-MEM-08")
@pytest.mark.parametrize("kind", [opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate])
def test_a_third_node_has_room_before_anything_is_stopped_or_copied(three: Master, kind: type[Any]) -> None:
    _Fill(three, 2)
    move = kind(instance_name=WEB, target_node="node3")
    for name in ("one.example.org", "two.example.org"):
        three[2].KeepMemory(name)
    with pytest.raises(errors.OpExecError, match="has 100 MiB free after 30 seconds, 512 MiB are needed"):
        three.Run(move)
    assert WEB in three[0].guests, "it still runs where it was"
    assert three.snapshot.SecondaryNodes(three.Instance(WEB)) == (three.nodes[1],)
    assert not [name for name in three[2].devices if "disk0" in name], "nothing was copied"
    for name in ("one.example.org", "two.example.org"):
        three[2].GiveMemory(name)
    three.Run(move)
    assert three[2].guests == {"one.example.org": 1604, "two.example.org": 2048, WEB: 512}


@pytest.mark.req("RM-MEM-06")
def test_a_guest_that_must_keep_its_memory_gets_room_for_all_of_it(master: Master) -> None:
    master.Run(opcodes.OpInstanceSetParams(instance_name=WEB, beparams={"minmem": 128}))
    _Fill(master)
    master[1].SetMemory(_OWN + 4096 + 200)
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, allow_runtime_changes=False))
    assert master[1].guests == {"one.example.org": 1704, "two.example.org": 2048, WEB: 512}


def test_without_a_ratio_nobody_is_asked(master: Master) -> None:
    _Fill(master)
    master[1].SetMemory(1024 + 4096 + 100)
    _NoRatio(master)
    with pytest.raises(errors.OpPrereqError, match=r"needed 512 MiB, available 100 MiB'"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert "instance_balloon_memory" not in master[1].calls


def test_a_group_lifts_the_ratio_of_the_cluster(master: Master) -> None:
    _Fill(master)
    master.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"memory-ratio": 0}))
    (group,) = master.snapshot.nodegroups.values()
    assert "memory-ratio" not in params.FillIPolicy(master.snapshot, group)
    master[1].SetMemory(1024 + 4096 + 100)
    with pytest.raises(errors.OpPrereqError, match=r"needed 512 MiB, available 100 MiB'"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    master.Run(opcodes.OpGroupSetParams(group_name="default", ipolicy={"memory-ratio": "default"}))
    master[1].SetMemory(_OWN + 4096 + 100)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert WEB in master[1].guests


def test_the_cluster_has_nothing_to_lift(master: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="memory-ratio"):
        master.Run(opcodes.OpClusterSetParams(ipolicy={"memory-ratio": 0}))


@pytest.mark.req("RM-MEM-05")
@pytest.mark.parametrize("kind", [opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate])
def test_memory_that_guests_have_not_touched_yet_is_not_free(master: Master, kind: type[Any]) -> None:
    _Fill(master)
    master[1].TouchLate()
    master.Run(kind(instance_name=WEB))
    assert master[1].guests == {"one.example.org": 1604, "two.example.org": 2048, WEB: 512}
    grow = opcodes.OpInstanceSetParams(instance_name="one.example.org", runtime_mem=1648)
    with pytest.raises(errors.OpPrereqError, match="needed 44 MiB, available 32 MiB"):
        master.Run(grow)
    _NoRatio(master)
    master.Run(grow)


def test_a_guest_that_starts_gets_what_others_may_not_touch_later(master: Master) -> None:
    _Add(master, "one.example.org")
    master[1].SetMemory(_OWN + 2048 + 1000)
    master[1].TouchLate()
    _Add(master, "two.example.org")
    assert master[1].guests == {"one.example.org": 2048, "two.example.org": 1000}
    for again in (
        opcodes.OpInstanceReboot(instance_name="two.example.org", reboot_type="hard"),
        opcodes.OpInstanceReboot(instance_name="two.example.org", reboot_type="full"),
        opcodes.OpInstanceShutdown(instance_name="two.example.org"),
        opcodes.OpInstanceStartup(instance_name="two.example.org"),
    ):
        master.Run(again)
    assert master[1].guests == {"one.example.org": 2048, "two.example.org": 1000}
    master.Run(opcodes.OpInstanceShutdown(instance_name="two.example.org"))
    master.Run(opcodes.OpInstanceReboot(instance_name="two.example.org", reboot_type="full"))
    assert master[1].guests == {"one.example.org": 2048, "two.example.org": 1000}


@pytest.mark.req("RM-LIM-04")
def test_a_guest_without_a_driver_is_made_up_for_by_the_others(master: Master) -> None:
    _Fill(master)
    master[1].KeepMemory("one.example.org")
    before = runtime.Monotonic()
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert runtime.Monotonic() - before >= 5
    assert master[1].guests == {"one.example.org": 2048, "two.example.org": 1604, WEB: 512}, (
        "for what is missing, no more"
    )


def test_who_gave_nothing_is_asked_last_the_next_time(master: Master) -> None:
    """One second instead of six; a guest that gives again is asked in its turn again."""
    _Fill(master)
    master[1].KeepMemory("one.example.org")
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert {master.snapshot.instances[uuid].name for uuid in master.context.unwilling} == {"one.example.org"}
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    master.Run(opcodes.OpInstanceSetParams(instance_name="two.example.org", runtime_mem=2048))
    before = runtime.Monotonic()
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert runtime.Monotonic() - before < 5
    assert master[1].guests["one.example.org"] == 2048 > master[1].guests["two.example.org"]


def test_who_gives_again_is_asked_in_its_turn_again(master: Master) -> None:
    _Fill(master)
    master[1].KeepMemory("one.example.org")
    for _ in range(2):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert len(master.context.unwilling) == 1
    master[1].GiveMemory("one.example.org")
    master[1].StartGuest("two.example.org", 256)
    master[1].SetMemory(_OWN + 2048 + 256 + 100)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert master[1].guests == {"one.example.org": 1604, "two.example.org": 256, WEB: 512}
    assert master.context.unwilling == set()


def test_who_gave_something_is_not_unwilling(master: Master) -> None:
    """Both are asked, the second one gives what it was asked for first, and then nothing more."""
    _Fill(master)
    master[1].SetMemory(_OWN + 4096 - 1456)
    master[1].KeepMemory("one.example.org")

    def keep() -> None:
        runtime.Sleep(3)
        with master.Elsewhere():
            master[1].KeepMemory("two.example.org")

    runtime.Thread(keep, "keep").start()
    with pytest.raises(
        errors.OpExecError, match=r"kept by: one.example.org \(2048 MiB\), two.example.org \(1840 MiB\)"
    ):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert {master.snapshot.instances[uuid].name for uuid in master.context.unwilling} == {"one.example.org"}


def test_what_other_programs_of_the_node_use_is_not_free(master: Master) -> None:
    master[1].SetMemory(_OWN + 4096, system=_OWN + 4096 - 300)
    with pytest.raises(errors.OpPrereqError, match="needed 512 MiB, available 300 MiB"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))


def test_no_wish_outlives_its_job(master: Master) -> None:
    """A guest that was too slow keeps what it has when others have made up for it."""
    _Fill(master)
    master[1].KeepMemory("one.example.org")
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert master[1].arguments["instance_balloon_memory"][1] == 2048, "the last call lets it keep its memory"
    assert master[1].guests["one.example.org"] == 2048


def test_if_nobody_gives_memory_back_nothing_was_changed(master: Master) -> None:
    _Fill(master)
    for name in ("one.example.org", "two.example.org"):
        master[1].KeepMemory(name)
    with pytest.raises(errors.OpExecError, match="has 100 MiB free after 30 seconds, 512 MiB are needed") as caught:
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert "memory was kept by: one.example.org (2048 MiB), two.example.org (2048 MiB)" in str(caught.value)
    assert "oper_ram" in (caught.value.hint or "")
    assert WEB in master[0].guests, "it still runs where it was"
    # What they did not give they may keep, also if their driver wakes up later.
    assert master[1].arguments["instance_balloon_memory"][1] == 2048
    assert master.Instance(WEB).primary_node == master.nodes[0]


def test_who_waits_for_memory_can_be_ended(master: Master) -> None:
    _Fill(master)
    for name in ("one.example.org", "two.example.org"):
        master[1].KeepMemory(name)
    begun = master.world.now
    with pytest.raises(errors.OpExecError, match="gnt-job cancel --kill"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB), KilledInPause())
    assert WEB in master[0].guests and master.world.now - begun < 20
    assert master[1].arguments["instance_balloon_memory"][1] == 2048, "the last call lets it keep its memory"


def test_a_new_instance_for_which_nobody_gives_memory_back_stays_stopped_and_is_complete(master: Master) -> None:
    _Fill(master)
    for name in ("one.example.org", "two.example.org"):
        master[1].KeepMemory(name)
    with pytest.raises(errors.OpExecError, match="has 100 MiB free after 30 seconds"):
        _Add(master, "new.example.org")
    said = " ".join(master.last.messages)
    assert "Instance new.example.org stays in the configuration, complete and stopped" in said
    assert "'gnt-instance startup new.example.org' starts it" in said and "reinstall" not in said
    master[1].SetMemory(_OWN + 3 * 4096)
    master.Run(opcodes.OpInstanceStartup(instance_name="new.example.org"))


def test_a_guest_in_huge_pages_is_left_alone(master: Master) -> None:
    _Fill(master)
    one = master.Instance("one.example.org")
    master.cfg.Update(one.Replace(hvparams={**one.hvparams, "mem_path": "/dev/hugepages"}))
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert master[1].guests == {"one.example.org": 2048, "two.example.org": 1604, WEB: 512}


def test_verification_counts_what_guests_can_give_back(master: Master) -> None:
    _Fill(master)
    verify = opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True)

    def complaints() -> list[str]:
        master.Run(verify)
        return [text for text in master.last.messages if "ENODEN1" in text]

    master[1].SetMemory(1024 + 4096 + 100)
    assert complaints() == []
    _NoRatio(master)
    assert len(complaints()) == 1


def test_a_guest_that_does_not_simply_run_is_left_alone(master: Master) -> None:
    _Fill(master)
    master[1].StartGuest("one.example.org", 2048, runstate.PAUSED)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert master[1].guests == {"one.example.org": 2048, "two.example.org": 1604, WEB: 512}


@pytest.mark.req("RM-MEM-02", "RM-MEM-03")
def test_what_is_placed_or_grown_by_hand_keeps_the_ratio(master: Master) -> None:
    """Under KVM 4096 MiB are the node's own, as in the htools, unless something is recorded."""
    master[1].SetMemory(4096 + 1000)
    master.Run(opcodes.OpClusterSetParams(ipolicy={"memory-ratio": 2.0}))
    _Add(master, "one.example.org", most=1500)
    text = r"the instances of node node2.example.org could have 2004 MiB of memory together, it has 1000 MiB for them; memory-ratio 2"
    with pytest.raises(errors.OpPrereqError, match=text) as caught:
        _Add(master, "two.example.org", most=504)
    assert "--ignore-ipolicy" in (caught.value.hint or "")
    _Add(master, "two.example.org", most=500)
    grow = opcodes.OpInstanceSetParams(instance_name="two.example.org", beparams={"maxmem": 504})
    with pytest.raises(errors.OpPrereqError, match="could have 2004 MiB"):
        master.Run(grow)
    least = opcodes.OpInstanceSetParams(instance_name="one.example.org", beparams={"minmem": 748}, force=True)
    with pytest.raises(errors.OpPrereqError, match="would have minima of 1004 MiB of memory together, it has 1000 MiB"):
        master.Run(least)
    master.Run(opcodes.OpInstanceSetParams(instance_name="one.example.org", beparams={"minmem": 744}))
    kept = {master.Instance(WEB).hypervisor: {"mem_total": 5096, "mem_node": 3996, "mem_hv": 92}}
    master.Run(opcodes.OpNodeSetParams(node_name="node2", hv_state=kept))
    master.Run(opcodes.OpInstanceSetParams(instance_name="two.example.org", beparams={"maxmem": 516}))
    with pytest.raises(errors.OpPrereqError, match="it has 1008 MiB for them; memory-ratio 2 allows 2016"):
        master.Run(opcodes.OpInstanceSetParams(instance_name="two.example.org", beparams={"maxmem": 520}))


@pytest.mark.req("RM-LIM-03")
def test_whether_a_guest_can_migrate_does_not_depend_on_who_has_just_crashed(master: Master) -> None:
    """The minimum of an instance that should run is kept for it while it is down."""
    master[1].SetMemory(4096 + 900)
    _Add(master, "one.example.org", most=400, least=400)
    migrate = opcodes.OpInstanceMigrate(instance_name=WEB)
    text = r"would have minima of 912 MiB of memory together, it has 900 MiB"
    with pytest.raises(errors.OpPrereqError, match=text):
        master.Run(migrate)
    master[1].Call(runtime.RemoveFile, f"{pathutils.FAKE_DIR}/one.example.org")
    assert master[1].guests == {}, "it has crashed, and there is much free memory"
    with pytest.raises(errors.OpPrereqError, match=text):
        master.Run(migrate)
    master.Run(opcodes.OpInstanceSetParams(instance_name="one.example.org", beparams={"minmem": 388}))
    master.Run(migrate)
    assert WEB in master[1].guests


def test_nobody_else_takes_the_memory_of_the_node_meanwhile(master: Master) -> None:
    """Where memory is shared, whoever gives some to a guest holds the lock for it; otherwise only a start does, as in 3.1."""
    held: dict[str, bool] = {}

    def before(name: str, args: tuple[Any, ...]) -> None:
        free = master.context.glm.FreeNames(locking.LEVEL_NODE_RES)
        held[name] = master.nodes[1] not in free

    master[1].before = before
    name = "one.example.org"
    units: list[tuple[str, opcodes.OpCode]] = [
        ("instance_reboot", opcodes.OpInstanceReboot(instance_name=name, reboot_type="hard")),
        ("instance_balloon_memory", opcodes.OpInstanceSetParams(instance_name=name, runtime_mem=300)),
    ]
    for shared in (True, False):
        _Add(master, name)
        assert held["instance_start"] is shared
        for call, op in units:
            master.Run(op)
            assert held[call] is shared, call
        master.Run(opcodes.OpInstanceRemove(instance_name=name))
        _NoRatio(master)


def test_a_larger_minimum_must_be_there(master: Master) -> None:
    _Add(master, "one.example.org")
    # What it has above its minimum of now it cannot give itself.
    master[1].StartGuest("one.example.org", 500)
    master[1].SetMemory(_OWN + 550)
    op = opcodes.OpInstanceSetParams(instance_name="one.example.org", beparams={"minmem": 600}, ignore_ipolicy=True)
    with pytest.raises(errors.OpPrereqError, match="with 600 MiB: needed 100 MiB, available 50 MiB"):
        master.Run(op)
    master[1].StartGuest("one.example.org", 300)
    master[1].SetMemory(_OWN + 400)
    raised = {"minmem": 600}
    with pytest.raises(errors.OpPrereqError, match="with 600 MiB: needed 300 MiB, available 100 MiB"):
        master.Run(opcodes.OpInstanceSetParams(instance_name="one.example.org", beparams=raised, ignore_ipolicy=True))
    _NoRatio(master)
    master.Run(opcodes.OpInstanceSetParams(instance_name="one.example.org", beparams=raised))


def test_a_drained_node_gets_rid_of_its_guests(master: Master) -> None:
    master[1].SetMemory(4096 + 900)
    _Add(master, "one.example.org", most=400, least=400)
    master[1].Call(runtime.RemoveFile, f"{pathutils.FAKE_DIR}/one.example.org")
    source = master.snapshot.nodes[master.nodes[0]]
    master.cfg.Update(source.Replace(drained=True))
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert WEB in master[1].guests
    assert any("would have minima of 912 MiB" in text for text in master.last.messages)


def test_what_the_allocator_must_not_mind_does_not_stop_its_jobs(master: Master) -> None:
    """The minima of the target's instances are more than it has, as one of them is down."""
    master[1].SetMemory(4096 + 900)
    _Add(master, "one.example.org", most=400, least=400)
    master[1].Call(runtime.RemoveFile, f"{pathutils.FAKE_DIR}/one.example.org")
    master[0].AddAllocator("mine", Answering([[[WEB, "default", [master[1].name]]], [], [[_MIGRATE]]]))
    op = opcodes.OpNodeEvacuate(node_name="node1", mode="primary-only", iallocator="mine")
    with pytest.raises(errors.OpPrereqError, match="would have minima of 912 MiB"):
        RunWithJobs(master, op)
    op.ignore_soft_errors = True
    RunWithJobs(master, op)
    assert WEB in master[1].guests


def test_a_node_can_be_emptied_onto_one_that_has_promised_much(master: Master) -> None:
    master.Run(opcodes.OpClusterSetParams(ipolicy={"memory-ratio": 1.0}))
    master[1].SetMemory(4096 + 1000)
    _Add(master, "one.example.org", most=1000)
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert WEB in master[1].guests


@given(st.lists(st.tuples(st.integers(128, 4096), st.integers(1, 4096))), st.integers(1, 9000))
@pytest.mark.req("RM-MEM-05")
def test_nobody_is_asked_below_the_minimum_or_for_more_than_is_missing(
    sizes: list[tuple[int, int]], missing: int
) -> None:
    guests = [
        room._Guest(MakeInstance(uuid=f"00000000-0000-4000-8000-{i:012d}"), least + more, least)
        for i, (least, more) in enumerate(sizes)
    ]
    wanted = room._Wanted(guests, missing)
    given_back = 0
    for guest in guests:
        size = wanted.get(guest.instance.uuid, guest.memory)
        assert guest.least <= size <= guest.memory
        given_back += guest.memory - size
    assert given_back == min(missing, sum(guest.surplus for guest in guests))
