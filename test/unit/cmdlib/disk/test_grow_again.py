"""A growth that failed is repeated: each volume gets what it lacks, no more (doc/compatibility.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import configs
from support.creation import OnDisks
from support.master import Master
from support.simnode import NameOf
from support.writers import InFiles
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, Mirrors, _Empty

from ganeti import errors, opcodes, runtime

NEVER, BEFORE, AFTER = "nothing fails", "the call fails", "its answer is lost"


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


def _Grow(master: Master, amount: int = 128, **values: Any) -> None:
    master.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=amount, **values))


def _Recorded(master: Master) -> tuple[int, ...]:
    (disk,) = master.snapshot.InstanceDisks(master.Instance(WEB))
    return disk.size, *(child.size for child in disk.children[:1])


def _Volumes(master: Master) -> list[int]:
    """The sizes of the volumes with data, node by node."""
    return [
        lv.size for node in master.all for (_, name), lv in sorted(node.lvm.lvs.items()) if not name.endswith("_meta")
    ]


class Failing:
    """Calls of blockdev_grow are counted over all nodes; one of them fails."""

    def __init__(self, master: Master):
        self.step, self.how, self.count = 0, NEVER, 0
        for node in master.all:
            node.before = self._Before
            node.edits["blockdev_grow"] = self._After

    def Set(self, step: int, how: str) -> None:
        self.step, self.how, self.count = step, how, 0

    def _Before(self, name: str, _args: Any) -> None:
        if name == "blockdev_grow":
            self.count += 1
            self._Fail(BEFORE)

    def _After(self, answer: Any) -> Any:
        self._Fail(AFTER)
        return answer

    def _Fail(self, how: str) -> None:
        if self.count == self.step and self.how == how:
            raise errors.RpcCallError("the cable was cut")


@pytest.mark.parametrize("how", [BEFORE, AFTER])
@pytest.mark.parametrize("absolute", [False, True])
def test_the_repeated_command_finishes_the_growth_of_a_mirror(three: Master, how: str, absolute: bool) -> None:
    """Whichever call fails: asking both sides, growing each of their volumes, growing the device."""
    mirrors = Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    failing, failed, size = Failing(three), [], 1024
    for step in range(1, 7):
        wanted = size + 128
        amount = wanted if absolute else 128
        failing.Set(step, how)
        try:
            _Grow(three, amount, absolute=absolute)
        except errors.OpExecError:
            failed.append(step)
            said = "\n".join(three.last.messages)
            assert ("its volume has" in said) == (step >= 4), said
            assert ("activate-disks web.example.org' and try again" in said) == (step >= 3), said
            failing.Set(0, NEVER)
            _Grow(three, amount, absolute=absolute)
        size = wanted
        assert _Recorded(three) == (size, size) and _Volumes(three)[:2] == [size, size], step
        assert [machine.devices[0].size for machine in mirrors.machines[:2]] == [size, size]
        assert mirrors.States() == [[PRIMARY], [SECONDARY], []]
    # A request to grow the device whose answer alone was lost is not a failure: the device is asked.
    assert failed == ([1, 2, 3, 4, 5] if how == BEFORE else [1, 2, 3, 4])


@pytest.mark.parametrize("running", [True, False])
def test_a_mirror_grows_when_both_copies_are_complete(three: Master, running: bool) -> None:
    """The primary's disk has failed, and can be read again: it is filled first, and said so before any volume is larger."""
    mirrors = Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=running))
    mirrors.links.hold = True
    if running:
        mirrors.machines[0].Detach(0)
    else:
        three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
        for _, meta in mirrors.machines[0]._metas.values():
            meta.state = "Inconsistent"
    with pytest.raises(errors.OpExecError, match=r"disk/0 on node node1.example.org is being filled") as caught:
        _Grow(three)
    assert f"'gnt-instance activate-disks --wait-for-sync {WEB}'" in str(caught.value.hint)
    assert _Volumes(three) == [1024] * 2 and _Recorded(three) == (1024, 1024)
    assert mirrors.States()[0] == [("SyncTarget", "Primary", "Inconsistent")], "that goes on"
    mirrors.links.Finish()
    if not running:
        three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    _Grow(three)
    assert _Volumes(three) == [1152] * 2 and _Recorded(three) == (1152, 1152)
    assert bool(mirrors.machines[0].devices) == running


