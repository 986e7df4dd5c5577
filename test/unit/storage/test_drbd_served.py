"""A guest whose own side of a mirror has no disk: the other side serves it, and is lost (doc/design-drbd.rst).

What the stand-in does there is what 8.4.11 did in the laboratory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from support.mirrorpair import Pair, Side
from support.virtual import MakeInstance

from ganeti import hypervisor, objects
from ganeti.hypervisor.base import NotEnded
from ganeti.hypervisor.fake import FakeHypervisor

TRAIL = [["gnt:client:gnt-instance", "because", 1]]


@pytest.fixture(name="pair")
def _Pair() -> Pair:
    """A mirror that is open on the first node, whose disk has failed there, and is readable again."""
    pair = Pair().Create()
    _Lose(pair)
    return pair


def _Lose(pair: Pair) -> None:
    pair.one.drbd.Detach(0)
    pair.two.Do("drbd_follow", [pair.two.Disk("behind")])
    pair.one.Do("drbd_follow", [pair.one.Disk("ahead")])
    assert pair.one.State() == ("Connected", "Primary", "Diskless", False)


def _Activate(side: Side, peer: str, primary: bool = False) -> tuple[Any, ...]:
    return "blockdev_assemble", side.Disk(peer), MakeInstance().ToDict(runtime=True), primary, 0


def test_it_waits_for_the_side_that_serves_it(pair: Pair) -> None:
    """By itself the kernel would fail its requests at once, and its file system would be read-only from then on."""
    pair.links.Cut()
    assert pair.one.State() == ("WFConnection", "Primary", "Diskless", True)
    pair.links.Heal()
    assert pair.one.State() == ("Connected", "Primary", "Diskless", False)


def test_old_volumes_are_not_attached_before_the_other_side_is_there(pair: Pair) -> None:
    one = pair.one
    pair.links.Cut()
    for _ in range(2):
        one.Fail(r"older than what the guest has seen.*is not connected \(WFConnection\); the guest waits for it.*"
                 "'gnt-instance activate-disks INSTANCE'", *_Activate(one, "ahead"))  # fmt: skip
        assert one.State() == ("WFConnection", "Primary", "Diskless", True)
    pair.links.Heal()
    one.Do(*_Activate(one, "ahead"))
    assert one.State() == ("Connected", "Primary", "UpToDate", False)


def test_what_it_lost_last_is_attached_while_the_other_side_is_away() -> None:
    pair = Pair().Create()
    one = pair.one
    pair.links.Cut()
    one.drbd.Detach(0)
    assert one.State() == ("WFConnection", "Primary", "Diskless", True)
    one.Do(*_Activate(one, "counts"))
    assert one.State() == ("WFConnection", "Primary", "Consistent", True)
    pair.links.Heal()
    assert one.State() == ("Connected", "Primary", "UpToDate", False)


def test_an_activation_connects_it_where_the_link_was_dropped(pair: Pair) -> None:
    """The volumes cannot be attached before, so the link comes first."""
    one = pair.one
    one.Do("drbd_disconnect_net", [one.Disk("ahead")])
    assert one.State() == ("StandAlone", "Primary", "Diskless", True)
    one.Do(*_Activate(one, "ahead"))
    assert one.State() == ("Connected", "Primary", "UpToDate", False)


@pytest.mark.parametrize(("call", "waits"), [("counts", True), ("behind", True), (None, False)])
def test_a_device_that_release_3_1_set_up_is_told_so_too(call: str | None, waits: bool) -> None:
    pair = Pair()
    one = pair.one
    for side, primary in ((one, True), (pair.two, False)):
        side.Create(primary, side.Disk(None))
    assert one.device.no_data == "io-error"
    if call == "behind":
        one.Do("drbd_follow", [one.Disk(call)])
    else:
        one.Do(*_Activate(one, call))
    assert one.device.no_data == ("suspend-io" if waits else "io-error")
    count = one.drbd.Count("resource-options")
    one.Do("drbd_follow", [one.Disk(call)])
    assert one.drbd.Count("resource-options") == count, "it knows already"


def test_it_is_told_before_it_has_a_disk_or_a_link() -> None:
    pair = Pair().Create()
    verbs = [argv[1] for argv in pair.one.drbd.runs]
    assert (
        verbs.index("new-minor") < verbs.index("resource-options") < min(verbs.index("attach"), verbs.index("connect"))
    )


def test_who_chose_not_to_freeze_is_left_alone() -> None:
    pair = Pair()
    one = pair.one
    for side, primary in ((one, True), (pair.two, False)):
        side.Create(primary, side.Disk(**{"disk-custom": "--fencing=dont-care"}))
    assert one.device.no_data == "io-error" and one.drbd.Count("resource-options") == 0


def test_other_reasons_not_to_attach_are_told_at_once(pair: Pair) -> None:
    one = pair.one
    one.drbd.LoseMeta(one.Disk().children[1])
    pair.links.Cut()
    one.Fail("its local storage cannot be attached.*No valid meta data", *_Activate(one, "ahead"))


# --- the end of a guest that waits ------------------------------------------------------------------------------------


class _Stuck(FakeHypervisor):
    """A guest whose process cannot end while one of its disks does not answer."""

    sides: ClassVar[list[Side]] = []
    killed: ClassVar[bool] = False

    def Stop(
        self, instance: objects.Instance, force: bool = False, retry: bool = False, timeout: float | None = None
    ) -> None:
        type(self).killed = self.killed or force
        self._EndIfItCan(instance)
        if force and super().Exists(str(instance.name)):
            raise NotEnded(f"Instance {instance.name}: process 1 does not end")

    def _EndIfItCan(self, instance: objects.Instance) -> None:
        if self.killed and not any(device.frozen for device in self.sides[0].drbd.devices.values()):
            super().Stop(instance, force=True)

    def Exists(self, instance_name: str) -> bool:
        self._EndIfItCan(MakeInstance(name=instance_name))
        return super().Exists(instance_name)


@pytest.fixture
def stuck() -> Iterator[type[_Stuck]]:
    hypervisor.UseDrivers({"fake": _Stuck})
    _Stuck.killed = False
    yield _Stuck
    hypervisor.UseDrivers({})


def _Started(pair: Pair, stuck: type[_Stuck], peer: str) -> dict[str, Any]:
    """A guest with two mirrors; what it is like in calls that say ``peer`` of both."""
    second: dict[str, Any] = {"name": "more", "minor": 1, "remote_minor": 1, "port": 11001}
    for side, primary in ((pair.one, True), (pair.two, False)):
        side.Create(primary, side.Disk(**second))
    stuck.sides = [pair.one]
    one = pair.one
    disks = [one.Disk(peer), one.Disk(peer, **second)]
    guest = MakeInstance(disks=[one.Disk("counts"), one.Disk("counts", **second)])
    for number, disk in enumerate((one.Disk("ahead"), one.Disk("counts", **second))):
        one.Do("blockdev_assemble", disk, guest.ToDict(runtime=True), True, number)
    one.Do("instance_start", guest.ToDict(runtime=True), False, TRAIL)
    return MakeInstance(disks=disks).ToDict(runtime=True)


def test_a_guest_that_was_ended_goes_although_its_own_side_waits_for_ever(pair: Pair, stuck: type[_Stuck]) -> None:
    data = _Started(pair, stuck, "ahead")
    for number in (0, 1):
        pair.one.drbd.Detach(number)
    pair.links.Cut()
    assert all(device.frozen for device in pair.one.drbd.devices.values())
    pair.one.Do("instance_shutdown", data, 1, TRAIL)
    assert pair.one.Do("instance_list", ["fake"], {}) == []
    for number in (0, 1):
        assert pair.one.drbd.devices[number].role == "Primary", "the disks are closed by calls of their own"
    # A change of the link would freeze it again.
    ends = [argv[1:2] + argv[3:] for argv in pair.one.drbd.runs if argv[1] in ("resource-options", "resume-io")][-4:]
    assert [words[0] for words in ends] == ["resource-options", "resume-io"] * 2
    assert ends[0][-1] == "--on-no-data-accessible=io-error"
    for disk in (pair.one.Disk("ahead"), pair.one.Disk("ahead", name="more", minor=1, remote_minor=1, port=11001)):
        pair.one.Do("blockdev_shutdown", disk)
    assert pair.one.drbd.devices == {}


@pytest.mark.parametrize("peer", ["counts", "behind"])
def test_a_side_without_a_disk_is_released_whatever_is_recorded(stuck: type[_Stuck], peer: str) -> None:
    """Nothing of what waits is on its disk: the link was lost before, or the other side is older."""
    pair = Pair().Create()
    data = _Started(pair, stuck, peer)
    pair.links.Cut()
    for disk in data["disks_info"]:
        pair.one.Do("drbd_follow", [objects.Disk.FromDict(disk)])
    for number in (0, 1):
        pair.one.drbd.Detach(number)
    for disk in data["disks_info"]:
        pair.one.Do("drbd_follow", [objects.Disk.FromDict(disk)])
    assert all(device.frozen for device in pair.one.drbd.devices.values()), "a living guest sees no error"
    pair.one.Do("instance_shutdown", data, 1, TRAIL)
    assert pair.one.Do("instance_list", ["fake"], {}) == []


def test_a_side_that_cannot_know_whether_it_is_complete_is_released(stuck: type[_Stuck]) -> None:
    """Its disk was lost when it was frozen already, and was attached again: it has every acknowledged write."""
    pair = Pair().Create()
    data = _Started(pair, stuck, "counts")
    pair.links.Cut()
    pair.one.drbd.Detach(0)
    pair.one.drbd.devices[1].frozen = False
    pair.links.Publish()
    pair.one.Do(*_Activate(pair.one, "counts"))
    assert pair.one.State() == ("WFConnection", "Primary", "Consistent", True)
    pair.one.Do("instance_shutdown", data, 1, TRAIL)
    assert pair.one.Do("instance_list", ["fake"], {}) == []


def test_a_living_guest_is_told_nothing_by_a_call_that_closes_its_disks(pair: Pair) -> None:
    """Where the record does not say that this side does not count."""
    pair.links.Cut()
    pair.one.device.pending = 1
    pair.links.Publish()
    for peer in ("counts", "behind"):
        pair.one.Fail("1 requests wait for the other node", "blockdev_close", "", [pair.one.Disk(peer)])
    assert pair.one.State() == ("WFConnection", "Primary", "Diskless", True)


def test_a_late_call_releases_nothing(pair: Pair, stuck: type[_Stuck]) -> None:
    """The other side has been filled, and both count since; what waits may be on this one only."""
    data = _Started(pair, stuck, "ahead")
    for disk in data["disks_info"]:
        disk["dynamic_params"]["decision"] = 1
    for values in ({}, {"name": "more", "minor": 1, "remote_minor": 1, "port": 11001}):
        pair.one.Do("drbd_follow", [pair.one.Disk("counts", decision=2, **values)])
    pair.links.Cut()
    pair.one.Fail("even by destroying it", "instance_shutdown", data, 1, TRAIL)
    assert all(device.frozen for device in pair.one.drbd.devices.values())
    # One that is refused keeps no other one.
    data["disks_info"][1]["dynamic_params"]["decision"] = 2
    pair.one.Fail("even by destroying it", "instance_shutdown", data, 1, TRAIL)
    assert [device.frozen for device in pair.one.drbd.devices.values()] == [True, False]


def test_nothing_is_released_that_does_not_wait(pair: Pair, stuck: type[_Stuck]) -> None:
    """Only one of two disks keeps the process: the other one, whose record says the same, keeps its data."""
    data = _Started(pair, stuck, "ahead")
    pair.links.Cut()
    pair.one.device.frozen, pair.one.drbd.devices[1].frozen = True, False
    pair.links.Publish()
    pair.one.Do("instance_shutdown", data, 1, TRAIL)
    assert pair.one.drbd.devices[1].disk == "UpToDate"


def test_nothing_is_released_that_counts(pair: Pair, stuck: type[_Stuck]) -> None:
    """Its requests are on one side only; whether they count is not decided yet."""
    data = _Started(pair, stuck, "counts")
    pair.links.Cut()
    problem = r"even by destroying it; it waits for drbd disk/0 \(minor 0\), .*frozen here.*'gnt-cluster verify'"
    pair.one.Fail(problem, "instance_shutdown", data, 1, TRAIL)
    assert all(device.frozen for device in pair.one.drbd.devices.values())
    pair.links.Heal()
    pair.one.Do("instance_shutdown", data, 1, TRAIL)
