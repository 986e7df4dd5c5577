"""Calls of the store by way of another candidate, to a node that does not know this one's certificate (rule 14).

::

    master C --- call ---> N: it rejects the certificate of C
        |
        +--- store_relay (the call, whole) ---> H: is this the epoch promised here?  --- the call ---> N
        <------- the answer of N, whole --------+

N was away while C became a candidate, so its list of certificates lacks that of C; H is a candidate that N knows.  What is
passed on brings N the rows, or the list itself, and from then on C talks to N without help.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, runtime, serializer
from ganeti.rpc.base import HEADER_EPOCH, HEADER_MASTER, MAX_BODY, STATUS_OK, Answer, Failure, Request
from ganeti.rpc.resolver import NodedPort
from ganeti.store.base import EpochTooOld, Member
from ganeti.store.messages import Message

if TYPE_CHECKING:
    from ganeti.rpc.base import Transport
    from ganeti.store.copy.node import NodeStore

RELAY = "store_relay"
STATUS = "store_status"
WRITE_SSCONF = "write_ssconf_files"
RELAYED = frozenset(
    [
        "store_promise",
        "store_append",
        "store_catchup",
        "store_copy",
        "store_empty",
        "store_fetch",
        STATUS,
        WRITE_SSCONF,
    ]
)
"""The calls that are passed on: those by which a node learns who may call it, and how far it is."""

CALL_SECONDS = 10.0
PASS_SECONDS = 7.0
"""How long a helper waits for the node; less than its caller waits for it."""

MAX_HELPERS = 5
MAX_AT_ONCE = 4
"""Calls that wait for helpers at a time, so that many nodes that reject this one keep no helper from its own work."""

MAX_TEXT = MAX_BODY // 2
_HEADERS = {"Content-Type": "application/json", "User-Agent": f"Ganeti {constants.RELEASE_VERSION}"}


class _Errand:
    """One rejected call, and the helpers that are still to be asked."""

    def __init__(self, request: Request, done: Callable[[Answer], None], answer: Answer, helpers: Iterable[Member]):
        self.request = request
        self.done = done
        self.answer = answer
        self.helpers = deque(helpers)
        self.asked: Request | None = None
        self.aborted = False


class Relay:
    """A transport whose rejected calls of ``RELAYED`` are made once more through other candidates, one after the other.

    ``common()``: cluster, epoch and master of the caller; ``helpers()``: candidates that answer.  Both are called on any thread.
    """

    def __init__(
        self, transport: Transport, common: Callable[[], Mapping[str, str]], helpers: Callable[[], Iterable[Member]]
    ):
        self._transport = transport
        self._common = common
        self._helpers = helpers
        self._port = NodedPort()
        self._lock = runtime.Lock()
        self._errands: dict[Request, _Errand] = {}
        self._waiting: deque[_Errand] = deque()
        self._running = 0
        # Node -> the helper that it accepted last; None where it accepted nobody.
        self._known: dict[str, str | None] = {}

    # As a transport

    def Submit(self, request: Request, done: Callable[[Answer], None]) -> None:
        if request.path.removeprefix("/") not in RELAYED:
            self._transport.Submit(request, done)
            return
        self._transport.Submit(request, lambda answer: self._Answered(request, done, answer))

    def Abort(self, request: Request) -> None:
        with self._lock:
            errand = self._errands.get(request)
            asked = None if errand is None else errand.asked
            if errand is not None:
                errand.aborted = True
        self._transport.Abort(request if asked is None else asked)

    def Close(self) -> None:
        self._transport.Close()

    # What was rejected

    def _Answered(self, request: Request, done: Callable[[Answer], None], answer: Answer) -> None:
        if answer.failure is not Failure.REJECTED:
            if answer.error is None:
                self._known.pop(request.node, None)
            done(answer)
            return
        good = self._known.get(request.node)
        helpers = sorted(
            (helper for helper in self._helpers() if helper.name != request.node),
            key=lambda helper: (helper.name != good, helper.name),
        )
        if not helpers:
            # There is no quorum either, or it is a start that knows nobody yet: whoever waits for that hears it.
            done(answer)
            return
        errand = _Errand(request, done, answer, helpers[:MAX_HELPERS])
        with self._lock:
            self._errands[request] = errand
            self._waiting.append(errand)
        self._Begin()

    def _Begin(self) -> None:
        """Begin errands as long as there is room."""
        while True:
            with self._lock:
                if self._running >= MAX_AT_ONCE or not self._waiting:
                    return
                self._running += 1
                errand = self._waiting.popleft()
            self._Next(errand)

    def _Next(self, errand: _Errand) -> None:
        """Ask the next helper; the call has failed where none is left."""
        if errand.aborted or not errand.helpers:
            if not errand.aborted:
                self._NobodyHelps(errand.request.node)
            self._End(errand, errand.answer)
            return
        helper = errand.helpers.popleft()
        request = errand.request
        message: dict[str, Any] = {
            **({} if request.path == f"/{STATUS}" else self._common()),
            "node": request.node,
            "procedure": request.path.removeprefix("/"),
            "body": request.body.decode(errors="replace"),
        }
        errand.asked = Request(
            helper.name,
            helper.address,
            self._port,
            f"/{RELAY}",
            serializer.DumpBytes([message]),
            _HEADERS,
            request.connect_timeout,
            CALL_SECONDS,
            urgent=True,
        )
        self._transport.Submit(errand.asked, lambda answer: self._Helped(errand, helper, answer))

    def _Helped(self, errand: _Errand, helper: Member, answer: Answer) -> None:
        """Take the helper's answer, which holds that of the node or says why there is none."""
        node = errand.request.node
        found, reason = ReadRelayed(answer)
        if found is None:
            logging.info("Node %s cannot pass calls on to node %s: %s", helper.name, node, reason)
            self._Next(errand)
            return
        if self._known.get(node) != helper.name:
            logging.warning(
                "Node %s rejects the certificate of this node, which became a candidate while it was away; node %s passes"
                " the store's calls on to it until it knows",
                node,
                helper.name,
            )
        self._known[node] = helper.name
        self._End(errand, found)

    def _NobodyHelps(self, node: str) -> None:
        if self._known.get(node, "") is None:
            return
        self._known[node] = None
        logging.warning(
            "Node %s rejects the certificate of this node, and no other candidate that answers could pass calls on to it: %s",
            node,
            HintUnknown(node),
        )

    def _End(self, errand: _Errand, answer: Answer) -> None:
        with self._lock:
            self._errands.pop(errand.request, None)
            self._running -= 1
        errand.done(answer)
        self._Begin()


