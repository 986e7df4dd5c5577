"""Jobs that move mirrored instances, when somebody else has moved these since the jobs were planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.asking import Answering
from support.master import Callbacks, Master
from support.moving import Hail, RunWithJobs
from support.sidejobs import SideJob

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib import LU_MAPPING

WEB = "web.example.org"
OTHER = "0000aaaa-0000-4000-8000-00000000000b"
EMPTY = "0000aaaa-0000-4000-8000-00000000000c"


@pytest.fixture
def four(make: Callable[..., Master]) -> Master:
    """Four nodes; the first two have one mirrored instance, which runs on the first."""
    return make(4, lvm=True)


def _TwoGroups(root: objects.Snapshot) -> objects.Snapshot:
    """The third and fourth node are in a group of their own; a third group has no nodes."""
    [first] = root.nodegroups.values()
    groups = [first, first.Replace(uuid=OTHER, name="other"), first.Replace(uuid=EMPTY, name="empty")]
    nodes = list(root.nodes.values())
    moved = [*nodes[:2], *(node.Replace(group=OTHER) for node in nodes[2:])]
    return root.Replace(nodegroups={group.uuid: group for group in groups}, nodes={node.uuid: node for node in moved})


@pytest.fixture
def groups(make: Callable[..., Master]) -> Master:
    return make(4, lvm=True, change=_TwoGroups, prepare=lambda master: master[0].AddAllocator("mine", Hail()))


def _Jobs(master: Master, op: opcodes.OpCode) -> list[Any]:
    """Run an opcode; return the opcodes of the jobs that it submits."""
    callbacks = Callbacks()
    master.Run(op, callbacks)
    return [part for job in callbacks.jobs for part in job]


def _Nodes(master: Master, name: str = WEB) -> list[int]:
    """The numbers of an instance's nodes, the primary first."""
    return [1 + master.nodes.index(uuid) for uuid in master.snapshot.AllNodes(master.Instance(name))]


def _EmptyNode1(master: Master) -> list[Any]:
    return _Jobs(master, opcodes.OpNodeEvacuate(node_name="node1", mode="all", iallocator="hail"))


def test_an_offline_node_stays_the_secondary_one_of_what_fails_over_from_it(four: Master) -> None:
    """A program asks for two moves "to the other side": there, and back."""
    move = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": WEB}
    moved = [
        [WEB, four.snapshot.nodegroups[four.snapshot.nodes[four.nodes[0]].group].name, [four[0].name, four[1].name]]
    ]
    four[0].AddAllocator("mine", Answering([moved, [], [[move, move]]]))
    four.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    node = four.snapshot.nodes[four.nodes[1]]
    four.cfg.Update(node.Replace(offline=True, master_candidate=False))
    jobs = _Jobs(four, opcodes.OpNodeEvacuate(node_name="node2", mode="primary-only", iallocator="mine"))
    assert [op.target_node for op in jobs] == [four[0].name, four[1].name]


def _ChangeGroup(master: Master, *targets: str) -> opcodes.OpInstanceChangeGroup:
    return opcodes.OpInstanceChangeGroup(instance_name=WEB, iallocator="mine", target_groups=[*targets] or None)


_THERE = "Node node2.example.org is the primary node of instance web.example.org already; nothing was moved"


# --- an emptied node ----------------------------------------------------------------------------------------------------


@pytest.mark.req("IAL-08")
def test_two_evacuations_of_a_node_do_not_undo_each_other(four: Master) -> None:
    first, second = _EmptyNode1(four), _EmptyNode1(four)
    four.Run(first[0])
    with pytest.raises(errors.OpPrereqError, match=_THERE) as caught:
        four.Run(second[0])
    assert caught.value.args[1] == errors.ECODE_STATE
    assert _Nodes(four) == [2, 1] and WEB in four[1].guests and WEB not in four[0].guests
    assert [op.OP_ID for op in _Jobs(four, first[1])] == ["OP_INSTANCE_REPLACE_DISKS"]
    RunWithJobs(four, second[1])
    assert four.snapshot.NodeInstances(four.nodes[0]) == ((), ())


