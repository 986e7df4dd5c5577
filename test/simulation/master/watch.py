"""What masters call on nodes: who sent it, who did it when, and that nobody acts who must not (rule 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulated.transport import Network, SimulatedTransport
from simulation.harness.ledger import Violation

from ganeti import errors, runtime, serializer
from ganeti.http import Reply
from ganeti.rpc.base import HEADER_EPOCH, Answer, Request
from ganeti.rpc.procedures import PROCEDURES, STORE_PROCEDURES
from ganeti.rpc.server import Dispatcher
from ganeti.store import Epoch

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ganeti.rpc.base import Gate
    from ganeti.rpc.server import Handler

# A thread that was about to send when its master was refused may still do so; virtual seconds.
GRACE = 0.05
DELAY = "test_delay"


@dataclass
class _Served:
    """What one node has seen."""

    promised: Epoch | None = None
    # Changing calls being carried out: (epoch, procedure) -> how many.
    running: Counter[tuple[Epoch, str]] = field(default_factory=Counter)
    newest: Epoch | None = None


class CallWatch:
    """All calls of one cluster.  ``check(right, text)`` takes what must hold."""

    def __init__(self, now: Callable[[], float], check: Callable[[Callable[..., None]], None]):
        self._now = now
        self._check = check
        self._nodes: dict[str, _Served] = {}
        # process -> when its master was told that it is one no more
        self._refused: dict[Hashable, float] = {}
        # (duration, node) of test_delay -> how often it was asked for
        self.delays: Counter[tuple[float, str]] = Counter()
        self.changing = 0

    def Refused(self, process: Hashable) -> None:
        """A master has heard of a newer one."""
        self._refused.setdefault(process, self._now())

    def Sent(self, process: Hashable, request: Request) -> None:
        name = request.path.removeprefix("/")
        if name == DELAY:
            self.delays[serializer.Load(request.body)[0], request.node] += 1
        since = self._refused.get(process)
        if PROCEDURES[name].changes and HEADER_EPOCH in request.headers and since is not None:
            late = self._now() - since
            self._Must(
                late <= GRACE, f"a master that was refused calls {name} on {request.node} {late:.3f} seconds later"
            )

    def Promised(self, node: str, epoch: Epoch) -> None:
        served = self._nodes.setdefault(node, _Served())
        if served.promised is None or epoch > served.promised:
            served.promised = epoch

    def Begins(self, node: str, name: str, epoch: Epoch) -> None:
        """A node begins to carry out a changing call."""
        self.changing += 1
        served = self._nodes.setdefault(node, _Served())
        self._Must(
            served.promised is None or epoch >= served.promised,
            f"on {node} {name} of epoch {epoch} begins after epoch {served.promised} was promised",
        )
        others = [
            f"{other} of epoch {older}" for (older, other), count in served.running.items() if count and older != epoch
        ]
        self._Must(not others, f"on {node} {name} of epoch {epoch} runs beside {', '.join(others)}")
        self._Must(
            served.newest is None or epoch >= served.newest,
            f"on {node} {name} of epoch {epoch} begins after one of epoch {served.newest}",
        )
        served.newest = epoch
        served.running[epoch, name] += 1

    def Ends(self, node: str, name: str, epoch: Epoch) -> None:
        self._nodes[node].running[epoch, name] -= 1

    def _Must(self, right: bool, text: str) -> None:
        def fail() -> None:
            if not right:
                raise Violation(text)

        self._check(fail)


class WatchedTransport(SimulatedTransport):
    """Tells what its master sends."""

    def __init__(self, network: Network, watch: CallWatch):
        super().__init__(network)
        side: Any = runtime.CurrentSide()
        self._who = side.process
        self._watch = watch

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        self._watch.Sent(self._who, request)
        super().Submit(request, done)


class WatchedDispatcher(Dispatcher):
    """Tells what a node carries out."""

    def __init__(self, handlers: Mapping[str, Handler], gate: Gate, node: str, watch: CallWatch):
        self._node = node
        self._watch = watch
        # The epoch of the call that the calling thread serves.
        self._call = runtime.Local()
        super().__init__({name: self._Watched(name, handler) for name, handler in handlers.items()}, gate)

    def Handle(self, path: str, headers: Mapping[str, str], body: bytes, method: str = "POST") -> Reply:
        self._call.epoch = headers.get(HEADER_EPOCH.lower())
        return super().Handle(path, headers, body, method)

    def _Watched(self, name: str, handler: Handler) -> Handler:
        if name in STORE_PROCEDURES:
            return self._WatchedPromise(handler)
        if not PROCEDURES[name].changes:
            return handler

        def run(*args: Any) -> Any:
            if self._call.epoch is None:
                return handler(*args)
            epoch = Epoch.Parse(self._call.epoch)
            self._watch.Begins(self._node, name, epoch)
            try:
                return handler(*args)
            finally:
                self._watch.Ends(self._node, name, epoch)

        return run

    def _WatchedPromise(self, handler: Handler) -> Handler:
        def run(message: Any) -> Any:
            answer = handler(message)
            if isinstance(answer, dict) and "refused" not in answer and isinstance(message.get("epoch"), str):
                try:
                    self._watch.Promised(self._node, Epoch.Parse(message["epoch"]))
                except errors.ParseError:
                    pass  # store_status names no epoch
            return answer

        return run
