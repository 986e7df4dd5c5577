"""A guest whose primary node has no disk of its own writes to the other node only: who records that, and what follows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, Mirrors, _Add, _Empty

from ganeti import errors, opcodes, runtime
from ganeti.cmdlib.disk import mirrors as both
from ganeti.server.mirrorkeeper import NeedsDecision

FIRST, SECOND = "node1.example.org", "node2.example.org"
SERVED = ("Connected", "Primary", "Diskless")


class Served:
    """Two mirrored disks of a guest that runs on the first node; its numbers are those of the nodes."""

    def __init__(self, master: Master):
        self.master = master
        self.mirrors = Mirrors(master)
        _Add(master, start=True)

    def Behind(self) -> list[str | None]:
        disks = self.master.snapshot.InstanceDisks(self.master.Instance(WEB))
        return [None if disk.behind is None else self.master.snapshot.NodeName(disk.behind["node"]) for disk in disks]

    def FailDisks(self, number: int) -> None:
        """The disks below a node's mirrors fail for a moment; what is on them can be read again later."""
        machine = self.mirrors.machines[number]
        for minor in list(machine.devices):
            machine.Detach(minor)

    def FailFirstDisk(self) -> None:
        """The disk below the first mirror on the guest's node fails: the other node serves that one, and counts."""
        machine = self.mirrors.machines[0]
        machine.Detach(min(machine.devices))
        self.Settle()
        assert self.Behind() == [FIRST, None]

    def Generations(self, number: int) -> list[int]:
        """What each side on a node has, by generation."""
        return [meta.now for _, meta in self.mirrors.machines[number]._metas.values()]

    def FillAgain(self) -> None:
        """The disks below the first node's mirrors have failed; they are complete again, and the record is not yet gone."""
        self.FailDisks(0)
        self.Settle()
        self.master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
        assert self.Behind() == [FIRST] * 2 and self.mirrors.States()[0] == [PRIMARY] * 2

    def LosePower(self) -> None:
        """Both machines are off; the first one comes back, the second one is marked offline."""
        for machine in self.mirrors.machines[:2]:
            machine.LosePower()
        self.master[1].Stop()
        self._Mark(offline=True)

    def Return(self) -> None:
        self.master[1].Start()
        self._Mark(offline=False)

    def _Mark(self, offline: bool) -> None:
        node = self.master.snapshot.nodes[self.master.nodes[1]]
        self.master.cfg.Update(node.Replace(offline=offline))

    def NeedDecisions(self) -> list[bool]:
        master, node = self.master, self.master.nodes[0]
        disks = master.snapshot.InstanceDisks(master.Instance(WEB))
        view = both.Pick(disks, node, master.rpc.call_drbd_states([node])[node].payload)
        return [NeedsDecision(disk, node, view.get(disk.uuid)) for disk in disks]

    def Settle(self) -> None:
        self.master.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))

    def StartRefused(self, **values: Any) -> str:
        """Return what a start that fails advises."""
        with pytest.raises(errors.OpExecError, match="could not be set up") as caught:
            self.master.Run(opcodes.OpInstanceStartup(instance_name=WEB, **values))
        return str(caught.value.hint)

    def FailOver(self) -> None:
        self.master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
        assert self.master.snapshot.NodeName(self.master.Instance(WEB).primary_node) == SECOND


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def test_what_the_failed_disk_of_the_primary_has_is_never_opened_alone(three: Master) -> None:
    """The guest went on with the other node's disk; after a power cut only the first node is there, and its disk again."""
    served = Served(three)
    served.FailDisks(0)
    assert served.mirrors.States()[0] == [SERVED] * 2 and served.NeedDecisions() == [True, True]
    served.Settle()
    assert served.Behind() == [FIRST] * 2 and served.NeedDecisions() == [False, False]
    assert any("is written on the other node only" in text for text in served.master.last.messages)
    served.master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    served.LosePower()
    for force in (False, True):
        hint = served.StartRefused(force=force)
        assert f"node {SECOND} has newer data" in hint and f"'gnt-instance failover {WEB}'" in hint
        assert f"'gnt-node modify --offline no {SECOND}'" in hint
    assert served.Behind() == [FIRST] * 2
    served.Return()
    served.FailOver()
    assert served.Behind() == [FIRST] * 2
    served.master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    served.Settle()
    assert served.Behind() == [None, None], "the first side was filled"


