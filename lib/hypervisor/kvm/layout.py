"""Files, sockets and the process of a guest (doc/reference/files.md 3, doc/reference/drivers.md b.3)."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import posixpath
import re
import signal
from collections.abc import Sequence

from ganeti import errors, pathutils, runtime
from ganeti.hypervisor.base import NotEnded
from ganeti.hypervisor.kvm.cmdline import FindOption
from ganeti.hypervisor.names import CheckInstanceName
from ganeti.utils import owndirs

# What fits into the address of a UNIX socket, without the final NUL.
SOCKET_PATH_MAX = 107
# LOOK is a second monitor of the machine: a look never waits for another conversation with the guest.
QMP, SERIAL, AGENT, LOOK = "qmp", "serial", "qga", "look"

_PID_LIMIT = 64
_PROC_LIMIT = 1024 * 1024
_STAT_LIMIT = 4096
_KILL_POLITE_SECONDS = 15.0
_KILL_FORCED_SECONDS = 10.0
# A process may have rewritten its command line: what is longer is not a number of MiB or processors.
_NUMBER = re.compile(r"(?<!\d)\d{1,9}(?!\d)", re.ASCII)


def _Dir(name: str) -> str:
    return posixpath.join(pathutils.KVM_DIR, name)


def PidFile(name: str) -> str:
    return posixpath.join(_Dir("pid"), CheckInstanceName(name))


def UidFile(name: str) -> str:
    return posixpath.join(_Dir("uid"), CheckInstanceName(name))


def RuntimeFile(name: str) -> str:
    return posixpath.join(_Dir("conf"), CheckInstanceName(name) + ".runtime")


def NicDir(name: str) -> str:
    return posixpath.join(_Dir("nic"), CheckInstanceName(name))


def NicFile(name: str, index: int) -> str:
    """Return the file that holds the name of the tap of NIC ``index``."""
    return posixpath.join(NicDir(name), str(index))


def ChrootDir(name: str) -> str:
    return posixpath.join(_Dir("chroot"), CheckInstanceName(name))


def QuarantineDir() -> str:
    return _Dir("chroot-quarantine")


def LogFile(name: str) -> str:
    return posixpath.join(pathutils.LOG_KVM_DIR, CheckInstanceName(name) + ".log")


def EmptyLog(name: str) -> None:
    """Keep the log of the start before as ``.log.1``: what comes now is this start's.

    That is durable: an older guest's words that nothing was loaded must not be there again after a loss of power.
    """
    if runtime.Exists(LogFile(name)):
        runtime.Rename(LogFile(name), LogFile(name) + ".1")


def ReadLog(name: str) -> str:
    """Return what QEMU logged since ``EmptyLog``: with a log file its error messages go there."""
    try:
        return runtime.ReadFile(LogFile(name), limit=_PROC_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def ShutdownFile(name: str) -> str:
    """Return the file that release 3.1 leaves when the guest powered itself off."""
    return posixpath.join(_Dir("ctrl"), CheckInstanceName(name) + ".shutdown")


def Socket(name: str, kind: str) -> str:
    """Return a socket's path; HypervisorError if it does not fit a socket's address."""
    path = _SocketPath(name, kind)
    if len(os.fsencode(path)) > SOCKET_PATH_MAX:
        raise errors.HypervisorError(
            f"Instance {name}: the path of its {kind} socket would have {len(os.fsencode(path))} bytes, "
            f"{SOCKET_PATH_MAX} are possible; use a shorter directory than {pathutils.RUN_DIR}"
        )
    return path


def _SocketPath(name: str, kind: str) -> str:
    """Return a path; one that does not fit a socket's address gets a digest in the place of the name."""
    path = posixpath.join(_Dir("ctrl"), f"{CheckInstanceName(name)}.{kind}")
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        return path
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return posixpath.join(_Dir("ctrl"), f"{digest}.{kind}")


def MakeDirs() -> None:
    """Make what is missing; raises StorageError for a directory of another user."""
    for path, mode in pathutils.KVM_DIRS.items():
        owndirs.MakeOwn(path, mode)
    owndirs.MakeOwn(pathutils.LOG_KVM_DIR, 0o750)


def Names() -> list[str]:
    """List instances that have a pid file or were shut down by their user, running or not."""
    names = set()
    for directory, suffix in ((_Dir("pid"), ""), (_Dir("ctrl"), ".shutdown")):
        try:
            found = runtime.ListDir(directory)
        except FileNotFoundError:
            continue
        names |= {name.removesuffix(suffix) for name in found if name.endswith(suffix) and not name.startswith(".")}
    return sorted(names)


