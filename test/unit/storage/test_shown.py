"""What a guest has seen of a disk is not wiped any more (storage.shown)."""

from __future__ import annotations

import pytest
from simulated import Machine, World

from ganeti import errors, pathutils, runtime
from ganeti.storage import shown


@pytest.fixture
def machine() -> Machine:
    machine: Machine = World(1).AddMachine("node1")
    machine.Call(runtime.MakeDirs, pathutils.RUN_DIR)
    return machine


def _Wipe(mib: int, seconds: float = 0.0) -> None:
    with shown.Unseen("disk/0", "uuid", mib):
        runtime.Sleep(seconds)


def test_only_what_lies_behind_may_be_wiped(machine: Machine) -> None:
    machine.Call(_Wipe, 0)
    for mib in (100, 64):
        machine.Call(shown.Note, "disk/0", "uuid", mib)
    for mib in (0, 99):
        with pytest.raises(
            errors.BlockDeviceError, match=f"seen the first 100 MiB, so nothing from {mib} MiB on is wiped"
        ):
            machine.Call(_Wipe, mib)
    machine.Call(_Wipe, 100)
    machine.Call(shown.Forget, "uuid")
    machine.Call(_Wipe, 0)


def test_nothing_is_shown_while_it_is_wiped(machine: Machine) -> None:
    def show(after: float) -> None:
        runtime.Sleep(after)
        shown.Note("disk/0", "uuid", 64)

    machine.StartProcess(lambda: _Wipe(0, 100.0), "a call that nobody waits for")
    with pytest.raises(errors.BlockDeviceError, match=r"disk/0: is being wiped .*'pgrep dd'"):
        machine.Call(show, 1.0)
    machine.Call(show, 100.0)


@pytest.mark.parametrize("uuid", ["", "../x", ".", "a/b"])
def test_a_name_that_leads_elsewhere_is_refused(machine: Machine, uuid: str) -> None:
    for call in (lambda: shown.Note("disk/0", uuid, 1), lambda: shown.Forget(uuid)):
        with pytest.raises(errors.BlockDeviceError, match="cannot be used in file names"):
            machine.Call(call)
