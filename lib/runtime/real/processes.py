"""Programs and processes of the real machine.

Only subprocess's own fork-and-exec in C runs between fork and exec, never Python code of ours: safe with any number
of threads.
"""

from __future__ import annotations

import os
import select
import signal as signal_module
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

from ganeti import errors
from ganeti.runtime.contract import KILL_DELAY, OUTPUT_LIMIT, CheckArgv, RunResult, StartFailure

if TYPE_CHECKING:
    from ganeti.runtime import protocols

ProcessId = os.getpid

# After a program has ended: how long to wait for output of children that it left behind with its streams.
_DRAIN_SECONDS = 0.5
# How long a program that was killed is waited for.
_DEATH_SECONDS = 5.0

_CHUNK = 65536

# What RunCmd runs now, in all threads.
_running: set[_Run] = set()
_running_lock = threading.Lock()

# Programs started and not known to have ended: kept until they are collected.
_children: dict[int, subprocess.Popen[bytes]] = {}
_children_lock = threading.Lock()


def Environment() -> Mapping[str, str]:
    return MappingProxyType(dict(os.environ))


def ProgramEnv(env: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"} if env is None else dict(env)


def _OpenLog(path: str) -> IO[bytes]:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY, 0o600)
    return os.fdopen(handle, "ab", buffering=0)