def test_an_instance_that_was_moved_by_hand_stays_away(four: Master) -> None:
    [move] = _Jobs(four, opcodes.OpNodeEvacuate(node_name="node1", mode="primary-only", iallocator="hail"))
    four.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match=_THERE):
        four.Run(move)
    assert _Nodes(four) == [2, 1]


def test_two_migrations_of_a_node_do_not_undo_each_other(four: Master) -> None:
    op = opcodes.OpNodeMigrate(node_name="node1")
    [first], [second] = _Jobs(four, op), _Jobs(four, op)
    assert first.target_node == four[1].name
    four.Run(first)
    with pytest.raises(errors.OpPrereqError, match=_THERE):
        four.Run(second)
    assert _Nodes(four) == [2, 1]


def test_primaries_that_are_left_fail_the_second_part(four: Master) -> None:
    """The instance comes back, by hand, before the second part of the evacuation."""
    move, second = _EmptyNode1(four)
    four.Run(move)
    four.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match=rf"still is the primary node of {WEB}; the mirrors") as caught:
        four.Run(second)
    assert four.last.jobs == [] and "gnt-node evacuate node1.example.org" in str(caught.value.hint)
    # Mirrors alone may be moved off a node that has primary instances.
    RunWithJobs(four, opcodes.OpNodeEvacuate(node_name="node2", mode="secondary-only", iallocator="hail"))
    assert _Nodes(four)[0] == 1 and _Nodes(four)[1] != 2
    with pytest.raises(errors.OpPrereqError, match="'emptying' can only be given with mode 'secondary-only'"):
        four.Run(opcodes.OpNodeEvacuate(node_name="node2", mode="all", iallocator="hail", emptying=True))


@pytest.mark.parametrize("values", [{"iallocator": "hail"}, {"remote_node": "node4"}])
def test_a_mirror_that_became_the_primary_is_left_alone(four: Master, values: dict[str, Any]) -> None:
    [replacement] = _Jobs(four, opcodes.OpNodeEvacuate(node_name="node2", mode="secondary-only", **values))
    four.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match=r"is node2\.example\.org, no longer node1\.example\.org"):
        four.Run(replacement)
    assert _Nodes(four) == [2, 1]


