"""Who may send and who may receive: only the holder of the right certificate, and nobody else can be in the way."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509 as crypto
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from support.realcluster import WaitUntil
from support.realtransfers import MAGIC, Pem, Place, ShakeHands

from ganeti import x509
from ganeti.impexpd import channel, listening, settings

WRONG = "another-cluster"


def _Stranger(place: Place, port: int) -> socket.socket:
    return socket.create_connection((place.address, port), 20)


def _CheckWorks(place: Place, receiver: object, port: int) -> None:
    """The right sender still gets through, at once."""
    sender = place.Export(port, prefix="echo data |").Start()
    began = time.monotonic()
    assert sender.Code() == 0
    assert receiver.Code() == 0  # type: ignore[attr-defined]
    assert time.monotonic() - began < 15
    assert (place.base / "target").read_text() == "data\n"


@pytest.mark.req("D22-X509-06", "D22-X509-07")
@pytest.mark.parametrize("pem", [WRONG, ""], ids=["another certificate", "no certificate"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_sender_without_the_right_certificate_is_sent_away(place: Place, pem: str, version: ssl.TLSVersion) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target").Start()
    port = receiver.Port()
    context = place.Context(False, pem and place.WritePem(pem))
    context.minimum_version = context.maximum_version = version
    with pytest.raises((ssl.SSLError, ConnectionError)), place.Connect(port, context) as peer:
        peer.sendall(b"M=" + MAGIC.encode() + b"evil")
        peer.unwrap()
        raise ConnectionError("nothing was said against it")
    assert receiver.Status()["connected"] is False and not (place.base / "target").exists()
    _CheckWorks(place, receiver, port)


@pytest.mark.req("D22-X509-06", "D22-X509-07")
@pytest.mark.parametrize("whose", ["sender", "receiver"])
def test_both_sides_say_that_a_certificate_was_not_accepted(place: Place, whose: str) -> None:
    """A sender that has the wrong key does not learn of it before it has begun to send (TLS 1.3)."""
    pem = place.WritePem(WRONG)
    keys = {"key_file": pem, "cert_file": pem}
    right: dict[str, str] = {}
    receiver = place.Import(connect_timeout=3, **(keys if whose == "receiver" else right)).Start()
    source = "head -c 100000000 /dev/zero |"
    sender = place.Export(receiver.Port(), prefix=source, **(keys if whose == "sender" else right)).Start()
    sent, received = sender.Error(), receiver.Error()
    if whose == "sender":
        assert "does not accept the certificate of this side" in sent
        assert "; last rejected connection: The certificate of 127." in received
    else:
        assert f"The certificate of {place.address}" in sent and "is not accepted" in sent
        assert "does not accept the certificate of this side" in received


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\0" * 5000])
def test_many_strangers_are_not_in_the_way(place: Place, first: bytes) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target").Start()
    port = receiver.Port()
    with contextlib.ExitStack() as stack:
        for _ in range(150):
            sock = stack.enter_context(_Stranger(place, port))
            with contextlib.suppress(OSError):
                sock.sendall(first)
        _CheckWorks(place, receiver, port)


def test_a_stranger_has_some_seconds(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target").Start()
    port = receiver.Port()
    with monkeypatch.context() as hasty:
        hasty.setattr(listening, "HANDSHAKE_SECONDS", 0.3)
        with _Stranger(place, port) as sock:
            assert sock.recv(1) == b""
    # The right one may take longer for its handshake on a busy machine.
    _CheckWorks(place, receiver, port)


def test_strangers_do_not_make_an_import_wait_for_longer(place: Place) -> None:
    receiver = place.Import(connect_timeout=1).Start()
    began = time.monotonic()
    with _Stranger(place, receiver.Port()) as sock:
        error = receiver.Error()
        assert sock.recv(1) == b""
    assert error.startswith("No sender connected within 1 seconds")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("count", "seconds", "words"),
    [(1, 0.1, "no TLS handshake within 0.1 seconds"), (33, 30, "more than 32 connections at once")],
)
def test_an_import_says_why_it_dropped_the_last_one(
    place: Place, monkeypatch: pytest.MonkeyPatch, count: int, seconds: float, words: str
) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", seconds)
    receiver = place.Import(connect_timeout=2).Start()
    port = receiver.Port()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(_Stranger(place, port))
        error = receiver.Error()
    assert error.startswith("No sender connected within 2 seconds; last rejected connection: 127.")
    assert error.endswith(f": {words}")


def test_once_the_right_one_has_come_nobody_else_can(place: Place) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target").Start()
    port = receiver.Port()
    with _Stranger(place, port) as waiting, place.Connect(port) as peer:
        WaitUntil(lambda: receiver.Status()["connected"], "it is connected")
        assert waiting.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            _Stranger(place, port)
        peer.sendall(b"M=" + MAGIC.encode() + b"data\n")
        peer.unwrap()
    assert receiver.Code() == 0


def _NoAuthority(place: Place, name: str) -> str:
    """A self-signed certificate that says of itself that it must not sign."""
    key = rsa.generate_private_key(65537, 2048)
    subject = crypto.Name([crypto.NameAttribute(crypto.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        crypto.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + timedelta(hours=1))
        .add_extension(crypto.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.TraditionalOpenSSL
    path = place.base / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return str(path)


def _OfAnother(place: Place, name: str) -> str:
    """A certificate that an authority has signed which the other side does not know."""
    path = place.base / f"{name}.pem"
    path.write_text(x509.MakeClientPem(Pem(name), name))
    return str(path)


@pytest.mark.parametrize("make", [_NoAuthority, _OfAnother])
def test_a_certificate_need_not_be_that_of_an_authority(place: Place, make: Callable[[Place, str], str]) -> None:
    """It is enough that each side knows the other's."""
    pems = [make(place, name) for name in ("one", "two")]
    one, two = ({"key_file": own, "cert_file": own, "ca_file": other} for own, other in (pems, pems[::-1]))
    receiver = place.Import(suffix=f"> {place.base}/target", **one).Start()
    sender = place.Export(receiver.Port(), prefix="echo data |", **two).Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)


