"""The format of 3.1 on the wire: the other end is code of the test's own, or socat as 3.1 runs it."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.realcluster import WaitUntil
from support.realtransfers import MAGIC, Place, ReceiveAll, ShakeHands

from ganeti.impexpd.channel import Channel

# Longer than any buffer on the way, and nothing that compresses well.
CONTENT = bytes(i * i % 251 for i in range(3_000_001))
SENT_MAGIC = b"M=" + MAGIC.encode()
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


def _Only(context: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.req("D22-MOVE-25")
@pytest.mark.parametrize("version", VERSIONS)
def test_an_export_sends_the_magic_and_the_data(place: Place, source: Path, version: ssl.TLSVersion) -> None:
    with place.Listen() as listener:
        sender = place.Export(listener.getsockname()[1], prefix=f"< {source}").Start()
        with place.Accept(listener, _Only(place.Context(True), version)) as peer:
            assert ReceiveAll(peer) == SENT_MAGIC + CONTENT
            assert peer.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(_Certificate(place))
            peer.unwrap()
        assert sender.Code() == 0


def _Certificate(place: Place) -> str:
    return Path(place.pem).read_text().partition("-----END PRIVATE KEY-----\n")[2] or Path(place.pem).read_text()


@pytest.mark.req("D22-MOVE-03")
@pytest.mark.parametrize("tool", ["gzip", "gzip-slow"])
def test_what_is_compressed_holds_the_magic_too(place: Place, source: Path, tool: str) -> None:
    with place.Listen() as listener:
        sender = place.Export(listener.getsockname()[1], prefix=f"< {source}", compress=tool).Start()
        with place.Accept(listener) as peer:
            packed = ReceiveAll(peer)
            peer.unwrap()
        assert sender.Code() == 0
    assert len(packed) < len(CONTENT) and gzip.decompress(packed) == SENT_MAGIC + CONTENT


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("piece", [1 << 20, 5])
def test_an_import_takes_the_magic_and_the_data(place: Place, version: ssl.TLSVersion, piece: int) -> None:
    """However small the pieces are in which they come."""
    content = CONTENT if piece > 100 else CONTENT[:1000]
    target = place.base / "target"
    receiver = place.Import(suffix=f"> {target}").Start()
    with place.Connect(receiver.Port(), _Only(place.Context(False), version)) as peer:
        whole = SENT_MAGIC + content
        for begin in range(0, len(whole), piece):
            peer.sendall(whole[begin : begin + piece])
        peer.unwrap()  # returns when the other side has confirmed
    assert receiver.Code() == 0 and target.read_bytes() == content


def test_an_import_unpacks_what_was_compressed(place: Place) -> None:
    target = place.base / "target"
    receiver = place.Import(suffix=f"> {target}", compress="gzip").Start()
    with place.Connect(receiver.Port()) as peer:
        # More than one part, as from programs that compress with several processors.
        peer.sendall(gzip.compress(SENT_MAGIC + CONTENT[:1000]) + gzip.compress(CONTENT[1000:]))
        peer.unwrap()
    assert receiver.Code() == 0 and target.read_bytes() == CONTENT


def test_an_import_needs_no_magic(place: Place) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target", magic=None).Start()
    with place.Connect(receiver.Port()) as peer:
        peer.sendall(b"M=data")
        peer.unwrap()
    assert receiver.Code() == 0 and (place.base / "target").read_bytes() == b"M=data"


@pytest.mark.parametrize(
    "data", [b"", b"M", b"M=", SENT_MAGIC[:-1], b"M=other.of-disk_0data", b"data" * 100, SENT_MAGIC.lower() + b"x"]
)
def test_data_without_the_right_magic_touches_nothing(place: Place, data: bytes) -> None:
    target = place.base / "target"
    target.write_bytes(b"precious")
    receiver = place.Import(suffix=f"> {target}", magic=MAGIC.upper() if data.endswith(b"x") else MAGIC).Start()
    with place.Connect(receiver.Port()) as peer:
        peer.sendall(data)
        with pytest.raises(OSError):
            peer.unwrap()
            raise ConnectionError("it was cut off only after the announcement")
    error = receiver.Error()
    assert error.startswith("Magic value mismatch: 127.") and "sent the data of another disk or job" in error
    assert target.read_bytes() == b"precious"


def test_what_comes_with_the_end_of_the_handshake_is_not_waited_for(place: Place) -> None:
    """A busy node receives a small disk in one piece with that; nothing else would ever become readable."""
    receiver = place.Import(suffix=f"> {place.base}/target").Start()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = place.Context(False).wrap_bio(incoming, outgoing, server_side=False)
    with socket.create_connection((place.address, receiver.Port()), 20) as sock:
        ShakeHands(sock, tls, incoming, outgoing)
        tls.write(SENT_MAGIC + CONTENT[:1000])
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        sock.sendall(outgoing.read())
        assert receiver.Code() == 0
    assert (place.base / "target").read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("how", ["close", "shutdown", "reset"])
@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_a_stream_that_is_cut_off_is_not_complete(place: Place, how: str, compress: str) -> None:
    """Even if what came is complete in itself."""
    done = place.base / "done"
    receiver = place.Import(suffix=f"> {place.base}/target; touch {done}", compress=compress).Start()
    data = SENT_MAGIC + CONTENT[:100000]
    with place.Connect(receiver.Port()) as peer:
        peer.sendall(data if compress == "none" else gzip.compress(data))
        WaitUntil(lambda: (place.base / "target").exists() or compress != "none", "data arrives")
        if how == "shutdown":
            peer.shutdown(socket.SHUT_WR)
        elif how == "reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if how != "shutdown":
            peer.close()
        error = receiver.Error()
    assert "closed the connection before the end of the data" in error or "reset" in error
    assert not done.exists()


def test_a_sender_succeeds_only_if_the_receiver_confirms(place: Place, source: Path) -> None:
    with place.Listen() as listener:
        sender = place.Export(listener.getsockname()[1], prefix=f"< {source}").Start()
        with place.Accept(listener) as peer:
            assert ReceiveAll(peer) == SENT_MAGIC + CONTENT
        assert "closed the connection before confirming the end of the data" in sender.Error()


def _EndEarly(peer: ssl.SSLSocket) -> None:
    peer.setblocking(False)
    try:
        peer.unwrap()
    except ssl.SSLError:
        pass
    peer.settimeout(20)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (_EndEarly, "ended the transfer before everything was sent"),
        (lambda peer: peer.sendall(b"x"), "sent data, which no receiver does"),
        (lambda peer: peer.shutdown(socket.SHUT_RDWR), "closed the connection before confirming the end of the data"),
    ],
)
def test_a_receiver_that_leaves_ends_the_sender_at_once(
    place: Place, act: Callable[[ssl.SSLSocket], None], words: str
) -> None:
    """Even while its source gives nothing."""
    with place.Listen() as listener:
        sender = place.Export(listener.getsockname()[1], prefix="sleep 300 |").Start()
        with place.Accept(listener) as peer:
            assert peer.recv(len(SENT_MAGIC)) == SENT_MAGIC
            act(peer)
            assert words in sender.Error()


def test_silence_ends_a_connection_but_not_a_reader_that_is_slow(place: Place) -> None:
    """A limit for what was sent and is not confirmed would count while a receiver's disk is slow."""
    with place.Listen() as listener, socket.create_connection(listener.getsockname()) as sock:
        Channel(sock, place.Context(False), False, "peer")
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        assert [sock.getsockopt(socket.IPPROTO_TCP, name) for name in names] == [60, 10, 5, 0]
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


