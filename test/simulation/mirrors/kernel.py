"""Two halves of a mirror as the kernel keeps them: data, generations, the link, and what freezes (doc/design-drbd.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation.migration.world import GuestDisk, Host, Violation, World

if TYPE_CHECKING:
    from simulation.migration.qemu import Qemu

UPTODATE, CONSISTENT, OUTDATED, INCONSISTENT = "UpToDate", "Consistent", "Outdated", "Inconsistent"
STANDALONE, CONNECTING, CONNECTED = "StandAlone", "WFConnection", "Connected"
SOURCE, TARGET = "SyncSource", "SyncTarget"


class Half:
    """One half.  ``data`` is the set of writes that it has; what is below ``assembled`` is gone with the power."""

    def __init__(self, kernel: Kernel, host: Host):
        self.kernel = kernel
        self.host = host
        self.data: set[int] = set()
        self.disk = UPTODATE
        # Generations: of the data, of what the other half had when they parted, and older ones.
        self.current, self.bitmap = 1, 0
        self.history: set[int] = set()
        self.crashed = False
        self.assembled = False
        self._Forget()
        host.on_power_off.append(self.Crash)

    def _Forget(self) -> None:
        self.assembled = False
        self.primary = self.frozen = self.fencing = self.dual = self.discard = False
        self.link = STANDALONE
        self.peer_disk = ""
        self.sync = ""
        self.pending: list[int] = []
        # When the other half was first missed, and when that is noticed.
        self.noticed_at: float | None = None

    def __repr__(self) -> str:
        role = "primary" if self.primary else "secondary"
        words = [str(self.host), self.disk, self.link, self.sync, role, "frozen" if self.frozen else ""]
        return f"<{' '.join(filter(None, words))} {self.current}/{self.bitmap} {len(self.data)} writes>"

    @property
    def other(self) -> Half:
        return self.kernel.Other(self)

    @property
    def whole(self) -> bool:
        """Whether both sides are connected and complete."""
        return self.link == CONNECTED and not self.sync and self.disk == self.peer_disk == UPTODATE

    def Crash(self) -> None:
        """The machine is off."""
        if not self.assembled:
            return
        self.crashed = self.crashed or self.primary
        if self.disk == CONSISTENT:
            self.disk = UPTODATE
        self._Forget()

    def TakeDown(self) -> None:
        self.Leave()
        if self.disk == CONSISTENT:
            self.disk = UPTODATE
        self._Forget()

    def BringUp(self) -> None:
        self.assembled = True
        if self.disk == UPTODATE:
            # The other half may be newer.
            self.disk = CONSISTENT

    def Leave(self) -> None:
        """Disconnect at once, as ``disconnect --force`` does; the other half notices if the link is there."""
        if self.link == CONNECTED:
            other = self.other
            self.Lose(STANDALONE)
            if other.link == CONNECTED and self.kernel.IsUp():
                other.Lose(CONNECTING)
        self.link = STANDALONE

    def Lose(self, link: str) -> None:
        """The other half is gone."""
        could_take_over = self.peer_disk in (UPTODATE, CONSISTENT)
        self.link, self.sync, self.noticed_at = link, "", None
        if not self.primary:
            return
        if (self.fencing and could_take_over) or self.disk != UPTODATE:
            self.frozen = True
            self.kernel.world.Note(f"frozen: {self}")
        else:
            self.GoOnAlone()

    def GoOnAlone(self) -> None:
        """Acknowledge what waits, in a generation of its own."""
        self.frozen = False
        if not self.bitmap:
            self.bitmap, self.current = self.current, self.kernel.NewGeneration()
        self.kernel.Acknowledge(self)

    def Promote(self) -> None:
        self.primary = True
        self.crashed = False
        if self.link != CONNECTED:
            self.GoOnAlone()

    def Write(self, number: int) -> None:
        self.data.add(number)
        self.pending.append(number)
        if self.link == CONNECTED:
            self.kernel.Replicate(self)
        else:
            self.kernel.Acknowledge(self)


class Kernel(GuestDisk):
    """Both halves and the link between them; at the same time the disk that a guest writes to.

    ``acknowledged``: writes that a guest was told of; ``given_up``: those that an administrator accepted to lose.
    """

    def __init__(self, world: World, hosts: list[Host]):
        super().__init__()
        self.world = world
        self.halves = [Half(self, host) for host in hosts]
        self.acknowledged: set[int] = set()
        self.given_up: set[int] = set()
        # One direction in which nothing passes, as the host that is not heard.
        self.unheard: Host | None = None
        self.minors: dict[str, int] = {}
        # Whether the configuration says that the half on a host does not count.
        self.recorded: Callable[[Host], bool] = lambda host: True
        self._generation = 1
        self._sync_ends = 0.0

    def HalfOf(self, host: Host) -> Half:
        return next(half for half in self.halves if half.host is host)

    def Other(self, half: Half) -> Half:
        first, second = self.halves
        return second if half is first else first

    def NewGeneration(self) -> int:
        self._generation += 1
        return self._generation

    def IsUp(self) -> bool:
        """Whether packets pass both ways."""
        first, second = (half.host for half in self.halves)
        return (
            first.on and second.on and self.world.Reaches(first.name, second.name)
            and self.unheard is None and all(half.assembled for half in self.halves)
        )  # fmt: skip

    def Acknowledge(self, half: Half) -> None:
        if set(half.pending) - half.other.data and not self.recorded(half.other.host):
            raise Violation(f"writes are acknowledged by one half, and nothing is recorded of the other: {self.halves}")
        self.acknowledged.update(half.pending)
        half.pending.clear()

    def Replicate(self, half: Half) -> None:
        """Send what waits; it is acknowledged if the answers come back."""
        other = half.other
        reaches = self.world.Reaches(half.host.name, other.host.name) and self.unheard is not half.host
        if other.link == CONNECTED and other.host.on and reaches:
            other.data.update(half.pending)
            if self.unheard is not other.host:
                self.Acknowledge(half)

    # --- a guest's disk -----------------------------------------------------------------------------------------------

    def Known(self, host: Host) -> int:
        lost = self.acknowledged - self.given_up - self.HalfOf(host).data
        if lost:
            raise Violation(f"a guest starts on {host} without {len(lost)} acknowledged writes: {self.halves}")
        return 0

    def Write(self, process: Qemu) -> None:
        half = self.HalfOf(process.host)
        if not half.primary:
            raise Violation(f"{process} writes to a half that is not open: {half}")
        lost = self.acknowledged - self.given_up - half.data
        if lost:
            raise Violation(f"{process} runs on data without {len(lost)} acknowledged writes: {self.halves}")
        if half.frozen or half.pending or not self.world.Chance(0.5):
            return
        self.writes += 1
        half.Write(self.writes)

    # --- time ---------------------------------------------------------------------------------------------------------

    def Advance(self) -> None:
        """Notice what has been lost, connect what can be, end resyncs that have lasted."""
        up = self.IsUp()
        for half in self.halves:
            if half.link == CONNECTED and not (up and half.other.link == CONNECTED):
                if half.noticed_at is None:
                    half.noticed_at = self.world.now + self.world.rng.choice((0.6, 2.0, 10.0))
                elif self.world.now >= half.noticed_at:
                    half.Lose(CONNECTING)
            else:
                half.noticed_at = None
        first, second = self.halves
        if up and first.link == second.link == CONNECTED:
            for half in self.halves:
                self.Replicate(half)
            if first.sync and self.world.now >= self._sync_ends:
                self._EndSync(first if first.sync == SOURCE else second)
        if up and first.link == second.link == CONNECTING:
            self._Handshake()

    def _Handshake(self) -> None:
        first, second = self.halves
        source = self._Judge()
        refused = first.primary and second.primary and not (first.dual and second.dual)
        if source is not None:
            overwrites = source.other.primary and source.other.disk == UPTODATE
            refused = refused or source.disk == INCONSISTENT or overwrites
        if refused or self._Parted():
            self.world.Note(f"the halves do not connect: {self.halves}")
            first.link = second.link = STANDALONE
            return
        for half in self.halves:
            half.link, half.noticed_at = CONNECTED, None
        if source is not None:
            self._BeginSync(source)
        elif INCONSISTENT not in (first.disk, second.disk):
            first.disk = second.disk = UPTODATE
        for half in self.halves:
            half.peer_disk = half.other.disk
            half.frozen = False
            half.discard = False
        self.world.Note(f"connected: {self.halves}")

    def _Parted(self) -> bool:
        """Whether both halves have gone ways of their own, and nobody has said which one is given up."""
        first, second = self.halves
        return self._Relation() == "split" and not (first.discard or second.discard)

    def _Relation(self) -> str:
        first, second = self.halves
        if first.current == second.current:
            return "equal"
        if first.bitmap == second.current or second.current in first.history:
            return "first"
        if second.bitmap == first.current or first.current in second.history:
            return "second"
        return "split"

    def _Judge(self) -> Half | None:
        """Return the half that fills the other one; None if there is nothing to fill."""
        first, second = self.halves
        relation = self._Relation()
        if relation == "split":
            return second if first.discard else first
        if relation == "first":
            return first
        if relation == "second":
            return second
        if first.disk == INCONSISTENT or second.disk == INCONSISTENT:
            return second if first.disk == INCONSISTENT else first
        if first.crashed != second.crashed:
            return first if first.crashed else second
        return None

    def _BeginSync(self, source: Half) -> None:
        target = source.other
        source.sync, target.sync = SOURCE, TARGET
        source.disk, target.disk = UPTODATE, INCONSISTENT
        self._sync_ends = self.world.now + self.world.rng.choice((0.1, 2.0, 20.0))

    def _EndSync(self, source: Half) -> None:
        target = source.other
        target.data = set(source.data)
        target.history |= {target.current, source.bitmap} - {0}
        source.history |= {source.bitmap} - {0}
        target.current, target.bitmap, source.bitmap = source.current, 0, 0
        for half in self.halves:
            half.sync, half.disk, half.peer_disk, half.crashed = "", UPTODATE, UPTODATE, False
        self.world.Note(f"filled: {self.halves}")
