"""The only complete copy of a disk is lost for good, and the primary node has an older one: somebody may accept that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, _Empty
from unit.cmdlib.instance.test_served import FIRST, SECOND, Served

from ganeti import errors, opcodes
from ganeti.params import runstate

ACCEPT = f"'gnt-instance activate-disks --behind {SECOND} --ignore-consistency {WEB}'"
ALONE = [("WFConnection", "Primary", "UpToDate")] * 2


class Stranded(Served):
    """A stopped instance, all of whose writes since its own disks failed are on the second node only."""

    def __init__(self, master: Master, running: bool = False):
        super().__init__(master)
        self.FailDisks(0)
        self.Settle()
        if not running:
            master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))

    def LoseNewer(self, how: str) -> None:
        if how == "disk":
            self.master[1].lvm.lvs.clear()
        else:
            self.mirrors.machines[1].LosePower()
            self.master[1].Stop()
            self._Mark(offline=how == "offline")

    def Accept(self, accept: bool = True, ignore_size: bool = False) -> None:
        self.master.Run(
            opcodes.OpInstanceActivateDisks(
                instance_name=WEB, behind="node2", ignore_consistency=accept, ignore_size=ignore_size
            )
        )

    def Refused(self) -> tuple[str, str]:
        """Return why the older copies are not used, and what to do; nothing has changed by it."""
        with pytest.raises((errors.OpExecError, errors.OpPrereqError)) as caught:
            self.Accept()
        assert self.Behind() == [FIRST] * 2, "as it was"
        return str(caught.value), str(caught.value.hint)


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


@pytest.mark.parametrize("how", ["disk", "offline"])
def test_the_older_copy_is_used_when_somebody_accepts_it(three: Master, how: str) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer(how)
    for force in (False, True):
        hint = stranded.StartRefused(force=force)
        assert f"if the copy on node {SECOND} is lost for good, {ACCEPT} uses the older one on node {FIRST}" in hint
    with pytest.raises(errors.OpPrereqError, match="cannot give up the newer copies") as caught:
        stranded.Accept(accept=False)
    assert ACCEPT in str(caught.value.hint)
    stranded.Accept()
    assert stranded.Behind() == [SECOND] * 2
    assert stranded.mirrors.States()[0] == (ALONE if how != "disk" else [("Connected", "Primary", "UpToDate")] * 2)
    assert any("what was written after that is given up, as requested" in text for text in three.last.messages)
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    if how == "disk":
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary"))
    else:
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3"))
    new = 1 if how == "disk" else 2
    assert [stranded.mirrors.States()[number] for number in (0, new)] == [[PRIMARY] * 2, [SECONDARY] * 2]
    assert stranded.Behind() == [None, None]


def test_a_newer_copy_that_comes_back_after_all_gives_up_what_it_has(three: Master) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer("offline")
    stranded.Accept()
    stranded.Return()
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert stranded.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    stranded.Settle()
    assert stranded.Behind() == [None, None]


def test_a_newer_copy_whose_disk_comes_back_on_a_link_gives_up_what_it_has(three: Master) -> None:
    """The kernel attaches nothing to a link beside which both sides have something of their own."""
    stranded = Stranded(three)
    away = dict(three[1].lvm.lvs)
    stranded.LoseNewer("disk")
    stranded.Accept()
    assert stranded.mirrors.States()[1] == [("Connected", "Secondary", "Diskless")] * 2
    three[1].lvm.lvs.update(away)
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert stranded.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    stranded.Settle()
    assert stranded.Behind() == [None, None]


@pytest.mark.parametrize("left", ["its disk", "its device", "a device that nobody can take down"])
def test_what_is_left_of_the_newer_copy_does_not_overwrite_the_older_one(three: Master, left: str) -> None:
    """It would be lost with the newer one, should that fail before it has been copied."""
    stranded = Stranded(three, running=True)
    links = stranded.mirrors.links
    if left == "its disk":
        three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    else:
        stranded.mirrors.machines[0].LosePower()
        three[0].KillGuest(WEB)
    if left == "a device that nobody can take down":
        three[1].Stop()
        stranded._Mark(offline=True)
    # A resync takes its time.
    links.hold = True
    filled: list[str] = []
    three[0].before = lambda name, args: filled.extend(
        device.link for device in stranded.mirrors.machines[0].devices.values() if device.link == "SyncTarget"
    )
    stranded.Accept()
    assert not filled
    here, there = stranded.mirrors.States()[:2]
    assert {(role, disk) for _, role, disk in here} == {("Primary", "UpToDate")}
    if left == "a device that nobody can take down":
        assert not any("Sync" in link or link == "Connected" for link, _, _ in [*here, *there])
    else:
        assert {link for link, _, _ in there} == {"SyncTarget"}
    links.Finish()


@pytest.mark.parametrize("after", ["the same", "startup", "activate-disks", "activate-disks --behind"])
def test_a_way_back_that_was_cut_off_is_gone_whoever_comes_next(three: Master, after: str) -> None:
    """The record is turned, and one of the older copies could not be opened; the newer one would fill it."""
    stranded = Stranded(three)
    stranded.mirrors.links.hold = True
    opened: list[str] = []

    def before(name: str, args: Any) -> None:
        # Not the look, which opens nothing.
        if name == "blockdev_assemble" and args[2]:
            opened.append(name)
            if len(opened) == 2:
                raise errors.RpcCallError("the node is too busy")

    three[0].before = before
    with pytest.raises(errors.OpExecError, match="Cannot activate the block devices") as caught:
        stranded.Accept()
    assert stranded.mirrors.States()[1] == [] and caught.value.hint == "repeat the command"
    assert stranded.Behind() == [SECOND] * 2
    three[0].before = lambda *_: None
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB, timeout=0))
    if after == "the same":
        stranded.Accept()
    elif after == "startup":
        three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    else:
        behind = "node2" if after.endswith("behind") else None
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind=behind))
    assert stranded.mirrors.States()[:2] == [
        [("SyncSource", "Primary", "UpToDate")] * 2, [("SyncTarget", "Secondary", "Inconsistent")] * 2,
    ]  # fmt: skip
    stranded.mirrors.links.Finish()


def test_who_has_gone_back_need_not_end_the_guest_to_do_it_again(three: Master) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer("offline")
    stranded.Accept()
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match=r"uses its copies on node node1.* already") as caught:
        stranded.Accept()
    assert caught.value.hint is None


def test_all_disks_end_at_the_same_node(three: Master) -> None:
    """The record names the one side of one disk, the other side of another, and none of a third."""
    stranded = Stranded(three)
    first, second = three.Instance(WEB).disks
    three.cfg.SetDisksBehind([first], three.nodes[1])
    three.cfg.SetDisksBehind([second], three.nodes[0])
    stranded.LoseNewer("offline")
    stranded.Accept()
    assert stranded.Behind() == [SECOND] * 2
    told = [text for text in three.last.messages if "is given up, as requested" in text]
    assert len(told) == 1 and "disk/1" in told[0] and "disk/0" not in told[0]


def test_no_command_is_named_that_refuses(three: Master) -> None:
    """All who meet the loss say the same, and what they name helps."""
    stranded = Stranded(three, running=True)
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    stranded.LoseNewer("disk")
    with pytest.raises(errors.OpExecError, match=r"disk/0 .* cannot be set up on target node") as fail_over:
        stranded.FailOver()
    with pytest.raises(errors.OpPrereqError, match="would keep copies that do not count") as replacement:
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary"))
    for caught in (fail_over, replacement):
        assert ACCEPT in str(caught.value.hint) and "--on-secondary" not in str(caught.value.hint)
    stranded.Accept()
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary"))
    stranded.FailOver()


def test_verify_says_when_the_newer_copy_is_gone_too(three: Master) -> None:
    """It was lost while the instance was to run, and neither side can be opened."""
    stranded = Stranded(three, running=True)
    for machine in stranded.mirrors.machines[:2]:
        machine.LosePower()
    stranded.LoseNewer("disk")
    with pytest.raises(errors.OpExecError):
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    three.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    found = [text for text in three.last.messages if "disk/0 on node" in text and "behind since" in text]
    assert len(found) == 1 and ACCEPT in found[0] and "replace-disks" not in found[0]
    assert f"the newer one, on node {SECOND}, has no complete data; if its disk can be read again" in found[0]


def test_an_older_copy_that_is_looked_at_is_not_filled(three: Master) -> None:
    """The node of the newer one is marked offline, and is not off: its disk may fail before all has been copied."""
    served = Served(three)
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    links = served.mirrors.links
    links.Cut()
    served.Settle()
    assert served.Behind() == [FIRST] * 2
    served.mirrors.machines[0].LosePower()
    links.hold = True
    links.Heal()
    served._Mark(offline=True)
    seen: list[str] = []
    three[0].before = lambda name, args: seen.extend(link for link, _, _ in served.mirrors.States()[0])
    op = opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True)
    three.Run(op)
    assert "SyncTarget" not in seen and "StandAlone" in seen
    assert {(role, disk) for _, role, disk in served.mirrors.States()[0]} == {("Primary", "UpToDate")}


def test_whoever_may_lose_the_newer_copy_is_told_before(three: Master) -> None:
    """The instance is stopped, so that nothing fills the older one; then the other node is said to be off."""
    Stranded(three)
    three.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    found = [text for text in three.last.messages if "disk/0 on node" in text and "behind since" in text]
    assert len(found) == 1 and ACCEPT in found[0]
    assert f"to fill it, use 'gnt-instance activate-disks --wait-for-sync {WEB}'" in found[0]
    three.Run(opcodes.OpNodeSetParams(node_name=SECOND, offline=True))
    told = "\n".join(three.last.messages)
    assert f"the copy of disk/0 on node {FIRST} has been behind since" in told and ACCEPT in told
    assert "replace-disks -n" not in told, "which would be refused"


def test_an_outdated_copy_without_a_record_is_used_only_when_somebody_accepts_it(three: Master) -> None:
    """Somebody took the link down by hand, the guest went on alone, and its node is lost."""
    served = Served(three)
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    for device in served.mirrors.machines[0].devices.values():
        device.disk = device.known.state = "Outdated"
    served.mirrors.links.Cut()
    served.mirrors.machines[1].LosePower()
    three[1].Stop()
    served._Mark(offline=True)
    with pytest.raises(errors.OpExecError, match=f"is Outdated on target node {FIRST}: the other side") as caught:
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert f"'gnt-instance failover --ignore-consistency {WEB}'" in str(caught.value.hint)
    assert served.Behind() == [None, None]
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    assert {(role, disk) for _, role, disk in served.mirrors.States()[0]} == {("Primary", "UpToDate")}


# --- when it is not ---------------------------------------------------------------------------------------------------


def test_a_guest_that_has_seen_the_newer_copy_is_ended_before(three: Master) -> None:
    stranded = Stranded(three, running=True)
    stranded.mirrors.machines[1].LosePower()
    error, hint = stranded.Refused()
    assert f"cannot go back to its older copies: it runs on node {FIRST}, with what the newer ones have" in error
    assert f"end the instance first with 'gnt-instance shutdown --timeout 0 {WEB}'" in hint
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB, timeout=0))
    stranded.LoseNewer("offline")
    stranded.Accept()
    assert stranded.mirrors.States()[0] == ALONE


def test_disks_that_are_open_without_a_guest_are_closed_before(three: Master) -> None:
    stranded = Stranded(three)
    away = dict(three[0].lvm.lvs)
    three[0].lvm.lvs.clear()
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    three[0].lvm.lvs.update(away)
    stranded.LoseNewer("offline")
    error, _ = stranded.Refused()
    assert "its disks are open" in error
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB, timeout=0))
    stranded.Accept()


def test_a_guest_that_was_sent_away_may_be_the_newest_and_is_not_ended_unasked(three: Master) -> None:
    """It went to the node that is lost, and stands still here: somebody may want to resume it."""
    stranded = Stranded(three)
    three[0].StartGuest(WEB, state=runstate.SENT)
    stranded.LoseNewer("offline")
    error, _ = stranded.Refused()
    assert "cannot go back to its older copies: it does not run on any node" in error
    assert WEB in three[0].guests
    assert f"to start it anew from its disks, use 'gnt-instance shutdown {WEB}'" in error
    assert f"to resume the copy on {FIRST}" in error
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    stranded.Accept()
    assert stranded.mirrors.States()[0] == ALONE


def test_a_node_that_does_not_answer_may_have_the_guest(three: Master) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer("silent")
    error, _ = stranded.Refused()
    assert "cannot go back to its older copies: it is not known what runs on" in error
    assert f"'gnt-node modify --offline yes {SECOND}'" in error
    stranded._Mark(offline=True)
    stranded.Accept()


def test_a_disk_that_is_smaller_than_recorded_can_be_looked_at(three: Master) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer("offline")
    disks = three.snapshot.InstanceDisks(three.Instance(WEB))
    three.cfg.UpdateMany([disk.Replace(size=disk.size + 64) for disk in disks], "")
    error, _ = stranded.Refused()
    assert f"Disk disk/0 of instance {WEB} cannot be set up on primary node {FIRST}" in error and "Low.dev." in error
    stranded.Accept(ignore_size=True)
    assert stranded.mirrors.States()[0] == ALONE


@pytest.mark.parametrize("state", ["Diskless", "Inconsistent"])
def test_data_that_is_not_complete_is_never_used(three: Master, state: str) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer("offline")
    if state == "Diskless":
        three[0].lvm.lvs.clear()
    else:
        (disk, _) = three.snapshot.InstanceDisks(three.Instance(WEB))
        path = "/dev/{}/{}".format(*disk.children[1].logical_id)
        stranded.mirrors.machines[0].MetaOn(path).state = state
    error, hint = stranded.Refused()
    reason = "volumes on this node cannot be used" if state == "Diskless" else f"is {state} on primary node {FIRST}"
    assert f"Disk disk/0 of instance {WEB}" in error and reason in error
    assert f"restore {WEB} from a backup" in hint
    assert stranded.mirrors.States() == [[], [], []]


def test_a_node_that_does_not_say_how_its_copies_are_is_not_believed(three: Master) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer("offline")
    three[0].faults["drbd_views"] = "it hangs"
    error, _ = stranded.Refused()
    assert f"Node {FIRST} does not report the state of the disks of instance {WEB}" in error
    three[0].faults.clear()
    three[0].faults["blockdev_assemble"] = "no module"
    error, _ = stranded.Refused()
    assert f"Disk disk/0 of instance {WEB} cannot be set up on primary node {FIRST}" in error and "no module" in error


def test_whose_copies_are_given_up_must_be_said(three: Master) -> None:
    Stranded(three)
    with pytest.raises(errors.OpPrereqError, match="it must be said whose copies are given up"):
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, ignore_consistency=True))
    op = opcodes.OpInstanceActivateDisks(instance_name=WEB, ignore_consistency=True, behind="node2", wait_for_sync=True)
    with pytest.raises(errors.OpPrereqError, match="the copies on node node2 may be lost"):
        three.Run(op)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_guest_on_the_other_node_is_not_started_a_second_time(three: Master, recorded: bool) -> None:
    """Nobody knows why it runs there: the link is cut, and the primary's side may be outdated without a record."""
    stranded = Stranded(three)
    instance = three.Instance(WEB).Replace(attempt=three.nodes[1])
    stranded.mirrors.links.Cut()
    for index, disk in enumerate(three.snapshot.InstanceDisks(instance)):
        three.rpc.call_blockdev_assemble(three.nodes[1], (disk, instance), instance, True, index).Raise("no disk")
    three.rpc.call_instance_start(three.nodes[1], instance, False, []).Raise("no guest")
    if not recorded:
        three.cfg.SetDisksBehind(instance.disks, None)
    for silent in (False, True):
        if silent:
            three[0].faults["instance_run_state"] = "it hangs"
        for accept in (True, False):
            with pytest.raises(errors.OpPrereqError, match=r"cannot g.*node2.*: running"):
                stranded.Accept(accept)
    assert stranded.mirrors.States()[0] == []


