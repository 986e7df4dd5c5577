"""The REST daemon's server on a thread of the test: real sockets and TLS, with times short enough for a test.

::

    with RapiServer(site.application, address, Times(headers=0.5)) as server:
        with server.Connect() as sock: ...
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from typing import Any

from ganeti import runtime, x509
from ganeti.daemon import StopSignal
from ganeti.rapi.transport import serving
from ganeti.rapi.transport.wire import Times

_JOIN = 60


class RapiServer:
    """Serves an application until the end of the block."""

    def __init__(
        self,
        application: Any,
        address: str,
        folder: str,
        times: Times | None = None,
        limit: int = serving.MAX_CONNECTIONS,
        tls: bool = True,
    ):
        self.address = address
        self.certificate = os.path.join(folder, "rapi.pem")
        if not os.path.exists(self.certificate):
            with open(self.certificate, "w", encoding="ascii") as stream:
                stream.write(x509.MakeRapiPem())
        self._stop = StopSignal()
        self.listener: Any = runtime.ListenTcp(address, 0)
        self.port = self.listener.getsockname()[1]
        self.context = serving.TlsContext(self.certificate, self.certificate) if tls else None
        self.server = serving.MakeServer(application, self.context, self._stop, limit, times)
        self._thread = threading.Thread(target=self._Run, daemon=True)

    def _Run(self) -> None:
        asyncio.run(self.server.serve([self.listener]))

    def __enter__(self) -> RapiServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(_JOIN)
        self._stop.Close()
        assert not self._thread.is_alive(), "the server did not end"

    def Tcp(self) -> socket.socket:
        return socket.create_connection((self.address, self.port), 30)

    def Connect(self, ciphers: str | None = None, **settings: Any) -> socket.socket:
        """A connection that speaks TLS where the server does; ``settings`` are attributes of the client's context."""
        sock = self.Tcp()
        if self.context is None:
            return sock
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.certificate)
        if ciphers is not None:
            context.set_ciphers(ciphers)
        for name, value in settings.items():
            setattr(context, name, value)
        return context.wrap_socket(sock)


def ReadAll(sock: socket.socket) -> bytes:
    """What comes until the other side ends or breaks the connection."""
    data = b""
    while True:
        try:
            part = sock.recv(65536)
        except (ConnectionError, ssl.SSLError):
            return data
        if not part:
            return data
        data += part


def Ask(sock: socket.socket, request: bytes) -> bytes:
    """Sends a request that ends the connection; the whole answer."""
    sock.sendall(request)
    return ReadAll(sock)


def ReadAnswer(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """One answer of a connection that stays open."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        assert part, f"the connection ended after {data!r}"
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    while len(body) < length:
        part = sock.recv(65536)
        assert part, "the connection ended within a body"
        body += part
    return int(status.split()[1]), headers, body
