"""The agent of a laboratory's node, without a node."""

from __future__ import annotations

import io
import json
import threading
from typing import Any

from support.lab import TREE
from support.programs import Load

agent = Load(TREE / "test" / "lab" / "agent.py")
_MOST = 32 << 10


class Port(io.RawIOBase):
    """A virtual serial port: the kernel takes 32 KiB at a time."""

    def __init__(self) -> None:
        self.written = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        taken = bytes(memoryview(data)[:_MOST])
        self.written += taken
        return len(taken)


def test_a_long_answer_arrives_whole() -> None:
    port = Port()
    request = {"number": 7, "argv": ["head", "-c", "100000", "/dev/zero"]}
    agent.Work(port, threading.Lock(), json.dumps(request).encode())
    answer = json.loads(port.written)
    assert (answer["number"], answer["status"], len(answer["stdout"])) == (7, 0, 100000)
