"""The port of the REST daemon: TLS, requests, arguments and bodies of anybody, and of a user who may do everything."""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import ssl
import urllib.parse
from typing import Any, Self

from support.rapi import WRITER

from fuzz import damage
from fuzz.doors import Daemons, Hello
from fuzz.target import Broken
from ganeti import constants
from ganeti.rapi.declared import Job, Method, Resource
from ganeti.rapi.resources import RESOURCES

RAPI = "ganeti-rapi"
# They wait, end what the next round needs, or would reach the machine that the test runs on.
_LEFT_OUT = re.compile(r"/(wait|events|powercycle|os)$")
_NAMES = {"name": "no-such.example.com", "uuid": "x", "resource": "node", "job": "999999", "index": "0"}
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
# What a client may be told that has done nothing wrong: not here, not now.
_ALLOWED = {501, 503, 505}


class RestDoor(Daemons):
    """No input leads to an error of ours, a traceback, or an end of the daemon."""

    ROUNDS = 150
    DAEMONS = ("ganeti-noded", "ganeti-masterd", RAPI)

    def __enter__(self) -> Self:
        super().__enter__()
        self.node.StartRapi()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        return self

    def Round(self, rng: random.Random) -> Any:
        with contextlib.closing(socket.create_connection((self.node.address, constants.DEFAULT_RAPI_PORT), 15)) as raw:
            if rng.random() < 0.1:
                with contextlib.suppress(OSError):
                    raw.sendall(damage.Bytes(rng, Hello()))
                    raw.shutdown(socket.SHUT_WR)
                    while raw.recv(65536):
                        pass
                return
            request = _Request(rng)
            framing = rng.random() < 0.3
            answer = b""
            with contextlib.suppress(OSError), self._context.wrap_socket(raw) as sock:
                # Half a request has no answer for a while.
                sock.settimeout(0.2 if framing else 15)
                sock.sendall(damage.Bytes(rng, request) if framing else request)
                while data := sock.recv(65536):
                    answer += data
        statuses = {int(status) for status in _STATUS.findall(answer)}
        if not framing and not statuses:
            raise Broken(f"no answer to {request[:2000]!r}")
        if any(status >= 500 for status in statuses - _ALLOWED):
            raise Broken(f"{request[:2000]!r}: {answer[:2000]!r}")


def _Request(rng: random.Random) -> bytes:
    resource = rng.choice([one for one in RESOURCES if not _LEFT_OUT.search(one.path)])
    verb = rng.choice(sorted(resource.methods))
    method = resource.methods[verb]
    head = [f"{verb} {_Target(rng, resource, method)} HTTP/1.1", "Host: x", "Connection: close"]
    if rng.random() < 0.9:
        head.append(f"Authorization: {WRITER['Authorization']}")
    body = b""
    if verb != "GET" or rng.random() < 0.2:
        body = damage.Text(rng, _Body(rng, method)) if rng.random() < 0.3 else _Json(rng, method)
        head += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return "\r\n".join([*head, "", ""]).encode("ascii", "replace") + body


def _Json(rng: random.Random, method: Method) -> bytes:
    # Not our serializer: whoever is no friend also writes what no JSON is, such as Infinity.
    return json.dumps(damage.Value(rng, _Body(rng, method))).encode()


def _Body(rng: random.Random, method: Method) -> Any:
    """A body that could be sent, with some more of the parameters that its opcode has."""
    body = method.example
    if isinstance(method.action, Job) and isinstance(body, dict | None):
        names = sorted(method.action.opcode.OP_PARAMS)
        more = rng.sample(names, min(len(names), rng.randint(0, 3)))
        body = {**(body or {}), **{name: rng.choice(damage.ODD_VALUES) for name in more}}
    return body


def _Target(rng: random.Random, resource: Resource, method: Method) -> str:
    path = resource.path
    for name, value in _NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    values = [
        (argument.name, str(rng.choice(damage.ODD_VALUES))) for argument in method.arguments if rng.random() < 0.7
    ]
    if rng.random() < 0.2:
        values.append(("reason", str(rng.choice(damage.ODD_VALUES))))
    query = urllib.parse.urlencode(values, errors="replace")
    return f"{path}?{query}" if query else path