def RemoveFiles(name: str) -> None:
    """Remove everything that a guest left here, but its chroot and user id."""
    for path in (PidFile(name), RuntimeFile(name), ShutdownFile(name), posixpath.join(_Dir("ctrl"), name + ".kvmd")):
        runtime.RemoveFile(path)
    runtime.RemoveFile(_IdentityFile(name))
    for kind in (QMP, SERIAL, AGENT, LOOK, "monitor"):
        runtime.RemoveFile(_SocketPath(name, kind))
    runtime.RemoveTree(NicDir(name))


# --- the process ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Process:
    """The QEMU process of a guest."""

    pid: int
    argv: tuple[str, ...]

    @property
    def memory(self) -> int:
        """Return the MiB it was started with."""
        found = _NUMBER.search(FindOption(self.argv, "-m") or "")
        return int(found[0]) if found else 0

    @property
    def vcpus(self) -> int:
        found = _NUMBER.search(FindOption(self.argv, "-smp") or "")
        return int(found[0]) if found else 1


def ParseArgv(data: bytes) -> tuple[str, ...]:
    """Parse a /proc/PID/cmdline."""
    return tuple(word.decode("utf-8", "surrogateescape") for word in data.rstrip(b"\0").split(b"\0"))


def IsGuest(argv: Sequence[str], name: str, pid_file: str) -> bool:
    """Return whether this command line is the guest's: its name, and its pid file if it says which."""
    known = FindOption(argv, "-name") or ""
    return known.split(",")[0] == name and FindOption(argv, "-pidfile") in (None, pid_file)


def _IdentityFile(name: str) -> str:
    """Return the file with the number and the start time of the guest's process.

    A process can rewrite or hide its command line, but not when it began: a guest that broke into its QEMU cannot look
    stopped, and no other process can look like the guest.
    """
    return posixpath.join(_Dir("identity"), CheckInstanceName(name))


def _Began(pid: int) -> str:
    """Return when a process began, in ticks since the machine did."""
    data = runtime.ReadFile(f"/proc/{pid}/stat", limit=_STAT_LIMIT)
    return data.rpartition(b")")[2].split()[19].decode()


def NoteProcess(name: str) -> Process | None:
    """Remember the process that was just started, so that it is known whatever it says of itself."""
    process = FindProcess(name)
    if process is not None:
        try:
            text = f"{process.pid} {_Began(process.pid)}\n"
        except (OSError, IndexError):
            return None
        runtime.WriteFile(_IdentityFile(name), text, mode=0o600, sync=False)
    return process


def FindProcess(name: str) -> Process | None:
    """Return the guest's living process.

    The pid file says which; it must have begun when the guest was started.  Guests that release 3.1 started have no such
    note, or an older one: their process must have the guest's command line.
    """
    pid_file = PidFile(name)
    try:
        pid = int(runtime.ReadText(pid_file, limit=_PID_LIMIT).strip())
        if pid <= 1:
            return None
        began = _Began(pid)
    except (OSError, ValueError, IndexError):
        return None
    argv, noted = _Argv(pid), _Identity(name)
    if noted.partition(" ")[0] == str(pid):
        is_guest = noted == f"{pid} {began}"
    else:
        is_guest = IsGuest(argv, name, pid_file)
    return Process(pid, argv) if is_guest and runtime.ProcessAlive(pid) else None


def _Argv(pid: int) -> tuple[str, ...]:
    """Return a process's command line; nothing if it cannot be read or is too long."""
    try:
        return ParseArgv(runtime.ReadFile(f"/proc/{pid}/cmdline", limit=_PROC_LIMIT))
    except OSError:
        return ()


def _Identity(name: str) -> str:
    try:
        return runtime.ReadText(_IdentityFile(name), limit=_PID_LIMIT).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def Kill(name: str, process: Process, at_once: bool = False) -> None:
    """End the process and wait until it is gone.

    First politely, so that it writes what it holds, then by force; ``at_once`` or a process that is stopped (SIGSTOP):
    by force.
    """
    if not at_once and not _StandsStill(process.pid):
        runtime.KillProcess(process.pid, signal.SIGTERM)
        if runtime.WaitProcess(process.pid, _KILL_POLITE_SECONDS):
            return
    runtime.KillProcess(process.pid, signal.SIGKILL)
    if not runtime.WaitProcess(process.pid, _KILL_FORCED_SECONDS):
        raise NotEnded(f"Instance {name}: process {process.pid} does not end; it probably waits for storage that hangs")


def _StandsStill(pid: int) -> bool:
    try:
        return runtime.ReadFile(f"/proc/{pid}/stat", limit=_STAT_LIMIT).rpartition(b")")[2].split()[:1] == [b"T"]
    except OSError:
        return False
