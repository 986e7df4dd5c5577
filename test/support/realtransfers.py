"""Transfers between two ends in this process, and peers that speak the wire's format with code of the test's own.

::

    place = Place(tmp_path, lease.Address())
    receiver = place.Import(suffix=f"> {target}").Start()
    sender = place.Export(receiver.Port(), prefix=f"cat {source} |").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)

    with place.Accept() as peer: ...        an import of 3.1, as far as the wire goes
    with place.Connect(port) as peer: ...   an export of 3.1
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ganeti import x509
from ganeti.daemon.signals import StopSignal
from ganeti.impexpd import transfer
from ganeti.impexpd.settings import EXPORT, IMPORT, Settings
from support.patience import Deadline
from support.realcluster import WaitUntil

MAGIC = "magic.of-disk_0"


@functools.cache
def Pem(_name: str = "") -> str:
    """Key and certificate of a cluster, the same for the same name."""
    return x509.MakeServerPem()


def ShakeHands(sock: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
    """Carry out a client's side of a handshake, whose last words stay in ``outgoing``: what follows can be sent with them."""
    while True:
        try:
            tls.do_handshake()
            return
        except ssl.SSLWantReadError:
            sock.sendall(outgoing.read())
            incoming.write(sock.recv(1 << 16))


class Running:
    """One end of a transfer, carried out by a thread."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.stop = StopSignal()
        self._code: int | None = None
        self._transfer = transfer.Make(settings, self.stop)
        self._thread = threading.Thread(target=self._Run, name=settings.mode)

    def _Run(self) -> None:
        self._code = self._transfer.Run()

    def Start(self) -> Running:
        self._thread.start()
        return self

    def Status(self) -> dict[str, Any]:
        try:
            return dict(json.loads(Path(self.settings.status_file).read_text()))
        except FileNotFoundError:
            return {}

    def WaitStatus(self, key: str) -> Any:
        return WaitUntil(lambda: self.Status().get(key), f"the status has {key}")

    def Port(self) -> int:
        return int(self.WaitStatus("listen_port"))

    def Code(self, seconds: float = 20.0) -> int:
        """The exit code, once it has ended; the last status must tell the same."""
        deadline = Deadline(seconds)
        while self._thread.is_alive():
            self._thread.join(0.1)
            assert not deadline.Passed(), f"{self.settings.mode} does not end: {self.Status()}"
        assert self._code is not None and self.Status()["exit_status"] == self._code
        return self._code

    def Error(self, seconds: float = 20.0) -> str:
        """The message of a transfer that fails."""
        assert self.Code(seconds) == 1
        return str(self.Status()["error_message"])

    def Stop(self) -> None:
        self.stop.set()

    def Close(self) -> None:
        if self._thread.is_alive():
            self.Stop()
            self._thread.join(30)
            assert not self._thread.is_alive()
        self.stop.Close()


class Place:
    """A directory, an address, and key and certificate of both ends."""

    def __init__(self, base: Path, address: str):
        self.base = base
        self.address = address
        self._numbers = itertools.count()
        self._running: list[Running] = []
        self.pem = self.WritePem()

    def WritePem(self, name: str = "") -> str:
        path = self.base / f"{name or 'cluster'}.pem"
        path.write_text(Pem(name))
        return str(path)

    def _Make(self, mode: str, **more: Any) -> Running:
        values: dict[str, Any] = {
            "status_file": str(self.base / f"status-{next(self._numbers)}"),
            "key_file": self.pem,
            "cert_file": self.pem,
            "ca_file": self.pem,
            "compress": "none",
            "magic": MAGIC,
            "connect_timeout": 30,
            **more,
        }
        made = Running(Settings(mode=mode, **values))
        self._running.append(made)
        return made

    def Import(self, **more: Any) -> Running:
        return self._Make(IMPORT, **{"bind": self.address, **more})

    def Export(self, port: int, **more: Any) -> Running:
        return self._Make(EXPORT, **{"host": self.address, "port": port, **more})

    def Close(self) -> None:
        for running in self._running:
            running.Close()

    def Context(self, server: bool, pem: str | None = None) -> ssl.SSLContext:
        """What a peer of 3.1 uses; ``pem``: None is the cluster's, "" none at all."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.pem)
        if pem != "":
            context.load_cert_chain(pem or self.pem)
        # Python's own default hides a stream that was cut off.
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        return context

    @contextlib.contextmanager
    def Connect(self, port: int, context: ssl.SSLContext | None = None) -> Iterator[ssl.SSLSocket]:
        """A connection to an import, after the handshake."""
        with socket.create_connection((self.address, port), 20) as plain:
            with (context or self.Context(False)).wrap_socket(plain, suppress_ragged_eofs=False) as sock:
                yield sock

    @contextlib.contextmanager
    def Listen(self) -> Iterator[socket.socket]:
        with socket.create_server((self.address, 0)) as listener:
            listener.settimeout(20)
            yield listener

    @contextlib.contextmanager
    def Accept(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> Iterator[ssl.SSLSocket]:
        """A connection from an export, after the handshake."""
        plain, _ = listener.accept()
        plain.settimeout(20)
        with (context or self.Context(True)).wrap_socket(plain, server_side=True, suppress_ragged_eofs=False) as sock:
            yield sock


def ReceiveAll(sock: ssl.SSLSocket) -> bytes:
    """Everything up to the announced end; SSLEOFError if the connection ends without that."""
    parts = []
    while part := sock.recv(65536):
        parts.append(part)
    return b"".join(parts)