def HintUnknown(node: str) -> str:
    """Return the hint for a node that rejects the master's certificate although it belongs to the cluster."""
    return (
        f"if it was away while this node became a candidate, 'gnt-node add --readd {node}' takes it in again, and so does"
        " 'gnt-cluster master-failover' on a candidate that it knows"
    )


def ReadRelayed(answer: Answer) -> tuple[Answer | None, str]:
    """Return the node's answer that a helper's answer holds, or None and why it holds none."""
    if answer.error is not None or answer.status != STATUS_OK:
        return None, answer.error or f"HTTP status {answer.status}"
    try:
        value = serializer.Load(answer.body, MAX_BODY)
    except errors.ParseError as err:
        return None, str(err)
    if not isinstance(value, list) or len(value) != 2 or value[0] is not True or not isinstance(value[1], dict):
        return None, str(value[1])[:200] if isinstance(value, list) and len(value) == 2 else "its answer makes no sense"
    payload = value[1]
    status, headers, body = payload.get("status"), payload.get("headers"), payload.get("body")
    if not isinstance(status, int) or not isinstance(headers, dict) or not isinstance(body, str):
        return None, str(payload.get("failure") or payload.get("refused") or "its answer makes no sense")[:200]
    return Answer(None, status, {str(name): str(text) for name, text in headers.items()}, body.encode()), ""


