"""Asks allocators as a unit does, and plays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulated import Invocation

from ganeti import opcodes, runtime, serializer
from ganeti.cmdlib.allocation import requests
from ganeti.cmdlib.allocation.ask import Ask
from ganeti.cmdlib.base import NoHooksLU
from support.master import Master


def AskOn(master: Master, allocator: str, request: requests.Request) -> Any:
    """Runs a job whose unit asks; returns what the unit got."""

    class Unit(NoHooksLU[opcodes.OpTestDelay]):
        REQ_BGL = False

        def ExpandNames(self) -> None:
            self.needed_locks = {}

        def Exec(self, feedback: Any) -> None:
            got.append(Ask(self, allocator, request))

    got: list[Any] = []
    master.Run(opcodes.OpTestDelay(duration=0), units={"OP_TEST_DELAY": Unit})
    return got[0]


class Played:
    """An allocator whose answer the test decides; ``asked``: the messages, ``options``: the arguments after the file."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]):
        self._answer = answer
        self.asked: list[dict[str, Any]] = []
        self.options: list[list[str]] = []

    def __call__(self, invocation: Invocation) -> int:
        self.options.append(invocation.argv[2:])
        message = serializer.Load(runtime.ReadFile(invocation.argv[1]))
        self.asked.append(message)
        answer = self._answer(message)
        invocation.Print(answer if isinstance(answer, str) else serializer.Dump(answer))
        return 0


def Success(result: Any, info: str = "fine") -> dict[str, Any]:
    return {"success": True, "info": info, "result": result}


def Answering(result: Any) -> Played:
    """An allocator that always succeeds with this result."""
    return Played(lambda message: Success(result))
