"""A command that is disturbed before or after any of its steps, on simulated machines.

A step is what it does to the world: a file written, renamed or removed, a program run, here or on another machine over ssh.
``Steps`` counts those of an undisturbed run; ``Cut`` says before or after which of them what happens.  The same command is
then run again, with the cause removed, and must finish the work.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from simulated import Invocation, Machine, Process, Program, World
from simulated.side import Side

from ganeti import errors, runtime
from ganeti.daemon.main import ErrorText
from ganeti.tools.common import MachineProblem

BEFORE, AFTER = "before", "after"
# What can happen.
KILLED = "the command is killed"
POWER = "the power of its machine fails for a moment"
FULL = "the disk of its machine is full"
OTHER_FULL = "the disk of another machine is full"
REBOOTS = "another machine reboots"
SILENT = "another machine does not answer any more"
HAPPENINGS = (KILLED, POWER, FULL, OTHER_FULL, REBOOTS, SILENT)
_SSH_TIMEOUT = 10.0

_Case = TypeVar("_Case")


class Cut(NamedTuple):
    number: int
    when: str
    what: str


class Happened(NamedTuple):
    """How a run ended; ``code`` None: it was cut off.  ``text``: all that it said."""

    code: int | None
    text: str


class Cutter(Protocol):
    """Whoever counts the steps of a process, and disturbs them."""

    steps: list[str]

    def Reach(self, number: int, when: str) -> None: ...


class CountingSide(Side):
    """The side of a process whose steps are counted."""

    def __init__(self, process: Process, cutter: Cutter):
        super().__init__(process)
        self._cutter = cutter

    def _Step(self, what: str, action: Callable[[], Any]) -> Any:
        number = len(self._cutter.steps)
        self._cutter.steps.append(what)
        self._cutter.Reach(number, BEFORE)
        result = action()
        self._cutter.Reach(number, AFTER)
        return result

    def WriteFile(self, path: str, data: bytes, mode: int, uid: int, gid: int, sync: bool) -> None:
        self._Step(f"write {path}", lambda: super(CountingSide, self).WriteFile(path, data, mode, uid, gid, sync))

    def RemoveFile(self, path: str, sync: bool = False) -> None:
        self._Step(f"remove {path}", lambda: super(CountingSide, self).RemoveFile(path, sync))

    def Rename(self, source: str, target: str, sync: bool = True) -> None:
        self._Step(f"rename {source}", lambda: super(CountingSide, self).Rename(source, target, sync))

    def RemoveTree(self, path: str) -> None:
        """File by file, as the real one."""
        for name in self.ListDir(path) if self.IsDir(path) else ():
            below = f"{path}/{name}"
            if self.IsDir(below):
                self.RemoveTree(below)
            else:
                self.RemoveFile(below)
        self._Step(f"remove {path}", lambda: super(CountingSide, self).RemoveTree(path))

    def Symlink(self, target: str, path: str) -> None:
        self._Step(f"link {path}", lambda: super(CountingSide, self).Symlink(target, path))

    def Chown(self, path: str, uid: int, gid: int) -> None:
        self._Step(f"chown {path}", lambda: super(CountingSide, self).Chown(path, uid, gid))

    def Chmod(self, path: str, mode: int) -> None:
        self._Step(f"chmod {path}", lambda: super(CountingSide, self).Chmod(path, mode))

    def RunCmd(self, argv: Any, *args: Any, **options: Any) -> Any:
        return self._Step(f"run {' '.join(argv)}", lambda: super(CountingSide, self).RunCmd(argv, *args, **options))


class Machines:
    """Simulated machines that reach each other by ssh; the first one runs the command.

    ``programs(machine)`` makes what can be run there; ``boot`` is called when a machine was switched on.
    """

    def __init__(self, names: list[str], seed: int = 1):
        self.world = World(seed, switch=0.1)
        self.all = [self.world.AddMachine(name) for name in names]
        self.silent: set[str] = set()
        self.steps: list[str] = []
        self._cut: Cut | None = None
        for machine in self.all:
            machine.programs["ssh"] = self._Ssh

    @property
    def master(self) -> Machine:
        return self.all[0]

    def Find(self, name: str) -> Machine:
        return self.world.machines[name]

    def Boot(self, machine: Machine) -> None:
        """What starts by itself; inside no process."""

    # --- programs -----------------------------------------------------------------------------------------------------

    def _Ssh(self, invocation: Invocation) -> int:
        *_, place, command = invocation.argv
        target = self.Find(place.partition("@")[2])
        if not target.on or target.name in self.silent:
            runtime.Sleep(_SSH_TIMEOUT)
            invocation.Complain("no route to host\n")
            return 255
        words = shlex.split(command)
        ended: list[int | None] = []
        there = Invocation(words, {}, invocation.stdin, None, None)

        def run() -> None:
            ended.append(Guarded(target.programs.get(words[0], _Missing))(there) or 0)

        process = target.StartProcess(run, words[0])
        while process.alive and target.name not in self.silent:
            runtime.Sleep(0.01)
        if process.alive or not ended:
            invocation.Complain("connection lost\n")
            return 255
        invocation.Print("".join(there.output))
        invocation.Complain("".join(there.errors))
        return ended[0] or 0

    # --- the command --------------------------------------------------------------------------------------------------

    def Reach(self, number: int, when: str) -> None:
        """The command has come to a step, or has done it."""
        if self._cut is not None and self._cut[:2] == (number, when):
            cut, self._cut = self._cut, None
            self._Happen(cut.what)

    def _Happen(self, what: str) -> None:
        other = self.all[1 % len(self.all)]
        if what == KILLED:
            self._process.Kill()
        elif what == POWER:
            self.world.Schedule(0, lambda: self._Reboot(self.master))
        elif what == FULL:
            self.master.disk_full = True
        elif what == OTHER_FULL:
            other.disk_full = True
        elif what == REBOOTS:
            self.world.Schedule(0, lambda: self._Reboot(other))
        elif what == SILENT:
            self.silent.add(other.name)
        runtime.Sleep(0.001)

    def _Reboot(self, machine: Machine) -> None:
        machine.PowerOff()
        machine.PowerOn()
        self.Boot(machine)

    def Heal(self) -> None:
        """The causes are removed."""
        self.silent.clear()
        for machine in self.all:
            machine.disk_full = False
        self.world.RunFor(60)

    def Run(self, command: Callable[[], int], cut: Cut | None = None) -> Happened:
        """Run a command on the first machine to its end, which may be the cut."""
        self.steps.clear()
        self._cut = cut
        said = io.StringIO()
        code: list[int] = []

        def run() -> None:
            try:
                code.append(command())
            except errors.GenericError as err:
                said.write(ErrorText(err) + "\n")
                code.append(err.exit_code)
            except OSError as err:  # as the programs' main functions do
                said.write(f"Failed: {MachineProblem(err)}\n")
                code.append(1)

        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            self._process = self.master.StartProcess(run, "command")
            self._process.side = CountingSide(self._process, self)
            self.world.Run(until=lambda: not self._process.alive)
        self._cut = None
        error = self._process.error
        assert error is None, f"{error!r} after:\n{said.getvalue()}"
        return Happened(code[0] if code else None, said.getvalue())

    def Call(self, function: Callable[..., Any], *args: Any, on: int = 0) -> Any:
        return self.all[on].Call(function, *args)

    def Close(self) -> None:
        try:
            assert self.world.failures == []
        finally:
            self.world.Close()


def Guarded(program: Program) -> Program:
    """A program that says why its machine does not do what it wants."""

    def run(invocation: Invocation) -> int | None:
        try:
            return program(invocation)
        except OSError as err:
            invocation.Complain(f"{MachineProblem(err)}\n")
            return 1

    return run


def _Missing(invocation: Invocation) -> int:
    invocation.Complain(f"{invocation.argv[0]}: not found\n")
    return 127


def Cuts(steps: int, happenings: Sequence[str] = HAPPENINGS) -> Iterator[Cut]:
    """Yield everything that can happen in a command of so many steps."""
    for number, when, what in itertools.product(range(steps), (BEFORE, AFTER), happenings):
        yield Cut(number, when, what)


def Sweep(cases: Iterable[_Case], sample: int, play: Callable[[_Case], object], name: Callable[[_Case], str]) -> None:
    """Play ``sample`` of the cases, as the seed has it, and fail with all that went wrong; CUTS=10000 plays every one."""
    rest, problems = list(cases), []
    count = min(int(os.environ.get("CUTS", sample)), len(rest))
    for case in random.Random(os.environ.get("SEED", "1")).sample(rest, count):
        try:
            play(case)
        except (AssertionError, errors.GenericError) as err:
            problems.append(f"{name(case)}: {err}")
    assert not problems, f"{len(problems)}:\n" + "\n\n".join(problems)


def SweepCuts(
    steps: Sequence[str], sample: int, play: Callable[[Cut], object], happenings: Sequence[str] = HAPPENINGS
) -> None:
    """Sweep over all that can happen before and after these steps."""
    Sweep(Cuts(len(steps), happenings), sample, play, lambda cut: Told(steps, cut))


def Told(steps: Sequence[str], cut: Cut) -> str:
    return f"{cut.when} '{steps[cut.number]}' {cut.what}"
