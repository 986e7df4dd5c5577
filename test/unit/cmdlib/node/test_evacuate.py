"""Moving the instances of a node elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support import configs
from support.actors import Cast
from support.asking import Answering, Played, Success
from support.master import Callbacks, Master
from support.moving import Hail, Ids, RunWithJobs

from ganeti import errors, locking, mcpu, opcodes
from ganeti.cmdlib import LU_MAPPING

WEB = "web.example.org"


@pytest.fixture
def four(make: Callable[..., Master]) -> Master:
    """Four nodes; the first two have one mirrored instance, which runs on the first."""
    return make(4, lvm=True)


def _Evacuate(node: str, mode: str, **values: Any) -> opcodes.OpNodeEvacuate:
    return opcodes.OpNodeEvacuate(node_name=node, mode=mode, **values)


def _Nodes(master: Master, name: str = WEB) -> list[int]:
    """The numbers of an instance's nodes, the primary first."""
    return [master.nodes.index(uuid) for uuid in master.snapshot.AllNodes(master.Instance(name))]


def _Create(master: Master, name: str, primary: int, secondary: int) -> None:
    master.Run(
        opcodes.OpInstanceCreate(
            instance_name=name, mode="create", disk_template="drbd", disks=[{"size": 1024}], nics=[{}], os_type="noop",
            pnode=master[primary].name, snode=master[secondary].name,
        )
    )  # fmt: skip


@pytest.mark.req("D20-JOB-02")
def test_mirrors_go_to_the_named_node(four: Master) -> None:
    _Create(four, "second.example.org", 2, 1)
    jobs = RunWithJobs(four, _Evacuate("node2", "secondary-only", remote_node="node4", early_release=True))
    assert Ids(jobs) == [["REPLACE_DISKS"]] * 2
    assert [(job[0].instance_name, job[0].early_release) for job in jobs] == [  # type: ignore[attr-defined]
        ("second.example.org", True),
        (WEB, True),
    ]
    assert _Nodes(four) == [0, 3] and _Nodes(four, "second") == [2, 3]
    assert four.snapshot.NodeInstances(four.nodes[1]) == ((), ())
    assert four.Run(_Evacuate("node2", "secondary-only", remote_node="node4")) == {"jobs": []}


@pytest.mark.parametrize(
    ("node", "mode", "values", "match"),
    [
        ("node2", "primary-only", {"remote_node": "node3"}, "if secondary instances alone"),
        ("node2", "all", {"remote_node": "node3"}, "if secondary instances alone"),
        ("node2", "secondary-only", {"remote_node": "node2"}, "cannot be the new secondary node"),
        ("node2", "secondary-only", {"remote_node": "node1"}, f"is the primary node of {WEB}"),
        ("node2", "secondary-only", {"remote_node": "node3", "iallocator": "x"}, "Do not specify both"),
        ("node2", "secondary-only", {}, "no cluster-wide default iallocator"),
        ("node9", "secondary-only", {"iallocator": "x"}, "'node9' not known"),
    ],
)
def test_what_cannot_be_is_rejected(four: Master, node: str, mode: str, values: dict[str, Any], match: str) -> None:
    four.cfg.Update(four.snapshot.cluster.Replace(default_iallocator=""))
    with pytest.raises(errors.OpPrereqError, match=match):
        four.Run(_Evacuate(node, mode, **values))
    assert four.last.jobs == []


def test_mirrors_do_not_go_to_a_drained_node(four: Master) -> None:
    four.cfg.Update(four.snapshot.nodes[four.nodes[2]].Replace(drained=True))
    with pytest.raises(errors.OpPrereqError, match=r"drained node node3\.example\.org"):
        four.Run(_Evacuate("node2", "secondary-only", remote_node="node3"))


@pytest.mark.req("IAL-08", "D21-REPAIR-11")
def test_the_allocator_chooses_other_mirrors(four: Master) -> None:
    four[0].AddAllocator("mine", Hail())
    _Create(four, "second.example.org", 2, 1)
    jobs = RunWithJobs(four, _Evacuate("node2", "secondary-only", iallocator="mine", early_release=True))
    assert Ids(jobs) == [["REPLACE_DISKS"]] * 2
    assert all(job[0].early_release for job in jobs)  # type: ignore[attr-defined]
    assert four.snapshot.NodeInstances(four.nodes[1]) == ((), ())


def test_primary_instances_go_to_their_secondary_nodes(four: Master) -> None:
    four[0].AddAllocator("mine", Hail())
    four.cfg.Update(four.snapshot.cluster.Replace(default_iallocator="mine"))
    assert Ids(RunWithJobs(four, _Evacuate("node1", "primary-only", iallocator="."))) == [["MIGRATE"]]
    assert _Nodes(four) == [1, 0]


