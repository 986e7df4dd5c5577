"""What this node's daemon has been working on for long, and which programs that work waits for.

Answered by a process of its own that needs no turn and looks at nothing that could hang with it: the slots of the daemon's
children and ``/proc``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ganeti import runtime
from ganeti.http.forking import Call
from ganeti.rpc.longcalls import LONG_CALLS, LongCall
from ganeti.rpc.procedures import PROCEDURES

_LIMIT = 1 << 16
_SUBCOMMAND = re.compile(r"[a-z][a-z-]{1,20}")
_UNINTERRUPTIBLE = "D"


class _Process(NamedTuple):
    pid: int
    name: str
    state: str
    parent: int


class LongCalls:
    """The handler; ``calls`` is set in each child to what tells it of all of them."""

    def __init__(self) -> None:
        self.calls: Callable[[], Sequence[Call]] = tuple

    def Handlers(self) -> dict[str, Callable[..., Any]]:
        return {LONG_CALLS: lambda seconds: [list(call) for call in self.Since(seconds)]}

    def Since(self, seconds: float) -> list[LongCall]:
        """Return the calls that have been under way for longer than ``seconds``, with the programs that they run."""
        found = [call for call in self.calls() if call.age > seconds]
        processes = Processes() if found else []
        return [_Named(call, WaitsFor(call.pid, processes)) for call in found]

    def UnderWay(self) -> list[LongCall]:
        """Return all calls under way, without looking at any program."""
        return [_Named(call, "") for call in self.calls()]

    def Hanging(self) -> list[LongCall]:
        """Return the calls whose callers have given up, without looking at any program."""
        return [call for call in self.UnderWay() if call.late]


def _Named(call: Call, waits_for: str) -> LongCall:
    names = list(PROCEDURES)
    name = names[call.number - 1] if 0 < call.number <= len(names) else "unknown"
    return LongCall(name, round(call.age, 1), call.late, waits_for)


def Processes() -> list[_Process]:
    """Return the processes of this machine; those that end meanwhile are left out."""
    found = []
    for name in _Listed("/proc"):
        if name.isdigit():
            try:
                found.append(ParseStat(runtime.ReadText(f"/proc/{name}/stat", _LIMIT)))
            except (OSError, ValueError):
                continue
    return found


def ParseStat(text: str) -> _Process:
    """Read ``/proc/PID/stat``: ``PID (NAME) STATE PARENT ...``; a name may have parentheses.  ValueError on rubbish."""
    head, _, rest = text.rpartition(")")
    pid, _, name = head.partition(" (")
    state, parent = rest.split()[:2]
    return _Process(int(pid), name, state, int(parent))


def WaitsFor(pid: int, processes: Iterable[_Process]) -> str:
    """Return what a process waits for: the last program that it, or one of its programs, started; empty if it has ended."""
    by_pid = {process.pid: process for process in processes}
    children: dict[int, int] = {}
    for process in by_pid.values():
        children[process.parent] = max(process.pid, children.get(process.parent, 0))
    last = pid
    while children.get(last, 0) > last:
        last = children[last]
    found = by_pid.get(last)
    if found is None:
        return ""
    state = ", state D" if found.state == _UNINTERRUPTIBLE else ""
    if last != pid:
        return f"{_Shown(found)}, process {last}{state}"
    return f"no program, process {last}{state}"


def _Shown(process: _Process) -> str:
    """Return name and subcommand; other words of a command line may be secret."""
    try:
        words = runtime.ReadFile(f"/proc/{process.pid}/cmdline", _LIMIT).decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    subcommand = words[1] if len(words) > 1 and posixpath.basename(words[0]).startswith(process.name) else ""
    return f"{process.name} {subcommand}" if _SUBCOMMAND.fullmatch(subcommand) else process.name


def _Listed(path: str) -> list[str]:
    try:
        return runtime.ListDir(path)
    except OSError:
        return []
