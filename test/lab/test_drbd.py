"""A mirror between two nodes with a real DRBD, from the backend's procedures downwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.lab import TREE
from support.mirrorlife import MirrorPair, MirrorSide
from support.mirrors import SECRET
from support.patience import Deadline

from lab.files import COMPILED, Compile, Fetch
from lab.machine import Machine, MakeDisk
from lab.switch import Switch

_NOTES, _BLOCKS = "/run/notes", 1000
_PYTHON = f"{TREE}/.venv/bin/python"
_INSIDE = f"{TREE}/test/lab/inside"
_PROCEDURES, _LOG = "/run/procedures", "/run/procedures.log"


class Side(MirrorSide):
    """A virtual machine."""

    def __init__(self, machine: Machine, number: int):
        super().__init__(machine.name, (f"10.79.0.{number}", f"10.79.0.{3 - number}"))
        self.machine = machine
        self.writer = ""

    def Boot(self) -> None:
        """Wait until it has started, and serve procedures."""
        self.machine.Wait()
        serve = f"cd {TREE} && exec {_PYTHON} {_INSIDE}/procedure.py {_PROCEDURES} >{_LOG} 2>&1"
        script = f"({serve}) & until [ -S {_PROCEDURES} ]; do sleep 0.1; done"
        self.machine.Run("sh", "-c", script, PYTHONPATH=str(TREE), **COMPILED)

    def CheckLog(self) -> None:
        assert SECRET not in self.Run("cat", _LOG)

    def Ask(self, *calls: tuple[str, Any]) -> list[list[Any]]:
        words = ["socat", "-t", "300", "-", f"unix-connect:{_PROCEDURES}"]
        return list(json.loads(self.machine.Run(*words, stdin=json.dumps(calls), seconds=300).stdout))

    def Run(self, *argv: str) -> str:
        return str(self.machine.Run(*argv).stdout)

    def FailDisk(self) -> None:
        name, table = "vg-one_data", "/run/one_data.table"
        self.Run("sh", "-c", f"dmsetup table {name} >{table} && dmsetup --noudevsync wipe_table {name}")
        self.Wait(disk="Diskless")
        # LVM itself would look at the mirror, too, which may wait.
        self.Run("sh", "-c", f"dmsetup load {name} {table} && dmsetup --noudevsync resume {name}")

    def DropLink(self) -> None:
        self.Run("drbdsetup", "disconnect", *(f"ipv4:{address}:11000" for address in self._ends))

    def LosePower(self) -> None:
        self.CheckLog()
        self.machine.PowerOff()

    def Return(self) -> None:
        self.machine.Start()
        self.Boot()
        self.Run("vgchange", "-q", "-ay", "vg")

    def LinkChanges(self) -> int:
        return self.Run("dmesg").count(" conn( ")

    def Fills(self) -> int:
        return self.Run("dmesg").count("Resync done")

    # --- writing ------------------------------------------------------------------------------------------------------

    def StartWriter(self) -> None:
        self.Run("rm", "-f", _NOTES)
        command = f"nohup {_PYTHON} {_INSIDE}/numbered.py /dev/drbd0 {_NOTES} {_BLOCKS} >/dev/null 2>&1 & echo $!"
        self.writer = self.Run("sh", "-c", command).strip()
        self.WaitForWrites(0)

    def StopWriter(self) -> None:
        self.Run("kill", self.writer)
        self.WaitForEnd()

    def PauseWriter(self) -> None:
        self.Run("kill", "-STOP", self.writer)
        self._Until(f"grep -q '^State:.T' /proc/{self.writer}/status")
        debug = "/sys/kernel/debug"
        self.Run("sh", "-c", f"mountpoint -q {debug} || mount -t debugfs none {debug}")
        # Requests that wait for the other side to acknowledge an epoch are listed, too.
        self._Until(f"! grep -q 'master:' {debug}/drbd/resources/resource0/in_flight_summary")

    def ContinueWriter(self) -> None:
        self.Run("kill", "-CONT", self.writer)

    def KillWriter(self) -> None:
        self.Run("kill", "-9", self.writer)

    def WaitForEnd(self) -> None:
        # Nobody may have asked for its result.
        self._Until(f"! [ -e /proc/{self.writer} ] || grep -q '^State:.Z' /proc/{self.writer}/status")

    def _Until(self, condition: str) -> None:
        self.Run("sh", "-c", f"until {condition}; do sleep 0.1; done")

    def Acknowledged(self) -> list[str]:
        return self.machine.Run("cat", _NOTES, check=False).stdout.split()

    def WaitForWrites(self, more_than: int) -> None:
        deadline = Deadline(self.PATIENCE)
        while len(self.Acknowledged()) <= more_than:
            assert not deadline.Passed(), "nothing is written"
            time.sleep(0.2)

    def CheckWrites(self, acknowledged: list[str]) -> None:
        text = "".join(f"{number}\n" for number in acknowledged)
        self.machine.Run("sh", "-c", "cat > /run/given", stdin=text)
        words = ["check", "/dev/drbd0", "/run/given", str(_BLOCKS)]
        assert self.Run(_PYTHON, f"{_INSIDE}/numbered.py", *words).split("\n")[0] == f"checked {len(acknowledged)}"


class Pair(MirrorPair):
    def __init__(self, one: Side, two: Side, switch: Switch):
        super().__init__(one, two)
        self._switch = switch

    def Cut(self) -> None:
        self._switch.CutOff("node1")

    def Heal(self) -> None:
        self._switch.Heal()

    def Together(self, *asked: tuple[MirrorSide, tuple[str, Any]]) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda pair: pair[0].Do(pair[1]), asked))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, need: Callable[[int], None]) -> Iterator[Pair]:
    need(2)
    folder, files = tmp_path_factory.mktemp("drbd"), Fetch()
    compiled = Compile(folder / "compiled")
    with Switch(folder) as switch:
        sides = []
        for number in (1, 2):
            network = switch.AddPort(f"node{number}", number)
            disk = MakeDisk(folder / f"disk{number}", 1024)
            address = f"10.79.0.{number}"
            machine = Machine(f"node{number}", folder, files, [disk], address, network, installed=compiled)
            sides.append(Side(machine, number))
        try:
            for side in sides:
                side.machine.Start()
            for side in sides:
                side.Boot()
                side.machine.Run("vgcreate", "-q", "-y", "vg", "/dev/vda")
            yield Pair(sides[0], sides[1], switch)
        finally:
            for side in sides:
                side.machine.PowerOff()


@pytest.mark.lab
@pytest.mark.limit(1800)
def test_life_of_a_mirror(pair: Pair) -> None:
    pair.Live()
    for side in (pair.one, pair.two):
        assert isinstance(side, Side)
        side.CheckLog()
