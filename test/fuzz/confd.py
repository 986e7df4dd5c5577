"""Datagrams to ganeti-confd and back: from strangers, and from somebody who has the key and asks nonsense."""

from __future__ import annotations

import json
import random
import time
from typing import Any

from support import configs

from fuzz import damage
from fuzz.target import Broken, Target
from ganeti import configfile, errors, runtime
from ganeti.confd import queries, wire
from ganeti.confd.view import View
from ganeti.server import confd, confdload

_KEY = b"0123456789abcdef0123456789abcdef01234567\n"


class Datagrams(Target):
    """Whoever has not signed a datagram gets no answer, and whoever has gets one that fits or none.

    Some of the questions are about a configuration that somebody edited.
    """

    ROUNDS = 1500

    def __init__(self) -> None:
        self._root = configs.Example()
        self._loader = confdload.Loader()
        self._loader.state = confdload.State((_KEY,), View(self._root))
        sock = runtime.OpenUdp("127.0.0.1")
        self._server = confd.Server(sock, self._loader)
        sock.close()  # only what would be answered is looked at

    def Round(self, rng: random.Random) -> Any:
        if rng.random() < 0.1:
            text = damage.Text(rng, configs.ExampleDict())
            root = configfile.LoadConfig(text.decode("utf-8", "surrogateescape"))
            self._loader.state = confdload.State((_KEY,), View(root))
        request = {"protocol": 1, "type": rng.choice(list(queries.QUERY_TYPES)), "query": self._Query(rng)}
        request["rsalt"] = f"{rng.random()}" * (1 if rng.random() < 0.95 else 3000)
        message = damage.Text(rng, request).decode("utf-8", "surrogateescape")
        salt = str(int(time.time()))
        try:
            signed = json.dumps({"msg": message, "salt": salt, "hmac": wire.Signature(_KEY, salt, message)}).encode()
        except UnicodeEncodeError:
            return
        damaged = damage.Bytes(rng, b"plj0" + signed)
        answer = self._server.Handle(damaged, "192.0.2.1")
        if answer is not None and _Content(damaged) != _Content(b"plj0" + signed):
            raise Broken(f"answered though it was damaged: {damaged!r}")
        answer = answer or self._server.Handle(b"plj0" + signed, "192.0.2.1")
        if answer is None:
            raise errors.ParseError("a question that is none")
        if len(answer) > wire.MAX_DATAGRAM:
            raise Broken(f"an answer of {len(answer)} bytes to {message!r}")
        wire.OpenReply(_KEY, answer)
        try:
            wire.OpenReply(_KEY, damage.Bytes(rng, answer))
        except wire.BadDatagram:
            pass  # what a client does with a damaged answer

    def _Query(self, rng: random.Random) -> Any:
        names = [node.name for node in self._root.nodes.values()]
        names += [instance.name for instance in self._root.instances.values()]
        paths = ["/", "/cluster", "/nodes", f"/nodes/{configs.NODE1}/name", "/cluster/enabled_hypervisors/0"]
        dictionaries = [{"1": "192.0.2.7", "0": "br0"}, {"2": ["192.0.2.7"]}, {"3": [0, 1, 2]}]
        return rng.choice([None, *names, *paths, *dictionaries])


def _Content(datagram: bytes) -> Any:
    """Return what a reader of JSON finds in a datagram: some damage, such as another blank, changes nothing."""
    try:
        return json.loads(datagram[4:])
    except ValueError:
        return datagram
