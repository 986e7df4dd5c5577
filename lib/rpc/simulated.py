"""The transport of simulations: requests go through a network with faults to noded processes of simulated machines.

::

    Submit --(delay, loss, cut, repetition)--> a thread in the target's noded process: Dispatcher.Handle
    done   <--(delay, loss, cut)-------------- its answer; done runs in a thread of the caller's process

What happens to each request is drawn from the world's seed.  Used by tests and ``tools/simulate`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ganeti import runtime
from ganeti.rpc.base import ABORTED, Answer, Request

if TYPE_CHECKING:
    from ganeti.rpc.server import Dispatcher, Reply
    from ganeti.runtime.simulated import Machine, Process, World

CLOSED = "the RPC transport is closed"


@dataclass
class Faults:
    """How bad the network is; chances are from 0 to 1, times in seconds.  May be changed while the world runs.

    ``late``: a request that stays under way for up to ``late_delay`` and so may arrive after its caller gave up.
    ``repeat``: a request that arrives twice; only those may that a real transport would repeat (``Request.repeatable``).
    """

    min_delay: float = 0.0001
    max_delay: float = 0.002
    lose_request: float = 0.0
    lose_answer: float = 0.0
    repeat: float = 0.0
    late: float = 0.0
    late_delay: float = 30.0
    slow: dict[str, float] = field(default_factory=dict)
    """Machine name -> seconds more for everything from and to it."""


class Network:
    """Which machines serve, and what stands between them."""

    def __init__(self, world: World, faults: Faults | None = None):
        self.world = world
        self.faults = faults or Faults()
        self.random = world.NewRandom("network")
        self.delivered = 0
        """Requests that reached a dispatcher, repeated ones included."""
        self._nodeds: dict[str, _Noded] = {}
        self._cuts: set[tuple[str, str]] = set()

    # Machines

    def Serve(self, machine: Machine, make_dispatcher: Callable[[], Dispatcher]) -> Process:
        """Starts noded on a machine.  ``make_dispatcher`` runs in its process, which serves until it is killed or the
        power fails; then call this again."""
        noded = _Noded(make_dispatcher)
        noded.process = machine.StartProcess(noded.Run, "ganeti-noded")
        self._nodeds[machine.name] = noded
        return noded.process

    def Transport(self) -> SimulatedTransport:
        """For the calling process; call it inside of it."""
        return SimulatedTransport(self)

    # Faults

    def Cut(self, source: str, target: str) -> None:
        """Nothing goes from one machine to the other any more; the other way stays open."""
        self._cuts.add((source, target))

    def Partition(self, *groups: Iterable[str]) -> None:
        """Machines of different groups cannot reach each other.  Machines in no group are not touched."""
        parts = [list(group) for group in groups]
        for i, part in enumerate(parts):
            for other in parts[i + 1 :]:
                for a in part:
                    for b in other:
                        self._cuts |= {(a, b), (b, a)}

    def Isolate(self, name: str) -> None:
        for other in self.world.machines:
            if other != name:
                self._cuts |= {(name, other), (other, name)}

    def Heal(self, source: str | None = None, target: str | None = None) -> None:
        """Takes cuts back: all, or the one from ``source`` to ``target``."""
        if source is None or target is None:
            self._cuts.clear()
        else:
            self._cuts.discard((source, target))

    def IsOpen(self, source: str, target: str) -> bool:
        return source == target or (source, target) not in self._cuts

    # For the transports

    def Find(self, host: str) -> Machine | None:
        """The machine with this address or name."""
        for machine in self.world.machines.values():
            if host == machine.name or host in machine.addresses:
                return machine
        return None

    def NodedOf(self, machine: Machine) -> _Noded | None:
        noded = self._nodeds.get(machine.name)
        return noded if noded is not None and noded.IsUp() else None

    def Delay(self, *machines: str) -> float:
        faults = self.faults
        slow = sum(faults.slow.get(name, 0.0) for name in machines)
        return self.random.uniform(faults.min_delay, faults.max_delay) + slow

    def Happens(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance


class _Noded:
    """A noded process: its dispatcher, once it has made it."""

    def __init__(self, make_dispatcher: Callable[[], Dispatcher]):
        self._make_dispatcher = make_dispatcher
        self.process: Process | None = None
        self.dispatcher: Dispatcher | None = None

    def Run(self) -> None:
        self.dispatcher = self._make_dispatcher()
        runtime.Event().wait()

    def IsUp(self) -> bool:
        return self.process is not None and self.process.alive and self.dispatcher is not None


class _Call:
    """One request of one caller, answered at most once."""

    def __init__(self, request: Request, done: Callable[[Answer], None], process: Process | None):
        self.request = request
        self.done = done
        self.process = process
        self.answered = False


class SimulatedTransport:
    """One process's way to the others."""

    def __init__(self, network: Network):
        self._network = network
        self._world = network.world
        self._calls: dict[Request, _Call] = {}
        self._closed = False

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        thread = self._world.current
        call = _Call(request, done, thread.process if thread is not None else None)
        if self._closed:
            self._Answer(call, Answer(CLOSED))
            return
        self._calls[request] = call
        self._Send(call)

    def Abort(self, request: Request) -> None:
        call = self._calls.get(request)
        if call is not None:
            self._Answer(call, Answer(ABORTED))

    def Close(self) -> None:
        self._closed = True
        for call in list(self._calls.values()):
            self._Answer(call, Answer(CLOSED))

    # There

    def _Send(self, call: _Call) -> None:
        network, request = self._network, call.request
        source = call.process.machine.name if call.process is not None else ""
        machine = network.Find(request.host)
        where = f"node {request.node} ({request.host}:{request.port})"
        if machine is None or not machine.on or not network.IsOpen(source, machine.name):
            self._Fail(call, request.connect_timeout, f"{where}: time-out: nobody answers")
            return
        if not network.IsOpen(machine.name, source) and network.Happens(0.5):
            # A new connection cannot come to be; over an old one the request still arrives.
            self._Fail(call, request.connect_timeout, f"{where}: time-out: nobody answers")
            return
        delay = network.Delay(source, machine.name)
        if network.NodedOf(machine) is None:
            self._Fail(call, 2 * delay, f"{where}: cannot connect: connection refused")
            return
        self._Fail(call, request.timeout, f"{where}: time-out: no answer in {request.timeout:g} seconds")
        if network.Happens(network.faults.lose_request):
            self._MaybeBreak(call, delay, where)
            return
        if network.Happens(network.faults.late):
            delay += network.random.uniform(0, network.faults.late_delay)
        self._world.Schedule(delay, lambda: self._Arrive(call, machine))
        if request.repeatable and network.Happens(network.faults.repeat):
            again = delay + network.Delay(source, machine.name) * network.random.choice((1, 1, 10, 1000))
            self._world.Schedule(again, lambda: self._Arrive(call, machine))

    def _MaybeBreak(self, call: _Call, delay: float, where: str) -> None:
        """What was lost shows as a broken connection, or as nothing but a time-out."""
        if self._network.Happens(0.5):
            self._Fail(call, delay, f"{where}: the connection broke")

    def _Arrive(self, call: _Call, machine: Machine) -> None:
        noded = self._network.NodedOf(machine) if machine.on else None
        if noded is None or noded.process is None:
            return
        self._network.delivered += 1
        thread = noded.process.NewThread(self._Serve, "call", (call, machine, noded))
        self._world.Launch(thread)

    def _Serve(self, call: _Call, machine: Machine, noded: _Noded) -> None:
        """Runs in the noded process."""
        request = call.request
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert noded.dispatcher is not None
        reply = noded.dispatcher.Handle(request.path, headers, request.body)
        self._SendBack(call, machine, reply)

    # And back

    def _SendBack(self, call: _Call, machine: Machine, reply: Reply) -> None:
        network = self._network
        source = call.process.machine.name if call.process is not None else ""
        delay = network.Delay(source, machine.name)
        if not network.IsOpen(machine.name, source):
            return
        if network.Happens(network.faults.lose_answer):
            self._MaybeBreak(call, delay, f"node {call.request.node}")
            return
        status, headers, body = reply
        answer = Answer(None, status, {name.lower(): value for name, value in headers.items()}, body)
        self._world.Schedule(delay, lambda: self._Answer(call, answer))

    def _Fail(self, call: _Call, delay: float, text: str) -> None:
        self._world.Schedule(delay, lambda: self._Answer(call, Answer(text)))

    def _Answer(self, call: _Call, answer: Answer) -> None:
        """The first answer counts; ``done`` runs in the caller's process, if that still lives."""
        if call.answered:
            return
        call.answered = True
        self._calls.pop(call.request, None)
        if call.process is None:
            call.done(answer)
        elif call.process.alive:
            self._world.Launch(call.process.NewThread(call.done, "rpc", (answer,)))
