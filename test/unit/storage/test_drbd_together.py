"""Calls on one mirror that meet: what each of them does follows from what it sees once nobody else is at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.mirrorpair import Pair, Side
from support.virtual import MakeInstance

from ganeti import backend, errors, runtime


def _After(side: Side, verb: str, act: Callable[[], Any]) -> None:
    """Let another call be carried out whole after the next ``drbdsetup VERB``, before its caller goes on."""
    program = side.machine.programs["drbdsetup"]

    def run(invocation: Any) -> int:
        code = int(program(invocation) or 0)
        if invocation.argv[1] == verb:
            side.machine.programs["drbdsetup"] = program
            side.machine.StartProcess(act, "the other call")
            runtime.Sleep(5.0)
        return code

    side.machine.programs["drbdsetup"] = run


def _During(side: Side, verb: str, act: Callable[[], Any]) -> None:
    """Let another call go as far as it can before the next ``drbdsetup VERB`` does anything."""
    program = side.machine.programs["drbdsetup"]

    def run(invocation: Any) -> int:
        if invocation.argv[1] == verb:
            side.machine.programs["drbdsetup"] = program
            side.machine.StartProcess(act, "the other call")
            runtime.Sleep(5.0)
        return int(program(invocation) or 0)

    side.machine.programs["drbdsetup"] = run


def _Refuse(side: Side, verb: str) -> None:
    """Have the next ``drbdsetup VERB`` fail without doing anything."""
    program = side.machine.programs["drbdsetup"]

    def run(invocation: Any) -> int:
        if invocation.argv[1] != verb:
            return int(program(invocation) or 0)
        side.machine.programs["drbdsetup"] = program
        invocation.Complain("refused\n")
        return 10

    side.machine.programs["drbdsetup"] = run


def _Call(side: Side, name: str, *args: Any) -> Callable[[], Any]:
    handler = backend.Handlers()[name]
    return lambda: handler(*args)


@pytest.fixture(name="pair")
def _Pair() -> Pair:
    return Pair().Create()


def test_a_late_word_that_one_side_does_not_count_does_not_outlast_the_newer_one(pair: Pair) -> None:
    one = pair.one
    late = one.Disk("behind", decision=1).ToDict(runtime=True)
    _After(one, "show", _Call(one, "drbd_follow", [late]))
    one.Do("drbd_follow", [one.Disk("counts", decision=2)])
    assert one.device.options["fencing"] == "resource-and-stonith"
    pair.links.Cut()
    assert one.device.frozen


def test_two_activations_do_not_take_each_others_device_down(pair: Pair) -> None:
    one, two = pair.one, pair.two
    two.Do("blockdev_shutdown", two.Disk())
    assert one.device.frozen
    instance = MakeInstance().ToDict(runtime=True)
    disk = two.Disk("counts", decision=2)
    _After(two, "show", _Call(two, "blockdev_assemble", disk.ToDict(runtime=True), instance, False, 0))
    two.Do("blockdev_assemble", disk, instance, False, 0)
    assert one.State()[0] == two.State()[0] == "Connected"
    assert not one.device.frozen


def test_two_detachments_of_the_same_volumes_are_one(pair: Pair) -> None:
    two = pair.two
    disk = two.Disk()
    children = [child.ToDict(runtime=True) for child in disk.children]
    _After(two, "show", _Call(two, "blockdev_removechildren", disk.ToDict(runtime=True), children))
    two.Do("blockdev_removechildren", disk, list(disk.children))
    assert two.State()[2] == "Diskless"
    assert [run for run in two.drbd.runs if "detach" in run] == [["drbdsetup", "detach", "0"]]


def test_a_device_that_is_made_in_vain_is_taken_down_and_one_of_somebody_else_is_not(pair: Pair) -> None:
    two = pair.two
    disk = two.Disk()
    two.Do("blockdev_shutdown", disk)
    instance = MakeInstance().ToDict(runtime=True)
    _Refuse(two, "attach")
    two.Fail("cannot be attached", "blockdev_assemble", disk, instance, False, 0)
    assert not two.drbd.devices
    # An administrator at the same moment: the name is taken when ours is to be made.
    downs = two.drbd.Count("down")
    _Refuse(two, "new-resource")
    two.Fail("cannot be made", "blockdev_assemble", disk, instance, False, 0)
    assert two.drbd.Count("down") == downs


def test_the_new_half_of_a_mirror_that_stays_without_a_link_is_known_by_its_volumes() -> None:
    two = Pair().two
    disk = two.Disk()
    alone = disk.Replace(logical_id=(*disk.logical_id[:2], None, *disk.logical_id[3:]))
    two.Create(False, alone)
    # Of another instance, whose number it has.
    others = [child.Replace(logical_id=("vg", f"other{n}")) for n, child in enumerate(disk.children)]
    two.Do("blockdev_shutdown", alone.Replace(children=others))
    assert two.drbd.devices
    two.Do("blockdev_shutdown", alone)
    assert not two.drbd.devices
    for child in reversed(disk.children):
        two.Do("blockdev_remove", child)


def test_volumes_are_added_once(pair: Pair) -> None:
    """The one that came first and hung finds that its device has volumes now, and says so."""
    two = pair.two
    disk = two.Disk()
    children = [child.ToDict(runtime=True) for child in disk.children]
    two.Do("blockdev_removechildren", disk, list(disk.children))
    _After(two, "show", _Call(two, "blockdev_addchildren", disk.ToDict(runtime=True), children))
    with pytest.raises(errors.GenericError, match="has local storage already"):
        two.Do("blockdev_addchildren", disk, list(disk.children))
    assert two.State()[2] != "Diskless"


def test_a_growth_that_waits_for_a_larger_one_changes_nothing(pair: Pair) -> None:
    """Asked for less than there is by then, the kernel would make the device smaller."""
    one = pair.one
    for side in (one, pair.two):
        side.Do("blockdev_grow", side.Disk(), 16, False, True, False)
    _During(one, "resize", _Call(one, "blockdev_grow", one.Disk().ToDict(runtime=True), 8, False, False, False))
    one.Do("blockdev_grow", one.Disk(), 16, False, False, False)
    one.machine.Call(runtime.Sleep, 30.0)
    assert [side.device.size for side in (one, pair.two)] == [80, 80]
    assert one.drbd.Count("resize") == 1


def test_a_link_that_comes_back_during_an_activation_is_not_dropped(pair: Pair) -> None:
    """What a migration has permitted is left over only if the sides are still not connected when it is looked at."""
    one, two = pair.one, pair.two
    for side in (one, two):
        side.Do("drbd_attach_net", [side.Disk()], True)
    pair.links.Cut()
    two.drbd.runs.clear()
    one.drbd.runs.clear()
    _During(one, "disk-options", pair.links.Heal)
    one.Assemble(one.Disk())
    assert one.State()[0] == two.State()[0] == "Connected" and one.device.two_primaries
    assert one.drbd.Count("disk-options") and not one.drbd.Count("disconnect")
