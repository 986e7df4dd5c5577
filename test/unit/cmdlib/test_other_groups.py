"""Moving instances to other node groups: one of them, or all of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Answering, Played
from support.master import Master
from support.moving import Hail, Ids, RunWithJobs

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib import LU_MAPPING

WEB = "web.example.org"
OTHER, EMPTY = "0000aaaa-0000-4000-8000-00000000000b", "0000aaaa-0000-4000-8000-00000000000c"


def _TwoGroups(root: objects.Snapshot) -> objects.Snapshot:
    """The third and fourth node are in a group of their own; another one is empty."""
    [first] = root.nodegroups.values()
    groups = [first, first.Replace(uuid=OTHER, name="other"), first.Replace(uuid=EMPTY, name="empty")]
    nodes = list(root.nodes.values())
    moved = [*nodes[:2], *(node.Replace(group=OTHER) for node in nodes[2:])]
    return root.Replace(
        nodegroups={group.uuid: group for group in groups},
        nodes={node.uuid: node for node in moved},
        cluster=root.cluster.Replace(default_iallocator=""),
    )


@pytest.fixture
def two(make: Callable[..., Master]) -> Master:
    """Two groups of two nodes each; a mirrored instance runs in the first."""
    return make(4, lvm=True, change=_TwoGroups, prepare=lambda master: master[0].AddAllocator("mine", Hail()))


def _Groups(master: Master, name: str = WEB) -> set[str]:
    snapshot = master.snapshot
    uuids = {snapshot.nodes[uuid].group for uuid in snapshot.AllNodes(master.Instance(name))}
    return {snapshot.nodegroups[uuid].name for uuid in uuids}


def _Create(master: Master, name: str, primary: int, secondary: int) -> None:
    master.Run(
        opcodes.OpInstanceCreate(
            instance_name=name, mode="create", disk_template="drbd", disks=[{"size": 1024}], nics=[{}], os_type="noop",
            pnode=master[primary].name, snode=master[secondary].name,
        )
    )  # fmt: skip


_MOVED = ["REPLACE_DISKS", "MIGRATE", "REPLACE_DISKS"]


@pytest.mark.parametrize("targets", [None, ["other"], [OTHER, "empty"]])
def test_an_instance_changes_its_group(two: Master, targets: list[str] | None) -> None:
    op = opcodes.OpInstanceChangeGroup(
        instance_name="web", iallocator="mine", target_groups=targets, early_release=True
    )
    jobs = RunWithJobs(two, op)
    assert Ids(jobs) == [_MOVED]
    assert [part.early_release for part in jobs[0] if "early_release" in part.OP_PARAMS] == [True, True]  # type: ignore[attr-defined]
    assert _Groups(two) == {"other"}
    env = next(env for path, _, env in two[0].hook_runs if path == "instance-change-group")
    named = {None: {OTHER, EMPTY}, 1: {OTHER}, 2: {OTHER, EMPTY}}[targets and len(targets)]
    assert set(env["GANETI_TARGET_GROUPS"].split()) == named
    assert env["GANETI_INSTANCE_NAME"] == WEB


def test_all_instances_leave_a_group(two: Master) -> None:
    _Create(two, "second.example.org", 1, 0)
    _Create(two, "third.example.org", 2, 3)
    jobs = RunWithJobs(two, opcodes.OpGroupEvacuate(group_name="default", iallocator="mine", target_groups=["other"]))
    assert sorted(Ids(jobs)) == [_MOVED, _MOVED]
    assert [
        instance.name for instance in two.snapshot.instances.values() if _Groups(two, instance.name) != {"other"}
    ] == []
    env = next(env for path, _, env in two[0].hook_runs if path == "group-evacuate")
    assert (env["GANETI_GROUP_NAME"], env["GANETI_TARGET_GROUPS"]) == ("default", OTHER)
    assert [path for path, _, _ in two[1].hook_runs if path == "group-evacuate"]
    assert not [path for path, _, _ in two[2].hook_runs if path == "group-evacuate"]
    # Nothing of it is left to do, and so nothing to ask.
    assert two.Run(opcodes.OpGroupEvacuate(group_name="default", iallocator="nobody")) == {"jobs": []}


@pytest.mark.parametrize("everything", [False, True])
def test_no_policy_that_allows_them_is_known_before_anybody_is_asked(two: Master, everything: bool) -> None:
    """Only the policy of the groups to go to counts, and groups without nodes do not."""
    played = Played(lambda message: {"success": False, "info": "no", "result": []})
    two[0].AddAllocator("mine", played)
    ((pair,), group) = two.snapshot.cluster.ipolicy["minmax"], two.snapshot.nodegroups[OTHER]
    small = {**pair, "max": {**pair["max"], "memory-size": 130}}
    two.cfg.Update(group.Replace(ipolicy={"minmax": [small]}))
    op: opcodes.OpCode = opcodes.OpInstanceChangeGroup(instance_name=WEB, iallocator="mine")
    if everything:
        op = opcodes.OpGroupEvacuate(group_name="default", iallocator="mine")
    with pytest.raises(
        errors.OpPrereqError, match=rf"Instance {WEB} violates the policy .* node group other: memory-size value \d+ is"
    ) as caught:
        two.Run(op)
    assert caught.value.args[1] == errors.ECODE_INVAL and played.asked == [] and two.last.jobs == []


def test_one_after_the_other_without_migration(two: Master) -> None:
    _Create(two, "second.example.org", 1, 0)
    op = opcodes.OpGroupEvacuate(group_name="default", iallocator="mine", sequential=True, force_failover=True)
    jobs = RunWithJobs(two, op)
    assert Ids(jobs) == [["REPLACE_DISKS", "FAILOVER", "REPLACE_DISKS"]] * 2
    first, failover, last = jobs[0]
    assert failover.target_node == first.remote_node  # type: ignore[attr-defined]
    assert not any(part.early_release for part in (first, last))  # type: ignore[attr-defined]
    assert not failover.ignore_ipolicy  # type: ignore[attr-defined]
    assert [[part.depends for part in job] for job in jobs] == [
        [None, None, None],
        [[[-1, ["success", "error", "canceled"]]], None, None],
    ]
    assert _Groups(two) == _Groups(two, "second") == {"other"}


def test_a_fail_over_keeps_what_the_migration_said(two: Master) -> None:
    """Of an instance on storage that all nodes reach, too: it is taken from the node where it was, from no other."""
    cluster, templates = two.snapshot.cluster, ["drbd", "rbd"]
    policy = {**cluster.ipolicy, "disk-templates": templates}
    two.cfg.Update(cluster.Replace(enabled_disk_templates=templates, ipolicy=policy))
    [disk] = two.snapshot.InstanceDisks(two.Instance(WEB))
    two.cfg.Update(disk.Replace(dev_type="rbd", nodes=[], logical_id=["rbd", "x"], children=[]))
    move = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": WEB, "target_node": two[2].name}
    two[0].AddAllocator("one", Answering([[[WEB, "other", [two[2].name]]], [], [[move]]]))
    two.Run(opcodes.OpGroupEvacuate(group_name="default", iallocator="one", force_failover=True))
    [[failover]] = two.last.jobs
    assert isinstance(failover, opcodes.OpInstanceFailover)
    assert (failover.instance_name, failover.target_node, failover.if_primary) == (WEB, two[2].name, two[0].name)


@pytest.mark.parametrize("sequential", [False, True])
def test_jobs_without_opcodes_are_not_submitted(two: Master, sequential: bool) -> None:
    two[0].AddAllocator("empty", Answering([[[WEB, "other", [two[2].name, two[3].name]]], [], [[], []]]))
    with pytest.raises(errors.OpExecError, match="iallocator 'empty' returned a job without opcodes"):
        two.Run(opcodes.OpGroupEvacuate(group_name="default", iallocator="empty", sequential=sequential))
    assert two.last.jobs == []


@pytest.mark.parametrize(
    ("op", "match"),
    [
        (opcodes.OpInstanceChangeGroup(instance_name="web", target_groups=["other"]), "no default iallocator"),
        (
            opcodes.OpInstanceChangeGroup(instance_name="web", iallocator="mine", target_groups=["other", "default"]),
            f"Node group default cannot be a target: instance {WEB} uses it already",
        ),
        (
            opcodes.OpGroupEvacuate(group_name="default", iallocator="mine", target_groups=["default"]),
            "Node group default cannot be evacuated to itself",
        ),
        (opcodes.OpGroupEvacuate(group_name="nothing", iallocator="mine"), "'nothing' not known"),
        (
            opcodes.OpGroupEvacuate(group_name="default", iallocator="mine", target_groups=["nothing"]),
            "'nothing' not known",
        ),
        (opcodes.OpInstanceChangeGroup(instance_name="nobody", iallocator="mine"), "'nobody' not known"),
        (
            opcodes.OpInstanceChangeGroup(instance_name="web", iallocator="mine", target_groups=["empty"]),
            "node group empty has no nodes; nothing was moved",
        ),
    ],
)
def test_what_cannot_be_is_rejected(two: Master, op: opcodes.OpCode, match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match):
        two.Run(op)
    assert two.last.jobs == []


def test_there_must_be_another_group(make: Callable[..., Master]) -> None:
    master = make(2)

    def check() -> None:
        with pytest.raises(errors.OpPrereqError, match="no other node groups"):
            master.Run(opcodes.OpInstanceChangeGroup(instance_name="web", iallocator="mine"))

    master.Perform(check)


def test_a_dry_run_moves_nothing(two: Master) -> None:
    op = opcodes.OpInstanceChangeGroup(instance_name="web", iallocator="mine", dry_run=True)
    assert two.Run(op) == {"jobs": []}
    assert any("will be moved to" in text and "in node group other" in text for text in two.last.messages)


def test_the_allocator_is_told_the_groups(two: Master) -> None:
    played = Played(lambda message: {"success": False, "info": "no", "result": []})
    two[0].AddAllocator("mine", played)
    with pytest.raises(errors.OpPrereqError, match="Can't compute nodes using iallocator 'mine': no"):
        two.Run(opcodes.OpGroupEvacuate(group_name="default", iallocator="mine"))
    [message] = played.asked
    assert message["request"] == {"type": "change-group", "instances": [WEB], "target_groups": [OTHER, EMPTY]}


@pytest.mark.parametrize("named", [True, False])
def test_what_is_locked(two: Master, named: bool) -> None:
    held: list[dict[int, set[str]]] = []
    levels = (locking.LEVEL_INSTANCE, locking.LEVEL_NODEGROUP, locking.LEVEL_NODE)
    for op in (
        opcodes.OpInstanceChangeGroup(instance_name="web", iallocator="mine", target_groups=["empty"] if named else []),
        opcodes.OpGroupEvacuate(group_name="default", iallocator="mine", target_groups=["empty"] if named else []),
    ):
        unit: Any = LU_MAPPING[op.OP_ID]

        class Watched(unit):  # type: ignore[misc]
            def CheckPrereq(self) -> None:
                assert all(self.glm.check_owned(level, self.owned_locks(level), shared=1) for level in levels[:2])
                held.append({level: self.owned_locks(level) for level in levels})
                raise errors.OpPrereqError("enough")

        with pytest.raises(errors.OpPrereqError, match="enough"):
            two.Run(op, units={op.OP_ID: Watched})
    [first, *_] = [uuid for uuid in two.snapshot.nodegroups if uuid not in (OTHER, EMPTY)]
    groups = {first, EMPTY} if named else {first, OTHER, EMPTY}
    assert held == [dict(zip(levels, ({WEB}, groups, set()), strict=True))] * 2


def test_what_changes_before_the_locks_is_noticed(two: Master) -> None:
    """An instance whose mirror went to another group while the job waited."""
    unit: Any = LU_MAPPING["OP_GROUP_EVACUATE"]

    class Late(unit):  # type: ignore[misc]
        def DeclareLocks(self, level: int) -> None:
            super().DeclareLocks(level)
            if level == locking.LEVEL_NODEGROUP:
                with two.Elsewhere():
                    two.cfg.AssignGroupNodes([(two.nodes[1], OTHER)])

    op = opcodes.OpGroupEvacuate(group_name="default", iallocator="mine", target_groups=["empty"])
    with pytest.raises(errors.OpPrereqError, match="changed while this job waited") as caught:
        two.Run(op, units={op.OP_ID: Late})
    assert caught.value.args[1] == errors.ECODE_STATE
