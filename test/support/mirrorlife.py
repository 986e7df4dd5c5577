"""The life of a mirror of two nodes, told with a real DRBD and with its stand-in: what doc/design-drbd.rst promises.

So the stand-in, on which many other stories rely, is held to what the real one does.
"""

from __future__ import annotations

import abc
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from ganeti.storage.utilities import drbdtools
from support.mirrors import SECRET, MakeMirror
from support.virtual import MakeInstance

_MIB = 1 << 20


class MirrorSide(abc.ABC):
    """One node and its end of the mirror."""

    # How long a state is waited for: seconds.
    PATIENCE = 120.0

    def __init__(self, name: str, ends: tuple[str, str]):
        self.name = name
        self.size = 64
        self._ends = ends

    # --- what a node can do -------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def Ask(self, *calls: tuple[str, Any]) -> list[list[Any]]:
        """Run procedures of the node daemon one after the other; [True, result] or [False, text of the error] of each."""

    @abc.abstractmethod
    def Run(self, *argv: str) -> str:
        """Run a program, which succeeds, and return what it printed."""

    @abc.abstractmethod
    def FailDisk(self) -> None:
        """The disk below the device fails while it is written to; it can be read again right after.

        Not by ``detach --force``: the kernel panics if something that was under way to the disk still ends.
        """

    @abc.abstractmethod
    def DropLink(self) -> None:
        """An administrator drops the link by DRBD's own command, in the way that both sides agree on."""

    @abc.abstractmethod
    def LosePower(self) -> None: ...

    @abc.abstractmethod
    def Return(self) -> None:
        """The node has its power again, and its volumes are there."""

    @abc.abstractmethod
    def LinkChanges(self) -> int:
        """Return how often the kernel noted that a link changed its state."""

    @abc.abstractmethod
    def Fills(self) -> int:
        """Return how often the kernel noted that a side has been filled."""

    @abc.abstractmethod
    def StartWriter(self) -> None:
        """Write to the device from now on; return when something is acknowledged."""

    @abc.abstractmethod
    def StopWriter(self) -> None: ...

    @abc.abstractmethod
    def PauseWriter(self) -> None:
        """Have it begin nothing; return when all that it has written is over for the kernel, too."""

    @abc.abstractmethod
    def ContinueWriter(self) -> None: ...

    @abc.abstractmethod
    def KillWriter(self) -> None:
        """Kill it without waiting for its end."""

    @abc.abstractmethod
    def WaitForEnd(self) -> None: ...

    @abc.abstractmethod
    def Acknowledged(self) -> list[str]: ...

    @abc.abstractmethod
    def WaitForWrites(self, more_than: int) -> None: ...

    @abc.abstractmethod
    def CheckWrites(self, acknowledged: list[str]) -> None:
        """Every write that was acknowledged is on this side's open device."""

    # --- what is the same for all -------------------------------------------------------------------------------------

    def Now(self) -> float:
        return time.monotonic()

    def Pause(self) -> None:
        """Let some time pass between two looks."""
        time.sleep(0.3)

    def Disk(self, peer: str | None = "counts", port: int | None = 11000) -> Any:
        return MakeMirror(*self._ends, peer=peer, size=self.size, port=port).ToDict(runtime=True)

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

    def Attach(self) -> None:
        """Attach the volumes with DRBD's own commands."""
        data, meta = (f"/dev/vg/one_{part}" for part in ("data", "meta"))
        for argv in drbdtools.Syntax84.Attach(0, data, meta, self.size, [], []):
            self.Run(*argv)

    @property
    def state(self) -> drbdtools.Minor | None:
        return drbdtools.ParseMinors(self.Run("cat", "/proc/drbd")).get(0)

    def Wait(self, **wanted: Any) -> drbdtools.Minor:
        """Wait until the state has these properties."""

        def wanted_now(states: list[drbdtools.Minor]) -> bool:
            return all(getattr(states[0], name) == value for name, value in wanted.items())

        return _Poll([self], wanted_now, str(wanted))[0]

    def WaitForFill(self, before: int) -> None:
        """Return when a side has been filled since ``Fills`` returned this."""
        end = self.Now() + self.PATIENCE
        while self.Fills() == before:
            assert self.Now() < end, "no side was filled"
            self.Pause()

    def DetachByForce(self) -> None:
        """Take the volumes away; the command does not wait until the kernel has let go of them."""
        self.Run("drbdsetup", "detach", "0", "--force")
        self.Wait(disk="Diskless")


