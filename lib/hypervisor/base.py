"""The contract of a hypervisor driver.

A driver holds no state between calls: every call is served by another process.  What it must remember stands in
files below RUN.  Rules for every driver

* Every failure is ``errors.HypervisorError``; its text names the guest, what happened and what to do.
* Memory is MiB, times are seconds.
* ``instance`` carries filled ``hvparams``, ``beparams`` and NIC parameters (doc/reference/noderpc.md 3.1, INST).
* Looking (``List Exists Info AllInfo Look NodeInfo Verify ValidateParameters MigrationInfo MigrationStatus``) changes
  nothing.
* Every wait has an end.  ``List`` and ``Exists`` do not wait; ``AllInfo`` waits for all guests at once.
* Ending a guest by force needs no answer from it.
"""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ganeti import constants, errors, objects, runtime
from ganeti.hypervisor import linux, nodechecks
from ganeti.params import hv, runstate

HvParams = Mapping[str, Any]

MIGRATION_ACTIVE = "active"
MIGRATION_COMPLETED = "completed"
MIGRATION_FAILED = "failed"
MIGRATION_CANCELLED = "cancelled"

HOTPLUG_DISK = "disk"
HOTPLUG_NIC = "nic"


@dataclasses.dataclass(frozen=True)
class GuestInfo:
    """One guest of this node."""

    name: str
    ident: int
    memory: int
    vcpus: int
    state: int = constants.INST_RUNNING
    cpu_time: float = 0.0
    run_state: str = runstate.RUNNING


@dataclasses.dataclass(frozen=True)
class Look:
    """The state of a guest's process (doc/design-migration.rst).

    ``sending``: a transfer to another node is under way.  ``load_failed``: the process is gone, and it said that what
    it received could not be loaded.
    """

    state: str
    ident: int = 0
    sending: bool = False
    load_failed: bool = False


@dataclasses.dataclass(frozen=True)
class GuestDisk:
    """One disk as it is handed to a hypervisor: the object, the link to its device, and a URI if there is one."""

    disk: objects.Disk
    path: str
    uri: str | None = None


@dataclasses.dataclass(frozen=True)
class MigrationProgress:
    """How far a migration is, seen from its source; the RAM counts are bytes."""

    status: str
    transferred_ram: int | None = None
    total_ram: int | None = None
    postcopy_status: str | None = None

    def ToDict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


CONSOLE_MESSAGE = "msg"
CONSOLE_SSH = "ssh"
CONSOLE_VNC = "vnc"
CONSOLE_SPICE = "spice"


@dataclasses.dataclass(frozen=True)
class Console:
    """How an administrator reaches a guest's console (doc/reference/noderpc.md 3.5); None: does not apply."""

    instance: str
    kind: str
    message: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    command: Sequence[str] | None = None
    display: int | None = None

    def ToDict(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items() if v is not None}


class NotEnded(errors.HypervisorError):
    """A guest was killed, and its process is still there: it probably waits for a disk."""


