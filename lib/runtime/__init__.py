"""The only door to the machine: clock, random numbers, threads, files, databases, programs, sockets.

Every function acts on the machine of the calling thread::

    caller --> runtime.X() --> _here.side -+-> runtime.real        an ordinary thread
                                           +-> simulated           a thread of a simulated machine (tests)

Nobody passes a runtime object around.  Locks, queues, sockets and databases belong to the side whose thread made
them: make them in the code that uses them, not while a module is imported.

Glossary

* side -- the real machine or one process of a simulated one; both offer the functions below
* step -- a call of the runtime by a simulated thread: another thread may go on there, and a crash may strike there
* durable -- still there after the power failed: a file written with ``sync``, a committed transaction

Errors are those of the operating system (OSError and its children) unless a function says otherwise.  Nothing heavy
is imported before it is used: the real side's modules load at their first call.
"""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING, Any

from ganeti.runtime import real as _real
from ganeti.runtime.contract import (
    EDGE,
    ERR,
    GONE,
    HUP,
    IN,
    KILL_DELAY,
    OUT,
    OUTPUT_LIMIT,
    DamagedDatabase,
    FileTooLarge,
    LockBusy,
    NewFile,
    QueueEmpty,
    RunResult,
    ShellQuote,
    UnfinishedName,
)

if TYPE_CHECKING:
    import os
    import random
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ganeti.runtime import protocols

__all__ = [
    "EDGE",
    "ERR",
    "GONE",
    "HUP",
    "IN",
    "KILL_DELAY",
    "OUT",
    "OUTPUT_LIMIT",
    "DamagedDatabase",
    "FileTooLarge",
    "LockBusy",
    "NewFile",
    "QueueEmpty",
    "RunResult",
    "ShellQuote",
    "UnfinishedName",
]


class _Here(_thread._local):
    """Which side the calling thread lives on; simulated threads set it for themselves."""

    side: Any = _real


_here = _Here()


def EnterSide(side: Any) -> None:
    """Put the calling thread on this side; for the simulation only."""
    _here.side = side


def CurrentSide() -> Any:
    """Return the side of the calling thread; for the simulation only."""
    return _here.side


# Clock and random numbers


def Time() -> float:
    """Return the wall clock: seconds since the epoch; may jump."""
    return _here.side.Time()


def Monotonic() -> float:
    """Return the seconds of a clock that never jumps, for time-outs."""
    return _here.side.Monotonic()


def Sleep(seconds: float) -> None:
    _here.side.Sleep(seconds)


def Random() -> random.Random:
    """Return the process's generator of random numbers, not for secrets; seeded in simulation."""
    return _here.side.Random()


def RandomBytes(n: int) -> bytes:
    """Return random bytes fit for secrets."""
    return _here.side.RandomBytes(n)