def _Poll(
    sides: Sequence[MirrorSide], check: Callable[[list[drbdtools.Minor]], bool], wanted: str
) -> list[drbdtools.Minor]:
    """Look at sides until their states are those that are wanted, and return these; a look is a command on the node."""
    end = sides[0].Now() + sides[0].PATIENCE
    while True:
        states = [state for side in sides if (state := side.state) is not None]
        if len(states) == len(sides) and check(states):
            return states
        assert sides[0].Now() < end, f"{' and '.join(side.name for side in sides)}: {states}, not {wanted}"
        sides[0].Pause()


class MirrorPair(abc.ABC):
    """The two sides, and what lies between them."""

    def __init__(self, one: MirrorSide, two: MirrorSide):
        self.one, self.two = one, two

    @abc.abstractmethod
    def Cut(self) -> None:
        """Nothing gets through between the nodes."""

    @abc.abstractmethod
    def Heal(self) -> None: ...

    @abc.abstractmethod
    def Together(self, *asked: tuple[MirrorSide, tuple[str, Any]]) -> None:
        """Run a procedure on each side at once, as the master does."""

    def Live(self) -> None:
        """Tell the whole story; nothing is left afterwards."""
        for chapter in _CHAPTERS:
            chapter(self, self.one, self.two)
        for side in (self.one, self.two):
            side.Do(("blockdev_remove", [side.Disk()]))
            assert side.Run("lvs", "--noheadings").strip() == ""
            assert side.state is None or not side.state.in_use


def _CheckOnTheOther(one: MirrorSide, two: MirrorSide) -> None:
    """Read what the first side has acknowledged from the second one, then open the first one again."""
    acknowledged = one.Acknowledged()
    one.Do(("blockdev_close", ["", [one.Disk()]]))
    two.Do(two.Assemble("counts", primary=True))
    two.CheckWrites(acknowledged)
    two.Do(("blockdev_close", ["", [two.Disk()]]))
    one.Do(one.Assemble("counts", primary=True))


