"""A secondary node that dies in any step of growing or converting a mirror, and metadata that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Master
from unit.cmdlib.instance.test_mirrors import PRIMARY, SECONDARY, WEB, Mirrors, _Empty

from ganeti import errors, objects, opcodes

STEPS = range(1, 60)


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


class Story:
    """An instance whose secondary node loses its power in one step of a job; ``said``: all that the job reported."""

    def __init__(self, master: Master):
        self.master = master
        self.mirrors = Mirrors(master)
        self.said = ""
        self.died_in: list[str] = []

    def Run(self, op: opcodes.OpCode, step: int = 0) -> bool:
        """Run a job, before whose call number ``step`` of a node the secondary dies; return whether it succeeds."""
        with self._DiesIn(step):
            try:
                self.master.Run(op)
            except errors.GenericError as err:
                self.said = "\n".join([str(err), str(err.hint or ""), *self.master.last.messages])
                return False
            self.said = "\n".join(self.master.last.messages)
            return True

    @contextmanager
    def _DiesIn(self, step: int) -> Iterator[None]:
        pair, count, died = self.master.all[:2], 0, len(self.died_in)

        def die(name: str, _args: Any) -> None:
            nonlocal count
            if name.startswith("store_"):
                return
            count += 1
            if count == step:
                self.died_in.append(name)
                self.master[1].Stop()
                self.mirrors.machines[1].LosePower()

        for node in pair:
            node.before = die
        try:
            yield
        finally:
            for node in pair:
                node.before = lambda name, args: None
            if len(self.died_in) > died:
                self.master[1].Start()

    def Disk(self) -> objects.Disk:
        (disk,) = self.master.snapshot.InstanceDisks(self.master.Instance(WEB))
        return disk

    def Volumes(self, number: int) -> dict[str, int]:
        return {f"{group}/{name}": lv.size for (group, name), lv in self.master[number].lvm.lvs.items()}

    def Owned(self, number: int) -> set[str]:
        disk = self.Disk()
        return set(disk.VolumeNames()) if self.master.nodes[number] in disk.nodes else set()

    def RemoveAsSaid(self) -> None:
        """What belongs to nobody on the secondary's node is named with its command, which is followed."""
        node = self.master[1]
        for volume in set(self.Volumes(1)) - self.Owned(1):
            assert f"'lvremove {volume}'" in self.said, (self.died_in, volume, self.said)
            node.Call(node.lvm._Lvremove, [f"/dev/{volume}"])

    def Findings(self) -> list[str]:
        self.master.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
        words = ("disk/", "volume", "DRBD")
        return [text for text in self.master.last.messages if "ERROR" in text and any(word in text for word in words)]


def test_a_secondary_that_dies_in_each_step_of_growing(three: Master) -> None:
    """The disk has one size, old or new, on both sides when it is activated again, and grows when that is repeated."""
    story = Story(three)
    three.Run(OnDisks(WEB, {"size": 1024}, disk_template="drbd", snode="node2", start=True))
    grow = opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=128)
    for step in STEPS:
        before = story.Disk().size
        grown = story.Run(grow, step)
        size = story.Disk().size
        if len(story.died_in) < step:
            break
        here = story.mirrors.machines[0].devices[0]
        assert (size, here.size) in ((before, before), (before + 128, before + 128)), story.died_in
        data = {name: volume for name, volume in story.Volumes(0).items() if name.endswith("_data")}
        cut_off = not grown and max(data.values()) > size
        if cut_off:
            assert f"its volume has {size + 128} MiB on node " in story.said, story.said
            assert f"'gnt-instance activate-disks {WEB}' and try again" in story.said
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
        three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
        three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
        assert story.mirrors.States()[:2] == [[PRIMARY], [SECONDARY]] and story.Findings() == []
        if cut_off:
            assert story.Run(grow), story.said
            size += 128
            assert {n for side in (0, 1) for name, n in story.Volumes(side).items() if name.endswith("_data")} == {size}
        assert [machine.devices[0].size for machine in story.mirrors.machines[:2]] == [size] * 2
    assert grown and size == before + 128 and story.died_in.count("blockdev_grow") >= 5, story.died_in


