"""A fail-over looks whether the other side has the data, also where nothing runs (doc/design-drbd.rst)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.creation import OnDisks
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, Mirrors, _Empty

from ganeti import errors, objects, opcodes

HERE, THERE = "node1.example.org", "node2.example.org"
BOTH = [False, True]


class Stopped:
    """An instance with two mirrored disks that is stopped; ``turned``: its primary node is the second one, not the first."""

    def __init__(self, master: Master, turned: bool = False):
        self.master = master
        self._first, self._second = (1, 0) if turned else (0, 1)
        self.mirrors = Mirrors(master)
        sizes = {"size": 1024}, {"size": 512}
        master.Run(OnDisks(WEB, *sizes, disk_template="drbd", snode="node2", start=True))
        if turned:
            master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
        master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))

    def Mark(self, state: str) -> None:
        """The metadata of the second side says this of its first disk."""
        (disk, _) = self.Disks()
        path = "/dev/{}/{}".format(*disk.children[1].logical_id)
        self.mirrors.machines[self._second].MetaOn(path).state = state

    def LoseVolume(self) -> None:
        self.master[self._second].lvm.lvs.clear()

    def Disks(self) -> tuple[objects.Disk, ...]:
        return self.master.snapshot.InstanceDisks(self.master.Instance(WEB))

    def TakeOff(self) -> None:
        """The machine of the first side is lost, and marked offline."""
        master = self.master
        master[self._first].Stop()
        master.cfg.Update(master.snapshot.nodes[master.nodes[self._first]].Replace(offline=True))

    def FailOver(self, accept: bool = False) -> None:
        self.master.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=accept))

    def Refused(self, accept: bool = False) -> tuple[str, str]:
        """Return the error of a fail-over and what it advises; nothing has changed by it."""
        with pytest.raises(errors.OpExecError) as caught:
            self.FailOver(accept)
        assert self.Primary() == HERE and self.mirrors.States() == [[], [], []], "as it was"
        assert not self.master.Instance(WEB).disks_active
        assert all(disk.behind is None for disk in self.Disks())
        return str(caught.value), str(caught.value.hint)

    def Primary(self) -> str:
        return str(self.master.snapshot.NodeName(self.master.Instance(WEB).primary_node))


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def test_where_the_data_is_a_stopped_instance_moves(three: Master) -> None:
    stopped = Stopped(three)
    stopped.FailOver()
    assert stopped.Primary() == THERE and stopped.mirrors.States() == [[], [], []]
    stopped.master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert stopped.mirrors.States()[:2] == [[SECONDARY] * 2, [PRIMARY] * 2]


@pytest.mark.parametrize("accept", BOTH)
def test_a_stopped_instance_is_not_moved_to_a_side_whose_volume_is_gone(three: Master, accept: bool) -> None:
    stopped = Stopped(three)
    stopped.LoseVolume()
    error, hint = stopped.Refused(accept)
    assert (
        f"Disk disk/0 of instance {WEB} is Diskless on target node {THERE}, its storage failed or is missing" in error
    )
    assert f"'gnt-instance replace-disks --on-secondary {WEB}'" in hint
    stopped.master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary"))
    stopped.FailOver(accept)
    assert stopped.Primary() == THERE


@pytest.mark.parametrize("accept", BOTH)
def test_a_stopped_instance_is_not_moved_to_a_side_that_was_never_filled(three: Master, accept: bool) -> None:
    stopped = Stopped(three)
    stopped.Mark("Inconsistent")
    error, hint = stopped.Refused(accept)
    assert f"Disk disk/0 of instance {WEB} is Inconsistent on target node {THERE}, which does not have all" in error
    assert "storage failed" not in error
    assert f"'gnt-instance activate-disks --wait-for-sync {WEB}', which fills it from node {HERE}" in hint
    stopped.master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    stopped.FailOver(accept)
    assert stopped.Primary() == THERE


def test_a_stopped_instance_moves_to_an_outdated_side_on_request_only(three: Master) -> None:
    stopped = Stopped(three)
    stopped.Mark("Outdated")
    error, hint = stopped.Refused()
    assert f"Disk disk/0 of instance {WEB} is Outdated on target node {THERE}" in error
    assert f"'gnt-instance activate-disks --wait-for-sync {WEB}'" in hint
    assert f"'gnt-instance failover --ignore-consistency {WEB}'" in hint
    stopped.FailOver(accept=True)
    assert stopped.Primary() == THERE
    assert any("Ignoring that disk disk/0 is Outdated" in text for text in stopped.master.last.messages)


def test_a_side_that_cannot_be_set_up_or_seen_is_no_target(three: Master) -> None:
    stopped = Stopped(three)
    node = stopped.master[1]
    node.faults["blockdev_assemble"] = "no module"
    error, _ = stopped.Refused(accept=True)
    assert f"Disk disk/0 of instance {WEB} cannot be set up on target node {THERE}" in error and "no module" in error
    node.faults.clear()
    node.faults["drbd_views"] = "it hangs"
    error, hint = stopped.Refused(accept=True)
    assert f"Node {THERE} does not report the state of the disks of instance {WEB}" in error
    assert "try again" in hint


@pytest.mark.req("D20-FOA-03")
@pytest.mark.parametrize("third", BOTH, ids=["to the secondary", "to a third node"])
@pytest.mark.parametrize("state", ["Diskless", "Inconsistent"])
def test_the_loss_of_the_primary_does_not_make_up_for_missing_data(three: Master, state: str, third: bool) -> None:
    """The only complete copy would be recorded as one that does not count."""
    stopped = Stopped(three, turned=True)
    if state == "Diskless":
        stopped.LoseVolume()
    else:
        stopped.Mark(state)
    stopped.TakeOff()
    target = "node3" if third else None
    with pytest.raises(errors.OpExecError, match=f"Disk disk/0 of instance {WEB} is {state} on target node") as caught:
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node=target, ignore_consistency=True))
    hint = str(caught.value.hint)
    assert f"when node {THERE} is back" in hint and f"if node {THERE} is lost, restore {WEB} from a backup" in hint
    assert stopped.Primary() == THERE and all(disk.behind is None for disk in stopped.Disks())


def test_a_primary_that_is_lost_while_it_fills_the_other_side(three: Master) -> None:
    stopped = Stopped(three, turned=True)
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    stopped.mirrors.machines[1].LosePower()
    for device in stopped.mirrors.machines[0].devices.values():
        device.disk = "Inconsistent"
    stopped.mirrors.links.Publish()
    stopped.TakeOff()
    with pytest.raises(errors.OpExecError, match=f"Disk disk/0 of instance {WEB} is Inconsistent on target node"):
        stopped.FailOver(accept=True)
    assert stopped.Primary() == THERE and all(disk.behind is None for disk in stopped.Disks())


@pytest.mark.parametrize("silent", BOTH)
def test_a_primary_that_is_lost_while_the_other_side_is_not_set_up(three: Master, silent: bool) -> None:
    """The other node has just restarted: what its volumes hold is looked at before the copy of the lost one is given up."""
    stopped = Stopped(three, turned=True)
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    for machine in stopped.mirrors.machines[:2]:
        machine.LosePower()
    stopped.master[0].lvm.lvs.clear()
    stopped.TakeOff()
    if silent:
        stopped.master[0].faults["drbd_views"] = "it hangs"
    words = "does not report the state" if silent else "Disk disk/0 .* is Diskless on target node"
    with pytest.raises(errors.OpExecError, match=words):
        stopped.FailOver()
    assert stopped.Primary() == THERE and all(disk.behind is None for disk in stopped.Disks())


def test_a_target_that_stays_set_up_after_the_look_is_named(three: Master) -> None:
    stopped = Stopped(three)
    stopped.Mark("Outdated")
    three[1].faults["blockdev_shutdown"] = "it is in use"
    with pytest.raises(errors.OpExecError, match="Outdated on target node"):
        stopped.FailOver()
    for name in ("disk/0", "disk/1"):
        expected = f"{name} could not be taken down on {THERE}"
        assert any(expected in text and "it is in use" in text for text in three.last.messages), name


# --- an administrator chooses the primary's side --------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["Diskless", "Inconsistent", "Outdated"])
def test_the_other_side_is_not_given_up_for_one_without_the_data(three: Master, state: str) -> None:
    """Nothing runs, so no node knows of the data before somebody looks; the other side is the only good one."""
    stopped = Stopped(three)
    stopped.FailOver()
    if state == "Diskless":
        stopped.LoseVolume()
    else:
        stopped.Mark(state)
    with pytest.raises(errors.OpExecError) as caught:
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node1"))
    assert f"Disk disk/0 of instance {WEB} is {state} on primary node {THERE}" in str(caught.value)
    assert f"'gnt-instance failover {WEB}', which uses the copy on node {HERE}" in str(caught.value.hint)
    assert all(disk.behind is None for disk in stopped.Disks()) and stopped.mirrors.States() == [[], [], []]
    stopped.FailOver()
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert stopped.Primary() == HERE and [role for _, role, _ in stopped.mirrors.States()[0]] == ["Primary"] * 2


def test_an_outdated_side_may_be_chosen_when_the_record_says_that_it_counts(three: Master) -> None:
    stopped = Stopped(three)
    stopped.Mark("Outdated")
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    stopped.mirrors.links.Cut()
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    stopped.Mark("Outdated")
    stopped.FailOver(accept=True)
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node1"))
    assert [role for _, role, _ in stopped.mirrors.States()[1]] == ["Primary"] * 2


def test_a_node_that_does_not_say_how_its_side_is_may_be_chosen(three: Master) -> None:
    """It is for a split brain: what cannot be seen is the administrator's to know."""
    stopped = Stopped(three)
    three[0].faults["drbd_views"] = "it hangs"
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node2"))
    assert all(disk.behind is not None for disk in stopped.Disks())


def test_disks_in_use_are_not_taken_down_when_the_first_look_is_not_answered(three: Master) -> None:
    """Which of them were set up only for the look is not known then."""
    stopped = Stopped(three)
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    stopped.mirrors.links.Cut()
    node = three[0]

    def once(name: str, _args: object) -> None:
        # The check of the request asks first, then the job.
        if name == "drbd_views" and node.calls.count(name) == looks + 2:
            raise errors.RpcCallError("it hangs")

    looks = node.calls.count("drbd_views")
    taken_down = node.calls.count("blockdev_shutdown")
    node.before = once
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node2"))
    assert node.calls.count("drbd_views") >= looks + 2
    assert node.calls.count("blockdev_shutdown") == taken_down
    assert [role for _, role, _ in stopped.mirrors.States()[0]] == ["Primary"] * 2
