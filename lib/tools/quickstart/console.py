"""Talks to the guest of the OS ``mini`` on its serial line."""

from __future__ import annotations

import re
from typing import NamedTuple

from ganeti import runtime
from ganeti.tools.quickstart.progress import QuickstartError

_ANSWER = re.compile(rb"mini (\S+) boot-id=([0-9a-f-]{36}) uptime=([0-9]+\.[0-9]+)")
_KEEP = 4096
_ASK_SECONDS = 1.0


class Answer(NamedTuple):
    """What the guest says: the same ``boot_id`` means it never stopped."""

    name: str
    boot_id: str
    uptime: float


def ParseAnswer(data: bytes) -> Answer | None:
    """The last complete answer in what came from the line."""
    found = _ANSWER.findall(data)
    if not found:
        return None
    name, boot_id, uptime = found[-1]
    return Answer(name.decode(), boot_id.decode(), float(uptime))


def SocketOf(command: str) -> str:
    """The socket in the command that ``gnt-instance console --show-cmd`` prints."""
    found = re.search(r"UNIX-CONNECT:([^\s'\"]+)", command)
    if found is None:
        raise QuickstartError(f"The console command names no socket: {command.strip()[:500]}")
    return found[1]


def Ask(path: str, seconds: float) -> Answer:
    """Types a line until the guest answers."""
    deadline = runtime.Monotonic() + seconds
    data = b""
    line = runtime.ConnectUnix(path, timeout=_ASK_SECONDS)
    try:
        while runtime.Monotonic() < deadline:
            line.sendall(b"\n")
            try:
                data = (data + line.recv(_KEEP))[-_KEEP:]
            except TimeoutError:
                continue
            answer = ParseAnswer(data)
            if answer is not None:
                return answer
    finally:
        line.close()
    raise QuickstartError(f"The guest did not answer on its console within {seconds:g} s; it said: {data[-500:]!r}")
