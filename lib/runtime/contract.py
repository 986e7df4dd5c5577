"""What both sides of the runtime share: results, errors, event bits.  The shapes of their objects: ``protocols``."""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

from ganeti import errors

# Events of a Poller; the numbers are those of epoll.
IN = 1
OUT = 4
ERR = 8
HUP = 16
GONE = 0x2000
"""The peer ended its side of the connection, whatever is still unread."""
EDGE = 1 << 31
"""Added to others: one event for each arrival, not one as long as there is something to read.  Real side only."""

DEFAULT_SHELL_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")

# What a program may write before the rest is dropped, per stream.
OUTPUT_LIMIT = 10 * 1024 * 1024

# Between the polite and the final signal to a program that ran out of time.
KILL_DELAY = 5.0


_UNFINISHED = re.compile(r"\.(?P<name>.+)\.new-[0-9a-f]{12}", re.DOTALL)


def UnfinishedPath(path: str, token: str) -> str:
    """Return where ``path`` is written until it is whole; ``token``: twelve hexadecimal digits."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, f".{name[:200]}.new-{token}")


def UnfinishedName(name: str) -> str | None:
    """Return the file (the first 200 characters of its name) that ``name`` was to become; None if ``name`` is whole."""
    found = _UNFINISHED.fullmatch(name)
    return found["name"] if found else None


class NewFile(NamedTuple):
    """A file to be written; -1 leaves user or group to the writing process."""

    path: str
    data: bytes
    mode: int = 0o600
    uid: int = -1
    gid: int = -1


class QueueEmpty(Exception):
    """Nothing came within the time given."""


# What is said of a link, a pipe or a device where a file is expected.
NOT_REGULAR = "It is not a regular file"


class FileTooLarge(OSError):
    """The file is larger than the caller can take."""

    def __init__(self, path: str, limit: int):
        super().__init__(errno.EFBIG, f"larger than {limit} bytes", path)


class LockBusy(errors.LockError):
    """Another process holds the file lock; ``holder`` is the number found in the file, or None."""

    def __init__(self, path: str, holder: int | None = None):
        text = f"file {path} is locked by " + (f"process {holder}" if holder else "another process")
        super().__init__(text, hint="wait until that process has ended, or end it")
        self.path = path
        self.holder = holder


def ShellQuote(text: str) -> str:
    """Quote one word for a shell, for messages."""
    if text and DEFAULT_SHELL_SAFE.issuperset(text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


class RunResult:
    """How a program ended.

    ``exit_code`` is None if a signal (``signal``) ended it; 127 and 126 stand for a program that is missing or cannot
    be run.  ``truncated``: it wrote more than OUTPUT_LIMIT; the rest was dropped.
    """

    __slots__ = ("_cause", "argv", "exit_code", "signal", "stderr", "stdout", "timeout", "truncated")

    def __init__(
        self,
        argv: Sequence[str],
        exit_code: int | None,
        signal: int | None = None,
        stdout: str = "",
        stderr: str = "",
        timeout: float | None = None,
        cause: str | None = None,
        truncated: bool = False,
    ):
        self.argv = list(argv)
        self.exit_code = exit_code
        self.signal = signal
        self.stdout = stdout
        self.stderr = stderr
        self.timeout = timeout  # set if it was ended because it took longer
        self.truncated = truncated
        self._cause = cause

    @property
    def failed(self) -> bool:
        return self.exit_code != 0 or self.timeout is not None

    @property
    def output(self) -> str:
        return self.stdout + self.stderr

    @property
    def cmd(self) -> str:
        return " ".join(ShellQuote(word) for word in self.argv)

    @property
    def cause(self) -> str:
        """How it ended, without the command: for messages that name it in words of their own."""
        if self._cause is not None:
            return self._cause
        if self.timeout is not None:
            return f"ended after {self.timeout:g} seconds without a result"
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        return f"exit code {self.exit_code}"

    @property
    def fail_reason(self) -> str:
        """Empty if it did not fail, else one line: the command and why."""
        if not self.failed:
            return ""
        text = f"command '{self.cmd}': {self.cause}"
        lines = self.stderr.strip().splitlines() or self.stdout.strip().splitlines()
        if lines:
            text += f" ({lines[-1].strip()[:500]})"
        return text

    def __repr__(self) -> str:
        return f"<RunResult {self.cmd!r} exit_code={self.exit_code} signal={self.signal}>"


def StartFailure(argv: Sequence[str], err: OSError) -> RunResult:
    """Return the result of a program that could not even be started."""
    if err.errno == errno.ENOENT and (err.filename is None or err.filename == argv[0]):
        return RunResult(argv, 127, cause="program not found; is its package installed?")
    where = f" {err.filename}" if err.filename and err.filename != argv[0] else ""
    return RunResult(argv, 126, cause=f"cannot be run:{where} {err.strerror}")


def CheckArgv(argv: Sequence[str]) -> list[str]:
    """Return the words of a command as a list; anything but non-empty texts without NUL is a bug of the caller."""
    words = list(argv)
    if isinstance(argv, str) or not words or not words[0]:
        raise errors.ProgrammerError(f"a command is a list of words, not {argv!r}")
    for word in words:
        if not isinstance(word, str) or "\0" in word:
            raise errors.ProgrammerError(f"word {word!r} cannot be an argument of {words[0]}")
    return words


def DamagedDatabase(path: str, cause: object) -> errors.StorageError:
    """Return the error for a database file that cannot be read."""
    return errors.StorageError(
        f"database {path} is damaged: {cause}",
        hint=f"stop the daemons of this node, move {path}, {path}-wal and {path}-shm away and start them again: the"
        " node then begins empty and is copied from the others; 'sqlite3 FILE .recover' may save rows of a last copy",
    )


def BusyDatabase(path: str, seconds: float) -> errors.StorageError:
    """Return the error for a database that another process kept locked."""
    return errors.StorageError(
        f"database {path} was locked by another process for {seconds:g} seconds",
        hint=f"'fuser -v {path}' shows who has it open",
    )
