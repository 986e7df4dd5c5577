"""ganeti-noded: does on one machine what the master says, and decides nothing.

::

    accept -> fork -> TLS, both sides show certificates -> request -> certificate still good? -> epoch -> procedure
                                                             ^------ kept alive, ended after 15 s without a request

The parent has one thread and never talks to a client.  A child keeps no state between requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, pathutils, runtime
from ganeti.daemon.memory import LockMemory
from ganeti.rpc import http, tls
from ganeti.rpc.server import Dispatcher, Reply
from ganeti.server.forking import Child

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_HANDSHAKE_TIMEOUT = 10.0
_BACKLOG = 128
_TCP_NODELAY = (6, 1)  # IPPROTO_TCP, TCP_NODELAY
LIMITS = http.Limits()


class NodeServer:
    """Serves connections in forked children.  ``make_dispatcher`` runs in the child, before its first request."""

    def __init__(
        self,
        make_dispatcher: Callable[[], Dispatcher],
        key_file: str = pathutils.NODED_CERT_FILE,
        cert_file: str = pathutils.NODED_CERT_FILE,
        use_tls: bool = True,
        lock_memory: bool = True,
        limits: http.Limits = LIMITS,
    ):
        self._make_dispatcher = make_dispatcher
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
            dispatcher = self._make_dispatcher()

            def handle(request: http.Incoming) -> Reply:
                return dispatcher.Handle(request.path, request.headers, request.body, request.method)

            http.Connection(stream, self._limits).Serve(handle, child.OnState, child.Ending)
        except (tls.StreamError, errors.X509CertError) as err:
            logging.warning("Connection from %s refused: %s", peer, err)
        except TimeoutError as err:
            logging.info("Connection from %s ended: %s", peer, err.strerror or err)
        except OSError as err:
            logging.info("Connection from %s broke: %s", peer, err)
        finally:
            if stream is not None:
                stream.Close()

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

OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("-p", "--port"),
        {
            "dest": "port",
            "type": int,
            "default": None,
            "help": f"network port (default: {constants.DEFAULT_NODED_PORT})",
        },
    ),
    (("-b", "--bind"), {"dest": "bind_address", "default": "", "metavar": "ADDRESS", "help": "address to listen on"}),
    (("-i", "--interface"), {"dest": "bind_interface", "default": "", "help": "interface whose address to listen on"}),
    (("-K", "--ssl-key"), {"dest": "ssl_key", "default": pathutils.NODED_CERT_FILE, "help": "TLS key file"}),
    (("-C", "--ssl-cert"), {"dest": "ssl_cert", "default": pathutils.NODED_CERT_FILE, "help": "TLS certificate file"}),
    (("--no-ssl",), {"dest": "ssl", "action": "store_false", "default": True, "help": "speak HTTP without TLS"}),
    (("--no-mlock",), {"dest": "mlock", "action": "store_false", "default": True, "help": "do not lock memory"}),
    (
        ("--max-clients",),
        {"dest": "max_clients", "type": int, "default": 20, "metavar": "N", "help": "connections served at once"},
    ),
)
