"""Devices of others in the numbers of our mirrors (doc/design-drbd.rst, "Other rules")."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.mirrorpair import Layers, Pair
from support.mirrors import MakeMirror
from support.standindrbd import Device
from support.virtual import MakeInstance

DATA = Path(__file__).parents[2] / "data" / "drbd"


@pytest.fixture
def mirror() -> Pair:
    return Pair().Create()


@pytest.mark.req("D20-DISK-07")
def test_a_number_that_is_not_ours_is_left_alone(mirror: Pair) -> None:
    two = mirror.two
    before = two.State()
    strange = two.Disk(name="other")
    problem = (
        r"another device has this number on this node, minor 0 \(resource0\): volume /dev/vg/one_data.*left as it is"
    )
    two.Fail(problem, "blockdev_assemble", strange, MakeInstance().ToDict(runtime=True), False, 0)
    two.Fail("in use already", "blockdev_create", *Layers(two, strange), 64, "x", False, "", False)
    for name, args in (
        ("blockdev_shutdown", [strange]),
        ("blockdev_remove", [strange]),
        ("blockdev_close", ["", [strange]]),
        ("drbd_follow", [[two.Disk("ahead", name="other")]]),
    ):
        two.Do(name, *args)
    assert two.Do("blockdev_find", strange) is None
    assert two.State() == before
    two.device.resource = "r0"
    two.device.data, two.device.disk = None, "Diskless"
    mirror.links.Publish()
    two.Fail("minor 0 .r0.", "blockdev_assemble", two.Disk(), MakeInstance().ToDict(runtime=True), False, 0)


_STRANGERS: dict[str, dict[str, Any]] = {
    "another data volume": {"data": "/dev/vg/guest_data"},
    "other metadata": {"meta": "/dev/vg/guest_meta"},
    "internal metadata": {"meta": "internal"},
    "another name": {"resource": "home"},
    "without a disk, linked elsewhere": {
        "data": None, "meta": None, "disk": "Diskless", "ends": ("ipv4:192.0.2.1:7788", "ipv4:192.0.2.9:7788"),
    },
    "our name under another number": {"minor": 5},
}  # fmt: skip


@pytest.mark.req("D20-DISK-07")
@pytest.mark.parametrize("kind", _STRANGERS)
def test_a_device_is_known_by_what_it_is_not_by_its_number(mirror: Pair, kind: str) -> None:
    one, disk = mirror.one, mirror.one.Disk
    strange = one.drbd.devices.pop(0)
    for name, value in _STRANGERS[kind].items():
        setattr(strange, name, value)
    one.drbd.devices[strange.minor] = strange
    mirror.links.Publish()
    before = vars(strange).copy()
    one.drbd.runs.clear()
    advice = f"drbdsetup down {strange.resource}'"
    [view] = one.Do("drbd_views", [disk()]).values()
    assert advice in view["stranger"] and view["incomplete"]
    assert not (view["connected"] or view["local_uptodate"] or view["peer_uptodate"] or view["primary"])
    instance = MakeInstance().ToDict(runtime=True)
    for peer in ("counts", "behind", "ahead"):
        one.Fail(advice, "blockdev_assemble", disk(peer), instance, True, 0)
        one.Fail("not found on this node", "blockdev_open", "", [disk(peer)], True)
        one.Do("drbd_follow", [disk(peer)])
        one.Do("blockdev_close", "", [disk(peer)])
    one.Fail("not found on this node", "drbd_disconnect_net", [disk()])
    one.Fail("not found on this node", "drbd_attach_net", [disk()], False)
    one.Fail("not found on this node", "blockdev_addchildren", disk(), [])
    assert one.Do("drbd_needs_activation", [disk()]) == [disk().uuid]
    [[found, text]] = one.Do("blockdev_getmirrorstatus_multi", [disk()])
    assert not found and (kind == "our name under another number" or advice in text)
    one.Do("blockdev_shutdown", disk())
    if strange.data is None:
        one.Do("blockdev_remove", disk())
    else:
        one.Fail("is used by another device", "blockdev_remove", disk())
    assert vars(strange) == before and {argv[1] for argv in one.drbd.runs} == {"show"}


@pytest.mark.parametrize(
    ("changes", "stranger"),
    [
        ({}, None),
        ({"local": "FD00:0::0001"}, None),
        ({"local": "fd00::3"}, "not linked with its other side"),
        ({"name": "x4"}, "minor 3 .resource3.: volume /dev/vg/x3_data, metadata /dev/vg/x3_meta"),
        ({"minor": 9, "name": "x9"}, None),
    ],
)
def test_what_drbdsetup_was_seen_to_print_is_compared_with_the_disk(
    mirror: Pair, changes: dict[str, Any], stranger: str | None
) -> None:
    machine = mirror.one.machine
    machine.programs["drbdsetup"] = lambda run: run.Print(DATA.joinpath("show-8.4.11.txt").read_text("utf-8"))
    for minor in (3, 9):
        mirror.one.drbd.devices[minor] = Device(minor, f"resource{minor}", disk="UpToDate", link="Connected")
    mirror.links.Publish()
    values = {"local": "fd00::1", "remote": "fd00::2", "minor": 3, "name": "x3", "port": 11003, **changes}
    disk = MakeMirror(**values)
    [view] = mirror.one.Do("drbd_views", [disk]).values()
    assert (view["stranger"] is None) == (stranger is None) == view["connected"]
    assert stranger is None or re.search(stranger, view["stranger"])


@pytest.mark.parametrize("addresses", [(1, 9), (9, 2)])
def test_a_device_that_is_linked_elsewhere_is_neither_counted_nor_opened(
    mirror: Pair, addresses: tuple[int, int]
) -> None:
    """``addresses``: its own and that of the other side; one of them was changed."""
    one, disk = mirror.one, mirror.one.Disk
    local, remote = addresses
    one.device.ends = f"ipv4:192.0.2.{local}:11000", f"ipv4:192.0.2.{remote}:11000"
    mirror.links.Publish()
    [view] = one.Do("drbd_views", [disk()]).values()
    assert view["stranger"] and view["primary"], "it is ours, and open"
    one.Do("blockdev_close", "", [disk()])
    assert one.State()[0] == "Connected", "as far as the kernel knows"
    [view] = one.Do("drbd_views", [disk()]).values()
    assert "minor 0 (resource0)" in view["stranger"] and "192.0.2.9" in view["stranger"] and not view["connected"]
    one.Fail("linked with its other side", "blockdev_open", "", [disk()], True)
    assert one.State()[1] == "Secondary"
    mirror.two.device.link = "WFConnection"
    one.Assemble(disk(), primary=True)
    [view] = one.Do("drbd_views", [disk()]).values()
    assert view["stranger"] is None and view["connected"] and view["primary"]
