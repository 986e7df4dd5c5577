"""What the kernel does after a command has ended, and what it learns from the other node a moment later (doc/design-drbd.rst)."""

from __future__ import annotations

import pytest
from support.mirrorpair import Pair


@pytest.fixture
def mirror() -> Pair:
    return Pair().Create()


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
