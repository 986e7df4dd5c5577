"""The network of the laboratory: a switch between virtual machines whose links can be cut, one-way or slow.

Every port is a UNIX socket to which a QEMU connects (``-netdev stream``: each frame with its length before it).
"""

from __future__ import annotations

import contextlib
import heapq
import selectors
import socket
import struct
import threading
import time
from pathlib import Path

_HEAD = struct.Struct("!I")
_MOST_QUEUED = 8 << 20  # bytes; what is more is lost, as in a real switch


class _Port:
    def __init__(self, name: str, listener: socket.socket):
        self.name = name
        self.listener = listener
        self.sock: socket.socket | None = None
        self.received = b""
        self.to_send = bytearray()


class Switch:
    """Ports by name; ``Cut(a, b)`` drops what a sends to b, ``Delay(a, b, seconds)`` holds it up."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._ports: dict[str, _Port] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._cut: set[tuple[str, str]] = set()
        self._delays: dict[tuple[str, str], float] = {}
        self._late: list[tuple[float, int, str, bytes]] = []
        self._count = 0
        self._ends = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._Work, daemon=True)
        self._thread.start()

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._wake.send(b"x")
        self._thread.join(30)
        for port in self._ports.values():
            for sock in (port.listener, port.sock):
                if sock is not None:
                    sock.close()
        self._selector.close()
        self._wake.close()
        self._woken.close()

    # --- for tests ----------------------------------------------------------------------------------------------------

    def AddPort(self, name: str, number: int, network: int = 0) -> list[str]:
        """Return the arguments of QEMU for machine NAME; ``network``: the number of its interface."""
        path = self._folder / f"{name}.net"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(1)
        listener.setblocking(False)
        with self._lock:
            self._ports[name] = _Port(name, listener)
        self._selector.register(listener, selectors.EVENT_READ, name)
        self._wake.send(b"x")
        mac = f"52:54:00:00:{network:02x}:{number:02x}"
        return [
            "-netdev",
            f"stream,id=n{network},addr.type=unix,addr.path={path},server=off",
            "-device",
            f"virtio-net-pci,netdev=n{network},mac={mac}",
        ]

    def Cut(self, source: str, target: str) -> None:
        with self._lock:
            self._cut.add((source, target))

    def CutOff(self, name: str) -> None:
        """Take the cable out."""
        with self._lock:
            self._cut.update((a, b) for a in self._ports for b in self._ports if name in (a, b))

    def Delay(self, source: str, target: str, seconds: float) -> None:
        with self._lock:
            self._delays[source, target] = seconds

    def Heal(self) -> None:
        with self._lock:
            self._cut.clear()
            self._delays.clear()

    # --- frames -------------------------------------------------------------------------------------------------------

    def _Work(self) -> None:
        while not self._ends:
            wait = max(0.0, self._late[0][0] - time.monotonic()) if self._late else 1.0
            for key, events in self._selector.select(wait):
                if key.fileobj is self._woken:
                    self._woken.recv(100)
                else:
                    self._Handle(self._ports[key.data], key.fileobj, events)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, target, frame = heapq.heappop(self._late)
                self._Send(self._ports[target], frame)

    def _Handle(self, port: _Port, fileobj: object, events: int) -> None:
        if fileobj is port.listener:
            with contextlib.suppress(OSError):
                self._Drop(port)
                port.sock = port.listener.accept()[0]
                port.sock.setblocking(False)
                self._selector.register(port.sock, selectors.EVENT_READ, port.name)
            return
        if fileobj is not port.sock:
            # The machine has come back: this was seen of its socket of before, in the same look.
            return
        try:
            assert port.sock is not None
            if events & selectors.EVENT_WRITE:
                self._Flush(port)
            if events & selectors.EVENT_READ:
                self._Read(port)
        except (OSError, AssertionError):
            self._Drop(port)

    def _Read(self, port: _Port) -> None:
        assert port.sock is not None
        data = port.sock.recv(1 << 20)
        if not data:
            raise ConnectionResetError(port.name)
        port.received += data
        while len(port.received) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(port.received)
            if len(port.received) < _HEAD.size + length:
                break
            frame = port.received[: _HEAD.size + length]
            port.received = port.received[_HEAD.size + length :]
            self._Spread(port.name, frame)

    def _Spread(self, source: str, frame: bytes) -> None:
        """Every frame goes to every port: there are few, and nobody minds."""
        with self._lock:
            targets = [name for name in self._ports if name != source and (source, name) not in self._cut]
            delays = {name: self._delays.get((source, name), 0.0) for name in targets}
        for name in targets:
            if delays[name]:
                self._count += 1
                heapq.heappush(self._late, (time.monotonic() + delays[name], self._count, name, frame))
            else:
                self._Send(self._ports[name], frame)

    def _Send(self, port: _Port, frame: bytes) -> None:
        if port.sock is not None and len(port.to_send) < _MOST_QUEUED:
            port.to_send += frame
            with contextlib.suppress(OSError):
                self._Flush(port)

    def _Flush(self, port: _Port) -> None:
        assert port.sock is not None
        with contextlib.suppress(BlockingIOError):
            while port.to_send:
                del port.to_send[: port.sock.send(port.to_send)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if port.to_send else 0)
        self._selector.modify(port.sock, events, port.name)

    def _Drop(self, port: _Port) -> None:
        if port.sock is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(port.sock)
            port.sock.close()
        port.sock = None
        port.received, port.to_send = b"", bytearray()