class Passer:
    """The node that passes calls on.  ``transport()`` makes the way to other nodes, with this node's own certificate."""

    def __init__(self, own: NodeStore, transport: Callable[[], Transport]):
        self._own = own
        self._transport = transport

    def Handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {RELAY: self.Pass}

    def Pass(self, value: dict[str, Any]) -> dict[str, Any]:
        """Make a master's call of another node, and return what it answers.

        Only a call of the very epoch that this node has promised is passed on; a newer one is promised thereby, as by every
        call of the store.
        """
        procedure, node, body = value.get("procedure"), value.get("node"), value.get("body")
        if not isinstance(procedure, str) or procedure not in RELAYED:
            raise errors.RpcCallError("this call is not passed on")
        if not isinstance(node, str) or not isinstance(body, str) or len(body) > MAX_TEXT:
            raise errors.RpcCallError("a call that is to be passed on must name a node and have a body")
        headers = dict(_HEADERS)
        if procedure != STATUS:
            message = Message(value)
            if procedure != WRITE_SSCONF:
                _CheckSameEpoch(message, body)
            try:
                self.Admit(message)
            except EpochTooOld as err:
                return {"refused": str(err.newer), "master": err.master}
            if procedure == WRITE_SSCONF:
                headers.update({HEADER_EPOCH: str(message.epoch), HEADER_MASTER: message.master})
        return self._Call(self._Find(node), procedure, body, headers)

    def Admit(self, message: Message) -> None:
        """Raise EpochTooOld for the call of a master that was replaced, as far as this node knows."""
        self._own.Promise(message.cluster, message.epoch, message.master)

    def _Find(self, name: str) -> Member:
        """Return the node of this cluster that has the name, by the own copy; no other machine is called."""
        for voter in self._own.GetVoters().by_uuid.values():
            if voter.member.name == name:
                return voter.member
        for row in self._own.ReadChecked(("node",)):
            node = serializer.Load(row.value) if row.value is not None else None
            if isinstance(node, dict) and node.get("name") == name:
                return Member(row.id, name, str(node.get("primary_ip", "")))
        raise errors.RpcCallError(f"node {self._own.node_name} knows no node {name!r:.200}")

    def _Call(self, member: Member, procedure: str, body: str, headers: dict[str, str]) -> dict[str, Any]:
        request = Request(
            member.name,
            member.address,
            NodedPort(),
            f"/{procedure}",
            body.encode(),
            headers,
            constants.RPC_CONNECT_TIMEOUT,
            PASS_SECONDS,
            urgent=True,
        )
        answers: list[Answer] = []
        ready = runtime.Event()

        def done(answer: Answer) -> None:
            answers.append(answer)
            ready.set()

        transport = self._transport()
        try:
            transport.Submit(request, done)
            # The transport ends every request at its own time-out.
            ready.wait()
        finally:
            transport.Close()
        answer = answers[0]
        if answer.error is not None:
            return {"failure": f"{member.name} {(answer.failure or Failure.SILENT).value}: {answer.error}"}
        if len(answer.body) > MAX_TEXT:
            raise errors.RpcCallError(f"the answer of node {member.name} is too large to be passed on")
        kept = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        return {"status": answer.status, "headers": kept, "body": answer.body.decode(errors="replace")}


_KEPT_HEADERS = (HEADER_EPOCH.lower(), HEADER_MASTER.lower())


def _CheckSameEpoch(message: Message, body: str) -> None:
    """Raise RpcCallError unless the call inside names the epoch that was checked."""
    inner = serializer.Load(body)
    if isinstance(inner, list) and len(inner) == 1:
        inner = inner[0]
    if not isinstance(inner, dict) or (inner.get("cluster"), inner.get("epoch")) != (
        message.cluster,
        str(message.epoch),
    ):
        raise errors.RpcCallError(
            "the call that is to be passed on is not of the cluster and epoch that its message names"
        )