def test_a_served_guest_whose_link_breaks_fails_over_without_accepting_a_loss(three: Master) -> None:
    """All it has written is on the other node, and recorded to be there."""
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    served.mirrors.links.Cut()
    served.FailOver()
    assert served.Behind() == [FIRST] * 2
    assert WEB in three[1].guests and WEB not in three[0].guests
    assert {(role, disk) for _, role, disk in served.mirrors.States()[1]} == {("Primary", "UpToDate")}


@pytest.mark.req("D20-FOA-01")
@pytest.mark.parametrize("failed", [True, False], ids=["one served by the other node", "both whole"])
def test_a_guest_that_stands_still_fails_over_without_accepting_a_loss(three: Master, failed: bool) -> None:
    """The link was lost.  Of a disk that is frozen the other node has every acknowledged write, too."""
    served = Served(three)
    if failed:
        served.FailFirstDisk()
    served.mirrors.links.Cut()
    assert all(device.frozen for device in served.mirrors.machines[0].devices.values())
    served.FailOver()
    assert served.Behind() == [FIRST] * 2
    assert WEB in three[1].guests and WEB not in three[0].guests
    assert {(role, disk) for _, role, disk in served.mirrors.States()[1]} == {("Primary", "UpToDate")}
    served.mirrors.links.Heal()
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    served.Settle()
    assert served.Behind() == [None, None] and served.mirrors.States()[:2] == [[SECONDARY] * 2, [PRIMARY] * 2]


def test_who_accepts_a_loss_needlessly_does_not_leave_the_guest_waiting(three: Master) -> None:
    """It could not be ended as long as what waits on the first node may still count."""
    served = Served(three)
    served.mirrors.links.Cut()
    seen: list[list[str | None]] = []
    three[0].before = lambda name, _args: seen.append(served.Behind()) if name == "instance_shutdown" else None
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    assert seen == [[FIRST] * 2] and WEB in three[1].guests


