"""Mirrors between two nodes with a real DRBD: what doc/design-drbd.rst promises, from the backend's procedures downwards."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.lab import TREE
from support.mirrors import SECRET, MakeMirror
from support.virtual import MakeInstance

from ganeti.storage.utilities import drbdtools
from lab.files import COMPILED, Compile, Fetch, Lack
from lab.machine import Machine, MakeDisk
from lab.switch import Switch

_MIB = 1 << 20
_NOTES, _BLOCKS = "/run/notes", 1000
_PYTHON = f"{TREE}/.venv/bin/python"
_INSIDE = f"{TREE}/test/lab/inside"
_PROCEDURES, _LOG = "/run/procedures", "/run/procedures.log"


class Side:
    """One node and its end of the mirror."""

    def __init__(self, machine: Machine, number: int):
        self.machine = machine
        self.writer = ""
        self.size = 64
        self._ends = f"10.79.0.{number}", f"10.79.0.{3 - number}"

    def Boot(self) -> None:
        """Wait until it has started, and serve procedures."""
        self.machine.Wait()
        serve = f"cd {TREE} && exec {_PYTHON} {_INSIDE}/procedure.py {_PROCEDURES} >{_LOG} 2>&1"
        script = f"({serve}) & until [ -S {_PROCEDURES} ]; do sleep 0.1; done"
        self.machine.Run("sh", "-c", script, PYTHONPATH=str(TREE), **COMPILED)

    def CheckLog(self) -> None:
        assert SECRET not in self.machine.Run("cat", _LOG).stdout

    def Disk(self, peer: str | None = "counts", port: int | None = 11000) -> Any:
        return MakeMirror(*self._ends, peer=peer, size=self.size, port=port).ToDict(runtime=True)

    def Ask(self, *calls: tuple[str, Any]) -> list[list[Any]]:
        words = ["socat", "-t", "300", "-", f"unix-connect:{_PROCEDURES}"]
        return list(json.loads(self.machine.Run(*words, stdin=json.dumps(calls), seconds=300).stdout))

    def Do(self, *calls: tuple[str, Any]) -> Any:
        """Run procedures, all of which succeed; return the last one's result."""
        answers = self.Ask(*calls)
        assert [answer for answer in answers if not answer[0]] == []
        return answers[-1][1]

    def Fail(self, name: str, arguments: Any) -> str:
        [[fine, text]] = self.Ask((name, arguments))
        assert not fine
        assert SECRET not in text
        return str(text)

    def Create(self, primary: bool, port: int | None = 11000) -> None:
        """Make the side; without a port it does not connect yet."""
        disk = self.Disk(port=port)
        layers = [*disk["children"], disk]
        self.Do(*(("blockdev_create", [layer, layer["size"], "guest", primary, "note", False]) for layer in layers))

    def Assemble(self, peer: str, primary: bool = False) -> tuple[str, Any]:
        return "blockdev_assemble", [self.Disk(peer), MakeInstance().ToDict(runtime=True), primary, 0]

    @property
    def state(self) -> drbdtools.Minor | None:
        return drbdtools.ParseMinors(self.machine.Run("cat", "/proc/drbd").stdout).get(0)

    def Wait(self, seconds: float = 120.0, **wanted: Any) -> drbdtools.Minor:
        """Wait until the state has these properties."""
        end = time.monotonic() + seconds
        while True:
            state = self.state
            if state is not None and all(getattr(state, name) == value for name, value in wanted.items()):
                return state
            assert time.monotonic() < end, f"{self.machine.name} is {state}, not {wanted}"
            time.sleep(0.3)

    def LinkChanges(self) -> int:
        """Return how often the kernel noted that a link changed its state."""
        return self.machine.Run("dmesg").stdout.count(" conn( ")

    # --- writing ------------------------------------------------------------------------------------------------------

    def StartWriter(self) -> None:
        self.machine.Run("rm", "-f", _NOTES)
        command = f"nohup {_PYTHON} {_INSIDE}/numbered.py /dev/drbd0 {_NOTES} {_BLOCKS} >/dev/null 2>&1 & echo $!"
        self.writer = self.machine.Run("sh", "-c", command).stdout.strip()
        self.WaitForWrites(0)

    def StopWriter(self) -> None:
        self.machine.Run("kill", self.writer)
        self.WaitForEnd()

    def WaitForEnd(self) -> None:
        """Wait until the writer has ended; nobody may have asked for its result."""
        ended = f"! [ -e /proc/{self.writer} ] || grep -q '^State:.Z' /proc/{self.writer}/status"
        self.machine.Run("sh", "-c", f"until {ended}; do sleep 0.1; done")

    def Acknowledged(self) -> list[str]:
        return self.machine.Run("cat", _NOTES, check=False).stdout.split()

    def WaitForWrites(self, more_than: int) -> None:
        end = time.monotonic() + 120
        while len(self.Acknowledged()) <= more_than:
            assert time.monotonic() < end, "nothing is written"
            time.sleep(0.2)

    def CheckWrites(self, acknowledged: list[str]) -> None:
        """Every write that was acknowledged is on this side's open device."""
        text = "".join(f"{number}\n" for number in acknowledged)
        self.machine.Run("sh", "-c", "cat > /run/given", stdin=text)
        words = ["check", "/dev/drbd0", "/run/given", str(_BLOCKS)]
        assert self.machine.Run(_PYTHON, f"{_INSIDE}/numbered.py", *words).stdout.split("\n")[0] == (
            f"checked {len(acknowledged)}"
        )


