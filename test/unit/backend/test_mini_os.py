"""The OS definition "mini" in real machines: installed, booted from its own disk, renamed, exported, imported."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import lab
from support.guests import KvmRig

from ganeti import errors, objects, pathutils
from ganeti.backend import blockdev, instance
from ganeti.backend.guestos import osdef, osrun

pytestmark = pytest.mark.lab
TRAIL: list[list[Any]] = []


class Rig(KvmRig):
    """A guest that boots its own disk."""

    def __init__(self, tmp_path: Path):
        super().__init__(tmp_path)
        self.instance = self.instance.Replace(os="mini", osparams={"files": str(lab.GuestFiles())})
        self.Change(**lab.TcgParams(direct=False))
        for node in (self.first, self.second):
            node.os_search_path = [str(lab.TREE / "os")]
            node.AllowFileStorage(tmp_path)

    def MakeDisk(self, index: int) -> objects.Disk:
        disk = super().MakeDisk(index)
        os.truncate(str(disk.logical_id[1]), 64 << 20)
        return disk.Replace(size=64)

    def Data(self, **changes: Any) -> dict[str, Any]:
        return self.instance.Replace(**changes).ToDict(runtime=True)

    def Open(self) -> None:
        """As the master does before each start."""
        for index, disk in enumerate(self.Data()["disks_info"]):
            blockdev.Assemble(disk, self.Data(), True, index)

    def OpenShared(self) -> None:
        """As the master does before a migration, on both nodes."""
        blockdev.Open("", self.Data()["disks_info"], False)

    def Boot(self) -> lab.Sign:
        """Starts the guest, hears from it, stops it."""
        self.Open()
        instance.Start(self.Data(), False, TRAIL)
        with self.Console() as console:
            sign = console.Ask()
        instance.Shutdown(self.Data(), 30, TRAIL)
        return sign


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.End()


@pytest.mark.req("D20-OS-05")
def test_installed_disk_boots_and_knows_its_name(rig: Rig) -> None:
    with rig.first:
        osrun.Add(rig.Data(), False, 0)
        first = rig.Boot()
        assert first.name == rig.instance.name
        second = rig.Boot()
        assert second.boot_id != first.boot_id
        old = rig.instance.name
        rig.instance = rig.instance.Replace(name="other.example.com")
        osrun.RunRename(rig.Data(), old, 0)
        assert rig.Boot().name == "other.example.com"


@pytest.mark.req("D20-OS-05", "D20-OS-16")
def test_exported_disk_boots_elsewhere(rig: Rig, tmp_path: Path) -> None:
    with rig.first:
        osrun.Add(rig.Data(), False, 0)
        [disk] = rig.instance.disks_info or ()
        fragment, env = osrun.TransferCommand(osdef.EXPORT, rig.instance, disk, 0)
        size, dump = tmp_path / "size", tmp_path / "dump"
        command = f"exec 13> {size}; {fragment} > {dump}"
        subprocess.run(["bash", "-c", command], env={**env, "EXP_SIZE_FD": "13"}, check=True, timeout=60)
        assert int(size.read_text()) == dump.stat().st_size == 64 << 20

        copy = rig.MakeDisk(1)
        rig.instance = rig.instance.Replace(disks_info=(copy,), disks=(copy.uuid,))
        with pytest.raises(AssertionError, match="does not answer"):
            _BootQuickly(rig)
        fragment, env = osrun.TransferCommand(osdef.IMPORT, rig.instance, copy, 0)
        subprocess.run(["bash", "-c", f"{fragment} < {dump}"], env=env, check=True, timeout=60)
        assert rig.Boot().name == rig.instance.name


def _BootQuickly(rig: Rig) -> None:
    rig.Open()
    instance.Start(rig.Data(), False, TRAIL)
    try:
        with rig.Console() as console:
            console.Ask(timeout=6)
    finally:
        instance.Shutdown(rig.Data(), 0, TRAIL)


@pytest.mark.req("D22-OSP-10", "D22-OSP-11", "D22-OSP-14")
def test_parameters_are_judged_by_the_definition(rig: Rig, tmp_path: Path) -> None:
    with rig.first:
        assert osdef.Diagnose()[0][:4] == ["mini", str(lab.TREE / "os" / "mini"), True, ""]
        good = {"files": str(lab.GuestFiles())}
        for fine in (good, {}, {"files": ""}):
            assert osrun.Validate(True, "mini", ["parameters"], fine, False) is True
        for params, words in [
            ({"files": "relative"}, "parameter files: 'relative' is not an absolute path"),
            ({"files": str(tmp_path)}, "vmlinuz is not there; make it with 'mini-guest-files"),
            ({**good, "cmdline": "a\nb"}, "parameter cmdline: must be one line"),
        ]:
            with pytest.raises(osdef.OsError, match=words):
                osrun.Validate(True, "mini", ["parameters"], params, False)


def test_disk_that_is_too_small_is_refused_and_stays_empty(rig: Rig) -> None:
    with rig.first:
        [disk] = rig.instance.disks_info or ()
        os.truncate(str(disk.logical_id[1]), 16 << 20)
        with pytest.raises(errors.RpcCallError, match="disk 0 is too small, it needs 33 MiB or more"):
            osrun.Add(rig.Data(), False, 0)
        assert not any(Path(str(disk.logical_id[1])).read_bytes())


def test_whole_life_by_procedures(rig: Rig) -> None:
    """As the master would: create, install, start, migrate, stop, remove."""
    from ganeti.backend import migration

    [disk] = rig.instance.disks_info or ()
    os.unlink(str(disk.logical_id[1]))
    plain = disk.ToDict(runtime=True)
    with rig.first:
        assert blockdev.Create(plain, 64, rig.instance.name, True, "", False) == list(disk.logical_id)
        blockdev.Assemble(plain, rig.Data(), True, 0)
        osrun.Add(rig.Data(), False, 0)
        instance.Start(rig.Data(), False, TRAIL)
        with rig.Console() as console:
            before = console.Ask()
        info = migration.Info(rig.Data())
        rig.OpenShared()
    with rig.second:
        rig.OpenShared()
        migration.Accept(rig.Data(), info, "127.0.0.1")
    with rig.first:
        migration.Migrate("cluster", rig.Data(), "127.0.0.1", True)
        rig.WaitMigrated()
        assert migration.Status(rig.Data())["status"] == "completed"
        sent = migration.RunState(rig.instance.name, "kvm", {})
        migration.EndSent(rig.Data(), sent["ident"], sent["attempt"], True)
    with rig.second:
        migration.FinalizeDestination(rig.Data(), info, True)
        assert Path(pathutils.InstanceDiskLink(rig.instance.name, 0)).is_symlink()
        with rig.Console() as console:
            after = console.Ask()
        assert after.boot_id == before.boot_id and after.uptime > before.uptime
        instance.Shutdown(rig.Data(), 30, TRAIL)
        blockdev.Shutdown(plain)
        blockdev.Remove(plain)
        assert not os.path.exists(str(disk.logical_id[1]))
