"""Commands beside the usual ones keep what is recorded of mirrors, and repair what is lost: the real driver, played programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, Mirrors, _Add, _Empty

from ganeti import errors, opcodes, runtime
from ganeti.backend import blockdev
from ganeti.cmdlib.disk import mirrors as both
from ganeti.server.mirrorkeeper import NeedsDecision


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Behind(master: Master) -> list[str | None]:
    disks = master.snapshot.disks.values()
    return [None if disk.behind is None else master.snapshot.NodeName(disk.behind["node"]) for disk in disks]


def _SecondaryBehind(master: Master) -> Mirrors:
    """The primary went on alone, then the instance was stopped."""
    mirrors = Mirrors(master)
    _Add(master, start=True)
    mirrors.links.Cut()
    master.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    return mirrors


def _Lose(master: Master, number: int, ending: str) -> None:
    """Volumes of the first disk are gone from a node."""
    lvm = master.all[number].lvm
    for key in [key for key in lvm.lvs if "disk0" in key[1] and key[1].endswith(ending)]:
        del lvm.lvs[key]


FIRST, SECOND = "node1.example.org", "node2.example.org"


def test_a_recreation_that_is_refused_changes_no_record(three: Master) -> None:
    _SecondaryBehind(three)
    before = _Behind(three), [disk.size for disk in three.snapshot.disks.values()]
    assert before[0] == [SECOND, SECOND]
    with pytest.raises(errors.OpExecError, match="exist"):
        three.Run(opcodes.OpInstanceRecreateDisks(instance_name=WEB, disks=[[0, {"size": 256}]]))
    assert (_Behind(three), [disk.size for disk in three.snapshot.disks.values()]) == before
    with pytest.raises(errors.OpPrereqError, match="has been behind since"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))


@pytest.mark.parametrize("force", [False, True])
def test_a_new_primary_node_needs_a_copy_that_counts(three: Master, force: bool) -> None:
    _SecondaryBehind(three)
    for node, words in (("node2", "has been behind since"), ("node3", "has no copy")):
        with pytest.raises(errors.OpPrereqError, match=words):
            three.Run(opcodes.OpInstanceSetParams(instance_name=WEB, pnode=node, force=force))
    assert _Behind(three) == [SECOND, SECOND]


@pytest.mark.parametrize("mode", ["replace_on_primary", "replace_on_secondary"])
def test_replacing_disks_of_a_stopped_instance_gives_up_no_copy(three: Master, mode: str) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    mirrors.links.Cut()
    with pytest.raises(errors.OpExecError, match="Disk consistency error") as caught:
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=mode))
    assert f"activate-disks --behind {SECOND} {WEB}" in str(caught.value.hint)
    assert _Behind(three) == [None, None]


@pytest.mark.parametrize("ending", [("_data", "_meta"), ("_meta",)])
def test_lost_volumes_are_replaced(three: Master, ending: Any) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.machines[1].LosePower()
    _Lose(three, 1, ending)
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    assert mirrors.Volumes() == [4, 4, 0]


@pytest.mark.parametrize("running", [True, False])
def test_while_good_volumes_of_the_secondary_are_exchanged_its_copy_does_not_count(
    three: Master, running: bool
) -> None:
    """Or what the primary writes meanwhile would be missing in a copy that counts, if both it and the master died."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    if not running:
        three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    seen: dict[str, list[str | None]] = {}
    three.all[1].before = lambda name, args: seen.setdefault(name, _Behind(three))
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary", disks=[0]))
    record = SECOND if running else None
    assert seen["blockdev_removechildren"] == [record, None] == seen["blockdev_addchildren"]
    if not running:
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
        return
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    assert _Behind(three) == [None, None], "it counts again once it is complete"