def test_a_frozen_side_is_given_up_before_anybody_can_let_it_go_on(three: Master) -> None:
    """The guest does not end: it stays where it is, and the copy that it waits with does not count from then on."""
    served = Served(three)
    served.mirrors.links.Cut()
    seen: list[list[str | None]] = []
    three[0].before = lambda name, _args: seen.append(served.Behind()) if name == "instance_shutdown" else None
    three[0].faults["instance_shutdown"] = "it does not end"
    with pytest.raises(errors.OpExecError, match="could not be shut down"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert seen == [[FIRST] * 2] and served.Behind() == [FIRST] * 2
    assert WEB in three[0].guests and all(device.frozen for device in served.mirrors.machines[0].devices.values())
    three[0].faults.clear()
    served.mirrors.links.Heal()
    assert not any(device.frozen for device in served.mirrors.machines[0].devices.values())
    served.Settle()
    assert served.Behind() == [None, None] and WEB in three[0].guests


@pytest.mark.parametrize("pending", [0, 3])
def test_a_link_that_is_found_to_be_lost_while_the_guest_ends_is_given_up_too(
    three: Master, monkeypatch: pytest.MonkeyPatch, pending: int
) -> None:
    """That of the other disk was known to be lost before: the two records must not name different nodes."""
    served = Served(three)
    links, machine = served.mirrors.links, served.mirrors.machines[0]
    monkeypatch.setattr(links, "_Shake", lambda *_sides: None)
    first, second = (machine.devices[minor] for minor in sorted(machine.devices))
    links.Drop(first)
    machine.Lose(first, "WFConnection")
    links.Publish()
    assert [first.frozen, second.frozen] == [True, False]

    def before(name: str, _args: Any) -> None:
        if name == "instance_shutdown":
            assert served.Behind() == [FIRST, None], "its link was not lost"
            links.Cut()
            second.pending = pending
            links.Publish()

    three[0].before = before
    served.FailOver()
    assert served.Behind() == [FIRST] * 2
    assert WEB in three[1].guests and WEB not in three[0].guests


def _SetUpAnew(served: Served) -> None:
    """The other node was restarted after the link was lost: what its disks have may be from before that."""
    served.mirrors.machines[1].LosePower()
    with contextlib.suppress(errors.OpExecError):  # where the first node has lost a disk it waits for the link
        served.master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert "Consistent" in {disk for _, _, disk in served.mirrors.States()[1]}


def _Refuse(number: int) -> Callable[[Served], None]:
    """Somebody has dropped the link by hand on a node."""

    def refuse(served: Served) -> None:
        for device in served.mirrors.machines[number].devices.values():
            device.link = "StandAlone"
        served.mirrors.links.Publish()

    return refuse


def _LetGoOn(served: Served) -> None:
    """Somebody has let the guest write by hand."""
    for device in served.mirrors.machines[0].devices.values():
        device.frozen = False
    served.mirrors.links.Publish()


@pytest.mark.parametrize("event", [_SetUpAnew, _Refuse(0), _Refuse(1), _LetGoOn])
def test_a_copy_that_may_lack_writes_is_not_failed_over_to(three: Master, event: Callable[[Served], None]) -> None:
    served = Served(three)
    served.mirrors.links.Cut()
    event(served)
    with pytest.raises(errors.OpExecError, match="disk/0 is degraded or not fully synchronized on target node"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert served.Behind() == [None, None] and WEB in three[0].guests


def _WithProtocolA(master: Master) -> None:
    cluster = master.snapshot.cluster
    params = {**cluster.diskparams, "drbd": {**cluster.diskparams.get("drbd", {}), "protocol": "A"}}
    master.cfg.Update(cluster.Replace(diskparams=params))


@pytest.mark.parametrize("protocol", ["A", "C"])
def test_a_guest_that_went_on_alone_and_then_lost_its_disk_is_not_failed_over(three: Master, protocol: str) -> None:
    """Nothing froze it with its link, or somebody let it go on by hand; without a disk it is frozen in any case."""
    if protocol == "A":
        _WithProtocolA(three)
    served = Served(three)
    served.mirrors.links.Cut()
    for device in served.mirrors.machines[0].devices.values():
        assert device.frozen == (protocol == "C")
        served.mirrors.machines[0]._DoResumeIo([str(device.minor)], {})
        served.mirrors.links.GoAlone(device)
    newest = served.Generations(0)
    served.FailDisks(0)
    assert {(device.disk, device.frozen) for device in served.mirrors.machines[0].devices.values()} == {
        ("Diskless", True)
    }
    assert not any(f"failover {WEB}'" in text for text in _Findings(three))
    with pytest.raises(errors.OpExecError, match="disk/0 is degraded or not fully synchronized on target node"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert served.Behind() == [None, None] and WEB in three[0].guests and served.Generations(0) == newest


def test_a_guest_that_may_have_gone_on_alone_does_not_fail_over_by_an_old_record(three: Master) -> None:
    """Its side was filled again, the record is not ended yet, and the link breaks."""
    served = Served(three)
    served.FillAgain()
    served.mirrors.links.Cut()
    with pytest.raises(errors.OpExecError, match="disk/0 is degraded or not fully synchronized on target node"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert WEB in three[0].guests


def test_a_served_guest_starts_while_the_other_node_is_there(three: Master) -> None:
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    served.master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    served.master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    served.Settle()
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2] and served.Behind() == [None, None]


def test_a_failed_disk_of_the_primary_is_replaced(three: Master) -> None:
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    for mode in ("replace_on_secondary", "replace_new_secondary"):
        values = {"remote_node": "node3"} if mode == "replace_new_secondary" else {}
        with pytest.raises(errors.OpPrereqError, match="would keep copies that do not count"):
            served.master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=mode, **values))
    with pytest.raises(errors.OpPrereqError, match="cannot be migrated") as caught:
        served.master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, mode="live"))
    assert f"otherwise 'gnt-instance replace-disks --auto {WEB}'" in str(caught.value.hint)
    with pytest.raises(errors.OpPrereqError, match="cannot give up the newer copies"):
        served.master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, behind="node2"))
    served.master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2] and served.Behind() == [None, None]