def _Creation(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
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
        shown = side.Run("drbdsetup", "show", "all")
        assert "resource-and-stonith" in shown and "after-sb" not in shown
    assert "is open on the other node" in two.Fail("blockdev_open", ["", [two.Disk()], True])
    strange = two.Disk(port=11009)
    strange["children"][0]["logical_id"] = ["vg", "other"]
    assert re.search("another device has this number.*/dev/vg/one_data.*left as it is",
                     two.Fail("blockdev_assemble", [strange, MakeInstance().ToDict(runtime=True), False, 0]))  # fmt: skip
    assert two.Do(("blockdev_shutdown", [strange])) is None
    assert two.Wait(connected=True).disk == "UpToDate", "what is not ours was left alone"


def _Migration(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """Both may be open for a while, on the link that is there: the writer does not wait."""
    one.StartWriter()
    changes = one.LinkChanges()
    pair.Together(*((side, ("drbd_attach_net", [[side.Disk()], True])) for side in (one, two)))
    assert two.Wait(connected=True, primary=True).peer_role == "Primary"
    one.WaitForWrites(len(one.Acknowledged()))
    assert "(164)" in two.Fail("drbd_attach_net", [[two.Disk()], False])
    two.Do(("blockdev_close", ["", [two.Disk()]]))
    pair.Together(*((side, ("drbd_attach_net", [[side.Disk()], False])) for side in (one, two)))
    for side in (one, two):
        assert "allow-two-primaries" not in side.Run("drbdsetup", "show", "all")
    assert one.LinkChanges() == changes, "the link has stayed"
    one.WaitForWrites(len(one.Acknowledged()))
    one.StopWriter()


def _MigrationByAnOlderMaster(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """As release 3.1 does it: the link is dropped, and nothing is acknowledged while the sides are not connected."""
    one.StartWriter()
    pair.Together(*((side, ("drbd_disconnect_net", [[side.Disk()]])) for side in (one, two)))
    assert one.Wait(standalone=True).frozen
    frozen_at = one.Acknowledged()
    assert two.Wait(standalone=True).disk == "UpToDate", "it has not been told to be outdated"
    assert one.Acknowledged() == frozen_at
    pair.Together(*((side, ("drbd_attach_net", [[side.Disk()], True])) for side in (one, two)))
    assert two.Wait(connected=True, primary=True).peer_role == "Primary"
    one.WaitForWrites(len(frozen_at))
    one.StopWriter()
    acknowledged = one.Acknowledged()
    one.Do(("blockdev_close", ["", [one.Disk()]]))
    pair.Together(*((side, ("drbd_disconnect_net", [[side.Disk()]])) for side in (one, two)))
    pair.Together(*((side, ("drbd_attach_net", [[side.Disk()], False])) for side in (one, two)))
    two.CheckWrites(acknowledged)
    two.Do(("blockdev_close", ["", [two.Disk()]]))
    one.Do(("blockdev_open", ["", [one.Disk()], True]))
    assert one.Wait(connected=True).primary


def _Growth(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    one.StartWriter()
    for side in (one, two):
        side.Do(*(("blockdev_grow", [side.Disk(), 16, dry_run, True, False]) for dry_run in (True, False)))
    fills = one.Fills()
    one.Do(("blockdev_grow", [one.Disk(), 16, False, False, False]))
    # The new part is filled, which begins a moment later.  A side that is lost before its end is known to be incomplete, and the
    # other one does not wait for it.
    one.WaitForFill(fills)
    one.Wait(connected=True, peer_disk="UpToDate")
    # Had the master failed before it recorded that: a side that comes back is refused until it knows the size.
    two.Do(("blockdev_shutdown", [two.Disk()]), two.Assemble("counts"))
    one.Wait(standalone=True, frozen=True)
    assert [side.Do(("drbd_states", []))["0"]["size"] // _MIB for side in (one, two)] == [80, 64]
    for side in (two, one):
        side.size = 80
        side.Do(side.Assemble("counts"))
    one.Wait(connected=True, frozen=False, disk="UpToDate", peer_disk="UpToDate")
    # Each side learns the other one's size before it sees the link, but at its own time.
    two.Wait(connected=True)
    for side in (one, two):
        assert side.Do(("blockdev_getdimensions", [[side.Disk()]])) == [[80 * _MIB, None]]
    one.Wait(connected=True, peer_disk="UpToDate")
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


def _LocalStorage(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
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


def _CutAndHealed(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    frozen_at = one.Acknowledged()
    assert one.Do(("drbd_states", []))["0"]["frozen"]
    # Each side notices by itself, at its own time.
    two.Wait(connection="WFConnection")
    assert "did not answer" in two.Fail("blockdev_open", ["", [two.Disk()], True])
    assert one.Acknowledged() == frozen_at, "nothing was acknowledged by one side alone"
    pair.Heal()
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
    pair.Heal()
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
        assert "resource-and-stonith" in side.Run("drbdsetup", "show", "all")
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


def _Served(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """The primary's disk fails, and can be read again while the other side, which serves the writer, is away."""

    def lose_disk() -> None:
        one.FailDisk()
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
        assert re.search(r"on-no-data-accessible\s+suspend-io", side.Run("drbdsetup", "show", "all"))
    one.StartWriter()
    lose_disk()
    pair.Cut()
    one.Wait(connection="WFConnection", frozen=True)
    frozen_at = one.Acknowledged()
    assert "older than what the guest has seen" in one.Fail(*one.Assemble("ahead"))
    assert one.Wait(connection="WFConnection", frozen=True).disk == "Diskless"
    assert one.Acknowledged() == frozen_at, "the writer waits, and sees no error"
    pair.Heal()
    one.Wait(connected=True, frozen=False)
    one.WaitForWrites(len(frozen_at))
    fill()
    # The link was dropped on this side, as a call that was cut off leaves it.
    lose_disk()
    one.Do(("drbd_disconnect_net", [[one.Disk("ahead")]]))
    assert one.Wait(standalone=True, frozen=True).disk == "Diskless"
    two.Wait(connection="WFConnection")
    fill()
    # Whoever waits for it ends, although the other side stays away.
    lose_disk()
    pair.Cut()
    one.Wait(connection="WFConnection", frozen=True)
    two.Wait(connection="WFConnection")
    acknowledged = one.Acknowledged()
    one.KillWriter()
    one.Do(("blockdev_shutdown", [one.Disk("ahead")]))
    one.WaitForEnd()
    assert one.Acknowledged() == acknowledged, "its last write was acknowledged to nobody"
    pair.Heal()
    one.Do(one.Assemble("ahead"))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    one.Do(one.Assemble("counts", primary=True))
    one.CheckWrites(acknowledged)


def _GoneBack(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """Only the other side has the newest data, and somebody goes back to the older one; then the other side turns up after all."""
    one.StartWriter()
    older = one.Acknowledged()
    one.FailDisk()
    one.Wait(disk="Diskless", connected=True)
    one.WaitForWrites(len(one.Acknowledged()))
    two.Do(("drbd_follow", [[two.Disk("behind")]]))
    one.Do(("drbd_follow", [[one.Disk("ahead")]]))
    one.StopWriter()
    for side, peer in ((one, "ahead"), (two, "behind")):
        side.Do(("blockdev_shutdown", [side.Disk(peer)]))
    pair.Cut()
    one.Do(one.Assemble("ahead"))
    assert one.Wait(connection="WFConnection").disk == "Outdated"
    assert "is behind (Outdated" in one.Fail(*one.Assemble("ahead", primary=True))
    one.Do(one.Assemble("behind"), one.Assemble("behind", primary=True))
    assert one.Wait(primary=True).disk == "UpToDate"
    one.CheckWrites(older)
    one.StartWriter()
    pair.Heal()
    name, (disk, *others) = two.Assemble("ahead")
    two.Do((name, [{**disk, "children": []}, *others]))
    two.Wait(connected=True, disk="Diskless")
    # Its disk can be read again.  While the link is up the kernel never finishes comparing data that has something of its own.
    two.Attach()
    two.Wait(connected=True, disk="Negotiating")
    one.Wait(peer_disk="Diskless")
    two.Do(two.Assemble("ahead"))
    two.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    one.WaitForWrites(len(one.Acknowledged()))
    one.StopWriter()
    _CheckOnTheOther(one, two)


def _LostWhileDetaching(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """The volumes of the open side are to be exchanged, and the other node dies: the call ends, and nothing is lost."""
    one.StartWriter()
    two.Do(("drbd_follow", [[two.Disk("behind")]]))
    one.Do(("drbd_follow", [[one.Disk("ahead")]]))
    pair.Cut()
    disk = one.Disk("ahead")
    assert "its local storage cannot be detached" in one.Fail("blockdev_removechildren", [disk, disk["children"]])
    assert one.Wait(frozen=True).disk == "UpToDate"
    pair.Heal()
    # The kernel carries out what it was told before, now that the other side serves the device.
    one.Wait(connected=True, frozen=False, peer_disk="UpToDate")
    one.WaitForWrites(len(one.Acknowledged()))
    one.Do(one.Assemble("ahead"))
    two.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


def _LostAlone(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """The disk of a side fails when it has all the newest data, and can be read again: it waits meanwhile, and goes on alone."""
    one.StartWriter()
    for lost_first in (True, False):
        if lost_first:
            # What was acknowledged, and is not over for the kernel, may crash it when the disk comes back (doc/design-drbd.rst).
            one.PauseWriter()
        pair.Cut()
        if lost_first:
            one.ContinueWriter()
        one.Wait(frozen=True)
        two.Wait(connection="WFConnection")
        if lost_first:
            one.DetachByForce()
        two.Do(("drbd_follow", [[two.Disk("ahead")]]))
        one.Do(("drbd_follow", [[one.Disk("behind")]]))
        if not lost_first:
            one.WaitForWrites(len(one.Acknowledged()))
            # What is under way to the only disk would fail with it, as on any other disk.
            one.StopWriter()
            one.DetachByForce()
        assert one.Wait(frozen=True).disk == "Diskless"
        before = one.Acknowledged()
        # Whose disk failed after its link is left alone until that is back, or somebody says that the other side does not count.
        assert one.Do(("drbd_needs_activation", [[one.Disk("counts")]])) == []
        assert one.Do(("drbd_needs_activation", [[one.Disk("behind")]])) != []
        one.Do(("drbd_follow", [[one.Disk("behind")]]))
        assert one.Wait(frozen=True).disk == "Diskless", "nothing was there to go on with"
        assert one.Acknowledged() == before
        one.Do(one.Assemble("behind"))
        one.Wait(frozen=False, disk="UpToDate")
        if lost_first:
            one.WaitForWrites(len(before))
        else:
            one.StartWriter()
        pair.Heal()
        one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
        for side in (one, two):
            side.Do(("drbd_follow", [[side.Disk("counts")]]))
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


def _LostAfterItsLink(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """A frozen side loses its disk, and its link comes back: what is written from then on is on the other side only, and both know."""
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    two.Wait(connection="WFConnection")
    one.DetachByForce()
    pair.Heal()
    one.Wait(connected=True, frozen=False, disk="Diskless", peer_disk="UpToDate")
    one.WaitForWrites(len(one.Acknowledged()))
    two.Do(("drbd_follow", [[two.Disk("behind")]]))
    one.Do(("drbd_follow", [[one.Disk("ahead")]]))
    # Closed and set up again, it has no writer whose data it would miss.
    one.StopWriter()
    acknowledged = one.Acknowledged()
    one.Do(("blockdev_shutdown", [one.Disk("ahead")]))
    before = one.Fills()
    one.Do(one.Assemble("ahead"))
    one.WaitForFill(before)
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    one.Do(one.Assemble("counts", primary=True))
    one.CheckWrites(acknowledged)


def _OutdatedBesideNoDisk(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """A side that was left behind, and whose loss somebody accepts, is opened although the other one is connected without data."""
    acknowledged = one.Acknowledged()
    one.Do(("blockdev_close", ["", [one.Disk()]]))
    pair.Cut()
    for side in (one, two):
        side.Wait(connection="WFConnection")
    two.Do(("drbd_follow", [[two.Disk("ahead")]]))
    two.Wait(disk="Outdated")
    one.DetachByForce()
    pair.Heal()
    # The kernel forgets the mark then; it is the record that keeps the side from being opened.
    two.Wait(connected=True, disk="UpToDate", peer_disk="Diskless")
    assert "is behind (UpToDate, Connected)" in two.Fail(*two.Assemble("ahead", primary=True))
    assert "UpToDate on this node and Diskless" in two.Fail(*two.Assemble("counts", primary=True))
    # Nor does it serve the other one, which would be enough for the kernel.
    assert "is not complete (Diskless)" in one.Fail("blockdev_open", ["", [one.Disk("behind")], True])
    two.Do(two.Assemble("behind", primary=True))
    assert two.Wait(primary=True).disk == "UpToDate"
    two.CheckWrites(acknowledged)
    one.Do(one.Assemble("ahead"))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    two.Do(("blockdev_close", ["", [two.Disk()]]))
    one.Do(one.Assemble("counts", primary=True))


def _WaitForRefusal(*sides: MirrorSide) -> None:
    """Wait until they have seen that both are in use: neither gives way, and whoever sees it first does not connect again.

    The other one may have lost the link before it has seen the same, and goes on waiting for it.
    """

    def refused(states: list[drbdtools.Minor]) -> bool:
        return all(state.primary for state in states) and any(state.standalone for state in states)

    _Poll(sides, refused, "open and parted")


def _LeftBehind(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """The primary is cut off, its instance starts on the other node, and it comes back."""
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    acknowledged = one.Acknowledged()
    two.Do(two.Assemble("behind"), two.Assemble("behind", primary=True))
    assert two.Wait(primary=True).disk == "UpToDate"
    two.CheckWrites(acknowledged)
    two.StartWriter()
    pair.Heal()
    _WaitForRefusal(one, two)
    assert one.Acknowledged() == acknowledged, "what was left behind never went on"
    one.KillWriter()
    one.Do(("drbd_follow", [[one.Disk("ahead")]]))
    # Whether it has refused the link, or waits for it, is chance.
    assert one.Wait(connected=False).frozen
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


def _BothWritten(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """Both sides were written while they were apart; the one that is to give way has not seen that yet, and waits for its link."""
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    two.Wait(connection="WFConnection")
    one.Do(("drbd_follow", [[one.Disk("behind")]]))
    one.WaitForWrites(len(one.Acknowledged()))
    one.StopWriter()
    two.Run("drbdsetup", "primary", "0", "--force")
    two.StartWriter()
    two.StopWriter()
    two.Run("drbdsetup", "secondary", "0")
    one.Do(("drbd_disconnect_net", [[one.Disk("behind")]]))
    pair.Heal()
    two.Wait(connection="WFConnection")
    two.Do(two.Assemble("ahead"))
    one.Do(one.Assemble("behind"))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    _CheckOnTheOther(one, two)


def _DroppedByHand(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """An administrator drops the link by hand: the closed side is outdated, and the open one, which knows that, goes on."""
    one.StartWriter()
    one.DropLink()
    assert one.Wait(standalone=True, frozen=False).peer_disk == "Outdated"
    one.WaitForWrites(len(one.Acknowledged()))
    assert one.Do(("drbd_states", []))["0"]["peer_older"]
    two.Wait(disk="Outdated")
    two.Do(two.Assemble("ahead"))
    one.Do(one.Assemble("behind"))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    for side in (one, two):
        side.Do(("drbd_follow", [[side.Disk("counts")]]))
    assert not one.Do(("drbd_states", []))["0"]["peer_older"]
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


def _PowerLost(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """The node of the primary loses its power; afterwards it comes back and is filled again."""
    two.StartWriter()
    one.Wait(connected=True)
    acknowledged = two.Acknowledged()
    two.LosePower()
    one.Wait(connection="WFConnection")
    assert "did not answer" in one.Fail(*one.Assemble("counts", primary=True))
    one.Do(one.Assemble("behind"), one.Assemble("behind", primary=True))
    one.CheckWrites(acknowledged)
    two.Return()
    two.Do(two.Assemble("ahead"))
    two.Wait(connected=True, disk="UpToDate")
    one.Do(("drbd_follow", [[one.Disk("counts")]]))
    two.Do(("drbd_follow", [[two.Disk("counts")]]))
    for side in (one, two):
        side.Do(("blockdev_shutdown", [side.Disk()]))
    pair.Together((one, one.Assemble("counts")), (two, two.Assemble("counts")))
    one.Do(one.Assemble("counts", primary=True))
    one.CheckWrites(acknowledged)


def _NewSecondary(pair: MirrorPair, one: MirrorSide, two: MirrorSide) -> None:
    """The other side is lost and given up; a new and empty one takes its place, and counts."""
    one.StartWriter()
    pair.Cut()
    one.Wait(frozen=True)
    one.Do(("drbd_follow", [[one.Disk("behind")]]))
    one.WaitForWrites(len(one.Acknowledged()))
    two.Do(("blockdev_remove", [two.Disk("ahead")]))
    pair.Heal()
    one.Do(("drbd_disconnect_net", [[one.Disk("behind")]]))
    # It is told to freeze while it is alone: that holds for the next link it loses, should the new side never come.
    one.Do(("drbd_follow", [[one.Disk("counts")]]))
    assert one.Wait(standalone=True, frozen=False).primary
    one.WaitForWrites(len(one.Acknowledged()))
    two.Create(primary=False, port=None)
    pair.Together(*((side, ("drbd_attach_net", [[side.Disk()], False])) for side in (one, two)))
    assert "resource-and-stonith" in one.Run("drbdsetup", "show", "all")
    one.WaitForWrites(len(one.Acknowledged()))
    one.Wait(connected=True, disk="UpToDate", peer_disk="UpToDate")
    pair.Cut()
    one.Wait(frozen=True)
    frozen_at = one.Acknowledged()
    pair.Heal()
    one.Wait(connected=True, frozen=False, peer_disk="UpToDate")
    one.WaitForWrites(len(frozen_at))
    one.StopWriter()
    one.CheckWrites(one.Acknowledged())


_CHAPTERS: tuple[Callable[[MirrorPair, MirrorSide, MirrorSide], None], ...] = (
    _Creation,
    _Migration,
    _MigrationByAnOlderMaster,
    _Growth,
    _LocalStorage,
    _CutAndHealed,
    _Served,
    _GoneBack,
    _LostWhileDetaching,
    _LostAlone,
    _LostAfterItsLink,
    _OutdatedBesideNoDisk,
    _BothWritten,
    _DroppedByHand,
    _LeftBehind,
    _PowerLost,
    _NewSecondary,
)