def test_the_nodes_are_followed_through_a_job(four: Master) -> None:
    """Whatever an allocator makes of it: a migration to the new secondary, one to a third node, and a fail-over back."""
    name = {"instance_name": WEB}
    job = [
        {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "mode": "replace_new_secondary", "remote_node": four[2].name, **name},
        {"OP_ID": "OP_INSTANCE_MIGRATE", **name},
        {"OP_ID": "OP_INSTANCE_MIGRATE", "target_node": four[3].name, **name},
        {"OP_ID": "OP_INSTANCE_FAILOVER", **name},
        {"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "mode": "replace_auto", **name},
        {"OP_ID": "OP_INSTANCE_FAILOVER", **name},
    ]
    four[0].AddAllocator("mine", Answering([[[WEB, "default", [four[2].name, four[3].name]]], [], [job]]))
    planned = _Jobs(four, opcodes.OpNodeEvacuate(node_name="node1", mode="primary-only", iallocator="mine"))
    assert [getattr(op, "target_node", None) for op in planned] == [
        None, four[2].name, four[3].name, four[2].name, None, four[3].name,
    ]  # fmt: skip
    assert [planned[0].if_primary, planned[4].if_primary] == [four[0].name, four[2].name]
    seen = []
    for op in planned:
        four.Run(op)
        seen.append(_Nodes(four))
    assert seen == [[1, 3], [3, 1], [4, 3], [3, 4], [3, 4], [4, 3]]


def test_the_copy_on_an_offline_node_is_the_one_that_is_given_up(four: Master) -> None:
    four.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    four.cfg.Update(four.snapshot.nodes[four.nodes[1]].Replace(offline=True))
    failover = {"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": WEB}
    job = [{**failover, "target_node": four[2].name}, failover]
    four[0].AddAllocator("mine", Answering([[[WEB, "default", [four[2].name]]], [], [job]]))
    planned = _Jobs(four, opcodes.OpNodeEvacuate(node_name="node2", mode="primary-only", iallocator="mine"))
    assert [op.target_node for op in planned] == [four[2].name, four[0].name]
    four.Run(planned[0])
    assert _Nodes(four) == [3, 1]


# --- changing the group -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_change_of_group_notices_a_failover(groups: Master, done: int) -> None:
    """Wherever it comes between the opcodes: the next one fails, and the same command finishes the change."""
    job = _Jobs(groups, _ChangeGroup(groups, "other"))
    for op in job[:done]:
        groups.Run(op)
    groups.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    before = _Nodes(groups)
    with pytest.raises(errors.OpPrereqError, match=r"is the primary node of instance|no longer"):
        groups.Run(job[done])
    assert _Nodes(groups) == before
    RunWithJobs(groups, _ChangeGroup(groups, "other"))
    assert sorted(_Nodes(groups)) == [3, 4]


@pytest.mark.parametrize(("done", "moves"), [(1, 3), (2, 1)])
def test_a_change_of_group_can_be_repeated(groups: Master, done: int, moves: int) -> None:
    """With the primary in its new group only the mirror follows."""
    for op in _Jobs(groups, _ChangeGroup(groups, "other"))[:done]:
        groups.Run(op)
    assert sorted(_Nodes(groups)) in ([1, 3], [1, 4])
    [job] = RunWithJobs(groups, _ChangeGroup(groups, "other", "empty"))
    assert len(job) == moves and sorted(_Nodes(groups)) == [3, 4]
    with pytest.raises(errors.OpPrereqError, match="uses it already"):
        groups.Run(_ChangeGroup(groups, "other"))


@pytest.mark.parametrize("done", [1, 2])
def test_a_change_of_group_can_be_taken_back(groups: Master, done: int) -> None:
    for op in _Jobs(groups, _ChangeGroup(groups, "other"))[:done]:
        groups.Run(op)
    RunWithJobs(groups, _ChangeGroup(groups, "default"))
    assert sorted(_Nodes(groups)) == [1, 2]


def test_between_two_groups_the_target_must_be_named(groups: Master) -> None:
    groups.Run(_Jobs(groups, _ChangeGroup(groups, "other"))[0])
    with pytest.raises(errors.OpPrereqError, match=r"in several node groups \(default, other\)") as caught:
        groups.Run(_ChangeGroup(groups))
    assert f"gnt-instance change-group --to default {WEB}" in str(caught.value.hint)


def test_a_group_without_nodes_takes_nothing(groups: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="node group empty has no nodes; nothing was moved"):
        groups.Run(_ChangeGroup(groups, "empty"))
    assert groups.last.jobs == []


# --- instances that come and go -----------------------------------------------------------------------------------------

_COMING = opcodes.OpInstanceCreate(
    instance_name="new.example.org", mode="create", disk_template="drbd", disks=[{"size": 1024}], nics=[{}], os_type="noop",
    pnode="node1", snode="node2",
)  # fmt: skip


@pytest.mark.parametrize("other", [opcodes.OpInstanceRemove(instance_name=WEB), _COMING], ids=["goes", "comes"])
@pytest.mark.parametrize("everything", [False, True])
def test_an_instance_that_comes_or_goes_meanwhile(groups: Master, everything: bool, other: opcodes.OpCode) -> None:
    op: opcodes.OpCode = opcodes.OpNodeEvacuate(node_name="node1", mode="primary-only", iallocator="mine")
    what = "The instances of node node1.example.org"
    if everything:
        op = opcodes.OpGroupEvacuate(group_name="default", iallocator="mine")
        what = "The set of instances to move"
    unit: Any = LU_MAPPING[op.OP_ID]

    class Late(unit):  # type: ignore[misc]
        def DeclareLocks(self, level: int) -> None:
            super().DeclareLocks(level)
            if level == locking.LEVEL_INSTANCE:
                with groups.Elsewhere():
                    SideJob(groups, other).Result()

    with pytest.raises(errors.OpPrereqError, match=f"{what} changed while .* nothing was moved, try again") as caught:
        groups.Run(op, units={op.OP_ID: Late})
    assert caught.value.args[1] == errors.ECODE_STATE
