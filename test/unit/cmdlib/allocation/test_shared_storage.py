"""Instances whose disks several nodes reach leave a node: one question about all of them, and jobs that name their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Played
from support.master import Callbacks, Master
from support.moving import Hail, Ids, RunWithJobs
from support.placing import Create, Nodes, Prepare
from support.sidejobs import SideJob

from ganeti import errors, locking, opcodes
from ganeti.cmdlib import LU_MAPPING

FAR = [f"far{number}.example.org" for number in range(1, 7)]
WEB = "web.example.org"


def _Creation(name: str) -> opcodes.OpInstanceCreate:
    return Create(name, disk_template="rbd", iallocator=None, pnode="node1", hypervisor=None, os_type="noop")


def _Add(master: Master, name: str) -> None:
    master.Run(_Creation(name))
    (disk,) = master.snapshot.InstanceDisks(master.Instance(name))
    for node in master.all[1:]:
        node.MakeStorage(disk)


@pytest.fixture
def far(make: Callable[..., Master]) -> Master:
    """Six instances on storage that all four nodes reach, and a mirrored one, all on node1; allocators hail and mine."""

    def prepare(master: Master) -> None:
        Prepare(master)
        for name in FAR:
            _Add(master, name)

    return make(4, prepare=prepare, lvm=True)


def _Ask(master: Master) -> Played:
    played = Hail()
    master[0].AddAllocator("mine", played)
    return played


def _Jobs(master: Master, op: opcodes.OpCode) -> dict[str, Any]:
    """Run an opcode; return the opcodes of the jobs that it submits by their instances."""
    callbacks = Callbacks()
    master.Run(op, callbacks)
    return {part.instance_name: part for job in callbacks.jobs for part in job}  # type: ignore[attr-defined]


@pytest.mark.req("D21-REPAIR-10", "IAL-08")
def test_a_node_is_migrated_with_one_question(far: Master) -> None:
    """All jobs know their nodes, and no node gets what the others should have got."""
    played = _Ask(far)
    jobs = RunWithJobs(far, opcodes.OpNodeMigrate(node_name="node1", iallocator="mine"))
    assert Ids(jobs) == [["MIGRATE"]] * 7
    (message,) = played.asked
    assert (message["request"]["type"], message["request"]["evac_mode"]) == ("node-evacuate", "primary-only")
    assert message["request"]["instances"] == FAR
    assert Counter(Nodes(far, name)[0] for name in FAR) == {"2": 2, "3": 2, "4": 2}
    assert far.snapshot.PrimaryInstances(far.nodes[0]) == ()


def test_the_default_allocator_is_asked_unless_a_node_is_named(far: Master) -> None:
    far.cfg.Update(far.snapshot.cluster.Replace(default_iallocator="mine"))
    played = _Ask(far)
    named = _Jobs(far, opcodes.OpNodeMigrate(node_name="node1", target_node="node3"))
    assert played.asked == [] and {named[name].target_node for name in FAR} == {far[2].name}
    for values in ({}, {"iallocator": "."}):
        jobs = _Jobs(far, opcodes.OpNodeMigrate(node_name="node1", **values))
        assert {jobs[name].target_node for name in FAR} == {node.name for node in far.all[1:]}
    assert len(played.asked) == 2 and jobs[WEB].target_node == far[1].name


@pytest.mark.parametrize(
    "op",
    [
        opcodes.OpNodeMigrate(node_name="node1", iallocator="hail"),
        opcodes.OpNodeMigrate(node_name="node1", target_node="node2"),
        opcodes.OpNodeEvacuate(node_name="node1", mode="primary-only", iallocator="hail"),
    ],
    ids=["allocator", "named", "evacuate"],
)
def test_an_instance_that_left_meanwhile_is_not_moved_again(far: Master, op: opcodes.OpCode) -> None:
    jobs = _Jobs(far, op)
    assert {jobs[name].if_primary for name in FAR} == {far[0].name}
    far.Run(opcodes.OpInstanceMigrate(instance_name=FAR[0], target_node="node4"))
    with pytest.raises(errors.OpPrereqError, match=r"is node4\.example\.org, no longer node1\.example\.org") as caught:
        far.Run(jobs[FAR[0]])
    assert caught.value.args[1] == errors.ECODE_STATE and Nodes(far, FAR[0]) == ("4",)
    far.Run(jobs[FAR[1]])
    assert Nodes(far, FAR[1]) != ("1",)


def test_without_a_place_a_job_asks_for_itself(far: Master) -> None:
    """The second instance finds none at first; the first one does, and room for the other appears later."""
    hail = Hail()

    def half(message: dict[str, Any]) -> Any:
        if message["request"]["type"] != "node-evacuate":
            return hail._answer(message)
        moved = [[name, "default", [far[2].name]] for name in FAR[1:]]
        jobs = [
            [{"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "target_node": far[2].name}] for name in FAR[1:]
        ]
        return {"success": True, "info": "", "result": [moved, [[FAR[0], "no room"]], jobs]}

    far[0].AddAllocator("mine", Played(half))
    jobs = _Jobs(far, opcodes.OpNodeMigrate(node_name="node1", iallocator="mine"))
    assert (jobs[FAR[0]].target_node, jobs[FAR[0]].iallocator, jobs[FAR[0]].if_primary) == (None, "mine", far[0].name)
    assert (jobs[FAR[1]].target_node, jobs[FAR[1]].iallocator) == (far[2].name, None)
    assert any(f"No place was found for instance {FAR[0]} (no room)" in text for text in far.last.messages)
    far.Run(jobs[FAR[0]])
    assert Nodes(far, FAR[0]) != ("1",)
    with pytest.raises(errors.OpPrereqError, match="no longer"):
        far.Run(jobs[FAR[0]])


def test_an_allocator_that_knows_no_evacuation_is_asked_by_each_job(far: Master) -> None:
    far[0].AddAllocator("old", Played(lambda message: {"success": False, "info": "what?", "result": []}))
    jobs = _Jobs(far, opcodes.OpNodeMigrate(node_name="node1", iallocator="old"))
    assert {(jobs[name].target_node, jobs[name].iallocator) for name in FAR} == {(None, "old")}
    assert any("what?; the job of each instance asks for itself" in text for text in far.last.messages)


def test_a_choice_locks_no_node(far: Master) -> None:
    held: list[dict[int, set[str]]] = []
    unit: Any = LU_MAPPING["OP_NODE_MIGRATE"]

    class Watched(unit):  # type: ignore[misc]
        def CheckPrereq(self) -> None:
            held.append({level: set(self.owned_locks(level)) for level in locking.LEVELS})
            super().CheckPrereq()

    op = opcodes.OpNodeMigrate(node_name="node1", iallocator="hail")
    far.Run(op, units={"OP_NODE_MIGRATE": Watched})
    (locks,) = held
    assert locks[locking.LEVEL_INSTANCE] == set(FAR) and not locks[locking.LEVEL_NODE]
    assert locks[locking.LEVEL_NODEGROUP] == {far.snapshot.nodes[far.nodes[0]].group}


def test_an_instance_that_came_meanwhile_is_noticed(far: Master) -> None:
    unit: Any = LU_MAPPING["OP_NODE_MIGRATE"]

    class Late(unit):  # type: ignore[misc]
        def DeclareLocks(self, level: int) -> None:
            super().DeclareLocks(level)
            if level == locking.LEVEL_NODEGROUP:
                with far.Elsewhere():
                    SideJob(far, _Creation("late.example.org")).Result()

    op = opcodes.OpNodeMigrate(node_name="node1", iallocator="hail")
    with pytest.raises(errors.OpPrereqError, match=r"The instances of node node1\.example\.org changed while"):
        far.Run(op, units={"OP_NODE_MIGRATE": Late})
    assert far.last.jobs == []
