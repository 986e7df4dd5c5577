"""Connections: what is not HTTP, sizes, times, places, TLS; against the server on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import re
import socket
import ssl
import struct
import time
import warnings

import pytest
from starlette.responses import StreamingResponse
from support import allocator
from support.rapi import WRITER, Site
from support.rapiserver import Ask, RapiServer, ReadAll, ReadAnswer
from support.realcluster import WaitUntil

from ganeti import constants, runtime, serializer
from ganeti.daemon import StopSignal
from ganeti.rapi.callers.limits import Connections
from ganeti.rapi.declared import BodyUse, Method, Resource, Role
from ganeti.rapi.requests.call import ABSENT
from ganeti.rapi.requests.dispatch import MAX_STRANGERS_BODY
from ganeti.rapi.transport.serving import Ebb, MakeServer
from ganeti.rapi.transport.wire import Times

GET = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
CLOSE = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
QUICK = Times(idle=5, headers=1.2, silence=1.2, body=2.4, write=1.5, farewell=1.0)
EVENTS: list[str] = []


async def _Version(call):
    return 2


async def _Large(call):
    return "x" * (6 << 20)


async def _Endless(call):
    EVENTS.append("begins")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        EVENTS.append("cancelled")
        raise


async def _Slow(call):
    EVENTS.append("begins")
    await asyncio.sleep(1.5)
    EVENTS.append("ends")
    return "done"


async def _Echo(call):
    return None if call.body is ABSENT else call.body


async def _Stream(call):
    async def lines():
        while True:
            yield b"line\n"
            await asyncio.sleep(0.01)

    return StreamingResponse(lines())


TABLE = (
    Resource("/2/stream", "", {"GET": Method(_Stream, "", Role.READ)}),
    Resource("/version", "", {"GET": Method(_Version, "", Role.READ)}),
    Resource("/2/large", "", {"GET": Method(_Large, "", Role.READ)}),
    Resource("/2/endless", "", {"GET": Method(_Endless, "", Role.READ)}),
    Resource("/2/slow", "", {"GET": Method(_Slow, "", Role.READ), "PUT": Method(_Slow, "", Role.READ)}),
    Resource("/2/echo", "", {"PUT": Method(_Echo, "", Role.READ, body=BodyUse.ANY)}),
)
LOGIN = f"Authorization: {WRITER['Authorization']}\r\n".encode()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    lease = allocator.Lease()
    folder = tmp_path_factory.mktemp("rapi")
    yield Site(str(folder / "users"), table=TABLE).application, lease.Address(), str(folder)
    lease.Release()


@pytest.fixture
def serve(place):
    """Servers of one test, ended after it."""
    EVENTS.clear()
    servers = []

    def start(times=None, **options):
        application, address, folder = place
        server = RapiServer(application, address, folder, times, **options)
        server.__enter__()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def _Parse(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return int(status.split()[1]), {k.lower(): v.strip() for k, _, v in (i.partition(":") for i in lines)}, body


def test_an_answer(serve):
    server = serve()
    with server.Connect() as sock:
        for _ in range(3):
            sock.sendall(GET)
            status, headers, body = ReadAnswer(sock)
            assert (status, body) == (200, b"2\n")
            assert headers["server"] == f"Ganeti {constants.RELEASE_VERSION}"
            assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["date"])
            assert "connection" not in headers
        status, headers, body = _Parse(Ask(sock, CLOSE))
        assert (status, headers["connection"].lower(), body) == (200, "close", b"2\n")


@pytest.mark.req("D20-RAPI-12")
def test_each_request_is_complete_in_itself(serve):
    """Nothing of a request counts for the next one on the same connection."""
    with serve().Connect() as sock:
        put = b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        for login, status in ((LOGIN, 200), (b"", 401), (LOGIN, 200)):
            sock.sendall(put + login + b"Content-Length: 2\r\n\r\n{}")
            assert ReadAnswer(sock)[0] == status


def test_http_1_0_ends_after_its_answer(serve):
    with serve().Connect() as sock:
        status, headers, body = _Parse(Ask(sock, b"GET /version HTTP/1.0\r\n\r\n"))
        assert (status, headers["connection"].lower(), body) == (200, "close", b"2\n")


def test_requests_one_after_the_other_without_waiting(serve):
    with serve().Connect() as sock:
        answers = Ask(sock, GET * 5 + CLOSE)
        assert answers.count(b"HTTP/1.1 200") == 6


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /version\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /version HTTP/1.1\r\n\r\n", 400),
        (b"GET /version HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /version HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /version HTTP/1.1\r\n Host: x\r\n\r\n", 400),
        (b"GET /version HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400),
        (b"GET /ver\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /version HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /" + b"a" * 8200 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /version HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 17000 + b"\r\n\r\n", 431),
        (b"GET /version HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431),
        (b"GET /version HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70000, 431),
        # Two ends of one body: what stands in front of us may see the other one.
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nnull", 400),
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4, 5\r\n\r\nnull", 400),
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\nnull", 400),
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nnull", 400),
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (
            b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
            501,
        ),
        (b"PUT /2/echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        (b"PUT /2/echo HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
    ],
)
def test_what_is_not_a_request(serve, request_, status):
    """Answered with the three keys, and the connection ends: nothing that follows is taken for a request."""
    with serve().Connect() as sock:
        found, headers, body = _Parse(Ask(sock, request_ + GET))
        assert found == status
        assert headers["connection"].lower() == "close"
        assert serializer.Load(body).keys() == {"code", "message", "explain"}
        assert serializer.Load(body)["code"] == status
        assert b"HTTP/1.1 200" not in body and b"/version" not in body


def test_bodies_in_any_form(serve):
    server = serve()
    put = b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + LOGIN
    with server.Connect() as sock:
        sock.sendall(put + b'Content-Length: 7\r\n\r\n{"a"')
        sock.sendall(b":1}")
        assert ReadAnswer(sock)[2] == b'{"a":1}\n'
        sock.sendall(put + b'Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4;x=y\r\n":2}\r\n0\r\nTrailer: x\r\n\r\n')
        assert ReadAnswer(sock)[2] == b'{"a":2}\n'
        sock.sendall(put + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"null")
        assert ReadAnswer(sock)[2] == b"null\n"


def test_a_body_that_nobody_wants_does_not_end_the_connection(serve):
    with serve().Connect() as sock:
        sock.sendall(b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50000)
        assert ReadAnswer(sock)[0] == 401
        sock.sendall(b"x" * 50000 + GET)
        assert ReadAnswer(sock)[0] == 200


def test_a_large_body_is_declined_before_it_is_sent(serve):
    with serve().Connect() as sock:
        head = b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + LOGIN
        sock.sendall(head + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
        assert ReadAnswer(sock)[0] == 413


# Time


@pytest.mark.parametrize(
    "part",
    [
        b"G",
        b"GET /version HTTP/1.1\r\nHost: x\r\n",
        b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + LOGIN
        + b"Content-Length: 9\r\n\r\n{",
    ],
)
def test_a_request_that_stops_is_ended(serve, part):
    with serve(QUICK).Connect() as sock:
        started = time.monotonic()
        assert _Parse(Ask(sock, part))[0] == 408
        assert time.monotonic() - started >= 1.1


def test_a_request_that_drips_is_ended(serve):
    """The limit is for all headers together, and for the whole body, not for the next byte."""
    server = serve(QUICK)
    long_body = b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + LOGIN
    for head, drip in (
        (b"GET /version HTTP/1.1\r\n", b"A: b\r\n"),
        (long_body + b"Content-Length: 9999\r\n\r\n", b"x"),
    ):
        with server.Connect() as sock:
            sock.settimeout(0.1)
            sock.sendall(head)
            answer = b""
            while not answer:
                try:
                    answer = sock.recv(100)
                except TimeoutError:
                    sock.sendall(drip)
            assert answer.startswith(b"HTTP/1.1 408 ")


def test_silent_connections_end(serve):
    server = serve(Times(idle=1.5, headers=1.5, farewell=0.3))
    with server.Connect() as sock:
        assert ReadAll(sock) == b"", "secured, and nothing asked"
    with server.Tcp() as sock:
        assert ReadAll(sock) == b"", "not even a greeting"
    with server.Connect() as sock:
        sock.sendall(GET)
        assert ReadAnswer(sock)[0] == 200
        assert ReadAll(sock) == b"", "kept alive, and nothing more asked"
    WaitUntil(lambda: len(server.server.places) == 0, "all places are free")


def test_a_reader_that_takes_nothing_is_cut_off(serve):
    server = serve(QUICK)
    with server.Connect() as sock:
        sock.sendall(b"GET /2/large HTTP/1.1\r\nHost: x\r\n\r\n")
        WaitUntil(lambda: len(server.server.places) == 0, "its place is free")
    with server.Connect() as sock:
        sock.sendall(b"GET /2/large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert len(ReadAnswer(sock)[2]) == (6 << 20) + 3, "one that reads gets all"


def test_large_answers_have_a_limit_together(serve):
    """Whoever reads slowly loses to whoever comes later; 64 MiB are ten answers of this size."""
    server = serve(Times(write=60))
    large = b"GET /2/large HTTP/1.1\r\nHost: x\r\n\r\n"
    slow = [server.Connect() for _ in range(14)]
    try:
        for sock in slow:
            sock.sendall(large)
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        with server.Connect() as good:
            good.sendall(large)
            assert len(ReadAnswer(good)[2]) == (6 << 20) + 3
        WaitUntil(lambda: len(server.server.places) == 9, "the oldest five have lost their connections")
        assert len(ReadAll(slow[0])) < 6 << 20
    finally:
        for sock in slow:
            sock.close()


@pytest.mark.parametrize("length", [b"Content-Length: 65000", b"Transfer-Encoding: chunked"])
def test_unfinished_bodies_of_strangers_have_a_limit_together(place, tmp_path, length):
    """They send all but the end of what they may send, and take no more memory than four of them may."""
    _, address, folder = place
    site = Site(str(tmp_path / "users"), table=TABLE, incoming=4 * MAX_STRANGERS_BODY)
    part = b" " * 64000
    if b"chunked" in length:
        part = b"%x\r\n%b\r\n" % (len(part), part)
    head = b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + length + b"\r\n"
    with RapiServer(site.application, address, folder) as server, contextlib.ExitStack() as stack:

        def begin(verb: bytes, login: bytes = b"") -> socket.socket:
            sock = stack.enter_context(server.Connect())
            sock.sendall(verb + head + login + b"\r\n" + part)
            return sock

        known = begin(b"PUT /2/echo", LOGIN)
        strangers = []
        for places in (2, 3, 4, 5, 5, 5, 5):
            strangers.append(begin(b"GET /version"))
            WaitUntil(lambda there=places: len(server.server.places) == there, "the oldest have lost their connections")
        assert [ReadAll(sock) for sock in strangers[:3]] == [b""] * 3
        for sock, body in ((strangers[-1], b"2\n"), (known, b"1\n")):
            sock.sendall(b"1\r\n1\r\n0\r\n\r\n" if b"chunked" in length else b" " * 999 + b"1")
            assert ReadAnswer(sock)[::2] == (200, body)
        begin(b"GET /version")
        WaitUntil(lambda: len(server.server.places) == 6, "whoever has been answered has made room")
        strangers[3].sendall(b"1\r\n1\r\n0\r\n\r\n" if b"chunked" in length else b" " * 999 + b"1")
        assert ReadAnswer(strangers[3])[0] == 200


def test_memory_is_given_back_when_many_connections_have_ended():
    ebb = Ebb()
    assert [ebb(now) for now in (50, 500, 450, 401, 400, 400, 301, 300, 0, 0)] == [
        False, False, False, False, True, False, False, True, True, False,
    ]  # fmt: skip


def test_whoever_sends_a_body_slowly_can_be_sent_away(serve):
    server = serve(limit=10)
    slow = [server.Connect() for _ in range(10)]
    try:
        for sock in slow:
            sock.sendall(b"PUT /2/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + LOGIN)
            sock.sendall(b"Content-Length: 99\r\n\r\n{")
        with server.Connect() as good:
            good.sendall(GET)
            assert ReadAnswer(good)[0] == 200
    finally:
        for sock in slow:
            sock.close()


def test_work_has_no_limit_of_the_connection(serve):
    server = serve(Times(idle=0.8, headers=0.8, silence=0.8, body=0.8, write=0.8, farewell=0.8))
    with server.Connect() as sock:
        sock.sendall(b"GET /2/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert ReadAnswer(sock)[2] == b'"done"\n'


def test_a_client_that_leaves_ends_its_reading_and_not_its_change(serve):
    server = serve()
    with server.Connect() as sock:
        sock.sendall(b"GET /2/endless HTTP/1.1\r\nHost: x\r\n\r\n")
        WaitUntil(lambda: EVENTS == ["begins"], "the request is under way")
    WaitUntil(lambda: EVENTS == ["begins", "cancelled"], "nobody waits for it")
    EVENTS.clear()
    with server.Connect() as sock:
        sock.sendall(b"PUT /2/slow HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"\r\n")
        WaitUntil(lambda: "begins" in EVENTS, "the request is under way")
    WaitUntil(lambda: EVENTS == ["begins", "ends"], "the change is made")


def test_a_client_that_has_said_all_is_answered(serve):
    """Half-closed, as programs do that read to the end."""
    with serve(tls=False).Connect() as sock:
        sock.sendall(b"GET /2/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        assert _Parse(ReadAll(sock))[2] == b'"done"\n'


def test_a_request_that_ends_too_early(serve):
    with serve(tls=False).Connect() as sock:
        sock.sendall(b"PUT /2/echo HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"Content-Length: 9\r\n\r\n{")
        sock.shutdown(socket.SHUT_WR)
        assert ReadAll(sock) == b""


def test_broken_connections_leave_no_trace(serve):
    server = serve()
    for part in (b"", b"GET", GET, b"PUT /2/echo HTTP/1.1\r\nHost: x\r\n" + LOGIN + b"Content-Length: 9\r\n\r\n{"):
        sock = server.Connect()
        sock.sendall(part)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    WaitUntil(lambda: len(server.server.places) == 0, "all places are free")
    with server.Connect() as sock:
        sock.sendall(GET)
        assert ReadAnswer(sock)[0] == 200


# Places


def test_connections_that_wait_to_be_accepted_keep_nobody_from_their_turn(place):
    """Accepting one does not wait while there are more, and whoever connects quickly would stop all requests."""
    application, address, _ = place
    waiting = 100

    async def story():
        server = MakeServer(application, None, StopSignal())
        server.config.load()
        turns = [0]
        await server.startup([listener])
        while turns[-1] < waiting:
            await asyncio.sleep(0)
            turns.append(len(server.places))
        for client in clients:
            client.close()
        while len(server.places):
            await asyncio.sleep(0.01)
        return max(after - before for before, after in itertools.pairwise(turns))

    with contextlib.closing(runtime.ListenTcp(address, 0)) as listener:
        clients = [socket.create_connection(listener.getsockname()) for _ in range(waiting)]
        assert asyncio.run(story()) <= 20


def test_who_has_waited_longest_makes_room():
    left = []
    places = Connections(3)
    for name in "abc":
        assert places.Enter(name, lambda name=name: left.append(name))
    places.Busy("a", lambda: False)
    assert places.Enter("d", lambda: left.append("d"))
    assert left == ["b"]
    places.Waits("a", lambda: left.append("a"))
    assert places.Enter("e", lambda: None)
    assert left == ["b", "c"]
    for name in "ade":
        places.Busy(name, lambda: False)
    assert not places.Enter("f", lambda: None), "nobody who is served is sent away"
    places.Leave("a")
    assert places.Enter("f", lambda: None)
    assert len(places) == 3


def test_strangers_do_not_keep_others_out(serve):
    """All places are taken by connections that say nothing, half a greeting, half a request."""
    server = serve(limit=30)
    held = []
    try:
        for number in range(60):
            sock = server.Tcp() if number % 2 else server.Connect()
            sock.sendall(b"GET / HTT")
            held.append(sock)
            if number % 10 == 0:
                with server.Connect() as good:
                    good.sendall(GET)
                    assert ReadAnswer(good)[0] == 200
        assert len(server.server.places) <= 30
    finally:
        for sock in held:
            sock.close()


def test_a_stranger_with_a_request_makes_room_for_others(serve):
    """All places are taken by requests that take long; those of clients with a login go on."""
    EVENTS.clear()
    server = serve(limit=6)
    with contextlib.ExitStack() as stack:

        def ask(login: bytes) -> socket.socket:
            sock = stack.enter_context(server.Connect())
            before = EVENTS.count("begins")
            sock.sendall(b"GET /2/endless HTTP/1.1\r\nHost: x\r\n" + login + b"\r\n")
            WaitUntil(lambda: EVENTS.count("begins") > before, "the request is under way")
            return sock

        for _ in range(3):
            ask(LOGIN)
        strangers = [ask(b"") for _ in range(3)]
        with server.Connect() as good:
            good.sendall(GET)
            assert ReadAnswer(good)[0] == 200
        assert ReadAll(strangers[0]) == b""
        WaitUntil(lambda: EVENTS.count("cancelled") == 1, "only the oldest stranger's request has ended")
        for _ in range(3):
            ask(LOGIN)
        WaitUntil(lambda: EVENTS.count("cancelled") == 3, "the others made room as well")
        with pytest.raises(OSError):
            server.Connect()
        assert (EVENTS.count("cancelled"), len(server.server.places)) == (3, 6)


# TLS


@pytest.mark.req("D20-RAPI-13")
def test_only_current_tls(serve):
    server = serve()
    with server.Connect() as sock:
        assert sock.version() in ("TLSv1.2", "TLSv1.3")
    with server.Connect(maximum_version=ssl.TLSVersion.TLSv1_2) as sock:
        assert sock.version() == "TLSv1.2"
        assert "DHE" in sock.cipher()[0], "what is recorded today stays secret when the key is lost"


@pytest.mark.req("D20-RAPI-13")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_tls_is_refused_by_the_server(serve, caplog, version):
    """The client has ciphers for it, which OpenSSL leaves out by default: without them it would give up by itself.

    asyncio sends no alert when a handshake fails, so the server's log says who refused.
    """
    server = serve()
    caplog.set_level(logging.INFO)

    def connect():
        with pytest.warns(DeprecationWarning):
            return server.Connect("ALL:@SECLEVEL=0", minimum_version=version, maximum_version=version)

    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect()
    WaitUntil(lambda: "ended before it was secured: UNSUPPORTED_PROTOCOL" in caplog.text, "the server refused")
    with warnings.catch_warnings(action="ignore"):
        server.context.minimum_version = ssl.TLSVersion.TLSv1
    server.context.set_ciphers("ALL:@SECLEVEL=0")
    with connect() as sock:
        assert ssl.TLSVersion[sock.version().replace(".", "_")] == version, "a server may take this client"


@pytest.mark.parametrize("data", [GET, b"\x16\x03\x01\xff\xff" + b"a" * 100, b"\x00" * 1000, os.urandom(3000)])
def test_what_is_not_tls(serve, data):
    server = serve(QUICK)
    with server.Tcp() as sock:
        sock.sendall(data)
        assert b"HTTP" not in ReadAll(sock)
    with server.Connect() as sock:
        sock.sendall(GET)
        assert ReadAnswer(sock)[0] == 200


def test_requests_under_way_are_answered_at_the_end(serve, place):
    application, address, folder = place
    server = RapiServer(application, address, folder)
    with server, server.Connect() as idle, server.Connect() as sock:
        idle.sendall(GET)
        assert ReadAnswer(idle)[0] == 200
        sock.sendall(b"GET /2/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        WaitUntil(lambda: "begins" in EVENTS, "the request is under way")
        server._stop.set()
        assert ReadAnswer(sock)[2] == b'"done"\n'
        assert ReadAll(idle) == b""
    with pytest.raises(ConnectionRefusedError):
        server.Tcp()


def test_streams_do_not_delay_the_end(place, caplog):
    application, address, folder = place
    server = RapiServer(application, address, folder, Times(grace=60))
    with server, server.Connect() as sock:
        sock.sendall(b"GET /2/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"line" in sock.recv(1000) + sock.recv(1000)
        began = time.monotonic()
        server._stop.set()
        ReadAll(sock)
        server._thread.join(50)
        assert time.monotonic() - began < 50
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_what_does_not_end_by_itself_is_answered_in_the_end(place, caplog):
    application, address, folder = place
    EVENTS.clear()
    server = RapiServer(application, address, folder, Times(grace=0.3))
    with server, server.Connect() as sock:
        sock.sendall(b"GET /2/endless HTTP/1.1\r\nHost: x\r\n\r\n")
        WaitUntil(lambda: EVENTS == ["begins"], "the request is under way")
        server._stop.set()
        status, _, body = ReadAnswer(sock)
        assert (status, serializer.Load(body)["code"]) == (503, 503)
    assert "Traceback" not in caplog.text
