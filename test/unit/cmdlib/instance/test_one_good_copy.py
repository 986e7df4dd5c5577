"""What verify advises of a mirror with one good copy: it depends on what is wrong with the other one, and on where that is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, _Empty
from unit.cmdlib.instance.test_served import FIRST, SECOND, Served

from ganeti import opcodes

ACTIVATE = f"'gnt-instance activate-disks {WEB}'"
AGAIN = f"'gnt-instance replace-disks -a {WEB}'"
ANOTHER = f"'gnt-instance replace-disks -n NODE {WEB}' to have the copy on another node"
THERE = (
    f"{AGAIN} to have it made again there, or 'gnt-instance failover {WEB}' to run the instance where the good copy is;"
    f" if the copy on node {SECOND} is lost for good,"
    f" 'gnt-instance activate-disks --behind {SECOND} --ignore-consistency {WEB}' uses the older one on node {FIRST}"
)


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Advice(served: Served) -> str:
    """Return what verify advises for each of the disks."""
    served.master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    (advice,) = {
        text.partition(": only one copy is good; ")[2]
        for text in served.master.last.messages
        if "has been behind since" in text
    }
    return advice


def _Mend(served: Served, lost: bool = False) -> None:
    """Do what was advised; ``lost``: a disk cannot be read again."""
    if lost:
        served.master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto"))
    else:
        served.master.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    served.Settle()
    assert served.Behind() == [None, None] and served.mirrors.States()[:2] == [[PRIMARY] * 2, [SECONDARY] * 2]


def test_the_other_node_cannot_be_reached(three: Master) -> None:
    served = Served(three)
    served.mirrors.links.Cut()
    served.Settle()
    assert served.Behind() == [SECOND] * 2
    assert _Advice(served) == f"if nodes cannot reach each other, repair their link; use {ACTIVATE}, or {ANOTHER}"
    served.mirrors.links.Heal()
    _Mend(served)


def test_the_other_node_is_off(three: Master) -> None:
    served = Served(three)
    served.mirrors.machines[1].LosePower()
    served.master[1].Stop()
    served.Settle()
    assert served.Behind() == [SECOND] * 2
    assert _Advice(served) == f"bring node {SECOND} back and use {ACTIVATE}, or {ANOTHER}"
    served.master[1].Start()
    _Mend(served)


@pytest.mark.parametrize("lost", [True, False])
def test_the_disk_of_the_other_node_has_failed(three: Master, lost: bool) -> None:
    served = Served(three)
    served.FailDisks(1)
    served.Settle()
    assert served.Behind() == [SECOND] * 2
    assert (
        _Advice(served)
        == f"if the disk of node {SECOND} can be read again, use {ACTIVATE}, if not {AGAIN}, or {ANOTHER}"
    )
    _Mend(served, lost)


@pytest.mark.parametrize("lost", [True, False])
def test_the_disk_below_the_guest_has_failed(three: Master, lost: bool) -> None:
    """All that is written is on the other node: nothing may be made anew there."""
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    assert served.Behind() == [FIRST] * 2
    assert (
        _Advice(served) == f"if the disk of node {FIRST} can be read again, use {ACTIVATE}, if not {AGAIN}, or {THERE}"
    )
    _Mend(served, lost)


def test_the_disk_below_the_guest_is_there_again(three: Master) -> None:
    served = Served(three)
    served.FillAgain()
    assert _Advice(served) == f"if nodes cannot reach each other, repair their link; use {ACTIVATE}, or {THERE}"


def test_the_node_of_the_guest_does_not_say_how_its_copy_is(three: Master) -> None:
    served = Served(three)
    served.FailDisks(0)
    served.Settle()
    served.master[0].faults["drbd_views"] = "no answer"
    assert _Advice(served) == f"bring node {FIRST} back and use {ACTIVATE}, or {THERE}"