def test_an_exchange_on_the_primary_that_is_cut_off_is_recorded_before(three: Master) -> None:
    served = Served(three)
    seen: dict[str, list[str | None]] = {}
    master = served.master
    master[0].before = lambda name, args: seen.setdefault(name, served.Behind())
    master[0].faults["blockdev_rename"] = "the node is too busy"
    with pytest.raises(errors.OpExecError, match="too busy"):
        master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_primary", disks=[0]))
    assert seen["blockdev_removechildren"] == [FIRST, None]
    assert served.mirrors.States()[0] == [SERVED, PRIMARY]
    master[0].faults.clear()
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    served.LosePower()
    for force in (False, True):
        assert f"'gnt-instance failover {WEB}'" in served.StartRefused(force=force)
        assert served.Behind() == [FIRST, None], "the other disk's copy is needed where the first one's is"
    served.Return()
    served.FailOver()


def test_a_whole_exchange_on_the_primary_leaves_no_record(three: Master) -> None:
    served = Served(three)
    served.master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_primary"))
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2] and served.Behind() == [None, None]
    served.mirrors.links.Cut()
    assert all(device.frozen for device in served.mirrors.machines[0].devices.values())


def test_the_primary_gives_its_side_up_only_beside_a_complete_one(three: Master) -> None:
    """Its other side was complete when that was checked, and has lost its disk since."""
    served = Served(three)
    master, before = served.master, served.mirrors.Volumes()
    master[0].before = lambda name, args: served.FailDisks(1) if name == "blockdev_create" else None
    with pytest.raises(
        errors.OpExecError, match=r"is not given up: on node node1.* it is without a complete other side"
    ):
        master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_primary"))
    assert served.Behind() == [None, None] and served.mirrors.Volumes() == before
    assert [state[2] for state in served.mirrors.States()[0]] == ["UpToDate"] * 2


def test_the_primary_gives_nothing_up_while_the_other_node_says_nothing(three: Master) -> None:
    """It died a moment ago, and the kernel has not noticed: it would wait for that node with every command."""
    served = Served(three)
    master, before = served.master, served.mirrors.Volumes()
    master[0].before = lambda name, args: master[1].Stop() if name == "blockdev_create" else None
    with pytest.raises(errors.OpExecError, match=r"is not given up: node node2.* does not answer"):
        master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_primary"))
    master[1].Start()
    assert served.Behind() == [None, None] and served.mirrors.Volumes() == before
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


