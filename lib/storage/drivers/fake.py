"""Disks that obey the contract and need nothing but files: for simulations, demonstrations and the contract's test.

Each layer is a sparse file with its content and a small record beside it, both below DATA/ext/fake-storage, so they
survive a restart of the machine; what is assembled is noted below RUN/ext and does not.  ``DRIVERS`` covers every
template; put it in force with ``storage.UseDrivers(fake.DRIVERS)``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, objects, pathutils, runtime, serializer
from ganeti.storage.base import BLOCK_BYTES, BlockDev, DeviceStatus, Mirror, MirrorState
from ganeti.storage.drivers.file import GrowFile

DRIVERS = {
    template: "fake:FakeDevice" for template in constants.DISK_TEMPLATES if template != constants.DT_DISKLESS
} | {
    constants.DT_PLAIN: "fake:FakeVolume",
    constants.DT_DRBD8: "fake:FakeMirror",
}

_RECORD_LIMIT = 64 * 1024


def _DataDir() -> str:
    return posixpath.join(pathutils.DATA_EXT_DIR, "fake-storage")


def _StateDir() -> str:
    return posixpath.join(pathutils.RUN_EXT_DIR, "fake-storage")


class FakeDevice(BlockDev):
    """A file behind any logical id."""

    def Attach(self) -> bool:
        self._SetGone()
        if not runtime.Exists(self._DataPath()):
            return False
        self._SetFound(self._DataPath())
        return True

    def Dimensions(self) -> tuple[int, int | None]:
        return runtime.Stat(self._Path()).st_size, None

    def Create(self, size: int, exclusive: bool = False) -> None:
        try:
            runtime.MakeDirs(_DataDir())
            runtime.CreateFile(self._DataPath(), size * BLOCK_BYTES)
        except FileExistsError as err:
            raise errors.BlockDeviceError(f"{self}: exists already; it is left as it is") from err
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: cannot be created: {err}") from err

    def Assemble(self) -> None:
        if not self.Attach():
            raise errors.BlockDeviceError(f"{self}: does not exist on this node")
        self._Note(assembled=True)

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        self._Path()
        self._Note(open=True)

    def Close(self) -> None:
        self._Note(open=False)

    def Shutdown(self) -> None:
        runtime.RemoveFile(self._StatePath())

    def Remove(self) -> None:
        self.Shutdown()
        runtime.RemoveFile(self._InfoPath())
        runtime.RemoveFile(self._DataPath())
        self._SetGone()

    def Rename(self, new_id: Sequence[Any]) -> None:
        renamed = type(self)(self.disk.Replace(logical_id=list(new_id)))
        if renamed._DataPath() == self._DataPath():
            return
        if runtime.Exists(renamed._DataPath()):
            raise errors.BlockDeviceError(f"{self}: cannot be renamed, {renamed} exists already")
        if not runtime.Exists(self._DataPath()):
            raise errors.BlockDeviceError(f"{self}: cannot be renamed, it does not exist")
        for old, new in (
            (self._InfoPath(), renamed._InfoPath()),
            (self._StatePath(), renamed._StatePath()),
            (self._DataPath(), renamed._DataPath()),
        ):
            if runtime.Exists(old):
                runtime.Rename(old, new)
        self.disk = renamed.disk
        self.Attach()

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        GrowFile(self, self._Path(), amount, dry_run or not backing_store)

    def Snapshot(self, name: str | None = None, size: int | None = None) -> list[Any]:
        self._Path()
        *front, own = self.unique_id
        target = [*front, name or f"{own}.snap"]
        copy = type(self)(self.disk.Replace(logical_id=target))
        copy.Remove()
        copy.Create(size or self.Dimensions()[0] // BLOCK_BYTES)
        return target

    def SetInfo(self, text: str) -> None:
        if text:
            runtime.WriteFile(self._InfoPath(), serializer.DumpBytes({"info": text}))

    def Info(self) -> str:
        """Return what ``SetInfo`` recorded."""
        if not runtime.Exists(self._InfoPath()):
            return ""
        text: str = serializer.Load(runtime.ReadFile(self._InfoPath(), limit=_RECORD_LIMIT))["info"]
        return text

    def State(self) -> dict[str, Any]:
        """Return what is recorded of the device since the machine started: ``assembled``, ``open``, ``link``."""
        try:
            state: dict[str, Any] = serializer.Load(runtime.ReadFile(self._StatePath(), limit=_RECORD_LIMIT))
        except FileNotFoundError:
            return {}
        return state

    def _Note(self, **changes: Any) -> None:
        state = self.State()
        if any(state.get(key) != value for key, value in changes.items()):
            runtime.MakeDirs(_StateDir())
            runtime.WriteFile(self._StatePath(), serializer.DumpBytes({**state, **changes}), sync=False)

    def _FileName(self) -> str:
        return "%".join([self.disk.dev_type, *(str(part).replace("/", "%") for part in self.unique_id)])

    def _DataPath(self) -> str:
        return posixpath.join(_DataDir(), self._FileName())

    def _InfoPath(self) -> str:
        return posixpath.join(_DataDir(), self._FileName() + ".info")

    def _StatePath(self) -> str:
        return posixpath.join(_StateDir(), self._FileName())


class FakeVolume(FakeDevice):
    """A logical volume: active on every node that holds it."""

    ASSEMBLED_ON_SECONDARY = True
    OPENED_ON_SECONDARY = True


class FakeMirror(FakeDevice, Mirror):
    """A mirror whose other side always has the same data: in sync as soon as it is connected.

    The data is its first child's; without children it is diskless, as a mirror may be.
    """

    def _FileName(self) -> str:
        return f"mirror%{self.disk.uuid}"

    def Attach(self) -> bool:
        self._SetGone()
        state = self.State()
        if not state.get("assembled"):
            return False
        data = self.children[0] if self.children else None
        self._SetFound(data.dev_path if data else None, 147, state.get("minor"))
        return True

    def Dimensions(self) -> tuple[int, int | None]:
        return self._Data().Dimensions()

    def Create(self, size: int, exclusive: bool = False) -> None:
        self._CheckShared(exclusive)
        if self.State():
            raise errors.BlockDeviceError(f"{self}: is in use already")
        if self._Data().Dimensions()[0] < size * BLOCK_BYTES:
            raise errors.BlockDeviceError(f"{self}: its data volume is smaller than {size} MiB")

    def Assemble(self) -> None:
        with self.Obeying():
            if not self.State().get("assembled"):
                disk = bool(self.children and self.children[0])
                self._Note(assembled=True, minor=self.LocalMinor(), link="connected", disk=disk)
        self.Attach()

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        if not self.attached:
            raise errors.BlockDeviceError(f"{self}: not active on this node")
        if self.State().get("link") != "connected" and self.Peer() in (constants.PEER_COUNTS, constants.PEER_AHEAD):
            raise errors.BlockDeviceError(f"{self}: is not connected, and the other side may have newer data")
        with self.Obeying():
            self._Note(open=True)

    def Status(self) -> DeviceStatus:
        state = self.State()
        whole = state.get("link") == "connected" and bool(state.get("disk"))
        ldisk = constants.LDS_OKAY if state.get("disk") else constants.LDS_FAULTY
        return DeviceStatus(self.dev_path, self.major, self.minor, is_degraded=not whole, ldisk_status=ldisk)

    def Connection(self) -> MirrorState:
        return ConnectionOf(self.State())

    def Follow(self) -> None:
        with self.Obeying():
            if self.Peer() == constants.PEER_BEHIND:
                self._Note(frozen=False)

    def Release(self) -> None:
        with self.Obeying():
            state = self.State()
            if state.get("frozen") and (self.Peer() == constants.PEER_AHEAD or not state.get("disk")):
                self._Note(frozen=False, disk=False)

    @classmethod
    def States(cls) -> dict[int, MirrorState]:
        return {state["minor"]: ConnectionOf(state) for state in cls.Records() if state.get("assembled")}

    @classmethod
    def Records(cls) -> list[dict[str, Any]]:
        """Return what is recorded of each mirror of this node."""
        names = sorted(runtime.ListDir(_StateDir()) if runtime.Exists(_StateDir()) else ())
        paths = [posixpath.join(_StateDir(), name) for name in names if name.startswith("mirror%")]
        return [serializer.Load(runtime.ReadFile(path, limit=_RECORD_LIMIT)) for path in paths]

    def DisconnectNet(self) -> None:
        self._Note(link="standalone")

    def AttachNet(self, multimaster: bool) -> None:
        self.Follow()
        self._Note(link="connected")

    def NeedsActivation(self) -> bool:
        state = self.State()
        return not state.get("assembled") or state.get("link") != "connected" or not state.get("disk")

    def AddChildren(self, children: Sequence[BlockDev]) -> None:
        if self.State().get("disk"):
            raise errors.BlockDeviceError(f"{self}: has local storage already")
        self.children = list(children)
        self._Note(disk=True)
        self.Attach()

    def RemoveChildren(self, children: Sequence[objects.Disk]) -> None:
        if not self.State().get("disk"):
            return
        own = [child.unique_id for child in self.children if child is not None]
        if [tuple(child.logical_id) for child in children] != own:
            raise errors.BlockDeviceError(f"{self}: the devices to remove are not its children")
        with self.Obeying():
            self._Note(disk=False)
        self.children = []
        self.Attach()

    def Rename(self, new_id: Sequence[Any]) -> None:
        self._Unsupported("renaming")

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        """Do nothing: the mirror is as large as its data."""

    def SetInfo(self, text: str) -> None:
        """Record the owner on the volumes below."""

    def Remove(self) -> None:
        self.Shutdown()
        self._SetGone()

    def _Data(self) -> BlockDev:
        data = self.children[0] if self.children else None
        if data is None:
            raise errors.BlockDeviceError(f"{self}: has no local data on this node")
        return data


def ConnectionOf(state: dict[str, Any]) -> MirrorState:
    """Return what a mirror's record says."""
    up = state.get("link") == "connected"
    disk = bool(state.get("disk"))
    return MirrorState(
        up,
        not up,
        False,
        disk,
        up,
        primary=bool(state.get("open")),
        frozen=bool(state.get("frozen") and not up),
        incomplete=not disk,
        disk="UpToDate" if disk else "Diskless",
    )
