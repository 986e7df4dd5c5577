"""Operations that are cut off in the middle: ordinary commands clean up what they leave."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from lab.stories.interrupted import STEPS_OF_MIGRATION, STEPS_OF_REPLACEMENT
from support.creation import OnDisks
from support.master import Master
from unit.cmdlib.instance.test_mirrors import WEB, Mirrors, _Empty

from ganeti import errors, opcodes


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


class CutOff:
    """From the call with this number on no node does anything; ``seen``: the calls so far."""

    def __init__(self, master: Master, number: int):
        self._number = number
        self._master = master
        self.seen: list[str] = []
        for node in master.all:
            node.before = self._Look

    def _Look(self, name: str, _args: Any) -> None:
        self.seen.append(name)
        if len(self.seen) >= self._number:
            raise errors.RpcCallError("cut off")

    def Heal(self) -> None:
        for node in self._master.all:
            node.before = lambda name, args: None


def _CleanUp(mirrors: Mirrors) -> None:
    """Do what an administrator would: remove the instance, then what verify names, with the commands that it names."""
    master = mirrors.master
    if master.snapshot.ExpandName("instance", WEB) is not None:
        master.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    for text in master.last.messages:
        for node, machine in zip(master.all, mirrors.machines, strict=True):
            if node.member.name in text:
                for resource in re.findall(r"'drbdsetup down (\S+)'", text):
                    machine._DoDown([resource], {})
                    machine.Publish()
                for volume in re.findall(r"'lvremove (\S+)'", text):
                    del node.lvm.lvs[tuple(volume.split("/"))]


def _Create(template: str) -> opcodes.OpInstanceCreate:
    return OnDisks(WEB, {"size": 128}, {"size": 256}, disk_template=template, start=True, **_MORE[template])


_MORE: dict[str, dict[str, Any]] = {"plain": {}, "drbd": {"snode": "node2", "wait_for_sync": True}}


def _IsCutOff(master: Master, op: opcodes.OpCode, number: int) -> bool:
    """Run an operation until this call; return whether it got there."""
    cut = CutOff(master, number)
    try:
        master.Run(op)
    except errors.GenericError:
        assert len(cut.seen) >= number, "it failed by itself"
    cut.Heal()
    return len(cut.seen) >= number


@pytest.mark.req("D20-LOCK-11")
@pytest.mark.parametrize("template", sorted(_MORE))
def test_what_a_creation_leaves_is_cleaned_up_by_ordinary_commands(three: Master, template: str) -> None:
    mirrors = Mirrors(three)
    number, left = 1, 0
    while _IsCutOff(three, _Create(template), number):
        left += sum(mirrors.Volumes()) > 0
        _CleanUp(mirrors)
        assert (mirrors.Volumes(), mirrors.States()) == ([0, 0, 0], [[], [], []]), number
        assert not three.snapshot.disks and not any(node.guests for node in three.all), number
        number += 1
    assert left > 4, "it was cut off where something was left"
    assert three.Instance(WEB).admin_state == "up"


@pytest.mark.req("D20-LOCK-11")
@pytest.mark.parametrize("template", sorted(_MORE))
def test_what_a_removal_leaves_is_cleaned_up_by_ordinary_commands(three: Master, template: str) -> None:
    mirrors = Mirrors(three)
    for number in range(1, 100):
        three.Run(_Create(template))
        cut_off = _IsCutOff(three, opcodes.OpInstanceRemove(instance_name=WEB), number)
        _CleanUp(mirrors)
        assert (mirrors.Volumes(), mirrors.States()) == ([0, 0, 0], [[], [], []]), number
        assert not three.snapshot.disks and not any(node.guests for node in three.all), number
        if not cut_off:
            break
    assert number > 3


def test_the_laboratory_strikes_at_each_step_and_not_after_the_last_one(three: Master) -> None:
    Mirrors(three)
    three.Run(_Create("drbd"))
    three.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    steps = [text for text in three.last.messages if text.startswith("* ")]
    assert steps.index("* done") == len(steps) - 1 == STEPS_OF_MIGRATION, steps
    for side in ("primary", "secondary"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=f"replace_on_{side}"))
        assert sum("STEP" in text for text in three.last.messages) == STEPS_OF_REPLACEMENT


def test_what_stands_against_a_replacement_is_removed_by_the_command_that_is_named(three: Master) -> None:
    """As after a power cut of the secondary, or after the loss of the link."""
    mirrors = Mirrors(three)
    three.Run(_Create("drbd"))
    replace = opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary")
    mirrors.machines[1].LosePower()
    with pytest.raises(errors.OpExecError, match="Can't find disk/0 on node node2") as caught:
        three.Run(replace)
    assert caught.value.hint == f"use 'gnt-instance activate-disks {WEB}' and try again"
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    mirrors.links.Cut()
    with pytest.raises(errors.OpExecError, match="has degraded storage") as caught:
        three.Run(replace)
    assert caught.value.hint == f"use 'gnt-instance activate-disks --wait-for-sync {WEB}' and try again"
    mirrors.links.Heal()
    three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB, wait_for_sync=True))
    three.Run(replace)
