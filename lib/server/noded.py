"""ganeti-noded: does on one machine what the master says, and decides nothing.

::

    accept -> greeting complete -> fork -> TLS, both sides show certificates -> request -> its turn -> certificate still good?
                                                                         ^                    -> epoch -> procedure --+
                                                                         +-- kept alive, ended after 15 s without a request

The parent has one thread and never talks to a client.  A child keeps no state between requests.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import backend, constants, daemon, errors, hosts, pathutils, runtime, ssconf
from ganeti.daemon import signals
from ganeti.daemon.memory import LockMemory
from ganeti.http import Incoming, Reply, connection, tls
from ganeti.http.forking import Child, ForkingServer, Helper, Kind, NoTurn, TooManyLate
from ganeti.http.lobby import AnyGreeting, TlsGreeting
from ganeti.rpc.base import MAX_BODY
from ganeti.rpc.longcalls import LONG_CALLS
from ganeti.rpc.procedures import PROCEDURES, STORE_OWNS, STORE_PROCEDURES, TIMEOUTS
from ganeti.rpc.server import Dispatcher
from ganeti.server.longcalls import LongCalls
from ganeti.server.nodepolicy import NodePolicy
from ganeti.server.ownnode import OwnStore
from ganeti.store.copy.node import NodeStore
from ganeti.store.relay import Passer

if TYPE_CHECKING:
    from ganeti.rpc.base import Transport
    from ganeti.runtime import protocols

_HANDSHAKE_TIMEOUT = 10.0
_CONTEXT_TRIES = 3
# Strangers may fill it: what the kernel allows at most.
_BACKLOG = 4096
_TCP_NODELAY = (6, 1)  # IPPROTO_TCP, TCP_NODELAY
# How busy the daemon is must be answered however busy it is.
_WITHOUT_TURNS = STORE_PROCEDURES | {LONG_CALLS}
_WRITE_SSCONF = "write_ssconf_files"
LIMITS = connection.Limits(MAX_BODY)


class NodeServer:
    """Serves connections in forked children."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        key_file: str = pathutils.NODED_CERT_FILE,
        cert_file: str = pathutils.NODED_CERT_FILE,
        use_tls: bool = True,
        lock_memory: bool = True,
        limits: connection.Limits = LIMITS,
        long_calls: LongCalls | None = None,
    ):
        self._dispatcher = dispatcher
        self._long_calls = long_calls or LongCalls()
        self._files = (key_file, cert_file)
        self._policy = NodePolicy(cert_file) if use_tls else None
        self._context: tls.ServerContext | None = None
        self._context_of: tuple[str, ...] = ()
        self._lock_memory = lock_memory
        self._limits = limits

    def LoadContext(self) -> None:
        """Read key and certificate if they changed since the last time."""
        if self._policy is None:
            return
        for left in reversed(range(_CONTEXT_TRIES)):
            digests = self._policy.ServerDigests()
            if digests == self._context_of:
                return
            try:
                self._context = tls.ServerContext(*self._files, self._policy)
            except errors.X509CertError:
                # Key and certificate are read one after the other: the file may just have been replaced.
                if not left:
                    raise
            else:
                self._context_of = digests

    def ServeChild(self, sock: protocols.Socket, child: Child) -> None:
        """Serve one connection from handshake to end; a mistake of the peer ends it with one line in the log."""
        peer = _PeerName(sock)
        runtime.SetThreadName(peer)
        self._long_calls.calls = child.Calls
        if self._lock_memory:
            LockMemory(on_fault=True)
        stream: tls.PlainStream | None = None
        try:
            sock.setsockopt(*_TCP_NODELAY, 1)
            stream = self._OpenStream(sock)
            answer = partial(self._Handle, child, stream)
            connection.Connection(stream, self._limits).Serve(answer, child.OnState, child.Ending)
        except (tls.StreamError, errors.X509CertError) as err:
            logging.log(logging.DEBUG if child.quiet else logging.WARNING, "Connection from %s refused: %s", peer, err)
        except TimeoutError as err:
            logging.info("Connection from %s ended: %s", peer, err.strerror or err)
        except OSError as err:
            logging.info("Connection from %s broke: %s", peer, err)
        finally:
            if stream is not None:
                stream.Close()

    def _Handle(self, child: Child, stream: tls.PlainStream, request: Incoming) -> Reply:
        # A master waits for its store calls only seconds: calls that take hours must not keep them out.
        reserved = request.path.removeprefix("/") in _WITHOUT_TURNS
        try:
            if not child.TakeTurn(reserved, stream.Gone, KindOf(request.path)):
                raise tls.StreamError("it went away while its call waited for its turn")
        except TooManyLate as late:
            return self._dispatcher.Refuse(request.path, late.ages, self._long_calls.Hanging())
        except NoTurn as none:
            return self._dispatcher.RefuseWithoutTurn(request.path, none.seconds, self._long_calls.UnderWay())
        refusal = stream.Refusal()
        if refusal is not None:
            raise tls.StreamError(refusal)
        return self._dispatcher.Handle(request.path, request.headers, request.body, request.method)

    def _OpenStream(self, sock: protocols.Socket) -> tls.PlainStream:
        if self._policy is None:
            return tls.PlainStream(sock)
        self.LoadContext()
        assert self._context is not None
        return self._context.Accept(sock, _HANDSHAKE_TIMEOUT)


def KindOf(path: str) -> Kind:
    """Return the kind of a call: its procedure, and how long callers wait for it."""
    procedure = PROCEDURES.get(path.removeprefix("/"))
    if procedure is None:
        return Kind(0, 0.0)
    # The length of a test's sleep is its argument.
    seconds = TIMEOUTS.get(procedure.timeout, constants.RPC_TMO_1DAY)
    number = 1 + list(PROCEDURES).index(procedure.name)
    return Kind(number, seconds, limited=procedure.name not in STORE_PROCEDURES)


