"""Stories of a volume group that has lost a physical volume, and is repaired."""

from __future__ import annotations

import re

from lab.cluster import GROUP, Node
from lab.stage import Mirrors, Stage
from lab.stories.mirror import Disks, Minors, MoveAndCheck, Pair, WaitForSync


def _DiskBelow(node: Node, volume: str) -> str:
    """Return the name of the disk that a logical volume lies on."""
    said = node.Run("lvs", "--noheadings", "-o", "devices", f"{GROUP}/{volume}").stdout
    [name] = set(re.findall(r"/dev/(\w+)\(", said))
    return str(name)


def _Lose(stage: Stage, node: Node, disk: str) -> None:
    """Take a disk away while it is used, as a controller does that gives it up."""
    node.Shell(f"echo 1 > $(readlink -f /sys/block/{disk}/device/..)/remove")
    stage.say(f"         {node.name} loses /dev/{disk}")


def _PutNew(node: Node) -> None:
    """Put an empty disk in its place, for the stories that follow."""
    there = set(node.Shell("ls /dev/vd?").split())
    node.Shell("echo 1 > /sys/bus/pci/rescan")
    [new] = set(node.Shell("ls /dev/vd?").split()) - there
    # It is the old one: nothing may be left of what was on it.
    node.Run("dd", "if=/dev/zero", f"of={new}", "bs=1M", "count=2", "conv=fsync")
    node.Run("vgextend", "-q", GROUP, new)


def _Repair(stage: Stage, node: Node, name: str) -> None:
    """Do what gnt-cluster verify and the repair itself say."""
    assert any(node.name in line for line in stage.Verify())
    said = stage.Gnt("node", "list-storage", "--no-headers", "--storage-type=lvm-vg", "-o", "missing", node.name)
    assert re.search(r"\w{6}-\w{4}-", said), said
    said = stage.Gnt("node", "repair-storage", node.name, "lvm-vg", GROUP)
    assert f"'gnt-instance replace-disks -a {name}'" in said, said
    assert node.Volumes() == []
    stage.Gnt("instance", "replace-disks", "-a", name)
    WaitForSync(stage, name)


def _Volume(stage: Stage, name: str) -> str:
    [disk] = Disks(stage, name)
    return str(disk["children"][0]["logical_id"][1])


def group_repair_under_a_quiet_mirror(stage: Stage) -> None:
    """The mirror has the lost volumes open and does not know yet that they are lost, as nobody writes."""
    primary, secondary = Pair(stage)
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        _Lose(stage, secondary, _DiskBelow(secondary, _Volume(stage, name)))
        minor = dict(Minors(stage, name))[secondary]
        assert Mirrors(secondary)[minor].data == "UpToDate"
        _Repair(stage, secondary, name)
        MoveAndCheck(stage, name, secondary)
        _PutNew(secondary)


def group_repair_while_a_guest_writes(stage: Stage) -> None:
    """A disk below either side dies while the guest writes; the group is repaired and the side made again."""
    primary, secondary = Pair(stage)
    victim = stage.random.choice((primary, secondary))
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, secondary) as writer:
            _Lose(stage, victim, _DiskBelow(victim, _Volume(stage, name)))
            writer.WaitFor(100)
            _Repair(stage, victim, name)
            writer.WaitFor()
            MoveAndCheck(stage, name, secondary)
        _PutNew(victim)
