"""Simulated sockets: streams between processes of one or several machines, datagrams, a poller.

When a process ends, its sockets are closed as the kernel does it: the other end reads what was sent and then the end
of the stream, or a reset if there was something the dead one had not read.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ganeti import errors
from ganeti.runtime.contract import ERR, HUP, IN, OUT
from ganeti.runtime.real.sockets import ConnectFailure
from simulated.disk import Fail, SocketFile
from simulated.locks import Waiters

if TYPE_CHECKING:
    from simulated.machine import Machine, Process
    from simulated.world import World

# What a connection holds for a reader before its writer has to wait.
BUFFER = 212992

_LOCALHOST = ("127.0.0.1", "::1", "localhost")
_EVERYWHERE = ("", "0.0.0.0", "::")
_EPHEMERAL = 32768


def _Fail(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class Pollable:
    """What has a number, can be waited for, and ends with its process."""

    def __init__(self, process: Process):
        self._process = process
        self._world: World = process.world
        self._number = process.NewHandle(self)
        self._closed = False
        self._timeout: float | None = None
        self._waiters = Waiters(process.world)
        self._pollers: dict[Poller, None] = {}
        process.resources[self] = None

    def Events(self) -> int:
        """IN, OUT, HUP and ERR as they are now."""
        raise NotImplementedError

    def Changed(self) -> None:
        """Wakes who waits for something here."""
        self._waiters.WakeAll()
        for poller in self._pollers:
            poller.Changed()

    def Watch(self, poller: Poller) -> None:
        self._pollers[poller] = None

    def Unwatch(self, poller: Poller) -> None:
        self._pollers.pop(poller, None)

    def fileno(self) -> int:
        return -1 if self._closed else self._number

    def Abandon(self) -> None:
        """Closed by its owner or with its process."""
        if not self._closed:
            self._closed = True
            self._Shut()
            self.Changed()
            self._pollers.clear()

    def _Shut(self) -> None:
        """What closing means to others."""

    def _Release(self) -> None:
        self._process.resources.pop(self, None)
        self._process.handles.pop(self._number, None)
        self.Abandon()

    def _Reach(self, what: str) -> None:
        self._world.Reach(what, str(self._number))
        if self._closed:
            raise _Fail(errno.EBADF)

    def _WaitUntil(self, ready: Callable[[], Any]) -> None:
        """As a socket with this time-out does."""
        if ready():
            return
        if self._timeout == 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        if not self._waiters.WaitUntil(lambda: self._closed or ready(), self._timeout):
            raise TimeoutError("timed out")
        if self._closed:
            raise _Fail(errno.EBADF)


class BaseSocket(Pollable):
    """What streams, listeners and datagram sockets share."""

    name: Any = ""

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def settimeout(self, value: float | None) -> None:
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        self._timeout = value

    def gettimeout(self) -> float | None:
        return self._timeout

    def getsockname(self) -> Any:
        return self.name

    def close(self) -> None:
        self._world.Reach("Socket.close", str(self._number))
        self._Release()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Stream(BaseSocket):
    """One end of a connection."""

    def __init__(self, process: Process, name: Any, peer_name: Any):
        super().__init__(process)
        self.name = name
        self._peer_name = peer_name
        self._peer: Stream | None = None
        self._inbox = bytearray()
        self._ended = False  # the other end sends no more
        self._shut = False  # we send no more
        self._reset = False

    def Join(self, peer: Stream) -> None:
        self._peer = peer
        peer._peer = self

    def Owner(self) -> Process:
        return self._process

    def Adopt(self, process: Process) -> None:
        """A connection that was waiting in a listener becomes the acceptor's."""
        self._process.resources.pop(self, None)
        self._process.handles.pop(self._number, None)
        self._process = process
        self._number = process.NewHandle(self)
        process.resources[self] = None

    def _Room(self) -> int:
        peer = self._peer
        return BUFFER - len(peer._inbox) if peer is not None and not peer._closed else 0

    def _Broken(self) -> bool:
        return self._reset or self._shut or self._peer is None or self._peer._closed

    def Events(self) -> int:
        events = 0
        gone = self._peer is None or self._peer._closed
        if self._inbox or self._ended or self._reset:
            events |= IN
        if self._Broken() or self._Room() > 0:
            events |= OUT
        if self._reset:
            events |= ERR
        if self._reset or gone or (self._ended and self._shut):
            events |= HUP
        return events

    def recv(self, size: int) -> bytes:
        self._Reach("Socket.recv")
        self._WaitUntil(lambda: self._inbox or self._ended or self._reset)
        if self._reset and not self._inbox:
            self._reset = False
            self._ended = True
            raise _Fail(errno.ECONNRESET)
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        if data and self._peer is not None:
            self._peer.Changed()
        return data

    def send(self, data: bytes) -> int:
        self._Reach("Socket.send")
        self._WaitUntil(lambda: self._Broken() or self._Room() > 0)
        if self._reset:
            raise _Fail(errno.ECONNRESET)
        if self._Broken():
            raise _Fail(errno.EPIPE)
        peer = self._peer
        assert peer is not None
        part = bytes(memoryview(data)[: self._Room()])
        peer._inbox += part
        peer.Changed()
        return len(part)

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.send(view) :]  # type: ignore[arg-type]

    def shutdown(self, how: int) -> None:
        self._Reach("Socket.shutdown")
        if self._peer is None or self._peer._closed:
            raise _Fail(errno.ENOTCONN)
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            self._ended = True
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self._shut = True
            self._peer._ended = True
            self._peer.Changed()
        self.Changed()

    def getpeername(self) -> Any:
        if self._peer is None or self._peer._closed:
            raise _Fail(errno.ENOTCONN)
        return self._peer_name

    def setsockopt(self, *args: Any) -> None:
        """Options change nothing here."""

    def _Shut(self) -> None:
        peer = self._peer
        if peer is not None and not peer._closed:
            peer._ended = True
            if self._inbox:
                peer._reset = True
            peer.Changed()


