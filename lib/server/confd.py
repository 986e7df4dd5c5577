"""ganeti-confd: answers signed questions about the configuration, on every master candidate (doc/confd.rst).

::

    datagram --> Gate --> Answer --> datagram          the main thread; never waits, never writes
                            |
    config.data, hmac.key --'--- Loader.state          its own thread: reads the files anew when they change

What is not a question of a holder of the key gets no answer: to a sender that may be forged there is nothing to send.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from ganeti import constants, daemon, errors, hosts, pathutils, runtime, ssconf
from ganeti.confd import link, queries, wire
from ganeti.confd.answers import Answer, Failure
from ganeti.confd.view import View
from ganeti.daemon import memory
from ganeti.server.confdload import Loader
from ganeti.utils.text import Printable
from ganeti.utils.trouble import Trouble

# Lets the main thread answer while the configuration is read.
_SWITCH_INTERVAL = 0.0005
# Datagrams that are taken before the poller is asked whether to stop.
_BATCH = 64
# Bytes of questions that may wait while the processor is busy with something else.
_ROOM = 4 << 20
# Seconds between two log lines about dropped datagrams.
_LOG_EVERY = 60.0

NO_ANSWER = "no answer"
DROPPED: Final = {**wire.REASONS, NO_ANSWER: "this node is not a master candidate, or the answer could not be sent"}
"""Why a datagram gets no answer, and what that means; the keys of the counters."""


class Tally:
    """Counts what is dropped, and logs it now and then: a flood must not fill the disk."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._recent: Counter[str] = Counter()
        self._log_at = 0.0

    def Drop(self, reason: str, sender: str, text: str) -> None:
        self.total[reason] += 1
        self._recent[reason] += 1
        now = runtime.Monotonic()
        if now < self._log_at:
            return
        self._log_at = now + _LOG_EVERY
        logging.warning(
            "Dropped datagrams: %s; the last one, from %s: %s", _Counted(self._recent), sender, Printable(text)
        )
        self._recent.clear()


def _Counted(counts: Counter[str]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))


class Server:
    """Answers what comes in at a socket, in one thread."""

    def __init__(self, sock: Any, loader: Loader):
        self._socket = sock
        self._loader = loader
        self._gate = wire.Gate(runtime.Time())
        self._trouble = Trouble("Questions could not be answered")
        self.tally = Tally()
        self.answered = 0
        sock.setblocking(False)

    def Run(self, stop: daemon.StopSignal) -> None:
        """Serve until ``stop`` is set."""
        poller = runtime.Poller()
        poller.Register(self._socket, runtime.IN)
        poller.Register(stop, runtime.IN)
        while not stop.is_set():
            poller.Poll()
            self._TakeBatch()
        logging.info(
            "Answered %d questions; dropped datagrams: %s", self.answered, _Counted(self.tally.total) or "none"
        )

    def _TakeBatch(self) -> None:
        for _ in range(_BATCH):
            try:
                data, sender = self._socket.recvfrom(wire.MAX_DATAGRAM + 1)
            except BlockingIOError:
                return
            except OSError as err:  # such as a message about an earlier answer that did not arrive
                self.tally.Drop(NO_ANSWER, "unknown", str(err))
                continue
            reply = self.Handle(data, sender[0])
            if reply is not None:
                self._Transmit(reply, sender)

    def _Transmit(self, reply: bytes, sender: Any) -> None:
        try:
            self._socket.sendto(reply, sender)
            self.answered += 1
        except OSError as err:
            self.tally.Drop(NO_ANSWER, sender[0], f"the answer cannot be sent: {err}")

    def Handle(self, data: bytes, sender: str) -> bytes | None:
        """Return the datagram to answer with, None for no answer."""
        state = self._loader.state
        if not state.keys:
            self.tally.Drop(NO_ANSWER, sender, "this node does not answer questions")
            return None
        try:
            key, request = self._Open(state.keys, data)
        except wire.BadDatagram as err:
            self.tally.Drop(err.reason, sender, str(err))
            return None
        reply = Failure(state.failure) if state.view is None else self._Answer(state.view, request)
        return wire.PackReply(key, reply, request.rsalt)

    def _Open(self, keys: Sequence[bytes], data: bytes) -> tuple[bytes, wire.Request]:
        """Return the key that a question is signed with, and the question; raises BadDatagram."""
        now = runtime.Time()
        for key in keys[:-1]:
            try:
                return key, self._gate.Open(key, data, now)
            except wire.BadDatagram as err:
                if err.reason != wire.SIGNATURE:
                    raise
        return keys[-1], self._gate.Open(keys[-1], data, now)

    def _Answer(self, view: View, request: wire.Request) -> wire.Reply:
        """Return the answer; an error of ours or of the configuration ends this question only."""
        try:
            return Answer(view, request)
        except errors.GenericError as err:
            return Failure(str(err))
        except Exception as err:
            logging.debug("While a question was answered", exc_info=True)
            self._trouble.Log(f"query of type {request.kind}: {type(err).__name__}: {err}")
            return wire.Reply(queries.ERROR, queries.INTERNAL, 0)


def _Check(options: Any) -> int:
    del options
    try:
        link.ReadKey()
    except errors.ConfigurationError as err:
        sys.stderr.write(f"{constants.CONFD}: {err}: this node has not joined a cluster\n")
        return constants.EXIT_NOTCLUSTER
    return 0


def _Address(given: str | None) -> str:
    """Return the address to listen on: all of them, as in 3.1; in a virtual cluster, where nodes share a machine, one."""
    if given is not None:
        return given
    try:
        ipv6 = ssconf.SimpleStore().GetPrimaryIPFamily() == constants.IP6_FAMILY
    except errors.ConfigurationError:
        ipv6 = False
    if pathutils.IsVirtual():
        return hosts.OwnHost(ipv6).ip
    return "::" if ipv6 else ""


def _Prepare(options: Any) -> tuple[Server, Loader]:
    sys.setswitchinterval(_SWITCH_INTERVAL)
    memory.ShareArenas()
    try:
        sock = runtime.OpenUdp(_Address(options.bind_address), options.port, _ROOM)
    except OSError as err:
        raise errors.GenericError(f"{constants.CONFD}: {err.strerror or err}") from err
    loader = Loader()
    loader.Look()
    return Server(sock, loader), loader


def _Execute(options: Any, prepared: tuple[Server, Loader], stop: daemon.StopSignal) -> int:
    del options
    server, loader = prepared
    runtime.Thread(loader.Run, "loader").start()
    server.Run(stop)
    return 0


def Main() -> int:
    options = daemon.NetworkOptions(constants.CONFD, constants.DEFAULT_CONFD_PORT, "udp")
    return daemon.GenericMain(constants.CONFD, "Ganeti configuration daemon", options, _Check, _Prepare, _Execute)