def test_a_call_that_takes_the_volumes_and_hangs_until_the_record_is_gone_changes_nothing(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    late: list[Any] = []

    def hang(name: str, args: Any) -> None:
        if name == "blockdev_removechildren":
            late.append(args)
            raise errors.RpcCallError("connection timed out")

    three[1].before = hang
    with pytest.raises(errors.OpExecError, match="timed out"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary", disks=[0]))
    three[1].before = lambda name, args: None
    assert _Behind(three) == [SECOND, None]
    three[1].faults["drbd_follow"] = "the call is lost"
    with pytest.raises(errors.OpExecError, match="disk/0 keeps the record"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [SECOND, None]
    three[1].faults.clear()
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [None, None]
    with pytest.raises(errors.BlockDeviceError, match="this call is outdated"):
        three[1].Call(blockdev.RemoveChildren, *late[0])
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


def test_an_exchange_that_was_cut_off_can_be_repeated(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    three.all[1].faults["blockdev_addchildren"] = "drbdmeta create-md failed: lock held by pid 77"
    with pytest.raises(errors.OpExecError, match="lock held by pid 77"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary", disks=[0]))
    three.all[1].faults.clear()
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary", disks=[0]))
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


def _FailAfterwards(payload: Any) -> Any:
    raise errors.RpcCallError("the answer is lost")


def test_an_exchange_whose_answer_is_lost_is_completed(three: Master) -> None:
    """The new volumes are in use then: they are not removed, and the old ones go in the end."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    before = mirrors.Volumes()
    three.all[1].edits["blockdev_addchildren"] = _FailAfterwards
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary", disks=[0]))
    assert any("although the call failed: the answer is lost" in text for text in three.last.messages)
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    assert mirrors.Volumes() == before and _Behind(three) == [None, None]


def test_new_volumes_stay_where_a_node_does_not_say_whether_they_are_in_use(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    node = three.all[1]

    def silence(payload: Any) -> Any:
        node.faults["blockdev_find"] = "it is silent"
        return _FailAfterwards(payload)

    node.edits["blockdev_addchildren"] = silence
    with pytest.raises(errors.OpExecError, match="the answer is lost") as caught:
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary", disks=[0]))
    assert f"'gnt-instance activate-disks {WEB}' and then 'gnt-instance replace-disks --auto {WEB}'" in str(
        caught.value.hint
    )
    assert "_replaced-" in str(caught.value.hint)
    assert not any("Failed to remove" in text for text in three.last.messages)
    assert mirrors.Volumes() == [4, 6, 0]
    node.faults.clear()
    node.edits.clear()
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    assert three.last.messages[-1] == f"No disks need replacement for instance '{WEB}'", "they were in use"
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


@pytest.mark.parametrize(("mode", "node"), [("replace_on_secondary", 1), ("replace_new_secondary", 2)])
def test_a_new_disk_that_dies_while_it_is_filled_is_not_reported_as_done(three: Master, mode: str, node: int) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.hold = True
    done: list[bool] = []

    def detach(name: str, args: Any) -> None:
        if name == "blockdev_getmirrorstatus" and not done:
            done.append(True)
            machine = mirrors.machines[node]
            for number in list(machine.devices):
                machine._DoDetach([str(number)], {})
            mirrors.links.hold = False
            mirrors.links.Publish()

    three.all[0].before = detach
    values = {"remote_node": "node3"} if node == 2 else {}
    before = mirrors.Volumes()
    with pytest.raises(errors.OpExecError, match="were not removed"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=mode, **values))
    assert mirrors.Volumes()[1] >= before[1], "the old volumes are there"


def test_disks_that_failed_on_different_sides_are_made_again_by_the_commands_that_are_named(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    for node, minor in ((0, 0), (1, 1)):
        argv = ["drbdsetup", "detach", str(minor), "--force"]
        assert not three[node].Call(runtime.RunCmd, argv).failed
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [FIRST, SECOND]
    with pytest.raises(errors.OpPrereqError, match="faulty disks on both nodes") as caught:
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    named = re.findall(r"replace-disks -([ps]) --disks=(\d) ", caught.value.hint)
    assert sorted(named) == [("p", "0"), ("s", "1")]
    modes = {"p": "replace_on_primary", "s": "replace_on_secondary"}
    with pytest.raises(errors.OpPrereqError, match="would keep copies that do not count"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=modes["s"], disks=[0]))
    for side, disk in named:
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=modes[side], disks=[int(disk)]))
    assert mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]
    assert _Behind(three) == [None, None]


def test_a_primary_that_was_not_fenced_is_recorded(three: Master) -> None:
    """Mirrors that release 3.1 set up have no fencing: what they write alone must not be forgotten."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    for machine in mirrors.machines[:2]:
        for device in machine.devices.values():
            device.options.pop("fencing")
    mirrors.links.Cut()
    disks = list(three.snapshot.disks.values())
    primary = three.nodes[1]
    view = both.Pick(disks, primary, three.rpc.call_drbd_states([primary])[primary].payload)
    assert all(NeedsDecision(disk, primary, view[disk.uuid]) for disk in disks)
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == ["node1.example.org"] * 2
    mirrors.machines[1].LosePower()
    three[1].Stop()
    three.cfg.Update(three.snapshot.nodes[primary].Replace(offline=True))
    with pytest.raises(errors.OpPrereqError, match="has been behind since"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))


@pytest.mark.parametrize("link", ["frozen", "alone"])
def test_a_foreign_device_in_the_number_does_not_hold_the_guest_up(three: Master, link: str) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    if link == "alone":
        for device in mirrors.machines[0].devices.values():
            device.options["fencing"] = "dont-care"
    mirrors.links.Cut()
    foreign, own = mirrors.machines[1].devices.values()
    foreign.data, foreign.resource, foreign.role = "/dev/xenvg/guest", "guest", "Primary"
    own.role = "Primary"
    mirrors.links.Publish()
    with pytest.raises(errors.OpExecError, match=r"disk/1 (stays frozen|is open on both nodes)$"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [SECOND, None], "the second one may be open there since a migration was cut off"
    assert not mirrors.machines[0].devices[0].frozen
    own.role = "Secondary"
    mirrors.links.Publish()
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [SECOND, SECOND]


def test_a_node_that_does_not_say_whose_the_open_device_is_holds_the_guest_up(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    for device in mirrors.machines[1].devices.values():
        device.role = "Primary"
    mirrors.links.Publish()
    three[1].faults["drbd_views"] = "connection timed out"
    with pytest.raises(errors.OpExecError, match="disk/0 stays frozen; disk/1 stays frozen"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [None, None]


def test_every_disk_keeps_its_record_while_the_other_node_does_not_confirm(three: Master) -> None:
    """Else the primary would freeze on the second one, whose other side still obeys calls from before."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    mirrors.links.Heal()
    three[1].faults["drbd_follow"] = "another call has been working on it"
    with pytest.raises(errors.OpExecError, match=r"disk/0.*disk/1"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert _Behind(three) == [SECOND, SECOND]
    mirrors.links.Cut()
    assert [device.frozen for device in mirrors.machines[0].devices.values()] == [False, False]
