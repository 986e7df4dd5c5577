"""Programs of simulated machines: callables that stand for what RunCmd and StartProcess run."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ganeti import errors
from ganeti.runtime.contract import OUTPUT_LIMIT, CheckArgv, RunResult, StartFailure
from simulated.disk import Folder
from simulated.files import AppendTo, FileLock

if TYPE_CHECKING:
    from simulated.machine import Machine, Process
    from simulated.world import SimThread, World


class Invocation:
    """One run of a simulated program: what it was given, and where its output goes."""

    def __init__(self, argv: list[str], env: Mapping[str, str], stdin: bytes, cwd: str | None, umask: int | None):
        self.argv = argv
        self.env = env
        self.stdin = stdin
        self.cwd = cwd
        self.umask = umask
        self.output: list[str] = []
        self.errors: list[str] = []
        self.log: Callable[[str], None] | None = None
        # It waits in the kernel, and is left behind.
        self.unkillable = False

    def Print(self, text: str) -> None:
        """Text for standard output; a line's end is not added."""
        (self.log or self.output.append)(text)

    def Complain(self, text: str) -> None:
        """Text for standard error."""
        (self.log or self.errors.append)(text)


# Runs in the first thread of a process of its own and may use the runtime; returns the exit code, None for 0.
Program = Callable[[Invocation], "int | None"]


class Programs:
    """Part of Side."""

    process: Process
    machine: Machine
    world: World

    def Environment(self) -> Mapping[str, str]:
        return MappingProxyType(self.process.environment)

    def ProcessId(self) -> int:
        return self.process.pid

    def RunInteractive(self, argv: Sequence[str], stdin: bytes | None, show: Callable[[str], None] | None) -> int:
        del stdin, show
        self.world.Reach("RunInteractive", argv[0])
        raise errors.ProgrammerError("a simulated process has no terminal")

    def Fork(self) -> int:
        self.world.Reach("Fork")
        raise errors.ProgrammerError("a simulated process cannot fork: start a process instead")

    def _Start(self, invocation: Invocation, log_path: str | None) -> Process:
        """Raises OSError if there is no such program."""
        argv = invocation.argv
        name = posixpath.basename(argv[0])
        program = self.machine.programs.get(argv[0]) or self.machine.programs.get(name)
        if program is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
        if invocation.cwd is not None and not isinstance(self.machine.disk.Find(invocation.cwd), Folder):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), invocation.cwd)
        if log_path is not None:
            path = log_path
            AppendTo(self.machine.disk, path, b"")
            invocation.log = lambda text: AppendTo(self.machine.disk, path, text.encode("utf-8"))

        def run() -> None:
            raise SystemExit(program(invocation) or 0)

        return self.machine.StartProcess(run, name, environment=invocation.env)

    def _Env(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return {**self.process.environment, "LC_ALL": "C"} if env is None else dict(env)

    def RunCmd(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        stdin: bytes | None,
        timeout: float | None,
        cwd: str | None,
        umask: int | None,
        output_path: str | None,
        pass_fds: Sequence[int] = (),
        lock: FileLock | None = None,
    ) -> RunResult:
        words = CheckArgv(argv)
        self.world.Reach("RunCmd", " ".join(words))
        invocation = Invocation(words, self._Env(env), stdin or b"", cwd, umask)
        try:
            child = self._Start(invocation, output_path)
        except OSError as err:
            return StartFailure(words, err)
        if lock is not None:
            lock.Share(child)
        self.process.programs.append(child)
        try:
            timed_out = not self._Wait(child, timeout)
        finally:
            self.process.programs.remove(child)
        if timed_out and invocation.unkillable:
            return RunResult(words, None, None, timeout=timeout, cause="cannot be killed: it waits in the kernel")
        if timed_out:
            child.Kill(15)
            self.world.Reach("RunCmd.timeout", words[0])
        output, complaints = "".join(invocation.output), "".join(invocation.errors)
        return RunResult(
            words,
            child.exit_code,
            child.signal,
            output[:OUTPUT_LIMIT],
            complaints[:OUTPUT_LIMIT],
            timeout if timed_out else None,
            truncated=max(len(output), len(complaints)) > OUTPUT_LIMIT,
        )

    def KillPrograms(self) -> None:
        self.world.Reach("KillPrograms", "")
        for child in list(self.process.programs):
            child.Kill()

    def StartProcess(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        log_path: str | None,
        cwd: str | None,
        pass_fds: Sequence[int],
    ) -> int:
        words = CheckArgv(argv)
        self.world.Reach("StartProcess", " ".join(words))
        if pass_fds:
            raise errors.ProgrammerError("a simulated program gets no descriptors")
        invocation = Invocation(words, self._Env(env), b"", cwd, None)
        if log_path is None:
            invocation.log = lambda text: None
        try:
            return self._Start(invocation, log_path).pid
        except OSError as err:
            raise errors.RunCmdError(StartFailure(words, err).fail_reason) from err

    def _Wait(self, child: Process, timeout: float | None) -> bool:
        """Whether it ended in time."""
        if not child.alive:
            return True
        thread: Any = self.world.current
        child.waiting.append(thread)
        if self.world.Block(timeout):
            return True
        _Forget(child.waiting, thread)
        return not child.alive

    def _Find(self, pid: int) -> Process | None:
        if pid <= 1:
            raise errors.ProgrammerError(f"{pid} is not a process that can be asked or signalled")
        return self.machine.processes.get(pid)

    def WaitProcess(self, pid: int, timeout: float | None = None) -> bool:
        self.world.Reach("WaitProcess", str(pid))
        found = self._Find(pid)
        return found is None or self._Wait(found, timeout)

    def KillProcess(self, pid: int, signal: int, group: bool = False) -> bool:
        """A group is one process here."""
        self.world.Reach("KillProcess", f"{pid} {signal}")
        found = self._Find(pid)
        if found is None:
            return False
        found.Deliver(signal)
        self.world.Reach("KillProcess.sent", f"{pid} {signal}")
        return True

    def Pipe(self, room: int) -> tuple[int, int]:
        self.world.Reach("Pipe")
        raise errors.ProgrammerError("a simulated process has no descriptors")

    def StartProgram(self, argv: Sequence[str], *_: Any) -> Any:
        self.world.Reach("StartProgram", argv[0])
        raise errors.ProgrammerError("a simulated process has no descriptors: run programs with RunCmd")

    def OpenTap(self, name: str, vnet_hdr: bool, queues: int) -> Any:
        self.world.Reach("OpenTap", name)
        raise OSError(errno.ENODEV, "a simulated machine has no network interfaces", name)

    def OpenDevice(self, path: str) -> Any:
        self.world.Reach("OpenDevice", path)
        raise OSError(errno.ENODEV, "a simulated machine has no devices", path)

    def ProcessAlive(self, pid: int) -> bool:
        self.world.Reach("ProcessAlive", str(pid))
        return self._Find(pid) is not None


def _Forget(threads: list[SimThread], thread: SimThread) -> None:
    if thread in threads:
        threads.remove(thread)
