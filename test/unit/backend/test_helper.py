"""A helper that works on an instance's disks, in the eyes of its node (doc/design-install.rst)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.backend.test_instance import TRAIL, Rig

from ganeti import constants, errors
from ganeti.backend import blockdev, guestnotes, instance, migration
from ganeti.hypervisor.fake import FakeHypervisor


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    with rig.first:
        yield rig


def _Helper(rig: Rig) -> dict[str, Any]:
    disks = (rig.disk.Replace(iv_name=constants.HELPER_DISK),)
    return rig.guest.Replace(disks_info=disks).ToDict(runtime=True)


def test_it_is_not_taken_for_the_guest(rig: Rig) -> None:
    """Its master is gone: nobody waits for its end, and the instance is to be started, restarted or moved."""
    instance.Start(_Helper(rig), False, TRAIL)
    instance.Start(_Helper(rig), False, TRAIL)  # running already is success
    named = r"a helper, which works on its disks.*'gnt-instance shutdown --timeout 0 guest"
    for call in (
        lambda: instance.Start(rig.data, False, TRAIL),
        lambda: instance.Reboot(rig.data, "soft", 1, TRAIL),
        lambda: migration.Migratable(rig.data),
        lambda: migration.Migrate("cluster", rig.data, "127.0.0.1", True),
    ):
        with pytest.raises(errors.RpcCallError, match=named):
            call()
    assert migration.RunState(rig.guest.name, "fake", {})["helper"] is True
    instance.Shutdown(rig.data, 0, TRAIL)
    assert guestnotes.Read(rig.guest.name) == guestnotes.NOTHING
    rig.Open()
    for _ in range(2):
        instance.Start(rig.data, False, TRAIL)


def test_one_that_has_ended_by_itself_is_in_nobodys_way(rig: Rig) -> None:
    instance.Start(_Helper(rig), False, TRAIL)
    FakeHypervisor().Stop(rig.guest, force=True)
    rig.Open()
    for _ in range(2):
        instance.Start(rig.data, False, TRAIL)


def test_one_that_comes_late_does_not_take_the_guest_for_itself(rig: Rig) -> None:
    instance.Start(rig.data, False, TRAIL)
    with pytest.raises(errors.RpcCallError, match="is running, so that no helper can work on its disks"):
        instance.Start(_Helper(rig), False, TRAIL)


def test_its_disks_are_wiped_afterwards_and_those_of_a_guest_are_not(rig: Rig) -> None:
    instance.Start(_Helper(rig), False, TRAIL)
    blockdev.Wipe(rig.disk.ToDict(runtime=True), 0, 4)
    instance.Shutdown(rig.data, 0, TRAIL)
    rig.Open()
    instance.Start(rig.data, False, TRAIL)
    with pytest.raises(errors.BlockDeviceError, match="a guest has seen its first"):
        blockdev.Wipe(rig.disk.ToDict(runtime=True), 0, 4)


def test_a_soft_reboot_shows_a_disk_as_large_as_it_is_by_then(rig: Rig) -> None:
    """It was grown, and is not wiped: the guest sees the new part from now on."""
    instance.Start(rig.data, False, TRAIL)
    grown = rig.disk.Replace(size=rig.disk.size + 4)
    data = rig.guest.Replace(disks_info=(grown,)).ToDict(runtime=True)
    instance.Reboot(data, "soft", 1, TRAIL)
    with pytest.raises(errors.BlockDeviceError, match=f"seen its first {grown.size} MiB"):
        blockdev.Wipe(rig.disk.ToDict(runtime=True), 0, 4)
