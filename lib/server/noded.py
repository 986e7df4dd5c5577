"""ganeti-noded: does on one machine what the master says, and decides nothing.

::

    accept -> fork -> TLS, both sides show certificates -> request -> certificate still good? -> epoch -> procedure
                                                             ^------ kept alive, ended after 15 s without a request

The parent has one thread and never talks to a client.  A child keeps no state between requests.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import backend, constants, daemon, errors, pathutils, runtime
from ganeti.backend.files import STORE_OWNS
from ganeti.daemon.memory import LockMemory
from ganeti.rpc import http, tls
from ganeti.rpc.server import Dispatcher, Reply
from ganeti.server.forking import Child, ForkingServer, Helper
from ganeti.server.ownnode import OwnStore
from ganeti.store.node import NodeStore

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_HANDSHAKE_TIMEOUT = 10.0
_BACKLOG = 128
_TCP_NODELAY = (6, 1)  # IPPROTO_TCP, TCP_NODELAY
_WRITE_SSCONF = "write_ssconf_files"
LIMITS = http.Limits()


class NodeServer:
    """Serves connections in forked children."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        key_file: str = pathutils.NODED_CERT_FILE,
        cert_file: str = pathutils.NODED_CERT_FILE,
        use_tls: bool = True,
        lock_memory: bool = True,
        limits: http.Limits = LIMITS,
    ):
        self._dispatcher = dispatcher
        self._files = (key_file, cert_file)
        self._policy = tls.NodePolicy(cert_file) if use_tls else None
        self._context: tls.ServerContext | None = None
        self._context_of = ""
        self._lock_memory = lock_memory
        self._limits = limits

    def LoadContext(self) -> None:
        """Reads key and certificate if they changed since."""
        if self._policy is None:
            return
        digest = self._policy.ServerDigest()
        if digest != self._context_of:
            self._context = tls.ServerContext(*self._files, self._policy)
            self._context_of = digest

    def ServeChild(self, sock: protocols.Socket, child: Child) -> None:
        """One connection, from handshake to end; what a peer does wrong ends it with one line in the log."""
        peer = _PeerName(sock)
        runtime.SetThreadName(peer)
        if self._lock_memory:
            LockMemory(on_fault=True)
        stream: tls.PlainStream | None = None
        try:
            sock.setsockopt(*_TCP_NODELAY, 1)  # type: ignore[attr-defined]
            stream = self._OpenStream(sock)
            http.Connection(stream, self._limits).Serve(self._Handle, child.OnState, child.Ending)
        except (tls.StreamError, errors.X509CertError) as err:
            logging.warning("Connection from %s refused: %s", peer, err)
        except TimeoutError as err:
            logging.info("Connection from %s ended: %s", peer, err.strerror or err)
        except OSError as err:
            logging.info("Connection from %s broke: %s", peer, err)
        finally:
            if stream is not None:
                stream.Close()

    def _Handle(self, request: http.Incoming) -> Reply:
        return self._dispatcher.Handle(request.path, request.headers, request.body, request.method)

    def _OpenStream(self, sock: protocols.Socket) -> tls.PlainStream:
        if self._policy is None:
            return tls.PlainStream(sock)
        self.LoadContext()
        assert self._context is not None
        return self._context.Accept(sock, _HANDSHAKE_TIMEOUT)


def _PeerName(sock: protocols.Socket) -> str:
    try:
        host, port, *_ = sock.getpeername()
    except (OSError, ValueError):
        return "unknown"
    return f"{host}:{port}"


# The daemon


def NodeHandlers(own: NodeStore) -> dict[str, Callable[..., Any]]:
    """What this node can be asked for.

    A voter writes its ssconf files from its own copy of the store: what a master sent before the node became one, and
    what comes late, would be older.
    """
    handlers = {**backend.Handlers(), **own.Handlers()}
    write = handlers[_WRITE_SSCONF]

    def guarded(*args: Any) -> Any:
        if own.GetState().store_id in own.GetVoters().ids:
            raise errors.RpcCallError(STORE_OWNS)
        return write(*args)

    return {**handlers, _WRITE_SSCONF: guarded}


def _Options() -> list[daemon.Option]:
    return [
        *daemon.NetworkOptions(constants.NODED, constants.DEFAULT_NODED_PORT),
        *daemon.SslOptions(pathutils.NODED_CERT_FILE),
        daemon.Option(
            "--no-mlock",
            dest="mlock",
            action="store_false",
            default=True,
            help="Do not keep this daemon out of the swap",
        ),
        daemon.Option(
            "--max-clients",
            dest="max_clients",
            type="int",
            default=20,
            metavar="N",
            help="Connections served at the same time [%default]",
        ),
    ]


def _Check(options: Any) -> int:
    if not 1 <= options.max_clients <= 1000:
        raise errors.ParameterError(f"--max-clients must be from 1 to 1000, not {options.max_clients}")
    if options.ssl and not runtime.Exists(options.ssl_cert):
        sys.stderr.write(f"{constants.NODED}: there is no {options.ssl_cert}: this node is in no cluster (yet)\n")
        return constants.EXIT_NOTCLUSTER
    return 0


class _Prepared(NamedTuple):
    server: NodeServer
    listener: protocols.Socket
    node_store: NodeStore


def _Prepare(options: Any) -> _Prepared:
    node_store = OwnStore()
    dispatcher = Dispatcher(NodeHandlers(node_store), node_store)
    server = NodeServer(dispatcher, options.ssl_key, options.ssl_cert, options.ssl, options.mlock)
    try:
        server.LoadContext()
        listener = runtime.ListenTcp(_BindAddress(options), options.port, _BACKLOG)
    except OSError as err:
        raise errors.GenericError(f"{constants.NODED}: {err.filename or ''} {err.strerror or err}".strip()) from err
    return _Prepared(server, listener, node_store)


def _BindAddress(options: Any) -> str:
    """All addresses if none is named; in a cluster of IPv6 those too."""
    if options.bind_address is not None:
        return str(options.bind_address)
    try:
        family = runtime.ReadText(pathutils.SsconfFile("primary_ip_family"), 100).strip()
    except (OSError, ValueError):
        family = ""
    return "::" if family == str(constants.IP6_FAMILY) else ""


def _Execute(options: Any, prepared: _Prepared, stop: daemon.StopSignal) -> int:
    parent = runtime.ProcessId()

    def export() -> None:
        # Its imports are not for the parent, which stays small.
        from ganeti.server.exporting import RunNodeExporter

        # Killed, the parent cannot end its children: one without it ends by itself.
        RunNodeExporter(prepared.node_store, lambda: os.getppid() != parent)

    if options.mlock:
        LockMemory()
    helpers = [Helper("the exporter", export)]
    ForkingServer(prepared.listener, prepared.server.ServeChild, options.max_clients, stop, helpers).Run()
    return 0


def Main() -> int:
    return daemon.GenericMain(constants.NODED, "Ganeti node daemon", _Options(), _Check, _Prepare, _Execute)
