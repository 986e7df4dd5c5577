"""Stories of DRBD: what becomes of acknowledged writes when a node, a link or a daemon is lost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from support.patience import Deadline

from lab.cluster import Node
from lab.stage import GROUP, Mirrors, Stage
from lab.stories import Needs
from lab.writes import Writer

_SYNC_SECONDS = 300.0


def _WaitUntilNothing(look: Callable[[], object], trouble: str) -> None:
    """Ask again until ``look`` finds nothing any longer; each look is a command in a virtual machine."""
    deadline = Deadline(_SYNC_SECONDS)
    while found := look():
        assert not deadline.Passed(), f"{trouble}: {found}"
        time.sleep(0.2)


def WaitForSync(stage: Stage, name: str) -> None:
    """Wait until both sides of every mirror of the instance are complete, and the configuration counts both."""
    _WaitUntilNothing(lambda: _Incomplete(stage, name), f"{name} is not in sync")


def Disks(stage: Stage, name: str) -> list[dict[str, Any]]:
    """Return the disks of an instance as the configuration has them."""
    config = stage.cluster.Config()
    [instance] = [each for each in config["instances"].values() if each["name"] == name]
    return [config["disks"][uuid] for uuid in instance["disks"]]


def Minors(stage: Stage, name: str) -> list[tuple[Node, int]]:
    """Return (node, minor) of all sides of the instance's mirrors, those of each disk one after the other."""
    names = {uuid: node["name"] for uuid, node in stage.cluster.Config()["nodes"].items()}
    nodes = {node.name: node for node in stage.cluster.nodes}
    sides = []
    for disk in Disks(stage, name):
        first, second, _, first_minor, second_minor, *_ = disk["logical_id"]
        sides += [(nodes[names[first]], first_minor), (nodes[names[second]], second_minor)]
    return sides


def _Incomplete(stage: Stage, name: str) -> list[str]:
    wrong = [f"the configuration says {disk['behind']}" for disk in Disks(stage, name) if disk.get("behind")]
    for node, minor in Minors(stage, name):
        mirror = Mirrors(node).get(minor)
        if mirror is None or (mirror.connection, mirror.data, mirror.peer_data) != (
            "Connected",
            "UpToDate",
            "UpToDate",
        ):
            wrong.append(f"{node.name}: {mirror}")
    return wrong


def CheckOnePrimary(stage: Stage, name: str) -> None:
    """Raise AssertionError if a device is primary on two nodes.

    It looks at rest.  Two that were open before have writes of their own: they do not connect, or a write is lost.
    """
    sides = Minors(stage, name)
    for both in zip(sides[::2], sides[1::2], strict=True):
        primaries = [
            node.name
            for node, minor in both
            if node.machine.running and (mirror := Mirrors(node).get(minor)) and mirror.role == "Primary"
        ]
        assert len(primaries) <= 1, f"{name} is primary on {primaries}"


def Pair(stage: Stage) -> tuple[Node, Node]:
    """Return a primary and a secondary node."""
    first, second = stage.random.sample(stage.cluster.nodes[:2], 2)
    return first, second


def MoveAndCheck(stage: Stage, name: str, node: Node) -> None:
    """Fail over to ``node`` when both sides are complete: what its side of the mirror has is read there."""
    WaitForSync(stage, name)
    stage.Gnt("instance", "failover", "-f", name)
    assert stage.Primary(name) is node
    CheckOnePrimary(stage, name)


def LosePrimary(stage: Stage, name: str, primary: Node, writer: Writer) -> None:
    """Take the primary's power away and fail over; then let it come back, and the instance return to it."""
    secondary = stage.Other(primary)
    stage.PowerOff(primary)
    stage.Gnt("node", "modify", "--offline", "yes", primary.name)
    stage.Gnt("instance", "failover", "-f", name)
    writer.WaitFor()
    stage.CheckWrites(writer, secondary)
    stage.PowerOn(primary, writer)
    stage.Gnt("node", "modify", "--force", "--offline", "no", primary.name)
    stage.Gnt("instance", "activate-disks", name)
    MoveAndCheck(stage, name, primary)
    writer.WaitFor()


# --- ordinary days --------------------------------------------------------------------------------------------------------


