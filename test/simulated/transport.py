"""Calls between simulated machines: a network with faults instead of curl and TLS (tests and tools/simulate).

::

    SimulatedTransport.Submit --> Network: lost? late? twice? --> ServeCalls in the target's process --> Dispatcher
             done(answer) <-- thread "rpc" of the caller <-- lost? late? cut? <-- answer

``Network`` belongs to a World and lives outside the simulated threads; a transport is made inside the process that calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ganeti import runtime
from ganeti.rpc.base import ABORTED, Answer, Failure, Request

if TYPE_CHECKING:
    from ganeti.rpc.server import Dispatcher
    from simulated import Machine, Process, World

_REFUSED = "connection refused: no node daemon listens there"
_TIMED_OUT = "timed out"
_REJECTED = "the node rejected the certificate of this one"
LATE_SECONDS = 40.0


class Network:
    """The wires.  Faults may be set at any time.

    ``lost``, ``late``, ``twice``: chances, for each call and each answer, to vanish, to come up to LATE_SECONDS later, and
    to come a second time (calls only, and only those that a real transport may repeat).  What vanishes shows as a time-out
    or, with the chance ``broken``, as a broken connection.  ``latency``: seconds, least and most; ``slow``: machine name ->
    seconds more.  ``Cut`` and ``Mend`` act on one direction.
    """

    def __init__(self, world: World):
        self.world = world
        self.lost = 0.0
        self.late = 0.0
        self.twice = 0.0
        self.broken = 0.0
        self.latency = (0.0002, 0.002)
        self.slow: dict[str, float] = {}
        self._random = world.NewRandom("network")
        self._cut: set[tuple[str, str]] = set()
        self._servers: dict[str, tuple[Process, Any]] = {}

    def Cut(self, source: str, target: str) -> None:
        """Nothing gets from machine ``source`` to ``target`` any more."""
        self._cut.add((source, target))

    def Mend(self, source: str, target: str) -> None:
        self._cut.discard((source, target))

    def MendAll(self) -> None:
        self._cut.clear()

    def Heal(self) -> None:
        """Ends all faults of the network."""
        self.MendAll()
        self.lost = self.late = self.twice = 0.0
        self.slow.clear()

    def Partition(self, *groups: Iterable[str]) -> None:
        """Machines of different groups cannot reach each other; those in no group are not touched."""
        parts = [list(group) for group in groups]
        for number, part in enumerate(parts):
            for other in parts[number + 1 :]:
                for one in part:
                    for another in other:
                        self._cut |= {(one, another), (another, one)}

    # For transports and servers

    def Register(self, machine: Machine, process: Process, queue: Any) -> None:
        self._servers[machine.name] = (process, queue)

    def Send(self, flight: _Flight) -> None:
        target = self._Find(flight.request.host)
        delay = self._Delay(flight.transport.machine, target)
        self.world.Schedule(delay, lambda: self._Arrive(flight))
        if flight.request.repeatable and self._random.random() < self.twice:
            self.world.Schedule(delay + self._random.uniform(0.0, LATE_SECONDS), lambda: self._Arrive(flight))

    def _Delay(self, *machines: Machine | None) -> float:
        slow = (
            sum(self.slow.get(machine.name, 0.0) for machine in machines if machine is not None) if self.slow else 0.0
        )
        if self.late and self._random.random() < self.late:
            return slow + self._random.uniform(0.0, LATE_SECONDS)
        return slow + self._random.uniform(*self.latency)

    def _IsLost(self, flight: _Flight) -> bool:
        if self._random.random() >= self.lost:
            return False
        if self.broken and self._random.random() < self.broken:
            flight.Finish(Answer("the connection broke", failure=Failure.SILENT))
        return True

    def _Passes(self, source: Machine, target: Machine) -> bool:
        return source.on and target.on and (source.name, target.name) not in self._cut

    def _Arrive(self, flight: _Flight) -> None:
        target = self._Find(flight.request.host)
        source = flight.transport.machine
        if target is None or not self._Passes(source, target):
            self.world.Schedule(
                flight.request.connect_timeout,
                lambda: flight.Finish(Answer(f"connection {_TIMED_OUT}", failure=Failure.UNREACHABLE)),
            )
            return
        if self._IsLost(flight):
            return
        process, queue = self._servers.get(target.name, (None, None))
        if process is None or queue is None or not process.alive:
            self.world.Schedule(
                self._Delay(source, target), lambda: flight.Finish(Answer(_REFUSED, failure=Failure.REFUSED))
            )
            return
        queue.put((source.name, flight.request, lambda answer: self._Return(flight, target, answer)))

    def _Return(self, flight: _Flight, target: Machine, answer: Answer) -> None:
        source = flight.transport.machine
        if self._IsLost(flight):
            return

        def arrive() -> None:
            if self._Passes(target, source):
                flight.Finish(answer)

        self.world.Schedule(self._Delay(source, target), arrive)

    def _Find(self, host: str) -> Machine | None:
        for machine in self.world.machines.values():
            if host in machine.addresses or host == machine.name:
                return machine
        return None


class _Flight:
    """One call under way; it gets one answer, whatever happens."""

    def __init__(self, transport: SimulatedTransport, request: Request, done: Callable[[Answer], None]):
        self.transport = transport
        self.request = request
        self._done: Callable[[Answer], None] | None = done

    def Finish(self, answer: Answer) -> None:
        done, self._done = self._done, None
        if done is not None:
            self.transport.Deliver(self.request, done, answer)


class SimulatedTransport:
    """The transport of one simulated process; make it in one of its threads."""

    def __init__(self, network: Network):
        side: Any = runtime.CurrentSide()
        self.machine: Machine = side.machine
        self._process: Process = side.process
        self._network = network
        self._flights: dict[int, _Flight] = {}
        self._answers = runtime.Queue()
        runtime.Thread(self._Run, "rpc").start()

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        flight = _Flight(self, request, done)
        self._flights[id(request)] = flight
        self._network.world.Schedule(request.timeout, lambda: flight.Finish(Answer(_TIMED_OUT, failure=Failure.SILENT)))
        self._network.Send(flight)

    def Abort(self, request: Request) -> None:
        flight = self._flights.get(id(request))
        if flight is not None:
            flight.Finish(Answer(ABORTED))

    def Close(self) -> None:
        for flight in list(self._flights.values()):
            flight.Finish(Answer(ABORTED))
        self._answers.put(None)

    def Deliver(self, request: Request, done: Callable[[Answer], None], answer: Answer) -> None:
        """For the network: an answer has come; a dead process gets none."""
        self._flights.pop(id(request), None)
        if self._process.alive:
            self._answers.put((done, answer))

    def _Run(self) -> None:
        while True:
            item = self._answers.get()
            if item is None:
                return
            done, answer = item
            done(answer)


def ServeCalls(network: Network, dispatcher: Dispatcher, admits: Callable[[str], bool] | None = None) -> None:
    """Be the node daemon of the calling simulated process: serve calls until the process ends, each on its own thread.

    ``admits(name)``: whether the certificate of that machine is accepted.
    """
    side: Any = runtime.CurrentSide()
    calls = runtime.Queue()
    network.Register(side.machine, side.process, calls)
    while True:
        source, request, reply = calls.get()
        runtime.Thread(_ServeOne, "call", (dispatcher, admits, source, request, reply)).start()


def _ServeOne(
    dispatcher: Dispatcher,
    admits: Callable[[str], bool] | None,
    source: str,
    request: Request,
    reply: Callable[[Answer], None],
) -> None:
    if admits is not None and not admits(source):
        reply(Answer(_REJECTED, failure=Failure.REJECTED))
        return
    headers = {name.lower(): value for name, value in request.headers.items()}
    status, answer_headers, body = dispatcher.Handle(request.path, headers, request.body)
    reply(Answer(None, status, {name.lower(): value for name, value in answer_headers.items()}, body))
