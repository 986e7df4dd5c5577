"""Talks to the guest of the OS ``mini`` on its serial line."""

from __future__ import annotations

import re
from typing import NamedTuple

from ganeti import runtime
from quickstart.progress import QuickstartError

_ANSWER = re.compile(rb"mini (\S+) boot-id=([0-9a-f-]{36}) uptime=([0-9]+\.[0-9]+)")
_KEEP = 4096
_ASK_SECONDS = 1.0


class Answer(NamedTuple):
    """The answer of a guest: with the same ``boot_id`` it never stopped."""

    name: str
    boot_id: str
    uptime: float


def ParseAnswer(data: bytes) -> Answer | None:
    """Return the last complete answer in the data."""
    found = _ANSWER.findall(data)
    if not found:
        return None
    name, boot_id, uptime = found[-1]
    return Answer(name.decode(), boot_id.decode(), float(uptime))


def SocketOf(command: str) -> str:
    """Return the socket in the command that ``gnt-instance console --show-cmd`` prints."""
    found = re.search(r"UNIX-CONNECT:([^\s'\"]+)", command)
    if found is None:
        raise QuickstartError(f"The console command does not contain a socket: {command.strip()[:500]}")
    return found[1]


def Ask(path: str, seconds: float) -> Answer:
    """Send a line every second until the guest answers."""
    deadline = runtime.Monotonic() + seconds
    data = b""
    line = runtime.ConnectUnix(path, timeout=_ASK_SECONDS)
    try:
        while runtime.Monotonic() < deadline:
            try:
                # Times out, too, while the guest is too busy to read.
                line.sendall(b"\n")
                data = (data + line.recv(_KEEP))[-_KEEP:]
            except TimeoutError:
                continue
            answer = ParseAnswer(data)
            if answer is not None:
                return answer
    finally:
        line.close()
    raise QuickstartError(
        f"The guest did not answer on its console within {seconds:g} s; its last output: {data[-500:]!r}"
    )
