"""What a mirror refuses, or looks at once more, although the state seen a moment ago would allow it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from support.mirrorpair import Pair, Side
from support.mirrors import MakeMirror
from support.virtual import MakeInstance

from ganeti import backend, errors, runtime


@pytest.fixture
def mirror() -> Pair:
    """A mirror that is open on the first node."""
    return Pair().Create()


def _Meanwhile(side: Side, act: Callable[[], Any], after: float = 5.0) -> None:
    def run() -> None:
        runtime.Sleep(after)
        act()

    side.machine.StartProcess(run, "meanwhile")


def _Attach(side: Side) -> None:
    """Connect a side, as the master does at the same time on both."""
    disk = side.Disk("counts").ToDict(runtime=True)
    side.machine.StartProcess(lambda: backend.Handlers()["drbd_attach_net"]([disk], False), "attach")


def test_a_primary_whose_new_other_side_counts_freezes_without_it(mirror: Pair) -> None:
    """The old one did not count; with replace-disks -n its record goes, and the link is made anew."""
    one, two = mirror.one, mirror.two
    mirror.links.Cut()
    one.Do("drbd_follow", [one.Disk("behind")])
    for side in (one, two):
        side.Do("drbd_disconnect_net", [side.Disk("behind" if side is one else "ahead")])
    mirror.links.Heal()
    assert one.device.options["fencing"] == "dont-care"
    _Attach(two)
    one.Do("drbd_attach_net", [one.Disk("counts")], False)
    assert one.State() == ("Connected", "Primary", "UpToDate", False)
    mirror.links.Cut()
    assert one.device.frozen, "it does not acknowledge alone what the other side lacks"


def test_whether_the_other_side_is_open_is_looked_at_when_the_wait_for_it_is_over(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    one.Do("blockdev_close", "", [one.Disk()])
    mirror.links.Cut()

    def open_there() -> None:
        mirror.links.Heal()
        two.device.role = "Primary"
        # A migration that was cut off has left it permitted: the module itself would let both be open.
        one.device.two_primaries = two.device.two_primaries = True
        mirror.links.Publish()

    _Meanwhile(one, open_there)
    one.Fail("is open on the other node; stop its use there first", "blockdev_open", "", [one.Disk()], True)
    assert one.State()[:2] == ("Connected", "Secondary")


def test_a_side_that_counts_and_lacks_some_data_waits_for_the_one_that_fills_it(mirror: Pair) -> None:
    """A fail-over has accepted that the other side does not count, while that was filling this one."""
    one, two = mirror.one, mirror.two
    one.Do("blockdev_close", "", [one.Disk()])
    mirror.links.hold = True
    mirror.links.Cut()
    two.device.disk = two.device.known.state = "Inconsistent"
    mirror.links.Publish()
    _Meanwhile(two, mirror.links.Heal)
    two.Do("blockdev_open", "", [two.Disk("behind")], True)
    assert two.State() == ("SyncTarget", "Primary", "Inconsistent", False)


def test_a_side_whose_volumes_cannot_be_attached_stays_connected(mirror: Pair) -> None:
    """It would be replaced only beside a primary that is connected."""
    one, two = mirror.one, mirror.two
    two.Do("blockdev_removechildren", two.Disk(), list(two.Disk().children))
    one.Do("drbd_follow", [one.Disk("behind")])
    two.drbd.LoseMeta(two.Disk().children[1])
    two.Fail(
        "No valid meta data found",
        "blockdev_assemble",
        two.Disk("ahead"),
        MakeInstance().ToDict(runtime=True),
        False,
        0,
    )
    assert [side.State()[:3] for side in (one, two)] == [
        ("Connected", "Primary", "UpToDate"), ("Connected", "Secondary", "Diskless"),
    ]  # fmt: skip


@pytest.mark.parametrize(("state", "opens"), [("Outdated", True), ("Inconsistent", False)])
def test_a_connected_side_without_a_disk_lends_no_data(mirror: Pair, state: str, opens: bool) -> None:
    one, two = mirror.one, mirror.two
    one.Do("blockdev_removechildren", one.Disk(), list(one.Disk().children))
    one.Do("blockdev_close", "", [one.Disk()])
    two.device.disk = two.device.known.state = state
    mirror.links.Tell(two.device)
    mirror.links.Publish()
    two.drbd.runs.clear()
    if opens:
        two.Do("blockdev_open", "", [two.Disk("behind")], True)
        assert two.State()[:3] == ("Connected", "Primary", "UpToDate")
    else:
        two.Fail(r"is not complete \(Inconsistent\)", "blockdev_open", "", [two.Disk("behind")], True)
        assert two.drbd.Count("primary") == 0


def test_volumes_are_detached_only_if_both_are_those_it_has(mirror: Pair) -> None:
    one, disk = mirror.one, mirror.one.Disk()
    data, meta = disk.children
    for named in (
        [data, meta.Replace(logical_id=("vg", "new_meta"))],
        [data.Replace(logical_id=("vg", "x")), meta],
        [data],
    ):
        one.Fail("are not those it has", "blockdev_removechildren", disk, named)
    assert one.State() == ("Connected", "Primary", "UpToDate", False)


def test_a_side_that_is_connected_is_not_taken_down_to_be_made_larger(mirror: Pair) -> None:
    """Its primary would go on alone, as after an agreed end of the link; a growth that is under way makes both larger."""
    one, two = mirror.one, mirror.two
    instance = MakeInstance().ToDict(runtime=True)
    for side, primary in ((two, False), (one, True)):
        side.drbd.runs.clear()
        side.Do("blockdev_assemble", side.Disk(size=80), instance, primary, 0)
        assert not {"down", "disconnect"} & {argv[1] for argv in side.drbd.runs}
    assert one.device.known.base == 0 and one.State() == ("Connected", "Primary", "UpToDate", False)


def test_requests_that_wait_for_the_other_side_keep_a_device_open(mirror: Pair) -> None:
    """Their writer has not been told that they are done, and nobody has decided which side counts."""
    one = mirror.one
    mirror.links.Cut()
    one.device.pending = 3
    mirror.links.Publish()
    for call in (("blockdev_close", "", [one.Disk()]), ("blockdev_shutdown", one.Disk())):
        one.Fail("3 requests wait for the other node.*'gnt-cluster verify' says how", *call)
    assert one.drbd.Count("secondary") == 0 and one.device.frozen
    one.device.pending = 0
    mirror.links.Publish()
    one.Do("blockdev_close", "", [one.Disk()])
    assert one.State()[:2] == ("WFConnection", "Secondary")


def test_a_volume_that_a_mirror_has_open_is_not_removed(mirror: Pair) -> None:
    """Of the stand-in, which would otherwise hide a mirror that is left configured."""
    one, disk = mirror.one, mirror.one.Disk()
    with pytest.raises(errors.GenericError, match="is used by another device"):
        one.Do("blockdev_remove", disk.children[0])
    one.Do("blockdev_remove", disk)
    assert one.lvm.Volumes() == [] and one.drbd.devices == {}


def test_an_open_side_is_detached_only_beside_one_that_has_everything(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    two.Do("blockdev_removechildren", two.Disk(), list(two.Disk().children))
    one.Fail(
        "which would serve the guest, is Diskless, Connected",
        "blockdev_removechildren",
        one.Disk(),
        list(one.Disk().children),
    )
    assert one.drbd.Count("detach") == 0 and one.State()[2] == "UpToDate"


@pytest.mark.parametrize("why", ["it is open", "it counts", "there is nothing to attach"])
def test_a_link_is_dropped_only_for_a_closed_side_that_does_not_count_and_has_volumes(mirror: Pair, why: str) -> None:
    one, two = mirror.one, mirror.two
    side = one if why == "it is open" else two
    side.Do("blockdev_removechildren", side.Disk(), list(side.Disk().children))
    if why == "there is nothing to attach":
        side.lvm.lvs.clear()
    side.drbd.runs.clear()
    disk = side.Disk("counts" if why == "it counts" else "ahead")
    instance = MakeInstance().ToDict(runtime=True)
    side.machine.Call(backend.Handlers()["blockdev_assemble"], disk.ToDict(runtime=True), instance, False, 0)
    assert side.drbd.Count("disconnect") == 0 and side.State()[0] == "Connected"


def test_metadata_is_not_written_over_what_another_mirror_has(mirror: Pair) -> None:
    one = mirror.one
    used = one.Disk(size=128)
    other = MakeMirror(*one.ends, 1, 1, "other", size=128, port=11001)
    for volume in (*used.children, other.children[0]):
        with contextlib.suppress(errors.GenericError):  # the first mirror's are there
            one.Do("blockdev_create", volume, volume.size, "guest", True, "note", False)
    one.Do("blockdev_grow", used.children[0], 64, False, True, False)
    for taken in used.children:
        disk = other.Replace(children=[other.children[0], taken])
        one.Fail("is in use by", "blockdev_create", disk, disk.size, "guest", True, "note", False)
