"""Simulated machines and their processes."""

from __future__ import annotations

import signal as signal_module
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from simulated.disk import Disk
from simulated.side import Side
from simulated.world import SimThread, SimulationError, World

if TYPE_CHECKING:
    import random

    from simulated.programs import Program
    from simulated.sockets import Listener

_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C"}


class Resource(Protocol):
    """What the kernel takes back from a process that ends: locks, sockets, open transactions."""

    def Abandon(self) -> None: ...


class Process:
    """A simulated process: it lives until its first thread returns, or until it is killed.

    ``result`` is what the target returned, ``error`` what it raised; ``exit_code`` None if a signal (``signal``)
    ended it.
    """

    def __init__(self, machine: Machine, name: str, environment: Mapping[str, str] | None):
        self.machine = machine
        self.world = machine.world
        self.name = name
        self.pid = 1000 + self.world.NextSerial()
        self.environment = dict(_ENVIRONMENT if environment is None else environment)
        self.alive = True
        self.paused = False
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.threads: dict[SimThread, None] = {}
        self.parked: dict[SimThread, None] = {}  # would run if the process were not paused
        self.resources: dict[Resource, None] = {}
        self.waiting: list[SimThread] = []  # for its end
        self.side = Side(self)
        self.first: SimThread | None = None
        self._random: random.Random | None = None
        self._next_handle = 3
        self.handles: dict[int, Any] = {}
        self.programs: list[Process] = []  # what RunCmd runs now

    @property
    def label(self) -> str:
        return f"{self.machine.name}/{self.name}[{self.pid}]"

    def __repr__(self) -> str:
        return f"<Process {self.label}>"

    @property
    def random(self) -> random.Random:
        if self._random is None:
            self._random = self.world.NewRandom(self.label)
        return self._random

    def Kill(self, signal: int = signal_module.SIGKILL) -> None:
        """Ends the process at once, wherever its threads are: what they still do has no effect."""
        if self.alive:
            self._End(None, signal)

    def Pause(self) -> None:
        """Its threads stand still (SIGSTOP) while time goes on."""
        self.paused = True
        for thread in list(self.threads):
            self.world.Park(thread)

    def Continue(self) -> None:
        self.paused = False
        for thread in list(self.parked):
            self.world.Enlist(thread)
        self.parked.clear()

    def Deliver(self, signal: int) -> None:
        """A signal arrives."""
        if signal == signal_module.SIGSTOP:
            self.Pause()
        elif signal == signal_module.SIGCONT:
            self.Continue()
        elif signal not in (0, signal_module.SIGCHLD, signal_module.SIGWINCH, signal_module.SIGURG):
            self.Kill(signal)

    def StartThread(self, target: Callable[..., Any], name: str, args: tuple[Any, ...] = ()) -> None:
        """One more thread in this process, from outside."""
        if not self.alive:
            raise SimulationError(f"process {self.label} has ended")
        self.world.Launch(self.NewThread(target, name, args))

    def NewThread(self, target: Callable[..., Any], name: str, args: tuple[Any, ...]) -> SimThread:
        """For the scheduler: not launched yet."""
        return SimThread(self.world, self, target, name, args)

    def NewHandle(self, thing: Any) -> int:
        """A number for ``fileno``."""
        number = self._next_handle
        self._next_handle += 1
        self.handles[number] = thing
        return number

    def ThreadEnded(self, thread: SimThread, result: Any, error: BaseException | None) -> None:
        """A thread of it has returned or failed; with the first one the process ends."""
        if thread is not self.first or not self.alive:
            return
        self.result = result
        if isinstance(error, SystemExit):
            code = error.code
            self._End(code if isinstance(code, int) else int(code is not None), None)
        else:
            self.error = error
            self._End(0 if error is None else 1, None)

    def _End(self, exit_code: int | None, signal: int | None) -> None:
        self.alive = False
        self.paused = False
        self.exit_code = exit_code
        self.signal = signal
        self.machine.processes.pop(self.pid, None)
        for resource in list(self.resources):
            resource.Abandon()
        self.resources.clear()
        self.handles.clear()
        for thread in self.waiting:
            self.world.Wake(thread)
        self.waiting.clear()
        self.world.Kill(list(self.threads))


class Machine:
    """A simulated machine.

    Faults, which can be set at any time: ``disk_full`` (ENOSPC for what needs room), ``disk_broken`` (EIO for everything),
    ``slow_disk`` (seconds that each durable write takes), ``links_files`` (whether its processes may give
    files another name), ``clock_offset`` (of its wall clock).  ``programs``: what
    RunCmd and StartProcess find, by path or name (``programs.Program``).  ``addresses``: where its sockets can be
    reached.  ``committed(path, look)``: called after each database transaction that changed something, with a function
    that reads the database.
    """

    def __init__(self, world: World, name: str, address: str):
        self.world = world
        self.name = name
        self.addresses: dict[str, None] = {address: None}
        self.on = True
        self.disk_full = False
        self.disk_broken = False
        self.slow_disk = 0.0
        self.links_files = True
        self.clock_offset = 0.0
        self.programs: dict[str, Program] = {}
        self.committed: Callable[[str, Callable[[str], list[tuple[Any, ...]]]], None] | None = None
        self.processes: dict[int, Process] = {}
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.datagrams: dict[tuple[str, int], Any] = {}
        self.boot_ns = world.now_ns
        self.disk = Disk(self)

    def __repr__(self) -> str:
        return f"<Machine {self.name}>"

    @property
    def address(self) -> str:
        return next(iter(self.addresses))

    @property
    def wall_clock(self) -> float:
        return self.world.now + self.clock_offset

    def StartProcess(
        self,
        target: Callable[..., Any],
        name: str,
        args: tuple[Any, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Starts a process whose first thread calls ``target``."""
        if not self.on:
            raise SimulationError(f"machine {self.name} is off")
        process = Process(self, name, environment)
        self.processes[process.pid] = process
        process.first = process.NewThread(target, "main", args)
        self.world.Launch(process.first)
        return process

    def Call(self, target: Callable[..., Any], *args: Any) -> Any:
        """Runs ``target`` to its end in a process of its own, the world going on; returns or raises what it does."""
        process = self.StartProcess(target, getattr(target, "__name__", "call"), args)
        self.world.Run(until=lambda: not process.alive)
        if process.error is not None:
            self.world.failures[:] = [each for each in self.world.failures if each.error is not process.error]
            raise process.error
        if process.signal is not None:
            raise SimulationError(f"process {process.label} was killed by signal {process.signal}")
        return process.result

    def PowerOff(self) -> None:
        """The power fails: all processes are gone, and what was not made durable may be."""
        if not self.on:
            return
        self.on = False
        self._KillAll()
        self.disk.LosePower()

    def PowerOn(self) -> None:
        """Boots; starting its daemons is the caller's part."""
        self.on = True
        self.boot_ns = self.world.now_ns

    def WipeDisk(self) -> None:
        """A new, empty disk, put in while the power is off."""
        if self.on:
            raise SimulationError(f"machine {self.name} is on: switch it off before its disk is changed")
        self.disk = Disk(self)

    def Discard(self) -> None:
        """The end of the world: ends all processes."""
        self.on = False
        self._KillAll()
        self.disk.Close()

    def _KillAll(self) -> None:
        for process in list(self.processes.values()):
            process.Kill()
