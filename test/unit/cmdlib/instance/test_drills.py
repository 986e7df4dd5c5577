"""What an administrator meets at 3 a.m.: no copy is chosen unasked, and each refusal names what helps (doc/storage.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, WEB, Mirrors, _Add, _Empty

from ganeti import errors, opcodes, runtime
from ganeti.cmdlib.disk import mirrors as both
from ganeti.server.mirrorkeeper import NeedsDecision


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Written(mirrors: Mirrors) -> list[list[int]]:
    """What each side has, by generation."""
    return [[meta.now for _, meta in machine._metas.values() if meta.now] for machine in mirrors.machines[:2]]


def _Lost(master: Master, mirrors: Mirrors, number: int) -> None:
    """A node's mirrors and guest are gone, as after a power cut from which it has come back."""
    mirrors.machines[number].LosePower()
    master[number].KillGuest(WEB)


def _BothWrote(master: Master, mirrors: Mirrors) -> None:
    """Both sides have been written without the other one."""
    _Lost(master, mirrors, 0)
    mirrors.machines[1].LosePower()
    for machine in mirrors.machines[:2]:
        for _, meta in machine._metas.values():
            meta.base, meta.now, meta.state = meta.now, next(mirrors.links.generations), "UpToDate"


def _WroteAlone(master: Master, mirrors: Mirrors) -> None:
    """The link is cut, and the primary, which nothing held up, has gone on; nobody has recorded that."""
    mirrors.links.Cut()
    for device in mirrors.machines[0].devices.values():
        device.frozen = False
        mirrors.links.GoAlone(device)
    _Lost(master, mirrors, 0)


# --- no copy is chosen unasked ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parted", "hint"),
    [(_BothWrote, "activate-disks --behind node2.example.org"), (_WroteAlone, "repair the link between them")],
)
@pytest.mark.parametrize("tried", [False, True])
def test_a_failover_does_not_choose_between_sides_that_do_not_connect(
    three: Master, parted: Callable[[Master, Mirrors], None], hint: str, tried: bool
) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    parted(three, mirrors)
    written = _Written(mirrors)
    if tried:  # as the watcher does; the disks are down afterwards
        with pytest.raises(errors.OpExecError, match="could not be set up"):
            three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpExecError) as caught:
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    if tried:
        assert "it stays on node1.example.org" in str(caught.value) and hint in str(caught.value.hint)
    assert three.Instance(WEB).primary_node == three.nodes[0] and _Written(mirrors) == written
    assert not any(disk.behind for disk in three.snapshot.InstanceDisks(three.Instance(WEB)))
    mirrors.links.Heal()
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    assert three.Instance(WEB).primary_node == three.nodes[1] and WEB in three[1].guests


def test_a_failover_of_a_guest_that_ended_uses_a_side_whose_other_one_has_no_disk(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    for minor in list(mirrors.machines[0].devices):
        mirrors.machines[0].Detach(minor)
    _Lost(three, mirrors, 0)
    three[0].lvm.lvs.clear()
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB, force=True))
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert WEB in three[1].guests
    assert {disk.behind["node"] for disk in three.snapshot.InstanceDisks(three.Instance(WEB)) if disk.behind} == {
        three.nodes[0]
    }


@pytest.mark.parametrize("first", [0, 1])
def test_a_split_that_is_seen_while_the_guest_runs_is_left_to_the_administrator(three: Master, first: int) -> None:
    """``first``: the side that has refused to connect; the other one waits for it."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    for machine in mirrors.machines[:2]:
        for device in machine.devices.values():
            device.known.base, device.known.now = device.known.now, next(mirrors.links.generations)
            device.frozen = False
    mirrors.links.slow = mirrors.machines[1 - first]
    mirrors.links.Heal()
    written = _Written(mirrors)
    if first == 0:
        assert not any(_NeedsDecision(three))
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    else:
        with pytest.raises(errors.OpExecError, match="two sides that may both have been written"):
            three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
        assert any("activate-disks --behind node2.example.org" in text for text in three.last.messages)
    assert not any(disk.behind for disk in three.snapshot.InstanceDisks(three.Instance(WEB)))
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert _Written(mirrors) == written


@pytest.mark.parametrize("there", ["Inconsistent", "Outdated", "a stranger"])
def test_a_side_that_lacks_data_is_no_second_choice_because_it_refuses_to_connect(three: Master, there: str) -> None:
    """The primary goes on alone; what is on the other node has nothing that the primary lacks: the copy there is behind."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    for device in mirrors.machines[0].devices.values():
        device.frozen, device.options["fencing"] = False, "dont-care"
        mirrors.links.GoAlone(device)
    for device in mirrors.machines[1].devices.values():
        device.link = "StandAlone"
        if there == "a stranger":
            device.resource, device.ends = f"mine{device.minor}", None
        else:
            device.disk = there
    mirrors.links.Publish()
    assert all(_NeedsDecision(three))
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    disks = three.snapshot.InstanceDisks(three.Instance(WEB))
    assert [disk.behind and disk.behind["node"] for disk in disks] == [three.nodes[1]] * 2