def Together(*asked: tuple[Side, tuple[str, Any]]) -> None:
    """Run a procedure on each side at once, as the master does."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda pair: pair[0].Do(pair[1]), asked))


class Pair:
    def __init__(self, one: Side, two: Side, switch: Switch):
        self.one, self.two, self.switch = one, two, switch

    def Cut(self) -> None:
        self.switch.CutOff("node1")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    if lack := Lack(2):
        pytest.skip(f"the laboratory cannot run here: {lack}")
    folder, files = tmp_path_factory.mktemp("drbd"), Fetch()
    compiled = Compile(folder / "compiled")
    with Switch(folder) as switch:
        sides = []
        for number in (1, 2):
            network = switch.AddPort(f"node{number}", number)
            disk = MakeDisk(folder / f"disk{number}", 1024)
            address = f"10.79.0.{number}"
            machine = Machine(f"node{number}", folder, files, [disk], address, network, installed=compiled)
            sides.append(Side(machine, number))
        try:
            for side in sides:
                side.machine.Start()
            for side in sides:
                side.Boot()
                side.machine.Run("vgcreate", "-q", "-y", "vg", "/dev/vda")
            yield Pair(sides[0], sides[1], switch)
        finally:
            for side in sides:
                side.machine.PowerOff()


@pytest.mark.lab
@pytest.mark.limit(1800)
def test_life_of_a_mirror(pair: Pair) -> None:
    one, two, switch = pair.one, pair.two, pair.switch
    _Creation(one, two)
    _Migration(one, two)
    _MigrationByAnOlderMaster(one, two)
    _Growth(one, two)
    _LocalStorage(one, two)
    _CutAndHealed(one, two, pair, switch)
    _Served(one, two, pair, switch)
    _OutdatedBesideNoDisk(one, two, pair, switch)
    _LeftBehind(one, two, pair, switch)
    _PowerLost(one, two)
    _NewSecondary(one, two, pair, switch)
    for side in (one, two):
        side.Do(("blockdev_remove", [side.Disk()]))
        assert side.machine.Run("lvs", "--noheadings").stdout.strip() == ""
        assert side.state is None or not side.state.in_use
        side.CheckLog()


def _Creation(one: Side, two: Side) -> None:
    one.Create(primary=True)
    two.Create(primary=False)
    assert "in use already by minor 0 (resource0)" in one.Fail(
        "blockdev_create", [one.Disk(), 64, "x", True, "", False]
    )
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate", primary=True)
    assert one.Do(("drbd_wait_sync", [[one.Disk()]])) == [True, 100.0]
    status = one.Do(("blockdev_find", [one.Disk()]))
    assert (status["dev_path"], status["minor"], status["is_degraded"], status["ldisk_status"]) == (
        "/dev/drbd0",
        0,
        False,
        1,
    )
    for side in (one, two):
        assert side.Do(("blockdev_getdimensions", [[side.Disk()]])) == [[64 * _MIB, None]]
        shown = side.machine.Run("drbdsetup", "show", "all").stdout
        assert "resource-and-stonith" in shown and "after-sb" not in shown
    assert "is open on the other node" in two.Fail("blockdev_open", ["", [two.Disk()], True])
    strange = two.Disk(port=11009)
    strange["children"][0]["logical_id"] = ["vg", "other"]
    assert re.search("another device has this number.*/dev/vg/one_data.*left as it is",
                     two.Fail("blockdev_assemble", [strange, MakeInstance().ToDict(runtime=True), False, 0]))  # fmt: skip
    assert two.Do(("blockdev_shutdown", [strange])) is None
    assert two.Wait(connected=True).disk == "UpToDate", "what is not ours was left alone"


def _Migration(one: Side, two: Side) -> None:
    """Both may be open for a while, on the link that is there: the writer does not wait."""
    one.StartWriter()
    changes = one.LinkChanges()
    Together(*((side, ("drbd_attach_net", [[side.Disk()], True])) for side in (one, two)))
    assert two.Wait(connected=True, primary=True).peer_role == "Primary"
    one.WaitForWrites(len(one.Acknowledged()))
    assert "(164)" in two.Fail("drbd_attach_net", [[two.Disk()], False])
    two.Do(("blockdev_close", ["", [two.Disk()]]))
    Together(*((side, ("drbd_attach_net", [[side.Disk()], False])) for side in (one, two)))
    for side in (one, two):
        assert "allow-two-primaries" not in side.machine.Run("drbdsetup", "show", "all").stdout
    assert one.LinkChanges() == changes, "the link has stayed"
    one.WaitForWrites(len(one.Acknowledged()))
    one.StopWriter()


def _MigrationByAnOlderMaster(one: Side, two: Side) -> None:
    """As release 3.1 does it: the link is dropped, and nothing is acknowledged while the sides are not connected."""
    one.StartWriter()
    Together(*((side, ("drbd_disconnect_net", [[side.Disk()]])) for side in (one, two)))
    assert one.Wait(standalone=True).frozen
    frozen_at = one.Acknowledged()
    assert two.Wait(standalone=True).disk == "UpToDate", "it has not been told to be outdated"
    assert one.Acknowledged() == frozen_at
    Together(*((side, ("drbd_attach_net", [[side.Disk()], True])) for side in (one, two)))
    assert two.Wait(connected=True, primary=True).peer_role == "Primary"
    one.WaitForWrites(len(frozen_at))
    one.StopWriter()
    acknowledged = one.Acknowledged()
    one.Do(("blockdev_close", ["", [one.Disk()]]))
    Together(*((side, ("drbd_disconnect_net", [[side.Disk()]])) for side in (one, two)))
    Together(*((side, ("drbd_attach_net", [[side.Disk()], False])) for side in (one, two)))
    two.CheckWrites(acknowledged)
    two.Do(("blockdev_close", ["", [two.Disk()]]))
    one.Do(("blockdev_open", ["", [one.Disk()], True]))
    assert one.Wait(connected=True).primary


def _Growth(one: Side, two: Side) -> None:
    one.StartWriter()
    for side in (one, two):
        side.Do(*(("blockdev_grow", [side.Disk(), 16, dry_run, True, False]) for dry_run in (True, False)))
    one.Do(("blockdev_grow", [one.Disk(), 16, False, False, False]))
    one.Wait(connected=True, peer_disk="UpToDate")
    # Had the master failed before it recorded that: a side that comes back is refused until it knows the size.
    two.Do(("blockdev_shutdown", [two.Disk()]), two.Assemble("counts"))
    one.Wait(standalone=True, frozen=True)
    assert [side.Do(("drbd_states", []))["0"]["size"] // _MIB for side in (one, two)] == [80, 64]
    for side in (two, one):
        side.size = 80
        side.Do(side.Assemble("counts"))
    one.Wait(connected=True, frozen=False, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        assert side.Do(("blockdev_getdimensions", [[side.Disk()]])) == [[80 * _MIB, None]]
    one.Wait(connected=True, peer_disk="UpToDate")
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


def _LocalStorage(one: Side, two: Side) -> None:
    """The disk of the side in use is replaced while it is written to."""
    one.StartWriter()
    one.Do(("blockdev_removechildren", [one.Disk(), one.Disk()["children"]]))
    assert one.Wait(diskless=True).primary and one.Do(("drbd_needs_activation", [[one.Disk()]])) != []
    before = len(one.Acknowledged())
    one.WaitForWrites(before)
    one.Do(("blockdev_addchildren", [one.Disk(), one.Disk()["children"]]))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())
    assert "cannot shrink" in two.Fail("blockdev_grow", [two.Disk(), -8, False, False, False])


def _CutAndHealed(one: Side, two: Side, pair: Pair, switch: Switch) -> None:
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    frozen_at = one.Acknowledged()
    assert one.Do(("drbd_states", []))["0"]["frozen"]
    # Each side notices by itself, at its own time.
    two.Wait(connection="WFConnection")
    assert "did not answer" in two.Fail("blockdev_open", ["", [two.Disk()], True])
    assert one.Acknowledged() == frozen_at, "nothing was acknowledged by one side alone"
    switch.Heal()
    one.Wait(connected=True, frozen=False, peer_disk="UpToDate")
    one.WaitForWrites(len(frozen_at))

    # The other node is given up: the record says that it is behind.
    pair.Cut()
    one.Wait(frozen=True)
    frozen_at = one.Acknowledged()
    # Each side notices by itself, at its own time.
    two.Wait(connection="WFConnection")
    two.Do(("drbd_follow", [[two.Disk("ahead")]]))
    assert two.Wait(disk="Outdated").role == "Secondary"
    one.Do(("drbd_follow", [[one.Disk("behind")]]))
    one.WaitForWrites(len(frozen_at))
    assert "is behind (Outdated" in re.sub("did not answer", "is behind (Outdated", two.Fail(
        "blockdev_open", ["", [two.Disk("ahead")], True]))  # fmt: skip
    switch.Heal()
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
        assert "resource-and-stonith" in side.machine.Run("drbdsetup", "show", "all").stdout
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


def _Served(one: Side, two: Side, pair: Pair, switch: Switch) -> None:
    """The primary's disk fails, and can be read again while the other side, which serves the writer, is away."""

    def lose_disk() -> None:
        one.machine.Run("drbdsetup", "detach", "0", "--force")
        one.Wait(disk="Diskless", connected=True)
        one.WaitForWrites(len(one.Acknowledged()))
        two.Do(("drbd_follow", [[two.Disk("behind")]]))
        one.Do(("drbd_follow", [[one.Disk("ahead")]]))

    def fill() -> None:
        one.Do(one.Assemble("ahead"))
        one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
        for side in (one, two):
            side.Do(("drbd_follow", [[side.Disk("counts")]]))
        one.WaitForWrites(len(one.Acknowledged()))

    for side in (one, two):
        assert re.search(r"on-no-data-accessible\s+suspend-io", side.machine.Run("drbdsetup", "show", "all").stdout)
    one.StartWriter()
    lose_disk()
    pair.Cut()
    one.Wait(connection="WFConnection", frozen=True)
    frozen_at = one.Acknowledged()
    assert "older than what the guest has seen" in one.Fail(*one.Assemble("ahead"))
    assert one.Wait(connection="WFConnection", frozen=True).disk == "Diskless"
    assert one.Acknowledged() == frozen_at, "the writer waits, and sees no error"
    switch.Heal()
    one.Wait(connected=True, frozen=False)
    one.WaitForWrites(len(frozen_at))
    fill()
    # The link was dropped on this side, as a call that was cut off leaves it.
    lose_disk()
    one.Do(("drbd_disconnect_net", [[one.Disk("ahead")]]))
    assert one.Wait(standalone=True, frozen=True).disk == "Diskless"
    fill()
    # Whoever waits for it ends, although the other side stays away.
    lose_disk()
    pair.Cut()
    one.Wait(connection="WFConnection", frozen=True)
    two.Wait(connection="WFConnection")
    acknowledged = one.Acknowledged()
    one.machine.Run("kill", "-9", one.writer)
    one.Do(("blockdev_shutdown", [one.Disk("ahead")]))
    one.WaitForEnd()
    assert one.Acknowledged() == acknowledged, "its last write was acknowledged to nobody"
    switch.Heal()
    one.Do(one.Assemble("ahead"))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    one.Do(one.Assemble("counts", primary=True))
    one.CheckWrites(acknowledged)


