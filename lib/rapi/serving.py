"""uvicorn with our limits: TLS, sizes, times, connections."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import uvicorn

from ganeti import constants, errors
from ganeti.daemon import StopSignal

if TYPE_CHECKING:
    from ganeti.rapi.dispatch import Application

CIPHERS = "HIGH:-DES:-3DES:-EXPORT:-DH:-kRSA:-aNULL"
HANDSHAKE_TIMEOUT = 10.0
IDLE_TIMEOUT = 60


def TlsContext(cert_file: str, key_file: str, chain_file: str | None = None) -> ssl.SSLContext:
    """Return the settings of TLS with this certificate; raises X509CertError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    LoadCertificate(context, cert_file, key_file, chain_file)
    return context


def LoadCertificate(context: ssl.SSLContext, cert_file: str, key_file: str, chain_file: str | None) -> None:
    """Let new connections get this certificate."""
    try:
        context.load_cert_chain(cert_file, key_file, password=_NoPassword)
        if chain_file is not None:
            # OpenSSL sends the certificates between ours and the root as it finds them here.
            context.load_verify_locations(chain_file)
    except (ssl.SSLError, ValueError) as err:
        raise errors.X509CertError(cert_file, f"cannot be used: {getattr(err, 'reason', None) or err}") from None
    except OSError as err:
        raise errors.X509CertError(err.filename or cert_file, err.strerror or str(err)) from None


def _NoPassword() -> str:
    """Refuse a key with a password instead of asking for it on the terminal."""
    raise ValueError("the key has a password")


class Server(uvicorn.Server):
    """uvicorn on sockets that are open already, ended by a signal that the daemon keeps."""

    def __init__(self, config: uvicorn.Config, stop: StopSignal):
        super().__init__(config)
        self._stop = stop

    async def startup(self, sockets: list[Any] | None = None) -> None:
        loop = asyncio.get_running_loop()
        secured: dict[str, Any] = {"ssl_handshake_timeout": HANDSHAKE_TIMEOUT} if self.config.ssl else {}

        def protocol() -> asyncio.Protocol:
            return self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state={}, _loop=loop
            )

        self.servers = [
            await loop.create_server(protocol, sock=sock, ssl=self.config.ssl, **secured) for sock in sockets or ()
        ]
        self.started = True

    async def main_loop(self) -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._stop.fileno(), stopped.set)
        while not stopped.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await stopped.wait()
        loop.remove_reader(self._stop.fileno())

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def Serve(
    application: Application, listeners: Sequence[Any], context: ssl.SSLContext | None, stop: StopSignal
) -> Server:
    """Return the server; ``serve(listeners)`` runs until ``stop`` is set and what was under way is answered."""
    config = uvicorn.Config(
        application,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("Server", f"Ganeti {constants.RELEASE_VERSION}")],
        timeout_keep_alive=IDLE_TIMEOUT,
        timeout_graceful_shutdown=10,
        ssl_context_factory=None if context is None else lambda _config, _default: context,
    )
    return Server(config, stop)