needs_socat = pytest.mark.skipif(shutil.which("socat") is None, reason="socat is not installed")
_OPTIONS = "keepalive,keepidle=60,keepintvl=10,keepcnt=5,verify=1,cipher=HIGH:-DES:-3DES:-EXPORT:-DH"


def _Socat(place: Place, *ends: str) -> list[str]:
    keys = f",{_OPTIONS},key={place.pem},cert={place.pem},cafile={place.pem},pf=ipv4"
    return ["socat", "-ls", "-b1048576", "-u", *(end + keys if end.startswith("OPENSSL") else end for end in ends)]


@needs_socat
@pytest.mark.req("D22-MOVE-25")
def test_an_import_of_3_1_takes_what_is_sent(place: Place, source: Path, addresses: object) -> None:
    port = addresses.Port()  # type: ignore[attr-defined]
    argv = _Socat(place, f"OPENSSL-LISTEN:{port},reuseaddr,forever,intervall=0.01,bind={place.address}", "stdout")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as socat:
        assert socat.stdout is not None
        sender = place.Export(port, prefix=f"< {source}", connect_retries=10).Start()
        received = socat.stdout.read()
        assert socat.wait(20) == 0
    assert sender.Code() == 0 and received == SENT_MAGIC + CONTENT


@needs_socat
def test_an_export_of_3_1_sends_to_an_import(place: Place) -> None:
    target = place.base / "target"
    receiver = place.Import(suffix=f"> {target}").Start()
    peer = f"OPENSSL:{place.address}:{receiver.Port()},connect-timeout=20,retry=0,openssl-commonname=ganeti.example.com"
    subprocess.run(_Socat(place, "stdin", peer), input=SENT_MAGIC + CONTENT, check=True, timeout=60)
    assert receiver.Code() == 0 and target.read_bytes() == CONTENT


@needs_socat
def test_an_import_of_3_1_notices_that_a_source_failed(place: Place, addresses: object) -> None:
    """It would take a plain end of the connection for the end of the data."""
    port = addresses.Port()  # type: ignore[attr-defined]
    argv = _Socat(place, f"OPENSSL-LISTEN:{port},reuseaddr,forever,intervall=0.01,bind={place.address}", "stdout")
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as socat:
        sender = place.Export(port, prefix="{ echo some; exit 3; } |", connect_retries=10).Start()
        assert "exit code 3" in sender.Error()
        assert socat.wait(20) != 0