@pytest.mark.req("IAL-08")
def test_a_node_is_emptied(four: Master) -> None:
    """Its own instances and the mirrors of others, those included that its own leave behind."""
    four[0].AddAllocator("mine", Hail())
    _Create(four, "second.example.org", 2, 0)
    _Create(four, "third.example.org", 0, 3)
    jobs = RunWithJobs(four, _Evacuate("node1", "all", iallocator="mine"))
    assert Ids(jobs) == [["MIGRATE"], ["MIGRATE"], ["OP_NODE_EVACUATE"], *[["REPLACE_DISKS"]] * 3]
    assert four.snapshot.NodeInstances(four.nodes[0]) == ((), ())
    ended = ["success", "error", "canceled"]
    assert jobs[2][0].depends == [[-1, ended], [-2, ended]]
    # Nothing of it is left to do.
    assert Ids(RunWithJobs(four, _Evacuate("node1", "all", iallocator="mine"))) == []


def test_the_mirrors_alone_are_left(four: Master) -> None:
    four[0].AddAllocator("mine", Hail())
    jobs = RunWithJobs(four, _Evacuate("node2", "all", iallocator="mine", ignore_soft_errors=True, early_release=True))
    assert Ids(jobs) == [["OP_NODE_EVACUATE"], ["REPLACE_DISKS"]]
    assert (jobs[0][0].depends, jobs[0][0].ignore_soft_errors) == (None, True)  # type: ignore[attr-defined]
    assert (jobs[1][0].early_release, jobs[1][0].ignore_ipolicy) == (True, True)  # type: ignore[attr-defined]


def test_a_policy_is_ignored_on_request_only(four: Master) -> None:
    four[0].AddAllocator("mine", Hail())
    [[move]] = RunWithJobs(four, _Evacuate("node1", "primary-only", iallocator="mine"))
    assert not move.ignore_ipolicy  # type: ignore[attr-defined]
    [[move]] = RunWithJobs(four, _Evacuate("node2", "primary-only", iallocator="mine", ignore_soft_errors=True))
    assert move.ignore_ipolicy  # type: ignore[attr-defined]


def test_an_instance_without_a_place_stops_everything(four: Master) -> None:
    four[0].AddAllocator("mine", Answering([[], [[WEB, "too big"]], []]))
    with pytest.raises(errors.OpPrereqError, match=rf"nothing was moved: {WEB} \(too big\)") as caught:
        four.Run(_Evacuate("node1", "primary-only", iallocator="mine"))
    assert caught.value.args[1] == errors.ECODE_NORES
    assert four.last.jobs == []


def test_the_reasons_of_hail_are_said_in_words(four: Master) -> None:
    reason = "Can't find any good node: Node a failed: FailCPU; Group g (unallocable)"
    four[0].AddAllocator("mine", Answering([[], [[WEB, reason]], []]))
    with pytest.raises(errors.OpPrereqError) as caught:
        four.Run(_Evacuate("node1", "primary-only", iallocator="mine"))
    assert caught.value.hint == (
        "FailCPU: too few virtual CPUs left, or not allowed by the policy of its node group;"
        " unallocable: the node group gets no instances; 'gnt-group modify --alloc-policy=preferred GROUP' changes that"
    )


def test_a_dry_run_says_where_they_would_go(four: Master) -> None:
    four[0].AddAllocator("mine", Hail())
    assert four.Run(_Evacuate("node1", "primary-only", iallocator="mine", dry_run=True)) == {"jobs": []}
    assert f" - INFO: Instance {WEB} will be moved to {four[1].name}, {four[0].name} in node group default" in (
        four.last.messages
    )
    assert four.last.jobs == []


def test_the_allocator_is_told_what_to_move(four: Master) -> None:
    def stay(message: dict[str, Any]) -> dict[str, Any]:
        names = message["request"]["instances"]
        return Success([[[name, "group", [four[0].name]] for name in names], [], []])

    played = Played(stay)
    four[0].AddAllocator("mine", played)
    four.Run(_Evacuate("node2", "secondary-only", iallocator="mine", ignore_soft_errors=True))
    [message] = played.asked
    assert message["request"] == {"type": "node-evacuate", "instances": [WEB], "evac_mode": "secondary-only"}
    assert played.options == [["--ignore-soft-errors"]]


# --- locks -----------------------------------------------------------------------------------------------------------------


def _Locks(four: Master, op: opcodes.OpNodeEvacuate) -> list[dict[int, set[str]]]:
    """What the unit holds when it looks whether it can be done."""
    held: list[dict[int, set[str]]] = []
    unit: Any = LU_MAPPING[op.OP_ID]

    class Watched(unit):  # type: ignore[misc]
        def CheckPrereq(self) -> None:
            assert all(self.glm.check_owned(level, self.owned_locks(level), shared=1) for level in _LEVELS[:2])
            held.append({level: self.owned_locks(level) for level in _LEVELS})
            super().CheckPrereq()

    four.Run(op, units={op.OP_ID: Watched})
    return held


