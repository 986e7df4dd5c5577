"""The driver of the half on the host whose daemon runs: the contract of ``storage.base.Mirror``, on a simulated kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulation.migration.qemu import DEVICE, HostOf, SimulatedDisk
from simulation.mirrors.kernel import (
    CONNECTED,
    CONNECTING,
    CONSISTENT,
    DISKLESS,
    INCONSISTENT,
    OUTDATED,
    STANDALONE,
    UPTODATE,
    Half,
    Kernel,
    Storage,
)

from ganeti import constants, errors, objects, runtime
from ganeti.storage.base import BlockDev, DeviceStatus, Mirror, MirrorState

_HANDSHAKE_SECONDS = 15.0
_REJOIN_SECONDS = 15.0


def HalfHere() -> Half:
    host = HostOf()
    kernel = host.world.disk
    assert isinstance(kernel, Kernel)
    return kernel.HalfOf(host)


def StateOf(half: Half) -> MirrorState:
    return MirrorState(
        connected=half.link == CONNECTED and not half.sync,
        standalone=half.link == STANDALONE,
        in_resync=bool(half.sync),
        local_uptodate=half.disk == UPTODATE,
        peer_uptodate=half.link == CONNECTED and half.peer_disk == UPTODATE,
        primary=half.primary,
        frozen=half.frozen,
        incomplete=half.disk in (INCONSISTENT, DISKLESS),
        disk=half.disk,
        sync_percent=50.0 if half.sync else None,
    )


class Volume(BlockDev):
    """A volume of the host whose daemon runs; that with the data counts, the one with metadata is only there."""

    @property
    def _name(self) -> str:
        return str(self.unique_id[1])

    def _Command(self, words: str) -> Half:
        host = HostOf()
        host.world.Step(words, host)
        return HalfHere()

    def Attach(self) -> bool:
        if self._name in HalfHere().volumes:
            self._SetFound(f"/dev/{self.unique_id[0]}/{self._name}")
        else:
            self._SetGone()
        return self.attached

    def _CheckGroup(self, half: Half) -> None:
        if half.pv:
            raise errors.BlockDeviceError(f"Cannot change VG {self.unique_id[0]} while PVs are missing on {half.host}")

    def Create(self, size: int, exclusive: bool = False) -> None:
        half = self._Command("lvcreate")
        self._CheckGroup(half)
        if self._name in half.volumes:
            raise errors.BlockDeviceError(f"volume {self._name} exists already on {half.host}")
        half.volumes[self._name] = None
        self.Attach()

    def Assemble(self) -> None:
        if not self.Attach():
            raise errors.BlockDeviceError(f"volume {self._name} is not there on {HostOf()}")

    def Dimensions(self) -> tuple[int, int | None]:
        return self.disk.size << 20, None

    def Shutdown(self) -> None:
        pass

    def Rename(self, new_id: Sequence[Any]) -> None:
        half = self._Command("lvrename")
        self._CheckGroup(half)
        if str(new_id[1]) in half.volumes:
            raise errors.BlockDeviceError(f"volume {new_id[1]} exists already on {half.host}")
        half.volumes[str(new_id[1])] = half.volumes.pop(self._name)

    def Remove(self) -> None:
        half = self._Command("lvremove")
        storage = half.volumes.get(self._name)
        # The kernel keeps the volume with the metadata open, too.
        used = half.volumes.get(self._name.replace("_meta", "_data"))
        if used is not None and half.assembled and half.storage is used:
            raise errors.BlockDeviceError(f"volume {self._name} is in use on {half.host}")
        if storage is not None:
            half.kernel.CheckNeedless(half, storage)
        half.volumes.pop(self._name, None)
        half.missing.discard(self._name)
        self._SetGone()

    def SetInfo(self, text: str) -> None:
        pass


class MirrorHalf(SimulatedDisk, Mirror):
    """Each command to the kernel is a step."""

    ASSEMBLED_ON_SECONDARY = True

    def _Command(self, words: str) -> Half:
        host = HostOf()
        host.world.Step(f"drbdsetup {words}", host, host.world.rng.choice((0.001, 0.001, 0.2)))
        return HalfHere()

    def Attach(self) -> bool:
        if not HalfHere().assembled:
            self._SetGone()
            return False
        self._SetFound(DEVICE)
        return True

    def Assemble(self) -> None:
        with self.Obeying():
            self._AssembleNow()

    def _AssembleNow(self) -> None:
        half = HalfHere()
        too_old = False
        if not half.assembled:
            half = self._Command("attach")
            half.GiveUpMissing()
            half.storage = self._Storage()
            half.slipped = half.slipped and half.storage is None
            half.BringUp()
            HostOf().assembled = True
            half.kernel.minors[half.host.name] = self.LocalMinor() or 0
        elif half.storage is None and self._Storage() is not None:
            half = self._Command("attach")
            too_old = not self._Takes(half)
            if not too_old:
                self._AttachTo(half)
        self._SetFound(DEVICE)
        self._FollowNow()
        other = self._Other()
        # A migration that was cut off leaves it permitted that both halves are open.
        leftover = half.dual and half.link == CONNECTING
        if half.link != STANDALONE and (leftover or half.other is not other):
            half = self._Command("disconnect")
            half.Leave()
        if other is not None and half.link == STANDALONE:
            half = self._Command("connect")
            self._Connect(half, False)
        if too_old:
            self._WaitToBeFilled(half)
            self._AttachTo(self._Command("attach"))

    def _Takes(self, half: Half) -> bool:
        storage = self._Storage()
        return storage is None or half.Takes(storage.current)

    def _WaitToBeFilled(self, half: Half) -> None:
        deadline = runtime.Monotonic() + _REJOIN_SECONDS
        while half.link != CONNECTED:
            if runtime.Monotonic() > deadline:
                raise errors.BlockDeviceError(f"{half} has older data than its guest has seen")
            runtime.Sleep(1.0)

    def _Storage(self) -> Storage | None:
        """Return what is in this host's volume with the data, if it can be used."""
        half = HalfHere()
        names = [str(child.logical_id[1]) for child in self.disk.children]
        if not names or any(name not in half.volumes or name in half.missing for name in names):
            return None
        storage = half.volumes[names[0]]
        return None if storage is None or not half.IsReadable(storage) else storage

    def _Other(self) -> Half | None:
        """Return the half on the other node; None while it is not said which one that is."""
        values = self.disk.dynamic_params or {}
        if self.unique_id[2] is None or not values.get("remote-ip"):
            return None
        return next(half for half in HalfHere().kernel.everywhere if half.host.address == values["remote-ip"])

    def _AttachTo(self, half: Half) -> None:
        half.storage, half.slipped = self._Storage(), False
        if half.disk == UPTODATE:
            half.disk = CONSISTENT
        if half.link == CONNECTED:
            half.kernel.Compare(half)

    def _Connect(self, half: Half, dual: bool) -> None:
        other = self._Other()
        assert other is not None
        half.PointAt(other)
        half.link, half.dual = CONNECTING, dual
        half.discard = self.Peer() == constants.PEER_AHEAD and not half.primary

    def Create(self, size: int, exclusive: bool = False) -> None:
        half = self._Command("create-md")
        if half.assembled:
            raise errors.BlockDeviceError(f"{half} is in use already")
        half.volumes[str(self.disk.children[0].logical_id[1])] = Storage(INCONSISTENT, 0)

    def Dimensions(self) -> tuple[int, int | None]:
        return self.disk.size << 20, None

    def SetInfo(self, text: str) -> None:
        pass

    def Remove(self) -> None:
        if self.Attach():
            self.Shutdown()

    def AddChildren(self, children: Sequence[BlockDev]) -> None:
        half = self._Command("attach")
        if half.storage is not None:
            raise errors.BlockDeviceError(f"{half} has local storage already")
        with self.Obeying():
            half.volumes[str(children[0].unique_id[1])] = Storage(INCONSISTENT, 0)
            self._AttachTo(half)

    def RemoveChildren(self, children: Sequence[objects.Disk]) -> None:
        with self.Obeying():
            self._Detach()

    def _Detach(self) -> None:
        half = self._Command("detach")
        if half.storage is None:
            return
        if half.primary and not (half.link == CONNECTED and half.peer_disk == UPTODATE):
            raise errors.BlockDeviceError(f"{half}: need access to UpToDate data")
        half.Detach()

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        if self.Peer() != constants.PEER_BEHIND and not force and not HalfHere().primary:
            self._WaitForHandshake()
        with self.Obeying():
            self._OpenNow(exclusive, force)

    def _OpenNow(self, exclusive: bool, force: bool = False) -> None:
        half = HalfHere()
        if not force:
            self._CheckData(half)
        if exclusive and half.link == CONNECTED and half.other.primary:
            raise errors.BlockDeviceError(f"{half} is open on the other side")
        self._FollowNow()
        half = self._Command("primary")
        half.Notice()
        if force and half.disk == INCONSISTENT and not half.current:
            half.disk, half.current = UPTODATE, half.kernel.NewGeneration()
            if half.link == CONNECTED:
                half.kernel.BeginSync(half)
        if half.disk in (INCONSISTENT, DISKLESS) and not (half.link == CONNECTED and half.peer_disk == UPTODATE):
            raise errors.BlockDeviceError(f"{half} is not complete")
        if half.link == CONNECTED and half.other.primary and not (half.dual and half.other.dual):
            raise errors.BlockDeviceError(f"{half}: multiple primaries not allowed")
        if not half.primary:
            if half.link != CONNECTED or (half.disk == OUTDATED and half.peer_disk != UPTODATE):
                half.disk = UPTODATE
            half.Promote()
        HostOf().open.add(DEVICE)

    def _CheckData(self, half: Half) -> None:
        """Open neither what is behind nor what lacks a half that nobody has recorded."""
        if self.Peer() == constants.PEER_AHEAD:
            if half.primary:
                return
            usable = half.disk in (DISKLESS, INCONSISTENT) or (half.disk == UPTODATE and not half.sync)
            if half.link != CONNECTED or half.peer_disk != UPTODATE or not usable:
                raise errors.BlockDeviceError(f"{half} is behind")
            return
        if self.Peer() == constants.PEER_BEHIND and half.disk == DISKLESS:
            raise errors.BlockDeviceError(f"{half} is not complete, and the other side does not count")
        agreed = self.Peer() == constants.PEER_COUNTS and half.link == CONNECTED and not half.sync
        if agreed and not half.disk == half.peer_disk == UPTODATE:
            raise errors.BlockDeviceError(f"{half} is not opened before it is recorded which half counts")

    def _WaitForHandshake(self) -> None:
        deadline = runtime.Monotonic() + _HANDSHAKE_SECONDS
        while HalfHere().link != CONNECTED:
            if runtime.Monotonic() > deadline:
                raise errors.BlockDeviceError(f"{HalfHere()} is not connected, and the other side counts")
            runtime.Sleep(1.0)

    def _MayRelease(self, half: Half) -> bool:
        return self.Peer() == constants.PEER_AHEAD or half.disk != UPTODATE

    def Release(self) -> None:
        with self.Obeying():
            half = self._Command("resume-io")
            if half.frozen and self._MayRelease(half):
                half.storage, half.frozen = None, False
                half.pending.clear()

    def Close(self) -> None:
        half = self._Command("secondary")
        if half.primary:
            self._CheckUnused(half.host)
            if half.pending and self.Peer() != constants.PEER_AHEAD:
                raise errors.BlockDeviceError(f"{half} has requests that wait for the other side")
            half.primary = half.frozen = False
            half.pending.clear()
        HostOf().open.discard(DEVICE)

    def Shutdown(self) -> None:
        self.Close()
        half = self._Command("down")
        half.TakeDown()
        HostOf().assembled = False

    def Follow(self) -> None:
        with self.Obeying():
            self._FollowNow()

    def _FollowNow(self) -> None:
        half = self._Command("disk-options")
        half.fencing = self.Peer() != constants.PEER_BEHIND
        if self.Peer() == constants.PEER_BEHIND and half.frozen and half.disk == UPTODATE:
            half = self._Command("resume-io")
            if half.frozen:
                half.GoOnAlone()
        if self.Peer() == constants.PEER_AHEAD and not half.primary and not half.whole:
            half = self._Command("outdate")
            if half.disk in (UPTODATE, CONSISTENT) and half.link != CONNECTED:
                half.disk = OUTDATED

    @classmethod
    def States(cls) -> dict[int, MirrorState]:
        half = HalfHere()
        return {half.kernel.minors[half.host.name]: StateOf(half)} if half.assembled else {}

    def Status(self) -> DeviceStatus:
        half = HalfHere()
        known = {UPTODATE: constants.LDS_OKAY, DISKLESS: constants.LDS_FAULTY}
        ldisk = constants.LDS_SYNC if half.sync else known.get(half.disk, constants.LDS_UNKNOWN)
        percent, left = (50.0, 1.0) if half.sync else (None, None)
        degraded = not (half.link == CONNECTED and half.disk == UPTODATE)
        return DeviceStatus(
            DEVICE, sync_percent=percent, estimated_time=left, is_degraded=degraded, ldisk_status=ldisk
        )  # fmt: skip

    def Connection(self) -> MirrorState:
        return StateOf(HalfHere())

    def DisconnectNet(self) -> None:
        self._Command("disconnect").Leave()

    def AttachNet(self, multimaster: bool) -> None:
        if HalfHere().link != STANDALONE and HalfHere().other is not self._Other():
            raise errors.BlockDeviceError(f"{HalfHere()} is linked elsewhere")
        with self.Obeying():
            self._FollowNow()
            half = self._Command("net-options")
            if half.link == STANDALONE:
                half = self._Command("connect")
                self._Connect(half, multimaster)
            else:
                self._Permit(half, multimaster)

    def _Permit(self, half: Half, dual: bool) -> None:
        if not half.Permit(dual):
            raise errors.BlockDeviceError(f"{half} and its other side are open")

    def NeedsActivation(self) -> bool:
        half = HalfHere()
        return not half.assembled or half.link == STANDALONE or half.storage is None