@pytest.mark.parametrize("call", ["blockdev_removechildren", "blockdev_rename"])
def test_new_volumes_that_no_mirror_gets_are_removed(three: Master, call: str) -> None:
    """Those of the disk at which it fails, and of the next one."""
    served = Served(three)
    before = served.mirrors.Volumes()
    three[0].faults[call] = "it hangs"
    with pytest.raises(errors.OpExecError, match="it hangs"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_primary"))
    assert served.mirrors.Volumes() == before


def test_a_side_that_was_filled_again_counts_as_soon_as_it_is_the_one_that_goes_on(three: Master) -> None:
    """The record still names the primary's side when the link breaks: what the open side says is true of the writes."""
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    served.master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert served.mirrors.States()[0] == [PRIMARY] * 2 and served.Behind() == [FIRST] * 2
    served.mirrors.links.Cut()
    assert all(device.frozen for device in served.mirrors.machines[0].devices.values())
    assert served.NeedDecisions() == [True, True]
    served.Settle()
    assert served.Behind() == [SECOND] * 2
    assert not any(device.frozen for device in served.mirrors.machines[0].devices.values())


@pytest.mark.parametrize("force", [False, True])
def test_a_side_without_data_gives_up_no_other_one(three: Master, force: bool) -> None:
    """The primary's disk failed for good, and nothing was written since; the other node is away for a repair."""
    served = Served(three)
    served.master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    served.master[0].lvm.lvs.clear()
    served.LosePower()
    hint = served.StartRefused(force=force)
    assert served.Behind() == [None, None]
    assert f"the data of disk/0, disk/1 on node {FIRST} is gone" in hint and f"node {SECOND} has newer data" in hint
    assert any("disk/0 has no complete data on node" in text for text in served.master.last.messages)
    served.Return()
    served.FailOver()


@pytest.mark.parametrize("number", [0, 1])
def test_a_start_without_the_volumes_of_one_side_is_recorded_before_the_first_write(three: Master, number: int) -> None:
    served = Served(three)
    served.master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    away = dict(served.master.all[number].lvm.lvs)
    served.master.all[number].lvm.lvs.clear()
    seen: list[list[str | None]] = []

    def before(name: str, _args: Any) -> None:
        if name == "instance_start":
            seen.append(served.Behind())

    served.master[0].before = before
    served.master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert seen == [[(FIRST, SECOND)[number]] * 2]
    assert served.NeedDecisions() == [False, False]
    served.master.all[number].lvm.lvs.update(away)


@pytest.mark.parametrize("op", [opcodes.OpInstanceActivateDisks, opcodes.OpInstanceStartup])
def test_the_other_side_is_set_up_before_the_one_that_waits_for_it(three: Master, op: Any) -> None:
    """The other node has lost its power and is back; the guest stands still meanwhile, and its own disk is readable again."""
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    served.mirrors.machines[1].LosePower()
    assert all(device.frozen for device in served.mirrors.machines[0].devices.values())
    three.Run(op(instance_name=WEB))
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    served.Settle()
    assert served.Behind() == [None, None]


def _Findings(master: Master) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    return [text for text in master.last.messages if "is frozen on node" in text]


@pytest.mark.parametrize("settled", [False, True])
def test_verify_says_what_a_guest_waits_for_without_data_of_its_own(three: Master, settled: bool) -> None:
    """The other side is complete, or older than what the guest has seen; the master has nothing to decide."""
    served = Served(three)
    served.mirrors.links.Cut()
    if settled:
        served.Settle()
        assert served.Behind() == [SECOND] * 2
    served.FailDisks(0)
    assert all(device.frozen for device in served.mirrors.machines[0].devices.values())
    findings = _Findings(three)
    assert len(findings) == 2 and not any("the master decides" in text for text in findings)
    if settled:
        assert f"'gnt-instance failover --ignore-consistency {WEB}' ends the guest" in findings[0]
    else:
        assert f"bring node {SECOND} back" in findings[0] and f"failover {WEB}" not in findings[0]
        assert f"'gnt-instance shutdown --timeout 0 {WEB}' ends the guest" in findings[0]
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB, timeout=0))


def test_verify_knows_that_the_guest_depends_on_the_other_node_for_another_disk(three: Master) -> None:
    """The master decides nothing about the disk that is whole; what verify names works."""
    served = Served(three)
    served.FailFirstDisk()
    served.mirrors.links.Cut()
    findings = _Findings(three)
    way = f"repair that, or use 'gnt-instance failover {WEB}', as node {SECOND} has every write that was acknowledged"
    assert len(findings) == 2 and all(way in text for text in findings)
    three[1].Stop()
    findings = _Findings(three)
    assert f"bring node {SECOND} back" in findings[0]
    assert (
        f"disk/1 is frozen on node {FIRST}, the guest waits for node {SECOND}, on which it depends for another disk"
        in findings[1]
    )
    three[1].Start()
    served.FailOver()


