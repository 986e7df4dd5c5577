"""What every hypervisor driver promises, told as the life of one guest on two nodes: the fake, and real QEMU (lab)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.guests import FakeRig, KvmRig, Rig

from ganeti import errors, hypervisor
from ganeti.params import hv
from ganeti.rpc import answers

RIGS: dict[str, Callable[[Path], Rig]] = {"fake": FakeRig, "kvm": KvmRig}


@pytest.fixture(params=["fake", pytest.param("kvm", marks=pytest.mark.lab)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = RIGS[request.param](tmp_path)
    yield made
    made.End()


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
        # The kernel of the real guest has no balloon driver loaded, so it keeps what it has.
        assert info is not None and info.memory == {"fake": 96, "kvm": 128}[rig.driver.NAME]


def test_migration_moves_the_guest(rig: Rig) -> None:
    with rig.first:
        rig.Start()
    rig.Arrive(rig.Depart())
    with rig.first:
        assert rig.driver.List() == []
    with rig.second:
        assert rig.driver.List() == [rig.instance.name]


def test_states_of_a_migration(rig: Rig) -> None:
    driver, instance = rig.driver, rig.instance
    name = instance.name
    with rig.first:
        assert driver.Look(name).state == "gone" and not driver.Exists(name)
        rig.Start()
        assert driver.Look(name).state == "running" and driver.Exists(name)
        info = driver.MigrationInfo(instance)
    with rig.second:
        driver.Accept(instance, info, "127.0.0.1", rig.Disks())
        assert driver.Look(name).state == "inmigrate" and driver.Exists(name)
        [row] = driver.AllInfo()
        assert row.run_state == "inmigrate"
    with rig.first:
        driver.Migrate("cluster", instance, "127.0.0.1", True)
        assert rig.WaitMigrated() == "completed"
        rig.WaitSent()
        [row] = driver.AllInfo()
        assert row.run_state == "postmigrate", "it is here, and it does not run"
    with rig.second:
        driver.WaitArrived(instance, info)
        driver.WaitArrived(instance, info)  # may be repeated
        assert driver.Look(name).state == "running"


def test_migration_given_up_leaves_the_guest_where_it_was(rig: Rig) -> None:
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
        info = driver.MigrationInfo(instance)
    with rig.second:
        driver.Accept(instance, info, "127.0.0.1", rig.Disks())
        driver.Hold(instance)
        assert driver.Look(instance.name).state == "inmigrate", "it has not run and will not"
        driver.EndNow(instance)
        driver.Cleanup(instance.name)
        assert driver.List() == []
    with rig.first:
        assert driver.Look(instance.name).state == "running"


def test_sent_copy_can_run_again(rig: Rig) -> None:
    driver, instance = rig.driver, rig.instance
    with rig.first:
        rig.Start()
    rig.Depart()
    with rig.second:
        driver.Hold(instance)
    with rig.first:
        rig.WaitMigrated()
    with rig.second:
        driver.EndNow(instance)
        driver.Cleanup(instance.name)
    with rig.first:
        driver.Resume(instance)
        assert driver.Look(instance.name).state == "running"


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
        # The master takes no other shape.
        assert answers.Fits("node_info", ["boot", [], [info]])


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "x" * 300, "a..b"])
def test_names_never_leave_the_directory(rig: Rig, name: str) -> None:
    with rig.first, pytest.raises(errors.HypervisorError, match="file names"):
        rig.driver.Info(name)


@pytest.mark.req("D20-PAR-16", "D20-PAR-17", "D20-PAR-18")
@pytest.mark.parametrize("name", list(hypervisor.DRIVERS))
def test_parameters_are_named_and_checked_in_two_places(name: str) -> None:
    driver = hypervisor.GetHypervisor(name)
    values = hv.DEFAULTS[name]
    assert set(driver.PARAMETERS) == set(values)
    with pytest.raises(errors.HypervisorError, match="'color' is not supported"):
        driver.CheckParamSyntax({**values, "color": "red"})
    driver.CheckParamSyntax(values)  # names a kernel and a QEMU that need not be here
    if "kernel_path" in values:
        with pytest.raises(errors.HypervisorError, match="cannot be used on this node"):
            driver.ValidateParameters({**values, "kernel_path": "/nowhere/vmlinuz"})