def _OutdatedBesideNoDisk(one: Side, two: Side, pair: Pair, switch: Switch) -> None:
    """A side that was left behind, and whose loss somebody accepts, is opened although the other one is connected without data."""
    acknowledged = one.Acknowledged()
    one.Do(("blockdev_close", ["", [one.Disk()]]))
    pair.Cut()
    for side in (one, two):
        side.Wait(connection="WFConnection")
    two.Do(("drbd_follow", [[two.Disk("ahead")]]))
    two.Wait(disk="Outdated")
    one.machine.Run("drbdsetup", "detach", "0", "--force")
    switch.Heal()
    # The kernel forgets the mark then; it is the record that keeps the side from being opened.
    two.Wait(connected=True, disk="UpToDate", peer_disk="Diskless")
    assert "is behind (UpToDate, Connected)" in two.Fail(*two.Assemble("ahead", primary=True))
    assert "UpToDate on this node and Diskless" in two.Fail(*two.Assemble("counts", primary=True))
    two.Do(two.Assemble("behind", primary=True))
    assert two.Wait(primary=True).disk == "UpToDate"
    two.CheckWrites(acknowledged)
    one.Do(one.Assemble("ahead"))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    two.Do(("blockdev_close", ["", [two.Disk()]]))
    one.Do(one.Assemble("counts", primary=True))