class Hypervisor(abc.ABC):
    """One kind of hypervisor on this node."""

    NAME: ClassVar[str] = ""
    CAN_MIGRATE: ClassVar[bool] = False
    # The names of its parameters, from the table in params.hv.
    PARAMETERS: ClassVar[Sequence[str]] = ()

    def __init_subclass__(cls) -> None:
        cls.PARAMETERS = tuple(hv.TABLES.get(cls.NAME, ()))

    @classmethod
    def CheckParamSyntax(cls, hvparams: HvParams) -> None:
        """Raise HypervisorError for wrong names and values, as far as that needs no node."""
        problems = hv.SyntaxProblems(cls.NAME, hvparams)
        if problems:
            raise errors.HypervisorError(f"Hypervisor {cls.NAME}: {'; '.join(problems)}")

    # --- guests -------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def Start(self, instance: objects.Instance, disks: Sequence[GuestDisk], paused: bool) -> None:
        """Start the guest; ``paused``: it waits for an administrator before its first instruction.

        A guest that runs already is an error.  A failure leaves nothing running.
        """

    @abc.abstractmethod
    def Stop(
        self, instance: objects.Instance, force: bool = False, retry: bool = False, timeout: float | None = None
    ) -> None:
        """Ask the guest to stop, or end it with ``force``.

        Without ``force`` it does not wait for the guest; the caller looks at ``Info`` and calls again with ``retry``.
        ``timeout`` limits one call.  A guest that does not run is not an error.
        """

    @abc.abstractmethod
    def Cleanup(self, instance_name: str) -> None:
        """Remove what a stopped guest left behind; may be repeated."""

    @abc.abstractmethod
    def Reboot(self, instance: objects.Instance) -> None:
        """Restart the guest with the virtual hardware it has."""

    def List(self, hvparams: HvParams | None = None) -> list[str]:
        """Return the names of the guests, sorted, with those that their users have stopped."""
        return [info.name for info in self.AllInfo(hvparams)]

    @abc.abstractmethod
    def Info(self, instance_name: str, hvparams: HvParams | None = None) -> GuestInfo | None:
        """Return one guest; None when it is not here."""

    @abc.abstractmethod
    def AllInfo(self, hvparams: HvParams | None = None) -> list[GuestInfo]:
        """Return all guests, sorted by name."""

    def Exists(self, instance_name: str) -> bool:
        """Return whether the guest is here, without asking it."""
        return self.Info(instance_name) is not None

    def Look(self, instance_name: str) -> Look:
        """Return what the guest's process is doing now."""
        info = self.Info(instance_name)
        return Look(runstate.GONE) if info is None else Look(info.run_state, info.ident)

    @abc.abstractmethod
    def Balloon(self, instance: objects.Instance, memory: int) -> None:
        """Give the running guest ``memory`` MiB."""

    @abc.abstractmethod
    def Console(self, instance: objects.Instance, node_name: str, ssh_port: int) -> Console:
        """Return how to reach the guest's console from another machine; ``hvparams`` are filled."""

    # --- migration ----------------------------------------------------------------------------------------------------

    def MigrationInfo(self, instance: objects.Instance) -> str | None:
        """Return what the target needs to know besides the configuration; opaque to everybody else."""
        self._CheckCanMigrate(instance)
        return None

    @abc.abstractmethod
    def Accept(self, instance: objects.Instance, info: str | None, target: str, disks: Sequence[GuestDisk]) -> None:
        """Target: waits for the guest to arrive at address ``target``.  ``disks`` are what this node reaches now.

        The guest is built from ``instance``; ``info`` was made by another node and is not trusted.
        """

    @abc.abstractmethod
    def Migrate(self, cluster_name: str, instance: objects.Instance, target: str, live: bool) -> None:
        """Source: starts sending the guest to ``target``; returns at once if the hypervisor can do that."""

    @abc.abstractmethod
    def MigrationStatus(self, instance: objects.Instance) -> MigrationProgress:
        """Source: how far it is.  Call it about once a second: a driver may use it to push the migration on."""

    @abc.abstractmethod
    def WaitArrived(self, instance: objects.Instance, info: str | None) -> None:
        """Target: waits for a while until the guest has arrived, then finishes its set-up here; may be repeated."""

    @abc.abstractmethod
    def Hold(self, instance: objects.Instance) -> None:
        """Target: a guest that is still arriving (``inmigrate``) will not run by itself when it has arrived."""

    @abc.abstractmethod
    def Resume(self, instance: objects.Instance) -> None:
        """Resume a copy that was sent or paused.  A transfer under way is cancelled first.

        The caller knows that no other copy runs or will run.
        """

    def EndNow(self, instance: objects.Instance) -> None:
        """End the process at once; what it has not written yet is lost.  Its files stay until ``Cleanup``."""
        self.Stop(instance, force=True)

    # --- running guests change ----------------------------------------------------------------------------------------

    def HotplugSupported(self, instance: objects.Instance) -> None:
        """Raise HotplugError unless devices of this running guest can be changed."""
        raise errors.HotplugError(f"Hypervisor {self.NAME} cannot change devices of a running instance")

    def HotAdd(
        self, instance: objects.Instance, kind: str, device: objects.Disk | objects.NIC, extra: Any, seq: int
    ) -> None:
        """Plug a disk (``extra``: [link, uri]) or NIC in as number ``seq``."""
        self.HotplugSupported(instance)

    def HotRemove(
        self, instance: objects.Instance, kind: str, device: objects.Disk | objects.NIC, seq: int
    ) -> dict[str, Any]:
        """Pull a device out; return how it was plugged, so that it can be put back at the same place."""
        self.HotplugSupported(instance)
        return {}

    def HotModify(
        self, instance: objects.Instance, kind: str, device: objects.Disk | objects.NIC, extra: Any, seq: int
    ) -> None:
        """Change a plugged device in place, or as removal and addition at the same place."""
        self.HotplugSupported(instance)

    def ResizeDisk(self, instance: objects.Instance, disk: objects.Disk, new_size: int) -> None:
        """Notify the running guest that the disk now has ``new_size`` bytes."""
        self.HotplugSupported(instance)

    # --- the node -----------------------------------------------------------------------------------------------------

    def NodeInfo(self, hvparams: HvParams | None = None) -> dict[str, Any]:
        """Memory and processors of this node (doc/reference/drivers.md b.1)."""
        return linux.NodeInfo()

    @abc.abstractmethod
    def Verify(self, hvparams: HvParams | None = None) -> str | None:
        """Return what is wrong with this node for this hypervisor; None when nothing is."""

    def ValidateParameters(self, hvparams: HvParams) -> None:
        """Check filled parameters against this node: files, users, and what the driver adds, such as machine types."""
        problems = nodechecks.Problems(self.NAME, hvparams)
        if problems:
            raise errors.HypervisorError("; ".join(problems))

    def Powercycle(self, hvparams: HvParams | None = None) -> None:
        """Reset this node at once, without a clean shutdown (doc/reference/interfaces.md g.5).

        The kernel is asked directly first: a program would have to be read from a disk that may be what is broken.
        """
        try:
            trigger = runtime.OpenDevice("/proc/sysrq-trigger")
            os.write(trigger.fileno(), b"b")
        except OSError:
            runtime.RunCmd(["reboot", "-n", "-f"], timeout=60)

    # --- for drivers --------------------------------------------------------------------------------------------------

    def _CheckCanMigrate(self, instance: objects.Instance) -> None:
        if not self.CAN_MIGRATE:
            raise errors.HypervisorError(f"Hypervisor {self.NAME} cannot migrate instance {instance.name}")


def StartMemory(instance: objects.Instance, memory_free: int) -> int:
    """MiB an instance starts with: as much of its range as the node has free."""
    lowest, highest = instance.beparams["minmem"], instance.beparams["maxmem"]
    return max(int(lowest), min(int(highest), memory_free))
