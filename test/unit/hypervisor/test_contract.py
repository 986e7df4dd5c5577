"""What every hypervisor driver promises, told as the life of one guest on two nodes: the fake, and real QEMU (lab)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import allocator, lab
from support.nodes import MakeNodes, Node
from support.virtual import MakeDisk, MakeInstance

from ganeti import constants, errors, hypervisor, objects, pathutils, runtime
from ganeti.hypervisor import base
from ganeti.hypervisor.kvm import layout, qmp


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

    def End(self) -> None:
        for node in (self.first, self.second):
            with node:
                self.driver.Stop(self.instance, force=True)
                self.driver.Cleanup(self.instance.name)

    def Start(self, paused: bool = False) -> None:
        self.driver.Start(self.instance, self.Disks(), paused)


def _FakeRig(tmp_path: Path) -> Rig:
    return Rig(MakeNodes(tmp_path, "a", "b"), hypervisor.GetHypervisor("fake"), MakeInstance())


class _KvmRig(Rig):
    """Real QEMU, emulating; the guest's disk is a file that both nodes reach."""

    def __init__(self, tmp_path: Path):
        file = tmp_path / "disk0"
        file.write_bytes(bytes(1 << 20))
        disk = MakeDisk("sharedfile", ["loop", str(file)], 1)
        lease = allocator.Lease()
        hvparams = lab.TcgParams(migration_port=lease.Port(), migration_downtime=300)
        # Not ballooned: the guest has all its memory whatever this machine has free.
        memory = {"minmem": 128, "maxmem": 128}
        instance = MakeInstance(hypervisor="kvm", hvparams=hvparams, beparams=memory, disks=[disk])
        # Sockets have short names only.
        self.base = Path(tempfile.mkdtemp(prefix="gt-", dir="/tmp"))
        super().__init__(MakeNodes(self.base, "a", "b"), hypervisor.GetHypervisor("kvm"), instance)

    def End(self) -> None:
        super().End()
        shutil.rmtree(self.base)

    def Disks(self) -> list[base.GuestDisk]:
        [disk] = self.instance.disks_info or ()
        return [base.GuestDisk(disk, str(disk.logical_id[1]))]

    def Console(self) -> lab.Console:
        """Of the guest on the node entered."""
        return lab.Console(layout.Socket(self.instance.name, layout.SERIAL))


RIGS: dict[str, Callable[[Path], Rig]] = {"fake": _FakeRig, "kvm": _KvmRig}
kvm_only = pytest.mark.parametrize("rig", [pytest.param("kvm", marks=pytest.mark.lab)], indirect=True)


@pytest.fixture(params=["fake", pytest.param("kvm", marks=pytest.mark.lab)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = RIGS[request.param](tmp_path)
    yield made
    made.End()


@pytest.mark.req("D20-GOAL-06")
def test_life_of_a_guest(rig: Rig) -> None:
    driver, instance = rig.driver, rig.instance
    with rig.first:
        assert driver.Verify(instance.hvparams) is None
        assert driver.List() == [] and driver.Info(instance.name) is None

        rig.Start()
        assert driver.List() == [instance.name]
        info = driver.Info(instance.name)
        assert info is not None
        assert (info.name, info.memory, info.vcpus, info.state) == (instance.name, 128, 1, 0)
        assert driver.AllInfo() == [info] or driver.AllInfo()[0].name == info.name
        with pytest.raises(errors.HypervisorError, match="already running"):
            rig.Start()

        driver.Reboot(instance)
        assert driver.List() == [instance.name]

        driver.Stop(instance, force=True)
        rig.WaitStopped()
        driver.Cleanup(instance.name)
        assert driver.List() == []
        driver.Stop(instance, force=True)  # gone already is fine
        driver.Cleanup(instance.name)
        with pytest.raises(errors.HypervisorError, match="not running"):
            driver.Reboot(instance)
        rig.Start()
    with rig.second:
        assert driver.List() == [], "the other node knows nothing of it"


def test_balloon(rig: Rig) -> None:
    with rig.first:
        with pytest.raises(errors.HypervisorError, match="not running"):
            rig.driver.Balloon(rig.instance, 96)
        rig.Start()
        rig.driver.Balloon(rig.instance, 96)
        info = rig.driver.Info(rig.instance.name)
        assert info is not None and info.memory in (96, 128)  # a guest without a balloon driver keeps what it has


def _WaitMigrated(rig: Rig) -> str:
    for _ in range(600):
        progress = rig.driver.MigrationStatus(rig.instance)
        if progress.status != base.MIGRATION_ACTIVE:
            return progress.status
        runtime.Sleep(0.1)
    return "never ended"


def test_migration_moves_the_guest(rig: Rig) -> None:
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
        info = driver.MigrationInfo(instance)
    with rig.second:
        driver.Accept(instance, info, "127.0.0.1", rig.Disks())
    with rig.first:
        driver.Migrate("cluster", instance, "127.0.0.1", True)
        assert _WaitMigrated(rig) == base.MIGRATION_COMPLETED
        driver.FinalizeSource(instance, True, True)
        assert driver.List() == []
    with rig.second:
        driver.FinalizeDestination(instance, info, True)
        assert driver.List() == [instance.name]


def test_migration_given_up_leaves_the_guest_where_it_was(rig: Rig) -> None:
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
        info = driver.MigrationInfo(instance)
    with rig.second:
        driver.Accept(instance, info, "127.0.0.1", rig.Disks())
        driver.FinalizeDestination(instance, info, False)
        assert driver.List() == []
    with rig.first:
        driver.FinalizeSource(instance, False, True)
        assert driver.List() == [instance.name]


def test_guest_that_runs_is_not_accepted_again(rig: Rig) -> None:
    with rig.first:
        rig.Start()
        info = rig.driver.MigrationInfo(rig.instance)
        with pytest.raises(errors.HypervisorError, match="already running"):
            rig.driver.Accept(rig.instance, info, "127.0.0.1", rig.Disks())


def test_node_has_memory_and_processors(rig: Rig) -> None:
    with rig.first:
        info = rig.driver.NodeInfo(rig.instance.hvparams)
        assert info["memory_total"] >= info["memory_free"] > 0
        assert info["cpu_total"] >= 1


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "x" * 300, "a..b"])
def test_names_never_leave_the_directory(rig: Rig, name: str) -> None:
    with rig.first, pytest.raises(errors.HypervisorError, match="file names"):
        rig.driver.Info(name)


