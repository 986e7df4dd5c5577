"""Stories of DRBD: what becomes of acknowledged writes when a node, a link or a daemon is lost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from lab.cluster import Node
from lab.stage import Mirrors, Stage
from lab.stories import Needs

_SYNC_SECONDS = 300.0
_STEPS = 6


def WaitForSync(stage: Stage, name: str) -> None:
    """Wait until both sides of every mirror of the instance are complete, and the configuration counts both."""
    end = time.monotonic() + _SYNC_SECONDS
    while said := _Incomplete(stage, name):
        assert time.monotonic() < end, f"{name} is not in sync: {said}"
        time.sleep(0.5)


def _Disks(stage: Stage, name: str) -> list[dict]:
    config = stage.cluster.Config()
    [instance] = [each for each in config["instances"].values() if each["name"] == name]
    return [config["disks"][uuid] for uuid in instance["disks"]]


def _Minors(stage: Stage, name: str) -> list[tuple[Node, int]]:
    """Return (node, minor) of all sides of the instance's mirrors."""
    names = {uuid: node["name"] for uuid, node in stage.cluster.Config()["nodes"].items()}
    nodes = {node.name: node for node in stage.cluster.nodes}
    sides = []
    for disk in _Disks(stage, name):
        first, second, _, first_minor, second_minor, *_ = disk["logical_id"]
        sides += [(nodes[names[first]], first_minor), (nodes[names[second]], second_minor)]
    return sides


def _Incomplete(stage: Stage, name: str) -> list[str]:
    wrong = [f"the configuration says {disk['behind']}" for disk in _Disks(stage, name) if disk.get("behind")]
    for node, minor in _Minors(stage, name):
        mirror = Mirrors(node).get(minor)
        if mirror is None or (mirror.connection, mirror.data, mirror.peer_data) != (
            "Connected",
            "UpToDate",
            "UpToDate",
        ):
            wrong.append(f"{node.name}: {mirror}")
    return wrong


def CheckOnePrimary(stage: Stage, name: str) -> None:
    """Raise AssertionError if a device is primary on two nodes."""
    primaries = [
        node.name
        for node, minor in _Minors(stage, name)
        if node.machine.running and (mirror := Mirrors(node).get(minor)) and mirror.role == "Primary"
    ]
    assert len(set(primaries)) == len(primaries) <= len(_Disks(stage, name)), f"{name} is primary on {primaries}"


def _Pair(stage: Stage) -> tuple[Node, Node]:
    """Return a primary and a secondary node."""
    first, second = stage.random.sample(stage.cluster.nodes[:2], 2)
    return first, second


def _MoveAndCheck(stage: Stage, name: str, node: Node) -> None:
    """Fail over to ``node`` when both sides are complete: what its side of the mirror has is read there."""
    WaitForSync(stage, name)
    stage.Gnt("instance", "failover", "-f", name)
    assert stage.Primary(name) is node
    CheckOnePrimary(stage, name)


# --- ordinary days --------------------------------------------------------------------------------------------------------


def mirror_life(stage: Stage) -> None:
    """A mirrored instance is made, stopped, started, grows, fails over and is removed; both sides have every write."""
    first, second = _Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            stage.Gnt("instance", "shutdown", name)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
            stage.Gnt("instance", "grow-disk", name, "0", "32m")
            writer.WaitFor()
            _MoveAndCheck(stage, name, second)
            writer.WaitFor()
        stage.CheckAgreement()


def _Migrate(stage: Stage, times: int) -> None:
    first, second = _Pair(stage)
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
    first, second = _Pair(stage)
    with stage.Instance("plain", first) as name:
        with stage.Writing(name, second) as writer:
            stage.Gnt("instance", "shutdown", name)
            stage.Gnt("instance", "modify", "-t", "drbd", "-n", second.name, name)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
            _MoveAndCheck(stage, name, second)
            writer.WaitFor()
            stage.Gnt("instance", "shutdown", name)
            stage.Gnt("instance", "modify", "-t", "plain", name)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
        stage.CheckAgreement()