@pytest.mark.parametrize("event", [_SetUpAnew, _Refuse(0), _Refuse(1)])
def test_verify_names_no_fail_over_that_would_be_refused(three: Master, event: Callable[[Served], None]) -> None:
    served = Served(three)
    served.FailFirstDisk()
    served.mirrors.links.Cut()
    event(served)
    findings = _Findings(three)
    assert findings and not any(f"failover {WEB}'" in text for text in findings)
    with pytest.raises(errors.OpExecError, match="disk/1 is degraded or not fully synchronized on target node"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))


def test_verify_names_no_decision_where_none_can_be_made(three: Master) -> None:
    """Its disk failed after the link did, and was attached again: it has all of its data, which it cannot know."""
    served = Served(three)
    served.mirrors.links.Cut()
    served.FailDisks(0)
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert {(device.disk, device.frozen) for device in served.mirrors.machines[0].devices.values()} == {
        ("Consistent", True)
    }
    assert served.NeedDecisions() == [False, False]
    assert all("is not complete by itself" in text for text in _Findings(three))
    served.mirrors.links.Heal()
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


def test_a_start_that_fails_leaves_a_guest_that_waits_alone(three: Master) -> None:
    """Its own disk is readable again and older than what it has seen; the node that serves it is away."""
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    served.mirrors.machines[1].LosePower()
    three[1].Stop()
    served._Mark(offline=True)
    before = {minor: device.frozen for minor, device in served.mirrors.machines[0].devices.items()}
    for values in ({}, {"force": True}):
        hint = served.StartRefused(**values)
        assert f"node {SECOND} has newer data" in hint
    assert (
        {minor: device.frozen for minor, device in served.mirrors.machines[0].devices.items()}
        == before
        == {0: True, 1: True}
    )
    assert not {"detach", "resume-io", "secondary", "down"} & {argv[1] for argv in served.mirrors.machines[0].runs[-8:]}
    assert three.Instance(WEB).disks_active
    served.Return()
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


@pytest.mark.parametrize("healed", [True, False])
def test_a_failover_that_returns_leaves_the_record_of_what_is_newer(three: Master, healed: bool) -> None:
    """The other node has served one disk, and cannot be connected for the other one."""
    served = Served(three)
    served.FailFirstDisk()
    newest = served.Generations(1)[0]
    assert newest not in served.Generations(0)
    served.mirrors.links.Cut()
    served.mirrors.machines[0].LosePower()
    three[0].KillGuest(WEB)
    with pytest.raises(errors.OpExecError):  # as the watcher tries it; the disks are down afterwards
        three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpExecError, match="it stays on node1") as caught:
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert "repair the link" in str(caught.value.hint) and "--ignore-consistency" in str(caught.value.hint)
    assert served.Behind() == [FIRST, None] and three.Instance(WEB).primary_node == three.nodes[0]
    if not healed:
        with pytest.raises(errors.OpExecError):
            three.Run(opcodes.OpInstanceStartup(instance_name=WEB, force=True))
        assert newest in served.Generations(1)
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
        assert WEB in three[1].guests and served.Behind() == [FIRST] * 2
        return
    served.mirrors.links.Heal()
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert WEB in three[0].guests and newest in served.Generations(0) + served.Generations(1)