def _PeerName(sock: protocols.Socket) -> str:
    try:
        host, port, *_ = sock.getpeername()
    except (OSError, ValueError):
        return "unknown"
    return f"{host}:{port}"


# The daemon


def _MakeTransport() -> Transport:
    """Return the way to other nodes, which only a call that is passed on needs."""
    from ganeti.rpc.curl import CurlTransport

    return CurlTransport()


def NodeHandlers(
    own: NodeStore, transport: Callable[[], Transport] = _MakeTransport, long_calls: LongCalls | None = None
) -> dict[str, Callable[..., Any]]:
    """Return the procedures of this node.

    A voter writes its ssconf files from its own copy of the store: values that a master sent before the node became a
    voter, or that arrive late, would be older.
    """
    handlers = {**backend.Handlers(), **own.Handlers(), **Passer(own, transport).Handlers()}
    handlers.update((long_calls or LongCalls()).Handlers())
    write = handlers[_WRITE_SSCONF]

    def guarded(*args: Any) -> Any:
        if own.GetState().store_id in own.GetVoters().ids:
            raise errors.RpcCallError(STORE_OWNS)
        return write(*args)

    return {**handlers, _WRITE_SSCONF: guarded}


def _Options() -> list[daemon.Option]:
    return [
        *daemon.NetworkOptions(
            constants.NODED, constants.DEFAULT_NODED_PORT, default_address="this node's primary address"
        ),
        *daemon.SslOptions(pathutils.NODED_CERT_FILE),
        daemon.Option(
            "--no-mlock",
            dest="mlock",
            action="store_false",
            default=True,
            help="Let this daemon be swapped out",
        ),
        daemon.ClientsOption("Calls served at the same time"),
    ]


def _Check(options: Any) -> int:
    daemon.CheckClients(options)
    if not options.ssl:
        _CheckWithoutSsl(options.bind_address)
    elif not runtime.Exists(options.ssl_cert):
        sys.stderr.write(f"{constants.NODED}: {options.ssl_cert} does not exist: this node has not joined a cluster\n")
        return constants.EXIT_NOTCLUSTER
    return 0


def _CheckWithoutSsl(address: str | None) -> None:
    """Reject --no-ssl where others than this machine's own users could reach the daemon."""
    try:
        loopback = address is not None and ipaddress.ip_address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise errors.ParameterError(
            "--no-ssl lets everybody who can connect run anything as root: it needs '-b' with a loopback address, such as"
            " '-b 127.0.0.1', and is for tests on a machine without other users"
        )


class _Prepared(NamedTuple):
    server: NodeServer
    listener: protocols.Socket
    node_store: NodeStore


def _Prepare(options: Any) -> _Prepared:
    node_store = OwnStore()
    long_calls = LongCalls()
    dispatcher = Dispatcher(NodeHandlers(node_store, long_calls=long_calls), node_store)
    server = NodeServer(
        dispatcher, options.ssl_key, options.ssl_cert, options.ssl, options.mlock, long_calls=long_calls
    )
    try:
        server.LoadContext()
        listener = _Listen(options)
    except OSError as err:
        raise errors.GenericError(f"{constants.NODED}: {err.filename or ''} {err.strerror or err}".strip()) from err
    return _Prepared(server, listener, node_store)


def _Listen(options: Any) -> protocols.Socket:
    """Listen on the wanted address, by default this node's primary one: nobody calls a node at another.

    A node whose primary address is not known or not there must be reachable nevertheless, or nobody can repair it from
    the master: it listens on all addresses.
    """
    if options.bind_address is not None:
        return runtime.ListenTcp(str(options.bind_address), options.port, _BACKLOG)
    store = ssconf.SimpleStore()
    primary, family = "", constants.IP4_FAMILY
    try:
        family = store.GetPrimaryIPFamily()
        primary = store.GetNodePrimaryIPs().get(hosts.OwnName(), "")
        if primary:
            return runtime.ListenTcp(primary, options.port, _BACKLOG)
    except (OSError, errors.ConfigurationError) as err:
        # Another daemon on this very port is not a reason to look for other addresses.
        if isinstance(err, OSError) and err.errno == errno.EADDRINUSE:
            raise
        logging.warning("Cannot listen on the primary address only: %s; listening on all addresses", err)
    return runtime.ListenTcp("::" if family == constants.IP6_FAMILY else "", options.port, _BACKLOG)


def _Execute(options: Any, prepared: _Prepared, stop: daemon.StopSignal) -> int:
    parent = runtime.ProcessId()

    def export() -> None:
        # What it writes when it is told to end is not to be left unfinished.
        signals.InterruptAtEnd()
        with contextlib.suppress(KeyboardInterrupt):
            # Its imports are not for the parent, which stays small.
            from ganeti.server.exporting import RunNodeExporter

            # A parent that is killed cannot end its children: one without a parent ends itself.
            RunNodeExporter(prepared.node_store, lambda: os.getppid() != parent)

    if options.mlock:
        LockMemory()
    helpers = [Helper("the exporter", export)]
    judge = TlsGreeting if options.ssl else AnyGreeting
    ForkingServer(prepared.listener, prepared.server.ServeChild, judge, options.max_clients, stop, helpers).Run()
    return 0


def Main() -> int:
    return daemon.GenericMain(constants.NODED, "Ganeti node daemon", _Options(), _Check, _Prepare, _Execute)