def _Replace(stage: Stage, *options: str, before: Callable[[str], None] = lambda _: None) -> None:
    first, second = _Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            before(name)
            stage.Gnt("instance", "replace-disks", *options, name)
            writer.WaitFor()
            stage.CheckAgreement()
            _MoveAndCheck(stage, name, second)


def mirror_replace_on_primary(stage: Stage) -> None:
    """The primary's volumes are replaced while the guest writes."""
    _Replace(stage, "-p")


def mirror_replace_on_secondary(stage: Stage) -> None:
    """The secondary's volumes are replaced while the guest writes."""
    _Replace(stage, "-s")


def mirror_replace_faulty(stage: Stage) -> None:
    """A side loses its volume under the mirror; replace-disks finds it by itself."""

    def break_side(name: str) -> None:
        node, minor = _Minors(stage, name)[1]
        node.Run("drbdsetup", "detach", str(minor), "--force")

    _Replace(stage, "-a", before=break_side)


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
            _MoveAndCheck(stage, name, third)


# --- a node is lost -------------------------------------------------------------------------------------------------------


def mirror_primary_dies(stage: Stage) -> None:
    """The primary's machine loses its power while the guest writes; the secondary has every acknowledged write."""
    secondary, primary = stage.cluster.nodes[:2]
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, primary) as writer:
            stage.PowerOff(primary)
            stage.Gnt("node", "modify", "--offline", "yes", primary.name)
            stage.Gnt("instance", "failover", "-f", name)
            writer.WaitFor()
            stage.CheckWrites(writer, secondary)
            stage.PowerOn(primary, writer)
            stage.Gnt("node", "modify", "--force", "--offline", "no", primary.name)
            stage.Gnt("instance", "activate-disks", name)
            _MoveAndCheck(stage, name, primary)
            writer.WaitFor()


def mirror_secondary_dies(stage: Stage) -> None:
    """The secondary's machine loses its power; the guest stands still until the master has recorded it, then goes on."""
    primary, secondary = stage.cluster.nodes[:2]
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, secondary) as writer:
            stage.PowerOff(secondary)
            writer.WaitFor(100)
            assert all(disk.get("behind") for disk in _Disks(stage, name))
            stage.PowerOn(secondary, writer)
            stage.Gnt("instance", "activate-disks", name)
            _MoveAndCheck(stage, name, secondary)
            writer.WaitFor()


def mirror_both_die(stage: Stage) -> None:
    """Both machines lose their power while the guest writes."""
    first, second = _Pair(stage)
    with stage.Instance("drbd", first, second) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second) as writer:
            for node in (first, second):
                stage.PowerOff(node)
            for node in (first, second):
                stage.PowerOn(node, writer)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
            _MoveAndCheck(stage, name, second)


# --- a link is lost -------------------------------------------------------------------------------------------------------


def _Link(stage: Stage, spoil: Callable[[Node, Node], None], frozen: bool) -> None:
    """The link of the mirror is spoiled and healed; ``frozen``: the master has to let the primary go on."""
    primary, secondary = _Pair(stage)
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, secondary) as writer:
            spoil(primary, secondary)
            writer.WaitFor(100)
            if frozen:
                assert all(disk.get("behind") for disk in _Disks(stage, name))
                done = stage.cluster.Gnt("instance", "failover", "-f", name, check=False)
                assert done.status, "a side that is behind takes over"
                CheckOnePrimary(stage, name)
            stage.cluster.links.Heal()
            _MoveAndCheck(stage, name, secondary)
            writer.WaitFor()


def mirror_link_cut(stage: Stage) -> None:
    """The link between the sides is cut for a while; the side that stayed behind does not take over before it is filled."""
    _Link(stage, lambda _, secondary: stage.cluster.links.CutOff(secondary.name), True)


def mirror_link_one_way(stage: Stage) -> None:
    """The primary hears the secondary, and not the other way round."""
    _Link(stage, lambda primary, secondary: stage.cluster.links.Cut(primary.name, secondary.name), True)


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
            _MoveAndCheck(stage, name, primary)


# --- in the middle of a procedure -----------------------------------------------------------------------------------------


