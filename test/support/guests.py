"""Guests for tests of hypervisor drivers: two nodes and one guest that can run on both."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from ganeti import hypervisor, objects, runtime
from ganeti.hypervisor import base
from ganeti.hypervisor.kvm import layout
from ganeti.params import runstate
from support import allocator, lab
from support.nodes import MakeNodes, Node
from support.virtual import MakeDisk, MakeInstance


class Rig:
    """Two nodes and one guest that can run on both."""

    def __init__(self, nodes: list[Node], driver: base.Hypervisor, instance: objects.Instance):
        self.first, self.second = nodes
        self.driver = driver
        self.instance = instance

    def Disks(self) -> list[base.GuestDisk]:
        return []

    def WaitStopped(self) -> None:
        """Until the guest is gone from the node entered."""
        for _ in range(600):
            if self.driver.Info(self.instance.name) is None:
                return
            runtime.Sleep(0.05)
        raise AssertionError("the guest does not stop")

    def Depart(self) -> str | None:
        """Gets the second node ready and starts sending; returns what travels beside the guest."""
        with self.first:
            info = self.driver.MigrationInfo(self.instance)
        with self.second:
            self.driver.Accept(self.instance, info, "127.0.0.1", self.Disks())
        with self.first:
            self.driver.Migrate("cluster", self.instance, "127.0.0.1", True)
        return info

    def Arrive(self, info: str | None) -> None:
        """Waits for the end of the migration and makes the guest the second node's."""
        with self.first:
            assert self.WaitMigrated() == base.MIGRATION_COMPLETED
        with self.second:
            self.driver.WaitArrived(self.instance, info)
        with self.first:
            self.driver.EndNow(self.instance)
            self.driver.Cleanup(self.instance.name)

    def WaitMigrated(self) -> str:
        """On the source: how the migration ended."""
        for _ in range(600):
            progress = self.driver.MigrationStatus(self.instance)
            if progress.status != base.MIGRATION_ACTIVE:
                return progress.status
            runtime.Sleep(0.1)
        return "never ended"

    def WaitSent(self) -> None:
        """On the source: until the guest is an old copy, which QEMU may say a moment after the migration is completed."""
        for _ in range(600):
            if self.driver.Look(self.instance.name).state == runstate.SENT:
                return
            runtime.Sleep(0.05)
        raise AssertionError("the guest is still being sent")

    def End(self) -> None:
        for node in (self.first, self.second):
            with node:
                self.driver.Stop(self.instance, force=True)
                self.driver.Cleanup(self.instance.name)

    def Start(self, paused: bool = False) -> None:
        self.driver.Start(self.instance, self.Disks(), paused)


def FakeRig(tmp_path: Path) -> Rig:
    return Rig(MakeNodes(tmp_path, "a", "b"), hypervisor.GetHypervisor("fake"), MakeInstance())


def _Unless(_call: Any, _path: str, error: Any) -> None:
    """A QEMU that ends removes files of its own."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


class KvmRig(Rig):
    """Real QEMU, emulating; the guest's disk is a file that both nodes reach."""

    def __init__(self, tmp_path: Path):
        self.files = tmp_path
        disk = self.MakeDisk(0)
        lease = allocator.Lease()
        hvparams = lab.TcgParams(migration_port=lease.Port(), migration_downtime=300)
        # Not ballooned: the guest has all its memory whatever this machine has free.
        memory = {"minmem": 128, "maxmem": 128}
        instance = MakeInstance(hypervisor="kvm", hvparams=hvparams, beparams=memory, disks=[disk])
        # Sockets have short names only.
        self.base = Path(tempfile.mkdtemp(prefix="gt-", dir="/tmp"))
        super().__init__(MakeNodes(self.base, "a", "b"), hypervisor.GetHypervisor("kvm"), instance)

    def MakeDisk(self, index: int) -> objects.Disk:
        file = self.files / f"disk{index}"
        file.write_bytes(bytes(1 << 20))
        return MakeDisk("sharedfile", ["loop", str(file)], 1, index=index)

    def Change(self, **hvparams: Any) -> None:
        """Gives the guest other hypervisor parameters."""
        self.instance = self.instance.Replace(hvparams={**self.instance.hvparams, **hvparams})

    def End(self) -> None:
        super().End()
        shutil.rmtree(self.base, onerror=_Unless)

    def Disks(self) -> list[base.GuestDisk]:
        [disk] = self.instance.disks_info or ()
        return [base.GuestDisk(disk, str(disk.logical_id[1]))]

    def Console(self) -> lab.Console:
        """Of the guest on the node entered."""
        return lab.Console(layout.Socket(self.instance.name, layout.SERIAL))
