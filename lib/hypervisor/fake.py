"""A hypervisor whose guests are files: for simulations, tests of the cluster and its first steps (doc/reference/drivers.md b.2).

RUN/fake-hypervisor has one file per guest, with a line each for id, memory and virtual processors, and one for the state
of a guest that does not simply run.  A guest arrives when its target is asked whether it has.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, objects, pathutils, runtime
from ganeti.hypervisor import base, linux, names
from ganeti.params import runstate
from ganeti.utils import owndirs

_RECORD_LIMIT = 4096
# What a machine without /proc (a simulated one) is taken to have.
_SIMULATED_NODE = {
    "memory_total": 65536,
    "memory_free": 65536,
    "memory_dom0": 1024,
    "cpu_total": 16,
    "cpu_dom0": 16,
    "cpu_nodes": 1,
    "cpu_sockets": 1,
}


def _Path(name: str) -> str:
    return posixpath.join(pathutils.FAKE_DIR, names.CheckInstanceName(name))


def FormatRecord(memory: int, vcpus: int, state: str = runstate.RUNNING) -> str:
    more = "" if state == runstate.RUNNING else f"{state}\n"
    return f"0\n{memory}\n{vcpus}\n{more}"


def ParseRecord(name: str, text: str) -> base.GuestInfo:
    ident, memory, vcpus, state, *rest = [*text.split(), "", "", "", ""]
    try:
        if any(rest) or (state and state not in runstate.REPORTED):
            raise ValueError
        info = base.GuestInfo(name, int(ident), int(memory), int(vcpus), run_state=state or runstate.RUNNING)
    except ValueError as err:
        raise errors.HypervisorError(f"Instance {name}: the fake hypervisor's file {_Path(name)} is damaged") from err
    return info


class FakeHypervisor(base.Hypervisor):
    """Starts a guest by writing its file."""

    NAME = constants.HT_FAKE
    CAN_MIGRATE = True

    def Start(self, instance: objects.Instance, disks: Sequence[base.GuestDisk], paused: bool) -> None:
        if self.Info(instance.name) is not None:
            raise errors.HypervisorError(f"Failed to start instance {instance.name}: already running")
        for disk in disks:
            if disk.uri is None and not runtime.Exists(disk.path):
                raise errors.HypervisorError(f"Failed to start instance {instance.name}: no disk at {disk.path}")
        memory = base.StartMemory(instance, self.NodeInfo()["memory_free"])
        self._Write(instance, memory)

    def Stop(
        self, instance: objects.Instance, force: bool = False, retry: bool = False, timeout: float | None = None
    ) -> None:
        runtime.RemoveFile(_Path(instance.name))

    def Cleanup(self, instance_name: str) -> None:
        """Do nothing: ``Stop`` removed the file."""

    def Reboot(self, instance: objects.Instance) -> None:
        self._CheckRuns(instance)

    def Info(self, instance_name: str, hvparams: base.HvParams | None = None) -> base.GuestInfo | None:
        try:
            text = runtime.ReadText(_Path(instance_name), limit=_RECORD_LIMIT)
        except FileNotFoundError:
            return None
        return ParseRecord(instance_name, text)

    def AllInfo(self, hvparams: base.HvParams | None = None) -> list[base.GuestInfo]:
        try:
            found = sorted(runtime.ListDir(pathutils.FAKE_DIR))
        except FileNotFoundError:
            return []
        guests = [self.Info(name) for name in found if not name.startswith(".")]
        return [guest for guest in guests if guest is not None]

    def Balloon(self, instance: objects.Instance, memory: int) -> None:
        self._Write(instance, memory, self._CheckRuns(instance).run_state)

    def Console(self, instance: objects.Instance, node_name: str, ssh_port: int) -> base.Console:
        text = f"Console not available for fake hypervisor; instance {instance.name} is on node {node_name}"
        return base.Console(instance.name, base.CONSOLE_MESSAGE, message=text)

    def Accept(
        self, instance: objects.Instance, info: str | None, target: str, disks: Sequence[base.GuestDisk]
    ) -> None:
        if self.Info(instance.name) is not None:
            raise errors.HypervisorError(f"Cannot accept instance {instance.name}: it is already running here")
        self._Write(instance, base.StartMemory(instance, self.NodeInfo()["memory_free"]), runstate.ARRIVING)

    def Migrate(self, cluster_name: str, instance: objects.Instance, target: str, live: bool) -> None:
        guest = self._CheckRuns(instance)
        if guest.run_state not in runstate.HOLDS:
            raise errors.HypervisorError(f"Instance {instance.name} cannot be sent: its state is {guest.run_state}")
        self._Write(instance, guest.memory, runstate.SENT)

    def MigrationStatus(self, instance: objects.Instance) -> base.MigrationProgress:
        guest = self.Info(instance.name)
        sent = guest is not None and guest.run_state == runstate.SENT
        return base.MigrationProgress(base.MIGRATION_COMPLETED if sent else base.MIGRATION_FAILED)

    def WaitArrived(self, instance: objects.Instance, info: str | None) -> None:
        guest = self._CheckRuns(instance)
        if guest.run_state == runstate.ARRIVING:
            self._Write(instance, guest.memory)

    def Hold(self, instance: objects.Instance) -> None:
        """Do nothing: no guest arrives by itself."""

    def Resume(self, instance: objects.Instance) -> None:
        self._Write(instance, self._CheckRuns(instance).memory)

    def NodeInfo(self, hvparams: base.HvParams | None = None) -> dict[str, Any]:
        """Return the node's figures less what the guests would use, as no guest really uses memory."""
        info = linux.NodeInfo() if runtime.Exists("/proc/meminfo") else dict(_SIMULATED_NODE)
        info["memory_free"] = max(0, info["memory_free"] - sum(guest.memory for guest in self.AllInfo()))
        return info

    def Verify(self, hvparams: base.HvParams | None = None) -> str | None:
        if runtime.Exists(pathutils.FAKE_DIR) and not runtime.IsDir(pathutils.FAKE_DIR):
            return f"{pathutils.FAKE_DIR} must be a directory, or not be there; move it away"
        return None

    def Powercycle(self, hvparams: base.HvParams | None = None) -> None:
        """Drop every guest, as a real reset does; the machine itself keeps running."""
        for guest in self.AllInfo():
            runtime.RemoveFile(_Path(guest.name))

    def _CheckRuns(self, instance: objects.Instance) -> base.GuestInfo:
        guest = self.Info(instance.name)
        if guest is None:
            raise errors.HypervisorError(f"Instance {instance.name} is not running")
        return guest

    def _Write(self, instance: objects.Instance, memory: int, state: str = runstate.RUNNING) -> None:
        owndirs.MakeOwn(pathutils.FAKE_DIR)
        text = FormatRecord(memory, int(instance.beparams["vcpus"]), state)
        runtime.WriteFile(_Path(instance.name), text.encode(), sync=False)
