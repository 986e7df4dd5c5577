"""The driver of the half on the host whose daemon runs: the contract of ``storage.base.Mirror``, on a simulated kernel."""

from __future__ import annotations

from simulation.migration.qemu import DEVICE, HostOf, SimulatedDisk
from simulation.mirrors.kernel import (
    CONNECTED,
    CONNECTING,
    CONSISTENT,
    INCONSISTENT,
    OUTDATED,
    STANDALONE,
    UPTODATE,
    Half,
    Kernel,
)

from ganeti import constants, errors, runtime
from ganeti.storage.base import DeviceStatus, Mirror, MirrorState

_HANDSHAKE_SECONDS = 15.0


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
        incomplete=half.disk == INCONSISTENT,
    )


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
        if not half.assembled:
            half = self._Command("attach")
            half.BringUp()
            HostOf().assembled = True
        self._SetFound(DEVICE)
        self._FollowNow()
        if half.link == STANDALONE:
            half = self._Command("connect")
            half.link = CONNECTING
            half.discard = self.Peer() == constants.PEER_AHEAD and not half.primary

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        if self.Peer() != constants.PEER_BEHIND:
            self._WaitForHandshake()
        with self.Obeying():
            self._OpenNow(exclusive)

    def _OpenNow(self, exclusive: bool) -> None:
        half = HalfHere()
        if self.Peer() == constants.PEER_AHEAD and not half.whole:
            raise errors.BlockDeviceError(f"{half} is behind")
        if exclusive and half.link == CONNECTED and half.other.primary:
            raise errors.BlockDeviceError(f"{half} is open on the other side")
        self._FollowNow()
        half = self._Command("primary")
        if half.disk == INCONSISTENT and not half.sync:
            raise errors.BlockDeviceError(f"{half} is not complete")
        if half.link == CONNECTED and half.other.primary and not (half.dual and half.other.dual):
            raise errors.BlockDeviceError(f"{half}: multiple primaries not allowed")
        if not half.primary:
            if half.link != CONNECTED:
                half.disk = UPTODATE
            half.Promote()
        HostOf().open.add(DEVICE)

    def _WaitForHandshake(self) -> None:
        deadline = runtime.Monotonic() + _HANDSHAKE_SECONDS
        while HalfHere().link != CONNECTED:
            if runtime.Monotonic() > deadline:
                raise errors.BlockDeviceError(f"{HalfHere()} is not connected, and the other side counts")
            runtime.Sleep(1.0)

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
        ldisk = constants.LDS_OKAY if half.disk == UPTODATE else constants.LDS_UNKNOWN
        return DeviceStatus(DEVICE, is_degraded=not half.whole, ldisk_status=ldisk)

    def Connection(self) -> MirrorState:
        return StateOf(HalfHere())

    def DisconnectNet(self) -> None:
        self._Command("disconnect").Leave()

    def AttachNet(self, multimaster: bool) -> None:
        with self.Obeying():
            half = self._Command("connect")
            if half.link != STANDALONE:
                raise errors.BlockDeviceError(f"{half} is connected")
            self._FollowNow()
            half.link, half.dual = CONNECTING, multimaster
            half.discard = self.Peer() == constants.PEER_AHEAD and not half.primary

    def NeedsActivation(self) -> bool:
        half = HalfHere()
        return not half.assembled or half.link == STANDALONE
