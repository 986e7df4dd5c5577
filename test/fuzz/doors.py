"""The sockets of real daemons: LUXI messages to a master, TLS and HTTP to a node daemon."""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.realcluster import RealCluster

from fuzz import damage
from fuzz.target import Broken, Target
from ganeti import constants, opcodes
from ganeti.luxi import methods, protocol

# They end or stop what the next round needs.
_LEFT_OUT = frozenset(["SetDrainFlag"])
_GROWTH = 60 * 1024  # KiB that a daemon may gain over a run


class Daemons(Target):
    """A cluster of one node whose daemons are asked nonsense; they live, do not grow and log no traceback."""

    DAEMONS: tuple[str, ...] = ("ganeti-noded", "ganeti-masterd")

    def __enter__(self) -> Self:
        self._stack = contextlib.ExitStack()
        self.cluster = self._stack.enter_context(RealCluster(1))
        self.cluster.StartNodeDaemons()
        self.cluster[0].StartMaster()
        self.node = self.cluster[0]
        self._before: dict[str, tuple[int, int]] = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def Warm(self) -> None:
        """Remember the daemons as they are once they have seen a little."""
        self._before = {name: self._Look(name) for name in self.DAEMONS}

    def _Look(self, name: str) -> tuple[int, int]:
        pid = self.node.Pid(name)
        text = Path(f"/proc/{pid}/status").read_text() if pid else ""
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        return pid, int(found.group(1)) if found else 0

    def Check(self) -> None:
        for name, (pid, size) in self._before.items():
            now, grown = self._Look(name)
            if now != pid:
                raise Broken(f"{name} ended:\n{self.node.Log(name)}")
            if grown - size > _GROWTH:
                raise Broken(f"{name} grew from {size} to {grown} KiB")
            if "Traceback" in self.node.Log(name):
                raise Broken(self.node.Log(name))

    def Run(self, rounds: int, seed: int) -> None:
        rng = random.Random(f"{seed}.warm")
        for _ in range(20):
            self.Round(rng)
        self.Warm()
        super().Run(rounds, seed)


class Luxi(Daemons):
    """Messages of whoever may open the socket."""

    ROUNDS = 300

    def Round(self, rng: random.Random) -> Any:
        method = methods.METHODS[rng.choice(sorted(methods.METHODS.keys() - _LEFT_OUT))]
        value = {"method": method.name, "args": [_Argument(rng, str(arg)) for arg in method.args], "version": None}
        message = damage.Text(rng, value).replace(protocol.EOM, b"")
        if re.search(rb"SetDrain", message):
            return
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.settimeout(15)
            sock.connect(self.node.Path("/var/run/ganeti/socket/ganeti-query"))
            sock.sendall(message + (protocol.EOM if rng.random() < 0.95 else b""))
            if rng.random() < 0.1:
                return
            sock.shutdown(socket.SHUT_WR)
            answer = bytearray()
            while not answer.endswith(protocol.EOM) and (data := sock.recv(65536)):
                answer += data
        if b"internal error" in answer:
            raise Broken(f"{message[:2000]!r}: {bytes(answer[:2000])!r}")


def _Argument(rng: random.Random, name: str) -> Any:
    delay = opcodes.OpTestDelay(duration=0.0, on_nodes=[], on_master=False).ToDict()
    kinds = ["node", "instance", "group", "network", "job", "filter", "lock", "os", "cluster"]
    samples: tuple[Any, ...] = (
        [delay], [[delay]], 1, [1], "1", rng.choice(kinds), ["name"], ["|", ["==", "name", "x"]], None, True, 0.1, {},
        ["name", "status"], [1, 2], "all", -1, ["=~", "name", "x.*"],
    )  # fmt: skip
    del name
    return rng.choice(samples)


class NodeDoor(Daemons):
    """TLS records of strangers, and HTTP of somebody who has a candidate's certificate."""

    ROUNDS = 120

    def __enter__(self) -> Self:
        super().__enter__()
        data = "/var/lib/ganeti"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.load_verify_locations(self.node.Path(f"{data}/server.pem"))
        self._context.load_cert_chain(self.node.Path(f"{data}/client.pem"))
        return self

    def Round(self, rng: random.Random) -> Any:
        with contextlib.closing(socket.create_connection((self.node.address, constants.DEFAULT_NODED_PORT), 15)) as raw:
            with contextlib.suppress(OSError):
                if rng.random() < 0.4:
                    raw.sendall(damage.Bytes(rng, Hello()))
                    raw.shutdown(socket.SHUT_WR)
                    while raw.recv(65536):
                        pass
                    return
                with self._context.wrap_socket(raw) as sock:
                    sock.sendall(damage.Bytes(rng, _Request(rng)))
                    # Half a request has no answer.
                    sock.settimeout(0.1)
                    while sock.recv(65536):
                        pass


def Hello() -> bytes:
    out = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="x").do_handshake()
    return out.read()


def _Request(rng: random.Random) -> bytes:
    name = rng.choice(("version", "get_watcher_pause", "store_status", "node_info"))
    body = json.dumps([{}] if name == "store_status" else []).encode()
    head = f"POST /{name} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nX-Ganeti-Epoch: 1.a\r\n\r\n"
    return head.encode() + body