def _DropLinks(master: Master, mirrors: Mirrors) -> list[list[int]]:
    """An administrator drops the links of a running guest by hand; return what each side has."""
    _Add(master, start=True)
    for minor in list(mirrors.machines[0].devices):
        mirrors.machines[0].DropLink(minor)
    return _Written(mirrors)


@pytest.mark.parametrize("there", ["Outdated", "Inconsistent"])
def test_a_link_that_was_dropped_by_hand_leaves_a_record(three: Master, there: str) -> None:
    mirrors = Mirrors(three)
    written = _DropLinks(three, mirrors)
    for here, other in zip(*(machine.devices.values() for machine in mirrors.machines[:2]), strict=True):
        here.peer_disk = other.disk = other.known.state = there
    mirrors.links.Publish()
    assert all(_NeedsDecision(three))
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    disks = three.snapshot.InstanceDisks(three.Instance(WEB))
    assert [disk.behind and disk.behind["node"] for disk in disks] == [three.nodes[1]] * 2
    assert not any(_NeedsDecision(three)) and _Written(mirrors) == written
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert mirrors.States()[0] == [PRIMARY] * 2 and _Written(mirrors)[1] == written[0]


@pytest.mark.parametrize("there", ["UpToDate", "Diskless", "Attaching", "silent"])
def test_a_link_that_was_dropped_by_hand_is_not_decided_if_the_other_side_may_have_been_used(
    three: Master, there: str
) -> None:
    """The primary's kernel goes on saying that the other side is outdated."""
    mirrors = Mirrors(three)
    _DropLinks(three, mirrors)
    for device in mirrors.machines[1].devices.values():
        mirrors.links.GoAlone(device)
        device.disk = "UpToDate" if there == "silent" else there
    mirrors.links.Publish()
    if there == "silent":
        three[1].Stop()
    written = _Written(mirrors)
    assert all(_NeedsDecision(three))
    with pytest.raises(errors.OpExecError, match="two sides that may both have been written"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert any("activate-disks --behind node2.example.org" in text for text in three.last.messages)
    assert not any(disk.behind for disk in three.snapshot.InstanceDisks(three.Instance(WEB)))
    assert _Written(mirrors) == written


def test_a_frozen_disk_does_not_wait_for_what_another_one_of_the_guest_needs(three: Master) -> None:
    """The link of one was dropped by hand, that of the other one was lost since; their other node hangs."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    first, second = mirrors.machines[0].devices
    mirrors.machines[0].DropLink(first)
    mirrors.links.Cut()
    three[1].before = lambda name, args: runtime.Sleep(100000) if name.startswith("drbd_") else None
    began, released = runtime.Monotonic(), []

    def look(name: str, args: Any) -> None:
        if name == "drbd_follow":
            released.append(runtime.Monotonic() - began)

    three[0].before = look
    with pytest.raises(errors.OpExecError, match="disk/0 has two sides that may both have been written"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert not mirrors.machines[0].devices[second].frozen
    assert max(released) < 10 and runtime.Monotonic() - began < 20


def test_a_link_that_was_dropped_on_the_other_node_leaves_a_record_also_if_that_is_silent(three: Master) -> None:
    """The primary waits for the link: the two have not met since."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    for minor in list(mirrors.machines[1].devices):
        mirrors.machines[1].DropLink(minor)
    assert mirrors.States()[0] == [("WFConnection", "Primary", "UpToDate")] * 2
    three[1].Stop()
    assert all(_NeedsDecision(three))
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    disks = three.snapshot.InstanceDisks(three.Instance(WEB))
    assert [disk.behind and disk.behind["node"] for disk in disks] == [three.nodes[1]] * 2


def test_a_device_of_others_says_nothing_of_a_mirror_whose_link_was_dropped_by_hand(three: Master) -> None:
    """Its volumes, which somebody may have used, are still there."""
    mirrors = Mirrors(three)
    _DropLinks(three, mirrors)
    for device in mirrors.machines[1].devices.values():
        device.resource, device.ends, device.disk = f"mine{device.minor}", None, "Outdated"
    mirrors.links.Publish()
    with pytest.raises(errors.OpExecError, match="two sides that may both have been written"):
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert not any(disk.behind for disk in three.snapshot.InstanceDisks(three.Instance(WEB)))


@pytest.mark.parametrize("link", ["SyncTarget", "WFConnection", "StandAlone"])
def test_an_open_side_without_complete_data_is_not_alone(three: Master, link: str) -> None:
    """The other one, whose data is complete, is not recorded as behind, whatever has become of the link."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    for machine, disk, peer_disk in zip(
        mirrors.machines, ("Inconsistent", "UpToDate"), ("Outdated", "DUnknown"), strict=False
    ):
        for device in machine.devices.values():
            device.link, device.disk, device.peer_disk = link, disk, peer_disk
    mirrors.links.Publish()
    _CheckNothingToDecide(three)


def test_a_closed_side_is_not_alone(three: Master) -> None:
    """Nothing is written there; the other one may be used at any time."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.links.Cut()
    for device in mirrors.machines[0].devices.values():
        device.role, device.frozen = "Secondary", False
    mirrors.links.Publish()
    _CheckNothingToDecide(three)


def test_a_side_that_fills_the_other_one_is_not_alone(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    for device in mirrors.machines[0].devices.values():
        device.link, device.peer_disk = "SyncSource", "Inconsistent"
    for device in mirrors.machines[1].devices.values():
        device.link, device.disk = "SyncTarget", "Inconsistent"
    mirrors.links.Publish()
    _CheckNothingToDecide(three)


def test_a_node_of_an_earlier_release_does_not_know_that_the_other_side_is_older(three: Master) -> None:
    def without(payload: Any) -> Any:
        for state in payload.values():
            del state["peer_older"]
        return payload

    mirrors = Mirrors(three)
    three[0].edits.update(drbd_states=without, drbd_views=without)
    _DropLinks(three, mirrors)
    _CheckNothingToDecide(three)


def _CheckNothingToDecide(master: Master) -> None:
    """The keeper sees nothing to do, and a job that comes nevertheless records nothing."""
    assert not any(_NeedsDecision(master))
    master.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert not any(disk.behind for disk in master.snapshot.InstanceDisks(master.Instance(WEB)))


def _NeedsDecision(master: Master) -> list[bool]:
    node, disks = master.nodes[0], master.snapshot.InstanceDisks(master.Instance(WEB))
    view = both.Pick(disks, node, master.rpc.call_drbd_states([node])[node].payload)
    return [NeedsDecision(disk, node, view.get(disk.uuid)) for disk in disks]


@pytest.mark.req("D21-REPAIR-04")
def test_a_failover_to_a_connected_side_without_a_disk_is_refused(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.machines[1].Detach(0)
    before = mirrors.States()
    assert before[1][0][0] == "Connected"
    with pytest.raises(errors.OpExecError, match=r"disk/0 .* is Diskless on target node node2"):
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert mirrors.States() == before and WEB in three[0].guests


# --- nodes that are marked by mistake, or not marked yet ------------------------------------------------------------------


def _ToSecond(master: Master) -> None:
    """The master's own node cannot be marked offline: the instance lives on the second one."""
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))


def test_a_guest_whose_node_is_marked_offline_by_mistake_is_not_frozen_by_a_failover(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    _ToSecond(three)
    three.Run(opcodes.OpNodeSetParams(node_name="node2", offline=True, auto_promote=True))
    before = mirrors.States()
    for target in (None, "node3"):
        with pytest.raises(
            errors.OpExecError, match=r"node2\S* is marked offline, but it is connected .* disk/1 open"
        ) as caught:
            three.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node=target))
        assert "'gnt-node modify --offline no node2.example.org'" in str(caught.value.hint)
    assert mirrors.States() == before and WEB in three[1].guests
    assert three.Instance(WEB).primary_node == three.nodes[1]
    three.Run(opcodes.OpNodeSetParams(node_name="node2", offline=False))
    three.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert WEB in three[0].guests


