"""What an administrator meets at 3 a.m.: no copy is chosen unasked, and each refusal names what helps (doc/storage.rst)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.master import Master
from unit.cmdlib.instance.test_mirrors import WEB, Mirrors, _Add, _Empty

from ganeti import errors, opcodes
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
        mirrors.machines[0]._GoAlone(device)
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
        mirrors.machines[0]._DoDetach([str(minor)], {"force": "yes"})
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
    mirrors.links.Heal()
    for device in mirrors.machines[1 - first].devices.values():
        device.link = "WFConnection"
    mirrors.links.Publish()
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


def _NeedsDecision(master: Master) -> list[bool]:
    node, disks = master.nodes[0], master.snapshot.InstanceDisks(master.Instance(WEB))
    view = both.Pick(disks, node, master.rpc.call_drbd_states([node])[node].payload)
    return [NeedsDecision(disk, node, view.get(disk.uuid)) for disk in disks]
