"""Strangers who hold connections to node daemons and show no certificate, in a process of their own.

::

    with Strangers([node.address for node in nodes], 250): ...        silent ones
    with Strangers([address], 250, "hello", source): ...              each sends a whole TLS greeting, then nothing

A connection that is closed on them is opened again at once.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType

from ganeti import constants

_PROGRAM = r"""
import resource, select, socket, ssl, sys

count, port, kind, source = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
hosts = sys.argv[5:]
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def greeting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="stranger").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


first = {"silent": b"", "half": greeting()[:100], "hello": greeting(), "nonsense": b"GET / HTTP/1.0\r\n\r\n"}[kind]
poller = select.epoll()
held = {}


def open_one(host):
    sock = socket.socket()
    sock.setblocking(False)
    if source:
        sock.bind((source, 0))
    sock.connect_ex((host, port))
    held[sock.fileno()] = (sock, host)
    poller.register(sock, select.EPOLLIN | select.EPOLLOUT)


for host in hosts:
    for _ in range(count):
        open_one(host)
print("held", flush=True)
while True:
    for number, events in poller.poll():
        sock, host = held[number]
        if events & (select.EPOLLHUP | select.EPOLLERR):
            closed = True
        elif events & select.EPOLLIN:
            try:
                closed = not sock.recv(65536)
            except OSError:
                closed = True
        else:
            closed = False
            poller.modify(number, select.EPOLLIN)
            try:
                sock.sendall(first)
            except OSError:
                closed = True
        if closed:
            poller.unregister(number)
            del held[number]
            sock.close()
            open_one(host)
"""


class Strangers:
    """``count`` connections to each address; ``kind``: silent, half, hello or nonsense."""

    def __init__(self, addresses: Sequence[str], count: int, kind: str = "silent", source: str = ""):
        self._argv = [str(count), str(constants.DEFAULT_NODED_PORT), kind, source, *addresses]

    def __enter__(self) -> Strangers:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *self._argv], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "held\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.poll() is None, "the strangers gave up"
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def NoAnswer(address: str) -> Iterator[None]:
    """Whoever connects to a node daemon's port there hears nothing, as if the machine had no power."""
    port = constants.DEFAULT_NODED_PORT
    with socket.create_server((address, port), backlog=0), contextlib.ExitStack() as waiting:
        # Connections that nobody accepts fill the backlog; what comes then is dropped.
        for _ in range(4):
            sock = waiting.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((address, port))
        yield