def mirror_life(stage: Stage) -> None:
    """A mirrored instance is made, stopped, started, grows, fails over and is removed; both sides have every write."""
    first, second = Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            stage.Gnt("instance", "shutdown", name)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
            stage.Gnt("instance", "grow-disk", name, "0", "32m")
            _WaitUntilNothing(
                lambda: _Furthest(writer) < 64 << 20 and writer.Count(), "nothing is written to the new part"
            )
            MoveAndCheck(stage, name, second)
            writer.WaitFor()
        for node, minor in Minors(stage, name):
            # The secondary's device cannot be opened, which is what blockdev would do.
            sectors = node.Run("cat", f"/sys/block/drbd{minor}/size").stdout
            assert int(sectors) * 512 == 96 << 20, f"{node.name}: {sectors} sectors"
        stage.CheckAgreement()


def _Furthest(writer: Writer) -> int:
    return max(offset for report in writer.Reports().values() for _, offset in report)


def _Migrate(stage: Stage, times: int) -> None:
    first, second = Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, first) as writer:
            for _ in range(times):
                for node in (second, first):
                    stage.Gnt("instance", "migrate", "-f", name)
                    assert stage.Primary(name) is node
                    CheckOnePrimary(stage, name)
                    writer.WaitFor(10)


def mirror_migrate(stage: Stage) -> None:
    """An instance migrates there and back while its guest writes."""
    _Migrate(stage, 1)


def mirror_migrate_often(stage: Stage) -> None:
    """An instance migrates twenty times there and back while its guest writes."""
    _Migrate(stage, 20)


def mirror_convert(stage: Stage) -> None:
    """A plain disk becomes a mirror and a plain disk again; the writes before each change are there."""
    first, second = Pair(stage)
    with stage.Instance("plain", first) as name:
        with stage.Writing(name, second) as writer:
            stage.Gnt("instance", "shutdown", name)
            stage.Gnt("instance", "modify", "-t", "drbd", "-n", second.name, name)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
            MoveAndCheck(stage, name, second)
            writer.WaitFor()
            stage.Gnt("instance", "shutdown", name)
            stage.Gnt("instance", "modify", "-t", "plain", name)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
        stage.CheckAgreement()


def _FailDisk(stage: Stage, name: str, node: Node) -> None:
    """The disk below a side fails at the guest's next write; it can be read again right after."""
    [disk] = Disks(stage, name)
    volume = "/".join(disk["children"][0]["logical_id"])
    minor = next(minor for side, minor in Minors(stage, name) if side is node)
    node.Shell(f"dmsetup --noudevsync wipe_table $(basename $(lvs --noheadings -o lv_dm_path {volume}))")
    _WaitUntilNothing(lambda: Mirrors(node)[minor].data != "Diskless" and Mirrors(node), f"{node.name} has its disk")
    node.Run("lvchange", "-q", "--refresh", volume)


def _Replace(stage: Stage, *options: str, before: Callable[[str], None] = lambda _: None) -> None:
    first, second = Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            before(name)
            stage.Gnt("instance", "replace-disks", *options, name)
            writer.WaitFor()
            stage.CheckAgreement()
            MoveAndCheck(stage, name, second)


def mirror_replace_on_primary(stage: Stage) -> None:
    """The primary's volumes are replaced while the guest writes."""
    _Replace(stage, "-p")


def mirror_replace_on_secondary(stage: Stage) -> None:
    """The secondary's volumes are replaced while the guest writes."""
    _Replace(stage, "-s")


def mirror_replace_faulty(stage: Stage) -> None:
    """A side loses its volume under the mirror; replace-disks finds it by itself."""

    _Replace(stage, "-a", before=lambda name: _FailDisk(stage, name, Minors(stage, name)[1][0]))


@Needs(3)
def mirror_new_secondary(stage: Stage) -> None:
    """The mirror moves to a third node while the guest writes."""
    first, second, third = stage.random.sample(stage.cluster.nodes[:3], 3)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, third) as writer:
            stage.Gnt("instance", "replace-disks", "-n", third.name, name)
            writer.WaitFor()
            assert second.Volumes() == [] and Mirrors(second) == {}
            MoveAndCheck(stage, name, third)


@Needs(3)
def mirror_moves_anywhere(stage: Stage) -> None:
    """An instance fails over, and then migrates, to a node that had no copy; its guest writes while the new side is filled."""
    first, second, third = stage.random.sample(stage.cluster.nodes[:3], 3)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            for command, node in (("failover", third), ("migrate", second)):
                stage.Gnt("instance", command, "-f", "-n", node.name, name)
                assert stage.Primary(name) is node
                writer.WaitFor()
                CheckOnePrimary(stage, name)
                WaitForSync(stage, name)
                stage.CheckAgreement()


# --- a node is lost -------------------------------------------------------------------------------------------------------


def mirror_primary_dies(stage: Stage) -> None:
    """The primary's machine loses its power while the guest writes; the secondary has every acknowledged write."""
    secondary, primary = stage.cluster.nodes[:2]
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, primary) as writer:
            LosePrimary(stage, name, primary, writer)


