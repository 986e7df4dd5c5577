"""The scheduler of a simulation: one baton, handed from thread to thread in an order that the seed decides.

Simulated threads are real threads, of which only the one that holds the baton runs.  At each of its runtime calls
(``Reach``) it may hand the baton on; when it has to wait (``Block``) it must.  Time is a number: it grows by STEP_NS
with each step and jumps to the next timer when no thread can run.  ``Run``'s caller holds the baton between runs and
for scheduled callables.
"""

from __future__ import annotations

import heapq
import logging
import random
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ganeti import runtime
from ganeti.runtime import real
from simulated import pool

if TYPE_CHECKING:
    from simulated.machine import Machine, Process

START = 1_700_000_000

# What a step takes: so that a loop that only looks at the clock comes to an end.
STEP_NS = 10_000

_NEVER = 1 << 62


class Killed(BaseException):
    """The simulated process of this thread is dead: every runtime call raises this again and changes nothing."""


class SimulationError(Exception):
    """The simulation was used wrongly or cannot go on."""


class Deadlock(SimulationError):
    """Threads wait, and nothing will ever wake one of them."""


class StepsExceeded(SimulationError):
    """The condition did not come true within the steps allowed."""


class Failure:
    """An exception that a simulated thread did not catch."""

    __slots__ = ("error", "process", "text", "thread")

    def __init__(self, process: Process, thread: str, error: BaseException):
        self.process = process
        self.thread = thread
        self.error = error
        self.text = "".join(traceback.format_exception(error))

    def __repr__(self) -> str:
        return f"<Failure of {self.process.label}, thread {self.thread}: {self.error!r}>"


class SimThread:
    """One simulated thread, as the scheduler sees it."""

    __slots__ = (
        "args",
        "blocked",
        "doing",
        "finished",
        "gate",
        "ident",
        "joiners",
        "killed",
        "locals",
        "name",
        "process",
        "slot",
        "target",
        "wait",
        "woken",
        "worker",
        "world",
    )

    def __init__(self, world: World, process: Process, target: Callable[..., Any], name: str, args: tuple[Any, ...]):
        self.world = world
        self.process = process
        self.target: Callable[..., Any] | None = target
        self.name = name
        self.args = args
        self.ident = 0
        self.worker: pool.Worker | None = None
        self.gate: Any = None  # its worker's
        self.slot = -1  # where it stands among the runnable ones
        self.blocked = False
        self.woken = False
        self.wait = 0  # number of its waits, so that the timer of an earlier one is known as stale
        self.killed = False
        self.finished = False
        self.doing = "start"
        self.joiners: list[SimThread] = []
        self.locals: dict[Any, dict[str, Any]] = {}

    @property
    def label(self) -> str:
        return f"{self.process.label}/{self.name}"