def test_a_dead_node_that_nobody_has_marked_yet_is_named(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    _ToSecond(three)
    _Lost(three, mirrors, 1)
    three[1].Stop()
    with pytest.raises(errors.OpExecError, match="degraded") as caught:
        three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert "'gnt-node modify --offline yes node2.example.org'" in str(caught.value.hint)
    three.Run(opcodes.OpNodeSetParams(node_name="node2", offline=True, auto_promote=True))
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert WEB in three[0].guests


@pytest.mark.parametrize("target", [None, "node3"])
def test_a_node_that_died_a_moment_ago_is_waited_for_until_its_death_is_noticed(
    three: Master, target: str | None
) -> None:
    """The other side still believes it connected and open when the fail-over begins."""
    mirrors = Mirrors(three)
    _Add(three, start=True)
    _ToSecond(three)
    three[1].Stop()
    three.cfg.Update(three.snapshot.nodes[three.nodes[1]].Replace(offline=True))
    looks: list[str] = []

    def before(name: str, _args: Any) -> None:
        looks.append(name)
        if looks.count("drbd_views") == 5:
            mirrors.machines[1].LosePower()

    three[0].before = before
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node=target))
    assert WEB in three[2 if target else 0].guests


# --- what is said of copies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1])
def test_disks_are_not_called_in_sync_while_one_side_has_none(three: Master, number: int) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    machine = mirrors.machines[number]
    for minor in list(machine.devices):
        machine.Detach(minor)
    three[number].lvm.lvs.clear()
    with pytest.raises(errors.OpExecError, match="degraded"):
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    assert not any("in sync" in text for text in three.last.messages)
    what = "without complete data of its own" if number == 0 else "without a complete other side"
    assert any(f"disk/0 is {what} on node node1.example.org" in text for text in three.last.messages)
    assert any(f"'gnt-instance replace-disks --auto {WEB}'" in text for text in three.last.messages)
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    assert any("in sync" in text for text in three.last.messages)