def test_a_stopped_instance_whose_sides_do_not_connect_has_no_disks_active_afterwards(three: Master) -> None:
    mirrors = Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=False))
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    mirrors.links.Cut()
    with pytest.raises(errors.OpExecError, match="Cannot activate disk 0"):
        _Grow(three)
    assert mirrors.States() == [[], [], []] and _Volumes(three) == [1024, 1024]


def test_a_mirror_grows_although_its_sides_need_a_moment_to_tell_each_other_how_they_are(three: Master) -> None:
    Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    looks: list[Any] = []

    def at_first(view: Any) -> Any:
        looks.append(view)
        return {uuid: {**state, "peer_uptodate": len(looks) > 2} for uuid, state in view.items()}

    three[0].edits["drbd_views"] = at_first
    _Grow(three)
    assert len(looks) > 3 and _Recorded(three) == (1152, 1152)


@pytest.mark.parametrize("grown", [0, 1])
def test_only_the_copies_of_the_disk_that_grows_have_to_be_complete(three: Master, grown: int) -> None:
    mirrors = Mirrors(three)
    disks = [{"size": 1024}] * 2
    three.Run(OnDisks(WEB, *disks, disk_template="drbd", snode="node2", start=True))
    mirrors.links.hold = True
    mirrors.machines[1].Detach(list(mirrors.machines[1].devices)[1 - grown])
    three.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=grown, amount=128, wait_for_sync=False))
    sizes = [disk.size for disk in three.snapshot.InstanceDisks(three.Instance(WEB))]
    assert sizes[grown] == 1152 and sizes[1 - grown] == 1024


def test_what_is_being_filled_stays_active_and_other_disks_stay_as_they_are(three: Master) -> None:
    mirrors = Mirrors(three)
    disks = [{"size": 1024}] * 2
    three.Run(OnDisks(WEB, *disks, disk_template="drbd", snode="node2", start=False))
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    mirrors.links.hold = True
    _Grow(three, wait_for_sync=False)
    filled = [[("SyncSource", "Primary", "UpToDate")], [("SyncTarget", "Secondary", "Inconsistent")], []]
    assert mirrors.States() == filled
    assert any(f"'gnt-instance deactivate-disks {WEB}'" in text for text in three.last.messages)
    Failing(three).Set(1, BEFORE)
    with pytest.raises(errors.OpExecError, match="the cable was cut"):
        three.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=1, amount=128))
    assert mirrors.States() == filled


def test_a_mirror_does_not_grow_if_its_node_does_not_say_that_it_is_complete(three: Master) -> None:
    Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    three[0].faults["drbd_views"] = "no answer"
    with pytest.raises(errors.OpExecError, match=r"node node1.example.org does not answer"):
        _Grow(three)
    assert _Volumes(three) == [1024] * 2 and _Recorded(three) == (1024, 1024)


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_stopped_instance_has_no_disks_active_after_a_growth_that_failed(three: Master, step: int) -> None:
    mirrors = Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=False))
    three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
    Failing(three).Set(step, BEFORE)
    with pytest.raises(errors.OpExecError):
        _Grow(three)
    assert mirrors.States() == [[], [], []]


@pytest.mark.parametrize(("late", "cut_after"), [(1.0, None), (100.0, None), (2.0, 1.0)])
def test_a_growth_goes_on_when_both_sides_have_agreed_on_it(
    three: Master, late: float, cut_after: float | None
) -> None:
    """The program does not wait for that; a hypervisor that is told too early refuses the new size."""
    mirrors = Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    mirrors.links.late = late
    told: list[int] = []

    def before(name: str, args: Any) -> None:
        if name == "resize_disk":
            told.append(mirrors.machines[0].devices[0].size)
        if name == "blockdev_grow" and not args[3] and cut_after is not None:
            three.world.Schedule(cut_after, mirrors.links.Cut)

    three[0].before = before
    if late == 1.0:
        _Grow(three)
        assert told == [1152]
        return
    began = runtime.Monotonic()
    with pytest.raises(errors.OpExecError, match="has 1024 MiB, and 1152 MiB are recorded") as caught:
        _Grow(three)
    # A guest that waits without its link waits for the job.
    assert mirrors.machines[0].devices[0].frozen == (runtime.Monotonic() - began < 10) == (cut_after is not None)
    assert f"'gnt-instance grow-disk --absolute {WEB} 0 1152m'" in str(caught.value.hint) and told == []
    # It may have happened, or happen when they meet again: no side is attached with less than it has.
    assert _Recorded(three) == (1152, 1152)


