"""An HTTPS server that keeps every request and answers what the test says; for clients of the REST interface."""

from __future__ import annotations

import http.server
import json
import os
import queue
import ssl
import threading
import urllib.parse
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

from ganeti import x509

FEATURES = ["instance-create-reqv1", "instance-reinstall-reqv1", "node-migrate-reqv1", "node-evac-res1"]
SILENCE = object()
"""In place of a reply: nothing is answered as long as the server lives."""


@cache
def ServerPem() -> str:
    """The server's key and certificate, the same for a whole run."""
    return x509.MakeRapiPem()


@dataclass
class Request:
    """One request as it came."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The body's JSON value; ... if there is no body."""
        return json.loads(self.body) if self.body else ...


@dataclass
class Reply:
    """One answer; ``data`` is sent as it is if there is any, else ``value`` as JSON.  ``cut``: the connection breaks after it;
    ``hold``: nothing comes after it as long as the server lives."""

    value: Any = None
    status: int = 200
    data: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hold: bool = False

    @property
    def body(self) -> bytes:
        return json.dumps(self.value).encode() + b"\n" if self.data is None else self.data


class Recorder:
    """Serves until it is closed.  ``replies``: by path, one reply or several, of which each is used once."""

    def __init__(self, address: str, port: int, folder: str):
        self.address, self.port = address, port
        self.pem = os.path.join(folder, "rapi.pem")
        with open(self.pem, "w", encoding="ascii") as stream:
            stream.write(ServerPem())
        self.requests: queue.Queue[Request] = queue.Queue()
        self.replies: dict[str, Any] = {"/2/features": Reply(FEATURES)}
        self.ended = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pem)
        self._server = http.server.ThreadingHTTPServer((address, port), _HandlerFor(self))
        self._server.daemon_threads = False
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def Take(self) -> list[Request]:
        """The requests since the last time."""
        found = []
        while not self.requests.empty():
            found.append(self.requests.get())
        return found

    def ReplyTo(self, path: str) -> Any:
        reply = self.replies.get(path, Reply())
        if isinstance(reply, list):
            return reply.pop(0) if reply else SILENCE
        return reply


def _HandlerFor(recorder: Recorder) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                pass  # the client rejected our certificate, or went away

        def answer(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pairs = urllib.parse.parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
            headers = {name.lower(): value for name, value in self.headers.items()}
            recorder.requests.put(Request(self.command, path, pairs, headers, body))
            reply = recorder.ReplyTo(path)
            self.close_connection = True
            if reply is SILENCE:
                recorder.ended.wait()
                return
            self.send_response(reply.status)
            length = {} if reply.cut else {"Content-Length": str(len(reply.body))}
            for name, value in {
                "Content-Type": "application/json",
                "Connection": "close",
                **length,
                **reply.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            if reply.hold:
                recorder.ended.wait()

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler
