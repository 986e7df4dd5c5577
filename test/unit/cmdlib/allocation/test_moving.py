"""Allocators choose nodes for instances that exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Success
from support.master import Master
from support.placing import Allocator, Create, Nodes, Prepare
from support.sidejobs import Held, Holders, SideJob, Until

from ganeti import errors, locking, opcodes

WEB = "web.example.org"
FAR = "far.example.org"


@pytest.fixture
def five(make: Callable[..., Master]) -> Master:
    """A mirrored instance on the first two of five nodes."""
    return make(5, prepare=Prepare, lvm=True)


@pytest.fixture
def lost(make: Callable[..., Master]) -> Master:
    """The mirrored instance is down, and its disks are gone."""

    def lose(master: Master) -> None:
        Prepare(master)
        master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
        for node in master.all:
            node.LoseDisks()

    return make(4, prepare=lose)


@pytest.fixture
def shared(make: Callable[..., Master]) -> Master:
    """An instance on node1 whose disk all four nodes reach, and which runs."""

    def prepare(master: Master) -> None:
        Prepare(master)
        op = Create(FAR, disk_template="rbd", iallocator=None, pnode="node1", hypervisor=None, os_type="noop")
        master.Run(op)
        (disk,) = master.snapshot.InstanceDisks(master.Instance(FAR))
        for node in master.all[1:]:
            node.MakeStorage(disk)

    return make(4, prepare=prepare)


def _Chooses(master: Master, *numbers: int) -> Any:
    return Allocator(master, lambda message: Success([master[number].name for number in numbers]))


# --- replacing disks ------------------------------------------------------------------------------------------------------


def _Replace(**values: Any) -> opcodes.OpInstanceReplaceDisks:
    return opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", **values)


@pytest.mark.req("IAL-06", "IAL-07")
def test_an_allocator_chooses_a_new_secondary(five: Master) -> None:
    played = _Chooses(five, 3)
    five.Run(_Replace(iallocator="first"))
    assert Nodes(five, WEB) == ("1", "4")
    (message,) = played.asked
    assert message["request"]["type"] == "relocate" and message["request"]["relocate_from"] == [five[1].name]
    assert f" - INFO: Selected nodes for instance {WEB} via iallocator first: {five[3].name}" in five.last.messages
    env = next(env for path, _, env in five[3].hook_runs if path == "mirrors-replace")
    assert (env["GANETI_OLD_SECONDARY"], env["GANETI_NEW_SECONDARY"]) == (five[1].name, five[3].name)


def test_the_default_chooses_a_new_secondary_only_when_asked(five: Master) -> None:
    played = _Chooses(five, 3)
    with pytest.raises(errors.OpPrereqError, match="No iallocator or node given"):
        five.Run(_Replace(iallocator="."))
    five.cfg.Update(five.snapshot.cluster.Replace(default_iallocator="first"))
    with pytest.raises(errors.OpPrereqError, match="either an iallocator script or the new node"):
        five.Run(_Replace())
    assert played.asked == []
    five.Run(_Replace(iallocator="."))
    assert Nodes(five, WEB) == ("1", "4")


@pytest.mark.req("RM-LIM-18", "RM-LOCK-08")
def test_a_choice_does_not_wait_for_disk_work(five: Master) -> None:
    """One replacement is under way on nodes 1, 2 and 4; meanwhile an instance is created by another choice."""
    played = _Chooses(five, 3)
    held = Held(five, 3, "blockdev_create")
    first = SideJob(five, _Replace(iallocator="first"))
    held.Begun()
    assert set(Holders(five, "node")) == {five.nodes[number] for number in (0, 1, 3)}
    assert Holders(five, "node-alloc") == {}
    Allocator(five, lambda message: Success([five[2].name, five[4].name]), "other")
    assert SideJob(five, Create(iallocator="other"), 901).Result() == [five[2].name, five[4].name]
    assert not first.ended
    held.Go()
    first.Result()
    assert len(played.asked) == 1


def test_a_new_secondary_that_got_busy_is_looked_at_again(five: Master) -> None:
    """While the job waits for node4, another instance comes to it."""
    answers = [3, 3]
    asked: list[Any] = []

    def answer(message: dict[str, Any]) -> Any:
        asked.append(sorted(message["instances"]))
        return Success([five[answers.pop(0)].name])

    Allocator(five, answer)
    held = Held(five, 3, "blockdev_create")
    creation = SideJob(five, Create(iallocator=None, pnode="node4", snode="node5"))
    held.Begun()
    replacing = SideJob(five, _Replace(iallocator="first"), 901)
    Until(lambda: any(row.pending for row in five.glm.QueryLocks() if row.name == f"node/{five.nodes[3]}"))
    held.Go()
    creation.Result()
    replacing.Result()
    assert asked == [[WEB], ["new.example.org", WEB]] and Nodes(five, WEB) == ("1", "4")


def test_a_new_secondary_stays_in_the_groups_of_the_instance(five: Master) -> None:
    (old,) = five.snapshot.nodegroups.values()
    group = five.cfg.AddNodeGroup(old.Replace(name="other", uuid="00000077-aaaa-4bbb-8ccc-000000000077"))
    five.glm._sets[locking.LEVEL_NODEGROUP].add(group.uuid)
    five.cfg.AssignGroupNodes([(five.nodes[3], group.uuid)])
    _Chooses(five, 3)
    with pytest.raises(errors.GenericError, match="group"):
        five.Run(_Replace(iallocator="first"))
    assert Nodes(five, WEB) == ("1", "2")


# --- recreating disks -----------------------------------------------------------------------------------------------------


def test_disks_are_recreated_where_an_allocator_says(lost: Master) -> None:
    played = _Chooses(lost, 3, 2)
    lost.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, iallocator="first", disks=[[0, {"size": 2048}]]))
    assert Nodes(lost, WEB) == ("4", "3")
    request = played.asked[0]["request"]
    assert (request["name"], request["required_nodes"]) == (WEB, 2)
    assert [disk["size"] for disk in request["disks"]] == [2048]
    assert request["nics"][0]["mac"] == lost.Instance(WEB).nics[0].mac


def test_without_an_allocator_disks_are_recreated_in_place(lost: Master) -> None:
    lost.cfg.Update(lost.snapshot.cluster.Replace(default_iallocator="first"))
    lost.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB))
    assert Nodes(lost, WEB) == ("1", "2")
    _Chooses(lost, 3, 2)
    with pytest.raises(errors.OpPrereqError, match="Invalid disk index '7'"):
        lost.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, iallocator=".", disks=[7]))


def test_disks_are_not_recreated_where_old_volumes_are(five: Master) -> None:
    """The instance moved to its second node, which is gone; the first one still has its volumes."""
    five.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    five.cfg.Update(five.snapshot.nodes[five.nodes[1]].Replace(offline=True, master_candidate=False))
    played = Allocator(five)
    five.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, iallocator="first"))
    assert Nodes(five, WEB) == ("3", "4")
    assert played.asked[0]["request"]["restrict-to-nodes"] == [node.name for node in five.all[1:]]
    said = f" - INFO: Not offered to the allocator because old volumes are still there: {five[0].name}"
    assert five.last.messages.count(said) == 1


def test_recreating_disks_needs_nodes_without_old_volumes(five: Master) -> None:
    """Hail itself; all volumes are there, and only two other nodes are left, of which one is drained."""
    five.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    five.cfg.Update(five.snapshot.nodes[five.nodes[4]].Replace(offline=True, master_candidate=False))
    five.cfg.Update(five.snapshot.nodes[five.nodes[3]].Replace(drained=True, master_candidate=False))
    with pytest.raises(
        errors.OpPrereqError, match=r"still on node1[^ ]*, node2.*needs 2 other.*and 1 can be used"
    ) as caught:
        five.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, iallocator="hail"))
    assert caught.value.args[1] == errors.ECODE_STATE and "replace-disks" in caught.value.hint
    five.cfg.Update(five.snapshot.nodes[five.nodes[3]].Replace(drained=False))
    five.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, iallocator="hail"))
    assert set(Nodes(five, WEB)) == {"3", "4"}


# --- failing over and migrating -------------------------------------------------------------------------------------------


@pytest.mark.req("D20-FOA-07")
@pytest.mark.parametrize("target", [2, 3])
@pytest.mark.parametrize("kind", [opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate])
def test_memory_on_any_node_is_enough(shared: Master, kind: Any, target: int) -> None:
    """Hail itself: only one of the other nodes has room."""
    for number, node in enumerate(shared.all[1:], start=1):
        node.SetMemory(32768 if number == target else 300)
    shared.Run(kind(instance_name=FAR, iallocator="hail"))
    assert Nodes(shared, FAR) == (str(target + 1),) and FAR in shared[target].guests
    shared[target].SetMemory(300)
    shared[0].SetMemory(300)
    with pytest.raises(errors.OpPrereqError, match="hail"):
        shared.Run(kind(instance_name=FAR, iallocator="hail"))
    assert FAR in shared[target].guests


@pytest.mark.parametrize("kind", [opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate])
def test_shared_disks_follow_the_allocator(shared: Master, kind: Any) -> None:
    played = _Chooses(shared, 2)
    shared.Run(kind(instance_name=FAR, iallocator="first"))
    assert Nodes(shared, FAR) == ("3",) and FAR in shared[2].guests
    request = played.asked[0]["request"]
    assert (request["type"], request["relocate_from"]) == ("relocate", [shared[0].name])
    shared.cfg.Update(shared.snapshot.cluster.Replace(default_iallocator="first"))
    _Chooses(shared, 1)
    shared.Run(kind(instance_name=FAR))
    assert Nodes(shared, FAR) == ("2",)
    shared.Run(kind(instance_name=FAR, target_node="node4"))
    assert Nodes(shared, FAR) == ("4",)
    with pytest.raises(errors.OpPrereqError, match="both iallocator and node"):
        shared.Run(kind(instance_name=FAR, target_node="node4", iallocator="first"))


def test_only_both_ends_are_locked(shared: Master) -> None:
    _Chooses(shared, 2)
    held = Held(shared, 2, "instance_start")
    job = SideJob(shared, opcodes.OpInstanceFailover(instance_name=FAR, iallocator="first"))
    held.Begun()
    assert set(Holders(shared, "node")) == {shared.nodes[0], shared.nodes[2]} and Holders(shared, "node-alloc") == {}
    held.Go()
    job.Result()


def test_a_mirror_moves_to_a_third_node_on_request(five: Master) -> None:
    five.cfg.Update(five.snapshot.cluster.Replace(default_iallocator="first"))
    played = _Chooses(five, 3)
    five.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert Nodes(five, WEB) == ("2", "1") and played.asked == [], "by default it goes to its secondary node"
    five.Run(opcodes.OpInstanceFailover(instance_name=WEB, iallocator="."))
    assert Nodes(five, WEB) == ("4", "2")
    assert played.asked[0]["request"]["relocate_from"] == [five[0].name]
    _Chooses(five, 2)
    five.Run(opcodes.OpInstanceMigrate(instance_name=WEB, iallocator="first"))
    assert Nodes(five, WEB) == ("3", "4") and WEB in five[2].guests


def test_emptying_a_node_does_not_copy_mirrors(shared: Master) -> None:
    """The allocator is for those that have no secondary node."""
    shared.Run(opcodes.OpNodeMigrate(node_name="node1", iallocator="first"))
    assert {job.instance_name: job.iallocator for [job] in shared.last.jobs} == {FAR: "first", WEB: None}  # type: ignore[attr-defined]


# --- converting -----------------------------------------------------------------------------------------------------------


def _Plain(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    master.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="plain"))


def test_a_conversion_gets_its_secondary_from_an_allocator(five: Master) -> None:
    _Plain(five)
    played = _Chooses(five, 4)
    op = opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="drbd")
    with pytest.raises(errors.OpPrereqError, match="No iallocator or node given"):
        five.Run(op)
    Allocator(five, lambda message: Success(five[4].name), "one")
    five.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="drbd", iallocator="one"))
    assert Nodes(five, WEB) == ("1", "5") and played.asked == []
    with pytest.raises(errors.OpPrereqError, match="already has disk template drbd"):
        five.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="drbd", iallocator="one"))


def test_an_allocator_without_a_conversion_is_mentioned(five: Master) -> None:
    five.Run(opcodes.OpInstanceSetParams(instance_name=WEB, beparams={"vcpus": 2}, iallocator="nowhere"))
    assert any("allocator is not used" in text for text in five.last.messages)
