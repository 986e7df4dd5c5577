"""Instances on mirrors whose programs are played: creation, growth, replacement, migration, fail-over with the real driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import drivers
from support.creation import OnDisks
from support.master import Master
from support.standindrbd import Links, StandInDrbd

from ganeti import constants, errors, objects, opcodes, storage

WEB = "web.example.org"


class Mirrors:
    """The stand-ins of all machines, in their order."""

    def __init__(self, master: Master):
        storage.UseDrivers({name: driver for name, driver in drivers.ON_LVM.items() if name != constants.DT_DRBD8})
        self.master = master
        self.links = Links()
        self.machines = [StandInDrbd(node.machine, self.links) for node in master.all]

    def States(self) -> list[list[tuple[str, str, str]]]:
        return [
            [(device.link, device.role, device.disk) for device in machine.devices.values()]
            for machine in self.machines
        ]

    def Volumes(self) -> list[int]:
        return [len(node.lvm.Volumes()) for node in self.master.all]


PRIMARY, SECONDARY = ("Connected", "Primary", "UpToDate"), ("Connected", "Secondary", "UpToDate")


def _Empty(root: objects.Snapshot) -> objects.Snapshot:
    return root.Replace(instances={}, disks={})


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_Empty)


@pytest.mark.req("D20-VAR-01")
def test_any_number_of_disks(three: Master) -> None:
    mirrors = Mirrors(three)
    disks = [{"size": 128}] * constants.MAX_DISKS
    three.Run(OnDisks(WEB, *disks, disk_template="drbd", snode="node2", start=True))
    assert mirrors.States() == [[PRIMARY] * constants.MAX_DISKS, [SECONDARY] * constants.MAX_DISKS, []]
    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3"))
    assert mirrors.States() == [[], [PRIMARY] * constants.MAX_DISKS, [SECONDARY] * constants.MAX_DISKS]
    three.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert mirrors.States() == [[], [], []] and mirrors.Volumes() == [0, 0, 0]


def _Add(master: Master, **values: Any) -> None:
    master.Run(OnDisks(WEB, {"size": 1024}, {"size": 512}, disk_template="drbd", snode="node2", **values))


@pytest.mark.req("D20-DISK-03")
def test_life_of_an_instance(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    assert mirrors.States() == [[PRIMARY] * 2, [SECONDARY] * 2, []]
    assert mirrors.Volumes() == [4, 4, 0]

    three.Run(opcodes.OpInstanceGrowDisk(instance_name=WEB, disk=0, amount=256, wait_for_sync=True))
    assert [machine.devices[0].size for machine in mirrors.machines[:2]] == [1280, 1280]

    three.Run(opcodes.OpInstanceMigrate(instance_name=WEB, mode="live"))
    assert mirrors.States() == [[SECONDARY] * 2, [PRIMARY] * 2, []]

    for mode in ("replace_on_secondary", "replace_on_primary"):
        three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=mode, disks=[0, 1]))
        assert mirrors.States() == [[SECONDARY] * 2, [PRIMARY] * 2, []]
        assert mirrors.Volumes() == [4, 4, 0]

    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3"))
    assert mirrors.States() == [[], [PRIMARY] * 2, [SECONDARY] * 2]
    assert mirrors.Volumes() == [0, 4, 4]

    three.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert mirrors.States() == [[], [SECONDARY] * 2, [PRIMARY] * 2]
    three.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    assert mirrors.States() == [[], [], []]
    three.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert mirrors.States() == [[], [SECONDARY] * 2, [PRIMARY] * 2]
    three.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert (mirrors.States(), mirrors.Volumes()) == ([[], [], []], [0, 0, 0])


def test_with_a_new_secondary_no_write_is_acknowledged_alone_again(three: Master) -> None:
    mirrors = Mirrors(three)
    _Add(three, start=True)
    mirrors.machines[1].LosePower()
    three[1].Stop()
    devices = mirrors.machines[0].devices
    assert all(device.frozen for device in devices.values())
    three.Run(opcodes.OpInstanceSettleMirrors(instance_name=WEB))
    assert not any(device.frozen for device in devices.values()), "it was let go on alone"
    three.cfg.Update(three.snapshot.nodes[three.nodes[1]].Replace(offline=True))

    three.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3"))
    assert mirrors.States() == [[PRIMARY] * 2, [], [SECONDARY] * 2]
    mirrors.links.Cut()
    assert all(device.frozen for device in devices.values())


@pytest.mark.parametrize("command", ["attach", "connect", "create-md"])
def test_a_secondary_that_fails_leaves_nothing(three: Master, command: str) -> None:
    mirrors = Mirrors(three)
    programs = three.all[1].machine.programs
    program = "drbdmeta" if command == "create-md" else "drbdsetup"
    real = programs[program]

    def broken(invocation: Any) -> int:
        if command in invocation.argv:
            invocation.Complain("the disk is on fire\n")
            return 10
        return real(invocation) or 0

    programs[program] = broken
    with pytest.raises(errors.OpExecError, match=f"{program} {command}' failed with exit code 10: the disk is on fire"):
        _Add(three, start=False)
    assert (mirrors.States(), mirrors.Volumes()) == ([[], [], []], [0, 0, 0])
    assert three.cfg.Snapshot().instances == {}