class _Run:
    """One RunCmd: feeds stdin, gathers output, watches the time."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes | None, timeout: float | None):
        self.process = process
        self.truncated = False
        self.timed_out = False
        self._killed = False
        # It was killed and does not end.
        self.stuck = False
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._stdin = memoryview(stdin or b"")
        self._parts: dict[int, list[bytes]] = {}
        self._room: dict[int, int] = {}
        self._streams: dict[int, IO[bytes]] = {}
        self._poll = select.poll()
        self._exit_fd = self._OpenExit()

    def _OpenExit(self) -> int:
        """Return a descriptor that becomes readable at the end of the program; -1 where the kernel has none."""
        try:
            return os.pidfd_open(self.process.pid)
        except OSError:
            return -1

    def _Watch(self, stream: IO[bytes] | None, events: int) -> int:
        if stream is None:
            return -1
        number = stream.fileno()
        os.set_blocking(number, False)
        self._streams[number] = stream
        self._parts[number] = []
        self._room[number] = OUTPUT_LIMIT
        self._poll.register(number, events)
        return number

    def _Drop(self, number: int) -> None:
        self._poll.unregister(number)
        self._streams.pop(number).close()

    def _Feed(self, number: int) -> None:
        try:
            self._stdin = self._stdin[os.write(number, self._stdin[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it closed its input
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._Drop(number)

    def _Gather(self, number: int) -> None:
        try:
            data = os.read(number, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._Drop(number)
            return
        room = self._room[number]
        if len(data) > room:
            self.truncated = True
        if room > 0:
            self._parts[number].append(data[:room])
            self._room[number] = room - len(data[:room])

    def _Expire(self) -> None:
        """Time is over: first politely, then by force."""
        if not self.timed_out:
            self.timed_out = True
            self._Signal(signal_module.SIGTERM)
            self._deadline = time.monotonic() + KILL_DELAY
        elif not self._killed:
            self._killed = True
            self._Signal(signal_module.SIGKILL)
            self._deadline = time.monotonic() + _DEATH_SECONDS
        else:
            # It waits in the kernel, as for a disk that does not answer.
            self.stuck = True

    def _Signal(self, number: int) -> None:
        # Not collected yet, so the number is still this program's own group.
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    def Finish(self) -> tuple[bytes, bytes]:
        try:
            stdin = self._Watch(self.process.stdin, select.POLLOUT)
            stdout = self._Watch(self.process.stdout, select.POLLIN)
            stderr = self._Watch(self.process.stderr, select.POLLIN)
            if self._exit_fd >= 0:
                self._poll.register(self._exit_fd, select.POLLIN)
            self._Loop(stdin)
        finally:
            for stream in self._streams.values():
                stream.close()
            if self._exit_fd >= 0:
                os.close(self._exit_fd)
        return b"".join(self._parts.get(stdout, ())), b"".join(self._parts.get(stderr, ()))

    def _Loop(self, stdin: int) -> None:
        drain_until: float | None = None
        while True:
            ended = self._Ended()
            if ended:
                if not self._streams:
                    break
                drain_until = drain_until or time.monotonic() + _DRAIN_SECONDS
            ready = self._poll.poll(self._Patience(drain_until))
            for number, _ in ready:
                if number == stdin:
                    self._Feed(number)
                elif number in self._streams:
                    self._Gather(number)
            now = time.monotonic()
            if drain_until is not None:
                if now >= drain_until:
                    break
            elif self._deadline is not None and now >= self._deadline:
                self._Expire()
                if self.stuck:
                    break
        self._Collect()

    def _Ended(self) -> bool:
        """Return whether the program has ended, without collecting it: its pid stays its own while we may signal it."""
        if self.process.returncode is not None:
            return True
        try:
            found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        if found is not None and self._exit_fd >= 0:
            self._poll.unregister(self._exit_fd)
            os.close(self._exit_fd)
            self._exit_fd = -1
        return found is not None

    def _Patience(self, drain_until: float | None) -> float | None:
        """Return the milliseconds until something other than a descriptor needs attention."""
        until = drain_until if drain_until is not None else self._deadline
        limit = None if until is None else max(0.0, until - time.monotonic()) * 1000 + 1
        if drain_until is None and self._exit_fd < 0:  # no pidfd: look now and then
            limit = 50.0 if limit is None else min(limit, 50.0)
        return limit

    def _Collect(self) -> None:
        if self.timed_out:
            self._Signal(signal_module.SIGKILL)  # what its group left behind
        if self.stuck:
            _Adopt(self.process)
        else:
            self.process.wait()


def RunCmd(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    stdin: bytes | None,
    timeout: float | None,
    cwd: str | None,
    umask: int | None,
    output_path: str | None,
    pass_fds: Sequence[int] = (),
    lock: protocols.FileLock | None = None,
) -> RunResult:
    words = CheckArgv(argv)
    _Reap()
    log: IO[bytes] | None = None
    try:
        if output_path is not None:
            log = _OpenLog(output_path)
        out: Any = subprocess.PIPE if log is None else log
        process = subprocess.Popen(
            words,
            env=ProgramEnv(env),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=out,
            stderr=out,
            cwd=cwd,
            umask=-1 if umask is None else umask,
            pass_fds=(*pass_fds, *([] if lock is None else [lock.fileno()])),
            start_new_session=True,
            bufsize=0,
        )
    except OSError as err:
        return StartFailure(words, err)
    except ValueError as err:  # a NUL in the environment
        return RunResult(words, 126, cause=f"cannot be run: {err}")
    finally:
        if log is not None:
            log.close()
    run = _Run(process, stdin, timeout)
    with _running_lock:
        _running.add(run)
    try:
        stdout, stderr = run.Finish()
    except BaseException:
        run._Signal(signal_module.SIGKILL)
        try:
            process.wait(_DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            _Adopt(process)
        raise
    finally:
        with _running_lock:
            _running.discard(run)
    return _Result(words, run, stdout, stderr, timeout)


def _Result(words: list[str], run: _Run, stdout: bytes, stderr: bytes, timeout: float | None) -> RunResult:
    code = run.process.returncode
    if code is None:
        cause = f"did not end within {timeout:g} seconds, and cannot be killed: it waits in the kernel"
        return RunResult(words, None, None, timeout=timeout, cause=cause)
    return RunResult(
        words,
        code if code >= 0 else None,
        -code if code < 0 else None,
        stdout.decode("utf-8", "replace"),
        stderr.decode("utf-8", "replace"),
        timeout if run.timed_out else None,
        truncated=run.truncated,
    )


def KillPrograms() -> None:
    with _running_lock:
        for run in _running:
            run._Signal(signal_module.SIGKILL)


def _Adopt(process: subprocess.Popen[bytes]) -> None:
    """Collect a program that nobody waits for when it has ended."""
    with _children_lock:
        _children[process.pid] = process


def _Reap() -> None:
    """Collect the programs that have ended."""
    with _children_lock:
        for pid, process in list(_children.items()):
            if process.poll() is not None:
                del _children[pid]


def StartProcess(
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    log_path: str | None,
    cwd: str | None,
    pass_fds: Sequence[int],
) -> int:
    words = CheckArgv(argv)
    _Reap()
    log: IO[bytes] | None = None
    try:
        if log_path is not None:
            log = _OpenLog(log_path)
        out: Any = subprocess.DEVNULL if log is None else log
        process = subprocess.Popen(
            words,
            env=ProgramEnv(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=cwd,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    except OSError as err:
        raise errors.RunCmdError(StartFailure(words, err).fail_reason) from err
    except ValueError as err:  # a NUL in the environment
        raise errors.RunCmdError(f"{words[0]} cannot be run: {err}") from err
    finally:
        if log is not None:
            log.close()
    _Adopt(process)
    return process.pid


def _CheckPid(pid: int) -> None:
    if pid <= 1:
        raise errors.ProgrammerError(f"{pid} is not a process that could be asked or signalled")


def WaitProcess(pid: int, timeout: float | None = None) -> bool:
    _CheckPid(pid)
    if not ProcessAlive(pid):
        return True
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:
        handle = -1
    try:
        while ProcessAlive(pid):
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if handle >= 0:
                select.select([handle], [], [], left)
            else:
                time.sleep(0.05 if left is None else min(0.05, left))
        return True
    finally:
        if handle >= 0:
            os.close(handle)


def KillProcess(pid: int, signal: int, group: bool = False) -> bool:
    _CheckPid(pid)
    try:
        if group:
            os.killpg(pid, signal)
        else:
            os.kill(pid, signal)
    except ProcessLookupError:
        return False
    return True


# Of what follows the name in /proc/PID/stat: num_threads.
_THREADS_FIELD = 17


def ProcessAlive(pid: int) -> bool:
    _CheckPid(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            fields = handle.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    if fields and fields[0] not in (b"Z", b"X"):
        return True
    # The first thread may have ended before others of the process, which have its files open still and may write.
    if len(fields) > _THREADS_FIELD and int(fields[_THREADS_FIELD]) > 1:
        return True
    _Reap()
    return False


def RunInteractive(argv: Sequence[str], stdin: bytes | None, show: Callable[[str], None] | None) -> int:
    words = CheckArgv(argv)
    read, write = (None, None) if show is None else os.pipe()
    try:
        process = subprocess.Popen(words, stdin=None if stdin is None else subprocess.PIPE, stdout=write, stderr=write)
    except OSError:
        if read is not None:
            os.close(read)
        return 127
    finally:
        if write is not None:
            os.close(write)
    reader: threading.Thread | None = None
    if read is not None and show is not None:
        reader = threading.Thread(target=_ShowLines, args=(read, show), daemon=True)
        reader.start()
    while True:
        try:
            process.communicate(stdin)
            code = process.returncode
            if reader is not None:
                reader.join(_DRAIN_SECONDS)
        except KeyboardInterrupt:
            # Ctrl-C is for the program at the terminal, which decides what it means.
            stdin = None
            continue
        return 128 - code if code < 0 else code


def _ShowLines(handle: int, show: Callable[[str], None]) -> None:
    """Pass on every line that comes through a pipe; one without an end in pieces."""
    with open(handle, "rb") as stream:
        while data := stream.readline(_CHUNK):
            show(data.decode("utf-8", "replace").rstrip("\r\n"))


def Fork() -> int:
    if threading.active_count() > 1:
        names = ", ".join(sorted(thread.name for thread in threading.enumerate()))
        raise errors.ProgrammerError(f"a process with several threads must not fork: {names}")
    pid = os.fork()
    if pid == 0:
        _children.clear()
    return pid