class World:
    """One simulation: machines, their processes, and time.

    ``seed`` decides everything that is left to chance.  ``switch`` is the chance that a step hands the baton on, from
    the seed if not given.  ``trace``: None, or the list of all steps ``(number, nanoseconds, thread, what, detail)``.
    ``watchdog``: real seconds a thread may keep the baton before we think that it waits for something that is not
    simulated.
    """

    watchdog = 30.0

    def __init__(self, seed: int, switch: float | None = None, trace: bool = False):
        self.seed = seed
        self._rng = random.Random(f"world {seed}")
        self.random = self._rng.random
        self.switch = self._rng.choice((0.1, 0.4, 1.0)) if switch is None else switch
        self.steps = 0
        self.failures: list[Failure] = []
        self.machines: dict[str, Machine] = {}
        self.trace: list[tuple[int, int, str, str, str]] | None = [] if trace else None
        self.current: SimThread | None = None
        self.closed = False
        self._start_ns = START * 1_000_000_000
        self._now = self._start_ns
        self._runnable: list[SimThread] = []
        self._doomed: deque[SimThread] = deque()
        self._timers: list[tuple[int, int, SimThread | None, Any]] = []
        self._timer_at = _NEVER
        self._timer_serial = 0
        self._due: list[Callable[[], Any]] = []
        self._threads: dict[SimThread, None] = {}
        self._serial = 0
        self._gate = threading.Lock()  # where Run's caller waits
        self._gate.acquire()
        self._until: Callable[[], Any] | None = None
        self._met = False
        self._inline = False  # a condition is looked at
        self._error: BaseException | None = None
        self._limit = _NEVER
        self._single = False
        self._unwinding = False
        self._lost = False

    # For tests

    @property
    def now(self) -> float:
        return self._now / 1e9

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the simulation."""
        return (self._now - self._start_ns) / 1e9

    def AddMachine(self, name: str, address: str | None = None) -> Machine:
        """A new machine, switched on, with an empty disk."""
        from simulated.machine import Machine

        if name in self.machines:
            raise SimulationError(f"there is a machine {name} already")
        number = len(self.machines) + 1
        machine = Machine(self, name, address or f"10.0.{number >> 8}.{number & 255}")
        self.machines[name] = machine
        return machine

    def Schedule(self, delay: float, action: Callable[[], Any]) -> None:
        """Calls ``action`` after ``delay`` virtual seconds, between two steps, outside any simulated thread."""
        self._AddTimer(self._now + max(0, round(delay * 1e9)), None, action)

    def Run(self, until: Callable[[], Any] | None = None, max_steps: int | None = None) -> bool:
        """Goes on until ``until`` is true, all processes have ended, or that many more steps are done.

        True, or False if the steps ran out.  With ``until`` it must come true: else StepsExceeded, Deadlock or
        SimulationError.
        """
        self._CheckOutside("Run")
        self._until = until
        self._met = False
        self._limit = _NEVER if max_steps is None else self.steps + max_steps
        try:
            with pool.Pin():
                return self._Loop(until)
        finally:
            self._until = None
            self._met = False
            self._limit = _NEVER

    def RunFor(self, seconds: float) -> None:
        """Goes on for this much virtual time."""
        end = self._now + round(seconds * 1e9)
        self._AddTimer(end, None, lambda: None)
        self.Run(until=lambda: self._now >= end)

    def Step(self) -> bool:
        """Lets one thread go on to its next runtime call, or time jump to the next timer; False if all has ended."""
        self._CheckOutside("Step")
        self._RunDue()
        chosen = self._Choose()
        if chosen is None:
            if self._due:
                self._RunDue()
                return True
            if self._threads:
                raise Deadlock(self._Dump("every thread waits, and no timer will wake one"))
            return False
        self._single = True
        try:
            self._Resume(chosen)
        finally:
            self._single = False
        return True

    def Close(self) -> None:
        """Ends all threads; the world cannot be used any more."""
        if self.closed:
            return
        if self._lost:  # Run was interrupted: the thread that has the baton comes back at its next step
            self._single = True
            if not self._gate.acquire(timeout=self.watchdog):
                raise SimulationError(self._Dump("a thread does not come back"))
            self._lost = False
            self._single = False
        self._CheckOutside("Close")
        self._until = None
        self._limit = _NEVER
        for machine in self.machines.values():
            machine.Discard()
        self.closed = True
        self._timers.clear()
        self._due.clear()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exc: object) -> None:
        self.Close()

    # For the objects of the simulation

    @property
    def now_ns(self) -> int:
        return self._now

    def NextSerial(self) -> int:
        """A number that was not given before, for pids, threads and the like."""
        self._serial += 1
        return self._serial

    def Shuffle(self, items: list[Any]) -> None:
        if len(items) > 1:
            self._rng.shuffle(items)

    def RandomBelow(self, n: int) -> int:
        return self._rng.randrange(n)

    def NewRandom(self, name: str) -> random.Random:
        """A generator of its own for a process, from the seed."""
        return random.Random(f"{self.seed} {name}")

    def Reach(self, what: str, detail: str = "") -> SimThread | None:
        """A step: the calling thread has come to a runtime call.  Returns it, None for a caller outside all threads.

        Another thread may run before it goes on.  Raises Killed if it is dead, before or after that.
        """
        thread = self.current
        if thread is None:
            self._CheckForeign(what)
            return None
        if thread.killed:
            raise Killed
        thread.doing = what
        self.steps += 1
        self._now += STEP_NS
        if self.trace is not None:
            self.trace.append((self.steps, self._now - self._start_ns, thread.label, what, detail))
        if self._now >= self._timer_at:
            self._FireTimers()
        if self._until is not None:
            self._LookInline()
            if thread.killed:
                raise Killed
        if self._doomed or thread.slot < 0 or self._MustStop():
            self._HandOver(thread, self._Next())
        else:
            count = len(self._runnable)
            if count > 1:
                chance = self.random()
                if chance < self.switch:
                    chosen = self._runnable[int(chance / self.switch * count) % count]
                    if chosen is not thread:
                        self._HandOver(thread, chosen)
        if thread.killed:
            raise Killed
        return thread

    def Block(self, timeout: float | None = None) -> bool:
        """The calling thread waits for Wake: True, or False when ``timeout`` seconds are over.  Comes after Reach."""
        thread = self.current
        if thread is None:
            raise SimulationError("only a simulated thread can wait")
        if thread.killed:
            raise Killed
        thread.woken = False
        thread.blocked = True
        thread.wait += 1
        self._Unlist(thread)
        if timeout is not None:
            self._AddTimer(self._now + max(0, round(timeout * 1e9)), thread, thread.wait)
        chosen = self._Next()
        if chosen is not thread:
            self._HandOver(thread, chosen)
        if thread.killed:
            raise Killed
        return thread.woken

    def Wake(self, thread: SimThread) -> None:
        """Ends a thread's wait, if it waits."""
        if thread.blocked:
            thread.blocked = False
            thread.woken = True
            self.Enlist(thread)

    def Enlist(self, thread: SimThread) -> None:
        """Makes a thread runnable, unless its process is paused."""
        if thread.process.paused:
            thread.process.parked[thread] = None
        elif thread.slot < 0:
            thread.slot = len(self._runnable)
            self._runnable.append(thread)

    def Park(self, thread: SimThread) -> None:
        """Keeps a runnable thread of a paused process from running."""
        if thread.slot >= 0:
            self._Unlist(thread)
            thread.process.parked[thread] = None

    def Launch(self, thread: SimThread) -> None:
        """A new thread becomes runnable."""
        if self.closed:
            raise SimulationError("this world is closed")
        thread.ident = self.NextSerial()
        thread.worker = pool.Take()
        thread.worker.load = thread
        thread.gate = thread.worker.gate
        self._threads[thread] = None
        thread.process.threads[thread] = None
        self.Enlist(thread)

    def Kill(self, threads: list[SimThread]) -> None:
        """Dooms threads: each ends by Killed before any other goes on, the calling one at its next step."""
        for thread in threads:
            if thread.finished or thread.killed:
                continue
            thread.killed = True
            thread.blocked = False
            thread.process.parked.pop(thread, None)
            self._Unlist(thread)
            if thread is not self.current and not (self._inline and thread is self._asking):
                self._doomed.append(thread)
        if self.current is None and not self._inline:
            self._Unwind()

    def Carry(self, thread: SimThread) -> None:
        """The life of a thread, on its worker, from its first turn to its last."""
        process = thread.process
        worker = thread.worker
        assert worker is not None
        runtime.EnterSide(process.side)
        worker.name = thread.name
        failed: BaseException | None = None
        result: Any = None
        try:
            if not thread.killed:
                assert thread.target is not None
                result = thread.target(*thread.args)
        except Killed:
            pass
        except BaseException as err:  # noqa: BLE001 (noted below)
            failed = err
        finally:
            runtime.EnterSide(real)
        if not thread.killed:
            if failed is not None:
                failed = self._Note(thread, failed)
            self._Unlist(thread)
            process.parked.pop(thread, None)
            process.ThreadEnded(thread, result, failed)
        thread.target = None  # frees what it held
        thread.args = ()
        thread.locals.clear()
        thread.finished = True
        self._threads.pop(thread, None)
        process.threads.pop(thread, None)
        for joiner in thread.joiners:
            self.Wake(joiner)
        chosen = self._Next()
        self.current = chosen
        gate = self._gate if chosen is None else chosen.gate
        pool.GiveBack(worker)
        gate.release()

    # The baton

    def _Note(self, thread: SimThread, error: BaseException) -> BaseException | None:
        """Records an uncaught exception; a plain exit is none."""
        if isinstance(error, SystemExit):
            return error
        self.failures.append(Failure(thread.process, thread.name, error))
        logging.error("Thread %s ended by an error", thread.label, exc_info=error)
        return error

    def _HandOver(self, thread: SimThread, chosen: SimThread | None) -> None:
        """The baton goes to ``chosen`` (None: Run's caller); returns when it has come back."""
        self.current = chosen
        (self._gate if chosen is None else chosen.gate).release()
        thread.gate.acquire()

    def _Resume(self, thread: SimThread) -> None:
        """The baton goes from Run's caller to ``thread``; returns when it has come back."""
        self.current = thread
        thread.gate.release()
        steps = self.steps
        try:
            while not self._gate.acquire(timeout=self.watchdog):
                if steps == self.steps:
                    raise SimulationError(
                        self._Dump(
                            f"thread {self.current.label if self.current else '?'} has not come to a runtime call for"
                            f" {self.watchdog:g} real seconds: it waits for something that is not simulated, or loops"
                        )
                    )
                steps = self.steps
        except BaseException:
            self._lost = True
            raise
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _Next(self) -> SimThread | None:
        """Who is to have the baton when the thread that has it stops; None for Run's caller."""
        if self._doomed:
            return self._doomed.popleft()
        return None if self._unwinding or self._MustStop() else self._Choose()

    def _MustStop(self) -> Any:
        """Whether Run's caller wants the baton."""
        return self._due or self._met or self._single or self.steps >= self._limit or self._error is not None

    def _Choose(self) -> SimThread | None:
        """A runnable thread; time jumps until there is one.  None: nothing to run, or a callable is due."""
        runnable = self._runnable
        while True:
            if runnable:
                return runnable[int(self.random() * len(runnable))] if len(runnable) > 1 else runnable[0]
            timers = self._timers
            while timers and self._Stale(timers[0]):
                heapq.heappop(timers)
            if not timers:
                self._timer_at = _NEVER
                return None
            self._now = max(self._now, timers[0][0])
            self._FireTimers()
            if self._due:
                return None

    def _Loop(self, until: Callable[[], Any] | None) -> bool:
        while True:
            self._RunDue()
            if self._met or (until is not None and until()):
                return True
            if self.steps >= self._limit:
                if until is not None:
                    raise StepsExceeded(self._Dump(f"the condition is still not true after {self.steps} steps"))
                return False
            chosen = self._Next()
            if chosen is not None:
                self._Resume(chosen)
            elif self._due:
                continue
            elif self._threads:
                raise Deadlock(self._Dump("every thread waits, and no timer will wake one"))
            elif until is None:
                return True
            else:
                raise SimulationError("every process has ended, and the condition is not true")

    def _RunDue(self) -> None:
        while self._due:
            self._due.pop(0)()

    def _Unwind(self) -> None:
        """Lets the doomed threads end; their last acts have no effect any more."""
        self._unwinding = True
        try:
            while self._doomed:
                self._Resume(self._doomed.popleft())
        finally:
            self._unwinding = False

    def _LookInline(self) -> None:
        """Looks at the condition on the thread that has the baton, as if outside."""
        assert self._until is not None
        thread = self.current
        assert thread is not None
        self._asking = thread
        self._inline = True
        self.current = None
        runtime.EnterSide(real)
        try:
            self._met = bool(self._until())
        except BaseException as err:  # noqa: BLE001 (Run raises it)
            self._error = err
        finally:
            runtime.EnterSide(thread.process.side)
            self.current = thread
            self._inline = False

    _asking: SimThread | None = None

    # Timers

    def _AddTimer(self, when: int, thread: SimThread | None, what: Any) -> None:
        self._timer_serial += 1
        heapq.heappush(self._timers, (when, self._timer_serial, thread, what))
        if when < self._timer_at:
            self._timer_at = when

    @staticmethod
    def _Stale(timer: tuple[int, int, SimThread | None, Any]) -> bool:
        thread = timer[2]
        return thread is not None and not (thread.blocked and thread.wait == timer[3])

    def _FireTimers(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)
            thread = timer[2]
            if thread is None:
                self._due.append(timer[3])
            elif not self._Stale(timer):
                thread.blocked = False
                self.Enlist(thread)
        self._timer_at = timers[0][0] if timers else _NEVER

    def _Unlist(self, thread: SimThread) -> None:
        slot = thread.slot
        if slot >= 0:
            last = self._runnable.pop()
            if last is not thread:
                self._runnable[slot] = last
                last.slot = slot
            thread.slot = -1

    # Misuse

    def _CheckOutside(self, what: str) -> None:
        if self.closed:
            raise SimulationError(f"{what}: this world is closed")
        if self._lost:
            raise SimulationError(f"{what}: this world was interrupted, it can only be closed")
        if self.current is not None or self._inline:
            raise SimulationError(f"{what} may not be called by a simulated thread or within a condition")

    def _CheckForeign(self, what: str) -> None:
        """Objects of a world may be looked at from outside, but not by threads of another world."""
        if runtime.CurrentSide() is not real:
            raise SimulationError(
                f"{what}: this object belongs to another world; was it made while a module was imported?"
            )

    def _Dump(self, reason: str) -> str:
        frames = sys._current_frames()
        parts = [f"seed {self.seed}, step {self.steps}, {self.elapsed:.3f} seconds: {reason}"]
        for thread in self._threads:
            state = "waits in" if thread.blocked else "is at"
            parts.append(f"\n{thread.label} {state} {thread.doing}:")
            frame = frames.get(thread.worker.ident or 0) if thread.worker else None
            stack = traceback.extract_stack(frame) if frame is not None else []
            ours = [
                entry for entry in stack if "/runtime/simulated/" not in entry.filename and entry.name != "_bootstrap"
            ]
            parts.extend(line.rstrip() for line in traceback.format_list(ours) if "threading.py" not in line)
        return "\n".join(parts)