def _WaitForRefusal(*sides: Side) -> None:
    """Wait until they have seen that both are in use: neither gives way, and whoever sees it first does not connect again.

    The other one may have lost the link before it has seen the same, and goes on waiting for it.
    """
    end = time.monotonic() + 120
    while True:
        states = [side.Wait(primary=True) for side in sides]
        if any(state.standalone for state in states):
            break
        assert time.monotonic() < end, states
        time.sleep(0.3)


def _LeftBehind(one: Side, two: Side, pair: Pair, switch: Switch) -> None:
    """The primary is cut off, its instance starts on the other node, and it comes back."""
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    acknowledged = one.Acknowledged()
    two.Do(two.Assemble("behind"), two.Assemble("behind", primary=True))
    assert two.Wait(primary=True).disk == "UpToDate"
    two.CheckWrites(acknowledged)
    two.StartWriter()
    switch.Heal()
    _WaitForRefusal(one, two)
    assert one.Acknowledged() == acknowledged, "what was left behind never went on"
    one.machine.Run("kill", "-9", one.writer)
    one.Do(("drbd_follow", [[one.Disk("ahead")]]))
    assert one.Wait(standalone=True).frozen
    one.Do(("blockdev_shutdown", [one.Disk("ahead")]))
    one.WaitForEnd()
    assert one.Acknowledged() == acknowledged, "its last write was acknowledged to nobody"
    one.Do(one.Assemble("ahead"))
    two.Do(two.Assemble("behind"))
    two.Wait(connected=True, peer_disk="UpToDate")
    two.StopWriter()
    two.CheckWrites(two.Acknowledged())
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))


