"""uvicorn with our limits: TLS, places for connections, a graceful end.

A connection has its place from the moment it is accepted.  When all places are taken, the one that has waited longest
without a request makes room, so that neither silent nor slow strangers keep others out; where none waits, the oldest with a
request of somebody who has not logged in.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import re
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import uvicorn

from ganeti import constants, errors, runtime
from ganeti.daemon import StopSignal, memory
from ganeti.rapi.callers.limits import Connections
from ganeti.rapi.transport.wire import Protocol, Times

if TYPE_CHECKING:
    from ganeti.rapi.requests.dispatch import Application

MAX_CONNECTIONS = 2000
# asyncio sets aside this much for each connection, 256 KiB by default.
_TLS_BUFFER = 16 * 1024
_ACCEPT_PAUSE = 0.1
# Connections that have ended after which memory is given back; each had up to 200 KiB.
_BURST = 100
# Connections that are taken before those that are open get a turn: accepting does not wait while more are there.
_ACCEPT_AT_ONCE = 16
_PEM_LIMIT = 1 << 20
_CERTIFICATE = re.compile(rb"-----BEGIN (X509 |TRUSTED )?CERTIFICATE-----")
_KEY = re.compile(rb"-----BEGIN (\w+ )?PRIVATE KEY-----")
_REASONS = {"KEY_VALUES_MISMATCH": "the private key in it was not made for the certificate"}


def TlsContext(cert_file: str, key_file: str, chain_file: str | None = None) -> ssl.SSLContext:
    """Return the settings of TLS with this certificate; raises X509CertError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(constants.TLS_CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    LoadCertificate(context, cert_file, key_file, chain_file)
    return context


def LoadCertificate(context: ssl.SSLContext, cert_file: str, key_file: str, chain_file: str | None) -> None:
    """Let new connections get this certificate; raises X509CertError."""
    try:
        context.load_cert_chain(cert_file, key_file, password=_NoPassword)
    except (OSError, ValueError) as err:  # an SSLError is an OSError
        raise _Unusable(err, cert_file, key_file) from None
    if chain_file is not None:
        try:
            # From here OpenSSL takes the certificates between ours and the root.
            context.load_verify_locations(chain_file)
        except OSError as err:
            raise _Unusable(err, chain_file) from None


def _Unusable(err: Exception, cert_file: str, key_file: str | None = None) -> errors.X509CertError:
    """Return the error about the file that cannot be used: OpenSSL does not say which."""
    contents = [(cert_file, _CERTIFICATE, "certificate")]
    if key_file is not None:
        contents.append((key_file, _KEY, "private key"))
    for name, block, what in contents:
        try:
            text = runtime.ReadFile(name, _PEM_LIMIT)
        except (OSError, runtime.FileTooLarge) as why:
            return errors.X509CertError(name, getattr(why, "strerror", None) or str(why))
        if not block.search(text):
            return errors.X509CertError(name, f"there is no {what} in it")
    reason = getattr(err, "reason", None) if isinstance(err, ssl.SSLError) else str(err)
    words = _REASONS.get(reason, reason.replace("_", " ").lower()) if reason else "what is in it cannot be read"
    return errors.X509CertError(key_file or cert_file, f"cannot be used: {words}")


def _NoPassword() -> str:
    """Refuse a key with a password instead of asking for it on the terminal."""
    raise ValueError("the key has a password")


class Ebb:
    """Notices when many connections have ended."""

    def __init__(self) -> None:
        self._most = 0

    def __call__(self, now: int) -> bool:
        """Return whether there were many more connections since the last time that this was true; ``now``: how many there are."""
        self._most = max(self._most, now)
        if self._most - now < _BURST:
            return False
        self._most = now
        return True


class Server(uvicorn.Server):
    """uvicorn on sockets that are open already, ended by a signal that the daemon keeps."""

    def __init__(self, config: uvicorn.Config, stop: StopSignal, limit: int, times: Times):
        super().__init__(config)
        self.places = Connections(limit)
        self._times = times
        # Its type says whole seconds, and any number will do.
        self.config.timeout_graceful_shutdown = times.grace  # type: ignore[assignment]
        self._stop = stop
        self._ebb = Ebb()
        self._acceptors: list[asyncio.Task[None]] = []
        self._openings: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[Any] | None = None) -> None:
        sslproto.SSLProtocol.max_size = _TLS_BUFFER
        self.servers = []
        for listener in sockets or ():
            listener.setblocking(False)
            self._acceptors.append(asyncio.create_task(self._Accept(listener)))
        self.started = True

    async def _Accept(self, listener: Any) -> None:
        loop = asyncio.get_running_loop()
        for number in itertools.count(1):
            if number % _ACCEPT_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as err:
                logging.error("A connection could not be accepted: %s", err.strerror or err)
                await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            # The loop must not start this one's work before it has a place.
            key = object()
            task = loop.create_task(self._Open(key, sock))
            if self.places.Enter(key, _Cancel(task)):
                self._openings.add(task)
                task.add_done_callback(self._openings.discard)
            else:
                task.cancel()
                sock.close()

    async def _Open(self, key: object, sock: Any) -> None:
        """Do the handshake; then the protocol looks after the connection."""
        loop = asyncio.get_running_loop()
        peer = _PeerName(sock)
        handed_over = False
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            limits: dict[str, Any] = {}
            if self.config.ssl is not None:
                limits = {"ssl_handshake_timeout": self._times.headers, "ssl_shutdown_timeout": self._times.farewell}
            await loop.connect_accepted_socket(
                lambda: Protocol(self.config, self.server_state, self.places, key, loop, self._times),
                sock,
                ssl=self.config.ssl,
                **limits,
            )
            handed_over = True
        except (OSError, ssl.SSLError) as err:
            logging.info(
                "Connection from %s ended before it was secured: %s", peer, getattr(err, "reason", None) or err
            )
        finally:
            if not handed_over:
                self.places.Leave(key)
                sock.close()

    async def main_loop(self) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._stop.fileno(), stopped.set)
        while not stopped.is_set():
            await self.on_tick(0)
            if self._ebb(len(self.places)):
                gc.collect()  # connections refer to themselves
                memory.GiveBack()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stopped.wait()
        loop.remove_reader(self._stop.fileno())

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        for task in [*self._acceptors, *self._openings]:
            task.cancel()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the daemon."""
        yield


def _Cancel(task: asyncio.Task[None]) -> Callable[[], None]:
    def cancel() -> None:
        task.cancel()

    return cancel


def _PeerName(sock: Any) -> str:
    try:
        host, port, *_ = sock.getpeername()
    except (OSError, ValueError):
        return "unknown"
    return f"{host}:{port}"


def MakeServer(
    application: Application,
    context: ssl.SSLContext | None,
    stop: StopSignal,
    limit: int = MAX_CONNECTIONS,
    times: Times | None = None,
) -> Server:
    """Return the server; ``serve(listeners)`` runs until ``stop`` is set and what was under way is answered."""
    # What uvicorn reports about bad requests is in our own log line for them.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http=Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("Server", f"Ganeti {constants.RELEASE_VERSION}")],
        ssl_context_factory=None if context is None else lambda _config, _default: context,
    )
    return Server(config, stop, limit, times or Times())