# --- only real guests -------------------------------------------------------------------------------------------------


@kvm_only
def test_guest_keeps_running_while_it_moves(rig: _KvmRig) -> None:
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
        with rig.Console() as console:
            before = console.Ask()
        info = driver.MigrationInfo(instance)
    with rig.second:
        driver.Accept(instance, info, "127.0.0.1", rig.Disks())
    with rig.first:
        driver.Migrate("cluster", instance, "127.0.0.1", True)
        assert _WaitMigrated(rig) == base.MIGRATION_COMPLETED
        driver.FinalizeSource(instance, True, True)
    with rig.second:
        driver.FinalizeDestination(instance, info, True)
        with rig.Console() as console:
            after = console.Ask()
        assert after.boot_id == before.boot_id and after.uptime > before.uptime


@kvm_only
def test_migration_broken_off_lets_the_guest_go_on(rig: _KvmRig) -> None:
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
        with rig.Console() as console:
            before = console.Ask()
        info = driver.MigrationInfo(instance)
    with rig.second:
        driver.Accept(instance, info, "127.0.0.1", rig.Disks())
    with rig.first:
        driver.Migrate("cluster", instance, "127.0.0.1", False)
    with rig.second:
        driver.FinalizeDestination(instance, info, False)
    with rig.first:
        driver.FinalizeSource(instance, False, False)
        assert driver.MigrationStatus(instance).status in (base.MIGRATION_CANCELLED, base.MIGRATION_FAILED)
        with rig.Console() as console:
            after = console.Ask()
        assert after.boot_id == before.boot_id and after.uptime > before.uptime


@kvm_only
def test_guest_powers_itself_off_when_asked(rig: _KvmRig) -> None:
    with rig.first:
        rig.Start()
        with rig.Console() as console:
            console.Ask()
            rig.driver.Stop(rig.instance)
            console.WaitFor(b"mini powers off")
        rig.WaitStopped()
        assert rig.driver.Info(rig.instance.name) is None
        rig.driver.Cleanup(rig.instance.name)


@kvm_only
def test_paused_guest_waits(rig: _KvmRig) -> None:
    with rig.first:
        rig.Start(paused=True)
        with qmp.Monitor(layout.Socket(rig.instance.name, layout.QMP)) as monitor:
            assert monitor.Execute("query-status")["status"] == "prelaunch"
            monitor.Execute("cont")
        with rig.Console() as console:
            assert console.Ask().name == "unnamed"


@kvm_only
def test_trouble_at_the_start_is_told_and_leaves_nothing(rig: _KvmRig) -> None:
    broken = rig.instance.Replace(hvparams={**rig.instance.hvparams, "kvm_extra": "-device no-such-thing"})
    with rig.first:
        with pytest.raises(errors.HypervisorError, match=r"Failed to start instance \S+: .*no-such-thing"):
            rig.driver.Start(broken, rig.Disks(), False)
        assert rig.driver.List() == []
        left = [str(path) for path in Path(pathutils.KVM_DIR).rglob("*") if path.is_file() or path.is_socket()]
        assert left == []


@kvm_only
def test_guest_stopped_by_its_user_is_seen(rig: _KvmRig) -> None:
    """Its process stays until somebody cleans up, so that a power-off can be told from a crash."""
    asking = rig.instance.Replace(hvparams={**rig.instance.hvparams, "user_shutdown": True})
    with rig.first:
        rig.driver.Start(asking, rig.Disks(), False)
        with rig.Console() as console:
            console.Ask()
            rig.driver.Stop(asking)  # the same signal a user inside would give
            console.WaitFor(b"mini powers off")
        for _ in range(100):
            info = rig.driver.Info(asking.name)
            assert info is not None
            if info.state == constants.INST_USER_SHUTDOWN:
                break
            runtime.Sleep(0.1)
        assert info.state == constants.INST_USER_SHUTDOWN
        rig.driver.Stop(asking)
        rig.WaitStopped()
        assert rig.driver.Info(asking.name) is None
