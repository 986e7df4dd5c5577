"""Sockets and polling of the real machine: the standard library's sockets, epoll, eventfd."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from typing import Any

from ganeti import errors

HostName = socket.gethostname
SocketPair = socket.socketpair

# sun_path is 108 bytes with its end mark; one more is for the temporary name.
_UNIX_PATH_LIMIT = 106


def LookupHost(name: str) -> tuple[str, list[str]]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except socket.gaierror as err:
        raise errors.ResolverError(name, err.errno, err.strerror) from err
    except UnicodeError as err:
        raise errors.ResolverError(name, socket.EAI_NONAME, f"not a host name: {err}") from err
    canonical = next((entry[3] for entry in found if entry[3]), name)
    return canonical, list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _CheckUnixPath(path: str) -> None:
    if len(os.fsencode(path)) > _UNIX_PATH_LIMIT:
        raise OSError(errno.ENAMETOOLONG, f"a socket's path may have {_UNIX_PATH_LIMIT} bytes", path)


def ListenUnix(path: str, mode: int = 0o600, backlog: int = 128) -> socket.socket:
    _CheckUnixPath(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    temporary = path + "~"
    try:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        sock.bind(temporary)
        os.chmod(temporary, mode)
        sock.listen(backlog)
        os.rename(temporary, path)
    except OSError as err:
        sock.close()
        if err.filename is None:
            err.filename = path
        raise
    return sock


def ConnectUnix(path: str, timeout: float | None = None) -> socket.socket:
    _CheckUnixPath(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if timeout is not None:
            # A socket with a Python time-out does not block, and then a full backlog is an error at once.
            seconds = max(timeout, 0.000001)
            limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1000000))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        try:
            sock.connect(path)
        except BlockingIOError:
            raise TimeoutError(errno.ETIMEDOUT, "nobody accepts connections", path) from None
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
        sock.settimeout(timeout)
    except OSError as err:
        sock.close()
        if err.filename is None:
            err.filename = path
        raise
    return sock


def PeerUser(sock: socket.socket) -> int:
    size = struct.calcsize("3i")
    return int(struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1])


def _Family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def ConnectFailure(host: str, port: int, err: OSError) -> OSError:
    """Return the same error with the name of what could not be reached."""
    if isinstance(err, socket.gaierror):
        return socket.gaierror(err.errno, f"cannot connect to {host}:{port}: {err.strerror}")
    code = errno.ETIMEDOUT if isinstance(err, TimeoutError) else err.errno
    return OSError(code, f"cannot connect to {host}:{port}: {err.strerror or err}")


def ListenTcp(host: str, port: int, backlog: int = 128) -> socket.socket:
    sock = socket.socket(_Family(host), socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(backlog)
    except OSError as err:
        sock.close()
        raise OSError(err.errno, f"cannot listen on {host or '*'}:{port}: {err.strerror}") from err
    return sock


def LimitSilence(descriptor: int, seconds: float) -> None:
    # Probes find out about a connection on which nothing is under way; what was sent and is not confirmed has its own limit.
    probes = 3
    pause = max(1, int(seconds / (probes + 1)))
    KeepAlive(descriptor, pause, pause, probes)
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def KeepAlive(descriptor: int, idle: int, interval: int, count: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)


def ConnectTcp(host: str, port: int, timeout: float | None = None, source: str | None = None) -> socket.socket:
    try:
        sock = socket.create_connection((host, port), timeout, None if source is None else (source, 0))
    except OSError as err:
        raise ConnectFailure(host, port, err) from err
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def OpenUdp(host: str = "", port: int = 0, room: int = 0) -> socket.socket:
    sock = socket.socket(_Family(host), socket.SOCK_DGRAM)
    try:
        if room:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        sock.bind((host, port))
    except OSError as err:
        sock.close()
        raise OSError(err.errno, f"cannot use {host or '*'}:{port}: {err.strerror}") from err
    return sock


class Poller:
    """Level-triggered epoll that speaks of the objects registered, not of descriptors."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._objects: dict[int, Any] = {}

    def Register(self, sock: Any, events: int) -> None:
        number = sock if isinstance(sock, int) else sock.fileno()
        self._epoll.register(number, events)
        self._objects[number] = sock

    def Modify(self, sock: Any, events: int) -> None:
        self._epoll.modify(sock, events)

    def Unregister(self, sock: Any) -> None:
        """To be called before the socket is closed; an unknown or closed one is fine."""
        # A socket that was closed no longer has a number; a bare number is not the same object each time.
        number = (
            sock if isinstance(sock, int) else next((n for n, known in self._objects.items() if known is sock), None)
        )
        if number not in self._objects:
            return
        del self._objects[number]
        try:
            self._epoll.unregister(number)
        except OSError:
            pass  # the kernel forgets closed descriptors by itself

    def Poll(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        ready = self._epoll.poll(timeout, max(len(self._objects), 1))
        objects = self._objects
        return [(objects[number], events) for number, events in ready if number in objects]

    def Close(self) -> None:
        self._objects.clear()
        self._epoll.close()


class Waker:
    """An eventfd."""

    def __init__(self) -> None:
        self._handle = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._handle

    def Wake(self) -> None:
        try:
            os.eventfd_write(self._handle, 1)
        except BlockingIOError:
            pass  # the counter is full: awake already

    def Clear(self) -> None:
        try:
            os.eventfd_read(self._handle)
        except BlockingIOError:
            pass

    def Close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