def NewUuid() -> str:
    """Return a random UUID (version 4), lower case."""
    raw = bytearray(_here.side.RandomBytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# Threads


def Thread(target: Callable[..., Any], name: str, args: Sequence[Any] = ()) -> protocols.Thread:
    """Return a thread, not started yet; it never keeps its process alive.

    An exception it does not catch is logged with its name.
    """
    return _here.side.Thread(target, name, args)


def Lock() -> protocols.Lock:
    return _here.side.Lock()


def RLock() -> protocols.Lock:
    return _here.side.RLock()


def Condition(lock: protocols.Lock | None = None) -> protocols.Condition:
    return _here.side.Condition(lock)


def Event() -> protocols.Event:
    return _here.side.Event()


def Semaphore(value: int = 1) -> protocols.Semaphore:
    return _here.side.Semaphore(value)


def Queue() -> protocols.Queue:
    """Unbounded; ``get(timeout)`` raises QueueEmpty, None waits without limit, 0 does not wait."""
    return _here.side.Queue()


def Local() -> Any:
    """Return an object whose attributes each thread has for itself."""
    return _here.side.Local()


def ThreadName() -> str:
    return _here.side.ThreadName()


def SetThreadName(name: str) -> None:
    _here.side.SetThreadName(name)


def ThreadIdent() -> int:
    """Return a number that no other living thread of the process has."""
    return _here.side.ThreadIdent()


# Files


def ReadFile(path: str, limit: int | None = None) -> bytes:
    """Return the content; raises FileTooLarge if there are more than ``limit`` bytes."""
    return _here.side.ReadFile(path, limit)


def ReadRegular(path: str, limit: int | None = None) -> bytes:
    """ReadFile for places that others can write to: OSError for a link, a pipe or a device, none of which is waited for."""
    return _here.side.ReadRegular(path, limit)


def ReadEnd(path: str, count: int) -> bytes:
    """Return the last ``count`` bytes of a regular file, or all that it has; no more is read."""
    return _here.side.ReadEnd(path, count)


def ReadText(path: str, limit: int | None = None) -> str:
    """Return the content as UTF-8 text; raises UnicodeDecodeError, a ValueError."""
    return _here.side.ReadFile(path, limit).decode("utf-8")


def WriteFile(path: str, data: bytes | str, mode: int = 0o600, uid: int = -1, gid: int = -1, sync: bool = True) -> None:
    """Replace ``path`` by a complete file: others see the old one or the new one, nothing between.

    Mode and owner are exact before the file gets its name, whatever the umask.  With ``sync`` it is durable on return.
    A process that is killed, or a power cut, may leave an unfinished file beside it, which UnfinishedName knows.
    """
    _here.side.WriteFile(path, data.encode("utf-8") if isinstance(data, str) else data, mode, uid, gid, sync)


def WriteFiles(files: Sequence[NewFile]) -> list[os.stat_result]:
    """Put many complete files in their places, each as WriteFile does; all are durable on return.

    It waits for the disk once for all of them, or a few times, and not for each.  After an error some may be in place.
    Returned is what the system says of each just before it got its name, so that nobody else can have touched it.
    """
    return _here.side.WriteFiles(files)


def CreateFile(path: str, size: int = 0, mode: int = 0o600) -> None:
    """Make a sparse file of ``size`` bytes; raise FileExistsError."""
    _here.side.CreateFile(path, size, mode)


def Extend(path: str, size: int) -> None:
    """Give a file at least ``size`` bytes, durably; what is added reads as zeros.  It never becomes smaller, also if others
    extend it at the same time.  A link is not followed.
    """
    _here.side.Extend(path, size)


def ListDir(path: str) -> list[str]:
    """Return the names in a folder, sorted."""
    return _here.side.ListDir(path)


def Stat(path: str, follow: bool = True) -> os.stat_result:
    return _here.side.Stat(path, follow)


def ListStats(path: str) -> dict[str, os.stat_result]:
    """Return the names in a folder with what Stat says of each; a dangling link is left out."""
    return _here.side.ListStats(path)


def Exists(path: str) -> bool:
    """Return whether the path exists; a dangling link does not."""
    return _here.side.Exists(path)


def IsDir(path: str) -> bool:
    return _here.side.IsDir(path)


def MakeDirs(path: str, mode: int = 0o755) -> None:
    """Make the folder and its parents, durably; each new one gets exactly ``mode``, existing ones are left alone."""
    _here.side.MakeDirs(path, mode)


def RemoveFile(path: str, sync: bool = False) -> None:
    """Remove a file, link or socket; one that is missing is fine."""
    _here.side.RemoveFile(path, sync)


def RemoveFiles(paths: Sequence[str]) -> None:
    """Remove many files, durably; those that are missing are fine."""
    _here.side.RemoveFiles(paths)


def RemoveDir(path: str) -> None:
    """Remove an empty folder."""
    _here.side.RemoveDir(path)


def RemoveTree(path: str) -> None:
    """Remove a folder and all below it, never following links; one that is missing is fine."""
    _here.side.RemoveTree(path)


def Rename(source: str, target: str, sync: bool = True) -> None:
    """Renames, replacing a file at ``target``; with ``sync`` the change of name is durable on return."""
    _here.side.Rename(source, target, sync)


def HardLink(path: str, name: str) -> None:
    """Give a file another name, durably; raise FileExistsError if there is something of that name."""
    _here.side.HardLink(path, name)


def Symlink(target: str, path: str) -> None:
    """Make ``path`` a link to ``target``."""
    _here.side.Symlink(target, path)


def ReadLink(path: str) -> str:
    return _here.side.ReadLink(path)


def Chmod(path: str, mode: int) -> None:
    _here.side.Chmod(path, mode)


def Chown(path: str, uid: int, gid: int) -> None:
    _here.side.Chown(path, uid, gid)


def SetTimes(path: str, atime: float, mtime: float) -> None:
    """Set the times of the last reading and change, as ``Stat`` reports them."""
    _here.side.SetTimes(path, atime, mtime)


def IsHeld(path: str) -> bool:
    """Return whether the system has a block device in use: mounted, as swap, or below volumes, arrays or mirrors."""
    return _here.side.IsHeld(path)


def DiskFree(path: str) -> int:
    """Return the bytes that are free in the file system of ``path``."""
    return _here.side.DiskFree(path)


def DiskSize(path: str) -> int:
    """Return the size in bytes of the file system of ``path``."""
    return _here.side.DiskSize(path)


def HoldFolder(path: str) -> AbstractContextManager[str]:
    """Give a path to this very folder until the end of the block, whatever has its name meanwhile.

    Where others can put links this is how to work inside.  NotADirectoryError if a part of ``path`` (absolute) is a link.
    """
    return _here.side.HoldFolder(path)


def LockFile(path: str, exclusive: bool = True, timeout: float | None = None, mode: int = 0o600) -> protocols.FileLock:
    """Lock a file, made if it is missing, until ``release()`` or the end of the process.

    ``timeout``: seconds, None waits without limit, 0 does not wait; raises LockBusy.  ``Write(data)`` puts bytes into the
    locked file itself (a pid file; WriteFile would put another file in its place).  A program that gets ``fileno()`` (real
    side only) holds the lock too.
    """
    return _here.side.LockFile(path, exclusive, timeout, mode)


def OpenDatabase(path: str, mode: int = 0o640) -> protocols.Database:
    """Open an SQLite database, made with ``mode`` if it is missing (the folder must be there).

    ``Query`` outside a transaction sees committed data only, never waits for a writer.  ``with
    database.Transaction():`` takes the write lock at once, commits durably at the end of the block, rolls back on an
    exception; ``Execute`` and ``ExecuteMany`` (which return the number of rows changed) are for inside.  Any thread
    may use it; a process that was forked off may not.  Errors: OSError (ENOSPC, EIO, ...), errors.StorageError for a
    damaged or busy database and a rejected row.
    """
    return _here.side.OpenDatabase(path, mode)


def WatchFiles(paths: Iterable[str]) -> protocols.Watch:
    """Watch files (by name: replaced, made or removed ones count) and the names in folders.

    ``wait(timeout)`` returns the changed paths, sorted, as given (for a folder: the path of what changed in it), or
    nothing when the time is over.  The folder of each file must be there; raises errors.InotifyError.
    """
    return _here.side.WatchFiles(list(paths))


# Programs


def RunCmd(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    stdin: bytes | str | None = None,
    timeout: float | None = None,
    cwd: str | None = None,
    umask: int | None = None,
    output_path: str | None = None,
    pass_fds: Sequence[int] = (),
    lock: protocols.FileLock | None = None,
) -> RunResult:
    """Run a program to its end, without a shell.

    ``env``: None is our own with ``LC_ALL=C``, else exactly the one given.  ``stdin``: nothing by default.
    ``output_path``: a file that both output streams are added to.  ``pass_fds``: descriptors it gets besides (none in
    simulation).  ``lock``: one of the caller's, which is held until the program has ended.  After ``timeout`` seconds its
    process group is told to end, then killed; one that cannot be killed, because it waits in the kernel, is left behind,
    and collected when it has ended.  A program that is missing or fails gives a result with ``failed``, no exception.
    """
    return _here.side.RunCmd(
        argv,
        env,
        stdin.encode("utf-8") if isinstance(stdin, str) else stdin,
        timeout,
        cwd,
        umask,
        output_path,
        pass_fds,
        lock,
    )


def KillPrograms() -> None:
    """Kill what all threads of this process run with RunCmd, for a program that its user interrupts."""
    _here.side.KillPrograms()


def StartProcess(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    log_path: str | None = None,
    cwd: str | None = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Start a program in a session of its own and return its pid.

    Its output is added to ``log_path`` or dropped.  Raises errors.RunCmdError if it cannot be started.
    """
    return _here.side.StartProcess(argv, env, log_path, cwd, pass_fds)


def Pipe(room: int = 0) -> tuple[int, int]:
    """Return (reading end, writing end) of a pipe; ``room``: bytes that fit in, as far as the system allows (real side only)."""
    return _here.side.Pipe(room)


def StartProgram(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
) -> protocols.Program:
    """Start a program between descriptors, in a process group of its own (real side only).

    It is in our session, so that whoever ends all of a session ends it too.  ``Result()``: how it ended, None as long as
    it has not; ``fileno()`` becomes readable then.  ``Signal(number)`` reaches all of its group, ``Runs()`` says whether
    anything of the group does; ``Close()``, to be called when it has ended, gives its number back.
    Raises errors.RunCmdError if it cannot be started.
    """
    return _here.side.StartProgram(argv, env, stdin, stdout, stderr, pass_fds)


def OpenTap(name: str = "", vnet_hdr: bool = False, queues: int = 1) -> protocols.Tap:
    """Make a network interface that a program serves (``name``: may hold %d; the real machine only).

    Hand its descriptors on with ``pass_fds`` and close it: the interface goes with its last descriptor.
    """
    return _here.side.OpenTap(name, vnet_hdr, queues)


def OpenDevice(path: str) -> protocols.Descriptor:
    """Open a device or file for reading and writing, to be handed to another program (real side only)."""
    return _here.side.OpenDevice(path)


def WaitProcess(pid: int, timeout: float | None = None) -> bool:
    """Wait until a process has ended; return False if it still runs when the time is over."""
    return _here.side.WaitProcess(pid, timeout)


def KillProcess(pid: int, signal: int, group: bool = False) -> bool:
    """Send a signal to a process, or to its group; return False if it does not exist."""
    return _here.side.KillProcess(pid, signal, group)


def ProcessAlive(pid: int) -> bool:
    """Return whether the process runs; one that ended and was not collected does not."""
    return _here.side.ProcessAlive(pid)


def ProcessId() -> int:
    return _here.side.ProcessId()


def Fork() -> int:
    """Fork a process that has one thread only; a simulated one cannot."""
    return _here.side.Fork()


def RunInteractive(argv: Sequence[str], stdin: str | None = None, show: Callable[[str], None] | None = None) -> int:
    """Run a program at the user's terminal until it ends; return its exit code, 128 + N after signal N.

    ``stdin``: what it reads in place of the terminal, which it can still open to ask.  ``show`` gets each line that it
    writes, in a thread of its own; without it they go to the terminal as they are.  127 if it cannot be started.  A simulated
    process has no terminal.
    """
    return _here.side.RunInteractive(argv, None if stdin is None else stdin.encode("utf-8"), show)


def Environment() -> Mapping[str, str]:
    return _here.side.Environment()


# Sockets


def HostName() -> str:
    """Return the name the machine gives itself."""
    return _here.side.HostName()


def LookupHost(name: str) -> tuple[str, list[str]]:
    """Return (full name, IP addresses) of a host, in the resolver's order; raises errors.ResolverError."""
    return _here.side.LookupHost(name)


def ListenUnix(path: str, mode: int = 0o600, backlog: int = 128) -> protocols.Socket:
    """Return a listening UNIX socket that replaces whatever was at ``path``; it gets its mode before its name."""
    return _here.side.ListenUnix(path, mode, backlog)


def ConnectUnix(path: str, timeout: float | None = None) -> protocols.Socket:
    return _here.side.ConnectUnix(path, timeout)


def PeerUser(sock: protocols.Socket) -> int:
    """Return the number of the user who listens at the other end of a connected UNIX socket."""
    return _here.side.PeerUser(sock)


def ListenTcp(host: str, port: int, backlog: int = 128) -> protocols.Socket:
    """Return a listening socket; ``host`` is an address, "" stands for all; port 0 for a free one (``getsockname``)."""
    return _here.side.ListenTcp(host, port, backlog)


def ConnectTcp(host: str, port: int, timeout: float | None = None, source: str | None = None) -> protocols.Socket:
    """Connect; ``timeout`` (seconds) stays the socket's time-out.  ``source`` is the own address it comes from."""
    return _here.side.ConnectTcp(host, port, timeout, source)


def LimitSilence(descriptor: int, seconds: float) -> None:
    """End a TCP connection whose other machine confirms nothing for so long; how long an answer takes does not matter."""
    _here.side.LimitSilence(descriptor, seconds)


def KeepAlive(descriptor: int, idle: int, interval: int, count: int) -> None:
    """End a TCP connection on which nothing is under way when ``count`` questions to the other machine got no answer.

    The first comes after ``idle`` seconds of silence, the others each ``interval``.  Unlike LimitSilence, a peer may leave
    what was sent to it unread for as long as it likes.
    """
    _here.side.KeepAlive(descriptor, idle, interval, count)


def OpenUdp(host: str = "", port: int = 0, room: int = 0) -> protocols.Datagrams:
    """Open a datagram socket at this address; port 0 chooses a free one.

    ``room``: bytes of datagrams that may wait to be received, as far as the system allows; 0 leaves that to it.
    """
    return _here.side.OpenUdp(host, port, room)


def SocketPair() -> tuple[protocols.Socket, protocols.Socket]:
    return _here.side.SocketPair()


def Poller() -> protocols.Poller:
    """Wait for many sockets: ``Poll(timeout)`` returns [(sock, events)], with the objects that were registered."""
    return _here.side.Poller()


def Waker() -> protocols.Waker:
    """Register it for IN with a Poller: ``Wake()`` from any thread makes Poll return until ``Clear()``."""
    return _here.side.Waker()
