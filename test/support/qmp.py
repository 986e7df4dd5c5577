"""The other end of a machine protocol: a socket served by a function, behaved or not."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": ["oob"]}}


class Peer:
    """A listening socket whose connections are served by a function."""

    def __init__(self, path: Path, serve: Callable[[socket.socket], None]):
        self.path = str(path)
        self.done = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._serve = serve
        threading.Thread(target=self._Loop, daemon=True).start()

    def _Loop(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    self._serve(connection)
                except OSError:
                    pass

    def Close(self) -> None:
        self.done.set()
        self._listener.close()


def Send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\r\n")


def Requests(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """What the client says: JSON texts one behind the other, with nothing between."""
    data = ""
    while True:
        try:
            request, end = json.JSONDecoder().raw_decode(data)
        except ValueError:
            part = connection.recv(65536)
            if not part:
                return
            data = (data + part.decode()).lstrip()
        else:
            data = data[end:].lstrip()
            yield request