class Listener(BaseSocket):
    """A listening socket: connections wait in its backlog."""

    def __init__(self, process: Process, name: Any, backlog: int):
        super().__init__(process)
        self.name = name
        self._backlog = max(1, backlog)
        self._pending: deque[Stream] = deque()
        self.room = Waiters(process.world)  # connectors that find the backlog full
        self.where: tuple[str, int] | None = None

    def Events(self) -> int:
        return IN if self._pending else 0

    @property
    def open(self) -> bool:
        return not self._closed

    def Connect(self, process: Process, own_name: Any, timeout: float | None) -> Stream:
        """The other end of a new connection."""
        if not self.room.WaitUntil(lambda: self._closed or len(self._pending) < self._backlog, timeout):
            raise TimeoutError("timed out")
        if self._closed:
            raise _Fail(errno.ECONNREFUSED)
        near = Stream(process, own_name, self.name)
        far = Stream(self._process, self.name, own_name)
        near.Join(far)
        near.settimeout(timeout)
        self._pending.append(far)
        self.Changed()
        return near

    def accept(self) -> tuple[Stream, Any]:
        self._Reach("Socket.accept")
        self._WaitUntil(lambda: self._pending)
        stream = self._pending.popleft()
        stream.Adopt(self._process)
        self.room.WakeAll()
        return stream, stream._peer_name

    def _Shut(self) -> None:
        self.room.WakeAll()
        for stream in self._pending:
            stream.Abandon()
            if stream._peer is not None:
                stream._peer._reset = True
                stream._peer.Changed()
        self._pending.clear()
        if self.where is not None:
            self._process.machine.listeners.pop(self.where, None)


class Datagrams(BaseSocket):
    """A datagram socket."""

    def __init__(self, process: Process, name: tuple[str, int]):
        super().__init__(process)
        self.name = name
        self._inbox: deque[tuple[bytes, Any]] = deque()

    def Events(self) -> int:
        return OUT | (IN if self._inbox else 0)

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:
        self._Reach("Socket.sendto")
        if len(data) > 65507:
            raise _Fail(errno.EMSGSIZE)
        machine = FindMachine(self._process.machine, address[0])
        target = _Bound(machine.datagrams, address) if machine is not None else None
        if target is not None:
            host = self.name[0] if self.name[0] not in _EVERYWHERE else _OwnAddress(self._process.machine, address[0])
            target._inbox.append((bytes(data), (host, self.name[1])))
            target.Changed()
        return len(data)

    def recvfrom(self, size: int) -> tuple[bytes, Any]:
        self._Reach("Socket.recvfrom")
        self._WaitUntil(lambda: self._inbox)
        data, sender = self._inbox.popleft()
        return data[:size], sender

    def _Shut(self) -> None:
        self._process.machine.datagrams.pop(self.name, None)


