"""One story, told on both sides of the runtime: on the real machine and inside simulated ones."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from simulated import Invocation, World

from ganeti import runtime

# In simulation each story is told with several orders of threads.
SEEDS = range(6)


def _Echo(call: Invocation) -> int:
    call.Print(" ".join(call.argv[1:]) + "\n")
    return 0


def _Fail(call: Invocation) -> int:
    call.Print("some output\n")
    call.Complain("first line\nno such volume\n")
    return int(call.argv[1])


def _Cat(call: Invocation) -> int:
    call.Print(call.stdin.decode())
    return 0


def _Wait(call: Invocation) -> int:
    runtime.Sleep(float(call.argv[1]))
    return 0


def _Show(call: Invocation) -> int:
    call.Print(call.env.get(call.argv[1], "(unset)") + "\n")
    return 0


def _Touch(call: Invocation) -> int:
    runtime.WriteFile(call.argv[1], b"touched\n", 0o644)
    return 0


# name -> (what it does on the real machine, the same in simulation)
_PROGRAMS: dict[str, tuple[str, Callable[[Invocation], int]]] = {
    "echo": ('echo "$@"', _Echo),
    "fail": ('echo some output; echo first line >&2; echo no such volume >&2; exit "$1"', _Fail),
    "cat": ("exec cat", _Cat),
    "wait": ('exec sleep "$1"', _Wait),
    "show": ('eval "echo \\"\\${$1-(unset)}\\""', _Show),
    "touch": ('echo touched > "$1"', _Touch),
}


class Place:
    """Where a story takes place: an empty folder, and small programs."""

    def __init__(self, folder: str, simulated: bool):
        self.folder = folder
        self.simulated = simulated

    def Path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def Program(self, name: str) -> str:
        return f"/usr/bin/{name}" if self.simulated else self.Path(f".programs/{name}")


def _MakeReal(folder: str) -> Place:
    place = Place(folder, simulated=False)
    os.mkdir(place.Path(".programs"))
    for name, (script, _) in _PROGRAMS.items():
        path = pathlib.Path(place.Program(name))
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return place


def _TellSimulated(story: Callable[..., Any], seed: int) -> None:
    with World(seed) as world:
        machine = world.AddMachine("node1")
        for name, (_, program) in _PROGRAMS.items():
            machine.programs[f"/usr/bin/{name}"] = program

        def tell() -> None:
            place = Place("/srv/story", simulated=True)
            runtime.MakeDirs(place.folder)
            story(place)

        machine.Call(tell)
        assert world.failures == []


def Everywhere(story: Callable[[Place], None]) -> Callable[..., None]:
    """Makes a story (a function of a Place) a test of both sides."""

    @pytest.mark.parametrize("side", ["real", "simulated"])
    @functools.wraps(story)
    def test(side: str, tmp_path: pathlib.Path) -> None:
        if side == "real":
            story(_MakeReal(str(tmp_path)))
        else:
            for seed in SEEDS:
                _TellSimulated(story, seed)

    del test.__wrapped__  # pytest would look at its arguments
    return test
