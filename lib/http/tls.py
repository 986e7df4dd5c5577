"""The server's side of TLS: handshake and streams with time-outs.

pyOpenSSL lives behind this module; clients use curl.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from OpenSSL import SSL

from ganeti import constants, errors, runtime

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_CHUNK = 64 * 1024
# Nobody sends more than this by mistake after a request was rejected.
_LINGER_BYTES = 64 * 1024 * 1024
# In which a peer whose certificate was rejected may read the alert.
_REJECTED_SECONDS = 2.0
# What a peer of another kind or a scanner leaves behind; one line in the log is enough.
CONNECTION_ERRORS = (OSError, SSL.Error)


class Digests(NamedTuple):
    """The digests of one certificate: ``AB:CD:...``."""

    sha1: str
    sha256: str


class StreamError(errors.GenericError):
    """The other side is too slow, went away, or does not speak the protocol."""


class Policy(Protocol):
    """Decides which peers may call, by their certificates."""

    @property
    def authorities(self) -> Sequence[str]:
        """Return the files with the certificates of which one must have signed the peer's."""

    def Refusal(self, chain: Sequence[Digests]) -> str | None:
        """Return why a peer with this chain (its own certificate first) may not call; None if it may."""


class ServerContext:
    """Key and certificate of a server, and which peers it takes; ``policy`` None demands no certificate."""

    def __init__(self, key_file: str, cert_file: str, policy: Policy | None, chain_file: str | None = None):
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_cipher_list(constants.TLS_CIPHERS.encode("ascii"))
        context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        try:
            context.use_privatekey_file(key_file)
            context.use_certificate_chain_file(chain_file or cert_file)
            context.check_privatekey()
            for authority in policy.authorities if policy is not None else ():
                context.load_verify_locations(authority)
        except SSL.Error as err:
            raise errors.X509CertError(cert_file, f"cannot be used: {_Text(err)}") from None
        self._context = context
        self._policy = policy

    def Accept(self, sock: protocols.Socket, timeout: float) -> TlsStream:
        """Do the handshake within ``timeout`` seconds; StreamError says why a peer was refused."""
        stream = TlsStream(SSL.Connection(self._context, sock), sock, self._policy)  # type: ignore[arg-type]
        if self._policy is not None:
            mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
            stream.connection.set_verify(mode, stream.Verify)
        stream.Handshake(timeout)
        return stream


class PlainStream:
    """Bytes over a socket, with time-outs; the base of TlsStream."""

    def __init__(self, sock: protocols.Socket):
        self._sock = sock
        self._poller = runtime.Poller()
        sock.setblocking(False)
        self._poller.Register(sock, runtime.IN)

    def Read(self, timeout: float) -> bytes:
        """Read some bytes, b"" at the end; TimeoutError when nothing comes in time."""
        deadline = runtime.Monotonic() + timeout
        while True:
            wanted, data = self._TryRead()
            if wanted == 0:
                return data
            self._Wait(wanted, deadline)

    def Write(self, data: bytes, timeout: float) -> None:
        """Write all of ``data``; TimeoutError when for ``timeout`` seconds nothing moves."""
        view = memoryview(data)
        while view:
            deadline = runtime.Monotonic() + timeout
            while True:
                wanted, count = self._TryWrite(view[:_CHUNK])
                if wanted == 0:
                    break
                self._Wait(wanted, deadline)
            view = view[count:]

    def Linger(self, timeout: float) -> None:
        """End this side's sending and throws away what the other still sends, until it ends or ``timeout`` is over.

        For answers to somebody who may not have sent everything: a socket that is closed while it holds unread bytes is
        reset, and the answer is lost with it.
        """
        deadline = runtime.Monotonic() + timeout
        left = _LINGER_BYTES
        try:
            self._EndSending()
            while left > 0:
                try:
                    data = self._sock.recv(_CHUNK)
                except BlockingIOError:
                    self._Wait(runtime.IN, deadline)
                    continue
                if not data:
                    return
                left -= len(data)
        except OSError:
            return  # gone, or silent for too long

    def _EndSending(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)

    def Close(self, timeout: float = 1.0) -> None:
        del timeout
        self._poller.Close()
        self._sock.close()

    def Refusal(self) -> str | None:
        """Return why the peer's next request must not be served; to be asked before every one."""
        return None

    def Gone(self, timeout: float) -> bool:
        """Wait for ``timeout`` seconds for the peer to go away; whether it has."""
        self._poller.Modify(self._sock, runtime.GONE)
        return bool(self._poller.Poll(timeout))

    def _TryRead(self) -> tuple[int, bytes]:
        try:
            return 0, self._sock.recv(_CHUNK)
        except BlockingIOError:
            return runtime.IN, b""

    def _TryWrite(self, data: memoryview) -> tuple[int, int]:
        try:
            return 0, self._sock.send(data)  # type: ignore[arg-type]
        except BlockingIOError:
            return runtime.OUT, 0

    def _Wait(self, events: int, deadline: float) -> None:
        left = deadline - runtime.Monotonic()
        self._poller.Modify(self._sock, events)
        if left <= 0 or not self._poller.Poll(left):
            raise TimeoutError(errno.ETIMEDOUT, "the other side is silent")


