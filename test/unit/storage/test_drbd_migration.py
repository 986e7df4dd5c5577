"""Mirrors during a migration: both sides may be open for a while, and the guest writes on."""

from __future__ import annotations

import pytest
from simulated import Invocation
from support.mirrorpair import Pair, Side

from ganeti import backend

OPEN, CLOSED = ("Connected", "Primary", "UpToDate", False), ("Connected", "Secondary", "UpToDate", False)


@pytest.fixture
def mirror() -> Pair:
    """A mirror whose first side is open."""
    return Pair().Create()


def _PermitBoth(mirror: Pair, **values: str) -> None:
    for side in (mirror.one, mirror.two):
        side.Do("drbd_attach_net", [side.Disk(**values)], True)


def _LinkCommands(side: Side) -> list[list[str]]:
    return [argv[1:2] + argv[4:] for argv in side.drbd.runs if argv[1] in ("disconnect", "connect", "net-options")]


def test_a_migration_keeps_the_link(mirror: Pair) -> None:
    """So no request of the guest waits, and none is sent again."""
    one, two = mirror.one, mirror.two
    for side in (one, two):
        side.drbd.runs.clear()
    two.Do("drbd_attach_net", [two.Disk()], True)
    assert (one.State(), two.State()) == (OPEN, OPEN), "the other node's call may be on its way"
    one.Do("drbd_attach_net", [one.Disk()], True)
    two.Fail(r"cannot be changed while it is connected: .*\(164\)", "drbd_attach_net", [two.Disk()], False)
    one.Do("blockdev_close", "", [one.Disk()])
    for side in (one, two):
        side.Do("drbd_attach_net", [side.Disk()], False)
        assert not side.device.two_primaries
    assert (one.State(), two.State()) == (CLOSED, OPEN)
    one.Fail("is open on the other node", "blockdev_open", "", [one.Disk()], True)
    for side in (one, two):
        assert {words[0] for words in _LinkCommands(side)} == {"net-options"}


def test_sides_that_are_not_connected_are_connected_with_the_permission(mirror: Pair) -> None:
    """A master of release 3.1 drops the link first; and after a clean-up one side may be linked, the other one not."""
    one, two = mirror.one, mirror.two
    one.Do("drbd_disconnect_net", [one.Disk()])
    assert one.State() == ("StandAlone", "Primary", "UpToDate", True)
    assert two.State() == ("WFConnection", "Secondary", "UpToDate", False)
    assert one.Do("drbd_needs_activation", [one.Disk()]) == [one.Disk().uuid]
    # The other side comes a moment later.
    disk = one.Disk().ToDict(runtime=True)
    one.machine.StartProcess(lambda: backend.Handlers()["drbd_attach_net"]([disk], True), "attach")
    two.Do("drbd_attach_net", [two.Disk()], True)
    assert (one.State(), two.State()) == (OPEN, OPEN)
    one.Do("drbd_disconnect_net", [one.Disk()])
    one.Do("drbd_disconnect_net", [one.Disk()])


def test_a_link_that_is_refused_meanwhile_is_made_anew(mirror: Pair) -> None:
    one = mirror.one
    working = one.machine.programs["drbdsetup"]

    def refused_before(invocation: Invocation) -> int | None:
        if invocation.argv[1] == "net-options":
            one.device.link = "StandAlone"
            one.drbd.Publish()
            mirror.two.device.link = "WFConnection"
            mirror.two.device.two_primaries = True
        return working(invocation)

    one.machine.programs["drbdsetup"] = refused_before
    one.Do("drbd_attach_net", [one.Disk()], True)
    assert one.State() == OPEN and one.device.two_primaries


def test_beside_an_old_module_the_link_is_dropped_and_made_anew(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    mirror.links.tells_options = False
    disk = one.Disk().ToDict(runtime=True)
    one.machine.StartProcess(lambda: backend.Handlers()["drbd_attach_net"]([disk], True), "attach")
    two.Do("drbd_attach_net", [two.Disk()], True)
    assert (one.State(), two.State()) == (OPEN, OPEN)
    for side in (one, two):
        commands = [words[0] for words in _LinkCommands(side)]
        assert commands[:3] == ["connect", "net-options", "disconnect"] and commands[-1] == "connect"
    one.drbd.runs.clear()
    one.Do("drbd_attach_net", [one.Disk()], True)
    assert [words[0] for words in _LinkCommands(one)] == ["net-options"], "it is permitted already"


def test_a_link_that_goes_elsewhere_is_left_alone(mirror: Pair) -> None:
    """The disk's other side has been moved since; what this link leads to is not permitted anything."""
    one = mirror.one
    one.Fail("not linked with its other side, but elsewhere", "drbd_attach_net", [one.Disk(port=11009)], True)
    assert not one.device.two_primaries and one.State() == OPEN


def test_two_open_sides_always_have_the_same_data(mirror: Pair) -> None:
    """Protocol B would let a guest that has just arrived read what was there before its last writes."""
    one, two = mirror.one, mirror.two
    _PermitBoth(mirror, protocol="B")
    assert _LinkCommands(one)[-1] == ["net-options", "--protocol=C", "--allow-two-primaries=yes"]
    one.Do("blockdev_close", "", [one.Disk()])
    for side in (one, two):
        side.Do("drbd_attach_net", [side.Disk(protocol="B")], False)
    assert (one.device.protocol, two.device.protocol) == ("B", "B")
    two.Do("drbd_disconnect_net", [two.Disk()])
    disk = one.Disk(protocol="B").ToDict(runtime=True)
    one.machine.StartProcess(lambda: backend.Handlers()["drbd_attach_net"]([disk], True), "attach")
    two.Do("drbd_attach_net", [two.Disk(protocol="B")], True)
    assert {"--protocol=C", "--allow-two-primaries=yes"} <= set(_LinkCommands(two)[-1]), "also where there was no link"


def test_two_open_sides_are_not_permitted_longer_than_a_migration(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    _PermitBoth(mirror)
    one.Assemble(one.Disk())
    assert one.device.two_primaries and one.State()[0] == "Connected", "a migration is not disturbed"
    two.drbd.LosePower()
    one.Assemble(one.Disk())
    assert one.State() == ("WFConnection", "Primary", "UpToDate", True) and not one.device.two_primaries
    two.Assemble(two.Disk())
    assert one.State() == ("Connected", "Primary", "UpToDate", False)