def _Interrupted(stage: Stage, argv: list[str], mark: str, step: int, strike: Callable[[], None]) -> None:
    """Run a command on the master and strike when its output has ``step`` lines with ``mark``, or at its end."""
    words = " ".join(argv)
    begin = "rm -f /run/story.*; touch /run/story.log;"
    run = f"(gnt-{words} >/run/story.log 2>&1; touch /run/story.end) </dev/null >/dev/null 2>&1 &"
    stage.cluster.master.Shell(f"{begin} {run}")
    wait = f"until [ $(grep -c '{mark}' /run/story.log) -ge {step} ] || [ -e /run/story.end ]; do sleep 0.1; done"
    stage.cluster.master.Shell(f"{wait}; cat /run/story.log", seconds=600)
    stage.say(f"         line {step} of gnt-{words}")
    strike()


def _KillDaemon(stage: Stage, node: Node, daemon: str) -> Callable[[], None]:
    def strike() -> None:
        node.Shell(f"kill -9 $(cat /run/ganeti/{daemon}.pid)")
        stage.say(f"         {daemon} of {node.name} is killed")
        node.Run("/usr/lib/ganeti/daemon-util", "start", daemon, seconds=300)

    return strike


def _PowerCut(stage: Stage, node: Node) -> Callable[[], None]:
    def strike() -> None:
        stage.PowerOff(node)
        stage.PowerOn(node)

    return strike


def _Settle(stage: Stage, name: str) -> None:
    """Wait for the jobs that are left, and do what the messages say after an interruption."""
    end = time.monotonic() + _SYNC_SECONDS
    while stage.cluster.Gnt("job", "list", "--no-headers", "--running").stdout.strip():
        assert time.monotonic() < end, "a job does not end"
        time.sleep(1)
    stage.Gnt("instance", "activate-disks", name)
    if "running" not in stage.Gnt("instance", "list", "--no-headers", "-o", "status", name):
        stage.Gnt("instance", "startup", name)


def _RemoveUnknown(stage: Stage) -> None:
    """Remove the volumes that an interrupted replacement left, with the commands that gnt-cluster verify prints."""
    nodes = {node.name: node for node in stage.cluster.nodes}
    for line in stage.Verify():
        if found := re.search(r"node (\S+): volume \S+ is unknown: .*run '(lvremove) (\S+)' there", line):
            node, command, volume = found.groups()
            nodes[node].Run(command, "-q", "-f", volume)
            stage.say(f"         {volume} was left on {node}; gnt-cluster verify said how to remove it")


def _InterruptedReplace(stage: Stage, where: str, strike_at: Callable[[Node, Node], Callable[[], None]]) -> None:
    primary, secondary = stage.cluster.nodes[:2]
    with stage.Instance("drbd", primary, secondary) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, secondary) as writer:
            step = stage.random.randint(1, _STEPS)
            argv = ["instance", "replace-disks", where, name]
            _Interrupted(stage, argv, "STEP", step, strike_at(primary, secondary))
            _Settle(stage, name)
            writer.WaitFor()
            stage.Gnt("instance", "replace-disks", where, name)
            _RemoveUnknown(stage)
            _MoveAndCheck(stage, name, secondary)


def mirror_replace_without_master(stage: Stage) -> None:
    """The master daemon is killed at a step of replace-disks."""
    where = stage.random.choice(["-p", "-s"])
    _InterruptedReplace(stage, where, lambda primary, _: _KillDaemon(stage, primary, "ganeti-masterd"))


def mirror_replace_without_noded(stage: Stage) -> None:
    """The secondary's node daemon is killed at a step of replace-disks."""
    where = stage.random.choice(["-p", "-s"])
    _InterruptedReplace(stage, where, lambda _, secondary: _KillDaemon(stage, secondary, "ganeti-noded"))


def mirror_replace_without_power(stage: Stage) -> None:
    """The secondary's machine loses its power at a step of replace-disks, and comes back."""
    where = stage.random.choice(["-p", "-s"])
    _InterruptedReplace(stage, where, lambda _, secondary: _PowerCut(stage, secondary))