class TlsStream(PlainStream):
    """The server's end of a TLS connection."""

    def __init__(self, connection: SSL.Connection, sock: protocols.Socket, policy: Policy | None):
        super().__init__(sock)
        self.connection = connection
        self._policy = policy
        self._digests: dict[int, Digests] = {}
        self._cause: str | None = None

    def Verify(self, connection: SSL.Connection, certificate: Any, number: int, depth: int, good: int) -> bool:
        """Decide on one certificate of the peer's chain; OpenSSL calls it for each, the authority first."""
        del connection
        if not good:
            self._cause = f"certificate at depth {depth} does not verify (error {number})"
            return False
        # Candidates are listed by SHA-1, in the format of 3.1; what is compared with an own file need not be.
        sha1, sha256 = (certificate.digest(name).decode("ascii") for name in ("sha1", "sha256"))
        self._digests[depth] = Digests(sha1, sha256)
        if depth == 0:
            self._cause = self.Refusal()
        return self._cause is None

    def Refusal(self) -> str | None:
        if self._policy is None:
            return None
        return self._policy.Refusal([self._digests[depth] for depth in sorted(self._digests)])

    def Handshake(self, timeout: float) -> None:
        deadline = runtime.Monotonic() + timeout
        self.connection.set_accept_state()
        while True:
            try:
                self.connection.do_handshake()
            except SSL.WantReadError:
                self._Wait(runtime.IN, deadline)
            except SSL.WantWriteError:
                self._Wait(runtime.OUT, deadline)
            except (SSL.Error, OSError) as err:
                if self._digests:
                    # For its side the handshake was over: it may be sending its request, and must still learn why not.
                    self.Linger(_REJECTED_SECONDS)
                raise StreamError(self._cause or f"TLS handshake failed: {_Text(err)}") from None
            else:
                return

    def _EndSending(self) -> None:
        try:
            self.connection.shutdown()
        except CONNECTION_ERRORS:
            pass
        super()._EndSending()

    def Close(self, timeout: float = 1.0) -> None:
        """Announce the end, so that the other side knows that the answer was complete; wait for nothing."""
        try:
            self.connection.shutdown()
        except CONNECTION_ERRORS:
            pass
        super().Close(timeout)

    def _TryRead(self) -> tuple[int, bytes]:
        try:
            return 0, self.connection.recv(_CHUNK)
        except SSL.WantReadError:
            return runtime.IN, b""
        except SSL.WantWriteError:
            return runtime.OUT, b""
        except (SSL.ZeroReturnError, SSL.SysCallError):
            return 0, b""
        except SSL.Error as err:
            raise StreamError(f"TLS broke: {_Text(err)}") from None

    def _TryWrite(self, data: memoryview) -> tuple[int, int]:
        try:
            return 0, self.connection.send(bytes(data))
        except SSL.WantReadError:
            return runtime.IN, 0
        except SSL.WantWriteError:
            return runtime.OUT, 0
        except SSL.Error as err:
            raise StreamError(f"TLS broke: {_Text(err)}") from None


def _Text(err: Exception) -> str:
    """Return what OpenSSL said, for people."""
    details = err.args[0] if err.args else ""
    if isinstance(details, (list, tuple)):
        return "; ".join(str(entry[-1]) for entry in details if entry) or type(err).__name__
    return " ".join(str(arg) for arg in err.args) or type(err).__name__
