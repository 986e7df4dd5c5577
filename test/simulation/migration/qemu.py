"""Simulated QEMU: processes with QEMU's run states, transfers between them, and the driver that speaks to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulation.migration.world import Host, Violation, World

from ganeti import errors, objects, runtime
from ganeti.hypervisor import base
from ganeti.params import hv, runstate
from ganeti.storage.base import BlockDev, DeviceStatus, Mirror, MirrorState

_RUNNING, _PAUSED, _ARRIVING = runstate.RUNNING, runstate.PAUSED, runstate.ARRIVING
_LEAVING, _SENT, _ENDED = runstate.LEAVING, runstate.SENT, runstate.ENDED
_NO_ANSWER_SECONDS = 5.0
_ARRIVAL_SECONDS = 30.0
_STALLED_SECONDS = 60.0
DEVICE = "/dev/shared"
_MINORS = 1


def HostOf() -> Host:
    """Return the host whose daemon runs now."""
    host: Host = runtime.CurrentSide().host
    return host


class Qemu:
    """One process.  ``memory``: how many writes to the disk its memory knows."""

    def __init__(self, host: Host, name: str, state: str):
        self.world: World = host.world
        self.host = host
        self.name = name
        self.state = state
        self.pid = self.world.rng.randrange(1000, 1 << 22)
        self.hung = False
        self.autostart = True
        self.memory = -1
        # The same for all copies of a guest that was started once.
        self.boot = self.pid
        self.transfer: Transfer | None = None  # out of here
        self.status = "none"
        self.stops_at: float | None = None
        host.processes[name] = self

    def __repr__(self) -> str:
        return f"{self.name} on {self.host} ({self.state})"

    @property
    def alive(self) -> bool:
        return self.host.processes.get(self.name) is self

    @property
    def runs(self) -> bool:
        return self.state == _RUNNING and not self.hung

    def Run(self) -> None:
        """Become the copy that runs."""
        self.state = _RUNNING
        self.world.current = self

    def Write(self) -> None:
        world = self.world
        if self.stops_at is not None and world.now >= self.stops_at:
            self.Die()
            return
        if world.mirrored and DEVICE not in self.host.open:
            raise Violation(f"{self} writes to a disk that is not open there")
        world.disk.Write(self)

    def Die(self) -> None:
        if self.alive:
            self.world.Note(f"{self} ends")
            del self.host.processes[self.name]


class Transfer:
    """A guest on its way.  The source is ``postmigrate`` as soon as all is handed to the network."""

    def __init__(self, source: Qemu, target: Qemu | None, live: bool):
        world = self.world = source.world
        self.source, self.target = source, target
        self.before = source.state
        self.ends_active = world.now + world.rng.choice((0.02, 0.5, 5.0, 40.0, 40.0))
        self.stop_seconds = world.rng.choice((0.0, 0.05, 0.5)) if live else world.rng.uniform(0.5, 30.0)
        self.flight_seconds = world.rng.choice((0.0, 0.0, 0.2, 3.0))
        self.loads = not world.Chance(0.12)
        self.ends_stop = self.arrives = 0.0
        self.stalled_since: float | None = None
        source.transfer, source.status = self, "active"
        if target is not None:
            target.transfer = self
        world.transfers.append(self)

    def Advance(self) -> None:
        """As far as the time allows."""
        source, target, now = self.source, self.target, self.world.now
        sent = source.status == "completed"
        if not sent:
            if not source.alive:
                self._TargetGivesUp()
                return
            if target is None or not target.alive or source.status != "active":
                self._Fail()
                return
            if self._IsStalled():
                return
            if source.state != _LEAVING and now >= self.ends_active:
                source.state = _LEAVING
                self.ends_stop = now + self.stop_seconds
            if source.state == _LEAVING and now >= self.ends_stop:
                source.state, source.status = _SENT, "completed"
                self.arrives = now + self.flight_seconds
                self.world.Note(f"{source} has sent everything")
        elif target is None or not target.alive:
            self._Over()
        elif now >= self.arrives and not target.hung:
            self._Arrive(target)

    def _IsStalled(self) -> bool:
        source, target = self.source, self.target
        assert target is not None
        stalled = source.hung or target.hung or not self.world.Reaches(source.host.name, target.host.name)
        if not stalled:
            self.stalled_since = None
            return False
        self.stalled_since = self.stalled_since or self.world.now
        if self.world.now - self.stalled_since > _STALLED_SECONDS and not source.hung:
            self._Fail()
        return True

    def _Arrive(self, target: Qemu) -> None:
        self._Over()
        if not self.loads:
            self.world.not_loaded += 1
            self._TargetGivesUp()
            return
        target.memory, target.boot = self.source.memory, self.source.boot
        target.status = "completed"
        target.state = _PAUSED
        if target.autostart:
            # One that was held has not run: the source has the guest as well.
            self.world.current = target
            if self.before == _RUNNING:
                target.Run()
        self.world.Note(f"{target} has arrived")

    def _Fail(self) -> None:
        """The source could not send everything: it goes on."""
        self._Over()
        if self.source.alive:
            self.source.state, self.source.status = self.before, "failed"
            self.world.Note(f"{self.source} could not be sent")
        self._TargetGivesUp()

    def _TargetGivesUp(self) -> None:
        self._Over()
        if self.target is not None and self.target.alive and self.target.state == _ARRIVING:
            self.target.host.load_failed.add(self.target.name)
            self.target.Die()

    def Hurry(self) -> None:
        """All that is left takes no time."""
        self.ends_active = self.ends_stop = self.arrives = 0.0
        self.stop_seconds = self.flight_seconds = 0.0
        for _ in range(2):
            self.Advance()

    def Cancel(self) -> None:
        self.source.status = "cancelled"
        self._Over()
        self.source.state = self.before
        self._TargetGivesUp()

    def _Over(self) -> None:
        if self in self.world.transfers:
            self.world.transfers.remove(self)


class SimulatedDriver(base.Hypervisor):
    """The driver of the host whose daemon runs; each word to QEMU is a step."""

    NAME = "fake"
    CAN_MIGRATE = True

    def _Ask(self, name: str, what: str) -> Qemu:
        """Speak to the process: it must be there and answer."""
        host = HostOf()
        # A busy process takes its time.
        host.world.Step(f"QEMU {what}", host, host.world.rng.choice((0.001, 0.001, 0.001, 0.05, 0.6)))
        process = host.processes.get(name)
        if process is None:
            raise errors.HypervisorError(f"Instance {name} is not running")
        if process.hung:
            host.world.Step("QEMU is silent", host, _NO_ANSWER_SECONDS)
            raise errors.HypervisorError(f"Instance {name}: no answer")
        return process

    def _Find(self, name: str) -> Qemu | None:
        host = HostOf()
        host.world.Step("find process", host)
        return host.processes.get(name)

    def Start(self, instance: objects.Instance, disks: Sequence[base.GuestDisk], paused: bool) -> None:
        if self._Find(instance.name) is not None:
            raise errors.HypervisorError(f"Instance {instance.name}: already running")
        host = HostOf()
        process = Qemu(host, instance.name, _PAUSED)
        process.memory = host.world.disk.Known(host)
        host.world.Note(f"{process} is started")
        process.Run()
        host.world.Step("started", host)

    def Stop(
        self, instance: objects.Instance, force: bool = False, retry: bool = False, timeout: float | None = None
    ) -> None:
        if force:
            self._End(instance.name)
            return
        process = self._Ask(instance.name, "system_powerdown")
        if process.state == _ENDED:
            process.Die()
        elif process.stops_at is None and process.state == _RUNNING:
            process.world.ended(process, process.host.procedure)
            process.stops_at = process.world.now + process.world.rng.uniform(0.5, 40.0)

    def EndNow(self, instance: objects.Instance) -> None:
        self._End(instance.name)

    def _Race(self) -> None:
        """What is decided now may be overtaken: a transfer ends in this moment."""
        world = HostOf().world
        if world.Chance(0.25):
            for transfer in list(world.transfers):
                transfer.Hurry()

    def _End(self, name: str) -> None:
        process = self._Find(name)
        if process is not None:
            self._Race()
            process.world.Step("kill", process.host)
            if process.alive:
                process.world.ended(process, process.host.procedure)
                process.Die()
            process.world.Step("killed", process.host)

    def Cleanup(self, instance_name: str) -> None:
        if self._Find(instance_name) is not None:
            raise errors.HypervisorError(f"Instance {instance_name} is still running; its files stay")

    def Reboot(self, instance: objects.Instance) -> None:
        self._Ask(instance.name, "reboot")

    def Exists(self, instance_name: str) -> bool:
        return self._Find(instance_name) is not None

    def Info(self, instance_name: str, hvparams: base.HvParams | None = None) -> base.GuestInfo | None:
        found = [info for info in self.AllInfo() if info.name == instance_name]
        return found[0] if found else None

    def AllInfo(self, hvparams: base.HvParams | None = None) -> list[base.GuestInfo]:
        host = HostOf()
        host.world.Step("ask all", host)
        states = {name: runstate.UNRESPONSIVE if p.hung else p.state for name, p in host.processes.items()}
        return [base.GuestInfo(name, 1, 128, 1, run_state=state) for name, state in states.items()]

    def Look(self, instance_name: str) -> base.Look:
        process = self._Find(instance_name)
        if process is None:
            return base.Look(runstate.GONE, load_failed=instance_name in HostOf().load_failed)
        if process.hung:
            process.world.Step("QEMU is silent", process.host, _NO_ANSWER_SECONDS)
            return base.Look(runstate.UNRESPONSIVE, process.pid)
        return base.Look(process.state, process.pid, process.state != _ARRIVING and process.status == "active")

    def Balloon(self, instance: objects.Instance, memory: int) -> None:
        self._Ask(instance.name, "balloon")

    def Console(self, instance: objects.Instance, node_name: str, ssh_port: int) -> base.Console:
        return base.Console(instance.name, base.CONSOLE_MESSAGE, message="none")

    # Migration

    def MigrationInfo(self, instance: objects.Instance) -> str | None:
        self._Ask(instance.name, "info")
        return "runtime"

    def Accept(
        self, instance: objects.Instance, info: str | None, target: str, disks: Sequence[base.GuestDisk]
    ) -> None:
        host = HostOf()
        if self._Find(instance.name) is not None:
            raise errors.HypervisorError(f"Instance {instance.name}: already running")
        host.load_failed.discard(instance.name)  # its log is empty
        process = Qemu(host, instance.name, _ARRIVING)
        host.world.Note(f"{process} waits")
        host.world.Step("waits", host)

    def Migrate(self, cluster_name: str, instance: objects.Instance, target: str, live: bool) -> None:
        process = self._Ask(instance.name, "migrate")
        world = process.world
        if process.status == "active":
            raise errors.HypervisorError("a migration is under way")
        if process.state not in (_RUNNING, _PAUSED):
            raise errors.HypervisorError(f"cannot migrate in state {process.state}")
        host = next(host for host in world.hosts.values() if host.address == target)
        waiting = host.processes.get(instance.name)
        usable = waiting is not None and waiting.state == _ARRIVING and waiting.transfer is None
        process.status = "none"
        world.Note(f"{process} is sent to {host}")
        Transfer(process, waiting if usable and world.Reaches(host.name, process.host.name) else None, live)
        world.Step("sending", process.host)

    def MigrationStatus(self, instance: objects.Instance) -> base.MigrationProgress:
        if self._Find(instance.name) is None:
            return base.MigrationProgress(base.MIGRATION_FAILED)
        status = self._Ask(instance.name, "query-migrate").status
        return base.MigrationProgress(base.MIGRATION_FAILED if status == "none" else status, 1, 2)

    def WaitArrived(self, instance: objects.Instance, info: str | None) -> None:
        process = self._Ask(instance.name, "query-status")
        deadline = process.world.now + _ARRIVAL_SECONDS
        while self._Ask(instance.name, "query-status").state == _ARRIVING:
            if process.world.now > deadline:
                raise errors.HypervisorError(f"Instance {instance.name} has not arrived")
            runtime.Sleep(0.5)

    def Hold(self, instance: objects.Instance) -> None:
        if self._Ask(instance.name, "query-status").state != _ARRIVING:
            return
        self._Race()
        process = self._Ask(instance.name, "stop")
        if process.state == _ARRIVING:
            process.autostart = False
        elif process.state == _RUNNING:
            process.state = _PAUSED

    def Resume(self, instance: objects.Instance) -> None:
        process = self._Ask(instance.name, "migrate_cancel")
        if process.status == "active" and process.transfer is not None:
            process.transfer.Cancel()
        process = self._Ask(instance.name, "cont")
        if process.state in (_PAUSED, _SENT, _RUNNING):
            process.Run()
        process.world.Note(f"{process} was let run")

    def NodeInfo(self, hvparams: base.HvParams | None = None) -> dict[str, Any]:
        return {"memory_free": 65536, "memory_total": 65536, "cpu_total": 8, "hv_version": [8, 2, 0]}

    def Verify(self, hvparams: base.HvParams | None = None) -> str | None:
        return None


assert set(SimulatedDriver.PARAMETERS) == set(hv.DEFAULTS["fake"])


class SimulatedDisk(BlockDev):
    """A disk that every host reaches; who has it open stands with the host."""

    def Attach(self) -> bool:
        self._SetFound(None if HostOf().world.by_uri else DEVICE)
        return True

    def UserspaceUri(self, hypervisor: str) -> str | None:
        return "disk://server/disk" if HostOf().world.by_uri else None

    def Assemble(self) -> None:
        self.Attach()

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        host = HostOf()
        host.world.Step("open disk", host)
        host.open.add(DEVICE)

    def Close(self) -> None:
        host = HostOf()
        host.world.Step("close disk", host)
        if host.world.mirrored:
            self._CheckUnused(host)
        host.open.discard(DEVICE)

    def Shutdown(self) -> None:
        self.Close()

    @staticmethod
    def _CheckUnused(host: Host) -> None:
        holders = [process for process in host.processes.values() if process.state in (*runstate.HOLDS, _LEAVING)]
        if holders:
            raise errors.BlockDeviceError(f"{DEVICE} is in use by {holders[0]}")


class SimulatedMirror(SimulatedDisk, Mirror):
    """The same as the two halves of a mirror, always in sync; each must be set up on its host."""

    ASSEMBLED_ON_SECONDARY = True

    def Attach(self) -> bool:
        if not HostOf().assembled:
            self._SetGone()
            return False
        return super().Attach()

    def Assemble(self) -> None:
        host = HostOf()
        host.world.Step("set up disk", host)
        host.assembled = True
        self.Attach()

    def Shutdown(self) -> None:
        self.Close()
        HostOf().assembled = False

    def Status(self) -> DeviceStatus:
        return DeviceStatus(DEVICE)

    def Follow(self) -> None:
        HostOf().world.Step("follow", HostOf())

    @classmethod
    def States(cls) -> dict[int, MirrorState]:
        """Return the state under the number that the disk has on either host."""
        host = HostOf()
        return dict.fromkeys(range(_MINORS), cls._State()) if host.assembled else {}

    @staticmethod
    def _State() -> MirrorState:
        return MirrorState(True, False, False, True, True, primary=DEVICE in HostOf().open)

    def Connection(self) -> MirrorState:
        return self._State()

    def DisconnectNet(self) -> None:
        HostOf().world.Step("disconnect", HostOf())

    def AttachNet(self, multimaster: bool) -> None:
        HostOf().world.Step("connect", HostOf())

    def NeedsActivation(self) -> bool:
        return False
