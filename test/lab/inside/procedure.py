"""Run procedures of the node daemon in a node of the laboratory: [[name, arguments], ...] as JSON at standard input.

Prints [[true, result] or [false, text of the error], ...], as the daemon would answer; it stops after an error.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ganeti import errors
from ganeti.backend import Handlers


def Main() -> None:
    handlers = Handlers()
    answers: list[list[Any]] = []
    for name, arguments in json.load(sys.stdin):
        try:
            answers.append([True, handlers[name](*arguments)])
        except errors.GenericError as err:
            answers.append([False, str(err)])
            break
    print(json.dumps(answers))


if __name__ == "__main__":
    Main()
