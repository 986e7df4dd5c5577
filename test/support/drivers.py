"""Fake drivers of simulated nodes: mirrors that are not always in sync, guests that can be changed while they run."""

from __future__ import annotations

import dataclasses
from typing import Any

from ganeti import constants, objects, pathutils, runtime, serializer
from ganeti.hypervisor import base, fake
from ganeti.storage.base import DeviceStatus, MirrorState
from ganeti.storage.drivers import fake as disks

# Disks in files need no fake.
STORAGE = {
    template: driver
    for template, driver in disks.DRIVERS.items()
    if template not in (constants.DT_FILE, constants.DT_SHARED_FILE)
} | {constants.DT_DRBD8: "support.drivers:Mirror"}
# Nor do volumes where there is LVM.
ON_LVM = {template: driver for template, driver in STORAGE.items() if template != constants.DT_PLAIN}


def _MirrorStates() -> str:
    return f"{pathutils.RUN_EXT_DIR}/mirror-states"


def _UserDown(name: str) -> str:
    return f"{pathutils.RUN_EXT_DIR}/user-down-{name}"


def _Stubborn(name: str) -> str:
    return f"{pathutils.RUN_EXT_DIR}/stubborn-{name}"


def KeepMemory(name: str) -> None:
    """On the calling machine: the guest has no balloon driver."""
    runtime.WriteFile(_Stubborn(name), b"", sync=False)


def GiveMemory(name: str) -> None:
    """On the calling machine: the guest has one again."""
    runtime.RemoveFile(_Stubborn(name))


def _Untouched() -> str:
    return f"{pathutils.RUN_EXT_DIR}/memory-untouched"


def TouchLate() -> None:
    """On the calling machine: its guests have not touched their memory yet, so the system counts it as free."""
    runtime.WriteFile(_Untouched(), b"", sync=False)


def _MigrationsFail() -> str:
    return f"{pathutils.RUN_EXT_DIR}/migrations-fail"


def _Version() -> str:
    return f"{pathutils.RUN_EXT_DIR}/hypervisor-version"


def FailMigrations() -> None:
    """On the calling machine: nothing is sent from now on."""
    runtime.WriteFile(_MigrationsFail(), b"", sync=False)


def SetVersion(version: str) -> None:
    """On the calling machine: the hypervisor's version."""
    runtime.WriteFile(_Version(), version, sync=False)


def SetMirrors(states: list[dict[str, Any]]) -> None:
    """On the calling machine: each look at a mirror takes one of these; the last one stays."""
    runtime.WriteFile(_MirrorStates(), serializer.DumpBytes(states), sync=False)


def ShutDownByUser(name: str) -> None:
    """On the calling machine: the guest's own user has stopped it."""
    runtime.WriteFile(_UserDown(name), b"", sync=False)


def _LinkCut() -> str:
    return f"{pathutils.RUN_EXT_DIR}/replication-cut"


def CutLink(cut: bool) -> None:
    """On the calling machine: cut the link of its mirrors, or mend it."""
    if cut:
        runtime.WriteFile(_LinkCut(), b"", sync=False)
    else:
        runtime.RemoveFile(_LinkCut())


def _OtherDiskFailed() -> str:
    return f"{pathutils.RUN_EXT_DIR}/other-disk-failed"


def FailOtherDisk(failed: bool) -> None:
    """On the calling machine: take away the disks of the other sides of its mirrors, which stay connected; or give them back."""
    if failed:
        runtime.WriteFile(_OtherDiskFailed(), b"", sync=False)
    else:
        runtime.RemoveFile(_OtherDiskFailed())


def HangPath() -> str:
    """While this file exists, what makes mirrors obey does not end."""
    return f"{pathutils.RUN_EXT_DIR}/mirrors-hang"


def _Stranger() -> str:
    return f"{pathutils.RUN_EXT_DIR}/stranger"