class Waker(Pollable):
    """Wakes a poller."""

    def __init__(self, process: Process):
        super().__init__(process)
        self._awake = False

    def Events(self) -> int:
        return IN if self._awake else 0

    def Wake(self) -> None:
        self._world.Reach("Waker.Wake", str(self._number))
        self._awake = True
        self.Changed()

    def Clear(self) -> None:
        self._world.Reach("Waker.Clear", str(self._number))
        self._awake = False

    def Close(self) -> None:
        self._world.Reach("Waker.Close", str(self._number))
        self._Release()


class Poller:
    """Level-triggered, as epoll; closed sockets drop out by themselves."""

    def __init__(self, process: Process):
        self._process = process
        self._world = process.world
        self._watched: dict[Pollable, tuple[Any, int]] = {}
        self._waiters = Waiters(process.world)

    def _Thing(self, sock: Any) -> Pollable:
        # As the real one takes them: a number, something of ours, or whatever has a number.
        thing = sock
        if not isinstance(sock, Pollable):
            thing = self._process.handles.get(sock if isinstance(sock, int) else sock.fileno())
        if not isinstance(thing, Pollable) or thing.fileno() < 0:
            raise _Fail(errno.EBADF)
        return thing

    def Register(self, sock: Any, events: int) -> None:
        self._world.Reach("Poller.Register")
        thing = self._Thing(sock)
        if thing in self._watched:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._watched[thing] = (sock, events)
        thing.Watch(self)
        self.Changed()

    def Modify(self, sock: Any, events: int) -> None:
        self._world.Reach("Poller.Modify")
        thing = self._Thing(sock)
        if thing not in self._watched:
            raise _Fail(errno.ENOENT)
        self._watched[thing] = (sock, events)
        self.Changed()

    def Unregister(self, sock: Any) -> None:
        self._world.Reach("Poller.Unregister")
        for thing, (known, _) in list(self._watched.items()):
            if known is sock:
                del self._watched[thing]
                thing.Unwatch(self)

    def Changed(self) -> None:
        self._waiters.WakeAll()

    def _Ready(self) -> list[tuple[Any, int]]:
        ready = []
        for thing, (sock, events) in list(self._watched.items()):
            if thing.fileno() < 0:
                del self._watched[thing]
                continue
            found = thing.Events() & (events | ERR | HUP)
            if found:
                ready.append((sock, found))
        self._world.Shuffle(ready)
        return ready

    def Poll(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        self._world.Reach("Poller.Poll")
        ready = self._Ready()
        if ready or (timeout is not None and timeout <= 0):
            return ready
        until = None if timeout is None else self._world.now_ns + round(timeout * 1e9)
        while not ready:
            left = None if until is None else (until - self._world.now_ns) / 1e9
            if (left is not None and left <= 0) or not self._waiters.Wait(left):
                return self._Ready()
            ready = self._Ready()
        return ready

    def Close(self) -> None:
        for thing in self._watched:
            thing.Unwatch(self)
        self._watched.clear()


def FindMachine(near: Machine, host: str) -> Machine | None:
    """The machine an address or name leads to, as seen from one machine; None if none does."""
    if host in _LOCALHOST or host in _EVERYWHERE or host.startswith("127.") or host in near.addresses:
        return near
    for machine in near.world.machines.values():
        if host == machine.name or host in machine.addresses:
            return machine if machine.on else None
    return None


def _OwnAddress(machine: Machine, host: str) -> str:
    """Where we seem to come from when we talk to this address."""
    return host if host in _LOCALHOST or host.startswith("127.") else machine.address


def _Bound(table: dict[tuple[str, int], Any], address: tuple[str, int]) -> Any:
    for host in (address[0], *_EVERYWHERE):
        found = table.get((host, address[1]))
        if found is not None:
            return found
    return None


class Sockets:
    """Part of Side."""

    process: Process
    machine: Machine
    world: World

    def HostName(self) -> str:
        return self.machine.name

    def LookupHost(self, name: str) -> tuple[str, list[str]]:
        self.world.Reach("LookupHost", name)
        if name in _LOCALHOST or name.startswith("127."):
            return name, [name if name[0].isdigit() else "127.0.0.1"]
        for machine in self.world.machines.values():
            if name == machine.name:
                return name, list(machine.addresses)
            if name in machine.addresses:
                return name, [name]
        raise errors.ResolverError(name, socket.EAI_NONAME, "Name or service not known")

    def ListenUnix(self, path: str, mode: int = 0o600, backlog: int = 128) -> Listener:
        self.world.Reach("ListenUnix", path)
        disk = self.machine.disk
        disk.NeedRoom(path)
        listener = Listener(self.process, path, backlog)
        try:
            disk.Insert(path, SocketFile(disk, mode, listener), replace=True)
        except OSError:
            listener._Release()
            raise
        return listener

    def ConnectUnix(self, path: str, timeout: float | None = None) -> Stream:
        self.world.Reach("ConnectUnix", path)
        inode = self.machine.disk.Find(path)
        if not isinstance(inode, SocketFile) or not inode.listener.open:
            raise Fail(errno.ECONNREFUSED, path)
        return inode.listener.Connect(self.process, "", timeout)

    def PeerUser(self, sock: Stream) -> int:
        return 0  # whoever started the programs of a simulated machine

    def _Port(self, table: dict[tuple[str, int], Any], host: str, port: int) -> int:
        """A port that can be bound; 0 asks for a free one."""
        local = FindMachine(self.machine, host)
        if local is not self.machine:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot use {host}:{port}: {os.strerror(errno.EADDRNOTAVAIL)}")
        used = {taken for _, taken in table}
        if port == 0:
            return next(number for number in range(_EPHEMERAL, 65536) if number not in used)
        taken = (host, port) in table or ((host in _EVERYWHERE or _Bound(table, ("", port))) and port in used)
        if taken:
            raise OSError(errno.EADDRINUSE, f"cannot use {host or '*'}:{port}: {os.strerror(errno.EADDRINUSE)}")
        return port

    def ListenTcp(self, host: str, port: int, backlog: int = 128) -> Listener:
        self.world.Reach("ListenTcp", f"{host} {port}")
        port = self._Port(self.machine.listeners, host, port)
        listener = Listener(self.process, (host or "0.0.0.0", port), backlog)
        listener.where = (host, port)
        self.machine.listeners[listener.where] = listener
        return listener

    def ConnectTcp(self, host: str, port: int, timeout: float | None = None, source: str | None = None) -> Stream:
        self.world.Reach("ConnectTcp", f"{host} {port}")
        try:
            return self._Connect(host, port, timeout, source)
        except OSError as err:
            raise ConnectFailure(host, port, err) from err

    def _Connect(self, host: str, port: int, timeout: float | None, source: str | None) -> Stream:
        if source is not None and FindMachine(self.machine, source) is not self.machine:
            raise _Fail(errno.EADDRNOTAVAIL)
        machine = FindMachine(self.machine, host)
        if machine is None:
            if any(host == each.name or host in each.addresses for each in self.world.machines.values()):
                self.world.Block(3.0 if timeout is None else min(timeout, 3.0))
                if timeout is not None and timeout < 3.0:
                    raise TimeoutError("timed out")
                raise _Fail(errno.EHOSTUNREACH)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        listener = _Bound(machine.listeners, (host, port))
        if listener is None:
            raise _Fail(errno.ECONNREFUSED)
        own = (source or _OwnAddress(self.machine, host), _EPHEMERAL + self.world.NextSerial() % 28000)
        return listener.Connect(self.process, own, timeout)

    def OpenUdp(self, host: str = "", port: int = 0, room: int = 0) -> Datagrams:
        del room  # nothing is lost here
        self.world.Reach("OpenUdp", f"{host} {port}")
        port = self._Port(self.machine.datagrams, host, port)
        sock = Datagrams(self.process, (host, port))
        self.machine.datagrams[(host, port)] = sock
        return sock

    def LimitSilence(self, descriptor: int, seconds: float) -> None:
        """Do nothing: simulated sockets have no descriptors, and notice a machine that is gone."""
        self.world.Reach("LimitSilence")

    def KeepAlive(self, descriptor: int, idle: int, interval: int, count: int) -> None:
        """Do nothing, as LimitSilence."""
        self.world.Reach("KeepAlive")

    def SocketPair(self) -> tuple[Stream, Stream]:
        self.world.Reach("SocketPair")
        near, far = Stream(self.process, "", ""), Stream(self.process, "", "")
        near.Join(far)
        return near, far

    def Poller(self) -> Poller:
        return Poller(self.process)

    def Waker(self) -> Waker:
        return Waker(self.process)
