"""Programs between descriptors: they run beside this one while it moves what they read and write."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Mapping, Sequence

from ganeti import errors
from ganeti.runtime.contract import CheckArgv, RunResult, StartFailure
from ganeti.runtime.real.processes import ProgramEnv

# Of what follows the name in /proc/PID/stat: state, process group.
_STATE_FIELD, _GROUP_FIELD = 0, 2


def Pipe(room: int = 0) -> tuple[int, int]:
    reader, writer = os.pipe()
    if room:
        try:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, room)
        except OSError:
            pass  # more than this user may have: the pipe works, with smaller pieces
    return reader, writer


def StartProgram(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    stdin: int,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int],
) -> Program:
    words = CheckArgv(argv)
    try:
        process = subprocess.Popen(
            words,
            env=ProgramEnv(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            process_group=0,
            bufsize=0,
        )
    except OSError as err:
        raise errors.RunCmdError(StartFailure(words, err).fail_reason) from err
    except ValueError as err:  # a NUL in the environment
        raise errors.RunCmdError(f"{words[0]} cannot be run: {err}") from err
    return Program(words, process)


class Program:
    """A program that was started with StartProgram.

    It is collected by ``Close`` alone: until then no other process or group can get its number.
    """

    def __init__(self, argv: list[str], process: subprocess.Popen[bytes]):
        self.pid = process.pid
        self._argv = argv
        self._process = process
        self._handle = os.pidfd_open(process.pid)

    def fileno(self) -> int:
        return self._handle

    def Result(self) -> RunResult | None:
        if self._handle < 0:
            code = self._process.returncode
            return RunResult(self._argv, *((code, None) if code >= 0 else (None, -code)))
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return RunResult(self._argv, found.si_status)
        return RunResult(self._argv, None, found.si_status)

    def Runs(self) -> bool:
        if self.Result() is None:
            return True
        return self._handle >= 0 and any(_IsOf(self.pid, int(name)) for name in os.listdir("/proc") if name.isdigit())

    def Signal(self, number: int) -> None:
        if self._handle >= 0:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass  # everything has ended

    def Close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
            self._process.wait()


def _IsOf(group: int, pid: int) -> bool:
    """Return whether a process belongs to a group and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            fields = handle.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[_GROUP_FIELD]) == group and fields[_STATE_FIELD] not in (b"Z", b"X")