def SetStranger(text: str | None) -> None:
    """On the calling machine: its mirrors' numbers belong to another device, or to them again."""
    if text is None:
        runtime.RemoveFile(_Stranger())
    else:
        runtime.WriteFile(_Stranger(), text, sync=False)


class Mirror(disks.FakeMirror):
    """A mirror whose status the test decides, with a link that may be cut, and whose number may be another device's.

    What the master said of the other side last is ``fencing``: as long as it counts, a cut link freezes the open side.
    """

    def Assemble(self) -> None:
        super().Assemble()
        self.Follow()

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        if runtime.Exists(_LinkCut()):
            self._Note(link="connecting")
        super().Open(force, exclusive)

    def Follow(self) -> None:
        while runtime.Exists(HangPath()):
            runtime.Sleep(0.2)
        super().Follow()
        self._Note(fencing=self.Peer() == constants.PEER_COUNTS, outdated=self.Peer() == constants.PEER_AHEAD)

    def Attach(self) -> bool:
        if self.Stranger() is not None:
            self._SetGone()
            return False
        return super().Attach()

    def Stranger(self) -> str | None:
        return runtime.ReadText(_Stranger(), 1000) if runtime.Exists(_Stranger()) else None

    def Connection(self) -> MirrorState:
        return _Frozen(self.State())

    @classmethod
    def States(cls) -> dict[int, MirrorState]:
        return {state["minor"]: _Frozen(state) for state in cls.Records() if state.get("assembled")}

    def Status(self) -> DeviceStatus:
        status = super().Status()
        if not runtime.Exists(_MirrorStates()):
            return status
        state, *rest = serializer.Load(runtime.ReadFile(_MirrorStates()))
        if rest:
            SetMirrors(rest)
        return dataclasses.replace(status, **state)


def _Frozen(state: dict[str, Any]) -> MirrorState:
    """The state of a side whose link is cut, or is not."""
    cut = runtime.Exists(_LinkCut()) and state.get("link") != "standalone"
    seen = disks.ConnectionOf({**state, "link": "connecting"} if cut else state)
    return dataclasses.replace(
        seen,
        standalone=state.get("link") == "standalone",
        peer_uptodate=seen.peer_uptodate and not runtime.Exists(_OtherDiskFailed()),
        frozen=bool(cut and state.get("open") and state["fencing"]),
    )


class Guests(fake.FakeHypervisor):
    """Takes every change of a running guest, sees when its user has stopped it, and may fail to send it."""

    def Info(self, instance_name: str, hvparams: base.HvParams | None = None) -> base.GuestInfo | None:
        if runtime.Exists(_UserDown(instance_name)):
            return base.GuestInfo(instance_name, 0, 0, 1, constants.INST_USER_SHUTDOWN)
        return super().Info(instance_name, hvparams)

    def Stop(
        self, instance: objects.Instance, force: bool = False, retry: bool = False, timeout: float | None = None
    ) -> None:
        super().Stop(instance, force, retry, timeout)
        runtime.RemoveFile(_UserDown(instance.name))

    def Balloon(self, instance: objects.Instance, memory: int) -> None:
        if not runtime.Exists(_Stubborn(instance.name)):
            super().Balloon(instance, memory)

    def Migrate(self, cluster_name: str, instance: objects.Instance, target: str, live: bool) -> None:
        if not runtime.Exists(_MigrationsFail()):
            super().Migrate(cluster_name, instance, target, live)

    def NodeInfo(self, hvparams: base.HvParams | None = None) -> dict[str, Any]:
        version = runtime.ReadText(_Version(), 100) if runtime.Exists(_Version()) else "8.2"
        info = {**super().NodeInfo(hvparams), "hv_version": version}
        if runtime.Exists(_Untouched()):
            info["memory_free"] += sum(guest.memory for guest in self.AllInfo())
        return info

    def HotplugSupported(self, instance: objects.Instance) -> None:
        self._CheckRuns(instance)
