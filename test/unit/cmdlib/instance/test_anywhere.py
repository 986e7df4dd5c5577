"""Moving mirrors to a third node, with the real driver and played programs: refusals, stopped instances, what a failure leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, Mirrors, _Add, _Empty

from ganeti import errors, opcodes


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Failover(master: Master, **values: Any) -> None:
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node="node3", **values))


def _Nodes(master: Master) -> list[int]:
    web = master.Instance(WEB)
    return [master.nodes.index(uuid) + 1 for uuid in (web.primary_node, *master.snapshot.SecondaryNodes(web))]


def _SetNode(master: Master, number: int, **values: Any) -> None:
    master.cfg.Update(master.snapshot.nodes[master.nodes[number - 1]].Replace(**values))


def test_a_stopped_instance_moves_and_stays_stopped(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    _Failover(three)
    assert _Nodes(three) == [3, 1] and mirrors.Volumes() == [4, 0, 4]
    assert mirrors.States() == [[], [], []], "its disks are not active, as before"
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert mirrors.States() == [[SECONDARY] * 2, [], [PRIMARY] * 2]


def _OnDeadNode(master: Master) -> Mirrors:
    """The instance runs on the second node, which has died and is marked offline."""
    mirrors = Mirrors(master)
    _Add(master, start=True)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    master[1].Stop()
    mirrors.machines[1].LosePower()
    _SetNode(master, 2, offline=True)
    return mirrors


def test_the_secondary_of_a_dead_node_counts_alone(three: Master) -> None:
    """Nobody saw the guest end: what its node may still have written there does not count from then on."""
    mirrors = _OnDeadNode(three)
    records = []

    def look(name: str, _args: Any) -> None:
        if name == "blockdev_assemble":
            records.append([disk.behind and disk.behind["node"] for disk in three.snapshot.disks.values()])

    three[0].before = look
    _Failover(three)
    assert records[0] == [three.nodes[1]] * 2
    assert _Nodes(three) == [3, 1] and [disk.behind for disk in three.snapshot.disks.values()] == [None] * 2
    assert mirrors.States()[0] == [SECONDARY] * 2 and mirrors.States()[2] == [PRIMARY] * 2


def test_a_dead_node_is_never_the_primary_one_again_because_the_start_elsewhere_failed(three: Master) -> None:
    """Not even for a moment: the job may end there, and the complete copy is on another node."""
    _OnDeadNode(three)
    seen = [2]

    def look(_position: Any, _rows: Any) -> None:
        node = three.nodes.index(three.Instance(WEB).primary_node) + 1
        if node != seen[-1]:
            seen.append(node)

    three.store.Listen(look)
    three[2].faults["blockdev_assemble"] = "no volumes"
    with pytest.raises(errors.OpExecError, match=r"its complete copy is on node1") as caught:
        _Failover(three)
    assert seen == [2, 1, 3, 1]
    assert caught.value.hint == f"use 'gnt-instance startup {WEB}' to run it there"
    three[2].faults.clear()
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert WEB in three[0].guests


def test_nodes_that_it_cannot_move_to_or_from(three: Master) -> None:
    _Add(three, start=True)
    for key, value, problem in (
        ("drained", True, "drained"),
        ("offline", True, "offline"),
        ("vm_capable", False, "vm"),
    ):
        _SetNode(three, 3, **{key: value})
        for kind in (opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate):
            with pytest.raises(errors.OpPrereqError, match=problem):
                three.Run(kind(instance_name=WEB, target_node="node3"))
        _SetNode(three, 3, **{key: not value})
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    three[1].Stop()
    _SetNode(three, 2, offline=True)
    with pytest.raises(errors.OpPrereqError, match=r"cannot be migrated: its node node2\S* is offline") as caught:
        three.Run(opcodes.OpInstanceMigrate(instance_name=WEB, target_node="node3"))
    assert caught.value.hint == f"use 'gnt-instance failover -n node3.example.org {WEB}'"


def test_a_guest_that_cannot_be_stopped_stays_where_it_is(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    three[0].faults["instance_shutdown"] = "it does not end"
    for values in ({}, {"ignore_consistency": True}):
        with pytest.raises(errors.OpExecError, match=r"(?i)could not be shut down|still runs"):
            _Failover(three, **values)
        assert _Nodes(three) == [1, 2] and mirrors.Volumes() == [4, 4, 0]
        assert mirrors.States() == [[PRIMARY] * 2, [SECONDARY] * 2, []]


def test_a_copy_that_is_not_complete_is_not_moved(three: Master) -> None:
    """The new side would be filled from a device that is not connected to the good one."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    three[2].faults["blockdev_create"] = "the disk is broken"
    with pytest.raises(errors.OpExecError, match="the disk is broken"):
        _Failover(three)
    assert _Nodes(three) == [1, 2] and mirrors.Volumes() == [4, 4, 0]
    del three[2].faults["blockdev_create"]
    _Failover(three)
    assert _Nodes(three) == [3, 1] and mirrors.Volumes() == [4, 0, 4]


def test_what_to_do_when_a_node_does_not_answer_after_a_migration(three: Master) -> None:
    """Its disks are as the migration had set them up."""
    _Add(three, start=True)

    def die(name: str, _args: Any) -> None:
        if name == "accept_instance":
            three[1].Stop()

    three[1].before = die
    with pytest.raises(errors.OpExecError, match="it is not known what runs on node2") as caught:
        three.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert str(caught.value).endswith(f"; after that, use 'gnt-instance migrate --cleanup {WEB}'")