@pytest.mark.parametrize("lost", ["volumes of both disks", "data of the first disk", "nothing"])
def test_what_is_printed_makes_disks_without_a_complete_side_again(three: Master, lost: str) -> None:
    served = Served(three)
    mirrors = served.mirrors
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    for number, machine in enumerate(mirrors.machines[:2]):
        machine.LosePower()
        for _, meta in machine._metas.values():
            meta.state = "Inconsistent" if number or lost == "nothing" else meta.state
    disks = three.snapshot.InstanceDisks(three.Instance(WEB))
    for vg, name in [volume.logical_id for disk in disks for volume in disk.children]:
        if lost == "volumes of both disks" or (lost.startswith("data") and name == disks[0].children[0].logical_id[1]):
            assert not three[0].Call(runtime.RunCmd, ["lvremove", "-f", f"{vg}/{name}"]).failed
    with pytest.raises(errors.OpExecError) as caught:
        three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    hint = str(caught.value.hint)
    indexes = [int(number) for number in re.findall(r"recreate-disks --disk=(\d)", hint)]
    assert indexes == ([0] if lost.startswith("data") else [0, 1])
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    for name, commands in re.findall(r"on node (node\d)\S+: run (.*?) there if they exist", hint):
        for command in re.findall(r"'(.*?)'", commands):
            words = command.replace("lvremove", "lvremove -f").split()  # which would ask
            three[int(name[-1]) - 1].Call(runtime.RunCmd, words)
    for index in indexes:
        three.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, disks=[[index, {}]]))
    if len(indexes) == 2:
        three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
        assert WEB in three[0].guests


def test_no_disk_is_said_to_be_lost_of_which_the_other_node_has_a_good_copy(three: Master) -> None:
    """The volumes of both are gone on the primary node; the other one, out of its reach, has complete data of one disk."""
    served = Served(three)
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    for machine in served.mirrors.machines[:2]:
        machine.LosePower()
    three[0].lvm.lvs.clear()
    first, _second = three.snapshot.InstanceDisks(three.Instance(WEB))
    group, name = first.children[1].logical_id
    served.mirrors.machines[1].MetaOn(f"/dev/{group}/{name}").state = "Inconsistent"
    served.mirrors.links.Cut()
    assert "recreate-disks" not in served.StartRefused()
    assert served.Behind() == [None, None]
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    served.mirrors.links.Heal()
    served.mirrors.machines[1].MetaOn(f"/dev/{group}/{name}").state = "UpToDate"
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert {device.disk for device in served.mirrors.machines[1].devices.values()} == {"UpToDate"}


@pytest.mark.parametrize("force", [False, True])
def test_a_copy_that_is_being_filled_is_not_called_lost(three: Master, force: bool) -> None:
    """The guest ends while its own side is filled from the other one, whose node is too busy to be asked."""
    served = Served(three)
    served.FailDisks(0)
    served.mirrors.links.hold = True
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert {state[0] for state in served.mirrors.States()[0]} == {"SyncTarget"}
    three[0].KillGuest(WEB)
    for device in served.mirrors.machines[0].devices.values():
        device.role = "Secondary"
    served.mirrors.links.Publish()
    three[1].faults["blockdev_assemble"] = three[1].faults["drbd_views"] = "busy"
    if not force:
        hint = served.StartRefused()
        assert "gone" not in hint and f"'gnt-instance startup --force {WEB}'" in hint
        return
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB, force=True))
    assert WEB in three[0].guests and served.Behind() == [None, None]
    served.mirrors.links.Finish()
    assert served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


def test_a_fail_over_names_the_loss_where_the_newer_copy_of_one_disk_is_not_set_up(three: Master) -> None:
    served = Served(three)
    served.mirrors.links.Cut()
    served.Settle()
    assert served.Behind() == [SECOND] * 2

    def hint() -> str:
        with pytest.raises(errors.OpPrereqError, match="has been behind since") as caught:
            three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
        return str(caught.value.hint)

    loss = f"'gnt-instance failover --ignore-consistency {WEB}'"
    assert loss not in hint(), "both newer copies are there"
    devices = served.mirrors.machines[0].devices
    del devices[max(devices)]
    served.mirrors.links.Publish()
    assert loss in hint()