def test_a_device_that_is_open_on_the_other_node_is_closed_before(three: Master) -> None:
    stranded = Stranded(three)
    instance = three.Instance(WEB)
    (disk, _) = three.snapshot.InstanceDisks(instance)
    three.rpc.call_blockdev_assemble(three.nodes[1], (disk, instance), instance, True, 0).Raise("no disk")
    stranded.mirrors.links.Cut()
    error, _ = stranded.Refused()
    assert f"its disks are open on node {SECOND}, with" in error


def test_a_copy_that_stays_set_up_on_the_other_node_is_in_the_way(three: Master) -> None:
    stranded = Stranded(three)
    three[1].faults["blockdev_shutdown"] = "it is in use"
    error, _ = stranded.Refused()
    assert f"Disk disk/0 of instance {WEB} cannot be taken down on node {SECOND}, as it must be" in error
    assert "it is in use" in error


# --- without that option ------------------------------------------------------------------------------------------------


def test_nobody_gives_up_a_silent_node_without_saying_so(three: Master) -> None:
    served = Served(three)
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    served.mirrors.machines[1].LosePower()
    three[1].Stop()
    with pytest.raises(errors.OpExecError, match="Cannot activate the block devices"):
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert served.Behind() == [None, None]
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node2"))
    assert served.Behind() == [SECOND] * 2 and served.mirrors.States()[0] == ALONE


def test_an_activation_that_fails_says_what_is_left(three: Master) -> None:
    stranded = Stranded(three)
    stranded.LoseNewer("offline")
    with pytest.raises(errors.OpExecError, match="Cannot activate the block devices") as caught:
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert ACCEPT in str(caught.value.hint)


def test_verify_tells_which_of_two_copies_is_left(three: Master) -> None:
    """The record names the secondary's side, and the primary's has failed since."""
    served = Served(three)
    served.mirrors.links.Cut()
    served.Settle()
    served.FailDisks(0)
    three.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    (found,) = [text for text in three.last.messages if f"disk/0 on node {SECOND} has been behind since" in text]
    assert f"the newer one, on node {FIRST}, has no complete data" in found
    assert f"if the copy on node {FIRST} is lost for good, 'gnt-instance failover --ignore-consistency {WEB}'" in found