_LEVELS = (locking.LEVEL_INSTANCE, locking.LEVEL_NODEGROUP, locking.LEVEL_NODE)


def test_what_is_locked(four: Master) -> None:
    [group] = four.snapshot.nodegroups
    four[0].AddAllocator("mine", Hail())
    named = _Locks(four, _Evacuate("node2", "secondary-only", remote_node="node3"))
    assert named == [
        {
            locking.LEVEL_INSTANCE: {WEB},
            locking.LEVEL_NODEGROUP: {group},
            locking.LEVEL_NODE: {four.nodes[1], four.nodes[2]},
        }
    ]
    far = four.cfg.AddNodeGroup(four.snapshot.nodegroups[group].Replace(name="far", uuid=configs.Uuid(77))).uuid
    four.glm._sets[locking.LEVEL_NODEGROUP].add(far)
    four.cfg.AssignGroupNodes([(four.nodes[3], far)])
    [named] = _Locks(four, _Evacuate("node2", "secondary-only", remote_node="node4"))
    assert named[locking.LEVEL_NODEGROUP] == {group, far}, "the new node's group, too"
    [chosen] = _Locks(four, _Evacuate("node2", "secondary-only", iallocator="mine"))
    assert chosen == {locking.LEVEL_INSTANCE: {WEB}, locking.LEVEL_NODEGROUP: {group}, locking.LEVEL_NODE: set()}


@pytest.mark.req("RM-LOCK-09")
def test_work_on_nodes_does_not_hold_up_an_evacuation(four: Master) -> None:
    """A job that works on every node for an hour, and another choice that is being made."""
    op = _Evacuate("node2", "secondary-only", iallocator="hail")
    with Cast("worker") as [worker]:
        worker.Do(four.glm.acquire, locking.LEVEL_CLUSTER, [locking.BGL], shared=1)
        worker.Do(four.glm.acquire, locking.LEVEL_NODE, list(four.nodes))
        callbacks = Callbacks()
        assert mcpu.Processor(four.context, 9).ExecOpCode(op, callbacks) == {"jobs": [[True, 100]]}
        worker.Do(four.glm.release, locking.LEVEL_NODE)
        worker.Do(four.glm.acquire, locking.LEVEL_NODE_ALLOC, [locking.NAL], shared=1)
        with pytest.raises(errors.LockAcquireTimeout):
            mcpu.Processor(four.context, 9).ExecOpCode(op, callbacks, timeout=1)
        worker.Do(four.glm.release, locking.LEVEL_NODE_ALLOC)
        worker.Do(four.glm.release, locking.LEVEL_CLUSTER)


def test_what_changes_before_the_locks_is_noticed(four: Master) -> None:
    """An instance that got its mirror on the node, and a node that came into the group, while the job waited."""
    unit: Any = LU_MAPPING["OP_NODE_EVACUATE"]

    class Late(unit):  # type: ignore[misc]
        def DeclareLocks(self, level: int) -> None:
            super().DeclareLocks(level)
            if level == locking.LEVEL_NODEGROUP:
                with four.Elsewhere():
                    disk = four.snapshot.InstanceDisks(four.Instance(WEB))[0]
                    pair = [four.nodes[0], four.nodes[3]]
                    four.cfg.Update(
                        disk.Replace(
                            nodes=pair,
                            logical_id=[*pair, *disk.logical_id[2:]],
                            children=[child.Replace(nodes=pair) for child in disk.children],
                        )
                    )

    op = _Evacuate("node4", "secondary-only", remote_node="node3")
    with pytest.raises(errors.OpPrereqError, match="changed while this job waited") as caught:
        four.Run(op, units={op.OP_ID: Late})
    assert caught.value.args[1] == errors.ECODE_STATE


# --- hail ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.req("IAL-08")
def test_hail_empties_nodes(make: Callable[..., Master], seed: int) -> None:
    """Whatever is on a node: afterwards it has none of it in the role that was evacuated, and every mirror has two nodes."""
    random = Random(seed)
    master = make(5, lvm=True, seed=seed + 1)

    def story() -> None:
        for number in range(6):
            primary, secondary = random.sample(range(5), 2)
            _Create(master, f"guest{number}.example.org", primary, secondary)
        node = random.randrange(5)
        for mode in random.sample(["primary-only", "secondary-only"], 1) + ["all"]:
            before = {name: _Nodes(master, name) for name in _Names(master)}
            RunWithJobs(master, _Evacuate(master[node].name, mode, iallocator="hail"))
            for name, nodes in before.items():
                now = _Nodes(master, name)
                assert len(set(now)) == 2, name
                assert mode != "primary-only" or now[0] != node, name
                assert mode != "secondary-only" or now[1:] != [node], name
                assert mode != "all" or node not in now, name
                assert node in nodes or now == nodes, f"{name} was moved, and nothing of it was on the node"

    master.Perform(story)


def _Names(master: Master) -> list[str]:
    return [instance.name for instance in master.snapshot.instances.values()]
