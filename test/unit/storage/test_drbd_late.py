"""What the kernel does after a command has ended, and what it hears from the other node a moment later (doc/design-drbd.rst)."""

from __future__ import annotations

import pytest
from support.mirrorpair import Pair

from ganeti import backend
from ganeti.storage.utilities import drbdtools

MIB = 1 << 20


@pytest.fixture
def mirror() -> Pair:
    return Pair().Create()


def test_a_growth_ends_when_both_sides_have_agreed_on_it(mirror: Pair) -> None:
    """The program does not wait for that; a hypervisor that is told too early refuses the new size."""
    one = mirror.one
    mirror.links.late = 1.0
    for side in (one, mirror.two):
        side.Do("blockdev_grow", side.Disk(), 16, False, True, False)

    def grow_and_look() -> int:
        backend.Handlers()["blockdev_grow"](one.Disk().ToDict(runtime=True), 16, False, False, False)
        return drbdtools.DeviceBytes(0)

    assert one.machine.Call(grow_and_look) == 80 * MIB
    for side in (one, mirror.two):
        side.Do("blockdev_grow", side.Disk(size=80), 16, False, True, False)
    mirror.links.late = 100.0
    one.Fail(
        "has not grown to 96 MiB; both nodes must be connected",
        "blockdev_grow",
        one.Disk(size=80),
        16,
        False,
        False,
        False,
    )


def test_a_growth_ends_as_soon_as_the_link_is_lost(mirror: Pair) -> None:
    """The guest waits then, and so does whatever lets it go on, for the job that grows the disk."""
    one = mirror.one
    mirror.links.late = 2.0
    for side in (one, mirror.two):
        side.Do("blockdev_grow", side.Disk(), 16, False, True, False)
    one.machine.world.Schedule(1.0, mirror.links.Cut)
    began = one.machine.world.now
    one.Fail("has not grown to 80 MiB", "blockdev_grow", one.Disk(), 16, False, False, False)
    assert one.device.frozen and one.machine.world.now - began < 5.0


@pytest.mark.parametrize("way", ["open", "migrate"])
def test_what_happened_on_the_other_node_a_moment_ago_is_waited_for(mirror: Pair, way: str) -> None:
    one, two = mirror.one, mirror.two
    if way == "migrate":
        for side in (one, two):
            side.Do("drbd_attach_net", [side.Disk()], True)
        two.Do("blockdev_open", "", [two.Disk()], False)
    one.Do("blockdev_close", "", [one.Disk()])
    one.drbd.SeemOpen(0, 2.0)
    if way == "open":
        two.Do("blockdev_open", "", [two.Disk()], True)
    else:
        two.Do("drbd_attach_net", [two.Disk()], False)
    assert two.State() == ("Connected", "Primary", "UpToDate", False) and not two.device.two_primaries


def test_a_decision_is_obeyed_while_the_kernel_lets_go_of_a_disk(mirror: Pair) -> None:
    one = mirror.one
    mirror.links.late = 5.0
    one.drbd.Detach(0)
    assert one.device.disk == "Failed"
    one.Do("drbd_follow", [one.Disk("ahead")])
    one.drbd.Detach(0)
    assert one.device.disk == "Failed"
    one.Assemble(one.Disk("ahead"))
    assert one.device.data is None