def test_a_secondary_that_dies_in_each_step_of_a_conversion_to_a_mirror(three: Master) -> None:
    """The data stays where it is; what was made is removed or named; a mirror without its other side is filled later."""
    story = Story(three)
    three.Run(OnDisks(WEB, {"size": 128}, disk_template="plain"))
    data = set(story.Volumes(0))
    convert = opcodes.OpInstanceSetParams(
        instance_name=WEB, disk_template="drbd", remote_node="node2", ignore_ipolicy=True
    )
    for step in STEPS:
        converted = story.Run(convert, step)
        died = len(story.died_in) == step
        disk = story.Disk()
        assert data <= set(story.Volumes(0)) == story.Owned(0), story.died_in
        if disk.dev_type == "plain":
            assert died and not converted
            story.RemoveAsSaid()
        else:
            if not converted:
                assert f"'gnt-instance activate-disks --wait-for-sync {WEB}'" in story.said, story.said
            three.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
            three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
            assert story.mirrors.States()[:2] == [[PRIMARY], [SECONDARY]], story.died_in
            three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
            three.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="plain"))
        assert set(story.Volumes(0)) == data and not story.Volumes(1) and story.Findings() == []
        if not died:
            break
    assert converted and story.died_in.count("blockdev_create") >= 5, story.died_in


def test_a_secondary_that_dies_in_each_step_of_a_conversion_from_a_mirror(three: Master) -> None:
    story = Story(three)
    three.Run(OnDisks(WEB, {"size": 128}, disk_template="drbd", snode="node2"))
    (data,) = [name for name in story.Volumes(0) if name.endswith("_data")]
    for step in STEPS:
        converted = story.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="plain"), step)
        died = len(story.died_in) == step
        assert data in story.Volumes(0) and set(story.Volumes(0)) == story.Owned(0), story.died_in
        assert converted == (story.Disk().dev_type == "plain"), story.said
        story.RemoveAsSaid()
        assert story.mirrors.States()[:2] == [[], []] and story.Findings() == [], story.died_in
        if converted:
            three.Run(
                opcodes.OpInstanceSetParams(
                    instance_name=WEB,
                    disk_template="drbd",
                    remote_node="node2",
                    ignore_ipolicy=True,
                    wait_for_sync=True,
                )
            )
            three.Run(opcodes.OpInstanceDeactivateDisks(instance_name=WEB))
        if not died:
            break
    assert converted and "blockdev_remove" in story.died_in, story.died_in


@pytest.mark.parametrize("doing", ["add", "convert", "replace"])
def test_metadata_that_got_too_small_a_volume(three: Master, doing: str) -> None:
    """What there was stays, what was made is gone, and the error names the volume, its size and what it must have."""
    story = Story(three)
    if doing != "add":
        template = {"convert": {"disk_template": "plain"}, "replace": {"disk_template": "drbd", "snode": "node2"}}[
            doing
        ]
        three.Run(OnDisks(WEB, {"size": 256}, start=doing == "replace", **template))
    before = [story.Volumes(number) for number in (0, 1)]
    programs = three[1].machine.programs
    real = programs["lvcreate"]

    def small(invocation: Any) -> int:
        if any("_meta" in word for word in invocation.argv):
            invocation.argv = ["-L64m" if word == "-L128m" else word for word in invocation.argv]
        return real(invocation) or 0

    programs["lvcreate"] = small
    done = story.Run(
        {
            "add": OnDisks(WEB, {"size": 256}, disk_template="drbd", snode="node2"),
            "convert": opcodes.OpInstanceSetParams(
                instance_name=WEB, disk_template="drbd", remote_node="node2", ignore_ipolicy=True
            ),
            "replace": opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_on_secondary"),
        }[doing]
    )
    assert not done and "node2.example.org" in story.said
    assert "has 64 MiB; it must have 128 to 1024 MiB" in story.said and "_meta" in story.said
    assert story.Volumes(0) == before[0]
    assert (WEB in [instance.name for instance in three.snapshot.instances.values()]) == (doing != "add")
    if doing != "replace":
        assert story.Volumes(1) == before[1]
        return
    # The old volumes were out of the mirror already: they keep their data under other names, and are named.
    assert sorted(story.Volumes(1).values()) == sorted(before[1].values())
    assert all(name in story.said and "_replaced-" in name for name in story.Volumes(1)), story.said
    assert f"'gnt-instance activate-disks {WEB}' and then 'gnt-instance replace-disks --auto {WEB}'" in story.said
    programs["lvcreate"] = real
    assert story.Run(opcodes.OpInstanceActivateDisks(instance_name=WEB))
    assert story.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_auto")), story.said
    assert story.mirrors.States()[:2] == [[PRIMARY], [SECONDARY]]
