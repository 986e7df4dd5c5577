"""Halves of a mirror as the kernel keeps them: data, generations, the link, and what freezes (doc/design-drbd.rst).

Each host may have one.  Two of them are connected if each is told that the other one is its peer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulation.migration.world import GuestDisk, Host, Violation, World

if TYPE_CHECKING:
    from simulation.migration.qemu import Qemu

UPTODATE, CONSISTENT, OUTDATED, INCONSISTENT = "UpToDate", "Consistent", "Outdated", "Inconsistent"
DISKLESS = "Diskless"
STANDALONE, CONNECTING, CONNECTED = "StandAlone", "WFConnection", "Connected"
SOURCE, TARGET = "SyncSource", "SyncTarget"


class Storage:
    """What is in a half's volumes: ``data`` is the set of writes, the rest is metadata.

    ``failed``: the disk below can neither be read nor written; ``back_at``: not before then, what it has is still there.
    """

    def __init__(self, disk: str, current: int):
        self.data: set[int] = set()
        self.disk = disk
        # Generations: of the data, of what the other half had when they parted, and older ones.
        self.current, self.bitmap = current, 0
        self.history: set[int] = set()
        self.crashed = False
        self.failed = False
        self.back_at = 0.0


class Half:
    """One half.  What is below ``assembled`` is gone with the power; without ``storage`` it is diskless."""

    def __init__(self, kernel: Kernel, host: Host):
        self.kernel = kernel
        self.host = host
        # By the name of the volume with the data; those that were made and have no metadata yet are None.
        self.volumes: dict[str, Storage | None] = {}
        self.storage: Storage | None = None
        # Detached because the disk below failed, which nobody ordered.
        self.slipped = False
        # The volumes on a physical volume that is away, and whether it is "missing", or "returned" and not taken back.
        self.missing: set[str] = set()
        self.pv = ""
        self.assembled = False
        self._peer: Half | None = None
        self._Forget()
        host.on_power_off.append(self.Crash)

    def _Forget(self) -> None:
        self.assembled = False
        self.primary = self.frozen = self.fencing = self.dual = self.discard = False
        self.link = STANDALONE
        self.peer_disk = ""
        self.sync = ""
        self.pending: list[int] = []
        # Without a disk of its own: the generation that its users have seen; nothing older is attached or connected.
        self.shown = 0
        # When the other half was first missed, and when that is noticed.
        self.noticed_at: float | None = None

    def __repr__(self) -> str:
        role = "primary" if self.primary else "secondary"
        words = [str(self.host), self.disk, self.link, self.sync, role, "frozen" if self.frozen else ""]
        return f"<{' '.join(filter(None, words))} {self.current}/{self.bitmap} {len(self.data)} writes>"

    def __getattr__(self, name: str) -> Any:
        """Return what the volumes hold; nothing without them."""
        if name not in _STORED:
            raise AttributeError(name)
        storage = self.held
        return getattr(_Nothing() if storage is None else storage, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _STORED:
            if self.held is not None:
                setattr(self.held, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def held(self) -> Storage | None:
        """What the half has, or would have if it were set up."""
        if self.assembled:
            return self.storage
        name = self.kernel.data_volume()
        storage = self.volumes.get(name)
        return None if storage is None or not self.IsReadable(storage) or name in self.missing else storage

    def IsReadable(self, storage: Storage) -> bool:
        return not storage.failed and self.kernel.world.now >= storage.back_at

    @property
    def other(self) -> Half:
        """The half that this one is to be connected with, or was the last time."""
        return self._peer or self.kernel.Paired(self)

    @property
    def seen(self) -> set[int]:
        """What somebody reads here: what is missing comes from the other half."""
        return self.data | self.other.data if self.disk != UPTODATE and self.link == CONNECTED else self.data

    def PointAt(self, other: Half) -> None:
        self._peer = other

    @property
    def faces(self) -> bool:
        """Whether the other half is to be connected with this one, too."""
        return self.other.other is self

    def LosePv(self) -> None:
        """The physical volume below is away, which nobody notices before the volumes are used."""
        self.pv, self.missing = "missing", set(self.volumes)

    def Notice(self, chance: float = 1.0) -> None:
        """With this chance something tries to use what is missing: from then on it is left alone, even if it comes back."""
        missing = self.assembled and self.storage is not None and self.kernel.data_volume() in self.missing
        if missing and self.kernel.world.Chance(chance):
            self.GiveUpMissing()
            self.Detach()

    def GiveUpMissing(self) -> None:
        """The physical volume does not come back."""
        for name in self.missing:
            storage = self.volumes.get(name)
            if storage is not None:
                storage.failed = True

    def Slip(self, seconds: float) -> None:
        """The disk below fails for a while; what has it open lets go of it."""
        storage = self.held
        if storage is None:
            return
        storage.back_at = self.kernel.world.now + seconds
        if self.assembled:
            self.Detach()
            self.slipped = True

    def Detach(self) -> None:
        """The volumes are not used any longer, or cannot be."""
        self.shown = self.current if self.primary else 0
        self.storage = None
        self.slipped = False
        if self.link == CONNECTED:
            if self.other.disk == UPTODATE and not self.other.bitmap and (self.primary or self.other.primary):
                self.other.bitmap, self.other.current = self.other.current, self.kernel.NewGeneration()
            self.shown = self.other.current if self.primary else 0
            self.sync = self.other.sync = ""
            self.other.peer_disk = DISKLESS
        elif self.primary:
            self.frozen = True

    def Takes(self, current: int) -> bool:
        """Whether data of this generation may be attached or connected: its users may have seen newer data."""
        alone = self.primary and self.disk == DISKLESS and self.link != CONNECTED
        return not (alone and self.shown) or current == self.shown

    @property
    def whole(self) -> bool:
        """Whether both sides are connected and complete."""
        return self.link == CONNECTED and not self.sync and self.disk == self.peer_disk == UPTODATE

    def Crash(self) -> None:
        """The machine is off."""
        self.Notice()
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

    def Permit(self, dual: bool) -> bool:
        """Change on the link whether both halves may be open, as ``net-options`` does; the other one is told if it is there."""
        other = self.other
        linked = self.link == CONNECTED and other.link == CONNECTED and self.faces
        if not dual and linked and self.primary and other.primary:
            return False
        self.dual = dual
        if linked and self.kernel.IsUp(self):
            other.dual = dual
        return True

    def Leave(self) -> None:
        """Disconnect at once, as ``disconnect --force`` does; the other half notices if the link is there."""
        if self.link == CONNECTED:
            other = self.other
            self.Lose(STANDALONE)
            if other.link == CONNECTED and other.faces and other.other is self and self.kernel.IsUp(self):
                other.Lose(CONNECTING)
        self.link = STANDALONE

    def Lose(self, link: str) -> None:
        """The other half is gone."""
        if self.primary:
            self.Notice()
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
            return
        self.kernel.BeginAlone(self)

    def Write(self, number: int) -> None:
        self.data.add(number)
        self.pending.append(number)
        if self.link == CONNECTED:
            self.kernel.Replicate(self)
        else:
            self.kernel.Acknowledge(self)


_STORED = frozenset(vars(Storage("", 0)))


def _Nothing() -> Storage:
    return Storage(DISKLESS, 0)


class Kernel(GuestDisk):
    """All halves and the links between them; at the same time the disk that a guest writes to.

    ``acknowledged``: writes that a guest was told of; ``given_up``: those that an administrator accepted to lose;
    ``unrecorded``: those that are on one half since the other one slipped, which nobody has recorded yet.  The last may be
    lost if more fails meanwhile: nothing freezes a primary whose disk, or whose peer's disk, fails.
    """

    def __init__(self, world: World, hosts: list[Host]):
        super().__init__()
        self.world = world
        self.everywhere = [Half(self, host) for host in hosts]
        self.acknowledged: set[int] = set()
        self.given_up: set[int] = set()
        self.unrecorded: set[int] = set()
        self._slipped: Half | None = None
        # One direction in which nothing passes, as the host that is not heard.
        self.unheard: Host | None = None
        # How likely a write meets the part of a volume that is away.
        self.touched = 0.02
        self.minors: dict[str, int] = {}
        # The hosts that the configuration names, and whether it says that the side other than a host's does not count.
        self.configured: Callable[[], list[Host]] = lambda: hosts[:2]
        self.data_volume: Callable[[], str] = lambda: ""
        self.recorded: Callable[[Half], bool] = lambda half: True
        self._generation = 1
        self._sync_ends = 0.0

    @property
    def halves(self) -> list[Half]:
        """The two halves that the configuration names."""
        return [self.HalfOf(host) for host in self.configured()]

    def HalfOf(self, host: Host) -> Half:
        return next(half for half in self.everywhere if half.host is host)

    def Paired(self, half: Half) -> Half:
        """Return the other one of the two that the configuration names."""
        first, second = self.halves
        return second if half is first else first

    def NewGeneration(self) -> int:
        self._generation += 1
        return self._generation

    def IsUp(self, half: Half) -> bool:
        """Whether packets pass both ways between a half and the one it faces."""
        first, second = half.host, half.other.host
        return (
            half.faces and first.on and second.on and self.world.Reaches(first.name, second.name)
            and self.unheard is None and half.assembled and half.other.assembled
        )  # fmt: skip

    @property
    def needed(self) -> set[int]:
        """The writes that must be there."""
        return self.acknowledged - self.given_up - self.unrecorded

    def Acknowledge(self, half: Half) -> None:
        if not half.host.processes:
            # Whoever was to be told has ended.
            half.pending.clear()
            return
        other = self.Paired(half)
        for lacking in (half, other):
            seen_by = half.other.data if lacking is other else half.data if half.storage else set()
            if set(half.pending) - seen_by and self._CouldTakeOver(lacking) and not self.recorded(self.Paired(lacking)):
                if not lacking.slipped:
                    raise Violation(
                        f"writes are acknowledged without {lacking}, and that is not recorded: {self.halves}"
                    )
                self.unrecorded.update(half.pending)
                self._slipped = lacking
        self.acknowledged.update(half.pending)
        half.pending.clear()

    def CheckRecord(self, behind: Half) -> None:
        """A half is recorded as behind: the other one must have what was written, as far as anybody can know."""
        kept = self.Paired(behind)
        if kept.pv:
            return
        if self._slipped is behind:
            self.unrecorded.clear()
        lost = self.needed - kept.data
        if lost:
            raise Violation(f"{behind} is recorded as behind, and {kept} lacks {len(lost)} acknowledged writes")

    def _CouldTakeOver(self, half: Half) -> bool:
        """Whether a half may be opened some day: not if its disk failed, or was new and has never been complete."""
        storage = half.volumes.get(self.data_volume())
        return storage is not None and not storage.failed and bool(storage.current)

    def Replicate(self, half: Half) -> None:
        """Send what waits; it is acknowledged if the answers come back."""
        other = half.other
        if half.pending:
            other.Notice(self.touched)
        reaches = self.world.Reaches(half.host.name, other.host.name) and self.unheard is not half.host
        if other.link == CONNECTED and other.host.on and reaches:
            other.data.update(half.pending)
            if self.unheard is not other.host:
                self.Acknowledge(half)

    def CheckNeedless(self, half: Half, storage: Storage) -> None:
        """A volume goes: if its data was complete once, the two halves that the configuration names must be by now."""
        needed = self.needed
        if needed and storage.disk != INCONSISTENT and not storage.failed and storage.current:
            for kept in self.halves:
                missing = kept.disk not in (UPTODATE, CONSISTENT) or needed - kept.data
                if missing and not self.recorded(kept.other):
                    raise Violation(f"a copy on {half.host} is removed, and {kept} is not complete yet: {self.halves}")

    def CheckGivenUp(self, half: Half) -> None:
        """Volumes that might have come back are given up: the other half must be complete."""
        kept = half.other
        if half in self.halves and self.needed - kept.data:
            raise Violation(f"what {half} has is given up, and {kept} is not complete: {self.halves}")

    # --- a guest's disk -----------------------------------------------------------------------------------------------

    def Known(self, host: Host) -> int:
        lost = self.needed - self.HalfOf(host).seen
        if lost:
            raise Violation(f"a guest starts on {host} without {len(lost)} acknowledged writes: {self.halves}")
        return 0

    def Write(self, process: Qemu) -> None:
        half = self.HalfOf(process.host)
        if not half.primary:
            raise Violation(f"{process} writes to a half that is not open: {half}")
        if half.storage is not None and half.storage not in half.volumes.values():
            raise Violation(f"{process} writes to a volume that is not there: {half}")
        half.Notice(self.touched)
        if half.frozen and half.disk != UPTODATE:
            return
        lost = self.needed - half.seen
        if lost:
            raise Violation(f"{process} runs on data without {len(lost)} acknowledged writes: {self.halves}")
        if half.frozen or half.pending or not self.world.Chance(0.5):
            return
        self.writes += 1
        half.Write(self.writes)

    # --- time ---------------------------------------------------------------------------------------------------------

    def Advance(self) -> None:
        """Notice what has been lost, connect what can be, end resyncs that have lasted."""
        for half in self.everywhere:
            if half.link == CONNECTED and not (self.IsUp(half) and half.other.link == CONNECTED):
                if half.noticed_at is None:
                    half.noticed_at = self.world.now + self.world.rng.choice((0.6, 2.0, 10.0))
                elif self.world.now >= half.noticed_at:
                    half.Lose(CONNECTING)
            else:
                half.noticed_at = None
        for first in self.everywhere:
            second = first.other
            if self.everywhere.index(first) > self.everywhere.index(second) or not self.IsUp(first):
                continue
            if first.link == second.link == CONNECTED:
                for half in (first, second):
                    self.Replicate(half)
                if first.sync and self.world.now >= self._sync_ends:
                    self._EndSync(first if first.sync == SOURCE else second)
            elif first.link == second.link == CONNECTING:
                self._Handshake(first, second)

    def _Handshake(self, first: Half, second: Half) -> None:
        for half in (first, second):
            half.Notice()
        source = self._Judge(first, second)
        refused = first.dual != second.dual or (first.primary and second.primary and not first.dual)
        refused = refused or not all(half.Takes(half.other.current) for half in (first, second) if half.other.current)
        if source is not None:
            overwrites = source.other.primary and source.other.disk == UPTODATE
            refused = refused or source.disk == INCONSISTENT or overwrites
        pair = (first, second)
        if refused or self._Parted(first, second):
            self.world.Note(f"the halves do not connect: {pair}")
            first.link = second.link = STANDALONE
            return
        for half in pair:
            half.link, half.noticed_at = CONNECTED, None
        if source is not None:
            self.BeginSync(source)
        elif not {INCONSISTENT, DISKLESS}.intersection((first.disk, second.disk)):
            first.disk = second.disk = UPTODATE
        else:
            for half in pair:
                # Beside a half without a disk it is forgotten that a half was outdated.
                known = (CONSISTENT, OUTDATED) if half.other.disk == DISKLESS else (CONSISTENT,)
                half.disk = UPTODATE if half.disk in known else half.disk
        for half in pair:
            half.peer_disk = half.other.disk
            half.frozen = False
            half.discard = False
        for half in pair:
            if half.primary:
                self.BeginAlone(half)
        self.world.Note(f"connected: {pair}")

    def BeginAlone(self, opened: Half) -> None:
        """What is written on an open half from now on is not on one without a disk: the other one gets a generation of its own."""
        for half in (opened, opened.other):
            if half.other.disk == DISKLESS and half.disk == UPTODATE and not half.bitmap:
                half.bitmap, half.current = half.current, self.NewGeneration()
        opened.shown = opened.other.current if opened.disk == DISKLESS else 0

    def _Parted(self, first: Half, second: Half) -> bool:
        """Whether both halves have gone ways of their own, and nobody has said which one is given up."""
        return _Relation(first, second) == "split" and not (first.discard or second.discard)

    def _Judge(self, first: Half, second: Half) -> Half | None:
        """Return the half that fills the other one; None if there is nothing to fill."""
        if DISKLESS in (first.disk, second.disk):
            return None
        relation = _Relation(first, second)
        if relation == "split":
            return second if first.discard else first
        if relation == "first":
            return first
        if relation == "second":
            return second
        if first.disk == second.disk == INCONSISTENT:
            # Both are new: nothing is in either.
            return None
        if first.disk == INCONSISTENT or second.disk == INCONSISTENT:
            return second if first.disk == INCONSISTENT else first
        if first.crashed != second.crashed:
            return first if first.crashed else second
        return None

    def Compare(self, half: Half) -> None:
        """A half that is connected has a disk again."""
        if self._Parted(half, half.other):
            self.world.Note(f"the halves part: {(half, half.other)}")
            for side in (half, half.other):
                side.Lose(STANDALONE)
            return
        source = self._Judge(half, half.other)
        if source is not None:
            self.BeginSync(source)
        elif half.disk == CONSISTENT and half.other.disk == UPTODATE:
            half.disk = UPTODATE
        for side in (half, half.other):
            side.peer_disk = side.other.disk

    def BeginSync(self, source: Half) -> None:
        target = source.other
        source.sync, target.sync = SOURCE, TARGET
        source.disk, target.disk = UPTODATE, INCONSISTENT
        self._sync_ends = self.world.now + self.world.rng.choice((0.1, 2.0, 20.0))

    def _EndSync(self, source: Half) -> None:
        target = source.other
        for half in (source, target):
            half.Notice()
        if not source.sync:
            return
        target.data = set(source.data)
        target.history = target.history | ({target.current, source.bitmap} - {0})
        source.history = source.history | ({source.bitmap} - {0})
        target.current, target.bitmap, source.bitmap = source.current, 0, 0
        for half in (source, target):
            half.sync, half.disk, half.peer_disk, half.crashed = "", UPTODATE, UPTODATE, False
        self.world.Note(f"filled: {(source, target)}")


def _Relation(first: Half, second: Half) -> str:
    """Return whose data is newer: equal, first, second or split."""
    if first.current == second.current or DISKLESS in (first.disk, second.disk):
        return "equal"
    if not second.current or first.bitmap == second.current or second.current in first.history:
        return "first"
    if not first.current or second.bitmap == first.current or first.current in second.history:
        return "second"
    return "split"
