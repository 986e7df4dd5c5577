"""Serve procedures of the node daemon in a node of the laboratory: procedure.py SOCKET.

Each connection carries [[name, arguments], ...] as JSON and is answered with [[true, result] or [false, text of the error],
...], as the daemon would answer; it stops after an error.  A process of its own for each call would take seconds under
emulation, most of them for starting Python.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ganeti import errors
from ganeti.backend import Handlers


def Main(path: str) -> None:
    handlers = Handlers()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw", encoding="utf-8") as stream:
                json.dump(Answer(handlers, json.load(stream)), stream)


def Answer(handlers: Mapping[str, Callable[..., Any]], calls: list[Any]) -> list[list[Any]]:
    answers: list[list[Any]] = []
    for name, arguments in calls:
        try:
            answers.append([True, handlers[name](*arguments)])
        except errors.GenericError as err:
            answers.append([False, str(err)])
            break
    return answers


if __name__ == "__main__":
    Main(sys.argv[1])
