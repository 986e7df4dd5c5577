"""The client's algorithm, without any I/O: whom to ask, which replies count, when to stop waiting.

A request stays pending until it expires, so that the replies of slower peers count, too.  Nothing is sent twice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ganeti import errors, runtime
from ganeti.confd import queries, wire

# Values of ``coverage`` beside a number of peers.
AUTOMATIC = 0
EVERY_PEER = -1
_AUTOMATIC_PEERS = 6

# Seconds after which a request is forgotten.
EXPIRY = 10.0

# The kinds of events.
REPLY = "reply"
EXPIRED = "expired"


class Event(NamedTuple):
    """What happened to a request; ``reply`` and ``address`` (of the peer that sent it) are there for a reply only."""

    kind: str
    rsalt: str
    request: wire.Request
    reply: wire.Reply | None = None
    address: str = ""


class Waiting(NamedTuple):
    """How far a request has come: whether enough peers replied, how many were asked, how many replied."""

    answered: bool
    sent: int
    received: int


@dataclass
class _Pending:
    request: wire.Request
    asked: list[str]
    expires: float
    repliers: set[str] = field(default_factory=set)

    def Peer(self, address: str) -> str | None:
        """Return which of the peers replies from this address, None for somebody who was not asked."""
        # A node that was asked at another of its addresses, such as the cluster's, replies from its main one.
        peer = self.asked[0] if len(self.asked) == 1 else Canonical(address)
        return peer if peer in self.asked else None


def Canonical(address: str) -> str:
    """Return the one way to write an address; raises ValueError for something else."""
    return str(ipaddress.ip_address(address))


def CheckPeers(peers: Sequence[str]) -> list[str]:
    """Return the peers as a list of distinct addresses, in canonical form; raises ConfdClientError if they cannot be asked together."""
    if not peers:
        raise errors.ConfdClientError("No master candidate is known")
    try:
        families = {ipaddress.ip_address(peer).version for peer in peers}
    except ValueError as err:
        raise errors.ConfdClientError(f"Master candidates are asked by address: {err}") from err
    if len(families) > 1:
        raise errors.ConfdClientError(f"Addresses of one family are needed, not of both: {', '.join(peers)}")
    return list(dict.fromkeys(map(Canonical, peers)))


def Needed(sent: int) -> int:
    """Return how many of the peers that were asked have to reply before the newest reply is relied on."""
    if sent < 3:
        return sent
    return sent - 1 if sent < 5 else sent // 2 + 1


class Client:
    """Asks peers and sorts what comes back.

    ``send(datagram, address)`` must not raise; a reply that arrives goes to ``Receive``.  ``callback(event)`` is called for
    every reply and once when a request expires.  One thread at a time.
    """

    def __init__(
        self,
        key: bytes,
        peers: Sequence[str],
        callback: Callable[[Event], None],
        send: Callable[[bytes, str], None],
    ):
        self._key = key
        self._peers = CheckPeers(peers)
        self._callback = callback
        self._send = send
        self._pending: dict[str, _Pending] = {}

    def Targets(self, coverage: int) -> list[str]:
        """Return the peers to be asked, chosen at random; raises ConfdClientError if there are fewer than wanted."""
        known = len(self._peers)
        if coverage == AUTOMATIC:
            count = min(_AUTOMATIC_PEERS, known)
        elif coverage == EVERY_PEER:
            count = known
        elif 0 < coverage <= known:
            count = coverage
        else:
            raise errors.ConfdClientError(f"{coverage} master candidates cannot be asked: there are {known}")
        peers = list(self._peers)
        runtime.Random().shuffle(peers)
        return peers[:count]

    def Send(self, kind: int, query: Any = None, coverage: int = AUTOMATIC, rsalt: str | None = None) -> str:
        """Send a request to as many peers as ``coverage`` says; return its rsalt, by which replies are recognised.

        Raises ConfdClientError for wrong use, UdpDataSizeError for a query that is too large.
        """
        self.Expire()
        rsalt = runtime.NewUuid() if rsalt is None else rsalt
        if rsalt in self._pending:
            raise errors.ConfdClientError(f"A request with the salt '{rsalt}' is pending already")
        if kind not in queries.QUERY_TYPES:
            raise errors.ConfdClientError(f"Unknown query type {kind}")
        request = wire.Request(kind, query, rsalt)
        targets = self.Targets(coverage)
        datagram = wire.PackRequest(self._key, request, runtime.Time())
        self._pending[rsalt] = _Pending(request, targets, runtime.Monotonic() + EXPIRY)
        for address in targets:
            self._send(datagram, address)
        return rsalt

    def Receive(self, datagram: bytes, address: str) -> None:
        """Take a datagram from ``address``; raises BadDatagram if it is not the reply of a peer to a pending request."""
        reply, rsalt = wire.OpenReply(self._key, datagram)
        pending = self._pending.get(rsalt)
        if pending is None:
            raise wire.BadDatagram(wire.REPLAY, "a reply to a question that is not pending")
        peer = pending.Peer(address)
        if peer is None:
            raise wire.BadDatagram(wire.REPLAY, "a reply from an address that was not asked")
        pending.repliers.add(peer)
        self._callback(Event(REPLY, rsalt, pending.request, reply, peer))

    def Expire(self) -> None:
        """Forget the requests whose time is over."""
        now = runtime.Monotonic()
        for rsalt, pending in list(self._pending.items()):
            if pending.expires <= now:
                del self._pending[rsalt]
                self._callback(Event(EXPIRED, rsalt, pending.request))

    def Extend(self, rsalt: str, seconds: float) -> None:
        """Keep a request pending for so much longer."""
        self._Find(rsalt).expires += seconds

    def Progress(self, rsalt: str) -> Waiting:
        """Return how far a pending request has come."""
        pending = self._Find(rsalt)
        received = len(pending.repliers)
        sent = len(pending.asked)
        return Waiting(received >= Needed(sent), sent, received)

    def _Find(self, rsalt: str) -> _Pending:
        pending = self._pending.get(rsalt)
        if pending is None:
            raise errors.ConfdClientError(f"No request with the salt '{rsalt}' is pending")
        return pending
