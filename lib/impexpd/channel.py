"""The connection to the other side: TLS over a socket that never blocks.

Both sides present a certificate for which the authority's file vouches; host names do not matter, as all nodes of a cluster
have the same certificate.  An end that the other side did not announce is an error: whatever cut the connection, data may be
missing.
"""

from __future__ import annotations

import socket
import ssl
import struct
from typing import TYPE_CHECKING

from ganeti import constants, runtime
from ganeti.impexpd import TransferError
from ganeti.impexpd.settings import IMPORT, Settings

if TYPE_CHECKING:
    from ganeti.runtime import protocols

PIECE = 256 * 1024
"""Bytes are moved in pieces of this size."""

# A record of TLS, of which a part may be left over from the piece before.
_RECORD = 17 * 1024
# In seconds: silence before the first question, between questions; so many without an answer end the connection.
_IDLE, _INTERVAL, _COUNT = 60, 10, 5
_RESET = struct.pack("ii", 1, 0)
_ABOUT_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")


class Refused(TransferError):
    """A certificate was not accepted: another try cannot do better."""


def MakeContext(settings: Settings) -> ssl.SSLContext:
    """Return key, certificate and authority for all channels of a transfer; TransferError if they cannot be used."""
    server = settings.mode == IMPORT
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(constants.TLS_CIPHERS)
    # Certificates of clusters and of transfers vouch for themselves, and need not say that they may.
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    if server:
        context.num_tickets = 0  # a sender reads nothing before its end
    for path in (settings.key_file, settings.cert_file, settings.ca_file):
        if not runtime.Exists(path):
            raise TransferError(f"{path} does not exist")
    try:
        # Without the function a key with a password would make OpenSSL ask at the terminal.
        context.load_cert_chain(settings.cert_file, settings.key_file, lambda: b"")
    except (ssl.SSLError, OSError) as err:
        pair = " and ".join(dict.fromkeys([settings.key_file, settings.cert_file]))
        raise TransferError(f"Key and certificate ({pair}) cannot be used: {_Words(err)}") from err
    try:
        context.load_verify_locations(settings.ca_file)
    except (ssl.SSLError, OSError) as err:
        raise TransferError(f"{settings.ca_file} is not the certificate of an authority: {_Words(err)}") from err
    return context


class Channel:
    """One end of a connection to ``peer`` (its name, for messages); takes over the socket.

    ``Handshake``, ``Read`` and ``Write`` do what can be done without waiting.  TransferError: the connection is of no use.
    """

    def __init__(self, sock: protocols.Socket, context: ssl.SSLContext, server_side: bool, peer: str):
        self.peer = peer
        self._sock = sock
        sock.setblocking(False)
        runtime.KeepAlive(sock.fileno(), _IDLE, _INTERVAL, _COUNT)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side)
        self._unsent = memoryview(b"")
        self._plain = memoryview(b"")

    def fileno(self) -> int:
        return self._sock.fileno()

    def Handshake(self) -> bool:
        """Return whether the handshake is over; if it is not, what is missing comes from the other side."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.Flush()
            except ssl.SSLError as err:
                self._SendAlert()
                raise self._Failure(err) from err
            else:
                self.Flush()
                return True
            if not self._Receive():
                return False

    def Read(self) -> memoryview | None:
        """Return what has come, empty after the announced end, None if there is nothing now.

        It is valid until the next call.
        """
        if not self._plain:
            self._plain = memoryview(bytearray(PIECE + _RECORD))
        while True:
            count, ended = self._Decrypt()
            if count or ended:
                return self._plain[:count]
            if not self._Receive():
                return None

    def _Decrypt(self) -> tuple[int, bool]:
        """Decrypt what was received; return (bytes, whether the other side has announced its end)."""
        filled = 0
        try:
            while filled < len(self._plain):
                count = self._tls.read(len(self._plain) - filled, self._plain[filled:])
                if not count:
                    return filled, True
                filled += int(count)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return filled, True
        except ssl.SSLError as err:
            raise self._Failure(err) from err
        return filled, False

    def _Receive(self) -> bool:
        """Take what the other side has sent; False if there is nothing now."""
        try:
            data = self._sock.recv(PIECE)
        except BlockingIOError:
            return False
        except OSError as err:
            raise TransferError(f"The connection to {self.peer} failed: {err.strerror}") from err
        if not data:
            raise TransferError(f"{self.peer} closed the connection before {self._Expected()}")
        self._incoming.write(data)
        return True

    def _Expected(self) -> str:
        """Return what has to come before the other side may close the connection."""
        if self._tls.version() is None:
            return "the end of the TLS handshake"
        return "the end of the data" if self._tls.server_side else "confirming the end of the data"

    def Write(self, data: memoryview) -> int:
        """Take data to be sent; return how many bytes were taken, 0 while earlier ones wait."""
        if not self.Flush():
            return 0
        try:
            count = self._tls.write(data)
        except ssl.SSLError as err:
            raise self._Failure(err) from err
        self.Flush()
        return count

    def Flush(self) -> bool:
        """Send what waits; return whether nothing is left."""
        data = self._outgoing.read()
        if data:
            self._unsent = memoryview(bytes(self._unsent) + data) if self._unsent else memoryview(data)
        while self._unsent:
            try:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]  # type: ignore[arg-type]
            except BlockingIOError:
                return False
            except OSError as err:
                raise self._SendingFailed(err) from err
        return True

    def _SendingFailed(self, err: OSError) -> TransferError:
        """Return why nothing can be sent: what the other side said before it left, if it said anything."""
        try:
            self.Read()
        except TransferError as said:
            if isinstance(said, Refused):
                return said
        return TransferError(f"The connection to {self.peer} failed: {err.strerror}")

    def AnnounceEnd(self) -> None:
        """Announce that nothing more will come; to be flushed."""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # the other side's announcement has not come yet

    def Discard(self) -> bool:
        """Throw away what comes from a peer that was rejected; return whether it has ended."""
        try:
            return not self._sock.recv(PIECE)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def EndSending(self) -> None:
        """Let the other side read everything that was sent, and then the end of the stream."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has gone

    def Abort(self) -> None:
        """Close the connection so that nobody can take it for a regular end."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.Close()

    def Close(self) -> None:
        self._sock.close()

    def _SendAlert(self) -> None:
        """Send the alert of a handshake that failed, so that the other side knows why."""
        try:
            self.Flush()
        except TransferError:
            pass

    def _Failure(self, err: ssl.SSLError) -> TransferError:
        if isinstance(err, ssl.SSLCertVerificationError):
            return Refused(f"The certificate of {self.peer} is not accepted: {err.verify_message}")
        reason = err.reason or ""
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return Refused(f"{self.peer} presented no certificate")
        if "_ALERT_" in reason and any(word in reason for word in _ABOUT_CERTIFICATES):
            return Refused(f"{self.peer} does not accept the certificate of this side: {_Words(err)}")
        return TransferError(f"The TLS connection to {self.peer} failed: {_Words(err)}")


def _Words(err: Exception) -> str:
    """Return what OpenSSL or the system says, for people."""
    if isinstance(err, ssl.SSLError) and err.reason:
        return err.reason.rpartition("_ALERT_")[2].replace("_", " ").lower()
    return getattr(err, "strerror", None) or str(err)
