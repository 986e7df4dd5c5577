"""The life of a mirror with the stand-in of DRBD, which the laboratory tells with a real one."""

from __future__ import annotations

from typing import Any

import pytest
from simulated import World
from support import mirrorpair
from support.mirrorlife import MirrorPair, MirrorSide
from support.standindrbd import Links

from ganeti import backend, errors, runtime


class _Side(MirrorSide):
    """A simulated machine and its time; writes are counted as long as the device could take them."""

    PATIENCE = 10.0

    def __init__(self, played: mirrorpair.Side, name: str, links: Links):
        super().__init__(name, played.ends)
        self._links = links
        self.played = played
        self._told = 0

    def Now(self) -> float:
        return self.played.machine.world.now

    def Pause(self) -> None:
        self.played.machine.Call(runtime.Sleep, 0.3)

    def Ask(self, *calls: tuple[str, Any]) -> list[list[Any]]:
        answers: list[list[Any]] = []
        for name, arguments in calls:
            try:
                answers.append([True, self.played.machine.Call(backend.Handlers()[name], *arguments)])
            except errors.GenericError as err:
                answers.append([False, str(err)])
                break
        return answers

    def Run(self, *argv: str) -> str:
        if argv[0] == "cat":
            return str(self.played.machine.Call(runtime.ReadText, argv[1], 1 << 16))
        if argv[0] == "lvs":
            return "".join(f"{name}\n" for name in self.played.lvm.Volumes())
        result = self.played.machine.Call(runtime.RunCmd, list(argv))
        assert not result.failed, result.stderr
        return str(result.stdout)

    def FailDisk(self) -> None:
        self.Run("drbdsetup", "detach", "0", "--force")

    def DropLink(self) -> None:
        self.played.drbd.DropLink(0)

    def LosePower(self) -> None:
        self.played.drbd.LosePower()

    def Return(self) -> None:
        pass

    def LinkChanges(self) -> int:
        return self.played.drbd.link_changes

    def Fills(self) -> int:
        return self._links.fills

    def StartWriter(self) -> None:
        self.WaitForWrites(0)

    def StopWriter(self) -> None:
        pass

    def PauseWriter(self) -> None:
        pass

    def ContinueWriter(self) -> None:
        pass

    def KillWriter(self) -> None:
        pass

    def WaitForEnd(self) -> None:
        assert not any(device.frozen for device in self.played.drbd.devices.values())

    def Acknowledged(self) -> list[str]:
        return [str(number) for number in range(self._told)]

    def WaitForWrites(self, more_than: int) -> None:
        device = self.played.device
        served = device.link == "Connected" and device.peer_disk == "UpToDate"
        assert device.role == "Primary" and not device.frozen and (device.disk == "UpToDate" or served), device
        self._told = more_than + 1

    def CheckWrites(self, acknowledged: list[str]) -> None:
        assert self.played.device.role == "Primary"


def _Tick() -> None:
    """Have time pass in small steps: what ends a call would let it jump to whatever comes next."""
    while True:
        runtime.Sleep(0.01)


class _Pair(MirrorPair):
    """``slow``: the side that, when both refuse a link, sees only that it is lost; ``late``: see ``Links``."""

    def __init__(self, world: World, slow: int | None, late: float):
        self._links = Links()
        sides = (mirrorpair.Side(world, number, self._links) for number in (1, 2))
        super().__init__(*(_Side(side, f"node{number}", self._links) for number, side in enumerate(sides, 1)))
        self._links.slow = None if slow is None else self._links.machines[slow]
        self._links.late = late
        self.one.played.machine.StartProcess(_Tick, "clock")

    def Cut(self) -> None:
        self._links.Cut()

    def Heal(self) -> None:
        self._links.Heal()

    def Together(self, *asked: tuple[MirrorSide, tuple[str, Any]]) -> None:
        done: list[str] = []
        *others, (last, call) = asked
        for side, (name, arguments) in others:
            assert isinstance(side, _Side)
            handler, name_ = backend.Handlers()[name], side.name

            def run(handler: Any = handler, arguments: Any = arguments, name: str = name_) -> None:
                handler(*arguments)
                done.append(name)

            side.played.machine.StartProcess(run, side.name)
        last.Do(call)
        assert isinstance(last, _Side)
        last.played.machine.Call(runtime.Sleep, 60.0)
        assert done == [side.name for side, _ in others]


@pytest.mark.parametrize(("slow", "late"), [(None, 0.0), (0, 0.0), (1, 0.0), (None, 0.5)])
def test_life_of_a_mirror(slow: int | None, late: float) -> None:
    with World(1) as world:
        _Pair(world, slow, late).Live()
