"""What tests leave behind on the machine: processes, listening sockets, mounts, network namespaces.

Others may use the machine at the same time, so a leftover counts when it carries this run's mark: the variable
GANETI_TEST_RUN in a process's environment, the run's id in the name of a namespace or mount point.  Where the machine
belongs to the run alone (CI=1), every new mount and namespace counts.
"""

from __future__ import annotations

import os
import signal
import time

from support.patience import Deadline

RUN_VARIABLE = "GANETI_TEST_RUN"
_LISTEN = "0A"


class Watch:
    """Remembers the machine's state at the start; ``Find()`` tells what is new."""

    def __init__(self, run_id: str, alone: bool):
        self._run_id = run_id
        self._alone = alone
        self._own_inodes = _OwnListeners()
        self._mounts = _Mounts()
        self._namespaces = _Namespaces()

    def Find(self) -> list[str]:
        """One line per leftover."""
        found = [f"process {pid}: {command}" for pid, command in self.Processes()]
        found += [
            f"listening socket {name}" for inode, name in _OwnListeners().items() if inode not in self._own_inodes
        ]
        found += [f"mount {path}" for path in sorted(_Mounts() - self._mounts) if self._Counts(path)]
        found += [
            f"network namespace {name}" for name in sorted(_Namespaces() - self._namespaces) if self._Counts(name)
        ]
        return found

    def _Counts(self, name: str) -> bool:
        return self._alone or self._run_id in name

    def Processes(self) -> list[tuple[int, str]]:
        """(pid, command line) of every process that carries this run's mark, but for ourselves."""
        mark = f"{RUN_VARIABLE}={self._run_id}".encode()
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as stream:
                    environment = stream.read().split(b"\0")
                with open(f"/proc/{name}/cmdline", "rb") as stream:
                    command = stream.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            except OSError:
                continue
            if mark in environment:
                found.append((int(name), command))
        return found

    def KillProcesses(self) -> None:
        """Ends this run's leftover processes, so that they do not spoil the next one."""
        for pid, _ in self.Processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def WaitUntilGone(self, timeout: float) -> None:
        """Gives processes that were told to end the time to do it."""
        deadline = Deadline(timeout)
        while self.Processes() and not deadline.Passed():
            time.sleep(0.05)


def _OwnListeners() -> dict[str, str]:
    """inode -> text of every listening socket of this process."""
    inodes = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = {}
    for table in ("tcp", "tcp6"):
        for fields in _Rows(f"/proc/net/{table}"):
            if fields[3] == _LISTEN and fields[9] in inodes:
                found[fields[9]] = f"{table} {fields[1]}"
    for fields in _Rows("/proc/net/unix"):
        # Flags: __SO_ACCEPTCON
        if int(fields[3], 16) & 0x10000 and fields[6] in inodes:
            found[fields[6]] = "unix " + (fields[7] if len(fields) > 7 else "(unnamed)")
    return found


def _Rows(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return [line.split() for line in stream.readlines()[1:]]
    except OSError:
        return []


def _Mounts() -> set[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
        return {line.split()[4] for line in stream}


def _Namespaces() -> set[str]:
    try:
        return set(os.listdir("/run/netns"))
    except OSError:
        return set()