def _PowerLost(one: Side, two: Side) -> None:
    """The node of the primary loses its power; afterwards it comes back and is filled again."""
    two.StartWriter()
    one.Wait(connected=True)
    acknowledged = two.Acknowledged()
    two.CheckLog()
    two.machine.PowerOff()
    one.Wait(connection="WFConnection")
    assert "did not answer" in one.Fail(*one.Assemble("counts", primary=True))
    one.Do(one.Assemble("behind"), one.Assemble("behind", primary=True))
    one.CheckWrites(acknowledged)
    two.machine.Start()
    two.Boot()
    two.machine.Run("vgchange", "-q", "-ay", "vg")
    two.Do(two.Assemble("ahead"))
    two.Wait(connected=True, disk="UpToDate")
    one.Do(("drbd_follow", [[one.Disk("counts")]]))
    two.Do(("drbd_follow", [[two.Disk("counts")]]))
    for side in (one, two):
        side.Do(("blockdev_shutdown", [side.Disk()]))
    Together((one, one.Assemble("counts")), (two, two.Assemble("counts")))
    one.Do(one.Assemble("counts", primary=True))
    one.CheckWrites(acknowledged)


def _NewSecondary(one: Side, two: Side, pair: Pair, switch: Switch) -> None:
    """The other side is lost and given up; a new and empty one takes its place, and counts."""
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    one.Do(("drbd_follow", [[one.Disk("behind")]]))
    one.WaitForWrites(len(one.Acknowledged()))
    two.Do(("blockdev_remove", [two.Disk("ahead")]))
    switch.Heal()
    one.Do(("drbd_disconnect_net", [[one.Disk("behind")]]))
    # It is told to freeze while it is alone: that holds for the next link it loses, should the new side never come.
    one.Do(("drbd_follow", [[one.Disk("counts")]]))
    assert one.Wait(standalone=True, frozen=False).primary
    one.WaitForWrites(len(one.Acknowledged()))
    two.Create(primary=False, port=None)
    Together(*((side, ("drbd_attach_net", [[side.Disk()], False])) for side in (one, two)))
    assert "resource-and-stonith" in one.machine.Run("drbdsetup", "show", "all").stdout
    one.WaitForWrites(len(one.Acknowledged()))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    pair.Cut()
    one.Wait(frozen=True)
    frozen_at = one.Acknowledged()
    switch.Heal()
    one.Wait(connected=True, frozen=False, peer_disk="UpToDate")
    one.WaitForWrites(len(frozen_at))
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())
