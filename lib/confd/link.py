"""A client with a socket, for programs that ask and wait."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ganeti import constants, errors, hosts, pathutils, renewal, runtime, ssconf
from ganeti.confd import callbacks, client, wire

TIMEOUT = 10.0
# The file holds 41 bytes.
_MAX_KEY = 4096
_NO_CLUSTER = "is this a node of the cluster? Elsewhere the key has to be copied from one, and given to the program"


class Result(NamedTuple):
    """What came of a question; ``reply`` is the newest one, None if nobody replied.

    ``timed_out``: too few of the peers replied to rely on it.  ``inconsistent``: peers contradict each other.
    """

    reply: wire.Reply | None
    timed_out: bool
    inconsistent: bool
    sent: int
    received: int


def Port() -> int:
    """Return the port of ganeti-confd."""
    return hosts.DaemonPort(constants.CONFD, constants.DEFAULT_CONFD_PORT, "udp")


def Peers() -> list[str]:
    """Return the addresses of the master candidates, as this node knows them; raises ConfigurationError."""
    return ssconf.SimpleStore().GetMasterCandidatesIPList()


def OwnAddress() -> str:
    """Return where the daemon of this node answers: in a virtual cluster, whose nodes share a machine, its own address."""
    return hosts.OwnHost().ip if pathutils.IsVirtual() else "127.0.0.1"


def ReadKey(path: str | None = None) -> bytes:
    """Return the cluster's key, or the one in ``path``; raises ConfigurationError if it cannot be read."""
    path = pathutils.CONFD_HMAC_KEY if path is None else path
    try:
        key = runtime.ReadFile(path, _MAX_KEY)
    except (OSError, runtime.FileTooLarge) as err:
        reason = err.strerror if isinstance(err, OSError) else str(err)
        raise errors.ConfigurationError(f"The key {path} cannot be read: {reason}", hint=_NO_CLUSTER) from err
    # Anybody could sign with an empty key.
    if not key.strip():
        raise errors.ConfigurationError(f"The key {path} is empty", hint=_NO_CLUSTER)
    return key


def ReadKeys() -> tuple[bytes, ...]:
    """Return the cluster's key, and those that are accepted beside it while it is renewed (doc/design-renew-crypto.rst)."""
    path, *others = renewal.Paths(pathutils.CONFD_HMAC_KEY)
    return (ReadKey(path), *(ReadKey(other) for other in others if runtime.Exists(other)))


class Link:
    """A Client on a socket of its own; close it, or use it in a ``with`` block.  One thread at a time."""

    def __init__(
        self, key: bytes, peers: Sequence[str], callback: Callable[[client.Event], None], port: int | None = None
    ):
        self._port = Port() if port is None else port
        self.client = client.Client(key, peers, callback, self._Transmit)
        self._socket = runtime.OpenUdp("::" if ":" in peers[0] else "")

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *exc: object) -> None:
        self.Close()

    def Close(self) -> None:
        self._socket.close()

    def _Transmit(self, datagram: bytes, address: str) -> None:
        try:
            self._socket.sendto(datagram, (address, self._port))
        except OSError as err:
            # The others may be reached; one that is not asked does not answer.
            logging.debug("A question to confd on %s could not be sent: %s", address, err)

    def Send(self, kind: int, query: Any = None, coverage: int = client.AUTOMATIC) -> str:
        """Ask, and return the rsalt; see ``Client.Send``."""
        return self.client.Send(kind, query, coverage)

    def WaitForReply(self, rsalt: str, timeout: float = TIMEOUT, from_all: bool = False) -> client.Waiting:
        """Wait until enough peers have replied, or all with ``from_all``; after ``timeout`` seconds ``answered`` is False.

        The callback is called on the way, also for other pending requests.
        """
        self.client.Extend(rsalt, timeout)
        end = runtime.Monotonic() + timeout
        while True:
            progress = self.client.Progress(rsalt)
            if from_all:
                progress = progress._replace(answered=progress.received == progress.sent)
            left = end - runtime.Monotonic()
            if progress.answered or left <= 0:
                return progress
            self._ReceiveOne(left)

    def _ReceiveOne(self, timeout: float) -> None:
        self._socket.settimeout(timeout)
        try:
            datagram, sender = self._socket.recvfrom(wire.MAX_DATAGRAM + 1)
        except TimeoutError:
            return
        try:
            self.client.Receive(datagram, sender[0])
        except wire.BadDatagram as err:
            logging.debug("A datagram from %s is dropped: %s", sender[0], err)


def Ask(
    kind: int,
    query: Any = None,
    peers: Sequence[str] | None = None,
    coverage: int = client.AUTOMATIC,
    timeout: float = TIMEOUT,
    key: bytes | None = None,
) -> Result:
    """Ask peers (default: the master candidates) once and return the newest reply.

    Raises ConfdClientError for wrong use, ConfigurationError if this node's files do not say whom to ask or lack the key.
    """
    store = callbacks.StoreCallback()
    news = callbacks.FilterCallback(store)
    with Link(ReadKey() if key is None else key, Peers() if peers is None else peers, news) as link:
        rsalt = link.Send(kind, query, coverage)
        waiting = link.WaitForReply(rsalt, timeout)
    newest = store.Newest(rsalt)
    reply = None if newest is None else newest.reply
    return Result(reply, not waiting.answered, news.IsInconsistent(rsalt), waiting.sent, waiting.received)