def test_what_a_first_try_left_on_the_new_node_is_named_with_the_command(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    replace = opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3")
    three[2].faults["blockdev_remove"] = "it does not answer"
    three[0].faults["drbd_disconnect_net"] = "it does not answer"
    with pytest.raises(errors.OpExecError):
        three.Run(replace)
    three[2].faults.clear()
    three[0].faults.clear()
    assert mirrors.Volumes()[2] == 4
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))

    def refused() -> str:
        with pytest.raises(errors.OpExecError, match=r"Node node3\S* has volumes of instance web") as caught:
            three.Run(replace)
        return str(caught.value.hint)

    mirrors.machines[2].LosePower()
    assert "drbdsetup" not in refused()
    mirrors.machines[2].devices[0] = mirrors.machines[0].devices[0]
    mirrors.links.Publish()
    hint = refused()
    assert "if 'drbdsetup show 0' shows one of them, run 'drbdsetup down resource0'" in hint
    mirrors.machines[2].LosePower()
    instance = three.Instance(WEB)
    for disk in three.snapshot.InstanceDisks(instance):
        for volume in disk.children:
            assert f"'lvremove {'/'.join(volume.logical_id)}'" in hint
            three.rpc.call_blockdev_remove(three.nodes[2], (volume, instance)).Raise("")
    three.Run(replace)
    assert mirrors.Volumes() == [4, 0, 4]


def test_nobody_is_told_to_take_down_the_mirror_of_another_instance(three: Master) -> None:
    """The new node has one; what a first try has left beside it is another one."""
    mirrors = Mirrors(three)
    three.Run(OnDisks("db.example.org", {"size": 128}, disk_template="drbd", snode="node3", start=True))
    _Add(three, start=True)
    (others,) = mirrors.machines[2].devices
    three[2].faults["blockdev_remove"] = three[0].faults["drbd_disconnect_net"] = "it does not answer"
    replace = opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3")
    with pytest.raises(errors.OpExecError):
        three.Run(replace)
    three[2].faults.clear()
    three[0].faults.clear()
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    # One of those that a try may leave, beside that of the other instance.
    left = max(mirrors.machines[0].devices)
    mirrors.machines[2].devices[left] = mirrors.machines[0].devices[left]
    mirrors.links.Publish()
    with pytest.raises(errors.OpExecError, match=r"Node node3\S* has volumes of instance web") as caught:
        three.Run(replace)
    hint = str(caught.value.hint)
    assert left != others and f"'drbdsetup down resource{left}'" in hint and hint.count("drbdsetup down") == 1
