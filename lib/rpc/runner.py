"""The client of the node daemons: ``call_NAME`` for every row of the table.

A call blocks its thread only; the transport carries all calls of the process.  Large answers are parsed by whoever
looks at the result first, which is the thread that made the call, never the transport's.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import constants, errors, ht, runtime, serializer
from ganeti.metrics import CallTimes
from ganeti.rpc import answers, encoders
from ganeti.rpc.base import (
    HEADER_EPOCH,
    HEADER_MASTER,
    MAX_BODY,
    STATUS_EPOCH_REFUSED,
    STATUS_OK,
    Answer,
    Failure,
    Request,
    Transport,
)
from ganeti.rpc.procedures import BOOTSTRAP, DNS_ONLY, PROCEDURES, STORE_TIMEOUT, WATCHING_PROCEDURES, Procedure
from ganeti.rpc.resolver import ResolveByDns
from ganeti.utils.text import Printable

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc.calls import Calls as _Calls
else:
    # The methods are made below, from the table; the type checker reads them in calls.pyi.
    _Calls = object

NODE_IS_OFFLINE = "Node is marked offline"
NO_INFORMATION = "No error information"
_PARSED_AT_ONCE = 16 * 1024  # bytes; smaller answers cost the transport's thread next to nothing
_SHOWN = 200
# Rows of the store, which only master candidates are asked for, may be of any kind.
_TAKEN_WHOLE = frozenset(["store_fetch"])
# Zero would mean no time-out at all.
_AT_ONCE = 0.05
_MAX_FAILURE = 64 * 1024  # characters of a text that a node sends


class Target(NamedTuple):
    """Where a node is.  ``uuid`` is empty for a node the configuration does not know."""

    name: str
    host: str
    port: int
    offline: bool
    uuid: str = ""


class RpcResult:
    """One node's answer.  Reading ``fail_msg`` or ``payload`` parses it, once.

    ``node`` is what the caller named the node by, ``node_name`` its name.
    """

    def __init__(self, procedure: Procedure, node: str, node_name: str):
        self.procedure = procedure
        self.node = node
        self.node_name = node_name
        self.offline = False
        self.epoch_refused: tuple[str, str] | None = None
        """(newer epoch, name of its master) when the node refused because this process is no longer the master."""
        self.failure: Failure | None = None
        """How far the call got when nothing came back; None if the node answered, whatever it said."""
        self._fail_msg: str | None = None
        self._payload: Any = None
        self._elements: int | None = None
        self._shape: ht.Type | None = None
        self._raw: bytes | None = None

    def _SetAnswer(self, answer: Answer) -> None:
        if answer.status == STATUS_EPOCH_REFUSED:
            epoch = answer.headers.get(HEADER_EPOCH.lower(), "")
            self.epoch_refused = (epoch, answer.headers.get(HEADER_MASTER.lower(), ""))
        if answer.error is not None:
            self.failure = answer.failure
            self._SetFailure(answer.error)
        elif answer.status not in (STATUS_OK, STATUS_EPOCH_REFUSED):
            self._SetFailure(f"HTTP status {answer.status}{_Reason(answer.status, self.procedure.name)}")
        else:
            self._raw = answer.body
            if len(answer.body) <= _PARSED_AT_ONCE:
                self._Parse()

    def _Expect(self, elements: int | None, args: Sequence[Any]) -> None:
        """Remember what the answer depends on: how many elements were asked about, or what exactly."""
        if self.procedure.name in answers.ONE_EACH:
            self._elements = elements
        if self.procedure.name in answers.BY_ARGUMENTS:
            self._shape = answers.BY_ARGUMENTS[self.procedure.name](*args)

    def _SetFailure(self, text: str) -> None:
        self._fail_msg = text or NO_INFORMATION
        if not self.offline and self.procedure.name not in WATCHING_PROCEDURES:
            logging.warning("Call of %s on node %s failed: %s", self.procedure.name, self.node_name, self._fail_msg)

    def _Parse(self) -> None:
        raw, self._raw = self._raw, None
        if raw is None:
            return
        try:
            if self.procedure.name not in _TAKEN_WHOLE:
                # 20 million lists fit into one answer: a node in the wrong hands could fill the master's memory.
                serializer.CheckCost([raw])
            value = serializer.Load(raw, MAX_BODY)
        except errors.ParseError as err:
            self._SetFailure(f"RPC layer error: {err}")
            return
        if not isinstance(value, list):
            self._SetFailure(f"RPC layer error: invalid result type ({type(value).__name__})")
        elif len(value) != 2:
            self._SetFailure(f"RPC layer error: invalid result length ({len(value)}), expected 2")
        elif value[0] is True and (misfit := self._Misfit(value[1])):
            self._SetFailure(f"RPC layer error: invalid answer to {self.procedure.name}, {misfit}")
        elif value[0] is True:
            self._payload = value[1]
        else:
            text = value[1] if isinstance(value[1], str) else serializer.Dump(value[1])[:_SHOWN]
            self._SetFailure(Printable(text[:_MAX_FAILURE], "\n\t"))

    def _Misfit(self, payload: Any) -> str:
        """Say why a payload cannot be an answer to this call; empty if it can."""
        name = self.procedure.name
        if not answers.Fits(name, payload):
            return f"expected {str(answers.ANSWERS[name])[:_SHOWN]}"
        if self._shape is not None and not self._shape(payload):
            return f"expected {str(self._shape)[:_SHOWN]}"
        if self._elements is not None and len(payload) != self._elements:
            return f"it has {len(payload)} entries for {self._elements}"
        return ""

    @property
    def fail_msg(self) -> str | None:
        """Return None on success, else a text that is never empty."""
        self._Parse()
        return self._fail_msg

    @property
    def payload(self) -> Any:
        self._Parse()
        return self._payload

    def Raise(self, msg: str = "", prereq: bool = False, ecode: str = errors.ECODE_ENVIRON) -> None:
        """Raise OpExecError, or OpPrereqError if ``prereq``, when the call failed."""
        if self.fail_msg is None:
            return
        text = f"{msg}: {self.fail_msg}" if msg else self._DefaultText()
        if prereq:
            raise errors.OpPrereqError(text, ecode)
        raise errors.OpExecError(text)

    def Warn(self, msg: str, feedback: Callable[[str], object]) -> bool:
        """Report a failure to ``feedback``; return whether there was one."""
        if self.fail_msg is None:
            return False
        feedback(f"{msg}: {self.fail_msg}" if msg else self._DefaultText())
        return True

    def _DefaultText(self) -> str:
        return f"Call '{self.procedure.name}' to node '{self.node_name}' failed: {self.fail_msg}"

    def __repr__(self) -> str:
        state = "offline" if self.offline else "unread" if self._raw is not None else self._fail_msg or "ok"
        return f"<RpcResult {self.procedure.name} {self.node_name}: {state}>"


def _Reason(status: int, name: str) -> str:
    if status == 404:
        return f": the node has no procedure {name} (another release?)"
    return ""


class _Call:
    """Calls of one procedure to some nodes, and their waiters.  ``limit``: at most so many seconds for each."""

    def __init__(self, done: Callable[[RpcResult], None], limit: float | None = None, name: str = ""):
        self.done = done
        self.name = name
        self.limit = limit
        self.requests: list[Request] = []
        self.aborted = False


# Seconds after which a call is slow, and what is called then.
Notice = tuple[float, Callable[[], object]]


class RpcRunner(_Calls):
    """Calls procedures on nodes.

    ``resolve(node)`` -> (name, host, port, offline[, uuid]), GenericError for a node it does not know; ``epoch()`` ->
    ``NUMBER.RUN`` or None, for calls that change something; ``snapshot()`` -> the configuration, for encoders that
    need it; ``refused(epoch, master, node)`` is called, on any thread, when a node knows a newer master; ``sender`` is this
    node's name, which goes with the epoch.
    """

    def __init__(
        self,
        transport: Transport,
        resolve: Callable[[str], Sequence[Any]],
        epoch: Callable[[], str | None],
        snapshot: Callable[[], objects.Snapshot] | None = None,
        refused: Callable[[str, str, str], None] | None = None,
        sender: str = "",
    ):
        self._transport = transport
        self._resolve = resolve
        self._epoch = epoch
        self._snapshot = snapshot
        self._refused = refused
        self._sender = sender
        self._lock = runtime.Lock()
        self._by_thread: dict[int, _Call] = {}
        self._patience: dict[int, tuple[float, float]] = {}
        self._notices: dict[int, Sequence[Notice]] = {}
        self.times = CallTimes()

    def Start(
        self,
        name: str,
        nodes: Iterable[str],
        args: Sequence[Any],
        done: Callable[[RpcResult], None],
        limit: float | None = None,
    ) -> None:
        """Start a call on each node; ``done(result)`` is called once per node, on any thread, and must not block.

        A node that cannot be called (unknown, offline) is answered for before this returns.  ``limit`` shortens the
        procedure's time-out.
        """
        self._Submit(PROCEDURES[name], list(nodes), args, _Call(done, limit))

    @contextmanager
    def Within(self, each: float, together: float) -> Iterator[None]:
        """Shorten the time-outs of the calls that this thread makes meanwhile, for looks under locks that others wait for.

        ``each``: seconds for a call; ``together``: seconds after which those that are left fail at once.
        """
        ident = runtime.ThreadIdent()
        self._patience[ident] = (each, runtime.Monotonic() + together)
        try:
            yield
        finally:
            del self._patience[ident]

    def _Limit(self, ident: int) -> float | None:
        patience = self._patience.get(ident)
        return None if patience is None else max(min(patience[0], patience[1] - runtime.Monotonic()), _AT_ONCE)

    @contextmanager
    def Noticing(self, notices: Sequence[Notice]) -> Iterator[None]:
        """Call each of ``notices`` on this thread when the next call that it makes has taken so many seconds; in ascending order.

        The call goes on meanwhile; a notice must not make one.
        """
        ident = runtime.ThreadIdent()
        self._notices[ident] = notices
        try:
            yield
        finally:
            self._notices.pop(ident, None)

    def Abort(self, thread_ident: int, only: str | None = None, still: Callable[[], bool] = lambda: True) -> int:
        """End the calls that a thread waits for, which become failures; return their number.

        ``only``: those of one procedure; ``still()``: whether the thread is at work for whom the caller means, looked at once
        the calls are known.  What the nodes did with them stays unknown: only the waiting ends.
        """
        with self._lock:
            call = self._by_thread.get(thread_ident)
            if call is None or only not in (None, call.name) or not still():
                return 0
            call.aborted = True
            requests = list(call.requests)
        for request in requests:
            self._transport.Abort(request)
        return len(requests)

    def _CallMany(self, procedure: Procedure, nodes: Iterable[str], args: Sequence[Any]) -> dict[str, RpcResult]:
        """Call every node in parallel and wait for all."""
        wanted = list(dict.fromkeys(nodes))
        results: dict[str, RpcResult] = {}
        ready = runtime.Event()
        lock = runtime.Lock()

        def done(result: RpcResult) -> None:
            with lock:
                results[result.node] = result
                complete = len(results) == len(wanted)
            if complete:
                ready.set()

        if not wanted:
            return results
        ident = runtime.ThreadIdent()
        call = _Call(done, self._Limit(ident), procedure.name)
        with self._lock:
            self._by_thread[ident] = call
        try:
            self._Submit(procedure, wanted, args, call)
            notices, began = self._notices.pop(ident, ()), runtime.Monotonic()
            for after, notice in notices:
                if not ready.wait(max(began + after - runtime.Monotonic(), 0.0)):
                    notice()
            # No time-out here: the transport ends every request at its own one.
            ready.wait()
        finally:
            with self._lock:
                self._by_thread.pop(ident, None)
        for result in results.values():
            _ = result.fail_msg
        return {node: results[node] for node in wanted}

    def _CallOne(self, procedure: Procedure, node: str, args: Sequence[Any]) -> RpcResult:
        return self._CallMany(procedure, [node], args)[node]

    def _Submit(self, procedure: Procedure, nodes: list[str], args: Sequence[Any], call: _Call) -> None:
        if len(args) != len(procedure.args):
            names = ", ".join(arg.name for arg in procedure.args)
            raise errors.ProgrammerError(f"{procedure.name} takes ({names}), {len(args)} arguments given")
        headers = {"Content-Type": "application/json", "User-Agent": f"Ganeti {constants.RELEASE_VERSION}"}
        if procedure.changes:
            epoch = self._epoch()
            if epoch is not None:
                headers[HEADER_EPOCH] = epoch
                headers[HEADER_MASTER] = self._sender
        snapshot = self._snapshot() if self._snapshot is not None else None
        body = encoders.Body(procedure, args, snapshot)
        seconds = procedure.Seconds(args) if call.limit is None else min(call.limit, procedure.Seconds(args))
        ready: list[tuple[Request, RpcResult]] = []
        failed: list[RpcResult] = []
        for node in nodes:
            try:
                target = self._Target(procedure, node)
            except errors.GenericError as err:
                result = RpcResult(procedure, node, node)
                result.failure = Failure.UNREACHABLE
                result._SetFailure(str(err))
                failed.append(result)
                continue
            result = RpcResult(procedure, node, target.name)
            if target.offline and not procedure.offline_too:
                result.offline = True
                result.failure = Failure.NOT_SENT
                result._SetFailure(NODE_IS_OFFLINE)
                failed.append(result)
                continue
            written = body.For(node, target.uuid)
            result._Expect(written.elements, args)
            request = Request(
                target.name,
                target.host,
                target.port,
                f"/{procedure.name}",
                written.data,
                headers,
                constants.RPC_CONNECT_TIMEOUT,
                seconds,
                repeatable=not procedure.changes,
                urgent=procedure.timeout == STORE_TIMEOUT,
            )
            ready.append((request, result))
        with self._lock:
            call.requests = [request for request, _ in ready]
        for result in failed:
            call.done(result)
        for request, result in ready:
            self._transport.Submit(request, self._Completion(result, call))
        if call.aborted:
            for request, _ in ready:
                self._transport.Abort(request)

    def _Target(self, procedure: Procedure, node: str) -> Target:
        try:
            return Target(*self._resolve(node))
        except errors.GenericError:
            if procedure.resolver not in (DNS_ONLY, BOOTSTRAP):
                raise
        # A node that is about to join is not in the configuration yet, and one that has to leave no longer is.
        return Target(*ResolveByDns(node))

    def _Completion(self, result: RpcResult, call: _Call) -> Callable[[Answer], None]:
        def complete(answer: Answer) -> None:
            failed = answer.error is not None or answer.status != STATUS_OK
            self.times.Observe(result.node_name, result.procedure.name, answer.seconds, failed)
            result._SetAnswer(answer)
            # Without a newer epoch the call itself was wrong, not the master.
            if result.epoch_refused is not None and result.epoch_refused[0] and self._refused is not None:
                self._refused(*result.epoch_refused, result.node)
            call.done(result)

        return complete


def _MakeMethod(procedure: Procedure) -> Callable[..., Any]:
    """Make ``call_NAME(node, *args)`` for one row; arguments by position or by the names of the table."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = "nodes" if procedure.multi else "node"
    names = [first, *(arg.name for arg in procedure.args)]
    # An argument of the table may itself be called "node".
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in ["self", *names]])

    def call(self: RpcRunner, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs).args
        if procedure.multi:
            if isinstance(bound[1], str):
                raise errors.ProgrammerError(f"{procedure.name} takes a list of nodes")
            return self._CallMany(procedure, bound[1], bound[2:])
        return self._CallOne(procedure, bound[1], bound[2:])

    call.__name__ = f"call_{procedure.name}"
    call.__qualname__ = f"RpcRunner.{call.__name__}"
    call.__doc__ = _MethodDoc(procedure)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _MethodDoc(procedure: Procedure) -> str:
    lines = [procedure.doc, ""]
    lines += [f"``{arg.name}``: {arg.enc}" for arg in procedure.args]
    lines.append(
        f"{'A list of nodes' if procedure.multi else 'One node'}; time-out {procedure.timeout}; "
        f"{'changes something' if procedure.changes else 'changes nothing'}."
    )
    return "\n".join(lines)


def _AddMethods(table: Mapping[str, Procedure]) -> None:
    for procedure in table.values():
        setattr(RpcRunner, f"call_{procedure.name}", _MakeMethod(procedure))


_AddMethods(PROCEDURES)