def mirror_secondary_dies(stage: Stage) -> None:
    """The secondary's machine loses its power; the guest stands still until the master has recorded it, then goes on."""
    primary, secondary = stage.cluster.nodes[:2]
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, secondary) as writer:
            stage.PowerOff(secondary)
            writer.WaitFor(100)
            _CheckRecord(stage, name)
            stage.PowerOn(secondary, writer)
            stage.Gnt("instance", "activate-disks", name)
            MoveAndCheck(stage, name, secondary)
            writer.WaitFor()


def mirror_both_die(stage: Stage) -> None:
    """Both machines lose their power while the guest writes."""
    first, second = Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            for node in (first, second):
                stage.PowerOff(node)
            stage.PowerOnTogether((first, second), writer)
            stage.StartMaster()
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
            MoveAndCheck(stage, name, second)


# --- a copy is lost for good ----------------------------------------------------------------------------------------------


def _LoseVolumes(node: Node) -> None:
    for volume in node.Volumes():
        node.Run("lvremove", "-q", "-f", f"{GROUP}/{volume}")


def _WaitForRecord(stage: Stage, name: str) -> None:
    _WaitUntilNothing(
        lambda: [disk for disk in Disks(stage, name) if not disk.get("behind")],
        f"the master does not notice that a copy of {name} is behind",
    )


def _CheckRecord(stage: Stage, name: str) -> None:
    """Raise AssertionError unless one copy of each disk is recorded as behind: the master is asked, as files may show it later."""
    said = stage.Gnt("instance", "info", "--static", name)
    assert said.count("does not count since") == len(Disks(stage, name)), said


def _Refusal(stage: Stage, *argv: str) -> str:
    """Return what a command says, which must refuse."""
    done = stage.cluster.Gnt(*argv, check=False)
    assert done.status, f"gnt-{' '.join(argv)} was done: {done}"
    said = " ".join(f"{done.stdout}{done.stderr}".split())
    stage.say(f"         gnt-{' '.join(argv)}: {said[-600:]}")
    return said


def mirror_target_lost(stage: Stage) -> None:
    """A stopped instance does not fail over to a node whose copy is gone; what the refusal names makes it again."""
    first, second = Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            stage.Gnt("instance", "shutdown", name)
            _LoseVolumes(second)
            said = _Refusal(stage, "instance", "failover", "-f", name)
            assert f"Diskless on target node {second.name}" in said
            assert f"'gnt-instance replace-disks --on-secondary {name}'" in said
            assert stage.Primary(name) is first and Mirrors(second) == {}
            stage.Gnt("instance", "replace-disks", "--on-secondary", name)
            stage.Gnt("instance", "failover", "-f", name)
            assert stage.Primary(name) is second
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()


def _GoBack(stage: Stage, lose: Callable[[Node], None]) -> None:
    """The primary's disk fails, and the other one, which has all newer writes, is lost, too: somebody accepts the older copy."""
    first, second = Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with Writer(stage.cluster, name) as writer:
            writer.WaitFor()
            older = writer.Reports()
            _FailDisk(stage, name, first)
            _WaitForRecord(stage, name)
            writer.WaitFor(100)
            stage.Gnt("instance", "shutdown", name)
        lose(second)
        said = _Refusal(stage, "instance", "replace-disks", "--on-secondary", name)
        (command,) = re.findall(
            rf"'(gnt-instance activate-disks --behind {second.name} --ignore-consistency {name})'", said
        )
        # Somebody is asked, on a terminal.
        stage.cluster.master.Shell(f"echo y | script -qec '{command}' /dev/null", seconds=300)
        stage.Gnt("instance", "startup", name)
        stage.say(f"         {writer.Check(first, older)} writes of before are on {first.name}")
        with stage.Writing(name, second) as writer:
            if not second.Volumes():
                stage.Gnt("instance", "replace-disks", "--on-secondary", name)
            MoveAndCheck(stage, name, second)
            writer.WaitFor()


def mirror_newer_copy_lost(stage: Stage) -> None:
    """Both sides have lost their disk, one after the other; the one that failed first can be read again."""
    _GoBack(stage, _LoseVolumes)


def mirror_newer_copy_given_up(stage: Stage) -> None:
    """The newer copy is there and connects; it is filled from the older one, and not the other way round."""
    _GoBack(stage, lambda _: None)


# --- a link is lost -------------------------------------------------------------------------------------------------------


