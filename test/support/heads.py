"""A web server in this process that says how large what it has is."""

from __future__ import annotations

import http.server
import threading

from support.allocator import Lease

_PORT = 8080
_SIZE = 3 << 30
_ANSWERS: dict[str, tuple[int, dict[str, str]]] = {
    "/image": (200, {"Content-Length": str(_SIZE)}),
    "/empty": (200, {"Content-Length": "0"}),
    "/stream": (200, {}),
    "/moved": (302, {"Location": "/image", "Content-Length": "7"}),
    "/loop": (302, {"Location": "/loop"}),
    "/away": (302, {"Location": "file:///etc/passwd"}),
}


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        status, headers = _ANSWERS.get(self.path, (404, {"Content-Length": "9"}))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class Server:
    """Has ``/image`` of ``size`` bytes, ``/moved``, which leads to it, and others; nobody serves ``gone``."""

    size = _SIZE

    def __init__(self) -> None:
        self._lease = Lease()
        address = self._lease.Address()
        self.url = f"http://{address}:{_PORT}"
        self.gone = f"http://{self._lease.Address()}:{_PORT}"
        self._server = http.server.ThreadingHTTPServer((address, _PORT), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def Close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._lease.Release()