@pytest.mark.parametrize("writes", [False, True])
def test_a_sender_learns_why_even_if_its_data_comes_too_late(place: Place, writes: bool) -> None:
    """The other side may be gone when the sender looks; what it said on leaving is still there."""
    stranger = place.WritePem(WRONG)
    mine = settings.Settings("export", "", key_file=stranger, cert_file=stranger, ca_file=place.pem)
    sock = socket.create_connection((place.address, place.Import().Start().Port()))
    client = channel.Channel(sock, channel.MakeContext(mine), False, "there")
    WaitUntil(client.Handshake, "the handshake is over")
    WaitUntil(lambda: select.select([client], [], [], 0)[0], "the answer is there")
    with pytest.raises(channel.Refused, match="there does not accept the certificate of this side"):
        while writes:
            client.Write(memoryview(b"x" * 100000))
        client.Read()
    client.Close()


def test_a_connection_that_is_refused_is_not_cut_off(place: Place) -> None:
    """A socket that is closed while it holds unread data is reset, and in a network that could overtake the reason."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = place.Context(False, place.WritePem(WRONG)).wrap_bio(incoming, outgoing)
    with _Stranger(place, place.Import().Start().Port()) as sock:
        ShakeHands(sock, tls, incoming, outgoing)
        tls.write(b"x" * 100000)
        sock.sendall(outgoing.read())  # the end of the handshake, and data
        while data := sock.recv(65536):
            incoming.write(data)
        with pytest.raises(ssl.SSLError, match="alert"):
            tls.read()


@pytest.mark.parametrize("which", ["key_file", "cert_file", "ca_file"])
@pytest.mark.parametrize(
    "content", [None, "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_files_that_are_no_keys_are_named(place: Place, which: str, content: str | None) -> None:
    path = place.base / "bad.pem"
    if content is not None:
        path.write_text(content)
    end = place.Import(**{which: str(path)}).Start()
    assert str(path) in end.Error()


# --- finding each other -----------------------------------------------------------------------------------------------


def test_an_export_waits_for_an_import_that_comes_later(
    place: Place, addresses: object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    port = addresses.Port()  # type: ignore[attr-defined]
    sender = place.Export(port, prefix="echo data |", connect_retries=30).Start()
    WaitUntil(lambda: "No connection yet" in caplog.text, "the first try has failed")
    receiver = place.Import(port=port, suffix=f"> {place.base}/target").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)
    assert receiver.Status()["listen_port"] == port


@pytest.mark.parametrize("retries", [0, 1])
def test_an_export_tries_as_often_as_it_was_told(place: Place, addresses: object, retries: int) -> None:
    began = time.monotonic()
    sender = place.Export(addresses.Port(), connect_retries=retries).Start()  # type: ignore[attr-defined]
    error = sender.Error()
    assert error.startswith("No connection to ") and "Connection refused" in error
    assert retries <= time.monotonic() - began < 15


def test_an_import_that_says_nothing_is_left_after_a_while(place: Place) -> None:
    with place.Listen() as silent:
        sender = place.Export(silent.getsockname()[1], connect_timeout=1).Start()
        assert "did not answer within 1 seconds" in sender.Error()


def test_an_import_that_speaks_no_tls(place: Place) -> None:
    with place.Listen() as listener:
        sender = place.Export(listener.getsockname()[1]).Start()
        sock, _ = listener.accept()
        with sock:
            sock.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            error = sender.Error()
    assert "TLS connection" in error and "wrong version number" in error


def test_an_import_that_leaves_before_it_is_known(place: Place) -> None:
    with place.Listen() as listener:
        sender = place.Export(listener.getsockname()[1]).Start()
        sock, _ = listener.accept()
        with sock:
            sock.shutdown(socket.SHUT_WR)
            assert "closed the connection before the end of the TLS handshake" in sender.Error()


def test_an_address_that_cannot_be_used(place: Place) -> None:
    assert "cannot listen on 192.0.2.77" in place.Import(bind="192.0.2.77").Start().Error()
    assert f"{place.address} has no IPv6 address" in place.Export(9, family=6).Start().Error()


def test_a_host_may_have_a_name(place: Place) -> None:
    receiver = place.Import(bind="127.0.0.1", suffix=f"> {place.base}/target").Start()
    sender = place.Export(receiver.Port(), host="localhost", family=4, prefix="echo data |").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)


def test_both_families_of_addresses(place: Place) -> None:
    receiver = place.Import(bind="::1", family=6, suffix=f"> {place.base}/target").Start()
    sender = place.Export(receiver.Port(), host="::1", family=6, prefix="echo data |").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)