def _Link(stage: Stage, spoil: Callable[[Node, Node], None], frozen: bool) -> None:
    """The link of the mirror is spoiled and healed; ``frozen``: the master has to let the primary go on."""
    primary, secondary = Pair(stage)
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, secondary) as writer:
            spoil(primary, secondary)
            writer.WaitFor(100)
            if frozen:
                _CheckRecord(stage, name)
                done = stage.cluster.Gnt("instance", "failover", "-f", name, check=False)
                assert done.status, "a side that is behind takes over"
                CheckOnePrimary(stage, name)
            stage.cluster.links.Heal()
            MoveAndCheck(stage, name, secondary)
            writer.WaitFor()


def mirror_link_cut(stage: Stage) -> None:
    """The link between the sides is cut for a while; the side that stayed behind does not take over before it is filled."""
    _Link(stage, lambda _, secondary: stage.cluster.links.CutOff(secondary.name), True)


def _WaitForLoss(stage: Stage, name: str, node: Node) -> None:
    """Wait until the sides on this node have noticed that their links are lost."""
    minors = {minor for side, minor in Minors(stage, name) if side is node}
    _WaitUntilNothing(
        lambda: [minor for minor in minors if Mirrors(node)[minor].connection == "Connected"],
        f"{node.name} does not notice that the link is lost",
    )


def mirror_link_cut_often(stage: Stage) -> None:
    """The link is cut twenty times under the guest, and healed as soon as that is noticed; it writes again each time."""
    primary, secondary = Pair(stage)
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, secondary) as writer:
            for _ in range(20):
                stage.cluster.links.CutOff(secondary.name)
                _WaitForLoss(stage, name, primary)
                stage.say(f"         {Mirrors(primary)}")
                stage.cluster.links.Heal()
                writer.WaitFor()
                WaitForSync(stage, name)
            MoveAndCheck(stage, name, secondary)
            writer.WaitFor()


def mirror_link_one_way(stage: Stage) -> None:
    """One side hears the other, and not the other way round."""
    deaf = stage.random.choice((0, 1))
    _Link(stage, lambda *sides: stage.cluster.links.Cut(sides[1 - deaf].name, sides[deaf].name), True)


def mirror_served_link_cut(stage: Stage) -> None:
    """One of two disks is served by the other node when the link is lost: the guest stands still, and fails over without a loss."""
    primary, secondary = Pair(stage)
    with stage.Instance("drbd", primary, secondary, disks=2) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, primary) as writer:
            minors = [minor for node, minor in Minors(stage, name) if node is primary]
            primary.Run("drbdsetup", "detach", str(minors[1]))
            _WaitUntilNothing(lambda: not Disks(stage, name)[1].get("behind"), "the master does not notice that")
            writer.WaitFor(100)
            stage.cluster.links.CutOff(secondary.name)
            _WaitForLoss(stage, name, primary)
            assert all(Mirrors(primary)[minor].flags.startswith("s") for minor in minors), Mirrors(primary)
            said = stage.cluster.Gnt("cluster", "verify", check=False).stdout
            assert f"or use 'gnt-instance failover {name}'" in " ".join(said.split()), said
            stage.Gnt("instance", "failover", "-f", name)
            writer.WaitFor()
            stage.CheckWrites(writer, secondary)
            CheckOnePrimary(stage, name)
            stage.cluster.links.Heal()
            stage.Gnt("instance", "activate-disks", name)
            MoveAndCheck(stage, name, primary)
            writer.WaitFor()


def mirror_link_slow(stage: Stage) -> None:
    """Each packet between the sides takes a tenth of a second."""

    def delay(primary: Node, secondary: Node) -> None:
        stage.cluster.links.Delay(primary.name, secondary.name, 0.1)
        stage.cluster.links.Delay(secondary.name, primary.name, 0.1)

    _Link(stage, delay, False)


def mirror_primary_alone(stage: Stage) -> None:
    """The primary is cut off from everybody: it stands still, and the instance fails over without a lost write."""
    secondary, primary = stage.cluster.nodes[:2]
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, primary) as writer:
            stage.cluster.links.CutOff(primary.name)
            stage.cluster.switch.CutOff(primary.name)
            stage.Gnt("node", "modify", "--offline", "yes", primary.name)
            stage.Gnt("instance", "failover", "-f", name)
            writer.WaitFor()
            stage.PowerOff(primary)
            stage.CheckWrites(writer, secondary)
            stage.cluster.links.Heal()
            stage.cluster.switch.Heal()
            stage.PowerOn(primary, writer)
            stage.Gnt("node", "modify", "--force", "--offline", "no", primary.name)
            stage.Gnt("instance", "activate-disks", name)
            MoveAndCheck(stage, name, primary)
