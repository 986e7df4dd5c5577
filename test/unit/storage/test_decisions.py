"""Calls that make the same mirror obey follow each other."""

from __future__ import annotations

import pytest
from simulated import Machine, World

from ganeti import errors, pathutils, runtime
from ganeti.storage import decisions, looks


def test_one_that_waited_works_alone_and_sees_what_the_one_before_changed() -> None:
    machine: Machine = World(1).AddMachine("node1")
    events: list[str] = []
    state = {"disk": "old"}

    def work(name: str, number: int, begins: float) -> None:
        runtime.Sleep(begins)
        with looks.Sharing():
            looks.Once("disk", lambda: state["disk"])
            with decisions.Obeying("disk/0", 0, "uuid", number):
                events.append(f"{name} sees {looks.Once('disk', lambda: state['disk'])}")
                runtime.Sleep(5.0)
                state["disk"] = f"of {name}"
                events.append(f"{name} ends")

    machine.Call(runtime.MakeDirs, pathutils.RUN_DIR)
    for name, number, begins in (("first", 1, 0.0), ("second", 2, 1.0)):
        machine.StartProcess(lambda name=name, number=number, begins=begins: work(name, number, begins), name)
    # It comes while the second one works, which waited before.
    machine.Call(work, "third", 3, 7.0)
    assert events == [
        "first sees old", "first ends", "second sees of first", "second ends", "third sees of second", "third ends",
    ]  # fmt: skip


def test_a_late_call_for_a_disk_that_had_the_minor_before_changes_nothing_for_its_successor() -> None:
    machine: Machine = World(1).AddMachine("node1")
    machine.Call(runtime.MakeDirs, pathutils.RUN_DIR)

    def obey(uuid: str, number: int) -> None:
        with decisions.Obeying("disk/0", 0, uuid, number):
            pass

    machine.Call(obey, "former", 4)
    machine.Call(obey, "present", 5)
    machine.Call(obey, "never-obeyed", 1)
    for uuid, number in (("present", 3), ("former", 2)):
        with pytest.raises(errors.BlockDeviceError, match=f"it follows decision {number} .*Nothing was changed"):
            machine.Call(obey, uuid, number)
    machine.Call(obey, "present", 5)
    for successor in range(200):
        machine.Call(obey, f"00000000-0000-0000-0000-{successor:012d}", 1)
    with pytest.raises(errors.BlockDeviceError, match="this call is outdated"):
        machine.Call(obey, f"00000000-0000-0000-0000-{199:012d}", 0)


def test_only_what_is_run_within_the_block_keeps_the_mirror_from_others() -> None:
    """A program that is run later has nothing to do with the mirror, and may last: as that of another disk of the call."""
    machine: Machine = World(1).AddMachine("node1")
    machine.Call(runtime.MakeDirs, pathutils.RUN_DIR)

    def call(fails: bool) -> list[str | None]:
        held = [decisions.Held()]
        try:
            with decisions.Obeying("disk/0", 0, "uuid", 1):
                held.append(decisions.Held())
                if fails:
                    raise errors.BlockDeviceError("it does not obey")
        except errors.BlockDeviceError:
            pass
        held.append(decisions.Held())
        with decisions.Obeying("disk/1", 1, "other", 1):
            held.append(decisions.Held())
        return [None if lock is None else lock.path.rpartition("/")[2] for lock in (*held, decisions.Held())]

    for fails in (False, True):
        assert machine.Call(call, fails) == [None, "0", None, "1", None]