def test_a_side_that_was_grown_by_hand_gets_the_rest(three: Master) -> None:
    mirrors = Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    instance = three.Instance(WEB)
    (disk,) = three.snapshot.InstanceDisks(instance)
    three.rpc.call_blockdev_grow(three.nodes[1], (disk, instance), 96, False, True, False).Raise("")
    _Grow(three)
    assert _Volumes(three) == [1152, 1152] and _Recorded(three) == (1152, 1152)
    three.rpc.call_blockdev_grow(three.nodes[1], (disk, instance), 512, False, True, False).Raise("")
    _Grow(three)
    assert "on node node2.example.org has 1664 MiB already, 1280 MiB are needed" in "\n".join(three.last.messages)
    assert _Volumes(three) == [1280, 1664] and _Recorded(three) == (1280, 1280)
    assert [machine.devices[0].size for machine in mirrors.machines[:2]] == [1280, 1280]


def test_a_side_that_is_large_enough_needs_no_room(three: Master) -> None:
    """The first try took nearly all of its volume group."""
    Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    free = three.rpc.call_node_info([three.nodes[1]], [("lvm-vg", "xenvg")], None)
    room = next(iter(free.values())).payload[1][0]["storage_free"]
    instance = three.Instance(WEB)
    (disk,) = three.snapshot.InstanceDisks(instance)
    three.rpc.call_blockdev_grow(three.nodes[1], (disk, instance), room - 64, False, True, False).Raise("")
    _Grow(three, room - 64)
    assert len(set(_Volumes(three))) == 1 and _Recorded(three)[0] == 1024 + room - 64


def test_what_rounding_left_counts(three: Master) -> None:
    """Extents have 4 MiB: the volume of a disk of 1025 MiB has 1028."""
    Mirrors(three)
    three.Run(OnDisks(WEB, {"size": 1025}, disk_template="plain", start=True))
    assert _Volumes(three) == [1028]
    _Grow(three, 2)
    assert (_Recorded(three), _Volumes(three)) == ((1027,), [1028])
    _Grow(three, 8)
    assert (_Recorded(three), _Volumes(three)) == ((1035,), [1036])


def test_what_a_guest_may_use_is_not_wiped(three: Master) -> None:
    Mirrors(three)
    three.cfg.Update(three.snapshot.cluster.Replace(prealloc_wipe_disks=True))
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="plain", start=True))
    instance = three.Instance(WEB)
    (disk,) = three.snapshot.InstanceDisks(instance)
    three.rpc.call_blockdev_grow(three.nodes[0], (disk, instance), 512, False, True, False).Raise("")
    three[0].calls.clear()
    _Grow(three, 512)
    assert _Recorded(three) == (1536,) == tuple(_Volumes(three)) and "blockdev_wipe" not in three[0].calls
    assert any("had 1536 MiB already, 1024 MiB of which were recorded" in text for text in three.last.messages)


@pytest.fixture
def filed(make: Callable[..., Master]) -> Master:
    return make(2, change=InFiles)


def test_a_file_is_never_cut(filed: Master) -> None:
    """A hypervisor that is told less than the file has would cut its end off."""
    (disk,) = filed.snapshot.InstanceDisks(filed.Instance(WEB))
    instance = filed.Instance(WEB)
    filed.rpc.call_blockdev_grow(filed.nodes[0], (disk, instance), 4096, False, True, False).Raise("")
    with pytest.raises(
        errors.OpPrereqError, match="is to have 12288 MiB and has 14336 MiB already, while 10240"
    ) as caught:
        _Grow(filed, 2048)
    assert f"'gnt-cluster repair-disk-sizes {WEB}'" in str(caught.value) and "resize_disk" not in filed[0].calls
    filed.Run(opcodes.OpClusterRepairDiskSizes(instances=[WEB]))
    _Grow(filed, 2048)
    assert filed.snapshot.disks[configs.WEB_DISK].size == filed[0].devices[NameOf(disk)].size == 16384
